"""Items of a session for a person, as a conversation: who said what, when, and what replaced it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from helix.cli.terminal import format_count, print_note
from helix.util.sanitise import printable, printable_lines, sanitise_name
from query.cli.answer_text import ID_DIGITS, format_replacement, format_when, print_block, print_line


def print_conversation(found: dict[str, Any], voices: Mapping[str, str]) -> None:
    """Print a page of a session, or an item (`at`) with its neighbours, which are dim.

    Args:
        voices: who said each item, by its id.
    """
    items, at = found["items"], found.get("at")
    if not items:
        print_note(found.get("notice") or "the session has no items")
        return
    first = items[0]
    head = [sanitise_name(first["title"] or first["session"]), first["project"], sanitise_name(first["source"])]
    print_line((printable(head[0]), "bold"), (printable(f" · {' · '.join(head[1:])}"), "dim"))
    for place, item in enumerate(items):
        _print_turn(item, voices[item["id"]], is_dim=at is not None and place != at)
    if at is None and (left := found["total"] - found["offset"] - len(items)) > 0:
        end = found["offset"] + len(items)
        print_note(f"{format_count(left, 'more item')}: helix show {first['session']} --offset {end}")


def _print_turn(item: dict[str, Any], who: str, is_dim: bool) -> None:
    """Print one item: a head line, and the whole text."""
    kind = [item["type"]] if item["type"] != "episodic" else []
    head = " · ".join(printable(part) for part in (who or item["role"], format_when(item), *kind) if part)
    style = "dim" if is_dim else ""
    print_line("\n", (head, "dim" if is_dim else "cyan"), "  ", (item["id"][:ID_DIGITS], "dim"))
    for line in printable_lines(item["text"]).splitlines():
        print_block(line, style)
    if later := item["replaced_by"]:
        print_block(format_replacement(later), "dim")
