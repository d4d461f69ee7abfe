"""The place of an engine: `lancedb:FOLDER`, `qdrant:URL-OR-FOLDER` or `opensearch:URL`, and `#COLLECTION` if any."""

from __future__ import annotations

import re
from typing import Final, NamedTuple
from urllib.parse import urlsplit

from helix.errors import UsageError
from helix.util.urls import find_http_url_fault

ENGINES: Final = ("lancedb", "qdrant", "opensearch")
"""The engines, by the name of their extra."""

COLLECTION: Final = "helix"
"""Collection of a place that names none."""

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
