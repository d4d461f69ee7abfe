"""Structured logs: a JSON object a line where nobody looks, plain lines on a terminal. Names and counts, never text."""

from __future__ import annotations

import logging
import sys
import time
from typing import Any, Final

from pythonjsonlogger.core import RESERVED_ATTRS
from pythonjsonlogger.orjson import OrjsonFormatter

from helix.text.sanitise import printable, printable_lines

_OTHERS: Final = ("data", "taskName", "color_message")
"""What others add to their own records: Celery a task's arguments, uvicorn the same message in colours."""

_NAMES: Final = {"asctime": "time", "levelname": "level", "name": "logger", "message": "event"}

_QUIET: Final = {
    "watchfiles": logging.WARNING,
    "celery.worker.strategy": logging.WARNING,  # a line for each message, which the tasks have anyway
    "celery.app.trace": logging.ERROR,
    "celery.beat": logging.WARNING,  # two lines a minute for as long as it runs
    "kombu": logging.WARNING,
    "uvicorn.access": logging.WARNING,
    "httpx2": logging.WARNING,  # a line for each request, with its address
}


class Plain(logging.Formatter):
    """For a reader: the time, what happened, and to what."""

    def format(self, record: logging.LogRecord) -> str:
        """See the class."""
        beside = " ".join(f"{name}={_short(value)}" for name, value in fields(record).items())
        line = f"{self.formatTime(record, '%H:%M:%S')} {record.levelname.lower():7} {printable(record.getMessage())}"
        if record.exc_info:
            line = f"{line}\n{printable_lines(self.formatException(record.exc_info))}"
        return f"{line}  {printable(beside)}" if beside else line


def fields(record: logging.LogRecord) -> dict[str, Any]:
    """What a record was given beside its message (`extra=`)."""
    return {name: value for name, value in vars(record).items() if name not in {*RESERVED_ATTRS, *_OTHERS}}


def _short(value: Any) -> Any:
    return f"{value[:12]}…" if isinstance(value, str) and len(value) in (32, 64) else value


def formatter(json: bool) -> logging.Formatter:
    """How a record is written. JSON has time (UTC), level, logger, process, event, and what was given beside."""
    if not json:
        return Plain()
    made: logging.Formatter = OrjsonFormatter(
        "{asctime}{levelname}{name}{process}{message}",
        style="{",
        datefmt="%Y-%m-%dT%H:%M:%SZ",
        rename_fields=_NAMES,
        reserved_attrs=[*RESERVED_ATTRS, *_OTHERS],
    )
    made.converter = time.gmtime
    return made


def begin() -> None:
    """Log to stderr from here on: as JSON, unless it is a terminal."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(formatter(json=not sys.stderr.isatty()))
    root = logging.getLogger()
    root.handlers[:] = [handler]
    root.setLevel(logging.INFO)
    for name, level in _QUIET.items():
        logging.getLogger(name).setLevel(level)
