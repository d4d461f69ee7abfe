"""Kinds of texts, as bits."""

from __future__ import annotations

from helix.text.cues import ASKS, FIRST_PERSON, MAX_CHARS, NARRATES, STANDING, read_cues
from tests.support.turns import check_units

BITS = (
    ("", "user", 0),
    ("The tomatoes are watered at seven.", "user", 0),
    ("Where is the key?", "user", ASKS),
    ("Where is the key?  \n", "assistant", ASKS),
    ("鍵はどこですか？", "user", ASKS),
    ("أين المفتاح؟", "user", ASKS),
    ("Where is the key? Under the pot.", "user", 0),
    ("I moved to Oslo", "user", FIRST_PERSON),
    ("What is my name?", "user", ASKS | FIRST_PERSON),
    ("as WE said", "tool", FIRST_PERSON),
    ("the I/O of an idle usher", "user", FIRST_PERSON),  # a letter on its own counts as the word
    ("an idle usher at home, mystery meat", "user", 0),
    ("Always answer in metric units", "user", STANDING),
    ("  please never use tabs", "user", STANDING),
    ("From now on call me Bo", "user", STANDING | FIRST_PERSON),
    ("Whenever I ask for a recipe, list the allergens", "user", STANDING | FIRST_PERSON),
    ("Give sources when I ask about health", "user", STANDING | FIRST_PERSON),
    ("Don't mock the database", "user", STANDING),
    ("It is always raining", "user", 0),  # not at the begin
    ("Alwaystrue is a function", "user", 0),
    ("Always answer in metric units", "assistant", 0),
    ("Always answer in metric units", "document", 0),
    ("Now let me check the tests.", "assistant", NARRATES | FIRST_PERSON),
    ("Good question. Let me look at the pool.\n[Grep] pool", "assistant", NARRATES | FIRST_PERSON),
    ("[Read] /srv/pool.py", "assistant", NARRATES),
    ("Now let me check the tests.\n[Bash] pytest -q", "assistant", FIRST_PERSON),  # it does something
    ("Now let me check the tests.", "user", FIRST_PERSON),
    ("The pool leaks. Let me check the tests.", "assistant", FIRST_PERSON),
    ("Let me say why: " + "the pool leaks " * 20, "assistant", FIRST_PERSON),
)


def test_bits() -> None:
    assert [(text, role, read_cues(text, role)) for text, role, _ in BITS] == [*BITS]


def test_a_long_text_is_no_standing_instruction() -> None:
    instruction = "always ".ljust(MAX_CHARS - 1, "x")
    assert read_cues(instruction, "user") == STANDING
    assert read_cues(instruction + "x", "user") == 0


def test_much_of_one_thing_does_not_stall() -> None:
    check_units(lambda text: read_cues(text, "user"), "a", " ", "?", "i'", "when ")
