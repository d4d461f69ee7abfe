"""Quantisation drift: what is found by 8-bit codes is what the encoder's own vectors would find."""

from __future__ import annotations

from collections.abc import Callable
from itertools import product
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pytest

from helix.encoders import registry
from helix.encoders.dense import Encoder
from helix.encoders.dense_export import cache_encoder
from helix.ranking.topk import sort_rows
from helix.settings import Settings
from helix.snapshot.index import dense
from helix.snapshot.reader.snapshot import Snapshot
from helix.snapshot.segment.arrays import quantise_vectors
from helix.stages.dense import search_dense
from helix.types import F32, Plan
from tests.conftest import SAMPLE
from tests.support.tiny import make_store

Codes = tuple[npt.NDArray[np.int8], F32]

WHO = (
    "Ana", "my brother", "the landlord", "our vet", "Tomasz", "the night nurse", "a courier", "the choir", "Lena", "we",
)  # fmt: skip
DID = (
    "moved the piano into the attic", "forgot the keys at the swimming pool", "planted quinces behind the shed",
    "renamed the billing queue last spring", "ordered forty chairs for the wedding",
    "repaired the tail light of the van", "lost the ferry tickets to Bornholm",
    "lowered the connection limit to twelve", "taught the parrot two words of Danish",
    "cancelled the newspaper in August", "sharpened the kitchen knives on Sunday",
    "found a leak under the washing machine", "wrote the migration for the invoices table",
    "baked rye bread for the neighbours", "missed the last tram from the harbour", "painted the hallway a pale yellow",
    "restarted the mail server at midnight", "borrowed a ladder from the fire brigade",
    "sold the old accordion to a teacher", "counted the bees in front of the hive",
    "dropped the index on the sessions table", "translated the manual into Finnish",
    "caught a cold on the way to Ghent", "signed the lease for the workshop", "burned the lentils while on the phone",
    "deleted the staging bucket by mistake", "won a goose in the raffle", "fixed the flaky test of the parser",
    "measured the cellar for new shelves", "fed the neighbour's cat for a week",
)  # fmt: skip
ASKED = (
    "who moved heavy furniture upstairs?", "what happened to the ferry tickets?", "which colour did the corridor get?",
    "who speaks to the parrot?", "database connection limit", "why was the tram missed?", "what did we bake?",
    "who deleted something in staging?", "when was the mail server restarted?", "musical instruments that were sold",
    "what is wrong with the washing machine?", "which animals do we look after?", "who got ill on the journey?",
    "garden work", "which table lost its index?", "what was won in the raffle?", "who signed for the workshop?",
    "the manual in other languages", "what has the landlord repaired?", "seats for the wedding",
    "things that Lena forgot", "where was the ladder from?", "tests that fail now and then", "what did the choir cook?",
    "subscriptions that ended", "measurements in the basement", "sharp tools", "which queue has another name now?",
    "did the courier count insects?", "the van",
)  # fmt: skip
K = 10
LEAST = 0.99
"""Recall@10 by the codes; measured 1.0, with 7 bits .993, with 4 bits .977."""

MOST = 0.004
"""Drift of a score; measured .0019, with 7 bits .0073, with 4 bits .030."""


Vectors = tuple[list[str], F32, F32]
"""Texts, float32[n, d] as the encoder gave them, and float32[m, d] of the questions."""


@pytest.fixture(scope="module")
def vectors(cache: Path) -> Vectors:
    """Three hundred sentences and the bundled notes, by the real encoder."""
    encoder = Encoder(cache_encoder(registry.choose_encoder(Settings()), cache))
    notes = [line for line in (SAMPLE / "notes.md").read_text("utf-8").splitlines() if len(line) > 20]
    texts = [f"{who} {did}" for who, did in product(WHO, DID)] + notes
    return texts, encoder.passages(texts), np.stack([encoder.query(text) for text in ASKED])


@pytest.fixture(scope="module")
def snapshot(vectors: Vectors, tmp_path_factory: pytest.TempPathFactory) -> Snapshot:
    """The same as a store."""
    return make_store(tmp_path_factory.mktemp("int8"), vectors[0], vectors[1])


def count_retained(snapshot: Snapshot, vectors: Vectors) -> tuple[float, float]:
    """Mean recall@10 of the dense leg against the exact vectors, and how far a score is off at most."""
    _, passages, questions = vectors
    shares, drift = [], 0.0
    for question in questions:
        scores = passages @ question
        leg = search_dense(question, snapshot, Plan(None, snapshot.rows), K)
        shares.append(len(np.intersect1d(sort_rows(scores, snapshot.columns.key)[:K], leg.rows)) / K)
        drift = max(drift, float(np.abs(scores[leg.rows] - leg.scores).max()))
    return float(np.mean(shares)), drift


def faithful(snapshot: Snapshot, vectors: Vectors) -> bool:
    recall, drift = count_retained(snapshot, vectors)
    return recall >= LEAST and drift <= MOST


def coarser(levels: int) -> Callable[[F32], Codes]:
    """A quantiser of fewer levels a sign, in the same codes."""

    def quantise_rows(vectors: F32) -> Codes:
        codes, scale = quantise_vectors(vectors)
        return np.rint(codes * (levels / 127)).astype(np.int8), scale * np.float32(127 / levels)

    return quantise_rows


def one_scale(vectors: F32) -> Codes:
    """One scale for all rows, set by an outlier: most of the range is never used."""
    scale = np.full(len(vectors), 1 / 127, np.float32)
    return np.rint(vectors * 127).astype(np.int8), scale


def test_eight_bits_find_what_the_exact_vectors_find(snapshot: Snapshot, vectors: Vectors) -> None:
    """Switch: `quantise_vectors` with fewer levels, as in the next test."""
    assert faithful(snapshot, vectors)


@pytest.mark.parametrize(
    "quantiser", [coarser(63), coarser(7), coarser(1), one_scale], ids=["7 bits", "4 bits", "ternary", "one scale"]
)
def test_a_coarser_quantiser_is_caught(
    quantiser: Callable[[F32], Codes], vectors: Vectors, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Switch: bounds above that are so wide that a coarser quantiser passes them."""
    monkeypatch.setattr("pipelines.ingest.part.quantise_vectors", quantiser)
    assert not faithful(make_store(tmp_path, vectors[0], vectors[1]), vectors)


@pytest.mark.parametrize("tier", ["int8", "binary", "prefix:128"])
def test_scores_are_of_the_codes_whatever_the_index_holds(
    tier: str, vectors: Vectors, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Switch: `search_dense` that takes an index's rows in the index's own order, unscored."""
    texts, passages, questions = vectors
    snapshot = make_store(tmp_path / "store", texts, passages)
    (block,) = snapshot.vectors.blocks
    params = dense.build_dense(block.codes, block.scale, tmp_path / "index", tier=tier)
    assert snapshot.manifest is not None
    snapshot.files.dense[snapshot.manifest.segments[0].id] = dense.open_dense(tmp_path / "index", params)
    assert snapshot.vectors.blocks[0].dense is not None
    for question in questions:
        leg = search_dense(question, snapshot, Plan(None, snapshot.rows), K)
        assert (np.diff(leg.scores) <= 0).all()
    assert faithful(snapshot, vectors)
