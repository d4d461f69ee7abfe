"""`helix serve`: REST, MCP over HTTP and the page."""

from __future__ import annotations

import hashlib
import os
from argparse import Namespace
from collections.abc import Sequence
from contextlib import nullcontext
from pathlib import Path

from helix.cli.parser import add_log_format, build_parser, parse_port, resolve_store
from helix.errors import StoreError, UsageError
from helix.settings import Settings, load


def serve(argv: Sequence[str]) -> int:
    """Serve REST, MCP and the page from one store or many, read-only."""
    parser = build_parser(
        "serve",
        serve.__doc__ or "",
        "  helix serve --store memory --port 8765         # this machine only, without a key\n"
        "  helix serve --host 0.0.0.0 --workers 4         # other machines too, with keys ('helix keys create')\n"
        "  helix serve --allow-host memory.example.org    # for a proxy on this machine, with keys\n"
        "  helix serve --stores /srv/memory --host 0.0.0.0   # a store a person, team or project\n"
        "  helix serve --stores s3://bucket/memory          # each store of them, fetched when it is asked for\n"
        "  helix serve --replica-of s3://bucket/memory --store replica",
    )
    add = parser.add_argument
    add("--host", default="127.0.0.1", help="the address to listen on (127.0.0.1); any other address requires keys")
    add("--port", type=parse_port, default=8765, help="0 takes a free one (8765)")
    add("--workers", type=int, default=1, metavar="N", help="processes that answer (1)")
    text = "a proxy's name that requests may be addressed to; requires keys; may be repeated"
    add("--allow-host", action="append", default=[], metavar="NAME", help=text)
    add("--require-keys", action="store_true", help="require keys on loopback, too")
    text = "serve every store in this folder, or published below this s3:// URL, each at /stores/NAME, instead of one"
    add("--stores", metavar="DIR", help=text)
    add("--replicas", metavar="DIR", type=Path, help="the folder for stores of a URL (in HELIX_CACHE)")
    text = "fetch the store that was pushed to this URL, answer from words first, and follow it; see 'helix pull'"
    add("--replica-of", metavar="URL", help=text)
    add("--wait", action="store_true", help="start without a store, and answer 503 until there is one")
    add_log_format(parser)
    options = parser.parse_args(argv)
    # Threads of linear algebra wait for each other by spinning, which takes the core that another question needs.
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    from query.replica import keep_replica
    from query.serve import MAX_PROCESSES, make_policy, run

    if not 1 <= options.workers <= MAX_PROCESSES:
        raise UsageError(f"workers is {options.workers}", f"give a number from 1 to {MAX_PROCESSES}")
    settings = load()
    root, url = _locate(options, settings)
    if options.stores:
        _check_stores(root)
    elif not options.wait and not options.replica_of:
        _check_store(root)
    policy = make_policy(
        options.host,
        settings,
        allowed=options.allow_host,
        keyed=options.require_keys,
        processes=options.workers,
        many=options.stores is not None,
        fetched=options.stores is not None and url is not None,
    )
    with keep_replica(url, root, many=options.stores is not None) if url else nullcontext():
        return run(root, settings, policy, options.host, options.port, options.workers)


def _locate(options: Namespace, settings: Settings) -> tuple[Path, str | None]:
    """Return the folder of the store, or of all stores, and the URL that fills it."""
    if not options.stores:
        return resolve_store(options, settings), options.replica_of
    if options.replica_of:
        raise UsageError("--stores and --replica-of", "give --stores the URL, below which each store was pushed")
    if "://" not in options.stores:
        return Path(options.stores), None
    name = hashlib.sha256(options.stores.encode()).hexdigest()[:16]
    folder = options.replicas or Path(settings.cache).expanduser() / "replicas" / name
    folder.mkdir(parents=True, exist_ok=True, mode=0o700)
    return folder, options.stores


def _check_stores(root: Path) -> None:
    """Raise UsageError for no folder of stores."""
    if not root.is_dir():
        raise UsageError(f"{root} is not a folder", "make it, and ingest into a store in it: --store DIR/NAME")
    if (root / "CURRENT").exists():
        raise UsageError(f"{root} is a store itself", f"serve it alone: helix serve --store {root}")


def _check_store(root: Path) -> None:
    """Raise StoreError without a store: a mistyped path should fail, not answer 503."""
    from helix.snapshot.manifest import read_current

    try:
        read_current(root)
    except StoreError as error:
        raise StoreError(error.what, f"{error.remedy}; 'helix serve --wait' starts without a store") from None
