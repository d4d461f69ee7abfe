"""Terms of texts, plain words, and term ids."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from hashlib import blake2b

import numpy as np

from helix.text.tokenize import MAX_TERM, STOP_WORDS, hash_terms, make_well_formed, split_words, tokenise
from tests.support.turns import check_units

TERMS: dict[str, list[str]] = {
    "The retries were running.": ["retri", "run"], "What did I tell Priya about vacation?": ["tell", "priya", "vacat"],
    "Don't! e.g. this, we'll see Priya's.": ["see", "priya"],
    "visibility_timeout": ["visibility_timeout", "visibl", "timeout"],
    "VisibilityTimeoutError": ["visibilitytimeouterror", "visibl", "timeout", "error"],
    "parseHTTPResponse": ["parsehttpresponse", "pars", "http", "respons"],
    "v1.2.3,": ["v1.2.3", "v1", "v", "1", "2", "3"], "#123": ["#123", "123"], "(ABC-42)": ["abc-42", "abc", "42"],
    "foo::bar": ["foo::bar", "foo", "bar"], "C:\\x\\y": ["c:\\x\\y", "c", "x", "y"],
    "C++ and C#": ["c++", "c", "c#", "c"], "": [], "... --- !!": [],
    # a path: the whole, the file name and the parts
    "see src/ledgerline/webhooks.py.":
        ["see", "src/ledgerline/webhooks.py", "webhooks.py", "src", "ledgerlin", "webhook", "py"],
    # hashes stay whole
    "a3f2b1c9d0e4": ["a3f2b1c9d0e4"], "550e8400-e29b-41d4-a716-446655440000": ["550e8400-e29b-41d4-a716-446655440000"],
    # accents fold in Latin only; width, ligatures and apostrophes are normalised
    "Café Łódź Straße": ["cafe", "lodz", "strass"], "ｆｕｌｌ ﬁne": ["full", "fine"], "don’t Priya’s": ["priya"],
    # scripts without spaces give bigrams; words of marked scripts stay whole
    "東京タワー": ["東京", "京タ", "タワ", "ワー"], "猫。": ["猫"], "한국어": ["한국", "국어"],
    "Kafkaのキュー": ["kafka", "のキ", "キュ", "ュー"], "हिन्दी में": ["हिन्दी", "में"]}  # fmt: skip


def test_terms() -> None:
    assert {text: tokenise(text) for text in TERMS} == TERMS
    assert tokenise("хай") != tokenise("хаи")
    terms = tokenise("sqlite3.OperationalError: no such table")
    assert {"sqlite3.operationalerror", "sqlite3", "operationalerror", "oper", "error", "tabl"} <= set(terms)


def test_query_and_index_share_the_parts() -> None:
    for query, text in (
        ("visibility timeout", "VISIBILITY_TIMEOUT"), ("webhooks.py", "src/ledgerline/webhooks.py"),
        ("OperationalError", "sqlite3.OperationalError")):  # fmt: skip
        assert set(tokenise(query)) <= set(tokenise(text)), query


def test_stop_words_are_dropped_in_any_case() -> None:
    assert tokenise(" ".join(STOP_WORDS)) == tokenise(" ".join(STOP_WORDS).title()) == []


def test_long_words_are_bounded() -> None:
    def read(text: str) -> None:
        terms = tokenise(text)
        assert len(terms) <= len(text)
        assert max(map(len, terms), default=0) <= MAX_TERM

    check_units(read, "a", "aB", "a1", "x/", "é", "漢", "_", "x::")


def test_threads_agree() -> None:
    text = " ".join(f"running{i}s connections_{i}" for i in range(2_000))
    expected = tokenise(text)
    with ThreadPoolExecutor(4) as pool:
        assert list(pool.map(tokenise, [text] * 4)) == [expected] * 4


def test_words_are_plain() -> None:
    assert split_words("Don't stop, x_1: Café 東京") == ["don't", "stop", "x_1", "café", "東", "京"]
    assert split_words("It's A/B.") == ["it's", "a", "b"]


def test_term_ids_are_the_documented_hash() -> None:
    ids = hash_terms(["timeout", "東京"])
    assert ids.dtype == np.uint64
    assert ids.tolist() == [
        int.from_bytes(blake2b(term.encode()).digest()[:8], "little") for term in ("timeout", "東京")
    ]
    assert int(hash_terms(["helix"])[0]) == 0x3F1E058748B13F8C  # part of the store's format
    assert hash_terms([]).shape == (0,)


def test_half_a_surrogate_pair_is_replaced_and_two_halves_are_joined() -> None:
    assert make_well_formed("cut \ud83d") == "cut \ufffd"
    assert make_well_formed("\ude00 \ud83d\ude00") == "\ufffd \U0001f600"
    for whole in ("plain", "naïve 東京 \U0001f600", "", "\ufeff mark"):
        assert make_well_formed(whole) == whole
