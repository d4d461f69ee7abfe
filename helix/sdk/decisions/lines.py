"""Decisions as lines of text, for a terminal and for a prompt: every part is sanitised and on one line."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from helix.stages.pack import cite_turns
from helix.util.sanitise import sanitise_name

_BRIEF: Final = 80
"""Characters of what an entry replaced."""


def format_decision(entry: Mapping[str, Any], place: str = "", *, is_whole: bool = False) -> str:
    """Format an entry: "CI: Buildkite, since 2026-09-08, Priya (replaced Jenkins, 2026-01-12) [s12#7]".

    Args:
        place: of the entry, in brackets.
        is_whole: leave out what it replaced, which follows in lines of its own.
    """
    parts = [_format_content(entry)]
    if entry["since"]:
        parts.append(f"since {entry['since'][:10]}")
    parts.append(sanitise_name(entry["by"]))
    replaced = "" if is_whole else "; ".join(map(_format_replaced, entry["replaced"]))
    return ", ".join(parts) + (f" (replaced {replaced})" if replaced else "") + (f" [{place}]" if place else "")


def format_rejection(entry: Mapping[str, Any], place: str = "") -> str:
    """Format what was rejected: "Kafka, 2026-04-02, Ana: too much to run [s3#4]"."""
    parts = [sanitise_name(entry["what"]), (entry["date"] or "")[:10], sanitise_name(entry["by"])]
    reason = f": {sanitise_name(entry['reason'])}" if entry["reason"] else ""
    return ", ".join(filter(None, parts)) + reason + (f" [{place}]" if place else "")


def format_past(one: Mapping[str, Any]) -> str:
    """Format what an entry replaced, with its time: "2026-01-12 to 2026-09-08: Jenkins, Priya [s1#1]"."""
    begun, ended = ((one[name] or "")[:10] for name in ("since", "until"))
    span = f"{begun} to {ended}" if begun and ended else f"until {ended}" if ended else begun or "undated"
    value = sanitise_name(one["value"]) if one["value"] else ""
    text = _quote(one["text"], 2 * _BRIEF) if one["text"] else ""
    by = f", {sanitise_name(one['by'])} [{cite_turns(one)}]" if one["by"] else ""
    return f"{span}: {' '.join(filter(None, (value, text)))}{by}"


def _format_content(entry: Mapping[str, Any]) -> str:
    """Return the topic and what holds; without a topic a passage, after the turn that it answers."""
    said = sanitise_name(entry["value"] if entry["topic"] and entry["value"] else entry["text"]).rstrip(".!,;: ")
    if entry["answers"]:
        said = f"{_quote(entry['answers']['text'], 2 * _BRIEF)} → {said}"
    return f"{sanitise_name(entry['topic'])}: {said}" if entry["topic"] else said


def _format_replaced(one: Mapping[str, Any]) -> str:
    value = sanitise_name(one["value"], _BRIEF) if one["value"] else _quote(one["text"], _BRIEF)
    return f"{value}, {one['since'][:10]}" if one["since"] else value


def _quote(text: str, most: int) -> str:
    return f"“{sanitise_name(text, most).rstrip('.')}”"
