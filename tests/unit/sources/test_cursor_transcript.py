import json
from datetime import UTC, datetime

from tests.support.turns import cases, check_cpu_time, check_wrong_types, list_texts
from tests.unit.sources.test_cursor import parse


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
        read,
        "<user_query>" * 40_000,
        "\n<user_query>" * 40_000,
        "\n<rules>" * 40_000 + "</rules>" * 40_000,
        " " * 400_000 + "<",
        "x\n" + " \n" * 200_000 + "[REDACTED",
        "<timestamp>Monday, " * 20_000,
        "<user_info>\n" + "Workspace Path: " * 20_000,
    )
