"""Counting tokens: by the parts between white space where that gives the tokenizer's own number, else by the text."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from tokenizers import Tokenizer, models, normalizers, pre_tokenizers

from helix.encoders import dense as onnx
from helix.encoders import registry
from helix.encoders.dense import TokenCounter
from helix.encoders.dense_export import cached
from helix.settings import Settings

# What lies at the borders of the rule: white space of all kinds, what only Python takes for it, accents, marks that
# join what stands before them, Chinese, tokens with a name of their own, long words.
SPACES = " \t\n\r\x0b\x0c\x1c\x1f\x85\xa0\u1680\u2003\u2028\u3000\u200b\u0301\x00\x7f\ufffd"
WORDS = ["é", "e\u0301", "漢字", "한", "[SEP]", "[MASK]", "foo_bar", "don't", "C++", "…", "·", "ﬁ", "walnut", "x" * 101]
PIECES = st.sampled_from([*SPACES, *WORDS, "🙂", "İ", "a.b-c/d"])
TEXTS = st.lists(st.one_of(PIECES, st.text(max_size=6)), max_size=12).map("".join)


@pytest.fixture(scope="module")
def counter(cache: Path) -> TokenCounter:
    return TokenCounter(cached(registry.choose(Settings()), cache))


def tokens(counter: TokenCounter, text: str) -> int:
    return len(counter._tokenizer.encode(text, add_special_tokens=False).ids)


@given(texts=st.lists(TEXTS, max_size=4))
@example(texts=["one\x1ctwo", "three four"])
@example(texts=["e\n\u0301", " \u0301x"])
@example(texts=["ä ö " * 200, "plain", " ".join(map(chr, range(0xC0, 0x180)))])
@settings(max_examples=300, deadline=None)
def test_every_text_has_the_tokens_the_tokenizer_gives_it(counter: TokenCounter, texts: list[str]) -> None:
    wanted = [tokens(counter, text) for text in texts]
    assert counter(texts) == wanted
    assert counter(texts) == wanted  # what is known by now says the same


PLAIN = st.text(st.characters(min_codepoint=32, max_codepoint=126), max_size=40)
HEXADECIMAL = st.text("0123456789abcdef", min_size=1, max_size=12)


@given(texts=st.lists(st.one_of(PLAIN, HEXADECIMAL), max_size=8))
@example(texts=["a[SEP]b", "[sep]", "##ing", "x" * 100, "x" * 101, "(5049c3db#b7025ca2):"])
@settings(max_examples=500, deadline=None)
def test_plain_words_have_the_tokens_the_tokenizer_gives_them(counter: TokenCounter, texts: list[str]) -> None:
    assert counter(texts) == [tokens(counter, text) for text in texts]


@pytest.mark.parametrize("lower", [None, False, True])
def test_word_pieces_of_any_kind(tmp_path: Path, lower: bool | None) -> None:
    """Its own prefix, words of at most six letters, a token with a name of its own, words that are unknown."""
    vocabulary = {piece: i for i, piece in enumerate(["[UNK]", "ab", "a", "@b", "@cd", "@d", "AB", "."])}
    named = Tokenizer(
        models.WordPiece(vocabulary, unk_token="[UNK]", continuing_subword_prefix="@", max_input_chars_per_word=6)
    )
    named.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    if lower is not None:
        named.normalizer = normalizers.BertNormalizer(lowercase=lower)
    named.add_tokens(["cdd"])
    named.save(str(tmp_path / "tokenizer.json"))
    counter = TokenCounter(tmp_path)
    for text in (
        *("abcd", "ABcd", "abcdd", "a.abd!", "abbbbb", "abbbbbb", "xab", "abx", "@d", "CDD abcd", "Abcd", "abab"),
        *("a.cdd", "cd d", "cdcdd", "aCDD", "a\x0bb", "\x7f", "", " ", "."),
    ):
        assert counter([text]) == [tokens(counter, text)], text


def test_a_word_is_asked_for_once(counter: TokenCounter, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[str] = []
    counted = TokenCounter._counted
    monkeypatch.setattr(TokenCounter, "_counted", lambda self, text: asked.append(text) or counted(self, text))  # type: ignore[func-returns-value]
    counter(["quibblefäx and quibblefäx", "and"])
    counter(["quibblefäx"])
    assert asked == ["quibblefäx"]  # plain words are not asked for at all


def test_memory_is_bounded(cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    counter = TokenCounter(cached(registry.choose(Settings()), cache))
    monkeypatch.setattr(onnx, "_KEPT_CHUNKS", 50)
    texts = [f"wörd{i} öther{i}" for i in range(200)]
    for text in texts:
        assert counter([text]) == [tokens(counter, text)]
        assert len(counter._known) <= 50
    long = "ÿ" * 5_000
    assert counter([f"a {long} b"]) == [tokens(counter, f"a {long} b")]
    assert long not in counter._known


def test_a_tokenizer_that_joins_over_white_space_is_given_whole_texts(tmp_path: Path) -> None:
    """Byte pairs, and one word piece model that keeps its spaces: the parts would have other tokens than the whole."""
    vocabulary = {"a": 0, " ": 1, "b": 2, " b": 3, "a b": 4}
    pairs = Tokenizer(models.BPE(vocabulary, [(" ", "b"), ("a", " b")]))
    pairs.save(str(tmp_path / "tokenizer.json"))
    assert TokenCounter(tmp_path)(["a b", "a"]) == [1, 1]
    named = Tokenizer(models.WordPiece({"[UNK]": 0, "a": 1, "b": 2}, unk_token="[UNK]"))
    named.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    named.normalizer = normalizers.BertNormalizer()
    named.add_tokens(["a b"])
    named.save(str(tmp_path / "tokenizer.json"))
    assert TokenCounter(tmp_path)(["a b", "a a b"]) == [1, 2]
