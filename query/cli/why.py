"""`helix why`: the session that made a line of code."""

from __future__ import annotations

import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from helix.cli.parser import build_parser, print_json, resolve_store
from helix.cli.terminal import print_text
from helix.errors import UsageError
from helix.settings import load
from helix.util.sanitise import printable, sanitise_name

_CHARS = 600  # of a quoted item


def explain(argv: Sequence[str]) -> int:
    """Say why a line of code is as it is: the commit, the session that made it, and what was asked for."""
    parser = build_parser(
        "why",
        explain.__doc__ or "",
        "  helix why src/queue.py:42 --store ~/memory\n  helix why src/queue.py:42 --json",
    )
    parser.add_argument("place", metavar="FILE:LINE", help="a line of a file in a git repository")
    parser.add_argument("--as", metavar="PRINCIPAL", dest="principal", help="the caller, as ACLs name it")
    options = parser.parse_args(argv)
    from helix.sdk.open import open_memory
    from helix.work.why import blame, explain_line

    path, number = read_place(options.place)
    line = blame(path, number)
    memory = open_memory(resolve_store(options), load(), warm=False)
    found = explain_line(memory.snapshot.seen_by(options.principal), line, path)
    commit = {name: getattr(line, name) for name in ("commit", "author", "time", "summary", "text")}
    if options.json:
        print_json({"file": str(path), "line": number, **commit, "found": found})
    else:
        _print_answer(path, number, commit, found)
    return 0


def read_place(place: str) -> tuple[Path, int]:
    """Return the file and the line of `FILE:LINE`.

    Raises:
        UsageError: it is no such place, or the file is missing.
    """
    name, _, number = place.rpartition(":")
    if not name or not number.isdecimal() or not int(number):
        raise UsageError(f"{place!r} is no FILE:LINE", "give a file and the number of a line, such as src/queue.py:42")
    path = Path(name).expanduser().absolute()
    if not path.is_file():
        raise UsageError(f"there is no file {name}", "give a path from the current folder")
    return path, int(number)


def _print_answer(path: Path, number: int, commit: dict[str, Any], found: dict[str, Any] | None) -> None:
    print_text(f"{path.name}:{number}: {printable(commit['text'].strip())}", "bold")
    if commit["commit"]:
        day = time.strftime("%Y-%m-%d", time.gmtime(commit["time"]))
        about = f"{day}, {commit['author']}: {commit['summary']}"
        print_text(printable(f"commit {commit['commit'][:10]}, {about}"))
    else:
        print_text("not committed yet")
    if found is None:
        print_text("no session of the memory is known to have made it")
        return
    how = "names this commit" if found["how"] == "commit" else "edited the file last before it"
    print_text(f"session {printable(found['session'])} {how}: {printable(sanitise_name(found['title'] or ''))}")
    for label, name in (("asked", "request"), ("said", "words"), ("edited", "edit")):
        item = found[name]
        if item:
            text = printable(sanitise_name(item["text"], _CHARS))
            print_text(f"{label} {(item['time'] or '')[:16].replace('T', ' ')} [{item['id']}]", "dim")
            print_text(f"  {text}")
