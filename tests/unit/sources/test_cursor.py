import json
from datetime import UTC, datetime

from helix.sources import cursor
from helix.types import Document
from tests.support.turns import CUT_AT, LONG, cases, check_cpu_time, check_cut, check_wrong_types, list_texts


def bubble_id(number):
    return f"{number:08x}-7d2a-4b1c-9e3f-a0b1c2d3e4f5"


def bubble(id, kind, text="", **more):
    return {"bubbleId": id, "type": kind, "text": text, **more}


def tool(id, name="grep", **more):
    return bubble(id, 2, capabilityType=15, toolFormerData={"name": name, "status": "completed", **more})


def parse(value, path="p/c1.jsonl", **options):
    text = value if isinstance(value, str) else json.dumps(value)
    return cursor.parse(Document(path, text), **options)


def session(*bubbles, **more):
    return parse({"composerId": "c1", "conversation": list(bubbles), **more})


def list_turns(turns):
    return [(turn.id, turn.role, turn.origin, turn.text, turn.parent) for turn in turns]


@cases("given, line",
    ({"rawArgs": '{"target_file":"src/a.ts","limit":3}'}, "[grep] src/a.ts"),
    ({"rawArgs": "", "params": '{"command":"npm test"}'}, "[grep] npm test"),
    ({"rawArgs": "{}", "params": '{"query":"tide"}'}, "[grep] tide"), ({"params": {"query": "tide"}}, "[grep] tide"),
    ({"rawArgs": '{"query":"tid'}, '[grep] {"query":"tid'), ({"rawArgs": 7, "params": [1]}, "[grep]"))  # fmt: skip
def test_arguments_of_a_tool(given, line):
    assert list_texts(session(tool("t1", **given))) == [line]


@cases("given, result",
    ({"result": '{"output":"one\\n","exitCode":0}'}, "one"),
    ({"result": '{"files":[{"name":"a.ts","type":"file"},{"name":"b.ts"}]}'}, "a.ts\nb.ts"),
    ({"result": '{"content":[{"type":"text","text":"from afar"}],"requestId":"r1"}'}, "from afar"),
    ({"result": {"contents": "as such"}}, "as such"), ({"result": "plain words"}, "plain words"),
    ({"result": '"a text"'}, "a text"), ({"result": "null"}, ""), ({"result": "{}"}, ""), ({"result": "7"}, ""),
    ({"result": 7}, ""), ({"result": '{"afterContentId":"composer.content.1"}'}, ""),
    ({"status": "error", "error": '{"clientVisibleErrorMessage":"No such file"}'}, "error: No such file"),
    ({"status": "error", "error": "", "result": '{"output":"exit 1"}'}, "error: exit 1"),
    ({"status": "error", "error": "", "result": ""}, ""), ({"status": "cancelled"}, ""))  # fmt: skip
def test_the_result_of_a_tool(given, result):
    assert list_texts(session(tool("t1", **given))) == list(filter(None, ["[grep]", result]))


def test_calls_join_answers_and_results_are_cut():
    parsed = session(
        tool("t0", rawArgs='{"pattern":"a"}', result='"first"'),
        tool("t1", rawArgs='{"pattern":"b"}', result='"found"'), bubble("a1", 2, "So."),
        tool("t2", rawArgs='{"pattern":"c"}'), bubble("e1", 2, "  "), bubble("u1", 1, "And?"),
        tool("t3", rawArgs='{"pattern":"d"}', result='"it"'))  # fmt: skip
    assert list_turns(parsed.sessions[0].turns) == [
        ("t0", "assistant", "assistant", "[grep] a\n[grep] b", None), ("t0:tool", "tool", "tool", "first", "t0"),
        ("t1", "tool", "tool", "found", "t0"), ("a1", "assistant", "assistant", "So.\n[grep] c", None),
        ("u1", "user", "human", "And?", None), ("t3", "assistant", "assistant", "[grep] d", None),
        ("t3:tool", "tool", "tool", "it", "t3")]  # fmt: skip
    asked = {**tool("u1", rawArgs='{"pattern":"a"}'), "type": 1, "text": "Hi"}
    assert list_texts(session(asked)) == ["Hi"]
    parsed = parse(
        {"composerId": "c", "conversation": [tool("t1", result=json.dumps({"output": LONG}))]}, tool_chars=CUT_AT
    )
    check_cut(parsed)
    parsed = session(tool("t1", result="[" * 2000 + "]" * 2000))
    assert list_texts(parsed)[1].startswith("[[[")
    asked = tool("t1", "mcp_helix_recall", rawArgs='{"query":"a"}', result='{"text":"We took DuckDB"}')
    parsed = session(bubble("b1", 2, "Let me see."), asked, tool("t2", rawArgs='{"pattern":"a"}'))
    assert list_texts(parsed) == ["Let me see.\n[grep] a"]
    assert parsed.junk == {"memory": len("We took DuckDB")}


@cases("thinking", "hm", {"text": "hm", "signature": "x"})
def test_thinking_is_counted_and_left_out(thinking):
    parsed = session(bubble("b1", 1, "Hi"), bubble("b2", 2, thinking=thinking, capabilityType=30))
    assert list_texts(parsed) == ["Hi"]
    assert parsed.junk == {"reasoning": 2}


def test_bubbles_of_wrong_types_cost_no_other():
    check_wrong_types(
        lambda odd: session(bubble("u1", 1, "Hi"), odd, bubble("u2", 1, "Bye")),
        bubble("x", 1, "x", createdAt="2026-06-02T09:00:00Z"),
        bubble("x", 2, "x", thinking={"text": "hm", "signature": "x"}, capabilityType=30),
        tool("x", rawArgs='{"query":"x"}', params='{"query":"x"}', result='{"output":"x"}'),
        {**tool("x", status="error", error='{"clientVisibleErrorMessage":"x"}'), "type": 1},
        bubble("x", 1, "x", createdAt=1e300),
    )
    for name, value in {"createdAt": 5, "subagentInfo": {"parentComposerId": "c"}, "folder": "/w", "name": "N"}.items():
        check_wrong_types(
            lambda odd, name=name: session(bubble("u1", 1, "Hi"), bubble("u2", 1, "Bye"), **{name: odd}), value
        )


def test_ids_and_times_of_messages():
    parsed = session(bubble("b1", 1, "a"), bubble(bubble_id(1), 1, "b"), {"type": 1, "text": "c"}, bubble("b1", 1, "d"))
    expected = [("b1", False), (bubble_id(1), True), ("2", False), ("b1-2", False)]
    assert [(turn.id, turn.unique) for turn in parsed.sessions[0].turns] == expected
    parsed = session(
        bubble("b1", 1, "a"), bubble("b2", 1, "b", createdAt="2026-06-02T09:00:00Z"), bubble("b3", 1, "c", createdAt=5)
    )
    assert [(turn.time, turn.time_quality) for turn in parsed.sessions[0].turns] == [
        (None, "none"), (datetime(2026, 6, 2, 9, tzinfo=UTC), "exact"),
        (datetime(2026, 6, 2, 9, tzinfo=UTC), "derived")]  # fmt: skip
    assert parse("").sessions == ()
    assert session().sessions == ()


def transcript(*records, path="p/agent-transcripts/7f/7f.jsonl", **options):
    return parse("".join(json.dumps(record) + "\n" for record in records), path, **options)


def record(role, *content):
    blocks = [{"type": "text", "text": block} if isinstance(block, str) else block for block in content]
    return {"role": role, "message": {"content": blocks}}


def test_results_of_helix_are_no_turns_of_a_transcript():
    call = {"type": "tool_use", "id": "t1", "name": "Shell", "input": {"command": "helix recall a"}}
    results = ({"type": "tool_result", "tool_use_id": id, "content": "We took DuckDB"} for id in ("t1", "t2"))
    parsed = transcript(record("assistant", "So.", call), record("user", *results))
    assert list_texts(parsed) == ["So.", "We took DuckDB"]
    assert parsed.junk == {"memory": len("We took DuckDB")}


@cases("text, asked",
    ("plain words", "plain words"), ("<user_query>\nwhy?\n</user_query>", "why?"),
    ("<rules>\nx\n</rules>\n<user_query>why?</user_query>\n<additional_data>y</additional_data>", "why?"),
    ("<user_query>one</user_query>\n<user_query>two</user_query>", "one\ntwo"),
    ("<user_query>\ncut in the mid", "cut in the mid"),
    ("<user_query>\na\n<user_query>\nb\n</user_query>\nc\n</user_query>", "a\n<user_query>\nb\n</user_query>\nc"),
    ("<user_query>\n</user_query>", ""), ("the tag <user_query> means?", "the tag <user_query> means?"),
    ("<attached_files>\na\n</attached_files>\nread these", "read these"),
    ("<git_status>\n<rules>a</rules>\n</git_status>\nwhy?", "why?"),
    ("<rules>\nis an element of ours", "<rules>\nis an element of ours"),
    ("<user_query>\n<memory>\nold\n</memory>\nnew\n</user_query>", "new"), ("a </user_query> b", "a </user_query> b"),
)  # fmt: skip
def test_typed_text_is_extracted(text, asked):
    assert list_texts(transcript(record("user", text))) == list(filter(None, [asked]))


@cases("stamp, time",
    ("Tuesday, Jun 2, 2026, 11:30 AM (UTC+2)", datetime(2026, 6, 2, 9, 30, tzinfo=UTC)),
    ("Monday, Aug 31, 2026, 12:05 AM (UTC-4)", datetime(2026, 8, 31, 4, 5, tzinfo=UTC)),
    ("Monday, Aug 31, 2026, 12:05 PM (UTC+5:30)", datetime(2026, 8, 31, 6, 35, tzinfo=UTC)),
    ("Monday, August 31, 2026, 1:05 PM (UTC)", datetime(2026, 8, 31, 13, 5, tzinfo=UTC)),
    ("Monday, Aug 31, 2026, 1:05 PM", datetime(2026, 8, 31, 13, 5, tzinfo=UTC)),
    ("Monday, Aug 32, 2026, 1:05 PM (UTC)", None), ("Monday, Foo 31, 2026, 1:05 PM (UTC)", None),
    ("Monday, Aug 31, 2026, 1:75 PM (UTC)", None), ("Monday, Aug 31, 2026, 1:05 PM (UTC+99)", None),
    ("2026-08-31", None))  # fmt: skip
def test_the_time_before_a_prompt(stamp, time):
    parsed = transcript(record("user", f"<timestamp>{stamp}</timestamp>\n<user_query>\nHi\n</user_query>"))
    (turn,) = parsed.sessions[0].turns
    assert (turn.time, turn.time_quality) == (time, "exact" if time else "none")
    assert turn.text == "Hi"


@cases("text, kept",
    ("Done.\n\n[REDACTED]", "Done."), ("[REDACTED]", ""), ("The key is [REDACTED]", "The key is [REDACTED]"),
    ("[REDACTED]\nDone.", "[REDACTED]\nDone."))  # fmt: skip
def test_the_mark_of_a_thought_that_was_left_out(text, kept):
    assert list_texts(transcript(record("user", "Hi"), record("assistant", text))) == list(filter(None, ["Hi", kept]))


def test_folders_mark_subagents_and_prompts_name_no_folder():
    parsed = transcript(record("user", "List"), record("assistant", "a"), path="7f/subagents/9a.jsonl")
    assert [turn.origin for turn in parsed.sessions[0].turns] == ["subagent", "subagent"]
    assert transcript(record("user", "Workspace Path: /etc\nwhat is it?")).sessions[0].project is None
    text = json.dumps(record("user", "Hi")) + "\n{half\n" + json.dumps(record("assistant", "Ho")) + "\n"
    parsed = parse(text)
    assert list_texts(parsed) == ["Hi", "Ho"]
    assert [problem.line for problem in parsed.problems] == [2]


def test_records_of_wrong_types_cost_no_other():
    call = {"type": "tool_use", "id": "t", "name": "Shell", "input": {"command": "ls"}}
    answered = {"type": "tool_result", "tool_use_id": "t", "content": [{"type": "text", "text": "x"}]}
    check_wrong_types(
        lambda odd: transcript(record("user", "Hi"), odd, record("user", "Bye")),
        record("user", "x", answered),
        record("assistant", "x", {"type": "thinking", "thinking": "hm"}, call),
    )


def test_time_is_linear():
    def read(text):
        transcript(record("user", text), record("assistant", text))

    check_cpu_time(
        read, "<user_query>" * 40_000, "\n<user_query>" * 40_000, "\n<rules>" * 40_000 + "</rules>" * 40_000,
        " " * 400_000 + "<", "x\n" + " \n" * 200_000 + "[REDACTED", "<timestamp>Monday, " * 20_000,
        "<user_info>\n" + "Workspace Path: " * 20_000)  # fmt: skip
