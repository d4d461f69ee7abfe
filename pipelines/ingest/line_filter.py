"""The lines of a growing source that stay out, because Helix is or was off for their session or project.

An empty line takes the place of each, so that line numbers stay. A record names its session, folder and time, or
follows the records before it.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from datetime import datetime
from typing import Any, BinaryIO, Final

import orjson

from helix.redact.paths import redact_log
from helix.sources.common.fields import get_mapping, get_string
from helix.sources.common.times import parse_time
from helix.sources.cursor_transcript import read_stamp
from helix.util.repositories import name_remote
from pipelines.ingest.switched_off import OffCheck, OffRule, SpokenTime
from pipelines.ingest.workspaces import find_history_folder

_NEAR: Final = 1 << 16  # bytes at the beginning of a log, and before new lines, that tell whose and when they are
_CHAT: Final = re.compile(rb"# aider chat started at (\d{4}-\d{2}-\d{2} \d{2}:\d{2}:\d{2})")
_MINUTE: Final = 59.999  # seconds: Cursor writes no seconds
_SESSION: Final = ("sessionId", "session_id", "session")
_HEADERS: Final = frozenset({"session_meta", "session.start"})
_HEADER_FIELDS: Final = frozenset(
    {"type", "timestamp", "id", "sessionId", "session_id", "projectHash", "startTime", "kind", "directories", "cwd"}
    | {"git", "context", "originator", "source", "cli_version", "forked_from_id"}
)


class LineFilter:
    """The filter of one source. Lines are given in order.

    Args:
        offset: of the first line that is new.
        writes: times when the file was last read, and when it was last written: new lines are from between them.
    """

    def __init__(
        self, check: OffCheck, file: BinaryIO, offset: int, is_json: bool, where: str, writes: tuple[float, float]
    ) -> None:
        self._check, self._file, self._offset, self._is_json, self._where = check, file, offset, is_json, where
        self._session = self._project = self._remote = self._first = self._folder = ""
        self._undated = SpokenTime(*writes, is_dated=False)
        self._time = self._undated
        self.header = ""  # of the log, without anything that was said
        self._head: bytes | None = None
        self._began = False

    def blank_lines(self, data: bytes) -> tuple[bytes, int]:
        """Return whole lines with those blank that stay out, and the number of these."""
        if self._head is None:
            self._file.seek(0)
            self._head = self._file.read(_NEAR)
        if not any(
            self._check.may_apply(self._where, text[:_NEAR].decode("utf-8", "replace")) for text in (self._head, data)
        ):
            return data, 0
        if not self._began:
            self._note_earlier(self._head)
        lines = data.split(b"\n")
        blank = 0
        for i, line in enumerate(lines):
            self._note_line(line)
            if line.strip() and self._stays_out():
                lines[i] = b""
                blank += 1
        return b"\n".join(lines), blank

    def _note_earlier(self, head: bytes) -> None:
        """Note what the log's beginning and the lines before the new ones say."""
        self._began = True
        self._read_header(head.split(b"\n", 1)[0])
        self._file.seek(max(0, self._offset - _NEAR))
        near = self._file.read(min(_NEAR, self._offset))
        for line in [*head[: self._offset].split(b"\n"), *near.split(b"\n")]:
            self._note_line(line)

    def _stays_out(self) -> bool:
        rules = self._find_rules()
        if not rules:
            return False
        time = self._time
        if not self._is_json and any(rule.find_reason(self._undated) for rule in rules):
            time = self._undated  # only the beginning of a chat has a time
        return self._check.is_left_out(rules, time, "line")

    def _find_rules(self) -> tuple[OffRule, ...]:
        history = find_history_folder(self._where)
        folders = dict.fromkeys((self._first, self._folder, history))
        return self._check.find_rules([self._session], folders, [self._project], [self._remote])

    def _note_line(self, line: bytes) -> None:
        """Note whose and when a line is, as far as it says."""
        if not self._is_json:
            if found := _CHAT.match(line):
                self._note_time(datetime.fromisoformat(found[1].decode()))
            return
        try:
            record = orjson.loads(line)
        except orjson.JSONDecodeError:
            return
        if isinstance(record, dict):
            self._note_record(record)
            if b"<timestamp>" in line and "message" in record:
                self._note_time(read_stamp(line.decode("utf-8", "replace")), _MINUTE)

    def _note_record(self, record: Mapping[str, Any]) -> None:
        payload, data = get_mapping(record, "payload"), get_mapping(record, "data")
        context, git = get_mapping(data, "context"), get_mapping(payload, "git")
        is_meta = record.get("type") == "session_meta"
        session = get_string(record, *_SESSION) or get_string(data, "sessionId")
        self._session = session or (get_string(payload, "id") if is_meta else None) or self._session
        folder = get_string(record, "cwd") or get_string(payload, "cwd") or get_string(context, "cwd")
        self._folder = folder or self._folder
        self._first = self._first or self._folder
        remote = name_remote(get_string(git, "repository_url") or "") or get_string(context, "repository")
        self._remote = remote or self._remote
        self._project = get_string(record, "project") or ""
        times = (record.get("timestamp"), record.get("ts"), record.get("created_at"))
        self._note_time(next((time for value in times if (time := parse_time(value))), None))

    def _note_time(self, time: datetime | None, length: float = 0.0) -> None:
        if time:
            self._time = SpokenTime(time.timestamp(), time.timestamp() + length)

    def _read_header(self, line: bytes) -> None:
        """Keep what a log's first line says of its session; nothing where it is no header."""
        try:
            record = orjson.loads(line)
        except orjson.JSONDecodeError:
            return
        if not isinstance(record, dict):
            return
        is_old = "type" not in record and "instructions" in record  # of Codex
        if record.get("type") in _HEADERS or "projectHash" in record or is_old:
            header = {name: _pick_fields(value) for name, value in record.items() if name in _HEADER_FIELDS}
            header |= {name: _pick_fields(record[name]) for name in ("payload", "data") if name in record}
            header |= {"instructions": None} if is_old else {}
            self.header = redact_log(orjson.dumps(header).decode())[0]


def _pick_fields(value: Any) -> Any:
    if not isinstance(value, dict):
        return value if not isinstance(value, list) else [one for one in value if isinstance(one, str)]
    named = {name: one for name, one in value.items() if name in _HEADER_FIELDS or name in ("repository_url", "branch")}
    named |= {name: one for name, one in value.items() if name in ("repository", "gitRoot", "commit_hash")}
    return {name: _pick_fields(one) for name, one in named.items()}
