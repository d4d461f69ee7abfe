"""The classifiers that Helix ships are those that training gives today; other encoders train their own."""

from __future__ import annotations

import io
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from helix.encoders.dense import Encoder
from helix.encoders.dense_export import cache_encoder
from helix.encoders.onnx_export import has_vnni
from helix.encoders.registry import choose_encoder
from helix.enrich.type_model import load_types
from helix.settings import Settings
from helix.types import AnyArray
from pipelines.training import recorded, router
from pipelines.training.recorded import locate_recorded, read_recorded


@pytest.fixture(scope="module")
def encoder(cache: Path) -> Encoder:
    return Encoder(cache_encoder(choose_encoder(Settings()), cache))


def read_arrays(data: bytes | str | None) -> dict[str, AnyArray]:
    assert isinstance(data, bytes)
    with np.load(io.BytesIO(data), allow_pickle=False) as arrays:
        return dict(arrays)


def test_every_packaged_encoder_has_its_classifiers() -> None:
    kinds = {"router": router.router_fingerprint(), "types": router.types_fingerprint()}
    expected = {locate_recorded(name, *kind) for name in recorded.RECORDED for kind in kinds.items()}
    (folder,) = {path.parent for path in expected}
    assert set(folder.iterdir()) == expected, "python -m pipelines.training.record"


@pytest.mark.skipif(not has_vnni(), reason="fitted on vectors of eight bits; without AVX512-VNNI they have seven")
def test_the_recorded_classifiers_are_those_of_todays_texts(encoder: Encoder) -> None:
    shipped = read_arrays(read_recorded(encoder.spec, "router", router.router_fingerprint()))
    trained = read_arrays(router.train_router(encoder))
    assert set(shipped) == set(trained)
    for name, array in shipped.items():
        np.testing.assert_allclose(array, trained[name], rtol=0.02, atol=0.02, err_msg=name)
    data = read_recorded(encoder.spec, "types", router.types_fingerprint())
    again = router.train_types(encoder)
    assert isinstance(data, bytes)
    assert isinstance(again, bytes)
    models = [load_types(each) for each in (data, again)]
    assert models[0].terms == models[1].terms
    np.testing.assert_allclose(models[0].weights, models[1].weights, rtol=0.02, atol=0.02)


def test_other_weights_and_changed_texts_have_none(encoder: Encoder, monkeypatch: pytest.MonkeyPatch) -> None:
    spec, fingerprint = encoder.spec, router.router_fingerprint()
    assert read_recorded(spec, "router", fingerprint)
    assert read_recorded(replace(spec, weights_sha256="0" * 64), "router", fingerprint) is None
    assert read_recorded(replace(spec, name="my-encoder"), "router", fingerprint) is None
    assert read_recorded(spec, "router", "0" * 16) is None
    assert read_recorded(replace(spec, fingerprint="of another processor"), "router", fingerprint)


def test_a_store_takes_the_recorded_ones_and_trains_nothing(
    encoder: Encoder, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for train in ("train_router", "train_types"):
        monkeypatch.setattr(router, train, lambda _: pytest.fail("trained"))
    monkeypatch.setattr(router, "_loaded", {})
    settings = Settings(cache=str(tmp_path))
    assert isinstance(router.load_router(encoder, settings), bytes)
    assert not isinstance(router.load_type_model(encoder, settings), str)
    assert not list(tmp_path.iterdir())
