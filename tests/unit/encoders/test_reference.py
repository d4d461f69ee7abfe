"""Exports are compared with sentence-transformers; folders of any of its modules become one graph."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from helix.cli.main import main
from helix.encoders import dense, dense_export, reference, registry
from helix.encoders.dense import Encoder
from helix.encoders.reference import LEAST_AGREEMENT, PROBES
from helix.encoders.registry import WHOLE, Weights
from helix.errors import EncoderError
from tests.support.tiny import list_faults
from tests.support.tiny_encoder import LAYOUTS, sentence_encoder, sentence_pipeline

TEXTS = ["walnut bread", "a", "bread with olive oil and salt, and more bread", "Olive", "salt walnut olive bread oil"]


def describe(source: Path) -> Weights:
    return Weights(registry.describe_model(source), source, "path")


def export(source: Path, target: Path, precision: str = "fp32") -> Encoder:
    target.mkdir()
    dense_export.export_encoder(describe(source), target, precision)
    return Encoder(target)


def embed_by_library(source: Path, texts: list[str], **options: Any) -> np.ndarray:
    from sentence_transformers import SentenceTransformer

    library = SentenceTransformer(str(source), device="cpu", local_files_only=True)
    return np.stack([library.encode([text], normalize_embeddings=True, **options)[0] for text in texts])


@pytest.mark.parametrize("layout", LAYOUTS)
def test_modules_of_any_kind_become_one_graph(tmp_path: Path, layout: str) -> None:
    source = sentence_pipeline(tmp_path / layout, layout)
    model = registry.describe_model(source)
    assert (model.pooling, model.dim) == (WHOLE, 0)
    exact = embed_by_library(source, TEXTS)
    for precision in ("fp32", "int8") if layout in ("cls-dense", "static") else ("fp32",):
        least = LEAST_AGREEMENT[precision]
        encoder = export(source, tmp_path / precision, precision)
        assert encoder.dim == exact.shape[1]
        vectors = np.stack([encoder.query(text) for text in TEXTS])
        assert (vectors * exact).sum(1).min() > max(least, 0.95)
        assert encoder.spec.agreement[precision] >= least
        if precision == "fp32":
            np.testing.assert_allclose(vectors, exact, atol=1e-4)
            np.testing.assert_allclose(encoder.passages([*TEXTS, "walnut " * 500])[:-1], exact, atol=1e-4)
    assert (exact @ exact.T - np.eye(len(TEXTS))).max() < 0.98  # else any vector would do


def test_prompts_and_dimensions_of_a_whole_graph_are_the_folders(tmp_path: Path) -> None:
    source = sentence_pipeline(tmp_path / "tiny", "cls-dense", prompts={"query": "olive: ", "document": "salt: "})
    path = source / "config_sentence_transformers.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), "truncate_dim": 8}))
    encoder = export(source, tmp_path / "fp32")
    assert encoder.dim == 8
    for vectors, prompt in ((encoder.queries(TEXTS), "olive: "), (encoder.passages(TEXTS), "salt: ")):
        np.testing.assert_allclose(vectors, embed_by_library(source, TEXTS, prompt=prompt), atol=1e-4)
    assert np.abs(encoder.queries(TEXTS) - encoder.passages(TEXTS)).max() > 0.01


def change_pooling(monkeypatch: pytest.MonkeyPatch) -> None:
    finish = dense.finish_vectors
    monkeypatch.setattr(dense, "finish_vectors", lambda pooled, *rest: finish(np.roll(pooled, 1, 1), *rest))


def change_window(monkeypatch: pytest.MonkeyPatch) -> None:
    opened = dense.open_tokenizer
    monkeypatch.setattr(dense, "open_tokenizer", lambda path, tokens: opened(path, tokens // 2))


def change_padding(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let a vector depend on its neighbours' length, as a graph without a mask would."""
    pad = dense.pad_tokens

    def no_mask(*arguments: Any) -> dict[str, Any]:
        feed = pad(*arguments)
        return {**feed, "attention_mask": np.ones_like(feed["attention_mask"])}

    monkeypatch.setattr(dense, "pad_tokens", no_mask)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (change_pooling, r"the vectors of '.*' have the cosine -?0\.\d+, less than 0.9999"),
        (change_window, r"the vectors of 'The nightly backup .*…' have the cosine"),
        (change_padding, "in a batch have the cosine"),
    ],
)
def test_a_broken_export_is_refused(
    tmp_path: Path, change: Callable[[pytest.MonkeyPatch], None], message: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    source = sentence_encoder(tmp_path / "tiny")
    change(monkeypatch)
    with pytest.raises(EncoderError, match=f"the fp32 export of tiny disagrees .*{message}") as error:
        export(source, tmp_path / "out")
    assert "take another encoder" in error.value.remedy
    assert not (tmp_path / "out" / "encoder.json").exists()


def test_a_wrong_pooling_is_refused(tmp_path: Path) -> None:
    weights = describe(sentence_encoder(tmp_path / "tiny", pooling="cls"))
    wrong = replace(weights, model=replace(weights.model, pooling="mean"))
    (tmp_path / "out").mkdir()
    with pytest.raises(EncoderError, match="disagrees with sentence-transformers"):
        dense_export.export_encoder(wrong, tmp_path / "out")


def test_broken_quantising_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import onnx

    source = sentence_encoder(tmp_path / "tiny")
    write = dense_export.write_graph

    def damage(plain: Path, target: Path, precision: str) -> None:
        write(plain, target, precision)
        graph = onnx.load(target / "model.onnx")
        for each in graph.graph.initializer:
            if each.name.endswith("_quantized") and len(each.dims) == 2:
                each.raw_data = each.raw_data[::-1]
        onnx.save(graph, target / "model.onnx")

    monkeypatch.setattr(dense_export, "write_graph", damage)
    with pytest.raises(EncoderError, match=r"the mixed export of tiny disagrees .* less than 0\.9"):
        export(source, tmp_path / "out", "int8")


def test_a_decoder_is_traced_as_a_whole(tmp_path: Path) -> None:
    """Its graph alone wants positions, too."""
    source = sentence_encoder(tmp_path / "tiny", "qwen3", pooling="lasttoken")
    assert registry.describe_model(source).pooling == "last"
    encoder = export(source, tmp_path / "fp32")
    assert encoder.spec.pooling == WHOLE
    np.testing.assert_allclose(encoder.passages(TEXTS), embed_by_library(source, TEXTS), atol=1e-4)


def test_a_library_without_a_window_is_asked_for_what_helix_reads(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(reference, "PROBES", ("walnut " * registry.WINDOW + "bread " * 500,))
    encoder = export(sentence_pipeline(tmp_path / "tiny", "static"), tmp_path / "fp32")
    assert encoder.spec.agreement["fp32"] >= 0.9999


def test_the_probes_are_of_all_kinds() -> None:
    """Short, empty, beyond the window, of other scripts, with line breaks, code."""
    assert "" in PROBES
    assert min(map(len, filter(None, PROBES))) == 1
    assert max(len(text.split()) for text in PROBES) > registry.WINDOW
    assert any(not text.isascii() for text in PROBES)
    assert any("\n" in text for text in PROBES)
    assert any("++" in text for text in PROBES)


def test_a_folder_that_the_library_cannot_run_is_refused_with_its_reason(tmp_path: Path) -> None:
    lstm = sentence_pipeline(tmp_path / "lstm", "lstm")
    with pytest.raises(EncoderError, match=r"(cannot run lstm|cannot be traced).*sentence_lengths"):
        export(lstm, tmp_path / "out")
    with pytest.raises(EncoderError, match=r"the fp32 export of cnn disagrees .* in a batch have the cosine"):
        export(sentence_pipeline(tmp_path / "cnn", "cnn"), tmp_path / "out1")  # its kernels see padding
    broken = sentence_pipeline(tmp_path / "broken", "cls-dense")
    (broken / "2_Dense" / "model.safetensors").unlink()
    with pytest.raises(EncoderError, match=r"sentence-transformers cannot load .*broken: "):
        export(broken, tmp_path / "out2")


def test_code_that_comes_with_a_folder_never_runs(tmp_path: Path) -> None:
    source = sentence_pipeline(tmp_path / "tiny", "cls-dense")
    modules = json.loads((source / "modules.json").read_text())
    modules[-1]["type"] = "custom.Normalize"
    (source / "modules.json").write_text(json.dumps(modules))
    (source / "custom.py").write_text(f"open({str(tmp_path / 'ran')!r}, 'w')\n")
    with pytest.raises(EncoderError, match="Helix runs no code that comes with a model"):
        describe(source)
    known = Weights(registry.MODELS["all-MiniLM-L6-v2"], source, "models folder")
    (tmp_path / "out").mkdir()
    with pytest.raises(EncoderError, match="Helix runs no code that comes with a model"):
        dense_export.export_encoder(known, tmp_path / "out")
    assert not (tmp_path / "ran").exists()


def test_each_file_of_a_whole_folder_makes_another_export(tmp_path: Path) -> None:
    source = sentence_pipeline(tmp_path / "tiny", "cls-dense")
    before = dense_export._export_folder(describe(source), tmp_path, "int8")
    config = source / "2_Dense" / "config.json"
    config.write_text(config.read_text().replace("Tanh", "ReLU"))
    assert dense_export._export_folder(describe(source), tmp_path, "int8") != before


def test_a_folder_of_other_modules_works_from_end_to_end(
    tmp_path: Path, cache: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    folder, store = sentence_pipeline(tmp_path / "my-encoder", "cls-dense"), tmp_path / "store"
    for name, text in (("note", "walnut bread"), ("more", "salt and olive oil")):
        (tmp_path / f"{name}.md").write_text(f"# Pantry\n\n{text}")

    def run(*command: object) -> tuple[int, str, str]:
        return (main([*map(str, command), "--store", str(store)]), *capsys.readouterr())

    monkeypatch.setenv("HELIX_ENCODER", str(folder))
    status, _, messages = run("ingest", tmp_path / "note.md", tmp_path / "more.md")
    assert (status, "encoder: my-encoder from the path" in messages) == (0, True), messages
    monkeypatch.delenv("HELIX_ENCODER")
    shutil.rmtree(folder)  # the store has all that a recall needs
    answer = json.loads(run("recall", "walnut bread", "--json")[1])
    assert (list_faults(answer["degraded"]), answer["items"][0]["text"]) == ([], "walnut bread")
    assert answer["items"][0]["why"]["dense"] == 1
    spec = json.loads(next(store.glob("encoders/*/encoder.json")).read_text())
    assert (spec["name"], spec["dim"], spec["pooling"]) == ("my-encoder", 16, WHOLE)
    assert spec["agreement"]["fp32"] >= 0.9999
    assert spec["agreement"]["int8"] >= 0.9
    code = (
        "import sys, helix; found = helix.open(sys.argv[1]).recall('walnut bread')\n"
        "assert found.items[0].text == 'walnut bread' and all(one.startswith('weights') for one in found.degraded)\n"
        "print([name for name in ('torch', 'transformers', 'sentence_transformers', 'optimum') if name in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code, str(store)], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


@pytest.mark.soak
def test_a_disagreement_reaches_the_user_with_its_remedy(
    tmp_path: Path, cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    weights = describe(sentence_encoder(tmp_path / "tiny", pooling="cls"))
    wrong = replace(weights, model=replace(weights.model, pooling="mean"))
    with pytest.raises(EncoderError) as error:
        dense_export.cache_encoder(wrong, tmp_path)
    assert "the fp32 export of tiny disagrees with sentence-transformers" in str(error.value)
    assert "take another encoder" in str(error.value)
    assert "install" not in str(error.value)
    assert not list((tmp_path / "encoders").iterdir())
