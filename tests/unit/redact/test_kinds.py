"""Every kind of the table, by an example that is made of its own shape."""

from __future__ import annotations

import json
import random
import string
import tomllib
from pathlib import Path

import pytest

import helix.redact.kinds
from helix.redact.kinds import Kind, Part, _telling, anchor, assigned, entropy, parse, tokens
from helix.redact.redact import redact

ASSIGNED = list(dict.fromkeys(kind for kinds in assigned().values() for kind in kinds))
KINDS = [*tokens(), *ASSIGNED]
# Shorter, these are what another kind is.
SIBLINGS = {
    "gitlab-pat-routable",
    "gitlab-runner-authentication-token-routable",
    "openai-api-key",
    "slack-bot-token",
}


def _value(parts: tuple[Part, ...], seed: int) -> str:
    rng = random.Random(seed)
    return "".join(
        rng.choice(part.literals) if part.literals else "".join(rng.choices(_alphabet(part), k=part.least))
        for part in parts
    )


def _alphabet(part: Part) -> str:
    chars, ranges = "", part.alphabet
    while ranges:
        if len(ranges) > 2 and ranges[1] == "-":
            chars += "".join(map(chr, range(ord(ranges[0]), ord(ranges[2]) + 1)))
            ranges = ranges[3:]
        else:
            chars, ranges = chars + ranges[0], ranges[1:]
    # A sign at its end would be no part of a token to a reader either.
    return "".join(c for c in chars if c in string.ascii_letters + string.digits) or chars


def _example(kind: Kind) -> str:
    for seed in range(100):
        value = _value(kind.shape, seed)
        if entropy(value) >= kind.entropy + 0.1 and any(c.isdigit() for c in value):
            return value
    raise AssertionError(kind.id)


def _named(kind: Kind, value: str) -> str:
    words = "client_id" if "client" in kind.words else "_".join(kind.words[:2]) if kind.words else "api_key"
    return f'{kind.near[0]}_{words} = "{value}"'


def _id(kind: Kind) -> str:
    return kind.id


def test_the_table_is_whole() -> None:
    assert len({kind.id for kind in KINDS}) >= 200
    table = tomllib.loads(Path(helix.redact.kinds.__file__).with_name("secrets.toml").read_text())
    assert {kind.id for kind in KINDS} == {*table["token"], *table["assigned"], *table["own"]}
    for kind in KINDS:
        assert all(part.literals or 0 < part.least <= part.most for part in kind.shape), kind.id
        assert kind.kept < len(kind.shape), kind.id


@pytest.mark.parametrize("kind", tokens(), ids=_id)
def test_a_token_is_found_anywhere_and_named(kind: Kind) -> None:
    value = _example(kind)
    secret = _value(kind.shape, 0) and value[len("".join(part.literals[0] for part in kind.shape[: kind.kept])) :]
    for before, after in (
        ("use ", " now"),
        ('{"a": "', '"}'),
        ("\\n", "\\n"),
        ("(", ")"),
        ("https://x.example/?t=", "&y=1"),
    ):
        text, counts = redact(before + value + after)
        assert secret not in text
        assert text.startswith(before)
        assert text.endswith(after)
        assert counts == {kind.id: 1}


@pytest.mark.parametrize("kind", tokens(), ids=_id)
def test_a_token_that_is_too_short_stays(kind: Kind) -> None:
    value = _example(kind)
    last = kind.shape[-1]
    short = value[: len(value) - (last.least or len(last.literals[0])) // 2 - 1]
    text, counts = redact(f"use {short} now")
    # What begins like two kinds may still be the other.
    assert text == f"use {short} now" or (kind.id not in counts and kind.id in SIBLINGS)


@pytest.mark.parametrize("kind", tokens(), ids=_id)
def test_a_token_within_a_word_stays(kind: Kind) -> None:
    text = f"use xyz{_example(kind)} now"
    if anchor(kind)[0][0][0].isalnum() and not kind.kept:
        assert kind.id not in redact(text)[1]


@pytest.mark.parametrize("kind", tokens(), ids=_id)
def test_what_goes_on_in_letters_is_no_token_of_a_wordlike_prefix(kind: Kind) -> None:
    if not _telling(kind) and kind.shape[-1].least == kind.shape[-1].most:
        value = _example(kind)
        for after in ("Zz9", "+Zz9", "/Zz9Zz9Zz9Zz9Zz9", "="):
            assert kind.id not in redact(f"use {value}{after} now")[1]


@pytest.mark.parametrize("kind", tokens(), ids=_id)
def test_a_token_that_is_cut_off_goes_if_its_prefix_says_it_all(kind: Kind) -> None:
    last = kind.shape[-1]
    if _telling(kind) and last.least >= 20:
        cut = _example(kind)[: -(last.least // 4)]
        text, counts = redact(f"use {cut}")
        assert counts.total() == 1
        assert cut not in text


@pytest.mark.parametrize("kind", tokens(), ids=_id)
def test_a_mask_of_a_token_stays(kind: Kind) -> None:
    masked = "".join(part.literals[0] if part.literals else "x" * part.least for part in kind.shape)
    assert redact(f"use {masked} now") == (f"use {masked} now", {})


@pytest.mark.parametrize("kind", ASSIGNED, ids=_id)
def test_a_value_is_told_by_its_name(kind: Kind) -> None:
    value = _example(kind)
    text, counts = redact(json.dumps({"text": _named(kind, value)}))
    assert value not in text
    assert counts == {kind.id: 1}


@pytest.mark.parametrize("kind", ASSIGNED, ids=_id)
def test_the_same_value_of_another_name_stays(kind: Kind) -> None:
    if all(part.alphabet for part in kind.shape):
        text = f'checksum = "{_example(kind)}"'
        assert redact(text) == (text, {})


@pytest.mark.parametrize("kind", ASSIGNED, ids=_id)
def test_a_value_of_another_length_is_not_of_this_kind(kind: Kind) -> None:
    _, counts = redact(_named(kind, _example(kind)[:-1] + ".x7"))
    assert kind.id not in counts


def test_a_shape_as_written() -> None:
    parts, kept = parse("a|b_ > alnum{2,4} hex{8,} - digit{3}")
    assert kept == 1
    assert [part.literals for part in parts] == [("a", "b_"), (), (), ("-",), ()]
    assert [(part.least, part.most) for part in parts if part.alphabet] == [(2, 4), (8, 4096), (3, 3)]


def test_the_anchor_is_the_first_literal_of_some_length_in_a_fixed_place() -> None:
    def of(shape: str) -> tuple[tuple[str, ...], int]:
        parts, kept = parse(shape)
        return anchor(Kind("x", parts, kept, (), (), 0, ()))

    assert of("ab_ alnum{36}") == (("ab_",), 0)
    assert of("ab_ alnum{36} long-one") == (("ab_",), 0)
    assert of("alnum{6} _ alnum{29} _xyz") == (("_xyz",), 36)
    assert of("ab_|cde_ alnum{6} . hex{2}") == (("ab_", "cde_"), 0)
    assert of("a- alnum{2,4} long-one") == (("a-",), 0)


def test_entropy() -> None:
    assert entropy("") == 0
    assert entropy("aaaa") == 0
    assert entropy("abab") == 1
    assert entropy("abcdabcd") == 2


def test_examples_of_documentation_stay() -> None:
    for text in ("AKIA" + "IOSFODNN7EXAMPLE", "gh" + "p_" + "x" * 36, "sk-" + "proj-" + "." * 3):
        assert redact(text) == (text, {})
