import json
from collections import Counter
from datetime import UTC, datetime, timedelta

import pytest

from helix.errors import InputRefused
from helix.sources import claude_ai
from helix.sources.common.sample import take_sample
from helix.types import Document
from tests.support.paths import DATA
from tests.support.turns import CUT_AT, LONG, cases, check_any_types, check_cut, list_texts

LOGS = DATA / "logs"
ROOT = "00000000-0000-4000-8000-000000000000"
PLACEHOLDER = "```\nThis block is not supported on your current device yet.\n```"


def message(uuid, parent, sender, text="", *, content=None, at=None, **more):
    """Return a short message of an export."""
    made = {"uuid": uuid, "sender": sender, "text": text, "created_at": at, **more}
    if parent is not None:
        made["parent_message_uuid"] = parent
    return made if content is None else {**made, "content": content}


def human(uuid, parent, text="", **more):
    return message(uuid, parent, "human", text, **more)


def answer(uuid, parent, text="", **more):
    return message(uuid, parent, "assistant", text, **more)


def block(text):
    return {"type": "text", "text": text, "citations": []}


def call(name, **given):
    return {"type": "tool_use", "id": "t", "name": name, "input": given}


def result(content, **more):
    return {"type": "tool_result", "tool_use_id": "t", "name": "x", "content": content, **more}


def conversation(*messages, **more):
    return {"uuid": "c1", "name": "T", "chat_messages": list(messages), **more}


def parse(*values, path="export/conversations.json", **options):
    return claude_ai.parse(Document(path, json.dumps(list(values))), **options)


def read_sessions(*messages, **more):
    return {s.id: [turn.text for turn in s.turns] for s in parse(conversation(*messages, **more)).sessions}


def turns(*messages, **options):
    (session,) = parse(conversation(*messages), **options).sessions
    return session.turns


EDITED = (
    human("u1", ROOT, "Start", at="2026-05-01T10:00:00Z"), answer("a1", "u1", "Ready", at="2026-05-01T10:00:01Z"),
    human("x1", "a1", "First try", at="2026-05-01T10:01:00Z"),
    answer("y1", "x1", "First answer", at="2026-05-01T10:09:00Z"),
    human("x2", "a1", "Second try", at="2026-05-01T10:02:00Z"),
    answer("y2", "x2", "Second answer", at="2026-05-01T10:03:00Z"))  # fmt: skip


def test_the_newest_or_last_leaf_ends_the_conversation():
    expected = {"c1": ["Start", "Ready", "First try", "First answer"], "c1~x2": ["Second try", "Second answer"]}
    assert read_sessions(*EDITED) == expected
    expected = {"c1": ["Start", "Ready", "Second try", "Second answer"], "c1~x1": ["First try", "First answer"]}
    assert read_sessions(*EDITED, current_leaf_message_uuid="y2") == expected
    assert list(read_sessions(*EDITED, current_leaf_message_uuid="gone")) == ["c1", "c1~x2"]
    assert list(read_sessions(*({**message, "created_at": None} for message in EDITED))) == ["c1", "c1~x1"]


def test_branches_begin_at_edited_prompts_and_cycles_end():
    parsed = parse(conversation(human("u", ROOT, "Q"), answer("a", "u", "bad"), answer("b", "u", "good")))
    assert list_texts(parsed) == ["Q", "good"]
    assert len(parsed.sessions) == 1
    assert parsed.junk == Counter({"abandoned": 3})
    pasted = human("x", "a", attachments=[{"file_name": "p", "extracted_content": "pasted"}])
    found = read_sessions(
        human("u", ROOT, "Q"), answer("a", "u", "A"), pasted, answer("y", "x", "seen"), human("z", "a", "Else")
    )
    assert found == {"c1": ["Q", "A", "Else"], "c1~x": ["pasted", "seen"]}
    expected = {"c1": ["two"], "c1~x": ["one", "1"]}
    assert read_sessions(human("x", ROOT, "one"), answer("y", "x", "1"), human("z", ROOT, "two")) == expected
    found = turns(human("u", None, "Q"), answer("a", None, "A"), human("v", None, "R"))
    assert [(turn.id, turn.parent) for turn in found] == [("u", None), ("a", "u"), ("v", "a")]
    found = turns(human("u", ROOT, "Q"), answer("a", "gone", "A"), human("v", "v", "R"), answer("b", "v", "B"))
    assert [(turn.id, turn.parent) for turn in found] == [("u", None), ("a", "u"), ("v", "a"), ("b", "v")]
    found = read_sessions(human("a", "c", "A"), answer("b", "a", "B"), human("c", "b", "C"))
    assert sorted(text for texts in found.values() for text in texts) == ["A", "B", "C"]


@cases("content", None, [], "x", [{"type": "text", "text": ""}], [{"type": "image"}])
@cases("sender", "human", "assistant")
def test_without_text_in_blocks_the_text_counts(sender, content):
    (turn,) = turns(message("a", ROOT, sender, "Said", content=content))
    assert turn.text == "Said"


@cases(
    "line",
    "This block is not supported on your current device yet.",
    "Viewing artifacts created via the Analysis Tool web feature preview isn’t yet supported on mobile.",
)
def test_placeholders_of_other_blocks_are_no_answer(line):
    parsed = parse(
        conversation(answer("a", ROOT, f"Hello\n```\n{line}\n```\n\nWorld"), answer("b", "a", content=[block(line)]))
    )
    assert list_texts(parsed) == ["Hello\n\nWorld"]
    assert parsed.junk == Counter({"host": len(line) * 2 + len("```\n\n\n```")})


@cases(
    "given, line",
    (call("web_search", query="tides"), "[web_search] tides"),
    (call("artifacts", command="update", id="a-1", old_str="x", new_str="y"), "[artifacts] update a-1"),
    (call("artifacts", command="create", id="a-1", title="Tide app", content="<html>"), "[artifacts] create Tide app"),
    ({"type": "server_tool_use", "name": "bash", "input": {"command": "ls"}}, "[bash] ls"),
    ({"type": "tool_use", "name": 7, "input": 7}, "[tool]"),
)
def test_a_tool_call_is_one_telling_line(given, line):
    (turn,) = turns(answer("a", ROOT, content=[given]))
    assert turn.text == line


@cases("content, text",
    ("plain", "plain"), ([block("one"), {"type": "image"}, block("two")], "one\ntwo"),
    ([{"type": "knowledge", "title": "T", "url": "https://x.org"}], "T\nhttps://x.org"),
    ([block("<system-reminder>\nx\n</system-reminder>seen")], "seen"))  # fmt: skip
def test_a_tool_result_is_a_turn_that_answers_the_message(content, text):
    found = turns(answer("a", ROOT, content=[block("A"), result(content), result(content, is_error=True), result([])]))
    assert [(turn.id, turn.role, turn.text, turn.parent) for turn in found] == [
        ("a", "assistant", "A", None), ("a:tool-2", "tool", text, "a"), ("a:tool-3", "tool", f"error: {text}", "a"),
    ]  # fmt: skip


def test_blocks_and_results_of_messages():
    blocks = [block("One."), call("repl", code="1 + 1"), block("Two.")]
    (turn,) = turns(answer("a", ROOT, f"One.\n{PLACEHOLDER}\nTwo.", content=blocks))
    assert turn.text == "One.\n[repl] 1 + 1\nTwo."
    found = turns(human("u", ROOT, content=[block("a"), block("b")]), answer("a", "u", content=[call("x", query="y")]))
    assert [turn.text for turn in found] == ["a\nb", "[x] y"]
    found = turns(human("u", ROOT, "Q"), answer("a", "u", content=[result("R")]), human("v", "a", "S"))
    assert [(turn.id, turn.parent) for turn in found] == [("u", None), ("a:tool-1", "u"), ("v", "a:tool-1")]
    parsed = parse(conversation(answer("a", ROOT, content=[result(LONG)])), tool_chars=CUT_AT)
    check_cut(parsed)


def test_attachments_are_documents_without_our_own_memory():
    long = "A" * 15_000 + "B" * 15_000
    files = [
        {"file_name": "a.md", "extracted_content": long}, {"file_name": "b.pdf"},
        {"file_name": "", "extracted_content": "c"}, 7]  # fmt: skip
    parsed = parse(conversation(human("u", ROOT, "Look", attachments=files, files=[{"file_name": "d.png"}, {}, None])))
    found = parsed.sessions[0].turns
    expected = [("u:1", "document", "a.md", 19_999), ("u:3", "document", None, 1)]
    assert [(turn.id, turn.role, turn.title, len(turn.text)) for turn in found[:-1]] == expected
    assert found[0].text.startswith("AAA")
    assert found[0].text.endswith("BBB")
    assert found[-1].text == "Look\n[file] b.pdf\n[file] d.png"
    assert parsed.junk == Counter({"tool-output": 10_001})
    memory = "<memory>\nold\n</memory>"
    files = [{"file_name": "a", "extracted_content": f"{memory}\nkept"}]
    reminder = "<system-reminder>\nx\n</system-reminder>"
    found = parse(
        conversation(
            human("u", ROOT, f"{memory}\n{reminder}\nasked", attachments=files), answer("a", "u", f"answered\n{memory}")
        )
    )
    assert [turn.text for turn in found.sessions[0].turns] == ["kept", "asked", "answered"]
    assert found.junk == Counter({"memory": 3 * (len(memory) + 1), "host": len(reminder) + 1})


def test_thoughts_and_unknown_types_are_counted():
    thought = {"type": "thinking", "thinking": "12345", "summaries": [{"summary": "s"}]}
    blocks = [
        thought, {"type": "token_budget"}, {"type": "flag"}, {"type": "redacted_thinking", "data": "x"}, block("A"),
    ]  # fmt: skip
    parsed = parse(conversation(answer("a", ROOT, content=blocks)))
    assert list_texts(parsed) == ["A"]
    assert (parsed.junk, +parsed.unknown) == (Counter({"reasoning": 5}), Counter())
    blocks = [{"type": "telepathy", "text": "hm"}, {"type": ["x"]}, {"text": "y"}, block("A")]
    parsed = parse(
        conversation(answer("a", ROOT, content=blocks), message("b", "a", "robot", "x"), message("c", "b", None, "y")),
        {"nothing": 1},
        7,
    )
    assert list_texts(parsed) == ["A"]
    assert parsed.unknown == Counter(
        {"telepathy": 1, "(no type)": 2, "(sender robot)": 1, "(no sender)": 1, "(no conversation)": 2}
    )


def test_ids_titles_and_projects():
    found = turns(7, human(None, None, "Q"), answer("a", None, "A"), human(None, None, "R"))
    expected = [("1", None, False), ("a", "1", False), ("3", "a", False)]
    assert [(turn.id, turn.parent, turn.unique) for turn in found] == expected
    assert [turn.text for turn in turns(human("u", None, "Q"), human("u", None, "again"), answer("a", None, "A"))] == [
        "Q", "A"]  # fmt: skip
    files = [{"file_name": "f", "extracted_content": "F"}]
    found = turns(human("u", None, "Q", attachments=files), answer("u:1", None, "A"))
    assert [turn.id for turn in found] == ["u:1", "u", "u:1-2"]
    said = human("u", ROOT, "Fix the\nwebhook")
    named = conversation(said, name=" Named ", project={"uuid": "p", "name": "Tides"})
    sessions = parse(
        named, conversation(said, name="", uuid=None), conversation(said, name=None), path="a/x.json"
    ).sessions
    expected = [("Named", "Tides"), ("Fix the webhook", None), ("Fix the webhook", None)]
    assert [(s.title, s.project) for s in sessions] == expected
    # printf 'a/x.json' | sha256sum
    assert [s.id for s in sessions] == ["c1", "x-711af773-1", "c1-2"]


def test_any_value_may_be_of_any_type():
    blocks = [
        {"type": "thinking", "thinking": "hm"}, block("A"), call("artifacts", command="c", title="t"),
        result([block("R")])]  # fmt: skip
    files = [{"file_name": "f", "extracted_content": "F"}]
    at = "2026-05-04T10:00:00Z"
    chat = conversation(
        human("u", ROOT, "Q", at=at, attachments=files, files=files),
        answer("a", "u", content=blocks, at=at),
        human("v", "u", "R", content=[block("R")]),
        project={"name": "P"},
    )
    project = {
        "uuid": "p", "name": "P", "is_private": True, "prompt_template": "t",
        "docs": [{"filename": "f", "content": "D"}]}  # fmt: skip
    check_any_types(claude_ai, [chat, project, {"conversations_memory": "m", "project_memories": {"p": "m"}}])


def test_a_conversation_may_be_alone_cut_or_long():
    for indent in (None, 2):
        text = json.dumps(conversation(*EDITED), indent=indent)
        assert claude_ai.detect(take_sample(text, "x"))
        assert [s.id for s in claude_ai.parse(Document("x", text)).sessions] == ["c1", "c1~x2"]
    text = (LOGS / "claude_ai.json").read_text()[:5_000]
    assert claude_ai.detect(take_sample(text, "x"))
    with pytest.raises(InputRefused, match=r"not valid JSON.*export it again"):
        claude_ai.parse(Document("x", text))
    chat = [human(f"u{n}", f"u{n - 1}" if n else ROOT, "x") for n in range(5_000)]
    assert len(turns(*chat)) == 5_000


def test_times_are_utc_and_missing_ones_derived():
    found = turns(
        human("u", ROOT, "Q", at="2026-05-04T10:00:00+02:00"), answer("a", "u", "A", at="soon"), human("v", "a", "R")
    )
    assert [(turn.time, turn.time_quality) for turn in found] == [
        (datetime(2026, 5, 4, 8, tzinfo=UTC), "exact"), (datetime(2026, 5, 4, 8, tzinfo=UTC), "derived"),
        (datetime(2026, 5, 4, 8, tzinfo=UTC), "derived")]  # fmt: skip
    (turn,) = turns(human("u", ROOT, "Q"))
    assert (turn.time, turn.time_quality) == (None, "none")
    docs = [
        {"filename": "a", "content": "A"}, {"uuid": "d", "content": "B", "created_at": "2026-05-02T00:00:00Z"},
        {"uuid": "d", "content": "C"}]  # fmt: skip
    project = {"uuid": "p", "name": "", "is_private": True, "docs": docs, "created_at": "2026-05-01T00:00:00Z"}
    (session,) = parse(project).sessions
    began = datetime(2026, 5, 1, tzinfo=UTC)
    expected = [("0", "A", timedelta(0), "derived"), ("d", "B", timedelta(days=1), "exact")]
    assert [(turn.id, turn.text, turn.time - began, turn.time_quality) for turn in session.turns] == expected
    assert (session.title, session.project) == (None, None)
