"""The default encoder: written, quantised, checked, compared with its weights; its token counts."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from tokenizers import Regex, Tokenizer, models, normalizers, pre_tokenizers

from helix.cli.main import main
from helix.encoders import registry, token_counter
from helix.encoders.dense import Encoder, load_spec
from helix.encoders.dense_export import cache_encoder
from helix.encoders.packages import PACKAGES
from helix.encoders.token_counter import EstimatedCounter, TokenCounter
from helix.errors import EncoderError
from helix.settings import Settings
from tests.support.draws import draw_share
from tests.support.tiny_encoder import tiny_bert

TEXTS = [
    "I told Priya we can do March for vacation",
    "sqlite3.OperationalError: database is locked",
    "Looking at flights to Goa for next month",
    "The worker acknowledges a task only after the envelope is published.",
    "thanks",
]


@pytest.fixture(scope="module")
def folder(cache: Path) -> Path:
    return cache_encoder(registry.choose_encoder(Settings()), cache)


@pytest.fixture(scope="module")
def encoder(folder: Path) -> Encoder:
    return Encoder(folder)


def test_int8_stays_close_to_the_published_weights(encoder: Encoder) -> None:
    from sentence_transformers import SentenceTransformer

    folder = registry.find_trainable("all-MiniLM-L6-v2", Settings())
    exact = SentenceTransformer(str(folder), device="cpu").encode(TEXTS, normalize_embeddings=True)
    ours = encoder.passages(TEXTS)
    assert np.linalg.norm(ours, axis=1) == pytest.approx(np.ones(len(TEXTS)), abs=1e-5)
    cosine = (exact * ours).sum(axis=1)
    assert cosine[:4].min() > 0.97
    assert cosine.min() > 0.9  # one short word: activation ranges are of the whole batch
    assert (ours[0] @ ours[1:].T).argmax() == (exact[0] @ exact[1:].T).argmax() == 1  # vacation → flights


def test_passages_come_back_in_the_order_given(encoder: Encoder) -> None:
    one_by_one = np.stack([encoder.passages([text])[0] for text in TEXTS])
    batched = encoder.passages([*TEXTS, TEXTS[0]], batch=2)
    assert (batched[:-1] @ one_by_one.T).argmax(axis=1).tolist() == [0, 1, 2, 3, 4]
    assert (batched[:-1] * one_by_one).sum(axis=1).min() > 0.9
    assert (batched[0] == batched[-1]).all()
    assert encoder.passages([]).shape == (0, encoder.dim)


def test_an_export_is_cached_and_a_changed_or_missing_file_is_named(folder: Path, cache: Path, tmp_path: Path) -> None:
    before = (folder / "model.onnx").stat().st_mtime_ns
    assert cache_encoder(registry.choose_encoder(Settings()), cache) == folder
    assert (folder / "model.onnx").stat().st_mtime_ns == before
    broken = tmp_path / "encoder"
    shutil.copytree(folder, broken)
    data = bytearray((broken / "model.onnx").read_bytes())
    data[100_000] ^= 1
    (broken / "model.onnx").write_bytes(data)
    with pytest.raises(EncoderError, match=r"encoder changed: .*model\.onnx"):
        load_spec(broken)
    (broken / "model.onnx").unlink()
    with pytest.raises(EncoderError, match=r"encoder missing: .*model\.onnx"):
        load_spec(broken)
    with pytest.raises(EncoderError, match="encoder mismatch"):
        load_spec(folder, expect="0" * 16)


def test_tokens_are_counted_without_a_cut(folder: Path) -> None:
    assert TokenCounter(folder)(["hello world", "", "word " * 1000]) == [2, 0, 1000]
    assert EstimatedCounter()(["12345678", "123456789", ""]) == [2, 3, 0]


@pytest.mark.soak
def test_bge_is_preferred_if_its_weights_are_available(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    settings = Settings(models=str(tmp_path))
    assert registry.choose_encoder(settings).model.name == "all-MiniLM-L6-v2"
    weights = tiny_bert(tmp_path / "bge-small-en-v1.5")
    chosen = registry.choose_encoder(settings)
    assert (chosen.model.name, chosen.origin) == ("bge-small-en-v1.5", "models folder")
    assert chosen.model.query_prefix.startswith("Represent this sentence")
    monkeypatch.setenv("HF_HUB_CACHE", str(tmp_path))
    hub = tmp_path / "models--BAAI--bge-small-en-v1.5" / "snapshots" / "abc"
    hub.parent.mkdir(parents=True)
    weights.rename(hub)
    assert registry.choose_encoder(Settings()).origin == "hub cache"


@pytest.mark.soak
def test_a_folder_of_the_user_works_from_end_to_end(tmp_path: Path, cache: Path, monkeypatch, capsys) -> None:
    folder, store = tiny_bert(tmp_path / "my-encoder"), tmp_path / "store"
    for name, text in (("note", "walnut bread"), ("more", "parsley")):
        (tmp_path / f"{name}.md").write_text(f"# Pantry\n\n{text}")

    def run(*command: object) -> tuple[int, str, str]:
        return (main([*map(str, command), "--store", str(store)]), *capsys.readouterr())

    monkeypatch.setenv("HELIX_ENCODER", str(folder))
    status, _, messages = run("ingest", tmp_path / "note.md")
    assert (status, "encoder: my-encoder from the path" in messages) == (0, True), messages
    monkeypatch.delenv("HELIX_ENCODER")
    answer = json.loads(run("recall", "walnut bread", "--json")[1])
    assert (answer["degraded"], answer["items"][0]["text"]) == ([], "walnut bread")
    spec = json.loads(next(store.glob("encoders/*/encoder.json")).read_text())
    assert (spec["name"], spec["dim"], spec["pooling"]) == ("my-encoder", 32, "cls")
    assert set(spec["agreement"]) == {"fp32", "int8"}  # the export's own process has compared them
    # Another encoder never enters the same lineage.
    monkeypatch.setenv("HELIX_ENCODER", "all-MiniLM-L6-v2")
    status, _, messages = run("ingest", tmp_path / "more.md")
    assert (status, "was built with my-encoder" in messages) == (4, True), messages
    monkeypatch.delenv("HELIX_ENCODER")
    assert run("ingest", tmp_path / "more.md")[0] == 0


def test_missing_unknown_and_changed_encoders_are_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    package = PACKAGES["all-MiniLM-L6-v2"]
    monkeypatch.setitem(PACKAGES, "all-MiniLM-L6-v2", package._replace(files=dict.fromkeys(package.files, "0" * 64)))
    with pytest.raises(EncoderError, match="are not the known ones"):
        registry.choose_encoder(Settings())
    monkeypatch.setattr(registry, "PREFERRED", ("gte-small",))
    monkeypatch.setenv("HF_HUB_CACHE", str(tmp_path))
    with pytest.raises(EncoderError, match="no weights found"):
        registry.choose_encoder(Settings())
    with pytest.raises(EncoderError, match="neither a known model nor a folder"):
        registry.choose_encoder(Settings(encoder="nope"))


def test_a_failed_pull_names_the_remedy_and_models_lists_the_default(tmp_path: Path, monkeypatch, capsys) -> None:
    monkeypatch.setenv("HELIX_MODELS", str(tmp_path))
    assert main(["models", "pull", "bge-small-en-v1.5"]) == 4
    assert "cannot be downloaded" in capsys.readouterr().err
    assert main(["models", "--json"]) == 0
    listed = json.loads(capsys.readouterr().out)
    assert {row["name"] for row in listed} >= {"bge-small-en-v1.5", "all-MiniLM-L6-v2"}
    assert {row["name"] for row in listed if row["default"]} == {"all-MiniLM-L6-v2", "helix-ranker"}


# Borders of the rule: white space of all kinds and of Python's alone, accents, combining marks, Chinese, added tokens,
# long words.
SPACES = " \t\n\r\x0b\x0c\x1c\x1f\x85\xa0\u1680\u2003\u2028\u3000\u200b\u0301\x00\x7f\ufffd"
WORDS = ["é", "e\u0301", "漢字", "한", "[SEP]", "[MASK]", "foo_bar", "don't", "C++", "…", "·", "ﬁ", "walnut", "x" * 101]
PIECES = st.sampled_from([*SPACES, *WORDS, "🙂", "İ", "a.b-c/d"])
ANY_TEXTS = st.lists(st.one_of(PIECES, st.text(max_size=6)), max_size=12).map("".join)


@pytest.fixture(scope="module")
def counter(folder: Path) -> TokenCounter:
    return TokenCounter(folder)


def count_exactly(counter: TokenCounter, text: str) -> int:
    return len(counter._tokenizer.encode(text, add_special_tokens=False).ids)


@given(texts=st.lists(ANY_TEXTS, max_size=4))
@example(texts=["one\x1ctwo", "three four"])
@example(texts=["e\n\u0301", " \u0301x"])
@example(texts=["ä ö " * 200, "plain", " ".join(map(chr, range(0xC0, 0x180)))])
@draw_share(2)
def test_every_text_has_the_tokens_the_tokenizer_gives_it(counter: TokenCounter, texts: list[str]) -> None:
    wanted = [count_exactly(counter, text) for text in texts]
    assert counter(texts) == wanted
    assert counter(texts) == wanted  # from the cached sizes


PLAIN = st.text(st.characters(min_codepoint=32, max_codepoint=126), max_size=40)
HEXADECIMAL = st.text("0123456789abcdef", min_size=1, max_size=12)


@given(texts=st.lists(st.one_of(PLAIN, HEXADECIMAL), max_size=8))
@example(texts=["a[SEP]b", "[sep]", "##ing", "x" * 100, "x" * 101, "(5049c3db#b7025ca2):"])
@draw_share(3)
def test_plain_words_have_the_tokens_the_tokenizer_gives_them(counter: TokenCounter, texts: list[str]) -> None:
    assert counter(texts) == [count_exactly(counter, text) for text in texts]


def save(tokenizer: Tokenizer, folder: Path, added: str) -> TokenCounter:
    tokenizer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    tokenizer.add_tokens([added])
    tokenizer.save(str(folder / "tokenizer.json"))
    return TokenCounter(folder)


@pytest.mark.parametrize("lower", [None, False, True])
def test_word_pieces_of_any_kind(tmp_path: Path, lower: bool | None) -> None:
    """Its own prefix, words of at most six letters, an added token, unknown words."""
    vocabulary = {piece: i for i, piece in enumerate(["[UNK]", "ab", "a", "@b", "@cd", "@d", "AB", "."])}
    options = {"unk_token": "[UNK]", "continuing_subword_prefix": "@", "max_input_chars_per_word": 6}
    pieces = Tokenizer(models.WordPiece(vocabulary, **options))
    if lower is not None:
        pieces.normalizer = normalizers.BertNormalizer(lowercase=lower)
    counter = save(pieces, tmp_path, "cdd")
    for text in (
        *("abcd", "ABcd", "abcdd", "a.abd!", "abbbbb", "abbbbbb", "xab", "abx", "@d", "CDD abcd", "Abcd", "abab"),
        *("a.cdd", "cd d", "cdcdd", "aCDD", "a\x0bb", "\x7f", "", " ", "."),
    ):
        assert counter([text]) == [count_exactly(counter, text)], text


def test_the_tokenizer_counts_a_word_once(counter: TokenCounter, monkeypatch: pytest.MonkeyPatch) -> None:
    words: list[str] = []
    count = TokenCounter._count
    monkeypatch.setattr(TokenCounter, "_count", lambda self, text: words.append(text) or count(self, text))  # type: ignore[func-returns-value]
    counter(["quibblefäx and quibblefäx", "and"])
    counter(["quibblefäx"])
    assert words == ["quibblefäx"]  # plain words never reach it


def test_memory_is_bounded(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    counter = TokenCounter(folder)
    monkeypatch.setattr(token_counter, "_CACHED_CHUNKS", 50)
    for text in (f"wörd{i} öther{i}" for i in range(200)):
        assert counter([text]) == [count_exactly(counter, text)]
        assert len(counter._sizes) <= 50
    long = "ÿ" * 5_000
    assert counter([f"a {long} b"]) == [count_exactly(counter, f"a {long} b")]
    assert long not in counter._sizes


def write_sentence_pieces(folder: Path, *pieces: str) -> Tokenizer:
    """A unigram model with SentencePiece's marks and normalisation."""
    vocabulary = [("<unk>", -20.0), *[(piece, -float(len(pieces) - i)) for i, piece in enumerate(pieces)]]
    tokenizer = Tokenizer(models.Unigram(vocabulary, 0, False))
    blanks, runs = normalizers.Replace(Regex("[\t\n]"), " "), normalizers.Replace(Regex(" {2,}"), " ")
    tokenizer.normalizer = normalizers.Sequence([blanks, normalizers.NFKC(), runs])
    tokenizer.pre_tokenizer = pre_tokenizers.Metaspace("▁", "always", split=False)
    tokenizer.add_special_tokens(["<s>"])
    tokenizer.save(str(folder / "tokenizer.json"))
    return tokenizer


SENTENCE_PIECES = ["▁", "a", "b", "ab", "▁a", "▁ba", "é", "漢", "1"]


@given(text=st.lists(st.sampled_from([*"ab1é漢´ \n\t\x1c\x85\u3000", "<s>"]), max_size=14).map("".join))
@example(text="a\x85b")
@example(text="ab <s> a")
@draw_share(2)
def test_sentence_pieces_have_the_tokens_the_tokenizer_gives_them(
    tmp_path_factory: pytest.TempPathFactory, text: str
) -> None:
    folder = tmp_path_factory.getbasetemp() / "pieces"
    folder.mkdir(exist_ok=True)
    exact, counter = write_sentence_pieces(folder, *SENTENCE_PIECES), TokenCounter(folder)
    wanted = len(exact.encode(text.strip(), add_special_tokens=False))
    assert counter([text.strip()]) == counter([text.strip()]) == [wanted]  # again, from the cached sizes


def test_sentence_pieces_are_counted_by_a_tokenizer_that_cuts(tmp_path: Path) -> None:
    cutting = write_sentence_pieces(tmp_path, *SENTENCE_PIECES)
    cutting.enable_truncation(4)
    assert TokenCounter(tmp_path, cutting)(["ab " * 50, "x" * 30]) == TokenCounter(tmp_path)(["ab " * 50, "x" * 30])


def test_pieces_that_hold_a_blank_are_counted_whole(tmp_path: Path) -> None:
    write_sentence_pieces(tmp_path, "▁a", "▁b", "▁a▁b")
    assert TokenCounter(tmp_path)(["a b", "b a"]) == [1, 2]


def test_a_tokenizer_that_joins_over_white_space_counts_whole_texts(tmp_path: Path) -> None:
    """Byte pairs, and a word-piece model that keeps its spaces: the parts would have other tokens than the text."""
    vocabulary = {"a": 0, " ": 1, "b": 2, " b": 3, "a b": 4}
    pairs = Tokenizer(models.BPE(vocabulary, [(" ", "b"), ("a", " b")]))
    pairs.save(str(tmp_path / "tokenizer.json"))
    assert TokenCounter(tmp_path)(["a b", "a"]) == [1, 1]
    pieces = Tokenizer(models.WordPiece({"[UNK]": 0, "a": 1, "b": 2}, unk_token="[UNK]"))
    pieces.normalizer = normalizers.BertNormalizer()
    assert save(pieces, tmp_path, "a b")(["a b", "a a b"]) == [1, 2]
