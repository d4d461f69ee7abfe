import json

import pytest

from helix.errors import InputRefused
from helix.sources import amp
from helix.sources.common.sample import take_sample
from helix.types import Document
from tests.support.turns import CUT_AT, LONG, cases, check_cut, check_wrong_types, list_texts


def thread(*messages, **fields):
    tree = {"uri": "file:///home/hanne/tickets", "repository": {"url": "https://example.com/hanne/tickets.git"}}
    head = {"v": 1, "id": "T-0b", "created": 1_781_100_000_000, "env": {"initial": {"trees": [tree]}}}
    return {**head, "messages": list(messages), **fields}


def message(number, role, *content, **fields):
    blocks = [{"type": "text", "text": part} if isinstance(part, str) else part for part in content]
    return {"role": role, "messageId": number, "content": blocks, **fields}


def call(id, **arguments):
    return {"type": "tool_use", "id": id, "name": "Bash", "input": arguments}


def ran(id, **run):
    return {"type": "tool_result", "toolUseID": id, "run": run}


def parse(value, **options):
    return amp.parse(Document("T-0b.json", json.dumps(value)), **options)


def test_folder_repository_and_times():
    sent = {"meta": {"sentAt": 1_781_100_001_000}}
    (session,) = parse(
        thread(message(0, "user", "Hi", **sent), message(1, "assistant", "Ho"), title="Tickets")
    ).sessions
    assert (session.id, session.title, session.project) == ("T-0b", "Tickets", "tickets")
    assert session.workspace.remote == "example.com/hanne/tickets"
    assert [(turn.id, turn.time.second, turn.time_quality) for turn in session.turns] == [
        ("0", 1, "exact"),
        ("1", 1, "derived"),
    ]


@cases("result, text",
    (ran("c", status="done", result="a"), "a"), (ran("c", status="done", result={"output": "a", "exitCode": 0}), "a"),
    (ran("c", status="done", result={"output": "a", "exitCode": 3}), "error: a"),
    (ran("c", status="error", error={"message": "a"}), "error: a"),
    (ran("c", status="done", result={"n": 1}), '{"n":1}'),
    (ran("c", status="done", result=["a", {"n": 1}]), "a"), (ran("c", status="in-progress"), None),
    ({"type": "tool_result", "tool_use_id": "c", "content": "a", "is_error": True}, "error: a"))  # fmt: skip
def test_results(result, text):
    parsed = parse(thread(message(0, "assistant", call("c", cmd="ls")), message(1, "user", result)))
    assert list_texts(parsed) == ["[Bash] ls", *([text] if text else [])]
    assert all(turn.parent == "0" for turn in parsed.sessions[0].turns[1:])


def test_unknown_blocks_are_counted_and_results_are_cut():
    parsed = parse(thread(message(0, "user", "Hi", {"type": "stub"}), message(1, "conductor", "x")))
    assert (list_texts(parsed), dict(parsed.unknown)) == (["Hi"], {"stub": 1, "role conductor": 1})
    check_cut(
        parse(thread(message(0, "assistant", call("c")), message(1, "user", ran("c", result=LONG))), tool_chars=CUT_AT)
    )


def test_only_a_thread_is_claimed():
    assert amp.detect(take_sample(json.dumps(thread(), indent=1), "x"))
    assert not amp.detect(take_sample(json.dumps(thread(id="0b")), "x"))
    with pytest.raises(InputRefused, match="no thread of Amp"):
        parse([])


def test_values_of_wrong_types_cost_no_other_turn():
    failed = ran("c", status="error", result={"output": "x", "exitCode": 1}, error={"message": "x"})
    usage = {"usage": {"timestamp": "2026-06-10T14:00:00Z"}, "meta": {"sentAt": 1_781_100_001_000}}
    check_wrong_types(
        lambda odd: parse(thread(message(0, "user", "Hi"), odd, message(9, "user", "Bye"))),
        message(1, "assistant", "Ho", call("c", cmd="x"), **usage),
        message(2, "user", failed),
    )
    for fields in ({"env": 7}, {"env": {"initial": {"trees": [7]}}}, {"created": {}, "title": []}, {"id": None}):
        assert list_texts(parse(thread(message(0, "user", "Hi"), **fields))) == ["Hi"]
