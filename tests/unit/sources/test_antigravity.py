import json

from helix.sources import antigravity
from helix.types import Document
from tests.support.turns import CUT_AT, LONG, cases, check_cut, check_wrong_types, list_texts


def step(number, kind, content="", source="MODEL", **fields):
    head = {
        "step_index": number,
        "source": source,
        "type": kind,
        "status": "DONE",
        "created_at": "2026-06-09T15:00:00Z",
    }
    return {**head, "content": content, **fields}


def asks(number, text):
    return step(number, "USER_INPUT", f"<USER_REQUEST>\n{text}\n</USER_REQUEST>\n<NOTE>\nx\n</NOTE>", "USER_EXPLICIT")


def calls(number, *commands, **fields):
    listed = [{"name": "run_command", "args": {"CommandLine": json.dumps(command)}} for command in commands]
    return step(number, "PLANNER_RESPONSE", tool_calls=listed, **fields)


def parse(*records, path="brain/0b/.system_generated/logs/transcript.jsonl", **options):
    text = "".join(json.dumps(record) + "\n" for record in records)
    return antigravity.parse(Document(f"/home/ola/.gemini/antigravity-cli/{path}", text), **options)


def test_results_follow_the_calls_in_order():
    parsed = parse(
        asks(0, "Hi"),
        calls(1, "ls", "cat a", thinking="Look."),
        step(2, "RUN_COMMAND", "Created At: 2026-06-09T15:00:00Z\na"),
        step(3, "RUN_COMMAND", "The command failed with exit code: 2\nno"),
        step(4, "VIEW_FILE", "alone"),
    )
    (session,) = parsed.sessions
    assert (session.id, [turn.text for turn in session.turns]) == (
        "0b",
        [
            "Hi",
            "[run_command] ls\n[run_command] cat a",
            "a",
            "error: The command failed with exit code: 2\nno",
            "alone",
        ],
    )
    assert [turn.parent for turn in session.turns] == [None, None, "1", "1", None]
    assert [each.exit_code for turn in session.turns[2:4] for each in turn.steps] == [None, 2]
    check_cut(parse(calls(1, "x"), step(2, "RUN_COMMAND", LONG), tool_chars=CUT_AT))


def test_the_folder_is_that_of_the_first_command():
    args = {"CommandLine": '"ls"', "Cwd": '"/home/ola/pier"'}
    record = step(1, "PLANNER_RESPONSE", tool_calls=[{"name": "run_command", "args": args}])
    assert parse(asks(0, "Hi"), record).sessions[0].project == "pier"


def test_the_shortened_transcript_is_left_out(tmp_path):
    short, full = tmp_path / "transcript.jsonl", tmp_path / "transcript_full.jsonl"
    short.write_text("x")
    assert not antigravity.is_companion(short)
    full.write_text("x")
    assert [antigravity.is_companion(path) for path in (short, full)] == [True, False]
    assert antigravity.collect(full) is None


@cases("odd, unknown, junk",
    (step(1, "SONAR_SCAN", "x"), {"SONAR_SCAN": 1}, {}), (step(1, "EPHEMERAL", "x", "SYSTEM"), {}, {"host": 1}),
    (step(1, "PLANNER_RESPONSE", thinking="x"), {}, {"reasoning": 1}))  # fmt: skip
def test_unknown_steps_are_counted(odd, unknown, junk):
    parsed = parse(step(0, "USER_INPUT", "Hi"), odd)
    assert (list_texts(parsed), dict(parsed.unknown), dict(parsed.junk)) == (["Hi"], unknown, junk)


def test_values_of_wrong_types_cost_no_other_turn():
    check_wrong_types(
        lambda odd: parse(asks(0, "Hi"), odd, asks(9, "Bye")),
        calls(1, "ls", thinking="x"),
        step(2, "RUN_COMMAND", "x"),
        step(3, "CHECKPOINT", "x", "SYSTEM"),
    )
