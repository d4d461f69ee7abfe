"""The encoder of a new store, by the language of what is accepted first."""

from __future__ import annotations

from pathlib import Path

import orjson
import pytest

from helix.encoders import registry
from helix.encoders.registry import Weights
from helix.settings import Settings
from helix.snapshot.paths import ENCODER_CHOICE
from helix.snapshot.verify import verify_store
from pipelines.ingest import encoder_choice
from pipelines.ingest.accept_all import IngestReport, accept_all
from pipelines.ingest.encoder_choice import choose_for_store, measure_foreign

GERMAN = (
    "Wir haben uns gestern entschieden, die Datenbank auf PostgreSQL umzustellen.",
    "Der Lieferant aus Hamburg kommt jeden Dienstag um neun Uhr mit frischem Brot.",
    "ok",
)
ENGLISH = (
    "Yesterday we decided to move the database to PostgreSQL, because MySQL was too slow.",
    "The supplier from Hamburg comes every Tuesday at nine with fresh bread.",
)


def accept(root: Path, folder: Path, *texts: str) -> None:
    folder.mkdir(exist_ok=True)
    for i, text in enumerate(texts):
        line = {"session": "s", "id": f"{folder.name}{i}", "role": "user", "text": text}
        (folder / f"{i}.jsonl").write_bytes(orjson.dumps(line))
    accept_all(root, [folder], Settings(), IngestReport(), project=None, format="auto", acl=())


@pytest.fixture
def both(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Both encoders as if their weights were there."""

    def find(name: str, settings: Settings) -> Weights | None:
        known = ("all-MiniLM-L6-v2", encoder_choice.MULTILINGUAL)
        return Weights(registry.MODELS[name], tmp_path, "package") if name in known else None

    monkeypatch.setattr(registry, "find_encoder", find)
    monkeypatch.setattr(encoder_choice, "find_encoder", find)


@pytest.mark.usefixtures("both")
def test_other_languages_choose_the_multilingual_encoder_once(tmp_path: Path) -> None:
    root = tmp_path / "store"
    accept(root, tmp_path / "de", *GERMAN)
    assert measure_foreign(root, Settings()) == 1.0
    chosen = choose_for_store(root, Settings())
    assert chosen.weights.model.name == "multilingual-e5-small"
    assert chosen.why == "100% of what was read is in other languages than English"
    # A later process decides alike, whatever was accepted meanwhile.
    accept(root, tmp_path / "en", *ENGLISH * 20)
    assert measure_foreign(root, Settings()) < 0.2
    assert choose_for_store(root, Settings()) == chosen
    assert choose_for_store(root, Settings(encoder="all-MiniLM-L6-v2")).weights.model.name == "all-MiniLM-L6-v2"
    # Two that decide at once: the first one counts.
    assert encoder_choice._write_decision(root, ("other", "")) == ("multilingual-e5-small", chosen.why)
    # A damaged decision is found, and made again.
    (root / ENCODER_CHOICE).write_bytes(b"{}")
    assert any(ENCODER_CHOICE in problem for problem in verify_store(root).problems)
    assert encoder_choice._write_decision(root, ("other", "")) == ("other", "")
    assert encoder_choice._read_decision(root) == ("other", "")
    assert not verify_store(root).problems
    assert [path.name for path in root.iterdir() if "choice" in path.name] == [ENCODER_CHOICE]


@pytest.mark.usefixtures("both")
def test_english_keeps_the_default(tmp_path: Path) -> None:
    root = tmp_path / "store"
    accept(root, tmp_path / "en", *ENGLISH, "def f(x):\n    return x + 1", "ok")
    assert measure_foreign(root, Settings()) == 0.0
    chosen = choose_for_store(root, Settings())
    assert (chosen.weights.model.name, chosen.why) == ("all-MiniLM-L6-v2", "")


def test_without_the_package_the_default_stays_and_says_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(encoder_choice, "find_encoder", lambda name, settings: None)
    root = tmp_path / "store"
    accept(root, tmp_path / "de", *GERMAN, *ENGLISH)
    chosen = choose_for_store(root, Settings())
    assert chosen.weights.model.name == "all-MiniLM-L6-v2"
    assert chosen.why.startswith("50% of what was read is in other languages")
    assert chosen.why.endswith("install helix-recall[multilingual]")
