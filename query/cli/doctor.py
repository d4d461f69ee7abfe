"""`helix doctor`: what is wrong with this installation, the store and the agents, and how to mend it."""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Final, NamedTuple

from helix.cli.parser import build_parser, print_json, resolve_store
from helix.cli.terminal import Cell, format_count, print_table
from helix.errors import HelixError
from helix.settings import Settings, load

_LEAST_FREE: Final = 1 << 30  # bytes of a disk with less room than a merge may take
_STYLES: Final = {"ok": "green", "note": "yellow", "wrong": "red"}


class Finding(NamedTuple):
    """The outcome of one check."""

    state: str  # ok, note or wrong
    check: str
    what: str
    remedy: str = ""


def doctor(argv: Sequence[str]) -> int:
    """Check the installation, the store and the connected agents; say how to mend what is wrong.

    The exit status is 4 if something is wrong.
    """
    parser = build_parser("doctor", doctor.__doc__ or "", "  helix doctor\n  helix doctor --json")
    options = parser.parse_args(argv)
    settings = load()
    root = resolve_store(options, settings)
    findings = [finding for check in CHECKS for finding in _run(check, root, settings)]
    if options.json:
        print_json([finding._asdict() for finding in findings])
    else:
        print_table([_list_cells(finding) for finding in findings], whole=(0, 1))
    return 4 if any(one.state == "wrong" for one in findings) else 0


def _list_cells(finding: Finding) -> list[Cell]:
    text = f"{finding.what}; {finding.remedy}" if finding.remedy else finding.what
    return [(finding.state, _STYLES[finding.state]), (finding.check, "bold"), text]


Check = Callable[[Path, Settings], Iterator[Finding]]


def _run(check: Check, root: Path, settings: Settings) -> Iterator[Finding]:
    """Yield the findings of a check; an error that it meets is one, too."""
    name = check.__name__.removeprefix("check_").replace("_", " ")
    try:
        yield from check(root, settings)
    except HelixError as error:
        yield Finding("wrong", name, error.what, error.remedy or "")
    except OSError as error:
        yield Finding("wrong", name, f"{error.strerror or error}: {error.filename}", "check its permissions")


def check_installation(root: Path, settings: Settings) -> Iterator[Finding]:
    """Check Python, the kernels and the disk of the cache."""
    from helix.native.library import describe_kernels
    from helix.util.version import VERSION

    yield Finding("ok", "helix", f"{VERSION} on Python {sys.version.split()[0]}, {os.cpu_count()} cores")
    if describe_kernels() == "compiled":
        yield Finding("ok", "kernels", "compiled")
    else:
        remedy = "install a wheel for this platform, or install Helix again where there is a C compiler"
        yield Finding("note", "kernels", "in NumPy, some ten times slower", remedy)
    cache = Path(settings.cache).expanduser()
    free = shutil.disk_usage(_find_existing(cache)).free
    state, remedy = ("ok", "") if free > _LEAST_FREE else ("note", "make room, or set HELIX_CACHE")
    yield Finding(state, "cache", f"{cache}, {free / 1e9:.1f} GB free", remedy)


def _find_existing(path: Path) -> Path:
    """Return the nearest folder above that exists."""
    while not path.exists() and path != path.parent:
        path = path.parent
    return path


def check_encoder(root: Path, settings: Settings) -> Iterator[Finding]:
    """Check that the encoder of new stores is available."""
    from helix.encoders.registry import choose_encoder

    weights = choose_encoder(settings)
    yield Finding("ok", "encoder", f"{weights.model.name} from the {weights.origin}")


def check_store(root: Path, settings: Settings) -> Iterator[Finding]:
    """Check the store: whether it can be read, what waits, what was given up."""
    from helix.snapshot.status import read_status

    state = read_status(root)
    items, sessions = format_count(state["items"], "item"), format_count(state["sessions"], "session")
    yield Finding("ok", "store", f"{root}: {items} of {sessions}, generation {state['generation']}")
    free = shutil.disk_usage(root).free
    if free < max(_LEAST_FREE, state["bytes"]):
        yield Finding(
            "note", "disk", f"{free / 1e9:.1f} GB free", "make room: a merge may need as much as the store has"
        )
    if state["pending"]:
        waits = f"{format_count(state['pending'], 'document')} of {state['pending_bytes'] / 1e6:.1f} MB wait"
        yield Finding("note", "waiting", waits, "'helix ingest --pending' publishes them")
    if state["dead"]:
        given_up = f"{format_count(state['dead'], 'document')} were given up"
        yield Finding("wrong", "given up", given_up, "'helix status' says why, 'helix retry' tries them again")


def check_agents(root: Path, settings: Settings) -> Iterator[Finding]:
    """Check for each agent with sessions here whether its hooks use this store."""
    from helix.sources.common.places import find_places
    from query.install.agents import AGENTS
    from query.install.changes import find_helix, plan_changes

    for agent in dict.fromkeys(place.agent for place in find_places(Path.home(), os.environ)):
        if agent not in AGENTS:
            yield Finding("note", agent, "its sessions are read by 'helix watch' and 'helix ingest'; it has no hooks")
        elif plan_changes(agent, "user", find_helix(), root.absolute()):
            remedy = f"helix install {agent} --store {root}"
            yield Finding("note", agent, "its hooks are missing, or are for another store", remedy)
        else:
            yield Finding("ok", agent, "its hooks and the MCP server use this store")


def check_queue(root: Path, settings: Settings) -> Iterator[Finding]:
    """Check the address of the broker, where one is set."""
    if not settings.redis_url:
        yield Finding("ok", "queue", "none: everything runs in the calling process")
        return
    import socket
    from urllib.parse import urlsplit

    where = urlsplit(settings.redis_url)
    address = (where.hostname or "localhost", where.port or 6379)
    try:
        socket.create_connection(address, 2).close()
        yield Finding("ok", "queue", f"{address[0]}:{address[1]} answers")
    except OSError as error:
        remedy = "start it, or unset HELIX_REDIS_URL"
        yield Finding("wrong", "queue", f"{address[0]}:{address[1]} does not answer: {error.strerror or error}", remedy)


CHECKS: Final[tuple[Check, ...]] = (check_installation, check_encoder, check_store, check_agents, check_queue)
