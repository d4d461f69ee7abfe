"""Models trained once an encoder are cached, and named when they are damaged."""

from __future__ import annotations

import io
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from helix.errors import StoreError
from helix.settings import Settings
from pipelines.training import router as classifier

ENCODER: Any = SimpleNamespace(spec=SimpleNamespace(fingerprint="0123", name="tiny"))


def npz(value: float) -> bytes:
    buffer = io.BytesIO()
    np.savez(buffer, weights=np.full(3, value, np.float32))
    return buffer.getvalue()


def test_a_router_is_trained_once_and_again_for_other_prompts(tmp_path: Path, monkeypatch) -> None:
    settings, trained = replace(Settings(), cache=str(tmp_path)), []

    def train(encoder: Any) -> bytes:
        trained.append(encoder)
        return npz(len(trained))

    monkeypatch.setattr(classifier, "train_router", train)
    assert [classifier.load_router(ENCODER, settings) for _ in range(2)] == [npz(1)] * 2
    other: Any = SimpleNamespace(spec=SimpleNamespace(fingerprint="4567", name="tiny"))
    assert classifier.load_router(other, settings) == npz(2)
    monkeypatch.setattr("pipelines.training.router.THRESHOLD", 0.5)
    assert classifier.load_router(ENCODER, settings) == npz(3)


def test_the_reason_for_a_missing_router_is_not_cached(tmp_path: Path, monkeypatch) -> None:
    settings = replace(Settings(), cache=str(tmp_path))
    monkeypatch.setattr(classifier, "train_router", lambda _: "not installed")
    assert classifier.load_router(ENCODER, settings) == "not installed"
    monkeypatch.setattr(classifier, "train_router", lambda _: npz(1))
    assert classifier.load_router(ENCODER, settings) == npz(1)


@pytest.mark.parametrize("kind", ["router", "types"])
def test_a_damaged_file_is_named(kind: str, tmp_path: Path, monkeypatch) -> None:
    settings = replace(Settings(), cache=str(tmp_path))
    monkeypatch.setattr(classifier, f"train_{kind}", lambda _: npz(1))
    ask = {"router": classifier.load_router, "types": classifier.load_type_model}[kind]
    if kind == "router":
        ask(ENCODER, settings)
    else:  # three weights are no classifier of types
        with pytest.raises(StoreError):
            ask(ENCODER, settings)
    (path,) = (tmp_path / "classifiers").iterdir()
    data = bytearray(path.read_bytes())
    data[data.index(b"\x80?")] ^= 1  # a byte of the array
    path.write_bytes(data)
    with pytest.raises(StoreError, match=str(path)) as error:
        ask(ENCODER, settings)
    assert error.value.remedy == "delete it: Helix trains it again"
