"""`helix.ranking.fact_validity.resolve_ends` against a loop over the rules."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from helix.ranking.fact_validity import NO_END, resolve_ends
from helix.types import I64
from tests.support.draws import draw_share


class Row(NamedTuple):
    family: int
    qualifier: int  # 0 for none
    object: int
    valid: int
    said: int
    until: int
    closes: bool

    @property
    def group(self) -> int:
        return self.family + self.qualifier

    @property
    def functional(self) -> bool:
        return self.group % 2 == 0


ROW = st.builds(
    Row,
    family=st.sampled_from([10, 20, 30]),
    qualifier=st.integers(0, 2),
    object=st.integers(0, 3),
    valid=st.integers(-3, 6),
    said=st.integers(0, 3),
    until=st.one_of(st.just(NO_END), st.integers(-3, 8)),
    closes=st.booleans(),
)


def resolve_naively(rows: list[Row]) -> list[int]:
    order = sorted(range(len(rows)), key=lambda i: (rows[i].valid, rows[i].said, i))
    ends = [NO_END] * len(rows)
    for place, i in enumerate(order):
        row = rows[i]
        if row.closes:
            ends[i] = row.valid
            continue
        bounds = [] if row.until == NO_END else [row.until]
        for j in order[place + 1 :]:
            later = rows[j]
            wide = later.closes and not later.qualifier and later.family == row.family
            if later.group != row.group and not (wide and later.object == row.object != 0):
                continue
            if later.closes:
                ended = later.object in (0, row.object)
            else:
                over = later.until != NO_END and later.until <= later.valid
                ended = row.functional and later.object != row.object and not over
            if ended:
                bounds.append(later.valid)
                break
        if bounds:
            ends[i] = min(bounds)
    return ends


def resolve_columns(rows: list[Row]) -> I64:
    columns = {name: [getattr(row, name) for row in rows] for name in ("group", "family", "object", "valid", "said")}
    columns |= {name: [getattr(row, name) for row in rows] for name in ("until", "functional", "closes")}
    kinds = [np.uint64] * 3 + [np.int64] * 3 + [bool] * 2
    return resolve_ends(*(np.array(column, kind) for column, kind in zip(columns.values(), kinds, strict=True)))


@draw_share(4)
@given(st.lists(ROW, max_size=24))
def test_the_vectorised_rules_equal_the_loop(rows: list[Row]) -> None:
    assert resolve_columns(rows).tolist() == resolve_naively(rows)


@draw_share(1.5)
@given(st.lists(ROW, max_size=16, unique_by=lambda row: (row.family, row.valid, row.said)), st.randoms())
def test_the_order_of_arrival_does_not_matter(rows: list[Row], random: object) -> None:
    shuffled = list(rows)
    random.shuffle(shuffled)  # type: ignore[attr-defined]
    assert dict(zip(shuffled, resolve_columns(shuffled).tolist(), strict=True)) == dict(
        zip(rows, resolve_columns(rows).tolist(), strict=True)
    )
