"""Every kind of the table, by an example made of its own shape."""

from __future__ import annotations

import json
import random
import string
import tomllib
from collections.abc import Callable, Iterable
from pathlib import Path

from helix.redact import kinds as secret_kinds
from helix.redact.kinds import SecretKind, ShapePart, compute_entropy, find_anchor, has_telling_prefix, parse_shape
from helix.redact.redact import redact
from helix.util.wordlists import read_toml

TOKENS = secret_kinds.read_token_kinds()
ASSIGNED = list(dict.fromkeys(kind for kinds in secret_kinds.read_assigned_kinds().values() for kind in kinds))
# Shorter examples of these are examples of another kind.
SIBLINGS = {"gitlab-pat-routable", "gitlab-runner-authentication-token-routable", "openai-api-key", "slack-bot-token"}


def make_value(parts: tuple[ShapePart, ...], seed: int) -> str:
    rng = random.Random(seed)
    return "".join(
        rng.choice(part.literals) if part.literals else "".join(rng.choices(list_letters(part), k=part.least))
        for part in parts
    )


def list_letters(part: ShapePart) -> str:
    chars, ranges = "", part.alphabet
    while ranges:
        if len(ranges) > 2 and ranges[1] == "-":
            chars += "".join(map(chr, range(ord(ranges[0]), ord(ranges[2]) + 1)))
            ranges = ranges[3:]
        else:
            chars, ranges = chars + ranges[0], ranges[1:]
    # A sign at the end of a token would be no part of it to a reader either.
    return "".join(c for c in chars if c in string.ascii_letters + string.digits) or chars


def make_example(kind: SecretKind) -> str:
    for seed in range(100):
        value = make_value(kind.shape, seed)
        if compute_entropy(value) >= kind.entropy + 0.1 and any(c.isdigit() for c in value):
            return value
    raise AssertionError(kind.id)


def assign(kind: SecretKind, value: str) -> str:
    words = "client_id" if "client" in kind.words else "_".join(kind.words[:2]) if kind.words else "api_key"
    return f'{kind.near[0]}_{words} = "{value}"'


def check_all(kinds: Iterable[SecretKind], passes: Callable[[SecretKind], bool]) -> None:
    assert [(kind.id, make_example(kind)) for kind in kinds if not passes(kind)] == []


def test_the_table_is_whole() -> None:
    kinds = [*TOKENS, *ASSIGNED]
    assert len({kind.id for kind in kinds}) >= 200
    table = read_toml("helix.redact", "secrets")
    assert {kind.id for kind in kinds} == {*table["token"], *table["assigned"], *table["own"]}
    for kind in kinds:
        assert all(part.literals or 0 < part.least <= part.most for part in kind.shape), kind.id
        assert kind.leading < len(kind.shape), kind.id


def test_the_table_names_its_licence() -> None:
    folder = Path(secret_kinds.__file__).parent
    table = (folder / "data" / "secrets.toml").read_text("utf-8")
    assert tomllib.loads(table).keys() == {"alphabet", "token", "assigned", "own"}
    notice = (folder / "SECRETS-NOTICE.md").read_text("utf-8")
    assert all("Copyright (c) 2019 Zachary Rice" in text for text in (table, notice))
    assert "Permission is hereby granted, free of charge" in notice
    assert "THE SOFTWARE IS PROVIDED" in notice


def test_a_token_is_found_anywhere_and_named() -> None:
    def is_found(kind: SecretKind, before: str, after: str) -> bool:
        value = make_example(kind)
        secret = value[len("".join(part.literals[0] for part in kind.shape[: kind.leading])) :]
        text, counts = redact(before + value + after)
        return secret not in text and text.startswith(before) and text.endswith(after) and counts == {kind.id: 1}

    for before, after in (
        ("use ", " now"), ('{"a": "', '"}'), ("\\n", "\\n"), ("(", ")"), ("https://x.example/?t=", "&y=1"),
    ):  # fmt: skip
        check_all(TOKENS, lambda kind, before=before, after=after: is_found(kind, before, after))


def test_a_token_that_is_too_short_stays() -> None:
    def stays(kind: SecretKind) -> bool:
        value, last = make_example(kind), kind.shape[-1]
        short = f"use {value[: len(value) - (last.least or len(last.literals[0])) // 2 - 1]} now"
        text, counts = redact(short)
        return text == short or (kind.id not in counts and kind.id in SIBLINGS)

    check_all(TOKENS, stays)


def test_a_token_within_a_word_stays() -> None:
    kinds = [kind for kind in TOKENS if find_anchor(kind)[0][0][0].isalnum() and not kind.leading]
    check_all(kinds, lambda kind: kind.id not in redact(f"use xyz{make_example(kind)} now")[1])


def test_a_token_with_a_wordlike_prefix_stays_if_letters_follow() -> None:
    kinds = [kind for kind in TOKENS if not has_telling_prefix(kind) and kind.shape[-1].least == kind.shape[-1].most]
    for after in ("Zz9", "+Zz9", "/Zz9Zz9Zz9Zz9Zz9", "="):
        check_all(kinds, lambda kind, after=after: kind.id not in redact(f"use {make_example(kind)}{after} now")[1])


def test_a_cut_token_with_a_telling_prefix_is_found() -> None:
    def is_found(kind: SecretKind) -> bool:
        cut = make_example(kind)[: -(kind.shape[-1].least // 4)]
        text, counts = redact(f"use {cut}")
        return counts.total() == 1 and cut not in text

    check_all([kind for kind in TOKENS if has_telling_prefix(kind) and kind.shape[-1].least >= 20], is_found)


def test_a_masked_token_stays() -> None:
    def stays(kind: SecretKind) -> bool:
        masked = "".join(part.literals[0] if part.literals else "x" * part.least for part in kind.shape)
        return redact(f"use {masked} now") == (f"use {masked} now", {})

    check_all(TOKENS, stays)


def test_a_value_is_found_by_its_name() -> None:
    def is_found(kind: SecretKind) -> bool:
        value = make_example(kind)
        text, counts = redact(json.dumps({"text": assign(kind, value)}))
        return value not in text and counts == {kind.id: 1}

    check_all(ASSIGNED, is_found)


def test_the_same_value_with_another_name_stays() -> None:
    kinds = [kind for kind in ASSIGNED if all(part.alphabet for part in kind.shape)]
    check_all(kinds, lambda kind: redact(f'checksum = "{make_example(kind)}"')[1] == {})


def test_a_value_of_another_length_has_another_kind() -> None:
    check_all(ASSIGNED, lambda kind: kind.id not in redact(assign(kind, make_example(kind)[:-1] + ".x7"))[1])


def test_parse_shape() -> None:
    parts, leading = parse_shape("a|b_ > alnum{2,4} hex{8,} - digit{3}")
    assert leading == 1
    assert [part.literals for part in parts] == [("a", "b_"), (), (), ("-",), ()]
    assert [(part.least, part.most) for part in parts if part.alphabet] == [(2, 4), (8, 4096), (3, 3)]


def test_the_anchor_is_the_first_literal_of_three_letters_in_a_fixed_place() -> None:
    for shape, anchor in (
        ("ab_ alnum{36}", (("ab_",), 0)), ("ab_ alnum{36} long-one", (("ab_",), 0)),
        ("alnum{6} _ alnum{29} _xyz", (("_xyz",), 36)), ("ab_|cde_ alnum{6} . hex{2}", (("ab_", "cde_"), 0)),
        ("a- alnum{2,4} long-one", (("a-",), 0))):  # fmt: skip
        assert find_anchor(SecretKind("x", *parse_shape(shape), (), (), 0, ())) == anchor


def test_entropy() -> None:
    assert [compute_entropy(text) for text in ("", "aaaa", "abab", "abcdabcd")] == [0, 0, 1, 2]


def test_examples_of_documentation_stay() -> None:
    for text in ("AKIA" + "IOSFODNN7EXAMPLE", "gh" + "p_" + "x" * 36, "sk-" + "proj-" + "." * 3):
        assert redact(text) == (text, {})
