"""Logs on stderr: lines for a person on a terminal, one JSON object a line elsewhere.

They hold names and counts, never the text of an item or of a question.
"""

from __future__ import annotations

import logging
import os
import re
import sys
import time
from typing import TYPE_CHECKING, Any, Final, TextIO

from pythonjsonlogger.core import RESERVED_ATTRS
from pythonjsonlogger.orjson import OrjsonFormatter

from helix.util.sanitise import printable, printable_lines

if TYPE_CHECKING:
    from helix.settings import Settings

_FOREIGN: Final = ("data", "taskName", "color_message")
"""Fields that libraries add to their records: Celery a task's arguments, uvicorn the message in colours."""

_NAMES: Final = {"asctime": "time", "levelname": "level", "name": "logger", "message": "event"}

ACCESS: Final = "helix.access"
"""The logger of requests: one line each, for a person who watches the server."""

_LEVELS: Final = {
    "watchfiles": logging.WARNING,
    "celery.worker.strategy": logging.WARNING,  # one line a message, which the tasks log anyway
    "celery.app.trace": logging.ERROR,
    "celery.beat": logging.WARNING,  # two lines a minute
    "kombu": logging.WARNING,
    "uvicorn.access": logging.WARNING,
    "httpx2": logging.WARNING,  # one line a request, with its address
}

_TEXT_LEVELS: Final = {
    "uvicorn.error": logging.WARNING,  # how the server starts and ends: our own lines say so
    "mcp": logging.WARNING,
    "celery.worker": logging.WARNING,
    "celery.apps.worker": logging.WARNING,
}
"""Levels where a person reads."""

_STYLES: Final = {"time": "2", "fields": "2", "name": "36", "warning": "33", "error": "1;31", "critical": "1;31"}
"""Codes of styles (ECMA-48) by the part of a line."""


class TextFormatter(logging.Formatter):
    """Lines for a person: the time, the level from WARNING on, the message, then `name=value` of each extra field.

    Args:
        styled: the terminal shows colours.
        name: begins each message; it tells the processes of `helix up` apart.
    """

    def __init__(self, styled: bool = False, name: str = "") -> None:
        super().__init__()
        self._styled = styled
        self._name = name

    def format(self, record: logging.LogRecord) -> str:
        """Format one record. Only our own styles reach the terminal as escapes."""
        parts = [self._paint("time", self.formatTime(record, "%H:%M:%S"))]
        if self._name:
            parts.append(self._paint("name", f"{printable(self._name):7}"))
        if record.levelno >= logging.WARNING:
            level = record.levelname.lower()
            parts.append(self._paint(level, f"{level}:"))
        parts.append(printable(record.getMessage()))
        fields = " ".join(f"{name}={_format_value(value)}" for name, value in read_extra_fields(record).items())
        if fields:
            parts.append(" " + self._paint("fields", printable(fields)))
        line = " ".join(parts)
        return f"{line}\n{printable_lines(self.formatException(record.exc_info))}" if record.exc_info else line

    def _paint(self, part: str, text: str) -> str:
        return f"\x1b[{_STYLES[part]}m{text}\x1b[0m" if self._styled and part in _STYLES else text


def read_extra_fields(record: logging.LogRecord) -> dict[str, Any]:
    """Return the fields that the caller passed as `extra=`."""
    return {name: value for name, value in vars(record).items() if name not in {*RESERVED_ATTRS, *_FOREIGN}}


def _format_value(value: Any) -> str:
    """Return a field's value: a digest by its beginning, a text with blanks in quotes."""
    text = str(value)
    if isinstance(value, str) and re.fullmatch(r"[0-9a-f]{32}|[0-9a-f]{64}", text):
        return f"{text[:12]}…"
    return f'"{text}"' if " " in text else text


def build_formatter(json: bool, styled: bool = False, name: str = "") -> logging.Formatter:
    """Build the formatter. JSON has time (UTC), level, logger, process, event and the extra fields."""
    if not json:
        return TextFormatter(styled, name)
    formatter: logging.Formatter = OrjsonFormatter(
        "{asctime}{levelname}{name}{process}{message}",
        style="{",
        datefmt="%Y-%m-%dT%H:%M:%SZ",
        rename_fields=_NAMES,
        reserved_attrs=[*RESERVED_ATTRS, *_FOREIGN],
    )
    formatter.converter = time.gmtime
    return formatter


def is_styled(stream: TextIO) -> bool:
    """Return whether a stream gets colours: NO_COLOR never, FORCE_COLOR always, else a terminal that can draw."""
    if os.environ.get("NO_COLOR"):
        return False
    if os.environ.get("FORCE_COLOR"):
        return True
    return stream.isatty() and os.environ.get("TERM") != "dumb"


def is_text(settings: Settings) -> bool:
    """Return whether logs are lines for a person: by the setting, else on a terminal."""
    return settings.log_format == "text" or (settings.log_format == "auto" and sys.stderr.isatty())


def configure_logging(settings: Settings) -> None:
    """Log to stderr from now on: lines for a person on a terminal, JSON elsewhere, or what the setting says."""
    for_person = is_text(settings)
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(build_formatter(not for_person, is_styled(sys.stderr), settings.log_name))
    root = logging.getLogger()
    root.handlers[:] = [handler]
    root.setLevel(logging.INFO)
    own = _TEXT_LEVELS if for_person else {ACCESS: logging.WARNING}
    for name, level in {**_LEVELS, **own}.items():
        logging.getLogger(name).setLevel(level)
