"""Other stores on the same items, each set up as its documentation recommends and tuned to the same dense recall."""

from __future__ import annotations

import json
import re
import shutil
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass
from hashlib import sha256
from importlib.metadata import version
from pathlib import Path
from typing import Any, Final, NamedTuple, Protocol

import numpy as np
import orjson

from helix.errors import UsageError
from helix.text.tokenize import STOP_WORDS
from helix.types import F32, I64
from helix.util.wordlists import read_toml

BATCH: Final = 50_000
"""Items fed at once: 75 MB of vectors."""

DIM: Final = 384
_COMPLETE: Final = "complete.json"
_INDEX: Final = "index"
_PROBE: Final = 100  # items at either end whose text and vectors identify a corpus
_BUILD: Final = ("seconds", "bytes", "items", "versions")
_WORD = re.compile(r"\w+")


@dataclass(frozen=True, slots=True)
class Corpus:
    """Items 0 … n-1, in slices that end at `n` at most."""

    n: int
    vectors: Callable[[int, int], F32]  # (start, stop) -> float32[m, 384], unit length
    texts: Callable[[int, int], list[str]]
    project: Callable[[int, int], list[str]]


class Searcher(Protocol):
    """An open index of a peer. Ids are int, best first, at most k."""

    def hybrid(self, vector: F32, text: str, k: int, project: str | None = None) -> list[int]:
        """Search by the peer's own hybrid search for float32[384] and any text, in one project or in all.

        A peer without a lexical leg (`Peer.hybrid` is false) ignores the text; one that cannot filter first
        (`Peer.filters` is false) raises UsageError for a project.
        """

    def dense(self, vector: F32, k: int) -> list[int]:
        """Search by the vector leg of `hybrid` alone."""

    def set_effort(self, effort: int) -> None:
        """Set how much of the index the vector leg searches: one of `Peer.efforts`."""

    def close(self) -> None:
        """Free the index."""


@dataclass(frozen=True, slots=True)
class Peer:
    """A peer: its description in the report, and how to build and open its index."""

    name: str
    packages: tuple[str, ...]  # the library first
    configured: str  # one line
    fuses: str  # how the two legs become one ranking
    lacks: str  # parts of a whole recall
    knob: str  # meaning of an effort
    efforts: tuple[int, ...]  # ascending; only one for exact search
    index: Callable[[Corpus, Path, Callable[[str], None]], None]  # writes into a new folder
    reader: Callable[[Path], Searcher]
    hybrid: bool = True  # False: no lexical leg
    filters: bool = True  # False: as configured, no filter before the search
    most_items: int | None = None  # its documentation advises against more

    def versions(self) -> dict[str, str]:
        """Return the installed version of each package."""
        return {package: version(package) for package in self.packages}

    def build(self, corpus: Corpus, folder: Path, say: Callable[[str], None]) -> dict[str, Any]:
        """Write the index below `folder`, unless it has a complete one of the same items, versions and set-up.

        Return {"seconds", "bytes", "items", "versions"}; `seconds` is the time of the original build.

        Raises:
            UsageError: no items, or more than `most_items`.
        """
        if not 0 < corpus.n <= (self.most_items or corpus.n):
            most = f"1 to {self.most_items:,}" if self.most_items else "at least 1"
            raise UsageError(f"{self.name} was given {corpus.n:,} items", f"give it {most}")
        identity = {
            "peer": self.name,
            "items": corpus.n,
            "corpus": _digest_corpus(corpus),
            "versions": self.versions(),
            "configured": self.configured,
        }
        marker = folder / _COMPLETE
        if marker.exists():
            built: dict[str, Any] = json.loads(marker.read_bytes())
            if identity.items() <= built.items():
                say(f"{self.name}: {corpus.n:,} items exist")
                return {name: built[name] for name in _BUILD}
            marker.unlink()
        shutil.rmtree(folder / _INDEX, ignore_errors=True)
        (folder / _INDEX).mkdir(parents=True)
        say(f"{self.name}: building an index of {corpus.n:,} items")
        started = time.perf_counter()
        self.index(corpus, folder / _INDEX, say)
        seconds = time.perf_counter() - started
        size = sum(path.stat().st_size for path in (folder / _INDEX).rglob("*") if path.is_file())
        say(f"{self.name}: {seconds:.0f} s, {size / 1e6:.0f} MB")
        built = {**identity, "seconds": seconds, "bytes": size}
        marker.write_bytes(orjson.dumps(built))
        return {name: built[name] for name in _BUILD}

    def open(self, folder: Path) -> Searcher:
        """Open the index of `build`. Raises UsageError if `folder` has no complete index."""
        if not (folder / _COMPLETE).exists():
            raise UsageError(f"no complete index of {self.name} in {folder}", "build it first")
        return self.reader(folder / _INDEX)

    def describe(self) -> dict[str, Any]:
        """Return its description in the report: plain values."""
        values = {key: value for key, value in asdict(self).items() if not callable(value)}
        return {**values, "versions": self.versions()}


def make_peer(name: str, index: Callable[..., None], reader: Callable[[Path], Searcher]) -> Peer:
    """Return a peer with its entry in `data/peers.toml`."""
    entry = read_toml("pipelines.bench", "peers")[name]
    values: dict[str, Any] = {key: tuple(value) if isinstance(value, list) else value for key, value in entry.items()}
    return Peer(name, index=index, reader=reader, **values)


def _digest_corpus(corpus: Corpus) -> str:
    """Return a digest of the first and the last items, which detects another corpus of the same size."""
    digest = sha256()
    for start, stop in sorted({(0, min(_PROBE, corpus.n)), (max(0, corpus.n - _PROBE), corpus.n)}):
        digest = sha256(digest.digest() + corpus.vectors(start, stop).tobytes())
        digest.update("\0".join([*corpus.texts(start, stop), *corpus.project(start, stop)]).encode())
    return digest.hexdigest()


def split_items(n: int, size: int = BATCH) -> Iterator[tuple[int, int]]:
    """Yield (start, stop) of each batch of n items."""
    return ((start, min(start + size, n)) for start in range(0, n, size))


def list_content_words(text: str) -> list[str]:
    """Return lower-cased words without English stop words, for peers that leave both to the caller."""
    return [word for word in _WORD.findall(text.lower()) if word not in STOP_WORDS]


ENOUGH: Final = 0.99
"""Dense recall beyond which no peer is tuned."""


class Tuning(NamedTuple):
    """An effort, and its recall."""

    effort: int
    recall: float  # dense recall@k against exact search, 0 … 1


def tune(searcher: Searcher, efforts: Sequence[int], questions: F32, exact: I64, wanted: float = ENOUGH) -> Tuning:
    """Set the least effort with a dense recall@k of at least `wanted` (0 … 1), else the best one.

    Args:
        efforts: `Peer.efforts`, ascending.
        questions: float32[q, 384], unit length.
        exact: int64[q, k], ids of the k nearest items by exact search.
    """
    best = Tuning(efforts[0], -1.0)
    for effort in efforts:
        searcher.set_effort(effort)
        answers = [searcher.dense(vector, exact.shape[1]) for vector in questions]
        hits = [len(np.intersect1d(ids, row)) for ids, row in zip(answers, exact, strict=True)]
        recall = sum(hits) / exact.size
        if recall > best.recall:
            best = Tuning(effort, recall)
        if recall >= wanted:
            break
    searcher.set_effort(best.effort)
    return best
