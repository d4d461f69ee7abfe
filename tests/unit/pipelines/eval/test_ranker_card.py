"""The card of a trained ranker, and its log and curves."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import orjson
import pytest

from pipelines.eval.ranker.card import format_card, read_log, write_log


@pytest.fixture
def card() -> dict[str, Any]:
    return {
        "licence": "Apache-2.0",
        "sets": [
            {"set": "chats", "licence": "written for Helix", "files": "20", "sha256": "ab" * 32},
            {"set": "qmsum", "licence": "MIT", "files": "9", "sha256": "cd" * 32},
        ],
        "apart": ["xquad"],
        "questions": {"chats": [700, 60], "qmsum": [1200, 100]},
        "layers": 4,
        "tokens": 72,
        "held_out": {"large": {"chats": 0.61, "qmsum": 0.28}, "small": {"chats": 0.57}},
        "export": {"agreement": 0.99, "bytes": 18_900_000},
        "ranking": 14.0,
        "figures": {"chats": {"ranking": 0.71, "ranker": 0.752}},
        "weights_sha256": "ef" * 32,
        "python": "3.11",
        "torch": "2",
    }


def test_the_card_says_what_was_learned_from_and_how_it_is_made_again(card: dict[str, Any]) -> None:
    text = format_card(card)
    assert "| chats | written for Helix | 20 | 700 | 60 | `abababababab…` |" in text
    assert "| chats | 0.61 | 0.57 | 0.710 | 0.752 |" in text
    assert "| qmsum | 0.28 | 0.00 |  |  |" in text  # without a figure of its own
    assert "4 layers of 384, int8, 18.9 MB" in text
    assert "helix train ranker --out ranker qmsum=PATH --apart xquad=PATH\n" in text  # chats come with Helix


def write_lines(path: Path, *lines: dict[str, Any]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(b"".join(orjson.dumps(line) + b"\n" for line in lines))


def test_the_log_of_a_cut_run_has_each_step_once_and_its_curves_are_the_same_bytes(tmp_path: Path) -> None:
    first, again = {"step": 50, "loss": 2.0}, {"step": 100, "loss": 1.5, "held_out": {"chats": 0.5}}
    write_lines(tmp_path / "work" / "large" / "log.jsonl", first, {**again, "loss": 1.9}, again)
    assert read_log(tmp_path / "work" / "large" / "log.jsonl") == [first, again]
    for folder in "ab":
        write_log(tmp_path / "work", ["large"], tmp_path / folder)
    assert read_log(tmp_path / "a" / "large.jsonl") == [first, again]
    curves = (tmp_path / "a" / "curves.svg").read_bytes()
    assert b"<svg" in curves
    assert curves == (tmp_path / "b" / "curves.svg").read_bytes()
