"""`helix mcp`: MCP on stdio."""

from __future__ import annotations

import signal
import sys
from collections.abc import Sequence
from pathlib import Path

from helix.cli.parser import add_log_format, build_parser, resolve_store
from helix.cli.terminal import print_note
from helix.settings import load
from helix.util.repositories import find_repository
from helix.util.workspaces import Workspace


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
    add_log_format(parser)
    options = parser.parse_args(argv)
    from helix.cli.logging import configure_logging
    from query.auth import SCOPES, Caller
    from query.service import QueryService

    settings = load()
    configure_logging(settings)
    if sys.stdin.isatty():
        print_note("an agent starts this command and speaks MCP to it on stdin and stdout; Ctrl-C ends it")
        print_note("'helix install claude-code' connects an agent, 'helix serve' answers people")
        signal.signal(signal.SIGINT, signal.SIG_DFL)  # a thread waits for the terminal, and Python for that thread
    projects = None if options.project is None else tuple(options.project)
    service = QueryService(resolve_store(options, settings), settings)
    service.start_in_background()  # the store opens while the SDK is imported: an agent waits for both
    from query.mcp import serve

    serve(service, Caller("", options.principal, projects, frozenset(SCOPES)), _find_workspace())
    return 0


def _find_workspace() -> Workspace | None:
    """Return the folder of this process: an agent starts its servers in its own. None where it is gone."""
    try:
        folder = str(Path.cwd())
    except OSError:
        return None
    return Workspace(folder, *find_repository(folder))
