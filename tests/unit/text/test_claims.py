"""Claims: cues and kinds of values that a text has, and what a change leaves."""

from __future__ import annotations

import re

import numpy as np

from helix.text.claims import (
    CLAIMS,
    FORMER,
    MAX_CHARS,
    MOST,
    count_cues,
    find_former,
    hash_former,
    load_model,
    read_claims,
)
from helix.text.claims import has_change as find_changes
from helix.text.tokenize import hash_terms, shorten_ids
from helix.util.wordlists import read_toml

CUES = {
    "We moved CI to Buildkite.": {"change", "name"},
    "The pool is no longer sharded.": {"end", "set"},
    "From now on the limit is ours.": {"now", "set"},
    "what if we moved?": {"hypo", "change", "ask", "asks"},
    "The readme says so": {"quote"},
    "ok, do it": {"agree"},
    "it was too slow": {"reason"},
    "The review is on 14 March at 10:30": {"date", "time", "num", "set", "name"},
    "workers = 4": {"kv", "num"},
    "it fails in helix/text/claims.py": {"url", "reason"},
    "bless you": set(),
    "": set(),
}


def test_cues_and_kinds_of_values() -> None:
    for text, expected in CUES.items():
        found = {name for name, count in zip(CLAIMS, count_cues(text), strict=False) if count}
        assert found == expected, text
    many = dict(zip(CLAIMS, count_cues("moved, moved, moved, moved. " * 2), strict=False))
    assert many["change"] == MOST
    assert not any(count_cues("x" * MAX_CHARS + " moved?")[:-1])


def split_alternatives(words: str) -> list[str]:
    found, depth = [""], 0
    for sign in words.replace("\n", ""):
        depth += {"(": 1, ")": -1}.get(sign, 0)
        if sign == "|" and not depth:
            found.append("")
        else:
            found[-1] += sign
    return found


def test_every_cue_may_begin_where_the_look_ahead_allows() -> None:
    tables = read_toml("helix.text", "claims")
    texts = [text for name in ("words", "parts") for text in tables[name].values()]
    alternatives = [one for text in texts for one in split_alternatives(text)]
    assert len(alternatives) > 250
    assert not [one for one in alternatives if not re.match(r"(?:\(\?:)?[a-z'](?![?*])", one)]


def test_the_claims_of_items_are_counts_and_probabilities() -> None:
    texts = ["We switched from Jenkins to Buildkite for CI.", "Lunch was good.", "what if we moved to Drone?"]
    claims, alters = read_claims(texts, ["user"] * 3, load_model())
    assert (claims.dtype, claims.shape, alters.dtype) == (np.uint8, (3, len(CLAIMS)), np.uint8)
    assert alters[0] > 5 * max(alters[1:])
    assert claims[:, :-1].tolist() == [count_cues(text) for text in texts]
    sets = claims[:, CLAIMS.index("sets")]
    assert sets[0] > 128 > max(sets[1:])
    assert find_changes(claims).tolist() == [True, False, True]
    nothing = read_claims([], [], load_model())
    assert [part.shape for part in nothing] == [(0, len(CLAIMS)), (0,)]


def test_former_terms_are_those_that_a_change_leaves() -> None:
    for text, terms in {
        "We moved from Jenkins to Buildkite.": ["jenkin"],
        "use 45 s instead of 30 s for it": ["30", "s"],
        "-pool_size = 5\n+pool_size = 9": ["pool_size", "pool", "size", "5"],
        "dropped Redis because of the memory": ["redi"],
        "run it in Docker instead of on Jenkins": ["jenkin"],
        "dropped the old thing Jenkins": ["jenkin"],
        "We use Buildkite.": [],
        "": [],
    }.items():
        assert find_former(text) == terms, text
    words = "replaced amber basalt cobalt dolomite emerald"
    assert find_former(words) == ["amber", "basalt", "cobalt", "dolomit"][:FORMER]
    hashed = hash_former([words, "moved from Jenkins", "nothing"])
    assert hashed[1].tolist() == [*shorten_ids(hash_terms(["jenkin"])).tolist(), 0, 0, 0]
    assert (hashed.shape, int((hashed[0] > 0).sum()), int(hashed[2].sum())) == ((3, FORMER), FORMER, 0)
