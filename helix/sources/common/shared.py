"""What several adapters need: times, names, JSON lines."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime, timedelta
from typing import Any, Final

import orjson

from helix.types import Problem

TITLE_CHARS: Final = 80

_DAY_IN_NAME: Final = re.compile(
    r"(?<!\d)(?P<day>\d{4}-\d{2}-\d{2})(?:[T_ ](?P<hour>\d{2})[-:.](?P<minute>\d{2})(?:[-:.](?P<second>\d{2}))?(?!\d))?"
)
_ISO: Final = re.compile(r"\d{4}-?\d{2}-?\d{2}(?:[T ].*)?", re.DOTALL)
_UUID: Final = re.compile(r"[0-9a-fA-F]{8}-(?:[0-9a-fA-F]{4}-){3}[0-9a-fA-F]{12}")
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_MS_FROM: Final = 1e11  # larger numbers are milliseconds: as seconds they would lie after the year 5000


def parse_iso(value: str) -> datetime | None:
    """An ISO 8601 date or time as aware UTC; a naive one is taken as UTC. None: it is not one."""
    value = value.strip()
    if not _ISO.fullmatch(value):  # fromisoformat also reads week dates, which here would be a misreading
        return None
    try:
        parsed = datetime.fromisoformat(value)
        return parsed.replace(tzinfo=UTC) if parsed.tzinfo is None else parsed.astimezone(UTC)
    except (ValueError, OverflowError):
        return None


def is_date_only(value: str) -> bool:
    """Whether an ISO 8601 value gives a day without a time."""
    return len(value.strip()) <= len("2026-05-04")


def parse_epoch(value: float) -> datetime | None:
    """Seconds or milliseconds since 1970 as aware UTC. None: out of range."""
    seconds = value / 1000 if abs(value) >= _MS_FROM else value
    try:
        return _EPOCH + timedelta(seconds=seconds)
    except (ValueError, OverflowError):
        return None


def date_in_name(path: str) -> datetime | None:
    """The date, with its time where one follows, that a file name carries: `2026-05-04 standup.vtt`. UTC."""
    for match in _DAY_IN_NAME.finditer(file_name(path)):
        clock = f"T{match['hour']}:{match['minute']}:{match['second'] or '00'}" if match["hour"] else ""
        found = parse_iso(match["day"] + clock) or parse_iso(match["day"])
        if found:
            return found
    return None


def file_name(path: str) -> str:
    """Last component of a path of either kind."""
    return re.split(r"[/\\]", path.rstrip("/\\"))[-1]


def file_stem(path: str) -> str:
    """File name without its last suffix."""
    name = file_name(path)
    return name.rsplit(".", 1)[0] or name or "input"


def session_of_path(path: str) -> str:
    """A session id for a source that names none: readable, and the same each time the same path is read."""
    return f"{file_stem(path)}-{hashlib.sha256(path.encode('utf-8', 'surrogatepass')).hexdigest()[:8]}"


def string(raw: Mapping[str, Any], name: str) -> str | None:
    """A field that is a text with something in it; None for anything else."""
    value = raw.get(name)
    return value if isinstance(value, str) and value else None


def folder_name(cwd: str) -> str | None:
    """Last component of a working folder, POSIX or Windows: the project. None for a root."""
    name = file_name(cwd)
    return None if not name or re.fullmatch(r"[A-Za-z]:", name) else name


def is_uuid(name: str | None) -> bool:
    """Whether an id is unique across sessions: a copy of it elsewhere is the same turn."""
    return name is not None and _UUID.fullmatch(name) is not None


def one_line(text: str, limit: int) -> str:
    """White space folded, at most `limit` characters."""
    line = " ".join(text[: limit * 20].split())
    return line if len(line) <= limit else line[: limit - 1].rstrip() + "…"


def unique(name: str, taken: dict[str, int]) -> str:
    """`name`, or `name-2`, `name-3`, …; the result is added to `taken`, whose values are the last number tried."""
    found, number = name, taken.get(name, 0)
    while found in taken:
        number += 1
        found = f"{name}-{number + 1}"
    if number:
        taken[name] = number
    taken[found] = 0
    return found


def lines_of(text: str) -> Iterator[tuple[int, str]]:
    """Numbered lines. Only a line feed ends one: U+2028 and form feeds are legal inside a JSON string."""
    start, number = 0, 0
    while start <= len(text):
        end = text.find("\n", start)
        end = len(text) if end < 0 else end
        number += 1
        yield number, text[start:end]
        start = end + 1


def load_json(line: str) -> Any:
    """One JSON value.

    Raises:
        ValueError: it is not one.
    """
    try:
        return orjson.loads(line)
    except orjson.JSONDecodeError:
        if "\\ud" not in line.lower():
            raise
    # Logs cut texts between the halves of a surrogate pair. Half an emoji is no reason to lose the line.
    try:
        return orjson.loads(json.dumps(json.loads(line), ensure_ascii=False).encode("utf-8", "replace"))
    except RecursionError:
        raise ValueError("nested too deep") from None


def json_records(text: str, problems: list[Problem]) -> Iterator[tuple[int, dict[str, Any]]]:
    """The JSON objects of a JSON lines text, by line; lines that hold none are added to `problems`."""
    for number, line in lines_of(text):
        if not line or line.isspace():
            continue
        try:
            value = load_json(line)
        except ValueError as error:
            problems.append(Problem(number, f"not valid JSON ({error}); repair or delete the line"))
            continue
        if isinstance(value, dict):
            yield number, value
        else:
            problems.append(Problem(number, "not a JSON object; one line must hold one {…}"))


def json_sample(head: str) -> list[dict[str, Any]]:
    """The JSON objects among the lines of `head`; none where `head` is one JSON document over several lines."""
    head = head.strip()
    first = head.split("\n", 1)[0].rstrip()
    if not head.startswith("{") or (len(first) < len(head) and first.endswith(("{", "[", ","))):
        return []
    return [record for _, record in json_records(head, [])]


def looks_like_json(head: str) -> bool:
    """Whether a text is JSON of some kind, rather than prose that begins with a bracket."""
    head = head.strip()
    if re.match(r"\{\s*(?:[\"}]|\Z)|\[\s*(?:[\[{\"]|\Z)", head):
        return True
    try:
        return isinstance(load_json(head), dict | list)
    except ValueError:
        return False
