import json
from datetime import UTC, datetime

import pytest

from helix.errors import InputRefused
from helix.sources import gemini
from helix.types import Document
from tests.support.turns import CUT_AT, LONG, cases, check_cpu_time, check_cut, check_wrong_types, list_texts
from tests.support.wrong_types import replace_values

HEAD = {"sessionId": "s1", "projectHash": "3f1c", "startTime": "2026-06-17T08:00:00.000Z", "kind": "main"}
AT = "2026-06-17T08:00:30.000Z"
UUID = "5d0e7a31-0001-4c6b-8a2f-90b1c2d3e4f5"


def message(kind, name, content, **more):
    return {"id": name, "timestamp": AT, "type": kind, "content": content, **more}


def user(name, *texts, **more):
    return message("user", name, [{"text": text} for text in texts], **more)


def answer(name, text="", *calls, **more):
    return message("gemini", name, text, toolCalls=list(calls), **more)


def call(name="c1", tool="read_file", output=None, **more):
    made = {"id": name, "name": tool, "args": {"file_path": "/w/a.py"}, "status": "success", **more}
    return made if output is None else {**made, "result": [response(output, name, tool)]}


def response(output, name="c1", tool="read_file"):
    given = output if isinstance(output, dict) else {"output": output}
    return {"functionResponse": {"id": name, "name": tool, "response": given}}


def put(*messages):
    return {"$set": {"messages": list(messages), "lastUpdated": AT}}


def parse(*records, path="chats/session.jsonl", **options):
    lines = [r if isinstance(r, str) else json.dumps(r) for r in records]
    return gemini.parse(Document(path, "".join(f"{line}\n" for line in lines)), **options)


def turns(*records, **options):
    (session,) = parse(HEAD, *records, **options).sessions
    return session.turns


def read_texts(*records, **options):
    return [turn.text for turn in turns(*records, **options)]


@cases("given, text",
    ({"result": [response("fine")]}, "fine"),
    ({"result": [response({"error": "no such file"})]}, "error: no such file"),
    ({"result": [response("bad")], "status": "error"}, "error: bad"),
    ({"result": [response({"error": "[Operation Cancelled]"})], "status": "cancelled"}, "error: [Operation Cancelled]"),
    ({"result": [response({"content": [{"type": "text", "text": "a"}, {"type": "text", "text": "b"}]})]}, "a\nb"),
    ({"result": [response({"isError": True, "content": [{"type": "text", "text": "a"}]})]}, "error: a"),
    ({"result": [response("one"), {"text": "two"}, {"inlineData": {"data": "AAAA"}}]}, "one\ntwo"),
    ({"result": "plain"}, "plain"), ({"result": [], "resultDisplay": "M README.md"}, "M README.md"),
    ({"result": [response("shown")], "resultDisplay": "not shown"}, "shown"),
    ({"result": [response("<system-reminder>\nx\n</system-reminder>\nfile")]}, "file"))  # fmt: skip
def test_results_of_tools(given, text):
    assert read_texts(answer("a1", "", call(**given))) == ["[read_file] /w/a.py", text]


@cases("given",
    {"result": None}, {"result": []}, {"result": [response("")]},
    {"resultDisplay": {"fileDiff": "-a\n+b", "fileName": "a"}}, {"status": "executing"})  # fmt: skip
def test_no_result_is_no_turn(given):
    assert read_texts(answer("a1", "", call(**given))) == ["[read_file] /w/a.py"]


@cases(
    "output, text",
    ("Output: a\nb\nExit Code: 0\nProcess Group PGID: 41", "a\nb"),
    ("Output: a\nError: (none)\nExit Code: 0\nSignal: 0\nBackground PIDs: (none)\nProcess Group PGID: 41", "a"),
    ("Output: boom\nExit Code: 2\nProcess Group PGID: 41", "error: boom\nExit Code: 2"),
    ("Output: a\nExit Code: 3\nof a child\nExit Code: 0", "a\nExit Code: 3\nof a child"),
)
def test_a_failed_shell_command_is_an_error(output, text):
    assert read_texts(answer("a1", "", call(tool="run_shell_command", output=output)))[1] == text
    assert read_texts(answer("a1", "", call(tool="read_file", output=output)))[1] == output


def test_calls_and_results_of_a_message_are_read_once():
    found = turns(
        answer(UUID, "Looking.", call("c1", output="A"), call("c2", tool="glob", output="B", timestamp=AT[:-5] + "9Z"))
    )
    assert [(turn.id, turn.role, turn.text, turn.parent, turn.unique) for turn in found] == [
        (UUID, "assistant", "Looking.\n[read_file] /w/a.py\n[glob] /w/a.py", None, True),
        (f"{UUID}:c1", "tool", "A", UUID, True), (f"{UUID}:c2", "tool", "B", UUID, True)]  # fmt: skip
    made = {"functionCall": {"name": "read_file", "args": {}}}
    found = turns(
        message("gemini", "a1", [{"text": "Looking."}, made], toolCalls=[call(output="A")]),
        message("user", "u1", [response("A")]),
    )
    assert [turn.text for turn in found] == ["Looking.\n[read_file] /w/a.py", "A"]


CONTEXT = "<session_context>\nThis is the Gemini CLI.\n- **Workspace Directories:**\n  - {}\n</session_context>"


@cases("noise",
    CONTEXT.format("/w/till"), "This is the Gemini CLI. We are setting up the context for our chat.\nToday is Monday.",
    "Here is the user's editor context as a JSON object.", "Here is a summary of changes in the user's editor context",
    "System: Please continue.", "<hook_context>&lt;memory&gt;old&lt;/memory&gt;</hook_context>",
    "<memory>\nold\n</memory>")  # fmt: skip
def test_client_texts_as_the_user_are_no_turns(noise):
    parsed = parse(HEAD, user("u1", noise), user("u2", "Hi"))
    assert list_texts(parsed) == ["Hi"]
    assert sum(parsed.junk.values()) == len(noise)


@cases("text", "Got it. Thanks for the context!", "Got it. Thanks for the additional context!")
def test_client_texts_as_the_model_are_no_turns(text):
    parsed = parse(HEAD, user("u1", "Hi"), answer("a1", text))
    assert list_texts(parsed) == ["Hi"]
    assert parsed.junk["host"] == len(text)


FILES = "--- Content from referenced files ---\nContent from @a.py:\n{}\n--- End of content ---"


@cases("texts, typed",
    ([f"Read @a.py\n{FILES.format('x = 1')}"], "Read @a.py"),
    (["Read @a.py", "\n--- Content from referenced files ---", "x = 1", "\n--- End of content ---"], "Read @a.py"),
    ([f"Read @a.py\n{FILES.format('--- End of content ---')}"], "Read @a.py"),
    (["Read @a.py\n--- Content from referenced files ---\nx = 1"], "Read @a.py"),
    ([f"Read @a.py\n{FILES.format('x = 1')}\nthen stop"], "Read @a.py\nthen stop"),
    (["The mark --- Content from referenced files --- is odd"],
     "The mark --- Content from referenced files --- is odd"),
    (["Hi", "<hook_context>a</hook_context>", "<hook_context>b</hook_context>"], "Hi"),
    (["Hi\n<hook_context> is unclosed"], "Hi\n<hook_context> is unclosed"),
    (["What is <hook_context>x</hook_context>?"], "What is <hook_context>x</hook_context>?"),
    ([CONTEXT.format("/w/till") + "\nHi"], "Hi"))  # fmt: skip
def test_typed_text_among_client_texts_stays(texts, typed):
    assert read_texts(user("u1", *texts)) == [typed]


def test_displayed_texts_count_subagents_are_marked():
    assert read_texts(user("u1", "You are an expert. Plan it.", displayContent="/plan it")) == ["/plan it"]
    assert read_texts(user("u1", "Plan it.", displayContent=[])) == ["Plan it."]
    marked = "Look:\n--- Content from referenced files ---\nmeans what?"
    assert read_texts(user("u1", "Expanded.", displayContent=marked)) == [marked]
    thoughts = [{"subject": "Look", "description": "Look at it.", "timestamp": AT}]
    parsed = parse(
        HEAD, message("gemini", "a1", [{"text": "Hm.", "thought": True}, {"text": "So."}], thoughts=thoughts)
    )
    assert list_texts(parsed) == ["So."]
    assert parsed.junk["reasoning"] == len("Look" + "Look at it." + "Hm.")
    head, later = {**HEAD, "kind": "subagent"}, {"$set": {"lastUpdated": AT}}
    (session,) = parse(head, user("u1", "Find"), answer("a1", "Found", call(output="A")), later).sessions
    assert [turn.origin for turn in session.turns] == ["subagent"] * 3
    (session,) = parse({"messages": [{"type": "gemini", "content": "Hi"}]}).sessions
    assert (session.turns[0].time, session.turns[0].time_quality) == (None, "none")


@cases("kind", "info", "warning", "error")
def test_notices_are_counted_and_no_turn(kind):
    parsed = parse(HEAD, user("u1", "Hi"), message(kind, "n1", "Request cancelled."))
    assert len(parsed.sessions[0].turns) == 1
    assert parsed.junk == {"telemetry": len("Request cancelled.")}
    assert not parsed.unknown


def test_unknown_types_and_half_lines_are_reported_and_never_fatal():
    parsed = parse(HEAD, message("telepathy", "t1", "x"), {"type": ["user"], "id": "t2"}, {"note": 1}, user("u1", "Hi"))
    assert dict(parsed.unknown) == {"telepathy": 1, "(no type)": 2}
    assert list_texts(parsed) == ["Hi"]
    parsed = parse(HEAD, user("u1", "Hi"), '{"id":"a1","type":"gem', "[1]", answer("a2", "Hello"))
    assert list_texts(parsed) == ["Hi", "Hello"]
    assert [problem.line for problem in parsed.problems] == [3, 4]


@cases("head, first, path, project",
    ({}, CONTEXT.format("/w/till"), "x.jsonl", "till"),
    ({"directories": ["/w/other"]}, CONTEXT.format("C:\\w\\till"), "x.jsonl", "till"),
    ({}, "This is the Gemini CLI. We are setting up the context\nI'm currently working in the directory: /w/till", "x",
     "till"),
    ({}, "This is the Gemini CLI. We are setting up the context\nfollowing directories:\n  - /w/till\n  - /w/b",
     "x.jsonl", "till"),
    ({"directories": ["/w/other"]}, "Hi", "x.jsonl", "other"),
    ({"directories": [7]}, "Hi", "x.jsonl", None), ({}, "I am working in the directory: /w/till", "x.jsonl", None),
    ({}, "Hi", "/home/a/.gemini/tmp/till/chats/session-1.jsonl", "till"),
    ({}, "Hi", f"/home/a/.gemini/tmp/{'0af3' * 16}/chats/session-1.jsonl", None),
    ({}, "Hi", "/home/a/chats/session-1.jsonl", None))  # fmt: skip
def test_the_project_is_the_working_folder(head, first, path, project):
    (session,) = parse({**HEAD, **head}, user("u1", first), user("u2", "Hi"), path=path).sessions
    assert session.project == project


def test_ids_of_sessions_turns_and_results():
    (session,) = parse(
        HEAD,
        {"type": "user", "content": "Hi"},
        {"$set": {"summary": "Old"}},
        {"$set": {"summary": "New\ntitle", "sessionId": "s2", "startTime": AT}},
        {"$set": {"lastUpdated": AT}},
    ).sessions
    assert (session.id, session.title) == ("s1", "New title")
    assert session.turns[0].time == datetime(2026, 6, 17, 8, tzinfo=UTC)
    nameless = {"type": "user", "content": "Hi"}
    assert [turn.id for turn in turns(nameless, answer("a1", "Hello"), nameless)] == ["2", "a1", "4"]
    assert [turn.id for turn in turns(put(nameless, nameless))] == ["#0", "#1"]
    (session,) = parse({**HEAD, "messages": [nameless, answer("a1", "Hello"), nameless]}).sessions
    assert [turn.id for turn in session.turns] == ["0", "a1", "2"]
    assert parse(HEAD, user("u1", "Fix\nit"), answer("a1", "x")).sessions[0].title == "Fix it"
    assert parse(HEAD, answer("a1", "x")).sessions[0].title is None
    assert [turn.unique for turn in turns(user(UUID, "a"), user("u1", "b"))] == [True, False]
    first, second = ({k: v for k, v in call(output=text).items() if k != "id"} for text in ("A", "B"))
    found = turns(answer("a1", "", first, first), answer("a2", "", second))
    expected = [("a1:#0", "A"), ("a1:#1", "A"), ("a2:#0", "B")]
    assert [(turn.id, turn.text) for turn in found if turn.role == "tool"] == expected
    first = {k: v for k, v in call(output="A").items() if k != "id"}
    nameless = {"functionResponse": {"name": "glob", "response": {"output": "B"}}}
    assert read_texts(answer("a1", "", first), message("user", "u1", [nameless]))[1:] == ["A", "B"]
    found = turns(answer(UUID, "", call("c", output="A"), call("c", output="B")))
    assert [(turn.id, turn.unique) for turn in found[1:]] == [(f"{UUID}:c", True), (f"{UUID}:c-2", False)]


@cases("text", "", "\n\n", "{}", "[]", "null", json.dumps(HEAD), json.dumps({**HEAD, "messages": []}))
def test_nothing_gives_nothing(text):
    assert gemini.parse(Document("a.jsonl", text)).sessions == ()


def test_values_of_wrong_types_cost_no_other_turn():
    part, thought = {"text": "x", "thought": True}, {"subject": "x", "description": "x"}
    parts = [part, {"functionCall": {"id": "c", "name": "glob", "args": {"pattern": "x"}}}]
    outputs = {"output": {"output": "x"}, "error": "x", "content": [{"type": "text", "text": "x"}], "isError": True}
    check_wrong_types(
        lambda odd: parse(HEAD, user("u1", "Hi"), odd, user("u2", "Bye")),
        {"$set": {"summary": "x", "directories": ["/w"], "lastUpdated": AT, "sessionId": "s1", "kind": "main"}},
        {**HEAD, "directories": ["/w"]},
        message("user", "x", [part, response(outputs)], displayContent=[part]),
        message("gemini", "x", parts, thoughts=[thought], toolCalls=[call("c2", output=outputs, timestamp=AT)]),
        answer("x", "", call(result=[response("x"), part], resultDisplay={"fileDiff": "x"})),
        message("info", "x", "x"),
        {"role": "user", "parts": [part], "ts": 1_695_000_000},
    )
    for messages in replace_values([user("x", "x")]):
        parse({**HEAD, "messages": messages})
        parse(HEAD, {"$set": {"messages": messages}})


def test_results_are_cut_and_an_empty_one_is_no_turn():
    parsed = parse(HEAD, answer("a1", "", call(tool="run_shell_command", output="Output: (empty)\nExit Code: 0")))
    assert len(parsed.sessions[0].turns) == 1
    assert parsed.junk["telemetry"] == len("Output: (empty)\nExit Code: 0")
    parsed = parse(HEAD, answer("a1", "", call(output=LONG)), tool_chars=CUT_AT)
    check_cut(parsed)
    deep = "end"
    for _ in range(100):
        deep = {"output": [deep]}
    assert read_texts(answer("a1", "Hi", call(output=deep))) == ["Hi\n[read_file] /w/a.py"]
    found = "--- Newly Discovered Project Context ---\nBe brief.\n--- End Project Context ---"
    parsed = parse(HEAD, answer("a1", "", call(output=f"x = 1\n{found}")))
    assert parsed.sessions[0].turns[1].text == "x = 1"
    assert parsed.junk == {"host": len(f"\n{found}")}


def test_time_is_linear_in_the_text():
    def read(unit):
        text = unit * 25_000
        parse(HEAD, user("u1", text), answer("a1", text, call(tool="run_shell_command", output=text)))

    check_cpu_time(
        read, "<hook_context>\n", "<hook_context></hook_context>\n", "<session_context>\n",
        "--- Content from referenced files ---\n", "--- End of content ---\n", "Exit Code: 1\n", "Exit Code: 1 \t",
    )  # fmt: skip


def test_repeated_ids_lists_and_rewinds_replace_messages():
    found = turns(user("u1", "Hi"), answer("a1", "Half"), user("u2", "Bye"), answer("a1", "Whole"))
    assert [(turn.id, turn.text) for turn in found] == [("u1", "Hi"), ("a1", "Whole"), ("u2", "Bye")]
    expected = ["Second", "Three"]
    assert read_texts(user("u1", "One"), user("u2", "Two"), put(user("u2", "Second")), user("u3", "Three")) == expected
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
    parts = [{"text": "What is this?"}, {"inlineData": {"data": "AAAA"}}]
    asked, answered = (
        {"role": "user", "parts": parts, "ts": 1_695_000_000},
        {"role": "model", "parts": [{"text": "A gauge."}]},
    )
    log = {"history": [asked, answered], "start_time": "2023-09-18T01:00:00Z"}
    (session,) = parse(log, path="a/log.json").sessions
    # printf 'a/log.json' | sha256sum
    assert session.id == "log-39eedaa2"
    expected = [("0", "user", "What is this?", "exact"), ("1", "assistant", "A gauge.", "derived")]
    assert [(turn.id, turn.role, turn.text, turn.time_quality) for turn in session.turns] == expected
    expected = [datetime(2023, 9, 18, 1, 20, tzinfo=UTC), datetime(2023, 9, 18, 1, tzinfo=UTC)]
    assert [turn.time for turn in session.turns] == expected
    made = {"functionCall": {"id": "c1", "name": "glob", "args": {"pattern": "*.py"}}}
    found = turns(
        message("gemini", "a1", [{"text": "Looking."}, made]), message("user", "u1", [response("a.py")]),
        message("user", "u2", [response("a.py")]), message("user", "u3", [response("found", "gone")]))  # fmt: skip
    assert [(turn.id, turn.role, turn.text, turn.parent) for turn in found] == [
        ("a1", "assistant", "Looking.\n[glob] *.py", None), ("u1:c1", "tool", "a.py", "a1"),
        ("u3:gone", "tool", "found", None)]  # fmt: skip
