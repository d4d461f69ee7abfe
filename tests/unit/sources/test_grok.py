import json
import shutil

from helix.sources import grok
from helix.types import Document
from tests.support.paths import DATA
from tests.support.turns import CUT_AT, LONG, cases, check_cut, check_wrong_types, list_texts


def asks(text, **fields):
    return {"type": "user", "content": [{"type": "text", "text": text}], "prompt_index": 0, **fields}


def answers(text, *calls):
    return {"type": "assistant", "content": text, "tool_calls": list(calls), "model_id": "grok"}


def call(id, **arguments):
    return {"id": id, "name": "run_terminal_cmd", "arguments": json.dumps(arguments)}


def result(id, content):
    return {"type": "tool_result", "tool_call_id": id, "content": content}


def parse(*records, **options):
    return grok.parse(Document("x.jsonl", "".join(json.dumps(record) + "\n" for record in records)), **options)


def test_a_history_is_read_with_its_summary(tmp_path):
    folder = tmp_path / "0b"
    shutil.copytree(DATA / "logs" / "grok", folder)
    (found,) = grok.collect(folder / "chat_history.jsonl")
    (session,) = grok.parse(Document("x", found.text)).sessions
    assert (session.title, session.project) == ("Night ferry in winter", "ferry")
    assert {turn.time_quality for turn in session.turns} == {"derived"}
    assert session.turns[0].id == "3"  # as in the file
    (folder / "updates.jsonl").write_text("{}\n")
    others = {path.name for path in folder.iterdir() if grok.is_companion(path)}
    assert others == {"summary.json", "updates.jsonl"}
    with (folder / "chat_history.jsonl").open("a") as file:
        file.write('{"type":"user","cont')
    (cut,) = grok.collect(folder / "chat_history.jsonl")
    assert cut.text.rstrip("\n") == found.text.rstrip("\n")
    (folder / "summary.json").unlink()
    assert grok.collect(folder / "chat_history.jsonl") is None


def test_messages_of_the_client_are_left_out():
    told = asks("<user_info>\nWorkspace Path: /srv/ferry\n</user_info>", synthetic_reason="environment_context")
    parsed = parse({"type": "system", "content": "You are Grok."}, told, asks("Hi"))
    assert (list_texts(parsed), parsed.sessions[0].project) == (["Hi"], "ferry")
    assert parsed.junk == {"host": len("You are Grok.") + len("<user_info>\nWorkspace Path: /srv/ferry\n</user_info>")}


def test_a_summary_tells_of_a_subagent():
    head = {"grok": "s1", "cwd": "/srv/ferry", "session_kind": "subagent", "created_at": "2026-06-07T13:00:00Z"}
    (session,) = parse(head, asks("Hi"), answers("Ho")).sessions
    assert [(turn.id, turn.origin) for turn in session.turns] == [("1", "subagent"), ("2", "subagent")]


def test_calls_and_results():
    parsed = parse(
        asks("Hi"), answers("", call("c1", command="make")), result("c1", "exit code: 2\nno"), answers("Gone.")
    )
    (turns,) = (session.turns for session in parsed.sessions)
    assert [(turn.text, turn.parent) for turn in turns][1:3] == [
        ("[run_terminal_cmd] make", None),
        ("exit code: 2\nno", "2"),
    ]
    assert turns[2].steps[0].outcome == "failed"
    check_cut(parse(answers("", call("c1")), result("c1", LONG), tool_chars=CUT_AT))


@cases("odd, kind", ({"type": "weather"}, "weather"), ({"content": "x"}, "(no type)"),
    (asks("x") | {"content": [{"type": "wave"}]}, "wave"))  # fmt: skip
def test_unknown_records_are_counted(odd, kind):
    parsed = parse(asks("Hi"), odd)
    assert (list_texts(parsed), dict(parsed.unknown)) == (["Hi"], {kind: 1})


def test_values_of_wrong_types_cost_no_other_turn():
    check_wrong_types(
        lambda odd: parse(asks("Hi"), odd, asks("Bye")),
        {"grok": "s1", "cwd": "/srv", "git_remotes": ["x"], "generated_title": "x", "created_at": "2026-06-07"},
        asks("x", synthetic_reason="environment_context"),
        answers("x", call("c", command="ls")),
        result("c", "x"),
        {"type": "backend_tool_call", "kind": {"tool_type": "web_search", "action": {"query": "x"}, "id": "w"}},
        {"type": "reasoning", "summary": [{"type": "summary_text", "text": "x"}]},
    )
