import json
from datetime import UTC, datetime

import pytest

from helix.errors import InputRefused
from helix.sources import swe_agent
from helix.sources.common.sample import take_sample
from helix.types import Document
from tests.support.paths import DATA
from tests.support.turns import CUT_AT, LONG, cases, check_cpu_time, check_cut, check_wrong_types

LOGS = DATA / "logs"
MTIME = datetime(2026, 1, 1, tzinfo=UTC)
SHELL = "\n(Open file: n/a)\n(Current directory: /keeper)\nbash-$"


def parse(run, path="runs/keeper-12.traj", mtime=MTIME, **options):
    return swe_agent.parse(Document(path, run if isinstance(run, str) else json.dumps(run), mtime), **options)


def step(action="ls", observation="a.py", thought="I look.", **more):
    return {
        "action": action,
        "observation": observation,
        "thought": thought,
        "response": f"{thought}\n{action}",
        **more,
    }


def message(role, content, **more):
    return {"role": role, "content": content, "agent": "main", **more}


def run(*steps, history=()):
    return {"environment": "main", "trajectory": list(steps), "history": list(history), "info": {}}


def list_turns(run, **options):
    (session,) = parse(run, **options).sessions
    return [(turn.id, turn.role, turn.text) for turn in session.turns]


@cases(
    "page, task",
    (
        "We're currently solving the following issue within our repository. Here's the issue text:\nISSUE:\n"
        f"It leaks\nbadly\n\nINSTRUCTIONS:\nSolve it.{SHELL}",
        "It leaks\nbadly",
    ),
    (
        'We\'re currently solving the following CTF challenge. The CTF challenge is a puzzle named "Eel". '
        "The description is:\nFind it.\n\n\nINSTRUCTIONS:\nSolve it.",
        'The CTF challenge is a puzzle named "Eel". The description is:\nFind it.',
    ),
    (
        "<uploaded_files>\n/testbed\n</uploaded_files>\n<pr_description>\nIt leaks\n</pr_description>\n\nHelp me.",
        "It leaks",
    ),
    (f"It leaks{SHELL}", "It leaks"),
    ("It leaks. See INSTRUCTIONS: in the readme", "It leaks. See INSTRUCTIONS: in the readme"),
    ("<pr_description> is a tag", "<pr_description> is a tag"),
    ([{"type": "text", "text": "It"}, {"type": "image_url"}, "leaks"], "It\nleaks"),
)
def test_of_the_page_of_instructions_only_the_task_is_a_persons(page, task):
    parsed = parse(run(step(), history=[message("system", "S"), message("user", page)]))
    turn = parsed.sessions[0].turns[0]
    assert (turn.id, turn.role, turn.origin, turn.text) == ("history:1", "user", "human", task)
    if isinstance(page, str):
        assert parsed.junk["host"] == len("S") + len(page) - len(task)


@cases("mark", {"is_demo": True}, {"message_type": "demonstration"})
def test_a_demonstration_is_no_part_of_the_run(mark):
    parsed = parse(run(step(), history=[message("user", "Another task", **mark), message("user", "Task")]))
    assert parsed.sessions[0].title == "Task"
    assert parsed.junk["host"] == len("Another task")


@cases("step, text",
    (step("pytest -q\n", thought="Now the test.\n"), "Now the test.\n[bash] pytest -q"),
    (step("ls", thought=""), "[bash] ls"), (step("", thought="Hm."), "Hm."),
    (step("", thought="", response="I cannot do that."), "I cannot do that."),
    (step("ls", thought=None, response="not read twice\nls"), "[bash] ls"),
    (step("x" * 900, thought=""), "[bash] " + "x" * 192 + "…"),
    (step("ls", thought="mine\n<memory>\nold\n</memory>"), "mine\n[bash] ls"))  # fmt: skip
def test_a_step_is_its_thought_and_a_line_for_its_action(step, text):
    step["observation"] = ""
    assert list_turns(run(step)) == [("0", "assistant", text)]


def test_the_first_message_is_the_task_and_calls_replace_actions():
    history = [message("user", "Task"), message("assistant", "x"), message("user", "a.py" + SHELL)]
    expected = [("history:0", "user", "Task"), ("0", "assistant", "I look.\n[bash] ls"), ("0:tool", "tool", "a.py")]
    assert list_turns(run(step(), history=history)) == expected
    expected = [("history:0", "user", "Task"), ("history:1", "assistant", "x"), ("history:2", "tool", "a.py")]
    assert list_turns({"history": history}) == expected
    call = {"function": {"name": "open", "arguments": '{"path": "a.py"}'}, "id": "c", "type": "function"}
    odd = {"function": {"name": "run", "arguments": "{broken"}}
    history = [message("user", "Task"), message("assistant", "", tool_calls=[call, odd, None, {"function": 3}])]
    assert list_turns({"history": history})[1] == ("history:1", "assistant", "[open] a.py\n[run] {broken")


def test_observations_are_cut_and_lose_the_shells_prompt():
    parsed = parse(run(step(observation=LONG)), tool_chars=CUT_AT)
    check_cut(parsed)
    text = "OBSERVATION:\none\r\ntwo\n<memory>\nold\n</memory>" + SHELL
    parsed = parse(run(step(observation=text)))
    assert parsed.sessions[0].turns[1].text == "one\ntwo"
    assert set(parsed.junk) == {"memory", "host"}


@cases("state, project",
    ('{"open_file": "n/a", "working_dir": "/keeper"}\n', "keeper"),
    ({"open_file": "n/a", "working_dir": "/home/ana/keeper"}, "keeper"), ({"working_dir": "/testbed"}, None),
    ({"working_dir": 3}, None), ("{broken", None), (None, None), ([1], None))  # fmt: skip
def test_the_project_is_the_working_folder(state, project):
    assert parse(run(step(state=state))).sessions[0].project == project


@cases("path, mtime, at, quality",
    ("2026-04-14 run.traj", MTIME, datetime(2026, 4, 14, tzinfo=UTC), "derived"), ("run.traj", MTIME, MTIME, "file"),
    ("run.traj", None, None, "none"))  # fmt: skip
def test_times(path, mtime, at, quality):
    turn = parse(run(step()), path=path, mtime=mtime).sessions[0].turns[0]
    assert (turn.time, turn.time_quality) == (at, quality)


def test_runs_may_be_copies_or_lack_a_task():
    text = (LOGS / "swe_lighthouse.traj").read_text()
    (one,), (two,) = (parse(text, path=f"{folder}/k.traj").sessions for folder in ("a", "b"))
    assert one.turns == two.turns
    assert one.id != two.id
    (session,) = parse(run(step())).sessions
    assert session.title is None
    assert [turn.id for turn in session.turns] == ["0", "0:tool"]
    found = list_turns(run(step(observation=None), step(observation=""), step()))
    assert [name for name, _, _ in found] == ["0", "1", "2", "2:tool"]
    assert parse({"history": [message("system", "S")]}).sessions == ()
    steps = [step(), step(state={"working_dir": "/one"}), step(state={"working_dir": "/two"})]
    assert parse(run(*steps)).sessions[0].project == "one"


def test_unknown_roles_are_counted_and_never_fatal():
    history = [message("user", "Task"), message("oracle", "x"), message(["user"], "x"), 7]
    parsed = parse(run(step(), "half", history=history))
    assert dict(parsed.unknown) == {"oracle": 1, "(no role)": 2, "(no step)": 1}
    assert len(parsed.sessions[0].turns) == 3


def test_values_of_wrong_types_cost_no_other_turn():
    calls = [{"function": {"name": "open", "arguments": '{"path": "a.py"}'}, "id": "c", "type": "function"}]
    task, last = message("user", "Hi"), step("", "", "Bye")
    used = step("ls", "x", [{"text": "x"}], state={"working_dir": "/w"}, thinking_blocks=[{"thinking": "x"}])
    check_wrong_types(lambda odd: parse(run(odd, last, history=[task])), used, step([{"text": "x"}], [{"text": "x"}]))
    answer = message("assistant", [{"type": "text", "text": "x"}], tool_calls=calls, is_demo=False, message_type="x")
    check_wrong_types(lambda odd: parse({"history": [task, odd, message("assistant", "Bye")]}), {**used, **answer})


@cases("text, why",
    ('{"trajectory": [{"action": "ls", "obser', "not valid JSON"), ("", "not valid JSON"),
    ("[]", "neither trajectory nor history"), ('{"trajectory": {}, "history": 3}', "neither trajectory nor history"),
    ('{"messages": []}', "neither trajectory nor history"))  # fmt: skip
def test_other_json_is_refused_with_a_remedy(text, why):
    with pytest.raises(InputRefused, match=rf"^{why}.*;"):
        parse(text)


@cases("name", "swe_lighthouse.traj", "swe_history.traj")
@cases("indent", None, 1)
@cases("end", "", "\n")
def test_detects_its_own(name, indent, end):
    text = json.dumps(json.loads((LOGS / name).read_text()), indent=indent)
    assert swe_agent.detect(take_sample(text + end, "x.json"))


def test_hostile_text_needs_linear_time():
    def read(text):
        parse(run(step(observation=text, thought=text), history=[message("user", text)]))
        swe_agent.detect(take_sample("{" + text, "x"))

    check_cpu_time(
        read, "<pr_description>" * 50_000, "\n" * 200_000, "INSTRUCTIONS:" * 50_000, "(Open file: " * 50_000,
        SHELL * 20_000)  # fmt: skip
