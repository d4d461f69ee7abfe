"""`helix decisions`: what holds by topic, what it replaced, and what was rejected."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import groupby
from typing import TYPE_CHECKING, Any

from helix.cli.parser import build_parser, print_json, resolve_store
from helix.cli.terminal import is_drawn, open_console, print_note, print_text
from helix.settings import load
from helix.util.sanitise import printable, sanitise_name

if TYPE_CHECKING:
    from helix.cli.parser import Parser


def decisions(argv: Sequence[str]) -> int:
    """List what was decided and holds, what it replaced, and what was rejected."""
    options = _make_parser().parse_args(argv)
    from helix.sdk.open import open_memory

    memory = open_memory(resolve_store(options), load(), warm=False)
    answer = memory.decisions(
        options.project,
        as_of=options.as_of,
        history=options.history,
        limit=options.limit,
        principal=options.principal,
    )
    if options.json:
        print_json(answer)
    else:
        _print_answer(answer, options.history)
    return 0


def _make_parser() -> Parser:
    parser = build_parser(
        "decisions",
        decisions.__doc__ or "",
        "  helix decisions --project ledgerline\n"
        "  helix decisions --project ledgerline --as-of 2026-02-10    # what held then\n"
        "  helix decisions --history                                  # each topic with all that it replaced",
    )
    add = parser.add_argument
    add("--project", metavar="P", help="only this project (all, one after the other)")
    add("--as-of", metavar="T", help="what was said by then and held then: ISO 8601, or an age like 30d")
    add("--history", action="store_true", help="with everything that was replaced, a line each")
    add("--limit", type=int, default=50, metavar="N", help="entries to list, the newest (50)")
    add("--as", metavar="PRINCIPAL", dest="principal", help="the caller, as ACLs name it")
    return parser


def _print_answer(answer: dict[str, Any], with_history: bool) -> None:
    """Print the entries project by project: the project of the newest entry first."""
    from helix.sdk.decisions.lines import format_decision, format_past, format_rejection
    from helix.sdk.memory import MAX_LISTED
    from helix.stages.pack import cite_turns

    if answer["note"]:
        print_text(answer["note"])
        return
    entries = [(entry, False) for entry in answer["decisions"]] + [(entry, True) for entry in answer["rejected"]]
    order = {project: place for place, project in enumerate(dict.fromkeys(entry["project"] for entry, _ in entries))}
    entries.sort(key=lambda pair: (order[pair[0]["project"]], pair[1]))
    for (project, is_rejected), group in groupby(entries, lambda pair: (pair[0]["project"], pair[1])):
        print_text(f"{sanitise_name(project)}: rejected" if is_rejected else sanitise_name(project), "bold")
        for entry, _ in group:
            if is_rejected:
                _print_entry(format_rejection(entry, cite_turns(entry)))
                continue
            _print_entry(format_decision(entry, cite_turns(entry), is_whole=with_history), entry["topic"])
            for one in entry["replaced"] if with_history else ():
                _print_entry(format_past(one), indent=6)
    if answer["more"]:
        print_note(f"there are more: --limit N lists N of each, at most {MAX_LISTED:,}")


def _print_entry(line: str, topic: str | None = None, indent: int = 2) -> None:
    """Print one line; a terminal folds it, with a bold topic and dim places."""
    line = printable(line)
    if not is_drawn():
        print(f"{' ' * indent}{line}")
        return
    from rich.padding import Padding
    from rich.text import Text

    text = Text(line, "dim" if indent > 2 else "")
    text.highlight_regex(r"(?: \(replaced .*\))?(?: \[[^\]]*\])?$", "dim")
    if topic:
        text.stylize("bold", 0, line.find(":"))
    open_console().print(Padding(text, (0, 0, 0, indent)))
