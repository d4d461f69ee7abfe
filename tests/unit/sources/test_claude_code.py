import json
from datetime import UTC, datetime

from helix.sources import claude_code
from helix.types import Document
from tests.support.turns import CUT, CUT_AT, LONG, cases, check_wrong_types, list_texts


def record(kind, uuid, parent, content=None, *, session="s1", **more):
    """Return a short record of Claude Code."""
    made = {"type": kind, "uuid": uuid, "parentUuid": parent, "sessionId": session, **more}
    if content is not None:
        made["message"] = {"role": kind, "content": content, **({"id": more["mid"]} if "mid" in more else {})}
    return made


def user(uuid, parent, content, **more):
    return record("user", uuid, parent, content, **more)


def answer(uuid, parent, content, **more):
    return record("assistant", uuid, parent, content, **more)


def result(uuid, parent, content, **more):
    return user(uuid, parent, [{"type": "tool_result", "tool_use_id": "t", "content": content, **more}])


def call(name, **given):
    return {"type": "tool_use", "id": "t", "name": name, "input": given}


def text(value):
    return {"type": "text", "text": value}


def parse(*records, path="logs/abc.jsonl", **options):
    lines = [r if isinstance(r, str) else json.dumps(r) for r in records]
    return claude_code.parse(Document(path, "\n".join(lines) + "\n"), **options)


def turns(*records, **options):
    sessions = parse(*records, **options).sessions
    assert len(sessions) == 1
    return sessions[0].turns


def read_texts(*records, **options):
    return [turn.text for turn in turns(*records, **options)]


def test_lines_and_parallel_calls_of_one_answer_are_one_turn():
    found = turns(
        user("u1", None, "Hi"), answer("a1", "u1", [{"type": "thinking", "thinking": "hm"}], mid="m1"),
        answer("a2", "a1", [text("I will look.")], mid="m1"),
        answer("a3", "a2", [call("Bash", command="ls\n-la", description="list")], mid="m1"), result("r1", "a3", "file"),
        answer("a4", "r1", [text("One file.")], mid="m2"))  # fmt: skip
    assert [(turn.id, turn.role, turn.origin, turn.text, turn.parent) for turn in found] == [
        ("u1", "user", "human", "Hi", None), ("a1", "assistant", "assistant", "I will look.\n[Bash] ls -la", "u1"),
        ("r1", "tool", "tool", "file", "a1"), ("a4", "assistant", "assistant", "One file.", "r1")]  # fmt: skip
    assert all(turn.unique and turn.speaker is None for turn in found)
    found = turns(
        user("u1", None, "Hi"), answer("a1", "u1", [call("Read", file_path="/a.py")], mid="m1"),
        answer("a2", "a1", [call("Read", file_path="/b.py")], mid="m1"), result("r1", "a1", "A"),
        result("r2", "a2", "B"), answer("a3", "r2", "Done", mid="m2"))  # fmt: skip
    assert [turn.text for turn in found] == ["Hi", "[Read] /a.py\n[Read] /b.py", "A", "B", "Done"]
    records = [answer("a1", None, [text("Same")], mid="m1"), answer("a2", "a1", [text("Same")], mid="m1")]
    assert read_texts(*records) == ["Same"]


@cases("block, line",
    (call("Bash", command="chmod +x hello.sh", description="Make it run"), "[Bash] chmod +x hello.sh"),
    (call("Write", content="print()", file_path="/p/a.py"), "[Write] /p/a.py"),
    (call("Grep", path="src", pattern="timeout", output_mode="content"), "[Grep] timeout"),
    (call("WebFetch", prompt="what", url="https://x.org/"), "[WebFetch] https://x.org/"),
    (call("mcp__x__y", number=3, other="this one"), "[mcp__x__y] this one"),
    (call("TodoWrite", todos=[{"content": "a", "status": "completed"}, {"content": "b", "status": "in_progress"}]),
     "[TodoWrite] b"),
    (call("Odd"), "[Odd]"))  # fmt: skip
def test_a_tool_call_is_one_telling_line(block, line):
    assert read_texts(answer("a1", None, [block])) == [line]


def test_tool_results_are_turns_cut_at_their_limits():
    (line,) = read_texts(answer("a1", None, [call("Bash", command="x" * 900)]))
    assert len(line) == 200
    assert line.startswith("[Bash] xxx")
    assert line.endswith("…")
    (found,) = read_texts(result("r1", None, LONG), tool_chars=CUT_AT)
    assert found == CUT
    assert read_texts(result("r1", None, "A" * 100), tool_chars=100) == ["A" * 100]
    found = read_texts(
        result("r1", None, [text("one"), {"type": "image", "source": {}}, text("two")]),
        result("r2", "r1", "<tool_use_error>File not read yet</tool_use_error>", is_error=True),
    )
    assert found == ["one\ntwo", "error: File not read yet"]
    block = {"type": "tool_result", "tool_use_id": "t", "content": "denied", "is_error": True}
    found = turns(user("r1", None, [block, text("Use uv instead")]))
    expected = [("r1:tool", "tool", "error: denied"), ("r1", "user", "Use uv instead")]
    assert [(turn.id, turn.role, turn.text) for turn in found] == expected


def test_times_are_utc_and_bad_ones_are_none():
    found = turns(
        user("u1", None, "a", timestamp="2026-05-04T10:00:00.250Z"),
        user("u2", "u1", "b", timestamp="2026-05-04T10:00:00+02:00"),
        user("u3", "u2", "c", timestamp="yesterday"),
        user("u4", "u3", "d"),
    )
    expected = [datetime(2026, 5, 4, 10, 0, 0, 250_000, tzinfo=UTC), datetime(2026, 5, 4, 8, 0, tzinfo=UTC), None, None]
    assert [turn.time for turn in found] == expected
    assert [turn.time_quality for turn in found] == ["exact", "exact", "none", "none"]


@cases("noise",
    user("n1", "u1", "generated", isMeta=True), user("n1", "u1", "Stop hook feedback:\n[stop.sh]: commit first"),
    user("n1", "u1", "PostToolUse:Edit hook additional context: lint passed"),
    user("n1", "u1", "[Request interrupted by user]"),
    user("n1", "u1", [text("[Request interrupted by user for tool use]")]),
    user("n1", "u1", "<command-name>/clear</command-name>\n  <command-message>clear</command-message>"),
    user("n1", "u1", "<local-command-stdout>Bye</local-command-stdout>"), user("n1", "u1", "<memory>\nold\n</memory>"),
    user("n1", "u1", "UserPromptSubmit hook additional context: <memory>\nold\n</memory>"),
    user("n1", "u1", [{"type": "image", "source": {}}]), answer("n1", "u1", [{"type": "thinking", "thinking": "hm"}]),
    answer("n1", "u1", "API Error: 529", isApiErrorMessage=True),
    result("n1", "u1", "<system-reminder>\nbe careful\n</system-reminder>"), record("progress", "n1", "u1", data={}),
    record("system", "n1", "u1", content="x"), record("attachment", "n1", "u1", attachment={"type": "todo"}),
    {"type": "file-history-snapshot", "messageId": "m", "snapshot": {}},
    {"type": "queue-operation", "operation": "dequeue", "sessionId": "s1"},
    {"type": "mode", "mode": "plan", "sessionId": "s1"})  # fmt: skip
def test_noise_is_neither_a_turn_nor_a_problem(noise):
    parsed = parse(user("u1", None, "Hi"), noise, answer("a1", noise.get("uuid", "u1"), "Hello"))
    assert list_texts(parsed) == ["Hi", "Hello"]
    assert parsed.sessions[0].turns[1].parent == "u1"
    assert not parsed.problems
    assert not parsed.unknown


def test_prompts_may_hold_reminders_or_be_queued():
    assert read_texts(user("u1", None, "Fix it.\n<system-reminder>\nplan mode\n</system-reminder>")) == ["Fix it."]
    expected = ["It looks so:\n<command-name>/x</command-name>"]
    assert read_texts(answer("a1", None, "It looks so:\n<command-name>/x</command-name>")) == expected
    queued = {"type": "queued_command", "prompt": "and the docs", "commandMode": "prompt"}
    found = turns(user("u1", None, "Hi"), record("attachment", "q1", "u1", attachment=queued))
    expected = ("q1", "user", "human", "and the docs")
    assert [(turn.id, turn.role, turn.origin, turn.text) for turn in found][1] == expected


def test_odd_lines_are_reported_and_never_fatal():
    parsed = parse(
        user("u1", None, "Hi"), record("telepathy", "x", "u1"), record("telepathy", "y", "x"), {"sessionId": "s1"}
    )
    assert dict(parsed.unknown) == {"telepathy": 2, "(no type)": 1}
    assert len(parsed.sessions) == 1
    parsed = parse(user("u1", None, "Hi"), '{"type":"user","uuid":"u2","mess', "[1]", answer("a1", "u1", "Hello"))
    assert list_texts(parsed) == ["Hi", "Hello"]
    assert [problem.line for problem in parsed.problems] == [2, 3]
    assert parsed.problems[0].reason.startswith("not valid JSON (")
    line = '{"type":"user","uuid":"u1","sessionId":"s1","message":{"content":"cut \\ud83d here"}}'
    assert read_texts(line) == ["cut ? here"]
    line = json.dumps(user("u1", None, "one\u2028two\u0085three"), ensure_ascii=False)
    assert read_texts(line) == ["one\u2028two\u0085three"]


def test_values_of_wrong_types_cost_no_other_turn():
    blocks = [text("a"), {"type": "tool_result", "tool_use_id": "t", "content": [text("b")], "is_error": True}]
    queued = {"type": "queued_command", "prompt": "and the docs", "commandMode": "prompt"}
    thought = {"type": "thinking", "thinking": "hm"}
    check_wrong_types(
        lambda odd: parse(user("u1", None, "Hi"), odd, user("u2", "u1", "Bye")),
        user("x", "u1", blocks, timestamp="2026-05-04T10:00:00Z", cwd="/a", isMeta=False, isSidechain=False),
        user("x", "u1", blocks, isSidechain=True, agentId="a", isCompactSummary=False),
        answer("x", "u1", [thought, call("TodoWrite", todos=[{"content": "a"}])], mid="m", isApiErrorMessage=False),
        record("attachment", "x", "u1", attachment=queued),
        record("system", "x", "u1", subtype="compact_boundary", logicalParentUuid="u1"),
        {"type": "ai-title", "aiTitle": "T", "sessionId": "s1"},
        {"type": "summary", "summary": "T", "leafUuid": "u1"},
    )


def test_subagents_are_marked_and_named_ones_are_sessions():
    records = [
        user("u1", None, "Start"), user("g1", None, "Find the bug", isSidechain=True),
        answer("g2", "g1", "Found", isSidechain=True)]  # fmt: skip
    assert [turn.origin for turn in turns(*records)] == ["human", "subagent", "subagent"]
    parsed = parse(
        user("u1", None, "Find the flaky test"),
        answer("a1", "u1", [call("Task", description="search")], mid="m1"),
        user("s1", None, "Search the tests", isSidechain=True, agentId="a97d"),
        answer("s2", "s1", [text("It is test_queue.")], isSidechain=True, agentId="a97d", mid="m2"),
        result("r1", "a1", "It is test_queue."),
    )
    main, agent = parsed.sessions
    assert [turn.text for turn in main.turns] == ["Find the flaky test", "[Task] search", "It is test_queue."]
    assert agent.id == "s1/agent-a97d"
    assert agent.branch_of is None
    expected = [("subagent", "Search the tests"), ("subagent", "It is test_queue.")]
    assert [(turn.origin, turn.text) for turn in agent.turns] == expected
    (session,) = parse(
        user("s1", None, "Search the tests", isSidechain=True, agentId="a97d", session="agent-a97d")
    ).sessions
    assert session.id == "agent-a97d"


@cases("name, given",
    ("mcp__helix__recall", {"query": "the timeout"}), ("Bash", {"command": "helix recall 'the timeout' --k 3"}),
    ("Bash", {"command": "cd /srv && HELIX_STORE=m helix sql 'SELECT 1'"}))  # fmt: skip
def test_results_of_helix_are_no_turns(name, given):
    asked = {"type": "tool_use", "id": "t9", "name": name, "input": given}
    told = {"type": "tool_result", "tool_use_id": "t9", "content": "The timeout is 30 s."}
    parsed = parse(
        user("u1", None, "What was the timeout?"), answer("a1", "u1", [asked], mid="m1"), user("r1", "a1", [told]),
        answer("a2", "r1", "30 s.", mid="m2"))  # fmt: skip
    assert list_texts(parsed) == ["What was the timeout?", "30 s."]
    assert parsed.junk == {"memory": len("The timeout is 30 s.")}


@cases("given", {"command": "git log helix recall"}, {"command": "pip install helix-recall"})
def test_talking_about_helix_is_news(given):
    assert len(read_texts(answer("a1", None, [call("Bash", **given)]))) == 1


def test_left_out_texts_are_counted():
    parsed = parse(
        user("u1", None, "<system-reminder>\nBe brief.\n</system-reminder>\nFix it"),
        answer("a1", "u1", [{"type": "thinking", "thinking": "hm, hm"}, text("Done")], mid="m1"),
        result("r1", "a1", "x" * 3_000),
        user("h1", "r1", "Stop hook feedback: run the tests"),
        user("m1", "h1", "Caveat", isMeta=True),
        user("u2", "m1", "<memory>\nWe chose 30 s.\n</memory>\nThanks"),
        record("attachment", "x1", "u2", attachment={"type": "hook_additional_context", "content": "12345"}),
    )
    assert parsed.junk["reasoning"] == 6
    assert parsed.junk["tool-output"] == 3_000 - 1_200 + 1
    assert parsed.junk["memory"] == len("<memory>\nWe chose 30 s.\n</memory>\n")
    reminder = len("<system-reminder>\nBe brief.\n</system-reminder>\n")
    assert parsed.junk["host"] == reminder + len("Stop hook feedback: run the tests") + len("Caveat") + 5
