"""Quality of item types: labelled texts against the classifier of ingest, or labelled items against their store."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import orjson

from helix.encoders.dense import Encoder
from helix.encoders.dense_export import cache_encoder
from helix.encoders.registry import choose_encoder
from helix.enrich.type_model import classify_all
from helix.errors import InputRefused, UsageError
from helix.settings import Settings
from helix.snapshot.sql import run_statement
from helix.types import ROLES, TYPES
from pipelines.ingest.items import index_text
from pipelines.training.router import load_type_model

HALVES: Final = ("dev", "test")
"""Splits of the packaged texts: for work on the engine, and for measuring only."""

PACKAGED: Final = Path(__file__).parent / "data" / "types.jsonl"
"""Labelled texts written for this project."""

_REMEDY: Final = "see 'helix eval types --help'"


def evaluate_types(
    path: Path, settings: Settings, *, half: str = "all", store: Path | None = None, listed: bool = False
) -> dict[str, Any]:
    """Compare labels with the types found.

    Args:
        path: JSON lines with `type`, and `text` or, with a store, the id of an `item`. Of a text `role` (user),
            `origin`, `speaker` and `split` are optional.
        half: one of HALVES: only lines with this `split`; or `all`.
        store: has the labelled items. The types are those that its ingest gave them.
        listed: list the errors, too.

    Returns:
        `texts`, `accuracy`, `macro_f1` and `rows`: type → precision, recall, f1 and texts; also `errors` if listed.

    Raises:
        InputRefused: a line is no labelled text, no line has the split, or the store lacks an item.
        UsageError: there is no classifier.
        StoreError: there is no store at this path, or it is damaged.
        EncoderError: there is no encoder.
    """
    rows = [row for row in read_labelled(path, "item" if store else "text") if half in ("all", row.get("split"))]
    if not rows:
        raise InputRefused(f"{path} holds no text of the half {half!r}", "name another half, or none")
    labels = [row["type"] for row in rows]
    found = _read_types(rows, store) if store else _classify(rows, settings)
    report = rate_types(labels, found)
    if listed:
        wrong = (entry for entry in zip(rows, labels, found, strict=True) if entry[1] != entry[2])
        report["errors"] = [{"type": a, "found": b, "text": row.get("text", row.get("item"))} for row, a, b in wrong]
    return report


def read_labelled(path: Path, key: str = "text") -> list[dict[str, str]]:
    """Read labelled texts, each with its role and origin, or with the key `item` labelled ids of items.

    Raises:
        InputRefused: the file cannot be read, or a line lacks the key or a type.
    """
    try:
        return [_read_row(line, key) for line in path.read_bytes().splitlines() if line.strip()]
    except (OSError, ValueError) as error:
        raise InputRefused(f"{path} holds no labelled texts: {error}", _REMEDY) from None


def _read_row(line: bytes, key: str) -> dict[str, str]:
    row = orjson.loads(line)
    if not isinstance(row, dict) or not isinstance(row.get(key), str) or row.get("type") not in TYPES:
        article = "an item" if key == "item" else "a text"
        raise ValueError(f"{line[:60].decode(errors='replace')} lacks {article}, or a type of {', '.join(TYPES)}")
    role = row.get("role", "user")
    if role not in ROLES:
        raise ValueError(f"the role {role!r} is none of {', '.join(ROLES)}")
    return {"origin": "human" if role == "user" else role, **row, "role": role}


def _classify(rows: Sequence[Mapping[str, str]], settings: Settings) -> list[str]:
    """Return the types of texts, as ingest would find them."""
    encoder = Encoder(cache_encoder(choose_encoder(settings), Path(settings.cache).expanduser()))
    model = load_type_model(encoder, settings)
    if isinstance(model, str):
        raise UsageError(f"there is no classifier: {model}", "pip install 'helix-recall[workers]'")
    indexed = [index_text(row["origin"], row.get("speaker"), None, row["text"]) for row in rows]
    texts, roles, origins = ([row[name] for row in rows] for name in ("text", "role", "origin"))
    vectors = encoder.passages(indexed, settings.embed_batch)
    return [kind for kind, _ in classify_all(texts, roles, origins, vectors, model)]


def _read_types(rows: Sequence[Mapping[str, str]], store: Path) -> list[str]:
    """Return the types of labelled items in a store."""
    with run_statement(store, "SELECT id, type FROM items") as answer:
        known = dict(answer.rows)
    if missing := [row["item"] for row in rows if row["item"] not in known]:
        raise InputRefused(
            f"{store} lacks {len(missing)} of {len(rows)} labelled items, such as {missing[0]!r}",
            "ingest the logs they were labelled in, or name their store",
        )
    return [known[row["item"]] for row in rows]


def rate_types(labels: Sequence[str], found: Sequence[str]) -> dict[str, Any]:
    """Return the figures of `evaluate_types` for n labels and n types found."""
    pairs = list(zip(labels, found, strict=True))
    rows = {name: _rate(sum(a == b == name for a, b in pairs), labels.count(name), found.count(name)) for name in TYPES}
    return {
        "texts": len(pairs),
        "accuracy": sum(a == b for a, b in pairs) / len(pairs),
        "macro_f1": sum(row["f1"] for row in rows.values()) / len(rows),
        "rows": rows,
    }


def _rate(right: int, labelled: int, found: int) -> dict[str, float]:
    return {
        "precision": right / max(1, found),
        "recall": right / max(1, labelled),
        "f1": 2 * right / max(1, labelled + found),
        "texts": labelled,
    }
