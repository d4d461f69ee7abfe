"""`<private>…</private>` never reaches a store, and what is around it stays whole."""

from __future__ import annotations

import json
import time

import pytest

from helix.redact.redact import redact

GONE = "[REDACTED:private]"


@pytest.mark.parametrize(
    ("text", "left"),
    [
        ("we met <private>at Ana's flat</private> today", f"we met {GONE} today"),
        ("a\n<Private>\nmy \"salary\", is 9\n</PRIVATE>\nb", f"a\n{GONE}\nb"),
        ("one <private>a</private> two <private>b</private>", f"one {GONE} two {GONE}"),
        ("<private>key ghp_abcdefghijklmnopqrstuvwxyz0123456789 </private>", GONE),
        ("<private>outer <private>inner</private>", GONE),
        ("the tag <private> hides a passage", "the tag <private> hides a passage"),
        ("ends </private> without a begin", "ends </private> without a begin"),
        ('he said: "so <private>b "c" d</private> it is"', f'he said: "so {GONE} it is"'),
    ],
)  # fmt: skip
def test_a_passage_is_one_placeholder(text: str, left: str) -> None:
    assert redact(text)[0] == left
    assert redact(left)[0] == left


@pytest.mark.parametrize("escape", [False, True])
@pytest.mark.parametrize("indent", [None, 2])
def test_json_stays_valid(escape: bool, indent: int | None) -> None:
    said = 'before <private>a "quoted" word,\n"x": {y}</private> after'
    inner = json.dumps({"text": said, "more": ["z"]})
    raw = json.dumps({"type": "user", "text": said, "nested": inner, "end": "<private>"}, indent=indent)
    if escape:
        raw = raw.replace("<", "\\u003c").replace(">", "\\u003e")
    found = json.loads(redact(raw)[0])
    assert found["text"] == f"before {GONE} after"
    assert json.loads(found["nested"])["text"] == f"before {GONE} after"
    assert found["end"] == "<private>"
    assert redact(raw)[1]["private"] == 2


def test_a_passage_ends_with_the_string_that_holds_it() -> None:
    raw = json.dumps([{"text": "a <private>b"}, {"text": "c</private> d"}])
    assert json.loads(redact(raw)[0]) == [{"text": f"a {GONE}"}, {"text": "c</private> d"}]


def test_many_tags_take_linear_time() -> None:
    start = time.process_time()
    for text in ("<private>" * 60_000, "</private>" + '\\"<private>' * 30_000):
        redact(text)
    redact("<private>x</private>" * 30_000)
    assert time.process_time() - start < 20
