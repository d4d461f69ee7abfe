import json

from helix.sources import qwen
from helix.sources import registry as sources
from helix.types import Document
from tests.support.turns import CUT_AT, LONG, cases, check_cut, check_wrong_types, list_texts


def record(uuid, parent, kind, *parts, **fields):
    given = [{"text": part} if isinstance(part, str) else part for part in parts]
    base = {"uuid": uuid, "parentUuid": parent, "sessionId": "s1", "timestamp": "2026-06-04T10:00:00.000Z"}
    return {**base, "type": kind, "cwd": "/srv/kites", "message": {"role": "user", "parts": given}, **fields}


def call(id, **arguments):
    return {"functionCall": {"id": id, "name": "run_shell_command", "args": arguments}}


def returns(id, **response):
    return {"functionResponse": {"id": id, "name": "run_shell_command", "response": response}}


def note(uuid, parent, subtype, **payload):
    fields = {name: value for name, value in record(uuid, parent, "system").items() if name != "message"}
    return {**fields, "subtype": subtype, "systemPayload": payload}


def parse(*records, **options):
    lines = [line if isinstance(line, str) else json.dumps(line) for line in records]
    return qwen.parse(Document("x.jsonl", "\n".join(lines) + "\n"), **options)


def test_a_rewind_leaves_a_branch():
    parsed = parse(
        record("u1", None, "user", "Hi"),
        record("a1", "u1", "assistant", "Ho"),
        record("u2", "a1", "user", "One"),
        note("t1", "u2", "custom_title", customTitle="Of the branch"),
        note("w1", "a1", "rewind", targetUuid="a1"),
        record("u3", "w1", "user", "Two"),
        note("t2", "u3", "custom_title", customTitle="Two kites"),
        note("n1", "t2", "session_artifact_snapshot", summary="x"),
    )
    main, branch = parsed.sessions
    assert (main.title, [turn.text for turn in main.turns]) == ("Two kites", ["Hi", "Ho", "Two"])
    assert (branch.branch_of, [turn.text for turn in branch.turns]) == ("s1", ["One"])
    assert main.turns[2].parent == "a1"
    assert parsed.unknown == {}


def test_additions_of_hooks_are_left_out():
    added = "<qwen:user-prompt-submit-context>\nIt rains.\n</qwen:user-prompt-submit-context>"
    assert list_texts(parse(record("u", None, "user", "Hi", added))) == ["Hi"]
    shown = parse(record("u", None, "user", "Hi", added, systemPayload={"displayText": "Hi"}))
    assert (list_texts(shown), dict(shown.junk)) == (["Hi"], {"host": len(added) + 1})
    told = record("n", "u", "user", "A job ended.", subtype="notification")
    assert list_texts(parse(record("u", None, "user", "Hi"), told)) == ["Hi"]


def test_calls_results_and_thoughts():
    parsed = parse(
        record("u", None, "user", "Hi"),
        record("a", "u", "assistant", {"text": "Look.", "thought": True}),
        record("a", "u", "assistant", call("c1", command="ls"), call("c2", command="x")),
        record("r1", "a", "tool_result", returns("c1", output="a.py"), toolCallResult={"status": "success"}),
        record("r2", "r1", "tool_result", returns("c2", error="gone"), toolCallResult={"status": "error"}),
    )
    (session,) = parsed.sessions
    assert [turn.text for turn in session.turns] == [
        "Hi",
        "[run_shell_command] ls\n[run_shell_command] x",
        "a.py",
        "error: gone",
    ]
    assert [turn.parent for turn in session.turns] == [None, "u", "a", "a"]
    assert parsed.junk == {"reasoning": 5}
    cut = parse(record("a", None, "assistant", call("c")), record("r", "a", "tool_result", returns("c", output=LONG)),
                tool_chars=CUT_AT)  # fmt: skip
    check_cut(cut)


def test_records_on_one_line_are_read():
    first, second = json.dumps(record("u", None, "user", 'Hi {"a"}')), json.dumps(record("a", "u", "assistant", "Ho"))
    parsed = parse(first + second)
    assert (list_texts(parsed), parsed.problems) == (['Hi {"a"}', "Ho"], ())
    assert sources.detect(Document("x", first + second)).NAME == "qwen"
    parsed = parse(first, second[:-4])
    assert list_texts(parsed) == ['Hi {"a"}']
    assert [problem.line for problem in parsed.problems] == [2]


@cases("odd, kind",
    (note("x", "u", "wind_forecast"), "system wind_forecast"), (record("x", "u", "kite", "x"), "kite"),
    (record("x", "u", "user", "x", subtype="kite"), "user kite"))  # fmt: skip
def test_unknown_records_are_counted(odd, kind):
    parsed = parse(record("u", None, "user", "Hi"), odd)
    assert (list_texts(parsed), dict(parsed.unknown)) == (["Hi"], {kind: 1})


def test_values_of_wrong_types_cost_no_other_turn():
    check_wrong_types(
        lambda odd: parse(record("u", None, "user", "Hi"), odd, record("v", "u", "user", "Bye")),
        record("x", "u", "assistant", "x", call("c", command="ls")),
        record("x", "u", "tool_result", returns("c", output="x"), toolCallResult={"status": "error"}),
        record("x", "u", "user", "x", systemPayload={"displayText": "x"}),
        note("x", "u", "custom_title", customTitle="x"),
    )
