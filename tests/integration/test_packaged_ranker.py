"""The ranker that comes with Helix: its files, its card, and its order on the bundled sample."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import orjson
import pytest

from helix.encoders import rerank
from helix.encoders.rerank import OWN, CrossEncoder, find_own, load_spec
from helix.sdk.memory import Memory
from helix.settings import Settings
from pipelines.eval.ranker.card import format_card
from pipelines.training.models import list_models

MOST_BYTES = 25_000_000

PAIRS = [
    (
        "what does Nora's brother do for a living?",
        "Nora: My brother drives a night bus in Leeds.",
        "Nora: I took the bus.",
    ),
    ("when is the invoice due?", "assistant: It has to be paid by the 4th of May.", "user: I have sent the invoice."),
    (
        "why did we drop the queue?",
        "user: It lost messages at each restart, so out it went.",
        "user: The queue is here.",
    ),
    ("which fruit is Ivo allergic to?", "Ivo: Sorry, no kiwis for me, my throat swells.", "Ivo: I bought fruit today."),
]


@pytest.fixture(scope="module")
def ranker() -> CrossEncoder:
    return CrossEncoder(find_own(), 1)


def test_its_files_belong_together_and_are_small() -> None:
    """Break: another model.onnx or another README.md in the folder."""
    folder, spec = find_own(), load_spec(find_own(), "cross")
    card = orjson.loads((folder / "training.json").read_bytes())
    assert (spec.name, spec.language, spec.turns_only) == (OWN, "en", True)
    assert (spec.weights_sha256, spec.ranking, spec.max_tokens) == (
        card["weights_sha256"],
        card["ranking"],
        card["tokens"],
    )
    assert (folder / "README.md").read_text("utf-8") == format_card(card)
    assert sum(path.stat().st_size for path in folder.iterdir()) <= MOST_BYTES


def test_no_measured_set_is_among_its_data() -> None:
    learnt = {one["set"] for one in orjson.loads((find_own() / "training.json").read_bytes())["sets"]}
    assert not learnt & {"locomo", "beam", "musique", "cranfield", "npl", "xquad"}


@pytest.mark.parametrize(("question", "right", "wrong"), PAIRS)
def test_an_answer_is_before_what_shares_the_questions_words(
    ranker: CrossEncoder, question: str, right: str, wrong: str
) -> None:
    first, second = ranker.weigh(question, [right, wrong])
    assert first > second


def test_it_orders_the_sample_without_any_setting(sample_store: Path) -> None:
    found = Memory(sample_store).recall("What did I tell Priya about vacation?", now="2026-07-01", quality="best")
    assert found.degraded == ()
    scores = [item.why["rerank"] for item in found.items]
    assert np.isfinite(scores).all()
    assert len(set(scores)) > 1


@pytest.mark.parametrize("quality", ["fast", "best"])
def test_it_is_opened_with_the_store_where_it_is_the_setting(
    sample_store: Path, monkeypatch: pytest.MonkeyPatch, quality: str
) -> None:
    opened = list[Path]()

    def open_one(folder: Path, threads: int) -> CrossEncoder:
        opened.append(folder)
        return CrossEncoder(folder, threads)

    monkeypatch.setattr(rerank, "CrossEncoder", open_one)
    memory = Memory(sample_store, Settings(quality=quality))
    before = len(opened)
    memory.recall("What did I tell Priya about vacation?", now="2026-07-01", quality="best")
    assert (before, len(opened)) == (int(quality == "best"), 1)


def test_a_ranker_that_does_not_exist_is_said_by_the_recall_and_not_by_the_opening(sample_store: Path) -> None:
    memory = Memory(sample_store, Settings(quality="best", cross_encoder="nowhere"))
    (said,) = memory.recall("What did I tell Priya about vacation?", now="2026-07-01").degraded
    assert "nowhere" in said


def test_it_is_listed_as_the_default_until_another_is_named() -> None:
    rows = {row["name"]: row for row in list_models(Settings())}
    assert rows[OWN]["default"]
    assert (rows[OWN]["use"], rows[OWN]["origin"]) == ("rerank cross", "package")
    assert Path(rows[OWN]["exported"], "model.onnx").is_file()
    assert not {row["name"]: row for row in list_models(Settings(cross_encoder="elsewhere"))}[OWN]["default"]
