"""The context: the best at both ends, never over the budget, and rather few and good than full."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from helix.encoders.token_counter import EstimatedCounter
from helix.sdk.memory import Memory
from tests.support.tiny import at_cosine, make_store, memory_of

AXIS = np.eye(16)[0]
LONG = "this goes on " * 60
"""Without the end of a sentence it is cut to no less than an excerpt."""


def pack_ranked(root: Path, texts: Sequence[str], given: Sequence[dict[str, Any]] | None = None) -> Memory:
    """A store whose items answer any question in the order given: no word of theirs is asked for."""
    cosine = np.linspace(0.9, 0.3, len(texts))
    vectors = at_cosine(AXIS, cosine, len(texts), np.random.default_rng(0))
    make_store(root, texts, vectors, given or [{"session": f"s{i}"} for i in range(len(texts))])
    return memory_of(root, lambda text: AXIS)


@pytest.mark.parametrize("n", [2, 3, 6, 7])
def test_the_best_stand_at_both_ends(tmp_path: Path, n: int) -> None:
    """Lost in the middle. Switch: `outside_in` that gives the ranks in their order."""
    texts = [f"number{i} said something" for i in range(n)]
    found = pack_ranked(tmp_path, texts).recall("question", k=n)
    assert [item.text for item in found.items] == texts
    read = sorted(range(n), key=lambda i: found.context.index(f"number{i} "))
    assert (read[0], read[-1]) == (0, 1)
    # From either end to the middle it only gets weaker.
    weakest = read.index(n - 1)
    assert read[: weakest + 1] == sorted(read[: weakest + 1])
    assert read[weakest:] == sorted(read[weakest:], reverse=True)
    assert [texts.index(item.text) for item in found.packed] == read


@pytest.mark.parametrize("pad", range(4))
def test_no_budget_is_ever_exceeded(tmp_path: Path, pad: int) -> None:
    """Over-packing. Switch: `left -= size` left out of `pack`, or a line break after a block not counted.

    Blocks of equal length, padded so that every remainder by the counter's four characters comes up: a character a
    block that is not counted adds up.
    """
    rng = np.random.default_rng(pad)
    letters = np.array(list("abcdefgh"))
    texts = [f"{''.join(rng.choice(letters, 20))} {''.join(rng.choice(letters, 19))}{'x' * pad}." for _ in range(9)]
    memory = pack_ranked(tmp_path, [*texts, "A last one. " * 30])
    packed = set()
    for budget in range(pad % 2, 420, 2):
        found = memory.recall("question", budget=budget)
        assert found.tokens == EstimatedCounter()([found.context])[0] <= budget
        assert bool(found.context) == bool(found.packed)
        packed.add(len(found.packed))
    assert packed == set(range(11))


def test_no_weaker_item_replaces_a_better_one_that_does_not_fit(tmp_path: Path) -> None:
    """Over-packing. Switch: in `pack`, take every item that fits, not only those before the first that does not."""
    texts = ["number0 is short", f"number1 is long: {LONG}", "number2 is short", "number3 is short"]
    memory = pack_ranked(tmp_path / "a", texts)
    assert [item.text for item in memory.recall("question", budget=2_000).packed] == [texts[i] for i in (0, 2, 3, 1)]
    found = memory.recall("question", budget=75)
    assert [item.text for item in found.packed] == [texts[0]]
    assert found.tokens < 45  # there was room for two short ones more

    texts[1] = "number1 is long. " + "It goes on and on, and has an end here. " * 40
    found = pack_ranked(tmp_path / "b", texts).recall("question", budget=75)
    assert [item.text for item in found.packed] == texts[:2]  # some of it, and nothing after
    assert "number2" not in found.context
    assert "…" in found.context


def test_a_long_item_leaves_room_for_the_next(tmp_path: Path) -> None:
    """Over-packing. Switch: no excerpts (`excerpt = 0` in the profile)."""
    letters = np.random.default_rng(1).choice(list("abcdefghij"), (9, 8, 30))
    texts = [f"number{i} begins. " + " ".join(f"{''.join(word)} is long." for word in letters[i]) for i in range(9)]
    memory = pack_ranked(tmp_path, texts)
    found = memory.recall("question", budget=600)
    assert [item.text for item in found.packed] == [texts[i] for i in (0, 2, 4, 6, 8, 7, 5, 3, 1)]
    assert texts[0] in found.context  # the best is there in full
    assert texts[8] not in found.context
    assert "number8 begins." in found.context
    assert all(text in memory.recall("question", budget=2_000).context for text in texts)


def test_neighbours_come_only_where_everything_better_fits(tmp_path: Path) -> None:
    """Over-packing. Switch: `_bring` called whatever was left out or cut."""
    given = [{"session": "ab"[i // 3 % 2] if i < 6 else f"s{i}", "ord": i} for i in range(8)]
    texts = ["turn0", "number0 is short", "turn2", "turn3", "", "turn5", "far6", "far7"]
    vectors = at_cosine(AXIS, [0.1, 0.9, 0.1, 0.1, 0.8, 0.1, 0, 0], 8, np.random.default_rng(0))
    contexts = {}
    (tmp_path / "few.toml").write_text('base = "helix"\n[pack]\nitems = 0\n')  # only the best two
    for name, second in (("short", "number1 is short"), ("long", f"number1 is long: {LONG}")):
        texts[4] = second
        make_store(tmp_path / name, texts, vectors, given)
        memory = memory_of(tmp_path / name, lambda text: AXIS, profiles=tmp_path)
        found = memory.recall("question", k=2, budget=150, profile="few")
        assert [item.text for item in found.items] == [texts[1], second]
        contexts[name] = found.context
    for turn in ("turn0", "turn2", "turn3", "turn5"):
        assert turn in contexts["short"]
        assert turn not in contexts["long"]
    assert "far6" not in contexts["short"]
