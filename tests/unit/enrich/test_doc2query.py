"""doc2query with tiny models: exported with optimum, quantised, run, and compared with their source."""

from __future__ import annotations

import shutil
import subprocess
import sys
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import orjson
import pytest

from helix.encoders import seq2seq
from helix.encoders.folders import ModelFolder
from helix.encoders.onnx_export import choose_precision
from helix.encoders.seq2seq import Network, find_seq2seq, load_spec
from helix.encoders.seq2seq_export import (
    LEAST_AGREEMENT,
    cache_seq2seq,
    export_seq2seq,
    is_seq2seq_cached,
    quantise_matrix,
)
from helix.enrich.doc2query import Generator, _make_sampler, keep_near
from helix.errors import EncoderError, UsageError
from helix.settings import Settings
from tests.support import tiny_t5
from tests.support.caching import EXPORTING, cache_folder
from tests.support.turns import check_cpu_time

pytestmark = pytest.mark.usefixtures("encoders")  # for its mark

TEXTS = [
    "The deploy failed with a redis timeout",
    "We moved the payment service from postgres to sqlite because the timeout was on monday and the driver failed",
    "vacation in march",
    "The writer holds the lock of the store while the snapshot is published and the reader keeps the older generation",
    "search index upload",
]


COPIES, STEPS = 3, 10
PATHS = np.random.default_rng(1).integers(3, 400, (len(TEXTS) * COPIES, STEPS))
"""Tokens that each copy of each text is led along."""


@pytest.fixture(scope="module")
def models(copying_t5: Path) -> Path:
    """Weights of a random T5 and BART, exports of both and of the copying model, and the outputs of transformers."""

    def make(folder: Path) -> None:
        cache_seq2seq(ModelFolder("tiny/random", tiny_t5.random(folder / "random"), "path", "none"), folder / "cache")
        save_bart(folder / "random", folder / "bart")
        for source, target, precision in (
            (copying_t5, "fp32", "fp32"), (copying_t5, "int8", "int8"), (folder / "bart", "exported-bart", "fp32"),
        ):  # fmt: skip
            (folder / target).mkdir()
            export_seq2seq(source, folder / target, precision=precision)
        plain, bart = Network(folder / "fp32", 1), Network(folder / "exported-bart", 1)
        outputs = generate_reference(copying_t5, plain, 12), generate_reference(folder / "bart", bart, 8)
        (folder / "outputs.json").write_bytes(orjson.dumps(outputs))
        np.save(folder / "logits.npy", compute_reference(copying_t5, plain))

    sources = "tests/support/tiny_t5.py", "tests/unit/enrich/test_doc2query.py", "helix/encoders/*.py"
    return cache_folder("doc2query", make, EXPORTING, sources)


def generate_reference(weights: Path, network: Network, steps: int) -> list[list[int]]:
    """Return the output of transformers for `TEXTS` by greedy search, without special tokens."""
    import torch
    from transformers import AutoModelForSeq2SeqLM

    inputs = network.tokens(TEXTS)
    width = max(map(len, inputs))
    ids = torch.tensor([[*row, *[network.spec.pad] * (width - len(row))] for row in inputs])
    mask = torch.tensor([[1] * len(row) + [0] * (width - len(row)) for row in inputs])
    model = AutoModelForSeq2SeqLM.from_pretrained(weights)
    out = model.generate(input_ids=ids, attention_mask=mask, max_new_tokens=steps, do_sample=False, num_beams=1)
    special = {network.spec.pad, network.spec.start, *network.spec.eos, network.spec.forced}
    return [[token for token in row if token not in special] for row in out.tolist()]


def compute_reference(weights: Path, network: Network) -> Any:
    """Return the logits of transformers along `PATHS`, float32[row, step, token]."""
    import torch
    from transformers import AutoModelForSeq2SeqLM

    model, rows = AutoModelForSeq2SeqLM.from_pretrained(weights), []
    with torch.no_grad():
        for row, path in enumerate(PATHS.tolist()):
            ids, before = network.tokens(TEXTS)[row // COPIES], [tiny_t5.PAD, *path[:-1]]
            out = model(input_ids=torch.tensor([ids]), decoder_input_ids=torch.tensor([before]))
            rows.append(out.logits[0].numpy())
    return np.stack(rows)


def save_bart(tokenizer: Path, folder: Path) -> None:
    """Save a BART of random weights, with a forced first token."""
    import torch
    from transformers import BartConfig, BartForConditionalGeneration

    shutil.copytree(tokenizer, folder)
    torch.manual_seed(3)
    config = BartConfig(
        vocab_size=len(tiny_t5.vocabulary()) + 3, d_model=32, encoder_layers=1, decoder_layers=2, init_std=0.3,
        encoder_attention_heads=2, decoder_attention_heads=2, encoder_ffn_dim=64, decoder_ffn_dim=64,
        max_position_embeddings=300, pad_token_id=0, bos_token_id=2, eos_token_id=1, decoder_start_token_id=1,
        forced_bos_token_id=9, forced_eos_token_id=None,
    )  # fmt: skip
    BartForConditionalGeneration(config).save_pretrained(folder)


@pytest.fixture(scope="module")
def plain(models: Path) -> Path:
    """The copying model in fp32."""
    return models / "fp32"


@pytest.fixture(scope="module")
def small(models: Path) -> Path:
    """The copying model in int8."""
    return models / "int8"


@pytest.fixture(scope="module")
def random_t5(models: Path) -> ModelFolder:
    return ModelFolder("tiny/random", models / "random", "path", "none")


@pytest.fixture(scope="module")
def exported_folder(random_t5: ModelFolder, models: Path) -> Path:
    return cache_seq2seq(random_t5, models / "cache")


@pytest.fixture
def empty_hub(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("HF_HUB_CACHE", str(tmp_path / "hub"))
    return tmp_path / "hub"


# ---------------------------------------------------------------- finding


def test_off_and_absent_are_reasons_not_errors(empty_hub: Path, tmp_path: Path) -> None:
    assert "off" in str(find_seq2seq("off", Settings()))
    absent = find_seq2seq("", Settings())
    assert isinstance(absent, str)
    assert absent.startswith("no weights found for doc2query/msmarco-t5-small-v1: ")
    assert "HELIX_MODELS" in absent
    assert "nobody/nothing" in str(find_seq2seq("nobody/nothing", Settings(models=str(tmp_path))))


def test_the_default_is_found_in_the_models_folder(random_t5: ModelFolder, empty_hub: Path, tmp_path: Path) -> None:
    for number, place in enumerate(("msmarco-t5-small-v1", "doc2query/msmarco-t5-small-v1")):
        models = tmp_path / str(number)
        shutil.copytree(random_t5.folder, models / place)
        expected = ModelFolder(seq2seq.DEFAULT, models / place, "models folder", "Apache-2.0")
        assert find_seq2seq("", Settings(models=str(models))) == expected


def test_weights_are_found_in_the_hub_cache_and_by_path(random_t5: ModelFolder, empty_hub: Path) -> None:
    folder = empty_hub / "models--someone--asks" / "snapshots" / "abc"
    shutil.copytree(random_t5.folder, folder)
    assert find_seq2seq("someone/asks", Settings()) == ModelFolder("someone/asks", folder, "hub cache", "")
    assert find_seq2seq(str(folder), Settings()) == ModelFolder("abc", folder, "path", "")


def test_a_sentence_encoder_is_refused_by_name(random_t5: ModelFolder, empty_hub: Path, tmp_path: Path) -> None:
    folder = tmp_path / "encoder"
    shutil.copytree(random_t5.folder, folder)
    (folder / "config.json").write_text('{"model_type": "bert", "hidden_size": 8}')
    assert f"{folder} is not a sequence-to-sequence model" in str(find_seq2seq(str(folder), Settings()))
    (folder / "config.json").write_text("{")
    assert isinstance(find_seq2seq(str(folder), Settings()), str)


# ---------------------------------------------------------------- exporting, caching


def test_an_export_is_cached_and_described(
    random_t5: ModelFolder, exported_folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(subprocess, "run", lambda *_, **__: pytest.fail("exported again"))
    assert cache_seq2seq(random_t5, exported_folder.parent.parent) == exported_folder
    assert is_seq2seq_cached(random_t5, exported_folder.parent.parent)
    spec = load_spec(exported_folder)
    assert (spec.name, spec.licence, spec.start, list(spec.eos)) == ("tiny/random", "none", tiny_t5.PAD, [tiny_t5.EOS])
    assert spec.precision == choose_precision(spec.measured, LEAST_AGREEMENT)
    assert 0 <= spec.measured["agreement"] <= 1
    assert min(spec.measured["fp32_seconds"], spec.measured["int8_seconds"]) > 0
    assert sorted(path.name for path in exported_folder.iterdir()) == sorted([*spec.files, "model.json"])
    assert exported_folder.stat().st_mode & 0o077 == 0


def test_other_weights_are_not_cached(random_t5: ModelFolder, exported_folder: Path, tmp_path: Path) -> None:
    other = tmp_path / "other"
    shutil.copytree(random_t5.folder, other)
    config = orjson.loads((other / "generation_config.json").read_bytes())
    (other / "generation_config.json").write_bytes(orjson.dumps({**config, "eos_token_id": 7}))
    assert not is_seq2seq_cached(ModelFolder(random_t5.name, other, "path", ""), exported_folder.parent.parent)


@pytest.mark.soak
def test_parallel_exports_give_one_folder(random_t5: ModelFolder, tmp_path: Path) -> None:
    with ThreadPoolExecutor(2) as pool:
        folders = list(pool.map(cache_seq2seq, [random_t5] * 2, [tmp_path] * 2))
    assert folders[0] == folders[1]
    load_spec(folders[0])
    assert [path.name for path in (tmp_path / "seq2seq").iterdir()] == [folders[0].name]


def test_a_failed_export_names_the_reason_and_leaves_no_file(
    random_t5: ModelFolder, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "optimum").mkdir()
    (tmp_path / "optimum" / "onnxruntime.py").write_text("raise ValueError('the weights are incomplete')")
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    with pytest.raises(
        EncoderError, match=r"exporting tiny/random from .* failed: ValueError: the weights are incompl"
    ):
        cache_seq2seq(random_t5, tmp_path / "cache")
    assert list((tmp_path / "cache" / "seq2seq").iterdir()) == []


def test_an_unwritable_cache_is_an_encoder_error(random_t5: ModelFolder, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("in the way")
    with pytest.raises(EncoderError, match="HELIX_CACHE"):
        cache_seq2seq(random_t5, tmp_path / "file")


def test_a_damaged_or_missing_file_is_named(exported_folder: Path, tmp_path: Path) -> None:
    folder = tmp_path / "copy"
    shutil.copytree(exported_folder, folder)
    for name in ("encoder_model.onnx", "decoder_model_merged.onnx", "tokenizer.json", "config.json"):
        data = (folder / name).read_bytes()
        middle = len(data) // 2
        (folder / name).write_bytes(data[:middle] + bytes([data[middle] ^ 1]) + data[middle + 1 :])
        with pytest.raises(EncoderError, match=rf"changed: .*{name}"):
            Generator(folder)
        (folder / name).unlink()
        with pytest.raises(EncoderError, match=rf"missing: .*{name}"):
            Generator(folder)
        (folder / name).write_bytes(data)
    for description in (b"", b"{}", b"[1]", b'{"format": 1}'):
        (folder / "model.json").write_bytes(description)
        with pytest.raises(EncoderError, match=r"unreadable: .*model\.json"):
            Generator(folder)


def test_int8_has_to_be_faster_and_as_good() -> None:
    for agreement, fp32, int8, expected in (
        (1.0, 2.0, 1.0, "int8"), (0.9, 2.0, 1.9, "int8"), (0.89, 2.0, 1.0, "fp32"), (1.0, 1.0, 1.1, "fp32")
    ):  # fmt: skip
        measured = {"agreement": agreement, "fp32_seconds": fp32, "int8_seconds": int8}
        assert choose_precision(measured, LEAST_AGREEMENT) == expected, measured


# ---------------------------------------------------------------- the network against transformers


def greedy(step: int, rows: Any, logits: Any, tokens: Any) -> Any:
    return tokens[:, 0]


def test_greedy_decoding_equals_the_reference(models: Path, plain: Path) -> None:
    network = Network(plain, 1)
    ours = network.decode(network.tokens(TEXTS), 1, 12, greedy)
    assert ours == orjson.loads((models / "outputs.json").read_bytes())[0]
    assert len({len(row) for row in ours}) > 1  # rows ended at different steps
    assert all(ours)


def test_every_step_of_every_copy_has_the_logits_of_the_reference(models: Path, plain: Path) -> None:
    """Rows follow random paths of different lengths; a row that leaves must not mix up the attention of the others."""
    network = Network(plain, 1)
    ends = np.random.default_rng(2).integers(1, STEPS - 1, len(PATHS))
    ends[[0, 7]] = STEPS  # two rows never end
    seen: list[tuple[int, int, Any, Any]] = []
    sizes: list[int] = []

    def lead(step: int, rows: Any, logits: Any, tokens: Any) -> Any:
        sizes.append(len(rows))
        seen.extend((step, int(row), logits[i], tokens[i]) for i, row in enumerate(rows) if step <= ends[row])
        return np.where(ends[rows] == step, tiny_t5.EOS, PATHS[rows, step])

    out = network.decode(network.tokens(TEXTS), COPIES, STEPS, lead)
    assert [len(row) for row in out] == np.minimum(ends, STEPS).tolist()
    assert sizes[-1] < sizes[0] / 3  # ended rows leave the batch
    reference = np.load(models / "logits.npy")
    for step, row, logits, tokens in seen:
        whole = reference[row, step]
        expected = np.sort(whole)[::-1][: seq2seq.TOP_K]
        np.testing.assert_allclose(logits, expected, atol=2e-3)
        np.testing.assert_allclose(whole[tokens], expected, atol=2e-3)


def test_bart_has_a_forced_first_token(models: Path) -> None:
    network = Network(models / "exported-bart", 1)
    assert (network.spec.start, network.spec.forced) == (1, 9)
    ours = network.decode(network.tokens(TEXTS), 1, 8, greedy)
    assert all(row[0] == 9 for row in ours)
    reference = orjson.loads((models / "outputs.json").read_bytes())[1]
    assert [[token for token in row if token not in (0, 1, 9)] for row in ours] == reference
    assert any(reference)


# ---------------------------------------------------------------- int8


def record_logits(network: Network, texts: Sequence[str], path: Any) -> Any:
    """Return the logits of the best tokens at every step of a path, float32[texts, steps, 10]."""
    seen = []

    def lead(step: int, rows: Any, logits: Any, tokens: Any) -> Any:
        seen.append(logits.copy())
        return path[:, step]

    network.decode(network.tokens(texts), 1, path.shape[1], lead, stop=False)
    return np.stack(seen, 1)


def test_int8_is_near_fp32_and_its_files_are_small(plain: Path, small: Path) -> None:
    path = np.random.default_rng(0).integers(3, 400, (len(TEXTS), 4))
    exact, near = (record_logits(Network(folder, 1), TEXTS, path) for folder in (plain, small))
    assert not np.array_equal(exact, near)
    assert np.abs(exact - near).max() < 0.15 * exact.std()
    for name in ("encoder_model.onnx", "decoder_model_merged.onnx"):
        assert (small / name).stat().st_size < 0.5 * (plain / name).stat().st_size


def test_int8_does_not_depend_on_the_batch(small: Path) -> None:
    network = Network(small, 1)
    path = np.random.default_rng(0).integers(3, 400, (len(TEXTS), 4))
    together = record_logits(network, TEXTS, path)
    alone = np.concatenate([record_logits(network, [text], path[i : i + 1]) for i, text in enumerate(TEXTS)])
    assert np.abs(together - alone).max() < 0.02 * together.std()


def test_quantised_weights_are_within_half_a_step() -> None:
    weight = np.random.default_rng(0).normal(size=(40, 7)).astype(np.float32)
    weight[:, 3] = 0
    for axis, top in ((0, 127), (0, 63), (1, 127)):
        values, scales = quantise_matrix(weight, axis, top)
        assert values.dtype == np.int8
        assert np.abs(values.astype(int)).max() == top
        assert (np.abs(values * scales - weight) <= scales / 2 + 1e-7).all()


# ---------------------------------------------------------------- questions


def keys_of(text: str) -> set[str]:
    return set(text.lower().split()) - set(tiny_t5.STOP)


@pytest.fixture(scope="module", params=["plain", "small"])
def generator(request: pytest.FixtureRequest) -> Generator:
    return Generator(request.getfixturevalue(request.param), threads=1)


def test_questions_have_the_words_of_their_text(generator: Generator) -> None:
    written = generator.write_questions(TEXTS)
    for queries in written:
        assert 1 <= len(queries) <= 3
        assert len(set(queries)) == len(queries)
    pairs = [(query, text) for text, queries in zip(TEXTS, written, strict=True) for query in queries]
    words = [(word, text) for query, text in pairs for word in query.split()]
    right = sum(word in keys_of(text) for word, text in words)
    assert right >= 0.8 * len(words) > 10
    assert max(len(queries) for queries in written) > 1  # sampled, not the same one three times


def test_questions_do_not_depend_on_the_other_texts(generator: Generator) -> None:
    together = generator.write_questions(TEXTS)
    assert generator.write_questions(TEXTS[::-1])[::-1] == together
    assert [generator.write_questions([text])[0] for text in TEXTS] == together
    assert generator.write_questions(TEXTS[:2]) + generator.write_questions(TEXTS[2:]) == together  # as after a restart
    assert generator.write_questions([TEXTS[1], TEXTS[0], TEXTS[1]]) == [together[1], together[0], together[1]]


def test_parallel_batches_equal_sequential_ones(plain: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("helix.enrich.doc2query._BATCH", 2)
    texts = [f"{text} {place}" for place in ("", "server", "march index") for text in TEXTS]
    generator = Generator(plain, 1)
    alone = [generator.write_questions([text])[0] for text in texts]
    assert len({tuple(queries) for queries in alone}) > len(TEXTS)
    assert generator.write_questions(texts) == Generator(plain, 4).write_questions(texts) == alone


def test_another_seed_gives_other_questions(plain: Path) -> None:
    first, again, other = (Generator(plain, 1, seed=seed).write_questions(TEXTS) for seed in (1, 1, 2))
    assert first == again
    assert first != other


def test_blank_texts_have_no_questions(generator: Generator) -> None:
    assert generator.write_questions([]) == []
    blank = generator.write_questions(["", " \n\t", TEXTS[0], "\x00"])
    assert blank[:2] == [[], []]
    assert blank[2] == generator.write_questions([TEXTS[0]])[0]


def test_only_the_first_tokens_are_read(plain: Path) -> None:
    network = Network(plain, 1)
    long = " ".join(["vacation in march"] * 400)
    (ids,) = network.tokens([long])
    assert len(ids) == seq2seq.INPUT_TOKENS
    assert ids[-1] == tiny_t5.EOS
    assert Generator(plain, 1).write_questions([long + " redis"])[0]


def test_a_megabyte_does_not_stall(plain: Path) -> None:
    texts = "x" * 1_000_000, " " * 1_000_000 + "redis", "é\u0301 " * 300_000, "redis timeout " * 80_000
    check_cpu_time(lambda text: Generator(plain, 1).write_questions([text]), *texts)


def test_a_question_has_at_most_max_tokens(plain: Path) -> None:
    for most in (1, 2):
        queries = [query for each in Generator(plain, 1, max_tokens=most).write_questions(TEXTS) for query in each]
        assert max(len(query.split()) for query in queries) == most


def test_n_bounds_the_questions(plain: Path) -> None:
    assert all(len(queries) == 1 for queries in Generator(plain, 1, n=1).write_questions(TEXTS))
    assert max(len(queries) for queries in Generator(plain, 1, n=6).write_questions(TEXTS)) > 3
    with pytest.raises(UsageError, match="at least one"):
        Generator(plain, 1, n=0)


def test_many_texts_of_all_lengths(plain: Path) -> None:
    words = [word for word in tiny_t5.vocabulary() if word not in tiny_t5.STOP]
    rng = np.random.default_rng(5)
    texts = [" ".join(rng.choice(words, int(count))) for count in rng.integers(1, 120, 90)]
    generator = Generator(plain, 1)
    written = generator.write_questions(texts)
    assert [generator.write_questions([text])[0] for text in texts[:5]] == written[:5]
    assert all(written)


def test_batches_are_sorted_by_length_and_bounded(plain: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    calls: list[list[int]] = []

    def decode(self: Network, inputs: Sequence[Sequence[int]], copies: int, *_: Any) -> list[list[int]]:
        calls.append([len(ids) for ids in inputs])
        return [[] for _ in range(len(inputs) * copies)]

    monkeypatch.setattr(Network, "decode", decode)
    counts = [3, 200, 3, 90, 1, 90, 200, *[4] * 70, 90, 200, 200, 200, 200]
    texts = [" ".join(["redis"] * count) + f" w{i}" for i, count in enumerate(counts)]
    assert Generator(plain, 1).write_questions(texts) == [[] for _ in texts]
    lengths = [length for call in reversed(calls) for length in call]  # the batch of the longest goes first
    assert len(lengths) == len(texts)
    assert lengths == sorted(lengths)
    assert all(max(call) * len(call) <= 1024 and len(call) <= 32 for call in calls)
    assert len(calls) < 8


def test_the_fingerprint_covers_model_and_constants(plain: Path, small: Path) -> None:
    options: list[dict[str, int]] = [{}, {"n": 2}, {"max_tokens": 8}, {"seed": 1}]
    prints = [Generator(plain, 1, **each).fingerprint for each in options] + [Generator(small, 1).fingerprint]
    assert len(set(prints)) == len(prints)
    assert all(len(each) == 16 and int(each, 16) >= 0 for each in prints)
    assert Generator(plain, 2).fingerprint == prints[0]


def test_running_imports_no_torch(plain: Path) -> None:
    code = (
        "import sys; from pathlib import Path; from helix.enrich.doc2query import Generator\n"
        "assert Generator(Path(sys.argv[1]), 1).write_questions(['redis timeout'])[0]\n"
        "assert not {'torch', 'transformers', 'optimum', 'onnx', 'sklearn'} & set(sys.modules), sorted(sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", code, str(plain)], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def test_sampling_follows_the_softmax() -> None:
    logits = np.array([2.0, 1.0, 0.0, -1.0], np.float32)
    count = 40_000
    draws = np.random.default_rng(0).random((count, 1))
    tokens = np.tile(np.array([7, 5, 3, 1]), (count, 1))
    chosen = _make_sampler(draws)(0, np.arange(count), np.tile(logits, (count, 1)), tokens)
    expected = np.exp(logits) / np.exp(logits).sum()
    shares = np.array([(chosen == token).mean() for token in (7, 5, 3, 1)])
    assert shares == pytest.approx(expected, abs=4 * (0.25 / count) ** 0.5)


def test_sampling_at_the_ends_of_the_range() -> None:
    tokens = np.array([[7, 5, 3], [7, 5, 3], [7, 5, 3]])
    logits = np.array([[0.0, 0.0, 0.0], [0.0, 0.0, 0.0], [500.0, 0.0, -np.inf]], np.float32)
    draws = np.array([[0.0], [np.nextafter(1.0, 0.0)], [np.nextafter(1.0, 0.0)]])
    assert _make_sampler(draws)(0, np.arange(3), logits, tokens).tolist() == [7, 3, 7]


# ---------------------------------------------------------------- filtering


def encoding(seen: list[list[str]]) -> Callable[[Sequence[str]], Any]:
    """Return an encoder with cosines .8, .6 and 0 to (1, 0), by vectors not of unit length."""
    table = {"near": [8.0, 6.0], "edge": [3.0, 4.0], "far": [0.0, 2.0], "zero": [0.0, 0.0]}

    def encode(texts: Sequence[str]) -> Any:
        seen.append(list(texts))
        return np.array([table[text] for text in texts], np.float32)

    return encode


def test_far_questions_are_dropped_and_the_order_stays() -> None:
    seen: list[list[str]] = []
    items = np.array([[5.0, 0.0], [0.0, 1.0], [1.0, 0.0]], np.float32)
    questions = [["far", "edge", "near"], ["far", "near"], []]
    assert keep_near(questions, items, encoding(seen), 0.59) == [["edge", "near"], ["far", "near"], []]
    assert seen == [["far", "edge", "near"]]  # once, each text once
    assert keep_near(questions, items, encoding(seen), 0.61) == [["near"], ["far"], []]
    assert keep_near([["zero"]], items[:1], encoding(seen), 0.01) == [[]]


def test_nothing_to_filter_runs_no_encoder() -> None:
    def encode(texts: Sequence[str]) -> Any:
        pytest.fail("no text to encode")

    assert keep_near([[], []], np.zeros((2, 4), np.float32), encode) == [[], []]
    assert keep_near([], np.zeros((0, 4), np.float32), encode) == []
    with pytest.raises(UsageError, match="1 items, embeddings of 2"):
        keep_near([["a"]], np.zeros((2, 4), np.float32), encode)
