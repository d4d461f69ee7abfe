"""The logs of agents on this machine: how many, how large, how old, and which secrets the newest of them hold."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

from helix.redact.redact import redact
from helix.sources.common.places import Place, find_places

SAMPLED_FILES: Final = 20
"""Newest files that are searched for secrets."""

SAMPLED_BYTES: Final = 1 << 18  # of each

BYTES_A_CORE: Final = 75_000
"""Bytes of logs that one core ingests in a second: 17 MB of agents' logs took 110 s on two."""

MOST_CORES: Final = 4  # that an ingest uses


@dataclass(slots=True)
class FoundLogs:
    """The logs of one agent in one folder."""

    agent: str
    folder: Path
    files: int = 0
    bytes: int = 0
    newest: float = 0.0  # seconds since 1970
    paths: list[Path] = field(default_factory=list, repr=False)
    _written: list[float] = field(default_factory=list, repr=False)

    def add(self, path: Path, stat: os.stat_result) -> None:
        """Add a session file."""
        self.files, self.bytes = self.files + 1, self.bytes + stat.st_size
        self.newest = max(self.newest, stat.st_mtime)
        self.paths.append(path)
        self._written.append(stat.st_mtime)

    def list_dated(self) -> list[tuple[float, Path]]:
        """Return each file with the time of its last write."""
        return list(zip(self._written, self.paths, strict=True))

    def as_json(self) -> dict[str, object]:
        """Return the fields for --json."""
        newest = datetime.fromtimestamp(self.newest, UTC).isoformat(timespec="seconds")
        return {
            "agent": self.agent,
            "folder": str(self.folder),
            "files": self.files,
            "bytes": self.bytes,
            "newest": newest,
        }


def find_logs(home: Path, environ: Mapping[str, str]) -> list[FoundLogs]:
    """Return the logs of every agent that has some here, the largest first."""
    found = [_look(place) for place in find_places(home, environ)]
    return sorted((logs for logs in found if logs.files), key=lambda logs: -logs.bytes)


def _look(place: Place) -> FoundLogs:
    logs = FoundLogs(place.agent, place.folder)
    for folder, _, names in os.walk(place.folder):
        for name in names:
            path = Path(folder, name)
            if not place.holds(path):
                continue
            try:
                stat = path.stat()
            except OSError:  # removed meanwhile
                continue
            logs.add(path, stat)
    return logs


def count_secrets(found: Sequence[FoundLogs]) -> tuple[int, Counter[str]]:
    """Return (the number of searched files, the secrets in them by kind): the newest files, the end of each."""
    recent = sorted((entry for logs in found for entry in logs.list_dated()), reverse=True)[:SAMPLED_FILES]
    secrets: Counter[str] = Counter()
    for _, path in recent:
        try:
            with path.open("rb") as file:
                file.seek(max(0, path.stat().st_size - SAMPLED_BYTES))
                text = file.read(SAMPLED_BYTES).decode("utf-8", "replace")
        except OSError:
            continue
        secrets += redact(text)[1]
    return len(recent), secrets


def estimate_seconds(size: int) -> float:
    """Return about how long the ingest of so many bytes takes on this machine."""
    return size / (BYTES_A_CORE * min(os.cpu_count() or 1, MOST_CORES))
