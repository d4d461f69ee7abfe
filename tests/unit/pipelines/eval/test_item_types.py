"""Item types measured on labelled texts."""

from __future__ import annotations

from pathlib import Path

import orjson
import pytest

from helix.cli.main import main
from helix.errors import InputRefused
from helix.snapshot.sql import run_statement
from helix.types import TYPES
from pipelines.eval.item_types import rate_types, read_labelled


def test_figures_by_hand() -> None:
    labels = ["decision", "decision", "code", "episodic"]
    found = rate_types(labels, ["decision", "code", "code", "decision"])
    assert (found["texts"], found["accuracy"]) == (4, 0.5)
    assert found["rows"]["decision"] == {"precision": 0.5, "recall": 0.5, "f1": 0.5, "texts": 2}
    assert found["rows"]["code"] == {"precision": 0.5, "recall": 1, "f1": pytest.approx(2 / 3), "texts": 1}
    assert found["rows"]["semantic"] == {"precision": 0, "recall": 0, "f1": 0, "texts": 0}
    assert found["macro_f1"] == pytest.approx((0.5 + 2 / 3) / len(TYPES))


def test_a_role_and_an_origin_are_optional_and_a_fault_is_named(tmp_path: Path) -> None:
    path = tmp_path / "labelled.jsonl"
    lines = [
        {"text": "45 then", "type": "decision"},
        {"text": "ok", "type": "episodic", "role": "tool"},
        {"text": "notes", "type": "semantic", "role": "user", "origin": "summary"},
    ]
    path.write_bytes(b"\n".join(map(orjson.dumps, lines)) + b"\n\n")
    origins = [(row["role"], row["origin"]) for row in read_labelled(path)]
    assert origins == [("user", "human"), ("tool", "tool"), ("user", "summary")]
    for line, fault in (
        (b"{", "unexpected end"),
        (b"[]", r"\[\] lacks a text, or a type of episodic"),
        (b'{"text": "a", "type": "mood"}', '"mood"} lacks'),
        (b'{"text": "a", "type": "code", "role": "boss"}', "the role 'boss' is none of user"),
    ):
        path.write_bytes(line)
        with pytest.raises(InputRefused, match=fault):
            read_labelled(path)


def test_the_command_measures_the_classifier_of_ingest(
    tmp_path: Path, cache: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("HELIX_CACHE", str(cache))
    path = tmp_path / "labelled.jsonl"
    lines = [
        {"text": "We decided to drop the old exporter.", "type": "decision", "split": "test"},
        {"text": "def add(a, b):\n    return a + b", "type": "code"},
        {"text": "def subtract(a, b):\n    return a - b", "type": "decision"},
    ]
    path.write_bytes(b"\n".join(map(orjson.dumps, lines)))
    assert main(["eval", "types", str(path), "--half", "test", "--json"]) == 0
    found = orjson.loads(capsys.readouterr().out)
    assert (found["texts"], found["accuracy"]) == (1, 1)
    assert main(["eval", "types", str(path), "--errors"]) == 0
    printed = capsys.readouterr().out.splitlines()
    assert printed[3].split() == ["decision", "1.000", "0.500", "0.667", "2"]
    assert printed[-2:] == [
        "3 texts: macro F1 0.267, accuracy 0.667",
        "decision, found code: def subtract(a, b): return a - b",
    ]
    assert main(["eval", "types", str(path), "--half", "dev"]) == 3
    assert "no text of the half 'dev'" in capsys.readouterr().err


def test_labelled_items_are_compared_with_their_store(
    tmp_path: Path, sample_store: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with run_statement(sample_store, "SELECT id, type FROM items ORDER BY id LIMIT 3") as answer:
        items = dict(answer.rows)
    path = tmp_path / "labels.jsonl"
    path.write_bytes(b"\n".join(orjson.dumps({"item": item, "type": kind}) for item, kind in items.items()))
    assert main(["eval", "types", str(path), "--store", str(sample_store), "--json"]) == 0
    found = orjson.loads(capsys.readouterr().out)
    assert (found["texts"], found["accuracy"]) == (3, 1)
    path.write_bytes(orjson.dumps({"item": "0" * 16, "type": "code"}))
    assert main(["eval", "types", str(path), "--store", str(sample_store)]) == 3
    assert f"lacks 1 of 1 labelled items, such as '{'0' * 16}'" in capsys.readouterr().err
    path.write_bytes(orjson.dumps({"text": "ok", "type": "code"}))
    with pytest.raises(InputRefused, match="lacks an item"):
        read_labelled(path, "item")
