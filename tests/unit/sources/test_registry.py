import json

import pytest

from helix.errors import InputRefused, UsageError
from helix.sources import registry as sources
from helix.types import Document
from tests.support.paths import ROOT
from tests.support.turns import CUT, CUT_AT, LONG, cases

GENERIC = '{"text":"Hi"}\n'
NOTES = "# Top\nHi\n"


def detect(text, path="x"):
    return sources.detect(Document(path, text)).NAME


@cases("text",
    json.dumps({"messages": [{"role": "user", "content": "Hi"}]}),
    json.dumps({"messages": [{"role": "user", "content": "Hi"}]}, indent=2), json.dumps([{"text": "Hi"}]),
    json.dumps([{"text": "Hi"}], indent=1), "{}", "[1, 2]",
    '{"timestamp":"2026","payload":{}}\n{"timestamp":"2026","payload":{}}\n',
    '{"role":"user","message":{"content":"Hi"}}\n', '{"messages": [\n{"role": "user", "content": "Hi"}\n]}',
)  # fmt: skip
def test_json_of_no_known_layout_is_refused_with_a_remedy(text):
    with pytest.raises(InputRefused, match=r"^unknown format.*one turn a line.*--format"):
        sources.parse(Document("x.json", text))


def test_a_format_may_be_named():
    parsed = sources.parse(Document("x", GENERIC), "markdown")
    assert parsed.sessions[0].source == "markdown"
    with pytest.raises(UsageError, match=r"'csv'.*captions, .*jsonl, markdown"):
        sources.parse(Document("x", NOTES), "csv")


def test_the_cap_on_tool_results_can_be_chosen():
    block = {"type": "tool_result", "content": LONG}
    line = json.dumps({"type": "user", "uuid": "u", "sessionId": "s", "message": {"content": [block]}})
    (short,) = sources.parse(Document("x", line), tool_chars=CUT_AT).sessions[0].turns
    assert short.text == CUT
    (whole,) = sources.parse(Document("x", line)).sessions[0].turns
    assert len(whole.text) == 1_000


def test_every_format_declares_how_it_is_read():
    json = [name for name in sources.FORMATS if sources.FORMATS[name].JSON]
    assert (json[-1], list(sources.FORMATS)[-1]) == ("jsonl", "markdown")  # what is left to them is anything
    assert all(name == adapter.NAME for name, adapter in sources.FORMATS.items())
    for adapter in sources.FORMATS.values():
        assert isinstance(adapter.JSON, bool)
        assert isinstance(adapter.GROWS, bool)
    grows = {name for name, adapter in sources.FORMATS.items() if adapter.GROWS}
    assert grows == {"claude-code", "codex", "gemini", "cursor", "copilot-cli", "aider", "jsonl"}
    formats = (ROOT / "docs" / "formats.md").read_text()
    assert all(f"`{name}`" in formats for name in sources.FORMATS)
