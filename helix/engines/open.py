"""Engines by their places; an engine's package is imported when it is opened."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from helix.engines.place import EnginePlace, parse_place
from helix.errors import UsageError

if TYPE_CHECKING:
    from helix.engines.base import Engine
    from helix.settings import Settings

READING: Final = 3.0
"""Seconds for which a question waits for an engine."""

WRITING: Final = 120.0
"""Seconds for which an export waits for one request."""


def open_candidates(settings: Settings) -> Engine | None:
    """Open the engine that the settings name for the dense candidates; None for none.

    Raises:
        UsageError: as `open_engine`; or a GPU is to find them, too.
    """
    if not settings.candidates:
        return None
    if settings.dense != "cpu":
        raise UsageError("HELIX_CANDIDATES and HELIX_DENSE=gpu exclude each other", "unset one of them")
    return open_engine(settings.candidates, settings.candidates_key)


def open_engine(text: str, key: str = "", *, seconds: float = READING) -> Engine:
    """Open an engine; it is not connected to before its first use.

    Args:
        text: see `parse_place`.
        key: an API key of Qdrant, USER:PASSWORD of OpenSearch; empty: none.
        seconds: for which one request may take.

    Raises:
        UsageError: no such place, or the engine's package is not installed.
    """
    place = parse_place(text)
    try:
        return _open_collection(place, key, seconds)
    except ModuleNotFoundError as error:
        if str(error.name).startswith("helix"):
            raise
        raise UsageError(
            f"{place.engine} needs the package {error.name}", f"pip install 'helix-recall[{place.engine}]'"
        ) from None


def _open_collection(place: EnginePlace, key: str, seconds: float) -> Engine:
    """Open a collection; the module of its engine imports the engine's package."""
    if place.engine == "lancedb":
        from helix.engines.lancedb import LanceDb

        return LanceDb(place)
    if place.engine == "opensearch":
        from helix.engines.opensearch import open_index

        return open_index(place, key, seconds)
    if "://" in place.uri:
        from helix.engines.qdrant import open_server

        return open_server(place, key, seconds)
    from helix.engines.qdrant_edge import QdrantFolder

    return QdrantFolder(place)
