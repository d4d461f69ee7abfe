import json

import pytest

from helix.errors import InputRefused
from helix.sources import opencode
from helix.types import Document
from tests.support.paths import DATA
from tests.support.turns import CUT_AT, LONG, cases, check_cut, check_wrong_types, list_texts

LOGS = DATA / "logs"
EXPORT = LOGS / "opencode_export.json"


def parse(value, path="out/session.json", **options):
    text = value if isinstance(value, str) else json.dumps(value)
    return opencode.parse(Document(path, text), **options)


def session(*messages, **info):
    return {"info": {"id": "ses_1", "directory": "/home/mara/ferryline", "title": "T", **info}, "messages": messages}


def message(id, role, *parts, **info):
    return {"info": {"id": id, "role": role, "time": {"created": 1778482800000}, **info}, "parts": list(parts)}


def text(value, id="p", **more):
    return {"id": id, "type": "text", "text": value, **more}


def tool(id="p", name="bash", **state):
    return {"id": id, "type": "tool", "tool": name, "state": state}


def turns(*messages, **info):
    return parse(session(*messages, **info)).sessions[0].turns


def read_texts(*messages, **info):
    return [turn.text for turn in turns(*messages, **info)]


TAKEN_BACK = (
    message("m1", "user", text("one")),
    message("m2", "assistant", text("two", "p2"), tool("p3", output="x", status="completed"), text("three", "p4")),
    message("m3", "user", text("four")),
)


@cases(
    "revert, texts",
    (None, ["one", "two\n[bash]\nthree", "x", "four"]),
    ({"messageID": "m2"}, ["one"]),
    ({"messageID": "m3"}, ["one", "two\n[bash]\nthree", "x"]),
    ({"messageID": "m2", "partID": "p3"}, ["one", "two"]),
    ({"messageID": "m2", "partID": "p4"}, ["one", "two\n[bash]", "x"]),
    ({"messageID": "m2", "partID": "gone"}, ["one", "two\n[bash]\nthree", "x"]),
    ({"messageID": "m25"}, ["one", "two\n[bash]\nthree", "x"]),  # deleted already, and m3 not yet
    ({"messageID": 7}, ["one", "two\n[bash]\nthree", "x", "four"]),
    ("m2", ["one", "two\n[bash]\nthree", "x", "four"]),
)
def test_a_revert_leaves_out_reverted_messages(revert, texts):
    assert read_texts(*TAKEN_BACK, revert=revert) == texts


@cases("role, origin", ("user", "human"), ("assistant", "assistant"))
def test_the_title_of_a_message_is_no_summary(role, origin):
    (turn,) = turns(message("m1", role, text("Hi"), summary={"title": "Greeting", "diffs": []}))
    assert turn.origin == origin


@cases("mark", {"summary": True}, {"mode": "compaction"}, {"agent": "compaction"})
def test_a_summary_is_marked(mark):
    (turn,) = turns(message("m1", "assistant", text("So far"), **mark))
    assert (turn.role, turn.origin) == ("assistant", "summary")


def test_a_session_with_a_parent_is_of_a_subagent():
    found = turns(
        message("m1", "user", text("Find the bug")),
        message("m2", "assistant", tool("p2", input={"command": "ls"}, output="a.py", status="completed")),
        parentID="ses_0",
    )
    expected = [("user", "subagent"), ("assistant", "subagent"), ("tool", "subagent")]
    assert [(turn.role, turn.origin) for turn in found] == expected


@cases(
    "state, texts",
    ({"status": "completed", "input": {"command": "ls"}, "output": "a.py\n"}, ["[bash] ls", "a.py"]),
    ({"status": "success", "input": {"command": "ls"}, "output": "a.py"}, ["[bash] ls", "a.py"]),
    ({"status": "completed", "input": {}, "title": "List", "output": " "}, ["[bash] List"]),
    ({"status": "error", "input": {"command": "ls"}, "error": "denied"}, ["[bash] ls", "error: denied"]),
    ({"status": "error", "input": {"command": "ls"}, "output": "half"}, ["[bash] ls", "error: half"]),
    ({"status": "running", "input": {"command": "ls"}}, ["[bash] ls"]),
    ({"status": "pending", "input": {}, "raw": "{"}, ["[bash]"]),
)
def test_a_tool_is_a_line_and_a_result(state, texts):
    assert read_texts(message("m1", "assistant", tool("p1", **state))) == texts


@cases("name, given", ("helix_recall", {"query": "a"}), ("bash", {"command": "helix recall a"}))
def test_results_of_helix_are_no_turns(name, given):
    asked = tool("p1", name, status="completed", input=given, output="We took DuckDB")
    parsed = parse(session(message("m1", "assistant", asked, text("So.", "p2"))))
    assert list_texts(parsed) == ["So."]
    assert parsed.junk == {"memory": len("We took DuckDB")}


def test_ids_stay_apart_and_host_texts_are_left_out():
    assert [turn.id for turn in turns(*[message("m1", "user", text("a"))] * 3)] == ["m1", "m1-2", "m1-3"]
    nameless = {"info": {"role": "assistant"}, "parts": [{"type": "step-start"}, {**tool(output="x"), "id": None}]}
    value = {"info": {"title": "T"}, "messages": [{"info": {"role": "user"}, "parts": []}, nameless]}
    (found,) = parse(value, path="a/b.json").sessions
    assert [turn.id for turn in found.turns] == ["1", "1:1"]
    assert found.turns[0].time is None
    assert found.turns[0].time_quality == "none"
    assert found.id.startswith("b-")
    found = turns(
        message("m1", "user", {"type": "compaction"}),
        message("m2", "assistant", text("a"), parentID="m1", summary=True),
    )
    assert [(turn.id, turn.parent) for turn in found] == [("m2", None)]
    assert parse(session(*TAKEN_BACK, revert={"messageID": "m1"})).sessions == ()
    parsed = parse(session(message("m1", "user", text("<file>x</file>", synthetic=True), text("note", ignored=True))))
    assert parsed.sessions == ()
    assert parsed.junk == {"host": len("<file>x</file>") + len("note")}
    value = session(message("m1", "assistant", tool("p1", status="completed", output=LONG)))
    parsed = parse(value, tool_chars=CUT_AT)
    check_cut(parsed)


@cases(
    "info, title, project",
    ({"title": "Mine", "directory": "C:\\work\\ferryline"}, "Mine", "ferryline"),
    ({"title": "New session - 2026-05-11T07:00:00.000Z", "directory": "/"}, "Why twice?", None),
    ({"title": "Child session - 2026-05-11T07:00:00.000Z"}, "Why twice?", "ferryline"),
    ({"title": "", "directory": None}, "Why twice?", "srv"),  # the top folder of its repository
    ({"title": "x" * 200}, "x" * 79 + "…", "ferryline"),
)
def test_title_and_project(info, title, project):
    path = {"cwd": "/srv/elsewhere", "root": "/srv"}
    value = session(
        message("m1", "user", text("Why\ntwice?")), message("m2", "assistant", text("So"), path=path), **info
    )
    (found,) = parse(value).sessions
    assert (found.title, found.project) == (title, project)


@cases("given", EXPORT.read_text()[:9000], "[]", '{"info":{}}', '{"info":{},"messages":{}}', "", '"x"')
def test_parts_of_a_session_are_refused(given):
    with pytest.raises(InputRefused) as refused:
        parse(given)
    assert refused.value.remedy


def test_values_of_wrong_types_cost_no_other_turn():
    used = tool("p", status="error", input={"command": "ls"}, output="x", error="denied", title="x", time={"start": 1})
    about = {"parentID": "m1", "path": {"cwd": "/srv"}, "summary": {"title": "x"}, "mode": "build", "agent": "build"}
    first, last = message("m1", "user", text("Hi")), message("m9", "user", text("Bye"))
    check_wrong_types(
        lambda odd: parse(session(first, odd, last)),
        message("x", "user", text("x", synthetic=False, time={"start": 1}), {"type": "file", "filename": "x"}),
        message("x", "assistant", used, {"type": "reasoning", "text": "hm"}, **about),
    )
    for name, value in {"time": {"created": 1}, "title": "T", "directory": "/w", "parentID": "ses_0"}.items():
        check_wrong_types(lambda odd, name=name: parse(session(first, last, **{name: odd})), value)
