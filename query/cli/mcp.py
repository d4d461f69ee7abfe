"""`helix mcp`: MCP on stdio."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from helix.cli.parser import build_parser, resolve_store
from helix.settings import load


def mcp(argv: Sequence[str]) -> int:
    """Serve the memory to an agent over MCP, on stdio."""
    parser = build_parser(
        "mcp",
        mcp.__doc__ or "",
        "  helix mcp --store memory\n"
        "  helix mcp --as ana --project ledgerline    # only what ana may see, of this project\n"
        "  helix install claude-code                  # writes it into the agent's files\n\n"
        "Over HTTP 'helix serve' answers at /mcp.",
    )
    parser.add_argument("--as", metavar="PRINCIPAL", dest="principal", help="the caller, as ACLs name it")
    parser.add_argument("--project", metavar="P", action="append", help="only this project; may be repeated")
    options = parser.parse_args(argv)
    from query.auth import SCOPES, Caller
    from query.service import QueryService

    settings = load()
    projects = None if options.project is None else tuple(options.project)
    service = QueryService(resolve_store(options, settings), settings)
    service.start_in_background()  # the store opens while the SDK is imported: an agent waits for both
    from query.hooks.protocol import list_folders
    from query.mcp import serve

    caller = Caller("", options.principal, projects, frozenset(SCOPES))
    serve(service, caller, list_folders({"cwd": str(Path.cwd())}))
    return 0
