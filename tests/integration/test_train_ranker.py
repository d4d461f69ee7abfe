"""`helix train ranker`, from chats to a folder that recall takes, by few steps."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("torch", reason="training needs torch")

from helix.cli.main import main
from helix.encoders.rerank import load_spec
from helix.sdk.memory import Memory
from helix.settings import Settings
from pipelines.eval.ranker import train
from pipelines.eval.ranker.card import format_card
from pipelines.training.ranker import export, fit

OWN = train.OWN_DATA / "chats"


@pytest.fixture(scope="module")
def work(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder that retains what the tests have trained."""
    return tmp_path_factory.mktemp("work")


@pytest.fixture
def chats(work: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Two of the packaged chats are all that there is to learn from, and the networks are small."""
    folder = work / "given"
    folder.mkdir(exist_ok=True)
    for path in sorted(OWN.iterdir())[:2]:
        shutil.copy(path, folder)
    monkeypatch.setattr(train, "list_own", lambda: [train.LearntSet("chats", folder)])
    monkeypatch.setattr(train, "LARGE_LAYERS", 2)
    monkeypatch.setattr(fit, "HELD_OUT", 4)
    return folder


def run(tmp_path: Path, work: Path, *more: str) -> int:
    given = ["--out", str(tmp_path / "ranker"), "--work", str(work), "--steps", "2", "--small-steps", "2"]
    return main(["train", "ranker", *given, *more])


def test_a_ranker_is_trained_shrunk_exported_and_taken_by_recall(
    tmp_path: Path, work: Path, chats: Path, sample_store: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Break: a head that is exported wrong, a weight that is not written, a set that is measured and learned from."""
    apart = f"chats={chats}"
    assert run(tmp_path, work, "--layers", "1", "--apart", apart) == 2  # every question is measured
    assert "none of 0 questions of chats" in capsys.readouterr().err
    assert not (tmp_path / "ranker").exists()
    assert run(tmp_path, work, "--layers", "1", "--docs", str(tmp_path / "docs")) == 0
    folder = tmp_path / "ranker"
    card, spec = json.loads((folder / "training.json").read_text()), load_spec(folder, "cross")
    assert (card["layers"], list(card["plans"])) == (1, list(card["held_out"]))
    assert card["export"]["agreement"] > export.LEAST_AGREEMENT
    assert (spec.weights_sha256, spec.ranking, spec.turns_only) == (card["weights_sha256"], card["ranking"], True)
    assert spec.ranking in range(6, 41)
    assert (folder / "README.md").read_text() == format_card(card)
    assert [row["set"] for row in card["sets"]] == ["chats"]
    assert sorted(path.name for path in (tmp_path / "docs").iterdir()) == ["curves.svg", "large.jsonl", "small.jsonl"]
    settings = Settings(cross_encoder=str(folder))
    found = Memory(sample_store, settings).recall("What did I tell Priya about vacation?", quality="best")
    assert np.isfinite([item.why["rerank"] for item in found.items]).all()


def test_wrong_settings_are_refused_before_anything_is_read(
    tmp_path: Path, work: Path, chats: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(tmp_path, work, "--layers", "3") == 2
    assert "give 1 to 2" in capsys.readouterr().err
    assert run(tmp_path, work, "--layers", "1", f"locomo={chats}") == 2
    assert "does not learn from locomo" in capsys.readouterr().err
    (tmp_path / "ranker").mkdir()
    (tmp_path / "ranker" / "mine").touch()
    assert run(tmp_path, work, "--layers", "1") == 2
    assert "not empty" in capsys.readouterr().err


def test_an_export_that_does_not_agree_is_refused(
    tmp_path: Path, work: Path, chats: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(export, "LEAST_AGREEMENT", 1.1)
    assert run(tmp_path, work, "--layers", "1") != 0
    assert "agrees by" in capsys.readouterr().err
