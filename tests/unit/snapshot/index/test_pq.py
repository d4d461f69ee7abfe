"""Lists of 4-bit codes against a naive search and against FAISS."""

from __future__ import annotations

from pathlib import Path

import faiss
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from helix.errors import StoreError
from helix.native.lists import GROUP, build_code_table, build_lists, round_to_steps, search_lists
from helix.snapshot.index.dense import build_dense, dequantise, open_dense
from helix.snapshot.index.pq import CodedLists, build_tables, open_coded, search_coded
from helix.snapshot.segment.arrays import quantise_vectors
from tests.support.draws import draw_share

N, DIM = 6_000, 24
TABLE = np.zeros((2, 16), np.uint8)


def pack_codes(codes: np.ndarray) -> np.ndarray:
    """Pack uint8[n, m] of 4 bits, m even, as lists.c reads them: uint8[groups, m, 16]."""
    n, m = codes.shape
    whole = np.zeros((-(-n // GROUP) * GROUP, m), np.uint8)
    whole[:n] = codes
    out = np.zeros((len(whole) // GROUP, m, 16), np.uint8)
    for group in range(len(out)):
        for byte in range(16):
            row = group * GROUP + byte // 2 + 8 * (byte % 2)
            out[group, :, byte] = whole[row] | whole[row + 16] << 4
    return out


def widths() -> list[int]:
    """Return the register widths of this machine, in bytes."""
    none, lists = np.zeros(0, np.int64), build_lists([], [], 2)
    found = []
    for bytes_ in (1, 16, 32, 64):
        try:
            search_lists(lists, none, none.astype(np.int32), np.zeros((2, 16), np.uint8), None, 1, 1, bytes_)
            found.append(bytes_)
        except ValueError:
            pass
    return found


@pytest.mark.parametrize("registers", [0, 1, 16, 32, 64])
@draw_share(0.6)
@given(data=st.data())
def test_the_best_of_some_lists(registers: int, data: st.DataObject) -> None:
    """Scores are few, so many are equal: ties go to smaller rows."""
    if registers not in (0, *widths()):
        pytest.skip(f"this machine has no registers of {registers} bytes")
    rng = np.random.default_rng(data.draw(st.integers(0, 2**32)))
    m = data.draw(st.sampled_from([2, 4, 6, 22, 192]))
    size = np.array(data.draw(st.lists(st.integers(0, 150), min_size=1, max_size=6)), np.int64)
    most = data.draw(st.sampled_from([1, 3, min(255, 65_535 // m)]))
    table = rng.integers(0, most + 1, (m, 16)).astype(np.uint8)
    near = rng.integers(0, data.draw(st.sampled_from([1, 50, 1 << 24])), len(size)).astype(np.int32)
    rows = int(size.sum())
    place = np.split(rng.permutation(rows).astype(np.int64), size.cumsum()[:-1])
    codes = [rng.integers(0, 16, (n, m)).astype(np.uint8) for n in size]
    lists = build_lists([pack_codes(one).ravel() for one in codes], place, m)
    allowed = None if data.draw(st.booleans()) else rng.random(rows) < 0.4
    k = data.draw(st.sampled_from([1, 7, 40, 1_000]))

    score = np.full(rows, -1, np.int64)
    for i, (here, code) in enumerate(zip(place, codes, strict=True)):
        score[here] = near[i] + table[np.arange(m), code].sum(axis=1, dtype=np.int64)
    passed = np.arange(rows) if allowed is None else np.flatnonzero(allowed)
    expected = passed[np.lexsort((passed, -score[passed]))][:k]

    looked = rng.permutation(len(size))
    found = search_lists(lists, looked, near[looked], table, allowed, rows, k, registers)
    assert sorted(found.tolist()) == sorted(expected.tolist())


def test_lists_reject_rows_centres_and_codes_out_of_range() -> None:
    codes, rows = pack_codes(np.zeros((3, 2), np.uint8)).ravel(), np.array([0, 5, 1])
    lists, first, near, table = build_lists([codes], [rows], 2), np.zeros(1, np.int64), np.zeros(1, np.int32), TABLE
    assert sorted(search_lists(lists, first, near, table, None, 6, 9).tolist()) == [0, 1, 5]
    for allowed in (None, np.ones(5, bool)):
        with pytest.raises(StoreError, match="names a row outside 5"):
            search_lists(lists, first, near, table, allowed, 5, 9)
    for wrong in (-1, 1 + (1 << 24)):
        with pytest.raises(StoreError, match="a centre is no number"):
            search_lists(lists, first, near + np.int32(wrong), table, None, 6, 9)
    for wrong in (-1, 1):
        with pytest.raises(ValueError, match="a chosen list is outside the 1 lists"):
            search_lists(lists, first + wrong, near, table, None, 6, 9)
    for given_, why in (
        ((near, table, np.ones(4, bool), 6), "allowed has the shape"),
        ((np.zeros(2, np.int32), table, None, 6), "near has the shape"),
        ((near, np.zeros((4, 16), np.uint8), None, 6), "has 4 pieces, the lists have 2"),
    ):
        with pytest.raises(ValueError, match=why):
            search_lists(lists, first, *given_, 9)
    with pytest.raises(ValueError, match="registers of 7"):
        search_lists(lists, first, near, table, None, 6, 9, 7)
    codes, rows = pack_codes(np.zeros((33, 2), np.uint8)).ravel(), np.arange(33)
    assert build_lists([codes], [rows], 2).size.tolist() == [33]
    for short in (codes[:-1], codes[:32]):
        with pytest.raises(ValueError, match="codes has the shape"):
            build_lists([short], [rows], 2)
    with pytest.raises(ValueError, match="codes are 1 arrays"):
        build_lists([codes], [rows, rows], 2)


def test_code_tables_by_hand() -> None:
    """Two pieces of two dimensions; code 3 of the second is (1, 2)."""
    book = np.zeros((2, 2, 16), np.float32)
    book[0, 1, 3], book[1, 1, 3], book[0, 0, 7] = 1, 2, -1
    part, most = build_code_table(book, np.array([4, 0, 10, 100], np.float32))
    assert part[0].tolist() == [4] * 7 + [0] + [4] * 8  # from the least on: code 7 adds −4
    assert part[1].tolist() == [0] * 3 + [210] + [0] * 12
    assert most == 210
    assert round_to_steps(part, 0.1).tolist() == [[0] * 16, [0] * 3 + [21] + [0] * 12]  # .4 is none
    with pytest.raises(ValueError, match=r"query has the shape \(3,\), not \(4,\)"):
        build_code_table(book, np.zeros(3, np.float32))


def test_many_pieces_stay_within_sixteen_bits() -> None:
    """255 steps for each of 600 equal pieces would overflow twice."""
    book = np.zeros((1, 600, 16), np.float32)
    book[:, :, 15] = 1
    one = np.ones((1, 600), np.int8), np.ones(1, np.float32), np.arange(1)
    coded = CodedLists(*one, book, build_lists([np.empty(0, np.uint8)], [np.empty(0, np.int64)], 600), 0)
    table, near = build_tables(coded, np.ones(600, np.float32), np.array([3], np.float32))
    assert table[:, 15].tolist() == [65_535 // 600] * 600
    assert near.tolist() == [0]


@pytest.fixture(scope="module", params=[DIM, DIM + 2], ids=["even", "odd"])
def world(request, tmp_path_factory: pytest.TempPathFactory) -> tuple[object, CodedLists, np.ndarray, np.ndarray]:
    """An index of 6,000 rows in an even and in an odd number of pieces: (FAISS's, ours, the vectors, questions)."""
    rng = np.random.default_rng(5)
    dim = request.param
    points = rng.normal(size=(N, dim)).astype(np.float32) + 2 * rng.normal(size=(40, dim))[rng.integers(40, size=N)]
    codes, scale = quantise_vectors(points.astype(np.float32))
    path = tmp_path_factory.mktemp("coded") / "ivf.faiss"
    found = open_dense(path, build_dense(codes, scale, path))
    assert found.coded is not None
    questions = rng.normal(size=(20, dim)).astype(np.float32)
    return faiss.read_index(str(path)), found.coded, dequantise(codes, scale, slice(None)), questions


def test_the_lists_are_those_of_the_file(world, tmp_path: Path) -> None:
    index, coded, points, _ = world
    assert coded.rows == N == coded.lists.size.sum()
    _, assigned = index.quantizer.search(points, 1)
    assert coded.lists.size.tolist() == np.bincount(assigned[:, 0], minlength=index.nlist).tolist()
    longer = faiss.clone_index(index)
    longer.ntotal = N + 1
    faiss.write_index(longer, str(tmp_path / "longer"))
    with pytest.raises(ValueError, match=f"its lists have {N} rows, not {N + 1}"):
        open_coded(tmp_path / "longer")


@pytest.mark.parametrize("lists", [1, 7, None])
def test_the_search_is_as_good_as_faiss(world, lists: int | None) -> None:
    """By FAISS's scores, no omitted row is better than a returned one, up to rounding."""
    index, coded, _, questions = world
    probes, strange = lists or index.nlist, 0
    for question in questions:
        score, row = index.search(question[None], N, params=faiss.SearchParametersIVF(nprobe=probes))
        there = row[0] >= 0
        of = dict(zip(row[0][there].tolist(), score[0][there].tolist(), strict=True))
        found = search_coded(coded, question, 50, probes, None, None)
        if lists and not set(found.tolist()) <= set(of):
            strange += 1  # two centres as near: ours are of 8 bits
            continue
        assert len(found) == min(50, len(of))
        assert set(found.tolist()) <= set(of)
        left = [of[one] for one in set(of) - set(found.tolist())]
        span = max(of.values()) - min(of.values())
        assert max(left, default=-1e9) <= min(of[one] for one in found.tolist()) + 0.03 * span
    assert strange <= 2


def test_sums_in_steps_are_inner_products(world) -> None:
    """Within half a step for each piece and for the centre."""
    index, coded, points, questions = world
    centres = faiss.downcast_index(index.quantizer).reconstruct_n(0, index.nlist)
    assigned = index.quantizer.search(points, 1)[1][:, 0]
    codes = faiss.vector_to_array(index.pq.centroids).reshape(index.pq.M, 16, -1)
    rest = (points - centres[assigned]).reshape(N, index.pq.M, 1, -1)
    code = ((rest - codes[None]) ** 2).sum(-1).argmin(-1)  # of each piece the nearest
    question = questions[0]
    exact = centres[assigned] @ question
    for piece in range(index.pq.M):
        exact += codes[piece, code[:, piece]] @ question.reshape(index.pq.M, -1)[piece]
    table, near = build_tables(coded, question, centres @ question)
    sums = near[assigned] + table[np.arange(index.pq.M), code].sum(1, dtype=np.int64)
    steps = np.polyfit(exact, sums, 1)
    assert table.max() == 255
    assert np.abs(np.polyval(steps, exact) - sums).max() <= (index.pq.M + 1) / 2 + 1
    assert table.astype(int).max(axis=1).sum() < 1 << 16
    assert near.min() == 0
    assert near.max() <= 1 << 24


def test_equal_vectors_can_be_searched(tmp_path: Path) -> None:
    codes, scale = quantise_vectors(np.ones((5_000, 8), np.float32))
    found = open_dense(tmp_path / "i", build_dense(codes, scale, tmp_path / "i"))
    assert found.coded is not None
    assert len(found.search(np.ones(8, np.float32), 10, None)) >= 10
    assert len(found.search(np.zeros(8, np.float32), 10, None)) >= 10
