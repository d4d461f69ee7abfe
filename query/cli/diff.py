"""`helix diff`: what came and what went between two generations of a store."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from helix.cli.parser import build_parser, print_json, resolve_store
from helix.cli.terminal import format_count, print_note, print_text
from helix.settings import load
from helix.util.sanitise import printable, sanitise_name

SHOWN_CHARS: Final = 100


def diff(argv: Sequence[str]) -> int:
    """Show the items that were added and removed between two retained generations."""
    parser = build_parser("diff", diff.__doc__ or "", "  helix diff 11 12\n  helix diff 11 12 --json")
    parser.add_argument("before", metavar="SNAPSHOT", type=int, help="a retained generation")
    parser.add_argument("after", metavar="SNAPSHOT", type=int, help="another one")
    parser.add_argument("--limit", type=int, default=20, metavar="N", help="items to list of each (20)")
    options = parser.parse_args(argv)
    from helix.sdk.browse import compare_generations
    from helix.sdk.open import open_memory

    root, settings = resolve_store(options), load()
    before, after = (
        open_memory(root, settings, snapshot=number, warm=False).snapshot for number in (options.before, options.after)
    )
    found = compare_generations(before, after, options.limit)
    if options.json:
        print_json(found)
        return 0
    for name, sign, style in (("added", "+", "green"), ("removed", "-", "red")):
        changes = found[name]
        print_text(f"{format_count(changes['total'], 'item')} {name}", "bold")
        for item in changes["items"]:
            print_text(f"{sign} {_format_item(item)}", style)
        if (more := changes["total"] - len(changes["items"])) > 0:
            print_note(f"and {format_count(more, 'more item')}: --limit")
    return 0


def _format_item(item: dict[str, Any]) -> str:
    from query.cli.answer_text import ID_DIGITS

    text = printable(" ".join(item["text"].split()))
    shown = text if len(text) <= SHOWN_CHARS else text[: SHOWN_CHARS - 1] + "…"
    return f"{item['id'][:ID_DIGITS]}  {sanitise_name(item['project'])} · {sanitise_name(item['session'])}: {shown}"
