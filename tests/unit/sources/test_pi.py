import json

from helix.sources import pi
from helix.types import Document
from tests.support.turns import CUT_AT, LONG, cases, check_cut, check_wrong_types, list_texts

START = {"type": "session", "version": 3, "id": "s1", "timestamp": "2026-06-05T11:00:00.000Z", "cwd": "/srv/beacon"}


def entry(id, parent, kind, **fields):
    return {"type": kind, "id": id, "parentId": parent, "timestamp": "2026-06-05T11:00:01.000Z", **fields}


def message(id, parent, role, *content, **fields):
    blocks = [{"type": "text", "text": part} if isinstance(part, str) else part for part in content]
    return entry(id, parent, "message", message={"role": role, "content": blocks, **fields})


def call(id, **arguments):
    return {"type": "toolCall", "id": id, "name": "bash", "arguments": arguments}


def result(id, parent, of, text, **fields):
    return message(id, parent, "toolResult", text, toolCallId=of, toolName="bash", **fields)


def parse(*records, **options):
    return pi.parse(Document("x.jsonl", "".join(json.dumps(record) + "\n" for record in records)), **options)


def test_going_back_leaves_a_branch_with_its_summary():
    parsed = parse(
        START,
        message("a", None, "user", "Hi"),
        message("b", "a", "assistant", "Ho"),
        message("c", "b", "user", "One"),
        entry("d", "b", "branch_summary", fromId="c", summary="One was tried."),
        message("e", "d", "user", "Two"),
        entry("f", "e", "session_info", name="Two beacons"),
    )
    main, branch = parsed.sessions
    assert (main.id, main.title, main.project) == ("s1", "Two beacons", "beacon")
    assert [(turn.text, turn.origin) for turn in main.turns][2:] == [("One was tried.", "summary"), ("Two", "human")]
    assert (branch.branch_of, [turn.text for turn in branch.turns]) == ("s1", ["One"])


def test_results_are_below_their_calls_whatever_their_parent():
    for parent in ("b", "t1", "gone"):
        parsed = parse(
            START,
            message("a", None, "user", "Hi"),
            message("b", "a", "assistant", call("t1", command="x")),
            result("c", parent, "t1", "no such file", isError=True),
            message("d", "c", "assistant", "It is gone."),
        )
        found = {turn.id: (turn.text, turn.parent) for session in parsed.sessions for turn in session.turns}
        assert found["c"] == ("error: no such file", "b")
        assert len(parsed.sessions) == (2 if parent == "gone" else 1)
    cut = parse(START, message("a", None, "assistant", call("t")), result("b", "a", "t", LONG), tool_chars=CUT_AT)
    check_cut(cut)


def test_the_first_version_has_no_tree():
    def strip(record):
        return {name: value for name, value in record.items() if name not in ("id", "parentId")}

    lines = [message("a", None, "user", "Hi"), message("b", "a", "assistant", "Ho"), message("c", "b", "user", "Bye")]
    (session,) = parse(START, *map(strip, lines)).sessions
    assert [(turn.id, turn.text, turn.parent) for turn in session.turns] == [
        ("2", "Hi", None),
        ("3", "Ho", "2"),
        ("4", "Bye", "3"),
    ]


def test_own_commands_and_additions():
    run = entry("b", "a", "message", message={"role": "bashExecution", "command": "ls", "output": "x", "exitCode": 1})
    added = entry("c", "b", "custom_message", customType="notes", content="Added.", display=False)
    parsed = parse(START, message("a", None, "user", "Hi"), run, added, message("d", "c", "system", "Added, too."))
    assert list_texts(parsed) == ["Hi", "$ ls", "error: x"]
    assert parsed.junk == {"host": len("Added.") + len("Added, too.")}


@cases("odd, kind", (entry("x", "a", "foghorn"), "foghorn"), (message("x", "a", "gull", "x"), "role gull"),
    (message("x", "a", "user", {"type": "wave"}), "wave"))  # fmt: skip
def test_unknown_records_are_counted(odd, kind):
    parsed = parse(START, message("a", None, "user", "Hi"), odd)
    assert (list_texts(parsed), dict(parsed.unknown)) == (["Hi"], {kind: 1})


def test_values_of_wrong_types_cost_no_other_turn():
    check_wrong_types(
        lambda odd: parse(START, message("u", None, "user", "Hi"), odd, message("v", "u", "user", "Bye")),
        message("x", "u", "assistant", "x", call("c", command="ls"), errorMessage="x"),
        result("x", "u", "c", "x", isError=True),
        entry("x", "u", "compaction", summary="x"),
        entry("x", "u", "custom_message", content=[{"type": "text", "text": "x"}]),
        entry("x", "u", "message", message={"role": "bashExecution", "command": "ls", "output": "x", "exitCode": 1}),
        entry("x", "u", "session_info", name="x"),
    )
