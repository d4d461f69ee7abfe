"""Noise of any format: encoded data, repetitions, sessions of summarisers, rows of a progress bar."""

from __future__ import annotations

import base64
import random
from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from helix.sources.common.injected import strip_host, strip_memory
from helix.sources.common.noise import ENCODED, REPEATED, remove_noise
from helix.sources.common.tools import keep_ends
from helix.types import Parsed, Session, Turn
from tests.support.turns import cases, load_texts

PASTE = "Always answer in short sentences. " * 8


def session(*turns: tuple[str, str], source: str = "codex", name: str = "s") -> Session:
    """Return a session of turns given as (role, text)."""
    origins = {"user": "human", "assistant": "assistant", "tool": "tool", "document": "document"}
    made = (Turn(f"t{i}", text, role=role, origin=origins[role]) for i, (role, text) in enumerate(turns))
    return Session(source, name, tuple(made))


def texts(*turns: tuple[str, str], source: str = "codex") -> tuple[list[str], Counter[str]]:
    done = remove_noise(Parsed((session(*turns, source=source),), junk=Counter({"host": 7})))
    assert done.junk.pop("host") == 7  # type: ignore[attr-defined]
    return [turn.text for each in done.sessions for turn in each.turns], Counter(done.junk)


def encode(size: int, seed: int = 0) -> str:
    return base64.b64encode(random.Random(seed).randbytes(size)).decode()


def test_encoded_data_becomes_a_note_of_its_length() -> None:
    data = encode(3_000)
    (text,), junk = texts(("user", f"Look: data:image/png;base64,{data} - what is wrong?"))
    length = len(f"data:image/png;base64,{data}")
    assert text == f"Look: [{length} characters of encoded data] - what is wrong?"
    assert junk == {"encoded": length}
    data = encode(1_000)
    wrapped = "\n".join(data[i : i + 76] for i in range(0, len(data), 76))
    (text,), junk = texts(("tool", f"$ cat key.b64\n{wrapped}\nand a word"))
    assert text.startswith("$ cat key.b64\n[")
    assert text.endswith(" characters of encoded data]\nand a word")
    assert junk["encoded"] == len(wrapped)


@cases(
    "text",
    "-" * 300,
    "=" * 300,
    "a" * 500,
    "_".join(["snake"] * 60),
    "/usr/lib/python3/" + "site/packages/" * 30,
    encode(100),  # below the limit
    "x" * (ENCODED - 1),
    "ein" + "Donaudampfschifffahrtsgesellschaft" * 7,
)
def test_runs_that_are_no_data_stay(text: str) -> None:
    assert texts(("user", text)) == ([text], Counter())


def test_pasted_text_stays_once_and_answers_repeat_themselves() -> None:
    found, junk = texts(
        ("user", f"{PASTE}\n\nSet the timeout to 30 s."),
        ("assistant", "Done."),
        ("user", f"{PASTE}\n\nAnd the retries to 3."),
        ("user", PASTE),
    )
    assert found == [f"{PASTE}\n\nSet the timeout to 30 s.", "Done.", "And the retries to 3."]
    assert junk == {"repeated": 2 * len(PASTE)}
    found, _ = texts(("tool", PASTE), ("tool", PASTE.replace(". ", ".\n").rstrip()))
    assert len(found) == 1
    assert len(texts(("assistant", PASTE), ("assistant", PASTE))[0]) == 2
    short = "x" * (REPEATED - 1)
    assert len(texts(("user", short), ("user", short))[0]) == 2
    for source in ("jsonl", "slack", "meeting", "captions", "markdown"):
        assert len(texts(("user", PASTE), ("user", PASTE), source=source)[0]) == 2
    both = remove_noise(Parsed((session(("user", PASTE)), session(("user", PASTE), name="other"))))
    assert [len(each.turns) for each in both.sessions] == [1, 1]


@cases("prompt", *load_texts("clean", "a_session_of_a_summariser_is_left_out"))
def test_a_session_of_a_summariser_is_left_out(prompt: str) -> None:
    found, junk = texts(("user", prompt), ("assistant", "Timeouts and retries"))
    assert found == []
    assert junk == {"summariser": len(prompt) + len("Timeouts and retries")}


@cases("prompt",
    "Summarise what we decided about the queue", "Write a function that generates a title for a conversation",
    "Warmup the cache before the tests, please", "Our product has a memory agent; rename it")  # fmt: skip
def test_people_ask_for_summaries_too(prompt: str) -> None:
    assert len(texts(("user", prompt), ("assistant", "Yes"))[0]) == 2


def test_one_prompt_of_a_person_keeps_the_session() -> None:
    prompt = "Please write a 5-10 word title for the following conversation: x"
    assert len(texts(("user", prompt), ("user", "And now fix the queue"))[0]) == 2
    assert len(texts(("user", prompt), source="jsonl")[0]) == 1


@given(st.lists(st.sampled_from([PASTE, encode(300), "a short one", f"{PASTE}\n\nmore", "Warmup"]), max_size=8))
def test_a_prefix_reads_the_same(said: list[str]) -> None:
    turns = [("user", "Fix the queue"), *(("user" if i % 2 else "tool", text) for i, text in enumerate(said))]
    whole, _ = texts(*turns)
    for end in range(1, len(turns)):
        part, _ = texts(*turns[:end])
        assert whole[: len(part)] == part


def test_progress_bars_and_overwritten_lines_are_short() -> None:
    bar = [f"Downloading torch {n}% |{'█' * (n // 10)}| {n}/100 MB" for n in range(0, 101, 5)]
    text = "\n".join(["Collecting torch", *bar, "Installed."])
    assert keep_ends(text, 5_000).split("\n") == ["Collecting torch", bar[0], bar[-1], "Installed."]
    assert keep_ends("10%\r20%\r100% done\nnext\r\n", 100) == "100% done\nnext\n"


@cases("text", "1 2 3\n4 5 6\n7 8 9\n1 1 1\n2 2 2", "alpha\nbeta\ngamma\ndelta", "test 1 ok\ntest 2 ok\ntest 3 ok", "")
def test_other_rows_stay(text: str) -> None:
    assert keep_ends(text, 1_000) == text


@cases(
    "text, left",
    ("before\n<memory>\nold\n</memory>\nafter", "before\n\nafter"),
    ("<memory>old</memory> after", "after"),
    ('  <memory items="3">\nold\n</memory>\n\nafter', "after"),
    ("UserPromptSubmit hook additional context: <memory>\nold\n</memory>\nreal question", "real question"),
    ("a\n<memory>\n1\n</memory>\nb\n<memory>\n2\n</memory>\nc", "a\n\nb\n\nc"),
    ("<memory>\nouter\n<memory>\ninner\n</memory>\ntail\n</memory>\nafter", "after"),
    # A stray opening tag takes nothing with it but the block that follows.
    ("<memory>\nis our tag\n\n<memory>\nold\n</memory>\nafter", "<memory>\nis our tag\n\nafter"),
)
def test_our_own_memory_is_cut(text, left):
    assert strip_memory(text) == left


@cases("text",
    "we wrap it in <memory> and close with </memory>, always", "<memory>\nnever closed", "</memory>\nnever opened",
    "<domain>\n  <memory unit='KiB'>1048576</memory>\n</domain>")  # fmt: skip
def test_text_about_memory_stays(text):
    assert strip_memory(text) == text


TAGS = (
    "system-reminder command-name command-message local-command-stdout local-command-caveat task-notification"
    " bash-stdout bash-stderr teammate-message"
)


@pytest.mark.parametrize("tag", TAGS.split())
def test_host_tags_go_with_their_content(tag):
    assert strip_host(f"before\n<{tag}>\nsecret <b>x</b>\n</{tag}>\nafter") == "before\n\nafter"


@cases("text",
    "the <system-reminder> tag closes with </system-reminder>", "<system-reminder>\nnot closed", "<div>\nx\n</div>",
)  # fmt: skip
def test_tags_in_a_sentence_unclosed_or_foreign_stay(text):
    assert strip_host(text) == text


def test_host_tags_go_and_typed_commands_stay():
    text = (
        '<teammate-message id="3">\nx\n</teammate-message>\n'
        "   <command-name>/a</command-name><command-message>a</command-message>"
    )
    assert strip_host(text) == ""
    assert strip_host(
        "<bash-input>git push</bash-input>\n<bash-stdout>ok</bash-stdout><bash-stderr></bash-stderr>"
    ) == ("$ git push")
    command = "<command-name>/review</command-name>\n<command-args>{}</command-args>"
    assert strip_host(command.format("only the webhook code")) == "only the webhook code"
    assert strip_host(command.format("opus")) == ""
    assert strip_host("stop\n[Request interrupted by user for tool use]") == "stop"
    assert strip_host("\x1b[1mFAILED\x1b[0m tests") == "FAILED tests"
