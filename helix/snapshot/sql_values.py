"""Results of DuckDB as JSON values, and its errors as errors of Helix."""

from __future__ import annotations

import math
from collections.abc import Sequence
from datetime import UTC, date, datetime, time
from decimal import Decimal
from typing import Any

import duckdb
import numpy as np
import pyarrow as pa

from helix.errors import StoreError, UsageError
from helix.util.sanitise import printable

# Arrow passes errors of DuckDB on as OSError while rows are read.
REFUSALS = (duckdb.Error, OSError, RuntimeError, pa.ArrowException)
_SCAN = "reading the Arrow source failed"


def translate_error(error: Exception) -> UsageError | StoreError:
    """Return the first line of DuckDB's message. It may quote stored text, so control characters are escaped."""
    line = (str(error).strip().splitlines() or [type(error).__name__])[0]
    if isinstance(error, duckdb.InterruptException) or "INTERRUPT Error" in line or _SCAN in line:
        return StoreError(
            f"a file of the store cannot be read: {printable(line)}", "'helix verify' names what is damaged"
        )
    return UsageError(printable(line), "see 'helix sql --help'")


def name_distinct(names: Sequence[str]) -> tuple[str, ...]:
    """Add numbers to repeated names, since a JSON object has each key once."""
    distinct: list[str] = []
    for name in names:
        free = (f"{name}_{n}" if n else name for n in range(len(names)))
        distinct.append(next(new for new in free if new not in distinct))
    return tuple(distinct)


def convert_column(name: str, column: pa.Array) -> list[Any]:
    """Convert a column's values for JSON; raise UsageError for what has no JSON form."""
    try:
        values = column.to_pylist(maps_as_pydicts="lossy")
    except (ValueError, OverflowError) as error:
        raise UsageError(f"column {printable(name)}: {error}", "cast it: … ::VARCHAR") from None
    if any(test(column.type) for test in (pa.types.is_string, pa.types.is_integer, pa.types.is_boolean)):
        return list(values)  # most values: unchanged
    if pa.types.is_float32(column.type):  # 0.3, not 0.30000001192092896
        return [None if value is None else convert_value(float(str(np.float32(value)))) for value in values]
    return [convert_value(value) for value in values]


def convert_value(value: Any) -> Any:
    """Convert a value for JSON: times to ISO 8601 UTC, bytes to hex, NaN and infinity to null."""
    match value:
        case None | bool() | int() | str():
            return value
        case float():
            return value if math.isfinite(value) else None
        case Decimal():
            return int(value) if value.as_tuple().exponent == 0 else float(value)
        case datetime():  # without a zone it is UTC, the zone of the session
            aware = value.replace(tzinfo=UTC) if value.tzinfo is None else value.astimezone(UTC)
            return aware.isoformat().replace("+00:00", "Z")
        case date() | time():
            return value.isoformat()
        case bytes():
            return value.hex()
        case pa.MonthDayNano():
            return f"P{value.months}M{value.days}DT{Decimal(value.nanoseconds) / 10**9:f}S"
        case dict():
            return {str(convert_value(key)): convert_value(entry) for key, entry in value.items()}
        case list() | tuple():
            return [convert_value(entry) for entry in value]
        case _:
            return str(value)
