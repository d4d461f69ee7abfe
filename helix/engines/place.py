"""The place of an engine: `lancedb:FOLDER`, `qdrant:URL-OR-FOLDER` or `opensearch:URL`, and `#COLLECTION` if any."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final, NamedTuple
from urllib.parse import urlsplit

from helix.errors import UsageError
from helix.util.urls import find_http_url_fault

if TYPE_CHECKING:
    from helix.engines.base import Engine
    from helix.settings import Settings

ENGINES: Final = ("lancedb", "qdrant", "opensearch")
"""The engines, by the name of their extra."""

COLLECTION: Final = "helix"
"""Collection of a place that names none."""

READING: Final = 3.0
"""Seconds for which a question waits for an engine."""

WRITING: Final = 120.0
"""Seconds for which an export waits for one request."""

_EXAMPLE: Final = "lancedb:FOLDER, qdrant:http://localhost:6333 or opensearch:https://localhost:9200"
_NAME: Final = re.compile(r"[a-z0-9][a-z0-9_-]{0,63}")


class EnginePlace(NamedTuple):
    """An engine, its address or folder, and the collection there."""

    engine: str
    uri: str
    collection: str

    def __str__(self) -> str:
        return f"{self.engine}:{self.uri}#{self.collection}"


def parse_place(text: str) -> EnginePlace:
    """Return the place of an engine.

    Raises:
        UsageError: no such engine, no address, or one with a password.
    """
    engine, _, rest = text.partition(":")
    uri, _, collection = rest.partition("#")
    if engine not in ENGINES or not uri or not uri.isprintable():
        raise UsageError("this names no engine and its place", f"give it as {_EXAMPLE}")
    if not _NAME.fullmatch(collection or COLLECTION):
        raise UsageError(
            f"{collection[:64]!r} is no name of a collection", "use small letters, digits, _ and -, at most 64"
        )
    if engine == "opensearch" or uri.startswith(("http://", "https://")):
        if engine == "lancedb":
            raise UsageError("LanceDB is a folder or a bucket here, no server", f"give it as {_EXAMPLE}")
        if fault := find_http_url_fault(uri, f"the address of {engine}", _EXAMPLE):
            raise UsageError(*fault)
    if "://" in uri and urlsplit(uri).username is not None:
        raise UsageError("the address of the engine holds a user or a password", "set HELIX_CANDIDATES_KEY instead")
    return EnginePlace(engine, uri, collection or COLLECTION)


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
