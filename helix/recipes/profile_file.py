"""From a profile's TOML to a recipe's dataclass: each key once, of its type, and no others."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from dataclasses import fields, is_dataclass
from typing import Any, TypeVar, get_type_hints

from helix.errors import UsageError

T = TypeVar("T")


def parse_toml(name: str, text: str) -> dict[str, Any]:
    """Parse a profile's text into tables.

    Raises:
        UsageError: it is not TOML.
    """
    try:
        return tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise UsageError(f"profile {name!r} is not TOML: {error}", "correct the file") from None


def overlay(base: Mapping[str, Any], changes: Mapping[str, Any]) -> dict[str, Any]:
    """Return the base's tables with changed leaves."""
    out = dict(base)
    for key, value in changes.items():
        before = out.get(key)
        out[key] = overlay(before, value) if isinstance(before, dict) and isinstance(value, dict) else value
    return out


def build(kind: type[T], name: str, raw: Mapping[str, Any]) -> T:
    """Make a recipe's dataclass from the tables of a file.

    Raises:
        UsageError: a key is missing, unknown or of another type.
    """
    return _build(kind, name, "", raw, {"name": name})


def _build(kind: type[T], name: str, where: str, raw: Mapping[str, Any], given: Mapping[str, Any] | None = None) -> T:
    hints = get_type_hints(kind)
    values = dict(given or {})
    wanted = {field.name.rstrip("_"): field for field in fields(kind) if field.name not in values}  # type: ignore[arg-type]
    _check_keys(name, where, raw, set(wanted))
    for key, field in wanted.items():
        value, at, hint = raw[key], f"{where}{key}", hints[field.name]
        if is_dataclass(hint):
            value = _build(hint, name, f"{at}.", _check_table(name, at, value))  # type: ignore[arg-type]
        elif "tables" in field.metadata:
            _check_table(name, at, value)
        elif "keys" in field.metadata:
            _check_keys(name, f"{at}.", _check_table(name, at, value), set(field.metadata["keys"]))
            for inner in field.metadata["keys"] if "inner" in field.metadata else ():
                table = _check_table(name, f"{at}.{inner}", value[inner])
                _check_keys(name, f"{at}.{inner}.", table, {*field.metadata["inner"]})
        elif "values" in field.metadata:
            if value not in field.metadata["values"]:
                known = " or ".join(field.metadata["values"])
                raise UsageError(f"profile {name!r}: {at} is {value!r}", f"it is {known}")
        elif not _has_type(value, hint):
            raise UsageError(f"profile {name!r}: {at} is {value!r}", f"it is {_name_type(hint)}")
        values[field.name] = value
    return kind(**values)


def _has_type(value: Any, hint: Any) -> bool:
    if hint in (int, float):
        return isinstance(value, int | float if hint is float else int) and not isinstance(value, bool)
    return not isinstance(hint, type) or isinstance(value, hint)


def _name_type(hint: Any) -> str:
    return {int: "a whole number", float: "a number", str: "text", bool: "true or false"}.get(hint, str(hint))


def _check_table(name: str, where: str, value: Any) -> Mapping[str, Any]:
    if not isinstance(value, dict):
        raise UsageError(f"profile {name!r}: {where} is {value!r}", "it is a table")
    return value


def _check_keys(name: str, where: str, raw: Mapping[str, Any], expected: set[str]) -> None:
    if unknown := set(raw) - expected:
        raise UsageError(
            f"profile {name!r} has an unknown key: {where}{sorted(unknown)[0]}",
            f"it knows {', '.join(sorted(expected))}",
        )
    if missing := expected - set(raw):
        raise UsageError(f"profile {name!r} lacks the key {where}{sorted(missing)[0]}", "add it")
