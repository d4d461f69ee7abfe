import json

from helix.sources import copilot_cli
from helix.types import Document
from tests.support.turns import CUT_AT, LONG, cases, check_cut, check_wrong_types, list_texts, load_texts


def event_id(number):
    return f"{number:08d}-5c1e-4a7b-8d2f-3e4f5a6b7c8d"


def event(id, kind, parent=None, **data):
    return {"type": kind, "data": data, "id": id, "timestamp": "2026-05-28T15:00:00.000Z", "parentId": parent}


def asks(id, content, parent=None, **data):
    return event(id, "user.message", parent, content=content, **data)


def answers(id, content, parent=None, *calls, **data):
    return event(id, "assistant.message", parent, content=content, toolRequests=calls, **data)


def call(id, name="bash", **arguments):
    return {"toolCallId": id, "name": name, "arguments": arguments}


def result(id, of, content, parent=None, success=True, **data):
    return event(
        id, "tool.execution_complete", parent, toolCallId=of, success=success, result={"content": content}, **data
    )


def parse(*records, path="session-state/3f/events.jsonl", **options):
    lines = [record if isinstance(record, str) else json.dumps(record) for record in records]
    return copilot_cli.parse(Document(path, "\n".join(lines) + "\n"), **options)


def turns(*records, **options):
    return parse(*records, **options).sessions[0].turns


def read_texts(*records, **options):
    return [turn.text for turn in turns(*records, **options)]


@cases("record, texts",
    (answers("a", "", None, call("c", command="ls")), ["[bash] ls"]),
    (answers("a", "", None, {"name": "view", "arguments": '{"path":"a.py"}'}), ["[view] a.py"]),
    (answers("a", "", None, {"name": "apply_patch", "arguments": "*** Begin"}), ["[apply_patch] *** Begin"]),
    (result("r", "c", "done\n"), ["done"]), (result("r", "c", "exit code: 1", success=False), ["error: exit code: 1"]),
    (result("r", "c", "", success=False, error={"message": "denied"}), ["error: denied"]), (result("r", "c", ""), []),
    (event("t", "tool.user_requested", toolName="bash", arguments={"command": "ls"}), ["$ ls"]),
    (event("t", "tool.user_requested", toolName="x", arguments="ls"), []),
    (asks("u", "<memory>\nold\n</memory>\nmine"), ["mine"]), (asks("u", "by the host", source="autopilot"), []),
    (event("c", "session.compaction_complete", success=False), []))  # fmt: skip
def test_events(record, texts):
    assert read_texts(asks("u0", "Hi"), record) == ["Hi", *texts]


@cases("record",
    answers("a", "found", None, parentToolCallId="c"), asks("a", "find", parentAgentTaskId="t"),
    {**answers("a", "found"), "agentId": "agent-1"})  # fmt: skip
def test_turns_of_subagents_are_marked(record):
    assert [turn.origin for turn in turns(record)] == ["subagent"]


def test_rewinds_parents_and_results():
    records = [
        asks("u1", "one"), answers("a1", "two", "u1"), asks("u2", "three", "a1"),
        event("w", "session.snapshot_rewind", "u2", upToEventId="u2"), asks("u3", "four", "w")]  # fmt: skip
    assert [(turn.text, turn.parent) for turn in turns(*records)] == [("one", None), ("two", "u1"), ("four", "a1")]
    everything = event("w", "session.snapshot_rewind", "u2", upToEventId="u1")
    assert [(turn.text, turn.parent) for turn in turns(*records[:3], everything, records[4])] == [("four", None)]
    unknown = event("w", "session.snapshot_rewind", "u2", upToEventId="elsewhere")
    assert read_texts(*records[:3], unknown) == ["one", "two", "three"]
    found = turns(
        asks("u1", "one"), event("x", "assistant.turn_start", "u1"), event("y", "comet.seen", "x"),
        answers("a1", "two", "y"), answers("a2", "three", "missing"))  # fmt: skip
    assert [turn.parent for turn in found] == [None, "u1", None]
    parsed = parse(
        answers("a", "Let me see.", None, call("c1", "helix-recall", query="a"), call("c2", command="ls")),
        result("r1", "c1", "We took DuckDB", "a"),
        result("r2", "c2", "a.py", "r1"),
    )
    assert list_texts(parsed) == ["Let me see.\n[bash] ls", "a.py"]
    assert parsed.junk == {"memory": len("We took DuckDB")}
    parsed = parse(result("r", "c", LONG), tool_chars=CUT_AT)
    check_cut(parsed)


@cases("kind", *load_texts("copilot_cli", "events_that_say_nothing_are_known"))
def test_events_that_say_nothing_are_known(kind):
    parsed = parse(asks("u", "Hi"), event("x", kind, content="x"))
    assert len(parsed.sessions[0].turns) == 1
    assert parsed.unknown == {}


@cases("kind", "session.of_tomorrow", "assistant.sings", "abort.now", None, ["x"])
def test_other_events_are_counted(kind):
    parsed = parse(asks("u", "Hi"), event("x", kind, content="x"))
    assert len(parsed.sessions[0].turns) == 1
    assert sum(parsed.unknown.values()) == 1


@cases("records, id, project",
    ((event("s", "session.start", sessionId="s1", context={"cwd": "/srv/beacon"}),), "s1", "beacon"),
    ((event("s", "session.start", sessionId="s1"), event("r", "session.resume", context={"cwd": "/a/b"})), "s1", "b"),
    ((event("s", "session.start", sessionId=7, context=7),), "events-", None), ((), "events-", None))  # fmt: skip
def test_session_and_project(records, id, project):
    (found,) = parse(*records, asks("u", "Hi")).sessions
    assert found.id.startswith(id)
    assert (found.project, found.title) == (project, "Hi")


def test_a_log_may_be_broken_or_empty_and_its_ids_repeat():
    parsed = parse(asks("u", "Hi"), "{half", answers("a", "Ho", "u"))
    assert list_texts(parsed) == ["Hi", "Ho"]
    assert [problem.line for problem in parsed.problems] == [2]
    assert parse(event("s", "session.start", sessionId="s1")).sessions == ()
    assert parse("").sessions == ()
    parsed = parse(asks("u1", "a"), asks("u1", "b"), asks(None, "c"), asks(event_id(1), "d"))
    expected = [("u1", False), ("u1-2", False), ("3", False), (event_id(1), True)]
    assert [(turn.id, turn.unique) for turn in parsed.sessions[0].turns] == expected


def test_values_of_wrong_types_cost_no_other_turn():
    check_wrong_types(
        lambda odd: parse(asks("u", "Hi"), odd, asks("v", "Bye")),
        asks("x", "x", "u", source="user", parentAgentTaskId="t"),
        answers("x", "x", "u", call("c", command="ls"), reasoningText="hm", parentToolCallId="c"),
        result("x", "c", "x", "u", error={"message": "denied"}),
        result("x", "c", "", "u", success=False, error={"message": "denied"}),
        event("x", "session.start", sessionId="s1", context={"cwd": "/srv"}),
        event("x", "session.snapshot_rewind", upToEventId="gone"),
        event("x", "session.title_changed", title="T"),
        event("x", "session.compaction_complete", success=True, summaryContent="x"),
        event("x", "session.error", message="x"),
        event("x", "tool.user_requested", toolName="bash", arguments={"command": "ls"}),
    )
