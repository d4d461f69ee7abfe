"""`helix show`: an item in its conversation, or a session from its beginning."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from helix.cli.parser import build_parser, print_json, resolve_store
from helix.settings import load

LIMIT: Final = 200
"""Items of a session that are shown at once."""


def show(argv: Sequence[str]) -> int:
    """Show an item with what was said before and after it, or a session in reading order."""
    parser = build_parser(
        "show",
        show.__doc__ or "",
        "  helix show 7f3de73b             # the item of a short id, as 'helix recall' prints it\n"
        "  helix show 7f3de73b --around 8\n"
        "  helix show b18d71f0             # a session, by its name or its beginning",
    )
    parser.add_argument("name", metavar="ID", help="an item's id, its first digits, a citation, or a session")
    parser.add_argument("--around", type=int, default=2, metavar="N", help="items before and after an item (2)")
    parser.add_argument("--offset", type=int, default=0, metavar="N", help="items of a session to skip (0)")
    parser.add_argument("--as", metavar="PRINCIPAL", dest="principal", help="the caller, as ACLs name it")
    options = parser.parse_args(argv)
    from helix.errors import UsageError
    from helix.sdk.open import open_memory

    memory = open_memory(resolve_store(options), load(), warm=False)
    who = {"principal": options.principal}
    found = memory.around(options.name, before=options.around, after=options.around, **who)
    if found is None:
        names = memory.find_sessions(options.name, **who)
        if len(names) > 1:
            raise UsageError(f"{len(names)} sessions begin with {options.name!r}", f"there are {', '.join(names[:5])}")
        found = memory.session(names[0], offset=options.offset, limit=LIMIT, **who) if names else None
    if found is None:
        raise UsageError(f"no item and no session is called {options.name[:64]!r}", "'helix sessions' lists them")
    if options.json:
        print_json(found)
    else:
        from query.cli.conversation_text import print_conversation
        from query.cli.voices import find_voices

        print_conversation(found, find_voices(memory.snapshot, found["items"]))
    return 0
