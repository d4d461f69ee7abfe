import json

from helix.sources import kimi
from helix.types import Document
from tests.support.turns import CUT_AT, LONG, cases, check_cut, check_wrong_types, list_texts

HOME = "/home/mira/.kimi-code/sessions/wd_tidegauge/session_0b"


def asks(text, kind="user", **origin):
    content = [{"type": "text", "text": text}]
    message = {"role": "user", "content": content, "toolCalls": [], "origin": {"kind": kind, **origin}}
    return {"type": "context.append_message", "message": message, "time": 1_780_300_800_000}


def event(kind, step="s1", **fields):
    event = {"type": kind, "stepUuid": step, **fields}
    return {"type": "context.append_loop_event", "event": event, "time": 1_780_300_801_000}


def write(text, step="s1"):
    return event("content.part", step, part={"type": "text", "text": text})


def calls(id, name="Bash", step="s1", **arguments):
    return event("tool.call", step, toolCallId=id, name=name, args=arguments)


def result(id, output, **fields):
    return event("tool.result", toolCallId=id, result={"output": output, **fields})


def parse(*records, path=f"{HOME}/agents/main/wire.jsonl", **options):
    return kimi.parse(Document(path, "".join(json.dumps(record) + "\n" for record in records)), **options)


def test_parts_of_a_step_are_one_turn_until_a_result():
    parsed = parse(
        asks("Hi"),
        write("I look."),
        calls("c1", command="ls"),
        result("c1", "a.py"),
        write("One file."),
        write("Bye.", "s2"),
    )
    assert list_texts(parsed) == ["Hi", "I look.\n[Bash] ls", "a.py", "One file.", "Bye."]
    assert [turn.id for turn in parsed.sessions[0].turns] == ["1", "s1", "c1:result", "s1-2", "s2"]
    assert parsed.sessions[0].turns[2].parent == "s1"


def test_the_path_names_session_and_subagent():
    (main,) = parse(asks("Hi")).sessions
    assert (main.id, main.turns[0].origin) == ("0b", "human")
    (agent,) = parse(asks("Hi"), path=f"{HOME}/agents/agent-0/wire.jsonl").sessions
    assert (agent.id, agent.turns[0].origin) == ("0b/agent-agent-0", "subagent")
    called = asks("<git-context>\nRemote: x\n</git-context>\nCount the files.", "system_trigger", name="subagent")
    parsed = parse(called, write("3 files"), path="wire.jsonl")
    assert [(turn.text, turn.origin) for turn in parsed.sessions[0].turns] == [
        ("Count the files.", "subagent"),
        ("3 files", "subagent"),
    ]


def test_additions_and_failures():
    record = asks("Write a plan.", "injection")
    parsed = parse(asks("Hi"), record, calls("c1", command="x"), result("c1", "no such file", isError=True))
    assert list_texts(parsed) == ["Hi", "[Bash] x", "error: no such file"]
    assert parsed.junk == {"host": len("Write a plan.")}
    parsed = parse(calls("c1", "helix-recall", query="tide"), result("c1", "old"), asks("Hi"))
    assert (list_texts(parsed), parsed.junk) == (["Hi"], {"memory": 3})
    check_cut(parse(calls("c1", command="x"), result("c1", LONG), tool_chars=CUT_AT))


@cases("record, kind",
    ({"type": "barometer.sync"}, "barometer.sync"), (event("tool.sings"), "tool.sings"), ({"type": None}, "(no type)"),
    (event("content.part", part={"type": "song"}), "song"))  # fmt: skip
def test_unknown_records_are_counted(record, kind):
    parsed = parse(asks("Hi"), record)
    assert (list_texts(parsed), dict(parsed.unknown)) == (["Hi"], {kind: 1})


def test_the_state_of_a_session_is_a_companion(tmp_path):
    path = tmp_path / "state.json"
    path.write_text(json.dumps({"createdAt": "2026-06-01T08:00:00Z", "isCustomTitle": False, "agents": {"main": {}}}))
    assert kimi.is_companion(path)
    path.write_text("{}")
    assert not kimi.is_companion(path)
    assert kimi.collect(path) is None


def test_values_of_wrong_types_cost_no_other_turn():
    check_wrong_types(
        lambda odd: parse(asks("Hi"), odd, asks("Bye")),
        asks("x"),
        write("x", "s9"),
        calls("c9", command="x"),
        result("c9", "x", isError=True),
        {"type": "context.apply_compaction", "summary": "x"},
        {"type": "profile.bind", "environmentDisclosure": {"cwd": "/srv"}},
    )
