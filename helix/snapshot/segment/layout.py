"""The layout of a segment: dtype and shape of every array, names and types of every Arrow file, as in FORMAT.md.

Sizes: n rows, d dimensions, s sessions, t terms, p postings, w words, q titles, m mentions, e entities, l links,
f facts, ft and fp terms and postings of facts, a steps, k keys of steps, b distinct words, c bytes and v variants of
them. A third entry bounds an array's numbers: they are positions below that size, which is checked when a segment is
opened. The largest array, terms.rows, is checked by its readers.
"""

from __future__ import annotations

from typing import Any, Final

import numpy as np
import pyarrow as pa

from helix.snapshot.checked_arrays import ArrayKind
from helix.snapshot.segment.arrays import BANDS
from helix.snapshot.segment.batch import LINKS
from helix.text.claims import CLAIMS, FORMER
from helix.text.languages import CODES
from helix.types import TYPES

ARRAYS: Final = {
    "vectors.f16": ArrayKind(np.float16, ("n", "d")),
    "vectors.i8": ArrayKind(np.int8, ("n", "d")),
    "vectors.scale": ArrayKind(np.float32, ("n",)),
    "vectors.sum": ArrayKind(np.float64, (len(TYPES) + 1, "d")),
    "minhash": ArrayKind(np.uint32, ("n", 64)),
    "bands.key": ArrayKind(np.uint32, (BANDS, "n")),
    "bands.row": ArrayKind(np.uint32, (BANDS, "n")),  # too many to check with each commit: `select_alive` does
    "ids.key": ArrayKind(np.uint64, ("n",)),
    "ids.row": ArrayKind(np.uint32, ("n",), "n"),
    "sessions.key": ArrayKind(np.uint64, ("s",)),
    "sessions.indptr": ArrayKind(np.int64, ("s + 1",)),
    "sessions.rows": ArrayKind(np.uint32, ("n",), "n"),
    "terms.key": ArrayKind(np.uint64, ("t",)),
    "terms.indptr": ArrayKind(np.int64, ("t + 1",)),
    "terms.rows": ArrayKind(np.uint32, ("p",)),
    "terms.tf": ArrayKind(np.uint16, ("p",)),
    "order.indptr": ArrayKind(np.int64, ("n + 1",)),
    "order.term": ArrayKind(np.uint32, ("w",)),
    "cues": ArrayKind(np.uint8, ("n",)),
    "language": ArrayKind(np.uint8, ("n",), len(CODES)),
    "claims": ArrayKind(np.uint8, ("n", len(CLAIMS))),
    "alters": ArrayKind(np.uint8, ("n",)),
    "former": ArrayKind(np.uint32, ("n", FORMER)),
    "titles.key": ArrayKind(np.uint64, ("q",)),
    "titles.row": ArrayKind(np.uint32, ("q",), "n"),
    "mentions.indptr": ArrayKind(np.int64, ("n + 1",)),
    "mentions.entity": ArrayKind(np.uint64, ("m",)),
    "mentioned.key": ArrayKind(np.uint64, ("e",)),
    "mentioned.indptr": ArrayKind(np.int64, ("e + 1",)),
    "mentioned.rows": ArrayKind(np.uint32, ("m",), "n"),
    "links.indptr": ArrayKind(np.int64, ("n + 1",)),
    "links.key": ArrayKind(np.uint64, ("l",)),
    "links.kind": ArrayKind(np.uint8, ("l",), len(LINKS)),
    "linked.key": ArrayKind(np.uint64, ("l",)),
    "linked.row": ArrayKind(np.uint32, ("l",), "n"),
    "linked.kind": ArrayKind(np.uint8, ("l",), len(LINKS)),
    "facts.key": ArrayKind(np.uint64, ("f",)),
    "facts.i8": ArrayKind(np.int8, ("f", "d")),
    "facts.scale": ArrayKind(np.float32, ("f",)),
    "facts.length": ArrayKind(np.uint32, ("f",)),
    "facts.terms.key": ArrayKind(np.uint64, ("ft",)),
    "facts.terms.indptr": ArrayKind(np.int64, ("ft + 1",)),
    "facts.terms.rows": ArrayKind(np.uint32, ("fp",), "f"),
    "facts.terms.tf": ArrayKind(np.uint16, ("fp",)),
    "words.text": ArrayKind(np.uint8, ("c",)),
    "words.indptr": ArrayKind(np.int64, ("b + 1",)),
    "words.term": ArrayKind(np.uint64, ("b",)),
    "words.key": ArrayKind(np.uint32, ("v",)),
    "words.word": ArrayKind(np.uint32, ("v",), "b"),
    "steps.key": ArrayKind(np.uint64, ("k",)),
    "steps.step": ArrayKind(np.uint32, ("k",), "a"),
}

OFFSETS: Final = {
    "sessions.indptr": "sessions.rows",
    "terms.indptr": "terms.rows",
    "order.indptr": "order.term",
    "mentions.indptr": "mentions.entity",
    "mentioned.indptr": "mentioned.rows",
    "links.indptr": "links.key",
    "facts.terms.indptr": "facts.terms.rows",
    "words.indptr": "words.text",
}
"""Arrays of offsets, each with the array it spans completely."""

OPTIONAL: Final = frozenset(
    name
    for name in ARRAYS
    if name.startswith(("order.", "titles.", "links.", "linked.", "facts.", "steps.", "words."))
    or name in ("vectors.f16", "cues", "language", "claims", "alters", "former")
)
"""Arrays a segment may lack: vectors in half precision, if the lineage stores none; links, in format 2; the index
of its facts, if none has a vector; steps or words, if it has none; term order, cues, language, claims, alters, former,
titles, if an earlier release wrote it."""

LENGTHS: Final = {"links.indptr": 1, "order.indptr": 1, "cues": 0, "language": 0, "claims": 0, "alters": 0, "former": 0}
"""Arrays that are all zero if missing, and how much longer than the number of rows each is."""

_name = pa.dictionary(pa.int32(), pa.string())
_time = pa.timestamp("s", tz="UTC")

COLUMNS: Final = pa.schema(
    [
        *((name, pa.uint64()) for name in ("key", "content", "near")),
        *((name, pa.int64()) for name in ("accepted", "time", "t_valid", "t_invalid", "t_ingested")),
        *((name, pa.float32()) for name in ("salience", "confidence", "priority")),
        *((name, pa.uint8()) for name in ("type", "role")),
        *((name, pa.uint32()) for name in ("tokens", "length", "ord")),
        ("session", pa.uint64()),
        ("project", _name),
        ("workspace", _name),
        ("speaker", _name),
        ("acl", pa.list_(pa.string())),
    ]
)
"""columns.arrow."""

TEXT: Final = pa.schema(
    [
        *((name, pa.string()) for name in ("id", "text", "session")),
        ("turns", pa.list_(pa.string())),
        ("speaker", pa.string()),
        ("time", _time),
        *((name, pa.string()) for name in ("project", "path", "title", "vouched")),
        ("salience_parts", pa.map_(pa.string(), pa.float32())),
        ("time_quality", pa.string()),
    ]
)
"""text.arrow."""

LATER: Final = ("vouched", "salience_parts", "time_quality")
"""Columns of text.arrow that an earlier release lacks: the first two in format 2."""

WORKSPACE: Final = "workspace"  # column of columns.arrow that a segment of an earlier release lacks

FACT_NUMBERS: Final = pa.schema(
    [
        ("row", pa.uint32()),
        *((name, pa.uint64()) for name in ("object", "group", "family", "subject_entity", "object_entity")),
        *((name, pa.int64()) for name in ("t_valid", "until", "t_ingested")),
        ("confidence", pa.float32()),
        ("functional", pa.uint8()),
        ("closes", pa.uint8()),
    ]
)
"""facts.arrow."""

NO_NUMBER: Final = -(1 << 31)
"""An unknown number of a step."""

STEP_COLUMNS: Final = pa.schema(
    [
        ("row", pa.uint32()),
        ("pair", pa.uint64()),
        ("action", pa.uint8()),
        ("outcome", pa.uint8()),
        *((name, pa.int32()) for name in ("exit_code", "tests_passed", "tests_failed")),
        *((name, pa.string()) for name in ("tool", "target", "error")),
        ("commits", pa.list_(pa.string())),
    ]
)
"""steps.arrow."""

FACT_TEXT: Final = pa.schema(
    [*((name, pa.string()) for name in ("subject", "relation", "object", "qualifier")), ("closes", pa.bool_())]
)
"""facts.text.arrow: the words of a fact's sentence."""


def make_missing(name: str, rows: int) -> np.ndarray[Any, Any]:
    """Return a substitute for an optional array that a segment of `rows` rows lacks."""
    columns = tuple(int(axis) for axis in ARRAYS[name].shape[1:] if isinstance(axis, int)) if name in LENGTHS else ()
    return np.zeros((rows + LENGTHS[name] if name in LENGTHS else 0, *columns), ARRAYS[name].dtype)


OF_MEANING: Final = ("vectors.f16", "vectors.i8", "vectors.scale", "vectors.sum", "facts.i8", "facts.scale", "minhash")
"""Arrays that a recall by words alone does without; see `make_absent`."""


def make_absent(name: str, sizes: dict[str, int]) -> np.ndarray[Any, Any]:
    """Return a substitute for an array that has not arrived: it takes no memory until it is read.

    Vectors are zero, so nothing is similar; signatures differ from each other, so nothing is a near-duplicate.
    """
    kind = ARRAYS[name]
    shape = tuple(sizes[axis] if isinstance(axis, str) else axis for axis in kind.shape)
    if name == "minhash":
        return np.broadcast_to(np.arange(shape[0], dtype=kind.dtype)[:, None], shape)
    return np.zeros(shape, kind.dtype)
