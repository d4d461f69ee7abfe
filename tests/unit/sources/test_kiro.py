import json
import shutil
import sqlite3

from helix.sources import kiro
from helix.sources import registry as sources
from helix.types import Document
from tests.support.paths import DATA
from tests.support.turns import CUT_AT, LONG, cases, check_cut, check_wrong_types, list_texts

HEAD = {"kiro": "s1", "cwd": "/srv/sundial"}


def entry(content, *answers):
    assistant = {name: value for answer in answers for name, value in answer.items()}
    return {"user": {"content": content, "timestamp": "2026-06-13T10:00:00Z"}, "assistant": assistant}


def prompt(words):
    return {"Prompt": {"prompt": words}}


def results(*found):
    rows = [{"tool_use_id": id, "content": content, "status": status} for id, content, status in found]
    return {"ToolUseResults": {"tool_use_results": rows}}


def uses(words, *calls):
    made = [{"id": id, "name": "execute_bash", "args": {"command": command}} for id, command in calls]
    return {"ToolUse": {"message_id": "m1", "content": words, "tool_uses": made}}


def line(kind, *parts, **data):
    return {"version": "v1", "kind": kind, "data": {"content": list(parts), **data}}


def part(kind, data):
    return {"kind": kind, "data": data}


def event(kind, **payload):
    return {"timestamp": "2026-06-15T12:00:00Z", "payload": {"type": kind, **payload}}


def parse(*records, **options):
    return kiro.parse(Document("x", "".join(json.dumps(record) + "\n" for record in records)), **options)


def test_conversations_of_the_database(tmp_path):
    path = tmp_path / "data.sqlite3"
    conversation = {"history": [entry(prompt("Hi"), {"Response": {"message_id": "m", "content": "Ho"}})]}
    with sqlite3.connect(path) as database:
        database.execute("CREATE TABLE conversations_v2 (key, conversation_id, value, created_at, updated_at)")
        row = ("/srv/sundial", "c1", json.dumps(conversation), 1_781_344_800_000, 1_781_344_900_000)
        database.execute("INSERT INTO conversations_v2 VALUES (?, ?, ?, ?, ?)", row)
        database.execute("INSERT INTO conversations_v2 VALUES ('/x', 'c2', '{', 1, 1)")
    database.close()
    first, second = sources.collect(path)
    (session,) = sources.parse(Document("x", first.text)).sessions
    assert (session.id, session.project, [turn.text for turn in session.turns]) == ("c1", "sundial", ["Hi", "Ho"])
    assert sources.parse(Document("x", second.text)).sessions == ()


def test_logs_are_collected_with_their_facts(tmp_path):
    shutil.copytree(DATA / "logs" / "kiro", tmp_path / "sessions")
    (log,) = (tmp_path / "sessions" / "cli").glob("*.jsonl")
    (found,) = kiro.collect(log)
    (session,) = kiro.parse(Document("x", found.text)).sessions
    assert (session.title, session.project, session.turns[0].id) == ("Summer time on the dial", "sundial", "p1")
    assert kiro.is_companion(log.with_suffix(".json"))
    (events,) = (tmp_path / "sessions").rglob("messages.jsonl")
    assert [part.text.splitlines()[0] for part in kiro.collect(events)] == [
        '{"kiro":"77aa","createdAt":"2026-06-15T12:00:00Z"}'
    ]
    assert kiro.is_companion(events.with_name("session.json"))
    other = tmp_path / "notes.json"
    other.write_text("{}")
    assert (kiro.is_companion(other), kiro.collect(other)) == (False, None)
    log.with_suffix(".json").unlink()
    assert kiro.collect(log) is None
    assert sources.detect(Document("x", log.read_text())).NAME == "kiro"


def test_the_first_engine():
    parsed = parse(
        {**HEAD, "history": [
            entry(prompt("Hi"), uses("I look.", ("t1", "ls"), ("t2", "x"))),
            entry(results(("t1", [{"Text": "a"}], "Success"), ("t2", [{"Json": {"n": 1}}], "Error"))),
        ]},
    )  # fmt: skip
    assert list_texts(parsed) == ["Hi", "I look.\n[execute_bash] ls\n[execute_bash] x", "a", 'error: {"n":1}']
    assert [turn.parent for turn in parsed.sessions[0].turns] == [None, None, "m1", "m1"]


def test_the_second_engine():
    called = part("toolUse", {"toolUseId": "t", "name": "shell", "input": {"command": "x"}})
    returned = part("toolResult", {"toolUseId": "t", "content": [part("text", "no")], "status": "error"})
    parsed = parse(
        line("Prompt", part("text", "Hi"), message_id="p", meta={"timestamp": 1_781_434_800}),
        line("AssistantMessage", part("thinking", "hm"), part("text", "Ho"), called, message_id="a"),
        line("ToolResults", returned),
    )
    assert [(turn.id, turn.text) for turn in parsed.sessions[0].turns] == [
        ("p", "Hi"),
        ("a", "Ho\n[shell] x"),
        ("3", "error: no"),
    ]
    assert parsed.junk == {"reasoning": 2}


def test_the_third_engine():
    parsed = parse(
        event("user", content="Hi"),
        event("assistant", operationType="Think", content="hm"),
        event("tool_call", toolCallId="t", toolName="shell", args={"command": "x"}),
        event("tool_result", toolCallId="t", content=LONG, success=True),
        tool_chars=CUT_AT,
    )
    assert list_texts(parsed)[:2] == ["Hi", "[shell] x"]
    assert parsed.junk.pop("reasoning") == 2
    check_cut(parsed)
    parent = {**HEAD, "parent_session_id": "s0"}
    assert [turn.origin for turn in parse(parent, event("user", content="Hi")).sessions[0].turns] == ["subagent"]


@cases(
    "odd, kind", (line("Eclipse"), "Eclipse"), (event("shadow"), "shadow"), (line("Prompt", part("ray", "x")), "ray")
)
def test_unknown_records_are_counted(odd, kind):
    parsed = parse(event("user", content="Hi"), odd)
    assert (list_texts(parsed), dict(parsed.unknown)) == (["Hi"], {kind: 1})


def test_values_of_wrong_types_cost_no_other_turn():
    check_wrong_types(
        lambda odd: parse(event("user", content="Hi"), odd, event("user", content="Bye")),
        {
            **HEAD,
            "history": [entry(prompt("x"), uses("x", ("t", "x"))), entry(results(("t", [{"Text": "x"}], "Error")))],
        },
        line("AssistantMessage", part("text", "x"), part("toolUse", {"toolUseId": "t", "name": "x", "input": {}})),
        line("ToolResults", part("toolResult", {"toolUseId": "t", "content": [part("text", "x")], "status": "x"})),
        event("tool_call", toolCallId="t", toolName="x", args={"command": "x"}),
        event("tool_result", toolCallId="t", content="x", success=False),
    )
