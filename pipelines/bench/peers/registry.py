"""The peers by name; each library is imported only on request."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Final

from helix.errors import UsageError
from pipelines.bench.peers.base import Peer


def _import_peer(name: str) -> Peer:
    match name:
        case "lancedb":
            from pipelines.bench.peers.lancedb import PEER
        case "txtai":
            from pipelines.bench.peers.txtai import PEER
        case "chroma":
            from pipelines.bench.peers.chroma import PEER
        case "qdrant":
            from pipelines.bench.peers.qdrant import PEER
        case _:
            from pipelines.bench.peers.sqlite import PEER
    return PEER


PEERS: Final[dict[str, Callable[[], Peer]]] = {
    name: partial(_import_peer, name) for name in ("lancedb", "txtai", "chroma", "qdrant", "sqlite")
}


def check_peer(name: str) -> None:
    """Check that a peer exists. Raises UsageError if its name is unknown."""
    if name not in PEERS:
        raise UsageError(f"no peer {name!r}", f"there are {', '.join(PEERS)}")


def load_peer(name: str) -> Peer:
    """Import a peer and its library. Raises UsageError if its name is unknown, or its package is not installed."""
    check_peer(name)
    try:
        return PEERS[name]()
    except ModuleNotFoundError as error:
        raise UsageError(
            f"the peer {name} needs the package {error.name}", "pip install 'helix-recall[bench]'"
        ) from error
