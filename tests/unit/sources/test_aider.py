from datetime import UTC, datetime

from helix.sources import aider
from helix.sources.common.sample import take_sample
from helix.types import Document
from tests.support.paths import DATA
from tests.support.turns import CUT, CUT_AT, cases, check_cpu_time, list_texts, load_texts

LOGS = DATA / "logs"
MTIME = datetime(2026, 1, 1, tzinfo=UTC)
START = "\n# aider chat started at 2026-03-02 09:14:05\n\n"
AT = datetime(2026, 3, 2, 9, 14, 5, tzinfo=UTC)


def parse(text, path="repo/chat.md", mtime=MTIME, **options):
    return aider.parse(Document(path, text, mtime), **options)


def log(name, **options):
    return parse((LOGS / name).read_text(), path=f"logs/{name}", **options)


def chat(*blocks):
    """Return one session as the tool writes it: `#### ` and `> ` lines end with a Markdown break."""
    return START + "\n".join(blocks) + "\n"


def user(*lines):
    return "".join(f"#### {line}  \n" for line in lines)


def tool(*lines):
    return "".join(f"> {line}  \n" for line in lines)


def turns(text, **options):
    (session,) = parse(text, **options).sessions
    return session.turns


def list_turns(text, **options):
    return [(turn.role, turn.text) for turn in turns(text, **options)]


def test_prompts_quotes_and_trimmed_sessions_are_read_apart():
    expected = [("user", "one"), ("user", "two"), ("assistant", "Yes.")]
    assert list_turns(chat(user("one"), user("two"), "Yes.")) == expected
    text = chat(
        user("why?"), "#### First\n\n> a quote\nand more\n\n#### Second\n\nDone.\n", tool("Applied edit to a.py")
    )
    assert list_turns(text) == [
        ("user", "why?"), ("assistant", "#### First\n\n> a quote\nand more\n\n#### Second\n\nDone."),
        ("tool", "Applied edit to a.py")]  # fmt: skip
    text = START + "> Aider v0.86.1\n\n#### why?\n\nBecause.\n\n> Applied edit to a.py\n\n#### thanks\n"
    expected = [("user", "why?"), ("assistant", "Because."), ("tool", "Applied edit to a.py"), ("user", "thanks")]
    assert list_turns(text) == expected


@cases("line", *load_texts("aider", "chatter_makes_no_turn_and_is_counted"))
def test_chatter_makes_no_turn_and_is_counted(line):
    parsed = parse(chat(user("hi"), tool(line)))
    assert list_texts(parsed) == ["hi"]
    assert parsed.junk.get("tool-output", 0) == len(line)


@cases("line", *load_texts("aider", "prompts_like_a_programs_stay_if_a_person_may_ask_them"))
def test_prompts_like_a_programs_stay_if_a_person_may_ask_them(line):
    assert list_turns(chat(user("hi"), tool(line))) == [("user", "hi"), ("tool", line)]


@cases("prompt", *load_texts("aider", "commands_that_say_nothing_of_the_work_are_left_out"))
def test_commands_that_say_nothing_of_the_work_are_left_out(prompt):
    parsed = parse(chat(user(prompt), user("hi")))
    assert list_texts(parsed) == ["hi"]
    assert parsed.junk["host"] == len(prompt)


@cases("prompt", *load_texts("aider", "other_commands_are_prompts"))
def test_other_commands_are_prompts(prompt):
    assert list_turns(chat(user(prompt), "Well.")) == [("user", prompt), ("assistant", "Well.")]


def test_lines_of_the_tool_and_questions_are_read_once():
    text = chat(user("hi"), tool("Applied edit to a.py"), tool("Commit 4be91c2 fix: x"))
    assert list_turns(text)[1:] == [("tool", "Applied edit to a.py\nCommit 4be91c2 fix: x")]
    text = chat(user("hi"), tool("Applied edit to a.py", "Applied edit to a.py", "  Applied edit to b.py"))
    assert list_turns(text)[1] == ("tool", "Applied edit to a.py\n  Applied edit to b.py")
    assert list_turns(chat(user("/ask why?"), user(" why?"), "So.")) == [("user", "/ask why?"), ("assistant", "So.")]
    asked_again = chat(user("/ask why?"), "So.\n", user("why?"), "As I said.")
    assert [text for _, text in list_turns(asked_again)] == ["/ask why?", "So.", "why?", "As I said."]


@cases(
    "lines",
    ("# Fix any errors below, if possible.", "", "src/a.py:1:1: F401 unused"),
    ("I ran this command:", "", "pytest", "", "And got this output:", "", "1 failed"),
)
def test_prompts_that_the_tool_writes_are_the_tools(lines):
    (turn,) = turns(chat(user(*lines)))
    assert (turn.role, turn.origin, turn.text) == ("tool", "tool", "\n".join(lines))
    assert parse(chat(user(*lines))).sessions[0].title is None


def test_an_output_ends_at_its_last_break_or_at_the_next_prompt():
    text = chat(
        user("/run make") + "> cc tides.c\n\nld: symbol not found\nmake: *** [all] Error 1  \n\nThe linker fails."
    )
    assert list_turns(text) == [
        ("user", "/run make"), ("tool", "cc tides.c\nld: symbol not found\nmake: *** [all] Error 1"),
        ("assistant", "The linker fails.")]  # fmt: skip
    text = chat(user("/run make") + "> cc tides.c\nwarning: unused  \nmake: done  \n\nIt builds.")
    assert list_turns(text)[1:] == [("tool", "cc tides.c\nwarning: unused\nmake: done"), ("assistant", "It builds.")]
    text = chat(user("/run make") + "> cc tides.c\nstill running\n", user("stop it"), "Stopped.")
    assert list_turns(text) == [
        ("user", "/run make"), ("tool", "cc tides.c\nstill running"), ("user", "stop it"), ("assistant", "Stopped."),
    ]  # fmt: skip
    text = chat(user("hi"), "Hello.\n\n> Tokens: 6.7k sent, 1.1k received.\nCost: $0.04 message, $0.04 session.  \n")
    assert list_turns(text) == [("user", "hi"), ("assistant", "Hello.")]
    call = "> /bin/aider --message Fix it.\n\nQuickly. a.py  \n> Commit 4be91c2 fix: x  \n\n"
    expected = [("tool", "Commit 4be91c2 fix: x"), ("user", "Fix it.\n\nQuickly.")]
    assert list_turns(START + call + user("Fix it.", "", "Quickly.")) == expected


SEARCH = "<<<<<<< SEARCH\nold\n=======\nnew\n>>>>>>> REPLACE"


@cases("written, kept",
    (f"a/b.py\n```python\n{SEARCH}\n```", "[edit] a/b.py\n```python\nnew\n```"),
    (f"```python\na/b.py\n{SEARCH}\n```", "[edit] a/b.py\n```python\nnew\n```"),
    (f"a/b.py\n<source>python\n{SEARCH}\n</source>", "[edit] a/b.py\n```python\nnew\n```"),
    (f"a/b.py\n````\n{SEARCH}\n````", "[edit] a/b.py\n```\nnew\n```"),
    (f"a.py:\n{SEARCH}", "[edit] a.py\n```\nnew\n```"),
    (f"a.py\n```\n{SEARCH}\n{SEARCH}\n```\nDone.", "[edit] a.py\n```\nnew\n```\n[edit] a.py\n```\nnew\n```\nDone."),
    ("a.py\n```\n<<<<<<< SEARCH\nold\n=======\n>>>>>>> REPLACE\n```", "[edit] a.py"),
    ("a.py\n```\n<<<<<<< HEAD\nold\n=======\nnew\n>>>>>>> UPDATED\n```", "[edit] a.py\n```\nnew\n```"),
    ("a.py\n```\n<<<<<<< SEARCH\nold\n=======\nne", "[edit] a.py\n```\nne\n```"),
    ("a.py\n```\n<<<<<<< SEARCH\nol\n```", "[edit] a.py\n```\nol\n```"),
    ("notes.txt\n```\nall of it\n```\nDone.", "[edit] notes.txt\n```\nall of it\n```\nDone."),
    ("So:\n```sh\nmake\n```", "So:\n```sh\nmake\n```"), ("a = b\n=======\nc", "a = b\n=======\nc"))  # fmt: skip
def test_of_an_edit_the_file_and_the_new_code_stay(written, kept):
    assert list_turns(chat(user("go"), written))[1] == ("assistant", kept)


def test_edits_and_reasoning_keep_both_ends_of_the_answer():
    parsed = parse(chat(user("hi"), tool("A" * 500, "B" * 500)), tool_chars=CUT_AT)
    assert parsed.sessions[0].turns[1].text == CUT
    assert parsed.junk["tool-output"] == 1001 - 103
    new = "A" * 100 + "B" * 100
    parsed = parse(chat(user("go"), f"a.py\n```\n{SEARCH.replace('new', new)}\n```"), tool_chars=23)
    assert parsed.sessions[0].turns[1].text == "[edit] a.py\n```\n" + "A" * 10 + " … " + "B" * 10 + "\n```"
    assert parsed.junk["tool-output"] > 177
    thought = "--------------\n► **THINKING**\n\nhm\n\n------------\n► **ANSWER**\n"
    parsed = parse(chat(user("hi"), thought + "Hello."))
    assert list_texts(parsed) == ["hi", "Hello."]
    assert parsed.junk["reasoning"] > len("hm")
    assert list_turns(chat(user("hi"), "<think>\nhm\n</think>\nHello."))[1] == ("assistant", "Hello.")
    assert list_turns(chat(user("hi"), "<think>\nhm, never done"))[1] == ("assistant", "<think>\nhm, never done")
    parsed = parse(chat(user("mine", "<memory>", "old", "</memory>"), "Fine.\n<memory>\nold\n</memory>"))
    assert list_texts(parsed) == ["mine", "Fine."]
    assert parsed.junk["memory"] > 2 * len("<memory>old</memory>")


@cases("path, project",
    ("/home/ines/tidemark/.aider.chat.history.md", "tidemark"),
    ("C:\\work\\tidemark\\.aider.chat.history.md", "tidemark"), (".aider.chat.history.md", None),
    ("./.aider.chat.history.md", None), ("/.aider.chat.history.md", None), ("/home/ines/tidemark/chat.md", None),
)  # fmt: skip
def test_the_project_is_the_folder_of_the_history(path, project):
    assert parse(chat(user("hi")), path=path).sessions[0].project == project


def test_times_and_projects_have_fallbacks():
    (session,) = parse(user("hi") + "\n" + tool("Aider v1"), mtime=None).sessions
    assert (session.turns[0].time, session.turns[0].time_quality) == (None, "none")
    (session,) = parse(user("hi"), path="2026-04-01 chat.md").sessions
    assert (session.turns[0].time, session.turns[0].time_quality) == (datetime(2026, 4, 1, tzinfo=UTC), "derived")
    text = chat(tool("Git working dir: /home/ines/harbour"), user("hi"))
    assert parse(text, path="/home/ines/tidemark/.aider.chat.history.md").sessions[0].project == "harbour"


def test_sessions_begin_at_starts_and_keep_their_ids():
    empty = "# aider chat started at 2026-03-02 09:14:05\n\n"
    one, two = parse(empty + user("one") + "\n" + empty + empty + user("two")).sessions
    assert (one.id.split("@")[1], two.id.split("@")[1]) == ("2026-03-02T09:14:05", "2026-03-02T09:14:05-3")
    assert [session.id for session in parse(empty + user("one")).sessions] == [one.id]
    first, second = parse(tool("Commit 4be91c2 fix: x") + chat(user("hi"))).sessions
    assert (first.id.count("@"), first.turns[0].time, first.turns[0].time_quality) == (0, MTIME, "file")
    assert first.title is None
    assert (second.title, second.turns[0].time) == ("hi", AT)
    assert parse("\n# aider chat started at 2026-03-02 09:14:05\n\n\n").sessions == ()
    assert parse("").sessions == ()


def test_hostile_text_needs_linear_time():
    def read(text):
        aider.detect(take_sample(text, "x"))
        parse(text)

    check_cpu_time(
        read, START + "> x\n" * 25_000, START + "####   \n" * 25_000, chat(user("x"), "<<<<<<< SEARCH\n" * 25_000),
        chat(user("x"), "<<<<<<< SEARCH\n=======\n" * 25_000), chat(user("x"), "a.py\n```\n" * 25_000),
        chat(user("x"), "► **THINKING**\n" * 25_000), chat(user("x"), tool("?" * 200_000)),
        chat(user("x"), tool(*["a/" * 200 + "?"] * 500)), "#### a\n" + "```\n" * 50_000, "---\n" * 50_000,
        "# aider chat started at 2026-03-02 09:14:05\n" * 5_000)  # fmt: skip
