import json
from datetime import UTC, datetime

from helix.sources import codex
from helix.types import Document
from tests.support.turns import cases, check_cpu_time, check_wrong_types, list_texts
from tests.support.wrong_types import replace_values

START = "2026-02-11T09:00:00.000Z"


def record(kind, payload, ts=START):
    return {"timestamp": ts, "type": kind, "payload": payload}


def meta(name="s1", **more):
    return record("session_meta", {"id": name, "timestamp": START, "cwd": "/home/mara/tidewatch", **more})


def item(kind, ts=START, **payload):
    return record("response_item", {"type": kind, **payload}, ts)


def event(kind, ts=START, **payload):
    return record("event_msg", {"type": kind, **payload}, ts)


def message(role, *texts, ts=START, **more):
    kind = "output_text" if role == "assistant" else "input_text"
    parts = [{"type": kind, "text": text} if isinstance(text, str) else text for text in texts]
    return item("message", ts, role=role, content=parts, **more)


def user(*texts, **more):
    return message("user", *texts, **more)


def answer(*texts, **more):
    return message("assistant", *texts, **more)


def call(call_id="c1", name="shell", arguments='{"command":["bash","-lc","ls"]}', **more):
    return item("function_call", call_id=call_id, name=name, arguments=arguments, **more)


def result(value, call_id="c1", **more):
    return item("function_call_output", call_id=call_id, output=value, **more)


def parse(*records, path="logs/rollout.jsonl", **options):
    lines = [r if isinstance(r, str) else json.dumps(r) for r in records]
    return codex.parse(Document(path, "".join(f"{line}\n" for line in lines)), **options)


def turns(*records, **options):
    (session,) = parse(meta(), *records, **options).sessions
    return session.turns


def read_texts(*records, **options):
    return [turn.text for turn in turns(*records, **options)]


def test_calls_join_the_message_before_them():
    found = turns(
        user("Hi"), answer("Looking."), call("c1"), item("reasoning", summary=[], encrypted_content="x"),
        event("token_count", info=None), call("c2"), result("a", "c1"), result("b", "c2"), call("c3"),
        result("c", "c3"), answer("Done."), event("task_complete"), call("c4"))  # fmt: skip
    assert [(turn.id, turn.text) for turn in found] == [
        ("2", "Hi"), ("3", "Looking.\n[shell] ls\n[shell] ls"), ("c1:output", "a"), ("c2:output", "b"),
        ("c3", "[shell] ls"), ("c3:output", "c"), ("12", "Done."), ("c4", "[shell] ls")]  # fmt: skip
    assert [turn.parent for turn in found] == [None, None, "3", "3", None, "c3", None, None]
    assert read_texts(answer("First."), answer("Second."), call()) == ["First.", "Second.\n[shell] ls"]


@cases("noise",
    record("world_state", {"full": True, "state": {}}),
    record("inter_agent_communication_metadata", {"trigger_turn": True}), item("ghost_snapshot", ghost_commit={}),
    item("compaction", encrypted_content="x"), event("token_count", info=None), event("agent_reasoning", text="hm"),
    event("exec_command_end", call_id="c", stdout="x"), event("mcp_tool_call_end", call_id="c"),
    event("item_completed", item={"type": "Plan", "text": "x"}), event("exited_review_mode", review_output=None),
    {"record_type": "state"})  # fmt: skip
def test_noise_is_neither_a_turn_nor_a_problem(noise):
    parsed = parse(meta(), user("Hi"), noise, answer("Hello"))
    assert list_texts(parsed) == ["Hi", "Hello"]
    assert not parsed.unknown
    assert not parsed.problems


def test_unknown_types_half_lines_and_trouble_are_counted():
    assert parse(meta(), event("error", message="quota"), event("warning", message="old")).junk == {"telemetry": 8}
    parsed = parse(
        meta(), user("Hi"), record("telepathy", {}), record("telepathy", {}), item("dream", text="x"), event("dance"),
        message("moderator", "x"), {"note": 1})  # fmt: skip
    expected = {"telepathy": 2, "dream": 1, "event_msg of dance": 1, "message of moderator": 1, "(no type)": 1}
    assert dict(parsed.unknown) == expected
    assert list_texts(parsed) == ["Hi"]
    parsed = parse(meta(), user("Hi"), '{"timestamp":"2026-02-11T09:00', "[1]", answer("Hello"))
    assert list_texts(parsed) == ["Hi", "Hello"]
    assert [problem.line for problem in parsed.problems] == [3, 4]


def test_events_are_turns_only_without_message_items():
    assert read_texts(
        event("user_message", message="Hi"), user("Hi"), call(), event("agent_message", message="Hello"),
        answer("Hello"), event("user_message", message="Bye"), user("Bye"),
    ) == ["Hi", "[shell] ls", "Hello", "Bye"]  # fmt: skip
    found = turns(
        event("user_message", message="<environment_context>x</environment_context>"),
        event("user_message", message="Hi"), call("c1"), result("a", "c1"), event("agent_message", message="Hello"),
        call("c2"))  # fmt: skip
    assert [(turn.id, turn.role, turn.text) for turn in found] == [
        ("3", "user", "Hi"), ("c1", "assistant", "[shell] ls"), ("c1:output", "tool", "a"),
        ("6", "assistant", "Hello\n[shell] ls")]  # fmt: skip


@cases("follows, texts",
    (event("task_complete"), []), (event("turn_complete"), []), (event("turn_aborted"), []), (call(), ["[shell] ls"]),
    (result("a"), ["a"]), (record("compacted", {"message": "We said hi."}), ["We said hi."]))  # fmt: skip
def test_a_single_event_is_held_until_the_next_record(follows, texts):
    assert parse(meta(), event("user_message", message="Hi")).sessions == ()
    assert read_texts(event("user_message", message="Hi"), follows) == ["Hi", *texts]


@cases("number", 0, -1, True, "1", None, 1.0)
def test_a_rollback_of_nothing_drops_nothing(number):
    assert read_texts(user("One"), event("thread_rolled_back", num_turns=number)) == ["One"]


def test_rollbacks_drop_prompts_and_shift_no_id():
    records = [user("One"), answer("1"), user("Two"), call(), result("2"), user("Three"), answer("3")]
    for number, left in ((1, ["One", "1", "Two", "[shell] ls", "2"]), (2, ["One", "1"]), (9, [])):
        assert read_texts(*records, event("thread_rolled_back", num_turns=number), user("Next")) == [*left, "Next"]
    back = event("thread_rolled_back", num_turns=1)
    assert read_texts(user("One"), answer("1"), user("Two"), answer("2"), user("Three"), back, back) == ["One", "1"]
    picture = {"type": "input_image", "image_url": "data:"}
    shell = user("<user_shell_command>\n<command>ls</command>\n</user_shell_command>")
    assert read_texts(
        user("One"), user(picture), answer("A cat."), shell, event("thread_rolled_back", num_turns=1)
    ) == ["One"]
    (turn,) = turns(user("One"), call(), event("thread_rolled_back", num_turns=1), result("late"))
    assert (turn.text, turn.parent) == ("late", None)
    found = turns(user("One", id="m"), event("thread_rolled_back", num_turns=1), user("Two", id="m"), answer("2"))
    assert [turn.id for turn in found] == ["m-2", "5"]
    found = turns(user("a", id="msg_1"), answer("b", id="msg_1"), answer("c", id=7))
    assert [(turn.id, turn.text) for turn in found] == [("msg_1", "a"), ("msg_1-2", "b"), ("4", "c")]
    assert not any(turn.unique for turn in found)


def test_summaries_and_messages_of_other_agents_are_marked():
    history = [user("One")["payload"], answer("1")["payload"]]
    found = turns(
        user("One"), answer("1"), record("compacted", {"message": "We said one.", "replacement_history": history}),
        record("compacted", {"message": "", "replacement_history": history}), user("Two"))  # fmt: skip
    assert [(turn.text, turn.role, turn.origin) for turn in found] == [
        ("One", "user", "human"), ("1", "assistant", "assistant"), ("We said one.", "assistant", "summary"),
        ("Two", "user", "human")]  # fmt: skip
    opens = "Another language model started to solve this problem and produced a summary."
    assert read_texts(record("compacted", {"message": f"{opens}\nOne is done."}), user(f"{opens}\nTwo is done.")) == [
        "One is done.", "Two is done."]  # fmt: skip
    envelope = {"author": "/root/scout", "recipient": "/root", "content": "Two hits.", "trigger_turn": False}
    found = turns(
        user("Hi"), item("agent_message", author="/root/scout", content=[{"type": "input_text", "text": "One hit."}]),
        item("agent_message", author="/root/scout", content=[{"type": "encrypted_content", "encrypted_content": "x"}]),
        record("inter_agent_communication", envelope), answer(json.dumps({**envelope, "content": "Three hits."})),
        answer('{"author": broken "recipient"'))  # fmt: skip
    assert [(turn.text, turn.role, turn.origin) for turn in found[1:]] == [
        ("One hit.", "assistant", "subagent"), ("Two hits.", "assistant", "subagent"),
        ("Three hits.", "assistant", "subagent"), ('{"author": broken "recipient"', "assistant", "assistant"),
    ]  # fmt: skip


@cases("more",
    {"source": {"subagent": {"thread_spawn": {"depth": 1}}}}, {"source": {"subagent": "review"}},
    {"thread_source": "subagent"})  # fmt: skip
def test_the_log_of_a_subagent_is_marked(more):
    (session,) = parse(meta(session_id="root", **more), user("Find it"), call(), result("x")).sessions
    assert session.id == "s1"
    expected = [("user", "subagent"), ("assistant", "subagent"), ("tool", "subagent")]
    assert [(turn.role, turn.origin) for turn in session.turns] == expected


@cases("more",
    {"source": {"subagent": {"other": "guardian"}}}, {"source": {"subagent": "memory_consolidation"}},
    {"source": {"internal": "memory_consolidation"}}, {"thread_source": "memory_consolidation"})  # fmt: skip
def test_codex_talking_to_itself_about_other_sessions_is_left_out(more):
    parsed = parse(meta(**more), user("Judge this transcript"), answer("ok"))
    assert parsed.sessions == ()
    assert parsed.junk["host"] == len("Judge this transcriptok")


@cases(
    "path, name",
    (
        "sessions/rollout-2026-02-11T09-00-00-019c4bed-c6e4-7c31-9d55-3f0b8a6d1e01.jsonl",
        "019c4bed-c6e4-7c31-9d55-3f0b8a6d1e01",
    ),
    # printf 'a/log.jsonl' | sha256sum
    ("a/log.jsonl", "log-5f7b0602"),
)
def test_a_log_without_its_first_line_is_named_by_its_file(path, name):
    (session,) = parse(user("Hi"), path=path).sessions
    assert session.id == name


@cases("first, project", (meta(), "tidewatch"), (meta(cwd="C:\\code\\tidewatch"), "tidewatch"), (meta(cwd=7), "other"))
def test_the_project_is_the_folder_of_the_session_else_of_a_turn(first, project):
    (session,) = parse(first, record("turn_context", {"cwd": "/home/mara/other"}), user("Hi")).sessions
    assert session.project == project


def test_a_header_names_the_remote():
    git = {"branch": "main", "repository_url": "git@example.org:mara/tide-watch.git"}
    (session,) = parse(meta(git=git), user("Hi")).sessions
    assert (session.project, session.workspace.remote) == ("tide-watch", "example.org/mara/tide-watch")
    assert session.workspace.tracked
    (session,) = parse(meta(git=None), user("Hi")).sessions
    assert not session.workspace.tracked


def test_titles_and_times():
    assert parse(meta(), user("Fix\nit"), answer("x")).sessions[0].title == "Fix it"
    names = [event("thread_name_updated", thread_name=name) for name in ("One", "Two", None)]
    assert parse(meta(), user("Fix it"), *names).sessions[0].title == "Two"
    assert parse(meta(), answer("x")).sessions[0].title is None
    found = turns(user("a", ts="2026-02-11T10:00:00+01:00"), user("b", ts="yesterday"), user("c", ts=1_770_800_400))
    assert [(turn.time, turn.time_quality) for turn in found] == [
        (datetime(2026, 2, 11, 9, tzinfo=UTC), "exact"), (datetime(2026, 2, 11, 9, tzinfo=UTC), "derived"),
        (datetime(2026, 2, 11, 9, tzinfo=UTC), "exact")]  # fmt: skip
    (session,) = parse({"created_at": "2026-02-11T10:00:00Z", "role": "user", "message": "Hi"}).sessions
    assert session.turns[0].time == datetime(2026, 2, 11, 10, tzinfo=UTC)
    (session,) = parse({"type": "message", "role": "user", "content": "Hi"}).sessions
    assert (session.turns[0].time, session.turns[0].time_quality) == (None, "none")


@cases("text", "", "\n\n", "{}", "[]", "null")
def test_nothing_gives_nothing(text):
    assert codex.parse(Document("a.jsonl", text)).sessions == ()


def test_values_of_wrong_types_cost_no_other_turn():
    part = {"type": "input_text", "text": "x"}
    check_wrong_types(
        lambda odd: parse(meta(), user("Hi"), odd, user("Bye")),
        *(message(role, "x", part, id="m") for role in ("user", "assistant", "developer")),
        call(arguments='{"command":["ls"]}', status="completed"),
        result({"output": [part], "metadata": {"exit_code": 1}, "content": "x", "success": True}),
        result({"stdout": "x", "stderr": "y", "exitCode": 1, "isError": True}),
        item("custom_tool_call", call_id="c", name="exec", input="x"),
        item("tool_call", function={"name": "translate"}, arguments={"text": "x"}),
        item("local_shell_call", action={"type": "exec", "command": ["sh", "-c", "df"]}),
        item("web_search_call", action={"type": "search", "query": "x"}),
        item("reasoning", summary=[part], content=[part], encrypted_content="x"),
        item("agent_message", author="/root/scout", content=[part]),
        event("user_message", message="x"),
        event("task_started", turn_id="7", started_at=1),
        event("thread_name_updated", thread_name="x"),
        event("error", message="x"),
        record("turn_context", {"cwd": "/w", "turn_id": "7"}),
        record("compacted", {"message": "x", "replacement_history": [part]}),
        record("inter_agent_communication", {"author": "/root/scout", "recipient": "/root", "content": "x"}),
        meta(source={"subagent": {"other": "x"}}, thread_source="user", forked_from_id="parent"),
        {"created_at": "2026-02-11T10:00:00Z", "role": "user", "message": "x"},
    )
    for first in replace_values(meta(source={"subagent": "review"}, thread_source="user")):
        assert list_texts(parse(first, user("Hi"))) == ["Hi"]


def test_time_is_linear_in_the_text():
    def read(unit):
        text = unit * 50_000
        parse(meta(), user(text), answer(text), result(text), call(arguments=text))

    check_cpu_time(read, "<skill>", "<skill></skill>", "<oai-mem-citation>", "Exit code: 1\n", "<image ", "[")
