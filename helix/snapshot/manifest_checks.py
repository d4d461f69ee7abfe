"""Bounds of a manifest's fields, checked before any file that it names is opened.

A manifest's name is its digest, which reveals accidental damage. A forged manifest has the right name. So names that
become paths, numbers that become sizes and lists that become loops are checked here.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from datetime import datetime
from typing import Any, Final

from helix.snapshot.paths import OWNED

SEGMENTS: Final = 10_000  # of a generation; compaction keeps them below a hundred
INDEXES: Final = 10 * SEGMENTS
FILES: Final = 100 * SEGMENTS
ROWS: Final = (1 << 32) - 1  # of a generation: they are numbered in 32 bits
DIM: Final = 1 << 16
_NUMBER: Final = (1 << 63) - 1
_ONE_SEGMENT: Final = ("dense", "doc2query", "sparse", "tokens")  # kinds of index that cover exactly one segment
_COUNTED: Final = ("items", "facts", "of")  # numeric fields of a coverage

_NAME = re.compile(r"[0-9A-Za-z][0-9A-Za-z_.:+-]{0,127}")
_PATH = re.compile(rf"({'|'.join(OWNED)})(/[0-9A-Za-z_][0-9A-Za-z_.+-]{{0,127}}){{1,4}}")
_SHA256 = re.compile(r"[0-9a-f]{64}")
_VECTORS = re.compile(r"(int8|binary|prefix:[0-9]{1,5})(\+float)?")


class OutOfBounds(ValueError):
    """A field of a manifest is outside its bounds."""


def check_manifest(raw: Any) -> None:
    """Check every field of a parsed manifest.

    Raises:
        OutOfBounds: a field is outside its bounds; the message names it.
        KeyError: the named field is missing.
    """
    if not isinstance(raw, dict):
        raise OutOfBounds("it is no JSON object")
    _check_number("generation", raw["generation"], least=1)
    if raw["parent"] is not None:
        _check_text("parent", raw["parent"], _NAME)
    _check_time("created", raw["created"])
    _check_number("token", raw["token"])
    for name in ("reader_flags", "writer_flags"):
        for flag in _check_list(name, raw[name], 100):
            _check_text(name, flag, _NAME)
    _check_lineage(raw["lineage"])
    rows = _check_segments(raw["segments"])
    _check_deletes(raw["deletes"], rows)
    _check_indexes(raw["indexes"], rows)
    for name, folder in (("documents", "documents"), ("encoder", "encoders")):
        for file in _check_list(name, raw[name], FILES):
            _check_file(name, file, f"{folder}/")
    for name in ("forgotten", "access"):
        if raw[name] is not None:
            _check_file(name, raw[name], f"{name}/")
    counts = _check_object("counts", raw["counts"])
    for name in ("items", "sessions", "documents"):
        _check_number(f"counts.{name}", counts[name])
    for name in ("coverage", "watermarks"):
        for key, value in _check_object(name, raw.get(name) or {}).items():
            if len(key) > 200:
                raise OutOfBounds(f"{name} has a key of {len(key)} characters")
            for within, number in _check_object(f"{name}.{key[:40]}", value).items():
                if name == "watermarks" or within in _COUNTED:
                    _check_number(f"{name}.{key[:40]}.{within[:80]}", number)


def _check_lineage(raw: Any) -> None:
    lineage = _check_object("lineage", raw)
    _check_text("lineage.encoder", lineage["encoder"], _NAME)
    _check_text("lineage.pipeline", lineage["pipeline"], _NAME)
    _check_number("lineage.dim", lineage["dim"], least=1, most=DIM)
    if not isinstance(lineage["name"], str) or len(lineage["name"]) > 1_000:
        raise OutOfBounds("lineage.name is no short text")
    _check_text("lineage.vectors", lineage.get("vectors", "int8"), _VECTORS)


def _check_segments(raw: Any) -> dict[str, int]:
    """Check the segments. Return rows by id."""
    rows: dict[str, int] = {}
    for segment in _check_list("segments", raw, SEGMENTS):
        identity = _check_text("segments.id", _check_object("segments", segment)["id"], _NAME)
        if identity in rows:
            raise OutOfBounds(f"the segment {identity} is named twice")
        rows[identity] = _check_number(f"rows of segment {identity}", segment["rows"], most=ROWS)
        files = _check_list(f"files of segment {identity}", segment["files"], 1_000)
        for file in files:
            _check_file(f"files of segment {identity}", file, f"segments/{identity}/")
        if not any(file["path"].endswith("/columns.arrow") for file in files):
            raise OutOfBounds(f"files of segment {identity} do not name its columns")
    if sum(rows.values()) > ROWS:
        raise OutOfBounds(f"{sum(rows.values())} rows are more than {ROWS}")
    return rows


def _check_deletes(raw: Any, rows: Mapping[str, int]) -> None:
    seen: set[str] = set()
    for entry in _check_list("deletes", raw, SEGMENTS):
        segment = _check_object("deletes", entry)["segment"]
        if segment not in rows or segment in seen:
            raise OutOfBounds(f"deletes name the segment {str(segment)[:80]!r}, which is none of them or named twice")
        seen.add(segment)
        _check_number(f"deleted rows of segment {segment}", entry["rows"], most=rows[segment])
        _check_file("deletes.file", entry["file"], "deletes/")


def _check_indexes(raw: Any, rows: Mapping[str, int]) -> None:
    for index in _check_list("indexes", raw, INDEXES):
        identity = _check_text("indexes.id", _check_object("indexes", index)["id"], _NAME)
        kind = _check_text(f"kind of index {identity}", index["kind"], _NAME)
        covers = _check_list(f"covers of index {identity}", index["covers"], SEGMENTS)
        if unknown := [segment for segment in covers if segment not in rows]:
            raise OutOfBounds(f"the index {identity} covers {str(unknown[0])[:80]!r}, which is no segment")
        if kind in _ONE_SEGMENT and len(covers) != 1:
            raise OutOfBounds(f"the index {identity} of kind {kind} covers {len(covers)} segments instead of one")
        _check_object(f"params of index {identity}", index.get("params", {}))
        for file in _check_list(f"files of index {identity}", index["files"], 1_000):
            _check_file(f"files of index {identity}", file, f"indexes/{identity}/")


def _check_file(name: str, raw: Any, within: str) -> None:
    file = _check_object(name, raw)
    path = file["path"]
    if not (isinstance(path, str) and path.startswith(within) and _PATH.fullmatch(path)):
        raise OutOfBounds(f"{name} name {str(path)[:80]!r}, which is no path within {within}")
    if type(file["bytes"]) is not int or not 0 <= file["bytes"] <= _NUMBER:
        raise OutOfBounds(f"{path} has {str(file['bytes'])[:40]!r} for its size")
    if not (isinstance(file["sha256"], str) and _SHA256.fullmatch(file["sha256"])):
        raise OutOfBounds(f"{path} has no SHA-256")
    _check_number(f"rows of {path}", file.get("rows", 0))


def _check_text(name: str, value: Any, shape: re.Pattern[str]) -> str:
    if not (isinstance(value, str) and shape.fullmatch(value)):
        raise OutOfBounds(f"{name} is {str(value)[:80]!r}")
    return value


def _check_number(name: str, value: Any, *, least: int = 0, most: int = _NUMBER) -> int:
    if type(value) is not int or not least <= value <= most:  # bool is an int, too
        raise OutOfBounds(f"{name} is {str(value)[:40]!r}, not a number from {least} to {most}")
    return value


def _check_time(name: str, value: Any) -> None:
    try:
        datetime.fromisoformat(value)
    except (TypeError, ValueError):
        raise OutOfBounds(f"{name} is {str(value)[:40]!r}, no time in ISO 8601") from None


def _check_list(name: str, value: Any, most: int) -> list[Any]:
    if not isinstance(value, list) or len(value) > most:
        size = f"{len(value)} entries" if isinstance(value, list) else repr(value)[:40]
        raise OutOfBounds(f"{name} holds {size}, where a list of at most {most} belongs")
    return value


def _check_object(name: str, value: Any) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise OutOfBounds(f"{name} is {str(value)[:40]!r}, no JSON object")
    return value
