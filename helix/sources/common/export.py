"""A long chat export, split into its conversations: of a later export only the changed ones are ingested.

The file is read twice, a conversation at a time: first to see that it is whole and to list its entries, then for the
texts of the new entries. All other values of the list form one entry.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from typing import BinaryIO, NamedTuple, Protocol

from helix.errors import InputRefused
from helix.sources.common.decode import decode_text
from helix.sources.common.json_list import read_list
from helix.sources.common.json_text import EXPORT_AGAIN, load_json
from helix.sources.common.names import make_unique, name_session_of_path
from helix.sources.common.session_text import dump_json

Span = tuple[int, int]


class ExportAdapter(Protocol):
    """An adapter whose documents are lists of independent conversations."""

    NAME: str
    ID: str  # the field that names a conversation

    def find_id(self, value: object) -> str | None:
        """Return the id of a conversation, empty for one without; None for any other value."""
        ...


class ExportEntry(NamedTuple):
    """A conversation of an export; or all other values, named by the path of the export."""

    name: str  # of a conversation its unique id
    spans: tuple[Span, ...]  # first byte, and the one after the last
    digest: str
    is_rest: bool = False  # not a conversation


@dataclass(frozen=True, slots=True)
class Export:
    """The adapter and the entries of an export."""

    adapter: ExportAdapter
    entries: tuple[ExportEntry, ...]


def split_export(file: BinaryIO, path: str, adapters: list[ExportAdapter], longest: int) -> Export | None:
    """Return the entries of an export; None for any other file.

    Args:
        adapters: those whose conversations may be in it.
        longest: characters of one conversation.

    Raises:
        InputRefused: it is not a whole export; a conversation is longer than `longest`.
    """
    taken: dict[str, int] = {}
    entries: list[ExportEntry] = []
    rest: list[Span] = []
    digest = hashlib.sha256()
    follows = False  # the value before was a conversation
    try:
        for place, (start, end, raw, value) in enumerate(read_list(file, longest) if adapters else ()):
            adapter, name = _identify(value, adapters)
            if name is None:
                digest.update(raw)
                # Neighbours are one span: another file may be a list of a million numbers.
                rest.append((start if follows or not rest else rest.pop()[0], end))
            else:
                adapters = [adapter]  # the whole export has the format of its first conversation
                name = make_unique(name or f"{name_session_of_path(path)}-{place}", taken)
                entries.append(ExportEntry(name, ((start, end),), _hash(raw)))
            follows = name is not None
    except ValueError as error:
        if entries:
            raise InputRefused(f"not valid JSON ({error})", EXPORT_AGAIN) from None
    if not entries:
        return None
    if rest:
        entries.append(ExportEntry(path, tuple(rest), digest.hexdigest(), is_rest=True))
    return Export(adapters[0], tuple(entries))


def read_entry(file: BinaryIO, entry: ExportEntry, adapter: ExportAdapter) -> str:
    """Return the text of an entry. A conversation whose id is missing or not unique gets the entry's name as id.

    Raises:
        InputRefused: the file has changed since it was split; it is not UTF-8.
    """
    texts = []
    for start, end in entry.spans:
        file.seek(start)
        raw = file.read(end - start)
        if not entry.is_rest and _hash(raw) != entry.digest:
            raise InputRefused("it was written to while it was read", "give it again")
        texts.append(decode_text(raw, start))
    if entry.is_rest:
        return f"[{','.join(texts)}]"
    try:
        value = load_json(texts[0])
    except ValueError:  # the parser reports it, for this conversation alone
        return texts[0]
    return texts[0] if adapter.find_id(value) == entry.name else dump_json({**value, adapter.ID: entry.name})


def _identify(value: object, adapters: list[ExportAdapter]) -> tuple[ExportAdapter, str | None]:
    """Return the adapter of a conversation and its id; None as id of any other value."""
    for adapter in adapters:
        name = adapter.find_id(value)
        if name is not None:
            return adapter, name.encode("utf-8", "replace").decode()  # half a surrogate pair, as it is read later
    return adapters[0], None


def _hash(raw: bytes) -> str:
    return hashlib.sha256(raw).hexdigest()
