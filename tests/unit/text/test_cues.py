"""What kind of utterance a text is."""

from __future__ import annotations

import time

import pytest

from helix.text.cues import ASKS, FIRST_PERSON, MAX_CHARS, STANDING, read_cues


@pytest.mark.parametrize(
    ("text", "role", "bits"),
    [
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
        ("the I/O of an idle usher", "user", FIRST_PERSON),  # a letter of its own is taken for the word
        ("an idle usher at home, mystery meat", "user", 0),
        ("Always answer in metric units", "user", STANDING),
        ("  please never use tabs", "user", STANDING),
        ("From now on call me Bo", "user", STANDING | FIRST_PERSON),
        ("Whenever I ask for a recipe, list the allergens", "user", STANDING | FIRST_PERSON),
        ("Give sources when I ask about health", "user", STANDING | FIRST_PERSON),
        ("Don't mock the database", "user", STANDING),
        ("It is always raining", "user", 0),  # not what it begins with
        ("Alwaystrue is a function", "user", 0),
        ("Always answer in metric units", "assistant", 0),
        ("Always answer in metric units", "document", 0),
    ],
)
def test_bits(text: str, role: str, bits: int) -> None:
    assert read_cues(text, role) == bits


def test_a_long_text_is_about_something() -> None:
    said = "always "
    assert read_cues(said + "x" * (MAX_CHARS - len(said) - 1), "user") == STANDING
    assert read_cues(said + "x" * (MAX_CHARS - len(said)), "user") == 0


@pytest.mark.parametrize("piece", ["a", " ", "?", "i'", "when "])
def test_a_megabyte_takes_no_longer_than_its_length(piece: str) -> None:
    start = time.process_time()
    read_cues(piece * (1_000_000 // len(piece)), "user")
    assert time.process_time() - start < 5
