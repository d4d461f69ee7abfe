import json

import pytest

from helix.errors import InputRefused
from helix.sources import hermes
from helix.sources.common.sample import take_sample
from helix.types import Document
from tests.support.turns import CUT_AT, LONG, check_cut, check_wrong_types, list_texts


def session(*messages, **fields):
    return {"session_id": "s1", "session_start": "2026-06-08T14:00:00", "messages": list(messages), **fields}


def call(id, **arguments):
    function = {"name": "shell", "arguments": json.dumps(arguments)}
    return {"role": "assistant", "content": None, "tool_calls": [{"id": id, "type": "function", "function": function}]}


def result(id, content, **fields):
    return {"role": "tool", "tool_call_id": id, "content": content, **fields}


def parse(value, **options):
    return hermes.parse(Document("x.json", json.dumps(value)), **options)


def test_folder_title_and_system_prompt():
    parsed = parse(session({"role": "user", "content": "Hi"}, system_prompt="You are Hermes.", cwd="/srv/greenhouse"))
    (found,) = parsed.sessions
    assert (found.id, found.title, found.project) == ("s1", "Hi", "greenhouse")
    assert parsed.junk == {"host": len("You are Hermes.")}
    assert (found.turns[0].time_quality, found.turns[0].time.hour) == ("derived", 14)


def test_calls_and_failed_results():
    parsed = parse(
        session(
            call("c1", command="ls"),
            result("c1", "a"),
            call("c2", command="x"),
            result("c2", "no", finish_reason="error"),
        )
    )
    assert list_texts(parsed) == ["[shell] ls", "a", "[shell] x", "error: no"]
    assert [turn.parent for turn in parsed.sessions[0].turns] == [None, "0", None, "2"]
    check_cut(parse(session(call("c"), result("c", LONG)), tool_chars=CUT_AT))


def test_unknown_roles_are_counted_and_thoughts_once():
    said = {"role": "assistant", "content": "Ho", "reasoning": "hm", "reasoning_content": "hm"}
    parsed = parse(session(said, {"role": "gardener"}, {"role": "session_meta"}))
    assert (list_texts(parsed), dict(parsed.unknown), dict(parsed.junk)) == (
        ["Ho"],
        {"role gardener": 1},
        {"reasoning": 2},
    )


def test_only_a_session_is_claimed():
    assert hermes.detect(take_sample(json.dumps(session()), "x"))
    assert not hermes.detect(take_sample(json.dumps({"session_id": "s", "messages": []}), "x"))
    with pytest.raises(InputRefused, match="no session of Hermes"):
        parse({"messages": 3})


def test_values_of_wrong_types_cost_no_other_turn():
    def ask(text):
        return {"role": "user", "content": text}

    check_wrong_types(
        lambda odd: parse(session(ask("Hi"), odd, ask("Bye"))),
        call("c1", command="ls"),
        result("c1", [{"type": "text", "text": "x"}], finish_reason="error", timestamp="2026-06-08T14:00:00"),
    )
    for fields in ({"model_config": 7}, {"cwd": [], "title": {}}, {"session_start": []}, {"session_id": 7}):
        assert list_texts(parse(session(ask("Hi"), **fields))) == ["Hi"]
