"""`helix sessions` and `helix timeline`: what was talked about, and when."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from datetime import UTC, datetime
from itertools import groupby
from typing import Any, Final

from helix.cli.parser import build_parser, print_json, resolve_store
from helix.cli.terminal import Cell, format_count, is_drawn, print_note, print_table, print_text
from helix.settings import load
from helix.util.ages import format_age
from helix.util.sanitise import sanitise_name

NAME_CHARS: Final = 8
"""Characters of a long session name, which 'helix show' takes."""

_TITLE_CHARS: Final = 60
_PROJECT_CHARS: Final = 24
_UNDATED: Final = "undated"


def sessions(argv: Sequence[str]) -> int:
    """List the sessions, the newest first."""
    options = _make_parser(
        "sessions", sessions.__doc__, "  helix sessions --project ledgerline --since 'last week'"
    ).parse_args(argv)
    found = _read(options)
    if options.json:
        print_json(found)
        return 0
    names = shorten_names([session["session"] for session in found["sessions"]])
    print_table(
        [_list_cells(session, name) for session, name in zip(found["sessions"], names, strict=True)],
        ("when", "session", "project", "items", "title"),
        (3,),
        (0, 1),
    )
    _print_rest(found)
    return 0


def timeline(argv: Sequence[str]) -> int:
    """Show the sessions day by day, with their first words."""
    options = _make_parser("timeline", timeline.__doc__, "  helix timeline --since 'last month'").parse_args(argv)
    found = _read(options)
    if options.json:
        print_json(found)
        return 0
    for day, of_day in groupby(found["sessions"], key=lambda session: (session["ended"] or "")[:10]):
        print_text(_format_day(day), "bold")
        for session in of_day:
            file = f" · file of {session['file_time'][:10]}" if session["file_time"] and not session["ended"] else ""
            decided = session["types"].get("decision", 0)
            counts = format_count(session["items"], "item") + (
                f", {format_count(decided, 'decision')}" if decided else ""
            )
            who = ", ".join(session["speakers"]) or session["agent"] or ""
            parts = [_shorten(_get_title(session)), _get_project(session), _shorten(sanitise_name(who)), counts]
            print_text(f"  {' · '.join(filter(None, parts))}{file}")
            if session["title"] and _shorten(session["title"]) != _shorten(session["first"]):
                print_text(f"    {_shorten(session['first'])}", "dim")
    _print_rest(found)
    return 0


def _make_parser(name: str, describe: str | None, examples: str) -> argparse.ArgumentParser:
    parser = build_parser(name, describe or "", examples)
    add = parser.add_argument
    add("--project", metavar="P", help="only this project")
    add("--since", metavar="T", help="ISO 8601, an age like 7d, or words like 'last week'")
    add("--until", metavar="T", help="the same")
    add("--limit", type=int, default=20, metavar="N", help="sessions to list (20)")
    add("--offset", type=int, default=0, metavar="N", help="sessions to skip (0)")
    add("--as", metavar="PRINCIPAL", dest="principal", help="the caller, as ACLs name it")
    return parser


def _read(options: argparse.Namespace) -> dict[str, Any]:
    """Return the sessions of the newest generation."""
    from helix.sdk.open import open_memory

    memory = open_memory(resolve_store(options), load(), warm=False)
    names = ("project", "since", "until", "limit", "offset", "principal")
    return memory.timeline(**{name: getattr(options, name) for name in names})


def shorten_names(names: Sequence[str]) -> list[str]:
    """Return the shortest beginning of each name, of at least NAME_CHARS, that no other name has."""
    out = []
    for name in names:
        others = [other for other in names if other != name]
        ends = range(NAME_CHARS, len(name))
        out.append(
            next((name[:end] for end in ends if not any(other.startswith(name[:end]) for other in others)), name)
        )
    return out


def _list_cells(session: dict[str, Any], name: str) -> list[Cell]:
    """Return the cells of a session's line."""
    return [
        (_format_moment(session), "dim"),
        sanitise_name(name),
        _get_project(session),
        f"{session['items']:,}",
        (_shorten(_get_title(session)), "bold"),
    ]


def _get_title(session: dict[str, Any]) -> str:
    return sanitise_name(session["title"] or session["first"])


def _get_project(session: dict[str, Any]) -> str:
    return _shorten(sanitise_name(session["project"]), _PROJECT_CHARS)


def _shorten(text: str, chars: int = _TITLE_CHARS) -> str:
    return text if len(text) <= chars else text[: chars - 1].rstrip() + "…"


def _format_moment(session: dict[str, Any]) -> str:
    """Return a session's end; on a terminal, how long ago that was. An undated one has the day of its file."""
    if not session["ended"]:
        return f"by {session['file_time'][:10]}" if session["file_time"] else _UNDATED
    moment = datetime.fromisoformat(session["ended"])
    return format_age(moment, datetime.now(UTC)) if is_drawn() else f"{moment:%Y-%m-%d %H:%M}"


def _format_day(day: str) -> str:
    return f"{datetime.fromisoformat(day):%A}, {day}" if day else _UNDATED.capitalize()


def _print_rest(found: dict[str, Any]) -> None:
    """Print how many sessions are not shown, or why there are none."""
    end = found["offset"] + len(found["sessions"])
    if not found["total"]:
        print_note(found["notice"] or "no sessions")
    elif end < found["total"]:
        print_note(f"{end:,} of {format_count(found['total'], 'session')}: --offset {end} shows the next")
