"""Token counts: of the parts between white space if these add up to the tokenizer's number, else of the text."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from tokenizers import Tokenizer, models, normalizers, pre_tokenizers

from helix.encoders import registry, token_counter
from helix.encoders.dense_export import cache_encoder
from helix.encoders.token_counter import TokenCounter
from helix.settings import Settings
from tests.support.draws import draw_share

# Borders of the rule: white space of all kinds and of Python's alone, accents, combining marks, Chinese, added tokens,
# long words.
SPACES = " \t\n\r\x0b\x0c\x1c\x1f\x85\xa0\u1680\u2003\u2028\u3000\u200b\u0301\x00\x7f\ufffd"
WORDS = ["é", "e\u0301", "漢字", "한", "[SEP]", "[MASK]", "foo_bar", "don't", "C++", "…", "·", "ﬁ", "walnut", "x" * 101]
PIECES = st.sampled_from([*SPACES, *WORDS, "🙂", "İ", "a.b-c/d"])
TEXTS = st.lists(st.one_of(PIECES, st.text(max_size=6)), max_size=12).map("".join)


@pytest.fixture(scope="module")
def folder(cache: Path) -> Path:
    return cache_encoder(registry.choose_encoder(Settings()), cache)


@pytest.fixture(scope="module")
def counter(folder: Path) -> TokenCounter:
    return TokenCounter(folder)


def count_exactly(counter: TokenCounter, text: str) -> int:
    return len(counter._tokenizer.encode(text, add_special_tokens=False).ids)


@given(texts=st.lists(TEXTS, max_size=4))
@example(texts=["one\x1ctwo", "three four"])
@example(texts=["e\n\u0301", " \u0301x"])
@example(texts=["ä ö " * 200, "plain", " ".join(map(chr, range(0xC0, 0x180)))])
@draw_share(3)
def test_every_text_has_the_tokens_the_tokenizer_gives_it(counter: TokenCounter, texts: list[str]) -> None:
    wanted = [count_exactly(counter, text) for text in texts]
    assert counter(texts) == wanted
    assert counter(texts) == wanted  # from the cached sizes


PLAIN = st.text(st.characters(min_codepoint=32, max_codepoint=126), max_size=40)
HEXADECIMAL = st.text("0123456789abcdef", min_size=1, max_size=12)


@given(texts=st.lists(st.one_of(PLAIN, HEXADECIMAL), max_size=8))
@example(texts=["a[SEP]b", "[sep]", "##ing", "x" * 100, "x" * 101, "(5049c3db#b7025ca2):"])
@draw_share(5)
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
    pieces = Tokenizer(
        models.WordPiece(vocabulary, unk_token="[UNK]", continuing_subword_prefix="@", max_input_chars_per_word=6)
    )
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


def test_a_tokenizer_that_joins_over_white_space_counts_whole_texts(tmp_path: Path) -> None:
    """Byte pairs, and a word-piece model that keeps its spaces: the parts would have other tokens than the text."""
    vocabulary = {"a": 0, " ": 1, "b": 2, " b": 3, "a b": 4}
    pairs = Tokenizer(models.BPE(vocabulary, [(" ", "b"), ("a", " b")]))
    pairs.save(str(tmp_path / "tokenizer.json"))
    assert TokenCounter(tmp_path)(["a b", "a"]) == [1, 1]
    pieces = Tokenizer(models.WordPiece({"[UNK]": 0, "a": 1, "b": 2}, unk_token="[UNK]"))
    pieces.normalizer = normalizers.BertNormalizer()
    assert save(pieces, tmp_path, "a b")(["a b", "a a b"]) == [1, 2]
