"""`helix recall`, `helix serve`, `helix mcp` and `helix install`."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

from helix.cli import parser, print_json, store_of
from helix.errors import UsageError
from helix.settings import load

if TYPE_CHECKING:
    import socket


def recall(argv: Sequence[str]) -> int:
    """Ask the memory a question."""
    new = parser(
        "recall",
        recall.__doc__ or "",
        '  helix recall "What did I tell Priya about vacation?"\n'
        '  helix recall "database is locked" --project ledgerline --since 30d --json',
    )
    new.add_argument("query", metavar="QUERY")
    new.add_argument("--k", type=int, default=10, help="items to return (10)")
    new.add_argument("--budget", type=int, default=2000, help="tokens the context may take (2000)")
    new.add_argument("--project", metavar="P", help="only this project")
    new.add_argument("--type", metavar="T", help="episodic, semantic, procedural, decision or code")
    new.add_argument("--since", metavar="T", help="ISO 8601, or an age like 7d")
    new.add_argument("--until", metavar="T", help="ISO 8601, or an age like 7d")
    new.add_argument("--as-of", metavar="T", help="what was known and valid then")
    new.add_argument("--session", metavar="S", help="only this session")
    new.add_argument("--speaker", metavar="NAME", help="only this speaker")
    new.add_argument("--current-only", action="store_true", help="nothing whose facts no longer hold")
    new.add_argument("--entity", metavar="E", action="append", default=[], help="a name the graph walk starts from")
    new.add_argument("--as", metavar="PRINCIPAL", dest="principal", help="who asks")
    new.add_argument("--profile", metavar="NAME", default="helix", help="the constants in force (helix)")
    new.add_argument("--rerank", metavar="TIER", help="late or cross: score the best items anew, at a price")
    new.add_argument("--rerank-top", metavar="N", type=int, default=20, help="items scored anew, at most 30 (20)")
    new.add_argument("--snapshot", metavar="N", type=int, help="ask a generation that is still kept (the newest)")
    new.add_argument("--now", metavar="T", help="the moment of asking (the clock)")
    new.add_argument("--explain", action="store_true", help="say what every stage did")
    new.add_argument("--why-not", metavar="ITEM", help="say at which stage this item fell out")
    options = new.parse_args(argv)
    from helix.memory import Memory
    from query.wire import RecallRequest, answer

    memory = Memory(store_of(options), load(), snapshot=options.snapshot, warm=False)
    request = RecallRequest(
        query=options.query,
        k=options.k,
        budget=options.budget,
        project=options.project,
        type=options.type,
        since=options.since,
        until=options.until,
        as_of=options.as_of,
        session=options.session,
        speaker=options.speaker,
        current_only=options.current_only,
        entities=options.entity,
        principal=options.principal,
        profile=options.profile,
        rerank=options.rerank,
        rerank_top=options.rerank_top,
        now=options.now,
        explain=options.explain,
        why_not=options.why_not,
    )
    found = answer(memory, request)
    if options.json:
        print_json(found)
    else:
        _show(found)
    return 0


def _show(found: dict[str, Any]) -> None:
    """The answer for a person."""
    from rich.console import Console
    from rich.markup import escape
    from rich.padding import Padding

    console = Console(highlight=False)

    def block(text: str) -> None:
        """Indented, folded on a terminal; on one line where the output is piped."""
        if console.is_terminal:
            console.print(Padding(text, (0, 0, 0, 4)))
        else:
            console.print(f"    {text}", soft_wrap=True)

    for line in found["degraded"]:
        print(f"degraded: {line}", file=sys.stderr)
    if found["skipped"]:
        console.print("skipped: this question needs no memory (a filter such as --project forces a search)")
        return
    if not found["items"]:
        console.print("nothing found")
    for place, item in enumerate(found["items"], 1):
        who = " · ".join(
            escape(part) for part in ((item["time"] or "")[:16].replace("T", " "), item["speaker"] or "") if part
        )
        head = f"[bold]{place:2}[/bold]  [cyan]{item['score']:.3f}[/cyan]  {item['type']:10} {who}"
        console.print(f"{head}  [dim]{escape(item['session'])}#{escape(','.join(item['turns']))}[/dim]", soft_wrap=True)
        # Recalled text is foreign: nothing in it may steer the terminal.
        text = "".join(c if c.isprintable() else " " for c in " ".join(item["text"].split()))
        block(escape(text if len(text) <= 300 else text[:299] + "…"))
        block(f"[dim]{_why(item['why'])}[/dim]")
        if found.get("trace") and (made := _made_of(item["why"])):
            block(f"[dim]{escape(made)}[/dim]")
    if found["context"]:
        console.print(f"\n[bold]context[/bold], {found['tokens']} of {found['budget']} tokens ({found['counter']}):")
        console.print(escape(found["context"]), soft_wrap=True)
    ms = found["ms"]
    stages = ", ".join(f"{name} {value:.1f}" for name, value in ms.items() if name != "total")
    console.print(
        f"\n[dim]snapshot {found['snapshot']} · profile {found['profile']} · {ms['total']:.1f} ms ({stages})[/dim]",
        soft_wrap=True,
    )
    trace = found.get("trace") or {}
    for line in _explained(trace):
        console.print(f"[dim]{escape(line)}[/dim]", soft_wrap=True)
    if "why_not" in trace:
        console.print(f"why not: {escape(trace['why_not'])}")


def _why(why: dict[str, Any]) -> str:
    """Ranks and signals in a line: a rank is a whole number, a signal is not."""
    ranks = [f"{name} #{value}" for name, value in why.items() if isinstance(value, int)]
    # A fused score of ranks is of the order of a hundredth.
    signals = [
        f"{name} {value:.4f}" if 0 < abs(value) < 0.1 else f"{name} {value:.2f}"
        for name, value in why.items()
        if isinstance(value, float)
    ]
    return " · ".join([*ranks, *signals])


SHOWN = 30
"""Candidates that --explain lists for a person; --json has them all."""


def _explained(trace: dict[str, Any]) -> Iterator[str]:
    """What every stage did, and the best of what was ranked."""
    for stage in trace.get("stages", ()):
        said = dict(stage)
        name, ms = said.pop("stage"), said.pop("ms", None)
        rows = [said.pop(key, "") for key in ("rows_in", "rows_out")]
        rows = ["+".join(map(str, given.values())) if isinstance(given, dict) else str(given) for given in rows]
        spent = "" if ms is None else f"{ms:.1f} ms"
        facts = ", ".join(
            f"{key} {_brief(value)}" for key, value in said.items() if value not in ("", None, {}, [], ())
        )
        passed = f"{rows[0]:>11} → {rows[1]:<6}" if any(rows) else ""
        yield f"{name:10} {passed:20} {spent:>9}  {facts}".rstrip()
    candidates = trace.get("candidates", ())
    for one in candidates[:SHOWN]:
        why = _why({key: value for key, value in one.items() if key not in ("rank", "id", "score", "dropped")})
        out = f"  [{one['dropped']}]" if one["dropped"] else ""
        yield f"{one['rank']:4} {one['id']} {one['score']:.3f}  {why}{out}"
    if len(candidates) > SHOWN:
        yield f"     and {len(candidates) - SHOWN} more: --json lists them"


def _brief(value: Any) -> str:
    if isinstance(value, dict):
        return " ".join(f"{key} {_brief(part)}" for key, part in value.items())
    if isinstance(value, list | tuple):
        return " ".join(map(_brief, value))
    return f"{value:.3g}" if isinstance(value, float) else str(value)


def _made_of(why: dict[str, Any]) -> str:
    """Where an item's salience and confidence come from, and the questions a model wrote for it."""
    said = []
    if why["salience_parts"]:
        said.append("salience: " + ", ".join(f"{sign} {weight:+.2f}" for sign, weight in why["salience_parts"].items()))
    if why["vouched"]:
        said.append(f"confidence: {why['vouched']}")
    if why.get("queries"):
        said.append(
            "asked: " + " / ".join("".join(c if c.isprintable() else " " for c in one) for one in why["queries"])
        )
    return " · ".join(said)


def serve(argv: Sequence[str]) -> int:
    """Serve REST from one store, read-only."""
    new = parser("serve", serve.__doc__ or "", "  helix serve --store memory --port 8765")
    new.add_argument("--host", default="127.0.0.1", help="the address to listen on (127.0.0.1)")
    new.add_argument(
        "--allow-remote", action="store_true", help="listen beyond loopback, behind something that asks who"
    )
    new.add_argument("--port", type=int, default=8765, help="0 takes a free one (8765)")
    options = new.parse_args(argv)
    if not 0 <= options.port <= 65_535:
        raise UsageError(f"port is {options.port}", "give a number from 0 to 65535")
    if not options.allow_remote and not _loopback(options.host):
        raise UsageError(
            f"{options.host} can be reached from other machines, and requests carry no key yet",
            "listen on 127.0.0.1, or add --allow-remote behind a proxy that authenticates",
        )
    import contextlib

    import uvicorn

    from helix import logs
    from query.announce import Announced
    from query.hooks import mount
    from query.rest import create_app
    from query.service import Service

    settings = load()
    logs.begin()
    service = Service(store_of(options, settings), settings)
    app = create_app(service)
    mount(app, service)
    announced = Announced(service.root)

    class Server(uvicorn.Server):
        """Says in the store where it listens, while it does: hooks find it there."""

        async def startup(self, sockets: list[socket.socket] | None = None) -> None:
            await super().startup(sockets)
            if self.started:
                announced.begin(*self.servers[0].sockets[0].getsockname()[:2])

        async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
            announced.end()
            await super().shutdown(sockets)

    server = Server(uvicorn.Config(app, host=options.host, port=options.port, log_config=None, access_log=False))
    with contextlib.suppress(KeyboardInterrupt):
        server.run()
    return 0 if server.started else 3


def _loopback(host: str) -> bool:
    import ipaddress

    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def mcp(argv: Sequence[str]) -> int:
    """Serve the memory to an agent over MCP, on stdio."""
    new = parser(
        "mcp",
        mcp.__doc__ or "",
        "  helix mcp --store memory\n  helix install claude-code   writes it into the agent's files",
    )
    options = new.parse_args(argv)
    from query.mcp import serve as run

    settings = load()
    run(store_of(options, settings), settings)
    return 0


def install(argv: Sequence[str]) -> int:
    """Connect an agent with the memory: its hooks, and the MCP server."""
    from query.install import AGENTS, changes, forget, helix_command, keep, write

    new = parser(
        "install",
        install.__doc__ or "",
        "  helix install claude-code --store ~/memory\n  helix install codex --remove\n\n"
        "What would be written is shown first. Everything else in the files stays as it is.",
    )
    new.add_argument("agent", choices=tuple(AGENTS), metavar="AGENT", help=", ".join(AGENTS))
    new.add_argument(
        "--scope", choices=("user", "project"), default="user", help="everywhere, or in this folder (user)"
    )
    new.add_argument("--remove", action="store_true", help="take away what was put in")
    new.add_argument("--yes", action="store_true", help="write without asking")
    options = new.parse_args(argv)

    def say(line: str) -> None:
        print(line, file=sys.stderr if options.json else sys.stdout)

    store = store_of(options).absolute()
    found = changes(options.agent, options.scope, helix_command(), store, remove=options.remove)
    for change in found:
        say(change.diff.rstrip("\n"))
    if found and not options.yes:
        if options.json or not sys.stdin.isatty():
            raise UsageError("nobody can be asked here whether to write this", "add --yes")
        sys.stderr.write("Write this? [y/N] ")
        sys.stderr.flush()
        if sys.stdin.readline().strip().lower() not in ("y", "yes"):
            say("nothing was written")
            return 0
    for change in found:
        if not options.remove:
            keep(change)
        write(change)
        if options.remove:
            forget(change)
    if options.json:
        put = {} if options.remove else {"store": str(store)}
        files = [{"path": str(one.path), "action": _done(one.before, one.after)} for one in found]
        print_json({"agent": options.agent, "scope": options.scope, **put, "files": files})
    elif not found:
        say("nothing to do")
    else:
        say("\n".join(f"{_done(one.before, one.after)} {one.path}" for one in found))
        if not options.remove:
            say(f"the store is {store}; {AGENTS[options.agent].again}")
    return 0


def _done(before: bytes | None, after: bytes | None) -> str:
    return "made" if before is None else "removed" if after is None else "changed"
