"""The peers by name; each library is imported only on request."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from helix.errors import UsageError
from pipelines.bench.peers.base import Peer


def _load_lancedb() -> Peer:
    from pipelines.bench.peers.lancedb import PEER

    return PEER


def _load_txtai() -> Peer:
    from pipelines.bench.peers.txtai import PEER

    return PEER


def _load_chroma() -> Peer:
    from pipelines.bench.peers.chroma import PEER

    return PEER


def _load_qdrant() -> Peer:
    from pipelines.bench.peers.qdrant import PEER

    return PEER


def _load_sqlite() -> Peer:
    from pipelines.bench.peers.sqlite import PEER

    return PEER


PEERS: Final[dict[str, Callable[[], Peer]]] = {
    "lancedb": _load_lancedb,
    "txtai": _load_txtai,
    "chroma": _load_chroma,
    "qdrant": _load_qdrant,
    "sqlite": _load_sqlite,
}


def check_peer(name: str) -> None:
    """Check that a peer exists.

    Raises:
        UsageError: its name is unknown.
    """
    if name not in PEERS:
        raise UsageError(f"no peer {name!r}", f"there are {', '.join(PEERS)}")


def load_peer(name: str) -> Peer:
    """Import a peer and its library.

    Raises:
        UsageError: its name is unknown, or its package is not installed.
    """
    check_peer(name)
    try:
        return PEERS[name]()
    except ModuleNotFoundError as error:
        raise UsageError(
            f"the peer {name} needs the package {error.name}", "pip install 'helix-recall[bench]'"
        ) from error
