"""Structured logs: one JSON object a line, or plain lines on a terminal. They hold names and counts, never text."""

from __future__ import annotations

import logging
import sys
import time
from typing import Any, Final

from pythonjsonlogger.core import RESERVED_ATTRS
from pythonjsonlogger.orjson import OrjsonFormatter

from helix.util.sanitise import printable, printable_lines

_FOREIGN: Final = ("data", "taskName", "color_message")
"""Fields that libraries add to their records: Celery a task's arguments, uvicorn the message in colours."""

_NAMES: Final = {"asctime": "time", "levelname": "level", "name": "logger", "message": "event"}

_LEVELS: Final = {
    "watchfiles": logging.WARNING,
    "celery.worker.strategy": logging.WARNING,  # one line a message, which the tasks log anyway
    "celery.app.trace": logging.ERROR,
    "celery.beat": logging.WARNING,  # two lines a minute
    "kombu": logging.WARNING,
    "uvicorn.access": logging.WARNING,
    "httpx2": logging.WARNING,  # one line a request, with its address
}


class PlainFormatter(logging.Formatter):
    """Lines for a terminal: time, level, event, then `name=value` of each extra field."""

    def format(self, record: logging.LogRecord) -> str:
        """Format one record."""
        extra = " ".join(f"{name}={_shorten(value)}" for name, value in read_extra_fields(record).items())
        line = f"{self.formatTime(record, '%H:%M:%S')} {record.levelname.lower():7} {printable(record.getMessage())}"
        if record.exc_info:
            line = f"{line}\n{printable_lines(self.formatException(record.exc_info))}"
        return f"{line}  {printable(extra)}" if extra else line


def read_extra_fields(record: logging.LogRecord) -> dict[str, Any]:
    """Return the fields that the caller passed as `extra=`."""
    return {name: value for name, value in vars(record).items() if name not in {*RESERVED_ATTRS, *_FOREIGN}}


def _shorten(value: Any) -> Any:
    return f"{value[:12]}…" if isinstance(value, str) and len(value) in (32, 64) else value


def build_formatter(json: bool) -> logging.Formatter:
    """Build the formatter. JSON has time (UTC), level, logger, process, event and the extra fields."""
    if not json:
        return PlainFormatter()
    formatter: logging.Formatter = OrjsonFormatter(
        "{asctime}{levelname}{name}{process}{message}",
        style="{",
        datefmt="%Y-%m-%dT%H:%M:%SZ",
        rename_fields=_NAMES,
        reserved_attrs=[*RESERVED_ATTRS, *_FOREIGN],
    )
    formatter.converter = time.gmtime
    return formatter


def configure_logging() -> None:
    """Log to stderr from now on: plain lines on a terminal, JSON elsewhere."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(build_formatter(json=not sys.stderr.isatty()))
    root = logging.getLogger()
    root.handlers[:] = [handler]
    root.setLevel(logging.INFO)
    for name, level in _LEVELS.items():
        logging.getLogger(name).setLevel(level)
