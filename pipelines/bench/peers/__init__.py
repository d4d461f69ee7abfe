"""Other stores on the same items, each set up as its documentation recommends and tuned to the same dense recall.

One module a peer. The registry imports it, and with it the library, only when asked: `PEERS["lancedb"]()`.
"""

from __future__ import annotations

import json
import re
import shutil
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass
from functools import partial
from hashlib import sha256
from importlib import import_module
from importlib.metadata import version
from pathlib import Path
from typing import Any, Final, NamedTuple, Protocol

import numpy as np
import orjson

from helix.errors import UsageError
from helix.text.tokenize import STOP_WORDS
from helix.types import F32, I64

BATCH: Final = 50_000
"""Items fed at once: 75 MB of vectors."""

DIM: Final = 384

_COMPLETE: Final = "complete.json"
_INDEX: Final = "index"
_PROBE: Final = 100  # items whose text and vectors tell one corpus from another
_WORD = re.compile(r"\w+")


@dataclass(frozen=True, slots=True)
class Corpus:
    """Items 0 … n-1, read in slices. A slice's end is at most `n`."""

    n: int
    vectors: Callable[[int, int], F32]  # (start, stop) -> float32[m, 384], unit length
    texts: Callable[[int, int], list[str]]
    project: Callable[[int, int], list[str]]


class Searcher(Protocol):
    """A peer's index, opened. Ids are int, best first, at most k."""

    def hybrid(self, vector: F32, text: str, k: int, project: str | None = None) -> list[int]:
        """The peer's own hybrid search for float32[384] and any text, in one project or in all.

        A peer without a lexical leg (`Peer.hybrid` is false) ignores the text; one that cannot filter first
        (`Peer.filters` is false) raises UsageError for a project.
        """

    def dense(self, vector: F32, k: int) -> list[int]:
        """The vector leg of `hybrid` alone."""

    def set_effort(self, effort: int) -> None:
        """How much of the index the vector leg looks at: one of `Peer.efforts`."""

    def close(self) -> None: ...


@dataclass(frozen=True, slots=True)
class Peer:
    """A peer as the report names it, and its two doors."""

    name: str
    packages: tuple[str, ...]  # the library first
    configured: str  # one line
    fuses: str  # how the two legs become one ranking
    lacks: str  # of what a whole recall does
    knob: str  # what an effort is
    efforts: tuple[int, ...]  # ascending; one alone where search is exact
    index: Callable[[Corpus, Path, Callable[[str], None]], None]  # writes into a new folder
    reader: Callable[[Path], Searcher]
    hybrid: bool = True  # False: no lexical leg
    filters: bool = True  # False: no filter before the search as configured
    most_items: int | None = None  # its documentation advises against more

    def versions(self) -> dict[str, str]:
        """Installed version of each package."""
        return {package: version(package) for package in self.packages}

    def build(self, corpus: Corpus, folder: Path, say: Callable[[str], None]) -> dict[str, Any]:
        """Write the index below `folder`, unless a complete one of the same items, versions and set-up is there.

        Returns:
            {"seconds", "bytes", "items", "versions"}; `seconds` is what the building took when it was done.

        Raises:
            UsageError: more items than `most_items`, or none.
        """
        if not 0 < corpus.n <= (self.most_items or corpus.n):
            most = f"1 to {self.most_items:,}" if self.most_items else "at least 1"
            raise UsageError(f"{self.name} was given {corpus.n:,} items", f"give it {most}")
        made = {
            "peer": self.name,
            "items": corpus.n,
            "corpus": _digest(corpus),
            "versions": self.versions(),
            "configured": self.configured,
        }
        marker = folder / _COMPLETE
        if marker.exists():
            found: dict[str, Any] = json.loads(marker.read_bytes())
            if made.items() <= found.items():
                say(f"{self.name}: {corpus.n:,} items are there")
                return _told(found)
            marker.unlink()
        shutil.rmtree(folder / _INDEX, ignore_errors=True)
        (folder / _INDEX).mkdir(parents=True)
        say(f"{self.name}: building an index of {corpus.n:,} items")
        started = time.perf_counter()
        self.index(corpus, folder / _INDEX, say)
        seconds = time.perf_counter() - started
        size = sum(path.stat().st_size for path in (folder / _INDEX).rglob("*") if path.is_file())
        say(f"{self.name}: {seconds:.0f} s, {size / 1e6:.0f} MB")
        done = {**made, "seconds": seconds, "bytes": size}
        marker.write_bytes(orjson.dumps(done))
        return _told(done)

    def open(self, folder: Path) -> Searcher:
        """The index that `build` wrote.

        Raises:
            UsageError: `folder` holds no complete index.
        """
        if not (folder / _COMPLETE).exists():
            raise UsageError(f"no complete index of {self.name} in {folder}", "build it first")
        return self.reader(folder / _INDEX)

    def described(self) -> dict[str, Any]:
        """What the report says of it beside figures: plain values."""
        told = {key: value for key, value in asdict(self).items() if not callable(value)}
        return {**told, "versions": self.versions()}


def _told(done: dict[str, Any]) -> dict[str, Any]:
    return {key: done[key] for key in ("seconds", "bytes", "items", "versions")}


def _digest(corpus: Corpus) -> str:
    """Of the first items and the last: another corpus of the same size is built anew."""
    found = sha256()
    for start, stop in sorted({(0, min(_PROBE, corpus.n)), (max(0, corpus.n - _PROBE), corpus.n)}):
        found = sha256(found.digest() + corpus.vectors(start, stop).tobytes())
        found.update("\0".join([*corpus.texts(start, stop), *corpus.project(start, stop)]).encode())
    return found.hexdigest()


def slices(n: int, size: int = BATCH) -> Iterator[tuple[int, int]]:
    """(start, stop) of each batch of n items."""
    return ((start, min(start + size, n)) for start in range(0, n, size))


def content_words(text: str) -> list[str]:
    """Lower-cased words of a question without English stop words, for peers that leave both to the caller."""
    return [word for word in _WORD.findall(text.lower()) if word not in STOP_WORDS]


ENOUGH: Final = 0.99
"""Dense recall above which more is not asked of a peer."""


class Tuned(NamedTuple):
    effort: int
    recall: float  # dense recall@k against exact search, 0 … 1


def tune(searcher: Searcher, efforts: Sequence[int], questions: F32, exact: I64, wanted: float = ENOUGH) -> Tuned:
    """Set the least effort whose dense recall@k reaches `wanted`, else the one that comes nearest.

    Args:
        searcher: open index; left at the effort returned.
        efforts: `Peer.efforts`, ascending.
        questions: float32[q, 384], unit length.
        exact: int64[q, k], ids of the k nearest items by exact search.
        wanted: recall@k to reach, 0 … 1.
    """
    best = Tuned(efforts[0], -1.0)
    for effort in efforts:
        searcher.set_effort(effort)
        found = [searcher.dense(vector, exact.shape[1]) for vector in questions]
        hits = [len(np.intersect1d(ids, row)) for ids, row in zip(found, exact, strict=True)]
        recall = sum(hits) / exact.size
        if recall > best.recall:
            best = Tuned(effort, recall)
        if recall >= wanted:
            break
    searcher.set_effort(best.effort)
    return best


def _load(name: str) -> Peer:
    try:
        peer: Peer = import_module(f"pipelines.bench.peers.{name}").PEER
    except ModuleNotFoundError as error:
        raise UsageError(
            f"the peer {name} needs the package {error.name}", "pip install 'helix-recall[bench]'"
        ) from error
    return peer


PEERS: Final[dict[str, Callable[[], Peer]]] = {
    name: partial(_load, name) for name in ("lancedb", "txtai", "chroma", "qdrant", "sqlite")
}
"""Each loads its peer. Raises UsageError where a package is missing."""
