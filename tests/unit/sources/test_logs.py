"""Logs of every format, in whole.

`tests/support/data/parsed` records how each one is read: a line for a session, a line for a turn, then problems and
counts. After a change that is wanted, `python -m tests.unit.sources.test_logs` records it again.
"""

import json
from dataclasses import asdict, replace
from datetime import UTC, datetime

import pytest

from helix.errors import InputRefused, UsageError
from helix.sources import registry as sources
from helix.sources.common.sample import take_sample
from helix.types import Document, Turn
from tests.support.paths import DATA, ROOT
from tests.support.turns import CUT, CUT_AT, LONG, cases

LOGS, RECORDS = DATA / "logs", DATA / "parsed"
MTIME = datetime(2026, 1, 1, tzinfo=UTC)
DROPPED = {
    "codex.jsonl": 2,
    "copilot_cli.jsonl": 3,
    "gemini.jsonl": 2,
    "pi.jsonl": 2,
    "qwen.jsonl": 2,
}  # turns of a log that a rollback drops
TURN = asdict(Turn("", ""))


def read_documents():
    """Return the documents of the logs, by name."""
    found = {}
    for path in sorted(path for path in LOGS.rglob("*") if path.is_file()):
        collected = list(sources.collect(path) or ())
        texts = [text for _, text, _ in collected] or ([] if sources.is_companion(path) else [path.read_text()])
        found |= {path.relative_to(LOGS).as_posix(): Document(f"logs/{path.name}", text, MTIME) for text in texts}
    del found["cursor_store.json"]  # the rows of a database, not its text
    return found


DOCUMENTS = read_documents()


def adapter_of(name):
    return sources.detect(DOCUMENTS[name])


def write_record(name):
    parsed = adapter_of(name).parse(DOCUMENTS[name])
    rows = []
    for session in parsed.sessions:
        fields = {name: value for name, value in asdict(session).items() if name != "turns"}
        rows.append({name: value for name, value in fields.items() if name not in ("workspace", "exported") or value})
        turns = map(asdict, session.turns)
        rows += [{name: value for name, value in turn.items() if value != TURN[name]} for turn in turns]
    rows.append({"problems": parsed.problems, "unknown": dict(sorted(parsed.unknown.items())), "junk": parsed.junk})
    return "".join(json.dumps(row, ensure_ascii=False, default=str) + "\n" for row in rows)


def turns_of(parsed):
    return {(session.id, turn.id): turn for session in parsed.sessions for turn in session.turns}


def record_of(name):
    return RECORDS / f"{name.replace('/', '__')}.jsonl"


@pytest.mark.parametrize("name", DOCUMENTS)
def test_a_log_is_read_as_recorded(name):
    assert write_record(name).splitlines() == record_of(name).read_text().splitlines()


def build_text(row):
    """Return the text of a row: as written, a part of a log, or one character many times."""
    inner = (LOGS / row["log"]).read_text()[slice(*row["range"])] if "log" in row else ""
    return row.get("text") or row.get("before", "") + inner + row.get("fill", "") * row.get("times", 0) + row.get(
        "after", ""
    )


def test_adapters_claim_only_their_own_texts():
    """A row of `claims.jsonl` is a text, and formats that claim it, that leave it alone, or as which it is detected."""
    wrong = []
    for line in (DATA / "claims.jsonl").read_text().splitlines():
        row = json.loads(line)
        text, path = build_text(row), row["path"]
        claims = {name for name, adapter in sources.FORMATS.items() if adapter.detect(take_sample(text, path))}
        fits = claims >= set(row.get("claimed_by", ())) and claims.isdisjoint(row.get("left_by", ()))
        name = row.get("detected_as")
        if not fits or (name and name != sources.detect(Document(path, text)).NAME):
            wrong.append((claims, line))
    assert wrong == []


@pytest.mark.parametrize("name", DOCUMENTS)
def test_a_log_is_claimed_only_by_its_own_adapter(name):
    """`jsonl` claims any text with a text a line, and Markdown any other: both come last."""
    own, text = adapter_of(name), DOCUMENTS[name].text
    for head in (text, f"{text}\n", f"\n\n{text}"):
        sample = take_sample(head, "x")
        claims = {other.NAME for other in sources.FORMATS.values() if other.detect(sample)}
        assert claims - {"jsonl", "markdown"} == {own.NAME}


@pytest.mark.parametrize("name", [name for name in DOCUMENTS if adapter_of(name).GROWS and name != "gemini.json"])
def test_turns_stay_when_a_log_grows(name):
    """Only the last turn may still grow, and only a rollback drops turns. Gemini writes an answer again."""
    document, adapter = DOCUMENTS[name], adapter_of(name)
    lines = document.text.splitlines(keepends=True)
    whole = turns_of(adapter.parse(document))
    dropped = set()
    for end in range(1, len(lines)):
        part = turns_of(adapter.parse(replace(document, text="".join(lines[:end]))))
        dropped |= part.keys() - whole.keys()
        stay = [key for key in part if key in whole]
        assert stay == [key for key in whole if key in part]
        for key in stay if adapter.NAME != "gemini" else ():
            steps = part[key].steps  # a command that prints nothing has its result in the turn of the call
            assert whole[key].steps[: len(steps)] == steps
            grown = replace(part[key], steps=whole[key].steps)
            grown = replace(grown, text=whole[key].text) if key == list(part)[-1] else grown
            assert grown == whole[key]
            assert whole[key].text.startswith(part[key].text) or adapter.NAME == "aider"  # an edit is still open
    assert len(dropped) == DROPPED.get(name, 0)


GENERIC = '{"text":"Hi"}\n'
NOTES = "# Top\nHi\n"


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
    with pytest.raises(UsageError, match=r"'csv'.*captions, .*jsonl, .*markdown"):
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
    assert grows == {
        *("claude-code", "codex", "gemini", "cursor", "copilot-cli", "aider", "jsonl"),
        *("kimi", "droid", "qwen", "pi", "antigravity"),
    }
    formats = (ROOT / "docs" / "reference" / "formats.md").read_text()
    assert all(f"`{name}`" in formats for name in sources.FORMATS)


if __name__ == "__main__":
    RECORDS.mkdir(exist_ok=True)
    for name in DOCUMENTS:
        record_of(name).write_text(write_record(name))
