import json
import shutil

from helix.sources import cline
from helix.sources import registry as sources
from helix.sources.common.sample import take_sample
from helix.types import Document
from tests.support.paths import DATA
from tests.support.turns import CUT_AT, LONG, cases, check_cut, check_units, check_wrong_types, list_texts

STATE = "<environment_details>\n# Current Workspace Directory (/home/eero/stage) Files\na.py\n</environment_details>"


def text(words):
    return {"type": "text", "text": words}


def user(*blocks, **fields):
    return {"role": "user", "content": [text(b) if isinstance(b, str) else b for b in blocks], **fields}


def answer(*blocks, **fields):
    return {**user(*blocks, **fields), "role": "assistant"}


def task(words="Hi"):
    return user(f"<task>\n{words}\n</task>", STATE)


def parse(*messages, **options):
    return cline.parse(Document("api_conversation_history.json", json.dumps(list(messages))), **options)


def test_a_task_is_collected_with_its_times(tmp_path):
    folder = tmp_path / "1781186400000"
    shutil.copytree(DATA / "logs" / "cline" / "1781186400000", folder)
    (found,) = cline.collect(folder / "api_conversation_history.json")
    (session,) = cline.parse(Document("x", found.text)).sessions
    assert (session.id, session.project) == ("1781186400000", "stage")
    assert [turn.time.second for turn in session.turns][:4] == [1, 5, 5, 9]
    assert {turn.time_quality for turn in session.turns} == {"derived"}
    assert {path.name for path in folder.iterdir() if cline.is_companion(path)} == {
        "task_metadata.json",
        "ui_messages.json",
    }
    (folder / "ui_messages.json").write_text("{")
    (found,) = cline.collect(folder / "api_conversation_history.json")
    (session,) = cline.parse(Document("x", found.text)).sessions
    assert session.turns[0].time.isoformat() == "2026-06-11T14:00:00+00:00"  # the task's id


def test_a_history_alone_is_detected():
    assert sources.detect(Document("x", json.dumps([task(), answer("Ho")], indent=1))).NAME == "cline"
    assert not cline.detect(take_sample(json.dumps([answer("Ho"), task()]), "x"))


@cases("words, texts",
    ("<execute_command>\n<command>ls</command>\n</execute_command>", ["[execute_command] ls"]),
    ("So:\n<read_file>\n<path>a.py</path>\n</read_file>\nNow.", ["So:\n[read_file] a.py\nNow."]),
    ("<thinking>\nhm\n</thinking>\nHo", ["Ho"]), ("<read_file>\n<path>a.py", ["<read_file>\n<path>a.py"]),
    ("The tag <read_file> is inside a sentence.", ["The tag <read_file> is inside a sentence."]),
    ("<attempt_completion>\n<result>It is done.</result>\n</attempt_completion>", ["It is done."]),
    ("<ask_followup_question>\n<question>Which?</question>\n</ask_followup_question>", ["Which?"]))  # fmt: skip
def test_answers(words, texts):
    assert list_texts(parse(task(), answer(words))) == ["Hi", *texts]


@cases("block, texts",
    ("[execute_command for 'ls'] Result:\na.py", ["a.py"]), ("[execute_command for 'ls'] Result:", []),
    ("[execute_command for 'ls'] Result:\n<error>\nno\n</error>", ["error: <error>\nno\n</error>"]),
    ("[execute_command for 'ls'] Result:\nDone.\n<feedback>\nNot there.\n</feedback>", ["Done.", "Not there."]),
    ("[TASK RESUMPTION] This task was interrupted.\n<user_message>\nGo on.\n</user_message>", ["Go on."]),
    ("[ERROR] You did not use a tool", []), ("Plain words.", ["Plain words."]))  # fmt: skip
def test_prompts_and_results(block, texts):
    called = answer("<execute_command>\n<command>ls</command>\n</execute_command>")
    assert list_texts(parse(task(), called, user(block, STATE))) == ["Hi", "[execute_command] ls", *texts]


def test_blocks_of_later_versions():
    called = answer(
        {"type": "thinking", "thinking": "hm"},
        {"type": "tool_use", "id": "t1", "name": "read_file", "input": {"path": "a"}},
    )
    returned = user({"type": "tool_result", "tool_use_id": "t1", "is_error": True, "content": "gone"}, STATE)
    asked = answer({"type": "tool_use", "id": "t2", "name": "ask_followup_question", "input": {"question": "Why?"}})
    answered = user({"type": "tool_result", "tool_use_id": "t2", "content": "<answer>\nSo.\n</answer>"})
    parsed = parse(task(), called, returned, asked, answered)
    assert list_texts(parsed) == ["Hi", "[read_file] a", "error: gone", "Why?", "So."]
    assert [turn.parent for turn in parsed.sessions[0].turns] == [None, None, "1", None, None]
    summary = answer("All of it.", isSummary=True, ts=1_781_186_400_000)
    assert parse(task(), summary).sessions[0].turns[1].origin == "summary"
    check_cut(
        parse(answer("<web_fetch>\n</web_fetch>"), user(f"[web_fetch for 'x'] Result:\n{LONG}"), tool_chars=CUT_AT)
    )


def test_unknown_blocks_are_counted():
    parsed = parse(task(), answer({"type": "spotlight"}), user({"type": "gobo"}), {"role": "stage", "content": "x"})
    assert (list_texts(parsed), dict(parsed.unknown)) == (["Hi"], {"spotlight": 1, "gobo": 1, "role stage": 1})


def test_values_of_wrong_types_cost_no_other_turn():
    check_wrong_types(
        lambda odd: parse(task(), odd, user("<feedback>\nBye\n</feedback>")),
        answer("x", {"type": "tool_use", "id": "t", "name": "read_file", "input": {"path": "x"}}, ts=1_781_186_400_000),
        user(
            {"type": "tool_result", "tool_use_id": "t", "is_error": True, "content": [text("x")]}, "[x for y] Result:"
        ),
    )


def test_long_texts_take_linear_time():
    def read(words):
        parse(task(), answer(words), user(words))

    check_units(read, "<read_file>\n", "<task>", "<environment_details>", "[read_file for '", "<thinking>\n<path>\n")
