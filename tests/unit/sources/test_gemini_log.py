import json
from datetime import UTC, datetime

import pytest

from helix.errors import InputRefused
from helix.sources import gemini
from helix.types import Document
from tests.support.turns import list_texts
from tests.unit.sources.test_gemini import (
    AT,
    HEAD,
    answer,
    call,
    message,
    parse,
    put,
    read_texts,
    response,
    turns,
    user,
)


def test_repeated_ids_lists_and_rewinds_replace_messages():
    found = turns(user("u1", "Hi"), answer("a1", "Half"), user("u2", "Bye"), answer("a1", "Whole"))
    assert [(turn.id, turn.text) for turn in found] == [("u1", "Hi"), ("a1", "Whole"), ("u2", "Bye")]
    assert read_texts(user("u1", "One"), user("u2", "Two"), put(user("u2", "Second")), user("u3", "Three")) == [
        "Second",
        "Three",
    ]
    found = turns(put(user("u1", "One")), put(user("u1", "One"), answer("a1", "1")), {"$set": {"lastUpdated": AT}})
    assert [turn.id for turn in found] == ["u1", "a1"]
    records = [user("u1", "One"), answer("a1", "1"), user("u2", "Two"), answer("a2", "2")]
    assert read_texts(*records, {"$rewindTo": "u2"}, user("u3", "Next")) == ["One", "1", "Next"]
    assert read_texts(*records, {"$rewindTo": "u1"}, user("u3", "Next")) == ["Next"]
    assert read_texts(user("u1", "One"), {"$rewindTo": "gone"}) == ["One"]
    assert read_texts(
        user("u1", "One"), user("u2", "Two"), {"$rewindTo": "u1"}, user("u2", "Two"), user("u1", "One")
    ) == ["Two", "One"]


SUMMARY = user("sum", "<state_snapshot>\nAll so far.\n</state_snapshot>")


def test_summarised_messages_stay_once_and_calls_tell_them_apart():
    before = [user("u1", "One"), answer("a1", "1"), user("u2", "Two"), answer("a2", "2", call("c2"))]
    after = [
        put(SUMMARY, user("new", "Two"), answer("a2", "2", call("c2"))),
        put(SUMMARY, user("new", "Two"), answer("a2", "2", call("c2")), user("u3", "Two"), answer("a3", "3")),
    ]
    found = turns(*before, *after)
    assert [turn.id for turn in found] == ["u1", "a1", "u2", "a2", "sum", "u3", "a3"]
    assert found[4].origin == "summary"
    found = turns(user("u1", "One"), answer("a1", "", call("c1")), put(SUMMARY, answer("a2", "", call("c2"))))
    assert [turn.id for turn in found] == ["u1", "a1", "sum", "a2"]


def test_documents_may_be_one_line_or_many_and_cut_ones_are_refused():
    document = {**HEAD, "messages": [user("u1", "Hi"), answer("a1", "Hello")]}
    for indent in (None, 1, "\t"):
        (session,) = gemini.parse(Document("a.json", json.dumps(document, indent=indent) + "\n")).sessions
        assert (session.id, [turn.id for turn in session.turns]) == ("s1", ["u1", "a1"])
    text = json.dumps({**HEAD, "messages": [user("u1", "Hi")]}, indent=2)
    with pytest.raises(InputRefused, match="not valid JSON"):
        gemini.parse(Document("a.json", text[: len(text) // 2]))
    parsed = parse('{"sessionId":"s1",', user("u1", "Hi"), answer("a1", "Hello"))
    assert list_texts(parsed) == ["Hi", "Hello"]
    assert [problem.line for problem in parsed.problems] == [1]
    parsed = gemini.parse(Document("logs.json", '[\n{"type": "user"}\n]'))
    assert (parsed.sessions, [problem.line for problem in parsed.problems]) == ((), [0])


def test_model_histories_and_calls_among_the_parts():
    (session,) = parse(
        {
            "history": [
                {
                    "role": "user",
                    "parts": [{"text": "What is this?"}, {"inlineData": {"data": "AAAA"}}],
                    "ts": 1_695_000_000,
                },
                {"role": "model", "parts": [{"text": "A gauge."}]},
            ],
            "start_time": "2023-09-18T01:00:00Z",
        },
        path="a/log.json",
    ).sessions
    # printf 'a/log.json' | sha256sum
    assert session.id == "log-39eedaa2"
    assert [(turn.id, turn.role, turn.text, turn.time_quality) for turn in session.turns] == [
        ("0", "user", "What is this?", "exact"),
        ("1", "assistant", "A gauge.", "derived"),
    ]
    assert [turn.time for turn in session.turns] == [
        datetime(2023, 9, 18, 1, 20, tzinfo=UTC),
        datetime(2023, 9, 18, 1, tzinfo=UTC),
    ]
    made = {"functionCall": {"id": "c1", "name": "glob", "args": {"pattern": "*.py"}}}
    found = turns(
        message("gemini", "a1", [{"text": "Looking."}, made]),
        message("user", "u1", [response("a.py")]),
        message("user", "u2", [response("a.py")]),
        message("user", "u3", [response("found", "gone")]),
    )
    assert [(turn.id, turn.role, turn.text, turn.parent) for turn in found] == [
        ("a1", "assistant", "Looking.\n[glob] *.py", None),
        ("u1:c1", "tool", "a.py", "a1"),
        ("u3:gone", "tool", "found", None),
    ]
