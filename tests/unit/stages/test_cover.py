"""Found turns lend their score to the turns around them."""

from __future__ import annotations

import math

import numpy as np
import pytest

from helix.stages.cover import Talk, lend, spread_runs

N = 7


def make_talk(voices: str, tokens: int = 10, ends: tuple[int, ...] = (N - 1,)) -> Talk:
    """Rows in their order, in sessions that end at some rows."""
    rows = np.arange(N, dtype=np.int32)
    after = np.where(np.isin(rows, ends), -1, rows + 1).astype(np.int32)
    before = np.r_[-1, np.where(after[:-1] < 0, -1, rows[:-1])].astype(np.int32)
    voice = np.array([ord(voice) for voice in voices], np.int64)
    return Talk(before, after, np.full(N, tokens, np.uint32), voice)


def lend_in(talk: Talk, own: dict[int, float], reach: float = 18.0) -> dict[int, float]:
    rows = np.array(list(own), np.int64)
    found, total = lend(rows, np.array(list(own.values()), np.float32), talk, reach)
    return dict(zip(found.tolist(), total.tolist(), strict=True))


def test_a_share_falls_with_the_tokens_between() -> None:
    """Ten tokens a turn and eight a border: the middles are 18 apart."""
    found = lend_in(make_talk("abababa"), {3: 1.0})
    assert found == pytest.approx({3: 1, 2: math.exp(-1), 4: math.exp(-1), 1: math.exp(-2), 5: math.exp(-2)})
    far = lend_in(make_talk("abababa", tokens=28), {3: 1.0})  # 36 apart
    assert far == pytest.approx({3: 1, 2: math.exp(-2), 4: math.exp(-2)})


def test_loans_of_several_turns_add_up() -> None:
    found = lend_in(make_talk("abababa"), {2: 1.0, 4: 0.5})
    assert found[3] == pytest.approx(1.5 * math.exp(-1))
    assert found[2] == pytest.approx(1 + 0.5 * math.exp(-2))


def test_nothing_is_lent_to_another_session_or_within_what_one_says_in_a_row() -> None:
    assert set(lend_in(make_talk("abababa", ends=(3, 6)), {3: 1.0})) == {1, 2, 3}
    found = lend_in(make_talk("abbbaba"), {1: 1.0, 2: 1.0})
    assert found[1] == found[2] == pytest.approx(1)  # pieces of one turn
    assert found[3] == 0
    assert found[0] == pytest.approx(math.exp(-1) + math.exp(-2))


def test_of_what_one_says_in_a_row_the_best_speaks_for_all() -> None:
    talk = make_talk("aabbbaa", ends=(4, 6))
    rows = np.array([5, 1, 0, 3, 2, 4, 6], np.int64)
    total = np.array([6.0, 1.0, 2.0, 3.0, 4.0, 5.0, 1.5], np.float32)
    spread = dict(zip(rows.tolist(), spread_runs(rows, total, talk, rows).tolist(), strict=True))
    # Rows 0 and 1, 2 to 4, and 5 and 6 are runs; 5 is of another session than 4.
    assert spread == pytest.approx({0: 2, 1: 0.5, 4: 5, 2: 2, 3: 1, 5: 6, 6: 0.75})
