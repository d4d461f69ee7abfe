"""Files of 4-bit lists: FAISS reads what Helix writes, Helix reads what FAISS writes, and damage is named."""

from __future__ import annotations

from pathlib import Path

import faiss
import numpy as np
import pytest

from helix.native.lists import encode_pieces
from helix.snapshot.index import dense
from helix.snapshot.index.coded_file import CodedFile, read_coded, read_kind, write_coded
from helix.snapshot.index.dense import build_dense, open_dense
from helix.snapshot.index.kmeans import assign_vectors, fit_book, fit_centres
from helix.snapshot.index.pq import open_coded, pack_codes, search_coded
from helix.snapshot.segment.arrays import quantise_vectors

N, LISTS = 3_000, 24


def draw(dim: int, n: int = N) -> np.ndarray:
    rng = np.random.default_rng(7)
    points = rng.normal(size=(30, dim))[rng.integers(30, size=n)] + 0.8 * rng.normal(size=(n, dim))
    return (points / np.linalg.norm(points, axis=1, keepdims=True)).astype(np.float32)


def train_faiss(points: np.ndarray, pieces: int) -> faiss.IndexIVFPQFastScan:
    dim = points.shape[1]
    index = faiss.IndexIVFPQFastScan(faiss.IndexFlatIP(dim), dim, LISTS, pieces, 4, faiss.METRIC_INNER_PRODUCT)
    index.by_residual = True
    index.train(points)
    index.add_with_ids(points, np.arange(len(points)))
    return index


@pytest.mark.parametrize(("dim", "pieces"), [(16, 8), (26, 13), (16, 16), (24, 6)])
def test_a_file_of_faiss_is_read_and_written_as_it_is(dim: int, pieces: int, tmp_path: Path) -> None:
    index = train_faiss(draw(dim), pieces)
    index.nprobe = 5
    theirs, ours = tmp_path / "theirs", tmp_path / "ours"
    faiss.write_index(index, str(theirs))
    file = read_coded(theirs)
    assert read_kind(theirs) == b"IwPf"
    assert (file.rows, file.centres.shape, file.book.shape) == (N, (LISTS, dim), (pieces, 16, dim // pieces))
    np.testing.assert_array_equal(file.centres, faiss.downcast_index(index.quantizer).reconstruct_n(0, LISTS))
    np.testing.assert_array_equal(file.book.ravel(), faiss.vector_to_array(index.pq.centroids))
    write_coded(ours, file, 5)
    assert ours.read_bytes() == theirs.read_bytes()


@pytest.mark.parametrize("dim", [24, 26, 15])
def test_faiss_finds_the_same_in_a_file_of_helix(dim: int, tmp_path: Path) -> None:
    points = draw(dim, 6_000)
    codes, scale = quantise_vectors(points)
    path = tmp_path / "ivf.faiss"
    params = build_dense(codes, scale, path)
    index, coded = faiss.read_index(str(path)), open_coded(path)
    assert (index.ntotal, index.d, index.nlist) == (6_000, dim, params["lists"])
    shares = []
    for question in points[:50]:
        _, theirs = index.search(question[None], 100, params=faiss.SearchParametersIVF(nprobe=params["probes"]))
        ours = search_coded(coded, question, 100, params["probes"], None, None)
        shares.append(len(np.intersect1d(theirs[0], ours)) / 100)
    assert np.mean(shares) > 0.95  # scores of both are rounded in ways of their own


def test_training_is_as_good_as_that_of_faiss() -> None:
    """By how near the vectors are to their centres, and how much of the rest their codes leave."""
    points, rng = draw(32, 8_000), np.random.default_rng(0)
    index = train_faiss(points, 16)
    centres = fit_centres(points, LISTS, 8, rng)
    book = fit_book(points - centres[assign_vectors(points, centres)[0]], 2, rng)
    theirs = faiss.downcast_index(index.quantizer).reconstruct_n(0, LISTS)
    their_book = faiss.vector_to_array(index.pq.centroids).reshape(16, 16, 2).transpose(0, 2, 1)
    found = {}
    for name, near, pieces in (("ours", centres, book), ("theirs", theirs, np.ascontiguousarray(their_book))):
        nearest, score = assign_vectors(points, near)
        left = points - near[nearest]
        code = encode_pieces(left, pieces)
        coded = pieces.transpose(0, 2, 1)[np.arange(16), code].reshape(left.shape)
        found[name] = (score.mean(), ((left - coded) ** 2).sum() / (left**2).sum())
    assert found["ours"][0] > found["theirs"][0] - 0.02
    assert found["ours"][1] < found["theirs"][1] + 0.02


def test_codes_are_the_nearest_of_each_piece() -> None:
    rng = np.random.default_rng(3)
    for m, size in ((1, 1), (5, 2), (4, 3)):
        rows, book = (rng.integers(-3, 4, shape).astype(np.float32) for shape in ((40, m * size), (m, size, 16)))
        distance = ((rows.reshape(40, m, size, 1) - book) ** 2).sum(2)
        np.testing.assert_array_equal(encode_pieces(rows, book), distance.argmin(2))  # of equals the first
    assert encode_pieces(np.empty((0, 4), np.float32), np.empty((2, 2, 16), np.float32)).shape == (0, 2)


def test_centres_without_vectors_move() -> None:
    """Twenty equal vectors and one other: two centres find both."""
    points = np.repeat(np.eye(4, dtype=np.float32)[:1], 21, axis=0)
    points[-1] = np.eye(4, dtype=np.float32)[2]
    centres = fit_centres(points, 3, 4, np.random.default_rng(1))
    assert assign_vectors(points, centres)[1].min() > 0.99
    assert np.isfinite(centres).all()


def test_every_kind_of_damage_is_named(tmp_path: Path) -> None:
    codes, scale = quantise_vectors(draw(16, 600))
    path = tmp_path / "ivf.faiss"
    params = build_dense(codes, scale, path)
    whole = path.read_bytes()
    assert open_dense(path, params, codes.shape).rows == 600
    flat, lists = whole.index(b"IxFI"), whole.index(b"ilbl")
    for name, data, message in (
        ("cut", whole[:-1], "it ends at byte"),
        ("header", whole[:20], "it ends at byte"),
        ("metric", whole[:33] + b"\x01" + whole[34:], "its metric is 1"),
        ("flat", whole[:flat] + b"IxF2" + whole[flat + 4 :], "b'IxFI' is expected"),
        ("lists", whole[:lists] + b"\x00" + whole[lists + 1 :], "b'ilbl' is expected"),
        ("number", whole[: lists + 4] + b"\xff" + whole[lists + 5 :], "do not fit together"),
        ("long", whole[: lists + 36] + b"\xff" * 8 + whole[lists + 44 :], "numbers does not fit"),
        ("rows", whole[:8] + b"\x59" + whole[9:], "its lists have 600 rows"),
    ):
        damaged = tmp_path / name
        damaged.write_bytes(data)
        with pytest.raises(ValueError, match=message):
            read_coded(damaged)


def test_lists_without_rows_and_an_odd_number_of_pieces(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    rows, codes = np.arange(40), rng.integers(0, 16, (40, 3)).astype(np.uint8)
    packed = [pack_codes(codes[:0]), pack_codes(codes)]
    assert [len(each) for each in packed] == [0, 2 * 4 * 16]
    file = CodedFile(40, np.eye(2, 6, dtype=np.float32), np.zeros((3, 16, 2), np.float32), [rows[:0], rows], packed)
    write_coded(tmp_path / "i", file, 1)
    again = read_coded(tmp_path / "i")
    assert [each.tolist() for each in again.ids] == [[], rows.tolist()]
    assert [each.tolist() for each in again.codes] == [each.tolist() for each in packed]


def test_without_faiss_only_the_level_binary_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def load(name: str) -> None:
        raise ModuleNotFoundError(name)

    monkeypatch.setattr(dense, "import_module", load)
    dense.load_faiss.cache_clear()
    codes, scale = quantise_vectors(draw(16, 900))
    path = tmp_path / "ivf.faiss"
    found = open_dense(path, build_dense(codes, scale, path))
    assert len(found.search(dense.dequantise(codes, scale, slice(0, 1))[0], 10, None)) >= 10
    try:
        with pytest.raises(dense.UsageError, match="this needs FAISS") as error:
            build_dense(codes, scale, path, tier="binary")
        assert "helix-recall[faiss]" in (error.value.remedy or "")
    finally:
        dense.load_faiss.cache_clear()
