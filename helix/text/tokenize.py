"""Tokeniser of text into terms, shared by index and query.

A term's id in the store is the first 8 bytes of its BLAKE2b-512 digest (UTF-8), read as a little-endian uint64.
"""

from __future__ import annotations

import re
import threading
import unicodedata
from collections.abc import Iterator, Sequence
from functools import cache
from hashlib import blake2b
from typing import Final, NamedTuple, Protocol

import numpy as np
import Stemmer

from helix.text.language_words import list_stop_words
from helix.types import U32, U64

MAX_TERM: Final = 64
"""Characters of one term; a longer one is cut. The tail of a base64 blob does not help BM25."""

_CACHED_CHUNK: Final = 128
"""Characters; longer chunks rarely repeat, so they are not cached."""

_CACHE_ENTRIES: Final = 1 << 17
"""Entries after which a cache is cleared: about 30 MB at most."""

_MIXED_BORDERS: Final = 3
"""A word with more letter/digit borders is a hash or an id without meaningful parts."""

_STOP_TEXT: Final = (
    # articles, conjunctions, prepositions
    "a an the and or but nor if so than then as at by for from in into of off on onto out over to up with within about "
    # auxiliaries
    "am is are was were be been being do does did doing have has had having can could would should shall "
    # pronouns and determiners
    "i me my mine myself you your yours yourself he him his himself she her hers herself it its itself we us our ours "
    "ourselves they them their theirs themselves this that these those there here "
    # question words
    "who whom whose what which when where why how "
    # particles and abbreviations
    "not no just also too very e.g i.e etc ll ve re"
)
STOP_WORDS: Final = frozenset(_STOP_TEXT.split())
"""Dropped unless part of a whole identifier. `will`, `may` and `mark` stay: they are also names and months."""

STEMMERS: Final = {
    **{"en": "english", "de": "german", "fr": "french", "es": "spanish", "pt": "portuguese", "it": "italian"},
    **{"nl": "dutch", "ru": "russian", "ar": "arabic", "cs": "czech", "pl": "polish", "tr": "turkish", "sv": "swedish"},
    **{"da": "danish", "no": "norwegian", "fi": "finnish", "hu": "hungarian", "ro": "romanian", "ca": "catalan"},
    **{"el": "greek", "hi": "hindi", "id": "indonesian", "fa": "persian", "sr": "serbian", "lt": "lithuanian"},
    "et": "estonian",
}
"""Snowball's stemmer by language."""

_LIKE_ENGLISH: Final = frozenset(("", "en", "ja", "zh", "ko", "th"))
"""Languages in which a word of Latin letters is mostly English; "" is unknown."""

# Scripts written without spaces between words (Han, kana, hangul, Thai, Lao, Myanmar, Khmer): indexed as bigrams.
UNSPACED: Final = (
    "\u0e00-\u0eff\u1000-\u109f\u1100-\u11ff\u1780-\u17ff\u3005-\u3007\u3040-\u30ff\u3130-\u318f\u31f0-\u31ff"
    "\u3400-\u4dbf\u4e00-\u9fff\ua960-\ua97f\uac00-\ud7ff\uf900-\ufaff\U00020000-\U0003ffff"
)
# `\w` lacks combining marks, and would cut Hindi, Arabic or Hebrew words at every vowel sign.
_MARKS = "\u0300-\u036f\u0483-\u0487\u0591-\u05bd\u0610-\u061a\u064b-\u065f\u0900-\u0963\u0966-\u0dff"
_WORD_CHAR = rf"[\w{_MARKS}]"

_RUN = re.compile(rf"[{UNSPACED}]+")
# Words joined by one connector: paths, dotted names, `::`, drive letters, URLs, hyphens, addresses.
_TOKEN = re.compile(
    rf"(?P<core>\#(?=\d)\d+|[A-Za-z]\+\+(?!\w)|[CcFf]\#(?!\w)|"
    rf"{_WORD_CHAR}+(?:(?:::|:[\\/]{{1,3}}|\\{{1,2}}|/\.{{0,2}}/?|->|[.:@-]){_WORD_CHAR}+)*)"
    rf"(?:'(?P<tail>s|t|d|m|ll|re|ve)(?!\w))?",
    re.IGNORECASE,
)
_CONNECTOR = re.compile(rf"[^\w{_MARKS}]+")
# VisibilityTimeoutError, parseHTTPResponse, sqlite3: upper runs keep their last capital for the next word.
_PART = re.compile(rf"[A-Z]+(?![a-z])|[A-Z]?[a-z{_MARKS}]+|\d+|[^\W\dA-Za-z_](?:[^\W\dA-Z_]|[{_MARKS}])*")
_BORDER = re.compile(r"(?<=[^\W\d_])(?=\d)|(?<=\d)(?=[^\W\d_])")
_SLASH = re.compile(r"[/\\]")
_UUID = re.compile(r"[0-9A-Fa-f]{8}(?:-[0-9A-Fa-f]{4}){3}-[0-9A-Fa-f]{12}")
_MARK_AFTER_LATIN = re.compile("(?<=[a-z])[\u0300-\u036f]+")
_WORDS = re.compile(rf"[{UNSPACED}]|(?:[^\W{UNSPACED}]|[{_MARKS}])+(?:'[^\W{UNSPACED}]+)?")
_ASCII_WORDS = re.compile(r"\w+(?:'\w+)?")

# Latin letters that do not decompose, and look-alikes.
_FOLD = str.maketrans(
    {"ß": "ss", "æ": "ae", "œ": "oe", "ø": "o", "đ": "d", "ð": "d", "ħ": "h", "ı": "i", "ł": "l", "ŋ": "n", "þ": "th"}
)
_LOOKALIKE = str.maketrans({"’": "'", "ʼ": "'", "‐": "-", "‑": "-", "\u00ad": None, "\u2060": None, "\ufeff": None})


class _StemmerType(Protocol):
    def stemWord(self, word: str) -> str: ...  # noqa: N802 - PyStemmer's name


class _Stemmers(threading.local):
    """One stemmer per thread, since a PyStemmer object has state between calls."""

    def __init__(self) -> None:
        self.known: dict[str, _StemmerType] = {}

    def find(self, name: str) -> _StemmerType:
        """Return a stemmer; 0: without a cache of its own, since chunks are cached here."""
        stemmer = self.known.get(name)
        if stemmer is None:
            stemmer = self.known[name] = Stemmer.Stemmer(name, 0)
        return stemmer


class _Analyser(NamedTuple):
    """How the words of a language become terms."""

    stops: frozenset[str]  # folded
    stemmer: str  # empty: none
    folds_first: bool  # English stems what has no accents; other stemmers need them


_ENGLISH: Final = _Analyser(STOP_WORDS, "english", folds_first=True)
_stemmers = _Stemmers()
_chunks: dict[str, dict[str, tuple[str, ...]]] = {}
_hashes: dict[str, int] = {}


def make_well_formed(text: str) -> str:
    """Return text that UTF-8 can encode: half a surrogate pair, as in cut prompts, becomes U+FFFD."""
    return text if text.isascii() else text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")


@cache
def _find_analyser(language: str) -> _Analyser:
    if language in _LIKE_ENGLISH:
        return _ENGLISH
    stops = frozenset(fold_word(word) for word in list_stop_words(language))
    return _Analyser(stops, STEMMERS.get(language, ""), folds_first=False)


def tokenise(text: str, language: str = "en") -> list[str]:
    """Return the terms of `text` in reading order, repeats included.

    Words are lower-cased, folded to ASCII where Latin, and stemmed (Snowball, Porter 2001) by the rules of the
    language; stop words are dropped. A language without rules has no stop words and no stems, never those of English.
    An identifier, path, version or ticket gives several terms: the whole (lower-cased, cut at `MAX_TERM`), a path's
    file name, each compound word, and the stemmed parts between camelCase, snake_case and digit borders; parts are
    English in every language. Scripts without spaces give character bigrams. Any string takes linear time.

    Args:
        language: one of `helix.text.languages.CODES`.
    """
    terms: list[str] = []
    rules = find_rules(language)
    analyser, known = _find_analyser(rules), _chunks.setdefault(rules, {})
    for chunk in text.split():
        analysed = known.get(chunk)
        if analysed is None:
            analysed = tuple(_analyse(chunk, analyser))
            if len(chunk) <= _CACHED_CHUNK:
                if len(known) >= _CACHE_ENTRIES:
                    known.clear()
                known[chunk] = analysed
        terms += analysed
    return terms


def find_rules(language: str) -> str:
    """Return the language by whose rules words are stemmed; English where words of Latin letters mostly are."""
    if language in _LIKE_ENGLISH:
        return "en"
    return language if language in STEMMERS else "other"


def is_stop_word(word: str, language: str) -> bool:
    """Return whether a word of a language is no term."""
    return fold_word(word) in _find_analyser(language).stops


def split_words(text: str) -> list[str]:
    """Return plain lower-cased words in reading order, for shingles; a character of an unspaced script is a word."""
    if text.isascii():
        return _ASCII_WORDS.findall(text.lower())
    return _WORDS.findall(unicodedata.normalize("NFKC", text).translate(_LOOKALIKE).lower())


_PROJECT_WORD = re.compile(r"[^\W_]+")


def split_project_words(text: str) -> tuple[str, ...]:
    """Return the words of a project's name in a question: letters and digits, lower case."""
    return tuple(_PROJECT_WORD.findall(text.casefold()))


def hash_terms(terms: Sequence[str]) -> U64:
    """Return the store's term ids, uint64[len(terms)] (see the module's docstring)."""
    return np.fromiter(map(_hash, terms), dtype=np.uint64, count=len(terms))


def shorten_ids(terms: U64) -> U32:
    """Return the high halves of term ids, uint32: enough to match the few terms of one question."""
    return (terms >> np.uint64(32)).astype(np.uint32)


def _hash(term: str) -> int:
    number = _hashes.get(term)
    if number is None:
        # surrogatepass: a lone surrogate is a legal str, and a term id must be total.
        number = int.from_bytes(blake2b(term.encode("utf-8", "surrogatepass")).digest()[:8], "little")
        if len(_hashes) >= _CACHE_ENTRIES:
            _hashes.clear()
        _hashes[term] = number
    return number


def _analyse(chunk: str, analyser: _Analyser) -> Iterator[str]:
    """Yield the terms of a chunk without white space (NFKC may add some)."""
    if chunk.isascii():
        yield from _analyse_latin(chunk, analyser)
        return
    chunk = unicodedata.normalize("NFKC", chunk).translate(_LOOKALIKE)
    end = 0
    for run in _RUN.finditer(chunk):
        yield from _analyse_latin(chunk[end : run.start()], analyser)
        characters = run.group()
        if len(characters) == 1:
            yield characters
        for i in range(len(characters) - 1):
            yield characters[i : i + 2]
        end = run.end()
    yield from _analyse_latin(chunk[end:], analyser)


def _analyse_latin(chunk: str, analyser: _Analyser) -> Iterator[str]:
    for match in _TOKEN.finditer(chunk):
        # n't only follows auxiliaries: don't, can't, won't.
        if match["tail"] not in ("t", "T"):
            yield from _analyse_compound(match["core"], analyser)


def _analyse_compound(core: str, analyser: _Analyser) -> Iterator[str]:
    whole = fold_word(core)
    if whole in analyser.stops:
        return
    if _UUID.fullmatch(core):
        yield whole
        return
    pieces = [piece for piece in _CONNECTOR.split(core) if piece]
    if len(pieces) != 1 or pieces[0] != core:
        yield whole
        name = _SLASH.split(core[-MAX_TERM * 2 :])[-1]
        if name != core and "." in name:
            yield fold_word(name)
    for piece in pieces:
        yield from _analyse_word(piece, analyser)


def _analyse_word(word: str, analyser: _Analyser) -> Iterator[str]:
    """Yield the stem of a word without connectors, or the whole and the stems of its parts."""
    if word.isalpha() and (word[1:].islower() or word.isupper() or len(word) == 1):
        yield from _stem(word, analyser)
        return
    parts = _PART.findall(word)
    if parts == [word]:
        yield from _stem(word, analyser)
        return
    if parts:
        yield fold_word(word)
    if sum(1 for _ in _BORDER.finditer(word)) <= _MIXED_BORDERS:
        for part in parts:
            yield from _stem(part, _ENGLISH)


def _stem(part: str, analyser: _Analyser) -> Iterator[str]:
    folded = fold_word(part)
    if not folded or folded in analyser.stops:
        return
    if not analyser.stemmer or not folded.isalpha():
        yield folded
    elif analyser.folds_first:
        yield _stemmers.find(analyser.stemmer).stemWord(folded)
    else:
        whole = unicodedata.normalize("NFC", part[:MAX_TERM].lower())
        yield fold_word(_stemmers.find(analyser.stemmer).stemWord(whole))


def fold_word(text: str) -> str:
    """Return lower case, cut at MAX_TERM, without the accents of Latin letters; й stays different from и."""
    text = text[:MAX_TERM].lower()
    if text.isascii():
        return text
    bases = (unicodedata.normalize("NFD", c)[0] for c in text)
    plain = "".join(base if base.isascii() else c for base, c in zip(bases, text, strict=True))
    return _MARK_AFTER_LATIN.sub("", plain.translate(_FOLD))[:MAX_TERM]
