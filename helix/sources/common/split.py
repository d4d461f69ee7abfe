"""A long export, cut into its conversations: each is a text of its own, and of a later export only some have changed.

The file is read twice, a conversation at a time: once to see that all of it is there and what is in it, once for the
texts of those that are new. What lies beside the conversations stays together in one text.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from typing import BinaryIO, Final, NamedTuple, Protocol

from helix.errors import InputRefused
from helix.sources import chatgpt, claude_ai
from helix.sources.common.collected import canonical
from helix.sources.common.decode import decode_text
from helix.sources.common.listed import values_of
from helix.sources.common.shared import load_json, session_of_path, unique

Span = tuple[int, int]


class Listed(Protocol):
    """An adapter whose documents are lists of conversations that know nothing of each other."""

    NAME: str
    ID: str  # the field that names a conversation

    def named(self, value: object) -> str | None:
        """The id of a conversation, empty where it has none; None for what is no conversation."""
        ...


class Part(NamedTuple):
    """A conversation of an export; or all that is none, by the path of the export."""

    name: str  # of a conversation its id, which is no other's
    spans: tuple[Span, ...]  # first byte and the one behind the last
    digest: str
    beside: bool = False  # no conversation


@dataclass(frozen=True, slots=True)
class Split:
    """What is in an export."""

    adapter: Listed
    parts: tuple[Part, ...]


_ADAPTERS: Final[tuple[Listed, ...]] = (chatgpt, claude_ai)


def split(file: BinaryIO, path: str, format: str, longest: int) -> Split | None:
    """The conversations of an export; None for any other file.

    Args:
        format: as given by whoever offers it, or `auto`.
        longest: characters of one conversation; a longer one is refused.

    Raises:
        InputRefused: it is an export, but not the whole of one; a conversation is too long.
    """
    adapters = [adapter for adapter in _ADAPTERS if format in ("auto", adapter.NAME)]
    taken: dict[str, int] = {}
    parts: list[Part] = []
    beside: list[Span] = []
    digest = hashlib.sha256()
    last = False  # the value before was a conversation
    try:
        for place, (start, end, raw, value) in enumerate(values_of(file, longest) if adapters else ()):
            adapter, name = _named(value, adapters)
            if name is None:
                digest.update(raw)
                # Neighbours are one span: what is no export at all may be a list of a million numbers.
                beside.append((start if last or not beside else beside.pop()[0], end))
            else:
                adapters = [adapter]  # all of it is of the format of the first
                name = unique(name or f"{session_of_path(path)}-{place}", taken)
                parts.append(Part(name, ((start, end),), _digest(raw)))
            last = name is not None
    except ValueError as error:
        if parts:
            remedy = "export it again: of a cut file nothing is taken"
            raise InputRefused(f"not valid JSON ({error})", remedy) from None
    if not parts:
        return None
    if beside:
        parts.append(Part(path, tuple(beside), digest.hexdigest(), beside=True))
    return Split(adapters[0], tuple(parts))


def text_of(file: BinaryIO, part: Part, adapter: Listed) -> str:
    """The text of a part. The id of a conversation is written into it where the export has none, or has it twice.

    Raises:
        InputRefused: the file was written to since it was cut; it is not UTF-8.
    """
    texts = []
    for start, end in part.spans:
        file.seek(start)
        raw = file.read(end - start)
        if not part.beside and _digest(raw) != part.digest:
            raise InputRefused("it was written to while it was read", "give it again")
        texts.append(decode_text(raw, start))
    if part.beside:
        return f"[{','.join(texts)}]"
    try:
        value = load_json(texts[0])
    except ValueError:  # said of this conversation alone, when it is read
        return texts[0]
    return texts[0] if adapter.named(value) == part.name else canonical({**value, adapter.ID: part.name})


def _named(value: object, adapters: list[Listed]) -> tuple[Listed, str | None]:
    """The adapter whose conversation a value is, and its id; None where it is none."""
    for adapter in adapters:
        name = adapter.named(value)
        if name is not None:
            return adapter, name.encode("utf-8", "replace").decode()  # half a surrogate pair, as it is read later
    return adapters[0], None


def _digest(raw: bytes) -> str:
    return hashlib.sha256(raw).hexdigest()
