"""`helix recall`, `helix serve`, `helix mcp` and `helix install`."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

from helix.cli.parser import build_parser, parse_port, print_json, resolve_store
from helix.cli.terminal import (
    Cell,
    is_drawn,
    open_console,
    print_diff,
    print_error,
    print_note,
    print_table,
    print_text,
)
from helix.errors import StoreError, UsageError
from helix.settings import load
from helix.util.sanitise import printable, sanitise_name

if TYPE_CHECKING:
    from pathlib import Path


def recall(argv: Sequence[str]) -> int:
    """Ask the memory a question."""
    new = build_parser(
        "recall",
        recall.__doc__ or "",
        '  helix recall "What did I tell Priya about vacation?"\n'
        '  helix recall "database is locked" --project ledgerline --since 30d --json\n'
        '  helix recall "why sqlite" --type decision --k 3 --explain',
    )
    new.add_argument("query", metavar="QUERY", help="the question, an error, a path, a name")
    new.add_argument("--k", type=int, default=10, metavar="N", help="items to return (10)")
    new.add_argument("--budget", type=int, default=2000, metavar="N", help="tokens the context may take (2000)")
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
    new.add_argument("--tier", metavar="TIER", default="fast", help="deep: a language model helps, for seconds (fast)")
    new.add_argument("--snapshot", metavar="N", type=int, help="ask a generation that is still kept (the newest)")
    new.add_argument("--now", metavar="T", help="the moment of asking (the clock)")
    new.add_argument("--explain", action="store_true", help="say what every stage did")
    new.add_argument("--why-not", metavar="ITEM", help="say at which stage this item fell out")
    options = new.parse_args(argv)
    from helix.sdk.memory import Memory
    from query.schema import RecallRequest, answer

    memory = Memory(resolve_store(options), load(), snapshot=options.snapshot, warm=False)
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
    found = answer(memory, request, tier=options.tier)
    if options.json:
        print_json(found)
    else:
        _show(found)
    return 0


def _show(found: dict[str, Any]) -> None:
    """The answer for a person; piped, a line each, whole."""
    for line in found["degraded"]:
        print_error("degraded", line)
    if found["skipped"]:
        print_text("skipped: this question needs no memory (a filter such as --project forces a search)")
        return
    if not found["items"]:
        print_text("nothing found")
    for place, item in enumerate(found["items"], 1):
        when = (item["time"] or "")[:16].replace("T", " ")
        who = " · ".join(printable(part) for part in (when, sanitise_name(item["speaker"] or "")) if part)
        source = printable(sanitise_name(f"{item['session']}#{','.join(item['turns'])}"))
        _line(
            (f"{place:2}", "bold"),
            "  ",
            (f"{item['score']:.3f}", "cyan"),
            f"  {item['type']:10} {who}  ",
            (source, "dim"),
        )
        text = printable(" ".join(item["text"].split()))
        _block(text if len(text) <= 300 else text[:299] + "…")
        _block(_why(item["why"]), "dim")
        if found.get("trace") and (made := _made_of(item["why"])):
            _block(made, "dim")
    if found["context"]:
        said = f", {found['tokens']} of {found['budget']} tokens ({found['counter']}):"
        _line("\n", ("context", "bold"), said)
        _line(found["context"])
    ms = found["ms"]
    stages = ", ".join(f"{name} {value:.1f}" for name, value in ms.items() if name != "total")
    _line("\n", (f"snapshot {found['snapshot']} · profile {found['profile']} · {ms['total']:.1f} ms ({stages})", "dim"))
    if deep := found.get("deep"):
        _line((_asked(deep), "dim"))
    if trace := found.get("trace"):
        print_table(_stages(trace), ("stage", "in → out", "ms", "what it did"), (2,), (0, 1, 2))
        print_table(_candidates(trace), ("rank", "item", "score", "why [and where it was left out]"), (0,), (0, 1, 2))
        if (more := len(trace.get("candidates", ())) - SHOWN) > 0:
            print_text(f"and {more} more candidates: --json lists them")
        if "why_not" in trace:
            print_text(f"why not: {trace['why_not']}")


def _asked(deep: dict[str, Any]) -> str:
    """What a language model was asked, and at what price."""
    price = "asked before" if deep["cached"] else f"{deep['calls']} requests, {deep['seconds']:.1f} s"
    left = "".join(f" · {name} left out: {why}" for name, why in deep["left_out"].items())
    return printable(f"deep · {deep['model']} · {price} · {deep['sent']} memories sent{left}")


def _line(*parts: Cell) -> None:
    """One line; on a terminal with the styles of its parts, and folded by the terminal itself."""
    if is_drawn():
        from rich.text import Text

        open_console().print(Text.assemble(*parts), soft_wrap=True)
    else:
        print("".join(part if isinstance(part, str) else part[0] for part in parts))


def _block(text: str, style: str = "") -> None:
    """An indented paragraph, folded on a terminal; a line where the output is piped."""
    if is_drawn():
        from rich.padding import Padding
        from rich.text import Text

        open_console().print(Padding(Text(text, style), (0, 0, 0, 4)))
    else:
        print(f"    {text}")


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


def _stages(trace: dict[str, Any]) -> Iterator[tuple[str, ...]]:
    """What every stage took in and gave out, its milliseconds, and what else it says."""
    for stage in trace.get("stages", ()):
        said = dict(stage)
        name, ms = said.pop("stage"), said.pop("ms", None)
        rows = [said.pop(key, "") for key in ("rows_in", "rows_out")]
        rows = ["+".join(map(str, given.values())) if isinstance(given, dict) else str(given) for given in rows]
        facts = (f"{key} {_brief(value)}" for key, value in said.items() if value not in ("", None, {}, [], ()))
        passed = f"{rows[0]:>7} → {rows[1]}" if any(rows) else ""
        yield name, passed, "" if ms is None else f"{ms:.1f} ms", ", ".join(facts)


def _candidates(trace: dict[str, Any]) -> Iterator[tuple[str, ...]]:
    """The best of what was ranked, with ranks and signals, and where one was left out."""
    for one in trace.get("candidates", ())[:SHOWN]:
        why = _why({key: value for key, value in one.items() if key not in ("rank", "id", "score", "dropped")})
        out = f"  [{one['dropped']}]" if one["dropped"] else ""
        yield str(one["rank"]), one["id"], f"{one['score']:.3f}", f"{why}{out}"


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
        said.append("asked: " + " / ".join(map(printable, why["queries"])))
    return " · ".join(said)


def serve(argv: Sequence[str]) -> int:
    """Serve REST, MCP and the page from one store, read-only."""
    new = build_parser(
        "serve",
        serve.__doc__ or "",
        "  helix serve --store memory --port 8765         # this machine only, without a key\n"
        "  helix serve --host 0.0.0.0 --workers 4         # also from elsewhere, with keys ('helix keys create')\n"
        "  helix serve --allow-host memory.example.org    # behind a proxy on this machine, with keys",
    )
    new.add_argument("--host", default="127.0.0.1", help="where to listen (127.0.0.1); any other address asks for keys")
    new.add_argument("--port", type=parse_port, default=8765, help="0 takes a free one (8765)")
    new.add_argument("--workers", type=int, default=1, metavar="N", help="processes that answer (1)")
    new.add_argument(
        "--allow-host",
        action="append",
        default=[],
        metavar="NAME",
        help="a name that requests may be addressed to, of a proxy; asks for keys; may be repeated",
    )
    new.add_argument("--require-keys", action="store_true", help="ask for keys on loopback, too")
    new.add_argument("--wait", action="store_true", help="begin though there is no store yet; until then answer 503")
    options = new.parse_args(argv)
    from query.serve import MOST, policy_of, run

    if not 1 <= options.workers <= MOST:
        raise UsageError(f"workers is {options.workers}", f"give a number from 1 to {MOST}")
    settings = load()
    root = resolve_store(options, settings)
    if not options.wait:
        _is_there(root)
    policy = policy_of(
        options.host,
        settings,
        allowed=options.allow_host,
        keyed=options.require_keys,
        processes=options.workers,
    )
    return run(root, settings, policy, options.host, options.port, options.workers)


def _is_there(root: Path) -> None:
    """Raises StoreError where nothing could be served: a mistyped path is told, instead of an answer of 503."""
    from helix.snapshot.manifest import current_name

    try:
        current_name(root)
    except StoreError as error:
        raise StoreError(error.what, f"{error.remedy}; with --wait 'helix serve' begins all the same") from None


def mcp(argv: Sequence[str]) -> int:
    """Serve the memory to an agent over MCP, on stdio."""
    new = build_parser(
        "mcp",
        mcp.__doc__ or "",
        "  helix mcp --store memory\n"
        "  helix mcp --as ana --project ledgerline    # only what ana may see, of this project\n"
        "  helix install claude-code                  # writes it into the agent's files\n\n"
        "Over HTTP 'helix serve' answers at /mcp.",
    )
    new.add_argument("--as", metavar="PRINCIPAL", dest="principal", help="who asks")
    new.add_argument("--project", metavar="P", action="append", help="only this project; may be repeated")
    options = new.parse_args(argv)
    from query.auth import SCOPES, Caller
    from query.service import Service

    settings = load()
    projects = None if options.project is None else tuple(options.project)
    service = Service(resolve_store(options, settings), settings)
    service.begin()  # the store is opened while the SDK is imported: an agent waits for both
    from query.mcp import serve as run

    run(service, Caller("", options.principal, projects, frozenset(SCOPES)))
    return 0


def install(argv: Sequence[str]) -> int:
    """Connect an agent with the memory: its hooks, and the MCP server."""
    from query.install.agents import AGENTS, changes, forget, helix_command, keep, write

    new = build_parser(
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

    def tell(lines: str) -> None:
        for line in lines.split("\n"):
            print_note(line) if options.json else print_text(line)

    store = resolve_store(options).absolute()
    found = changes(options.agent, options.scope, helix_command(), store, remove=options.remove)
    for change in found:
        tell(change.diff.rstrip("\n")) if options.json else print_diff(change.diff)
    if found and not options.yes:
        if options.json or not sys.stdin.isatty():
            raise UsageError("nobody can be asked here whether to write this", "add --yes")
        sys.stderr.write("Write this? [y/N] ")
        sys.stderr.flush()
        if sys.stdin.readline().strip().lower() not in ("y", "yes"):
            tell("nothing was written")
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
        tell("nothing to do")
    else:
        tell("\n".join(f"{_done(one.before, one.after)} {one.path}" for one in found))
        if not options.remove:
            tell(f"the store is {store}; {AGENTS[options.agent].again}")
    return 0


def _done(before: bytes | None, after: bytes | None) -> str:
    return "made" if before is None else "removed" if after is None else "changed"
