"""Zip archives, as the exports of chats come: what can be read of one is put into a folder, safely.

An archive says of itself what it likes. Sizes are counted while a member is inflated, never taken from its header;
names that lead elsewhere refuse the whole archive, as nobody writes them in good faith; links are not followed, nor
made. What is no text by its name (pictures, the HTML copy of the same conversations) stays in the archive, and so do
hidden files: a walk over a folder passes them over, too.
"""

from __future__ import annotations

import errno
import io
import lzma
import os
import re
import stat
import struct
import zipfile
import zlib
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

from helix.errors import InputRefused

SUFFIXES: Final = frozenset({".json", ".jsonl", ".md", ".markdown", ".txt", ".vtt", ".srt"})
"""Endings of the names of members that are taken."""

MAX_MEMBERS: Final = 200_000  # a workspace of hundreds of channels has a file for each day of each

_MAGIC: Final = (b"PK\x03\x04", b"PK\x05\x06")  # a first member; an archive without any
_BLOCK: Final = 1 << 20
_LIST_BYTES: Final = 1 << 25  # of the list of members
_NEVER: Final = 1980  # the year of members without a time
_ENCRYPTED: Final = 0x1  # flag of a member
_DRIVE: Final = re.compile(r"[A-Za-z]:")
_DAMAGED: Final = "the archive is damaged; download it again"
_FAULTS: Final = (
    zipfile.BadZipFile,
    zlib.error,
    lzma.LZMAError,
    EOFError,
    struct.error,
    NotImplementedError,
    ValueError,
)
_FAULT_NUMBERS: Final = frozenset({errno.EINVAL, errno.ENAMETOOLONG, errno.EEXIST, errno.ENOTDIR, errno.EISDIR})


class _Bounded(io.BufferedReader):
    """A file that is never read at once: the list of members would be, before anything can be said of it."""

    def read(self, size: int | None = -1, /) -> bytes:
        wanted = _LIST_BYTES + 1 if size is None or size < 0 else size
        data = super().read(min(wanted, _LIST_BYTES + 1))
        if len(data) > _LIST_BYTES:
            raise zipfile.BadZipFile("too many members")
        return data


def is_archive(path: Path) -> bool:
    """Whether a file is a zip archive, by its content."""
    try:
        with path.open("rb") as file:
            return file.read(4) in _MAGIC
    except OSError:
        return False


def unpack(path: Path, folder: Path, limit: int, total: int) -> None:
    """Put the members of an archive that are text into a folder, under their own names and times.

    `limit`, `total`: bytes of one member and of all of them, inflated. What is there when this refuses is to be
    thrown away.

    Raises:
        InputRefused: too large, encrypted, damaged, or written to do harm; nothing in it that could be read.
    """
    try:
        with _Bounded(io.FileIO(path)) as file, zipfile.ZipFile(file) as archive:
            _all(archive, path, folder, limit, total)
    except (*_FAULTS, OSError) as error:
        raise _refused(str(path), error) from None


def _all(archive: zipfile.ZipFile, path: Path, folder: Path, limit: int, total: int) -> None:
    members = archive.infolist()
    if len(members) > MAX_MEMBERS:
        raise InputRefused(f"{path}: {len(members)} members; at most {MAX_MEMBERS} are taken", "unpack it yourself")
    taken: set[Path] = set()
    for member in members:
        target = _target(member, path)
        if target is None:
            continue
        if target in taken:
            raise InputRefused(f"{path}: {member.filename!r} is in it twice", _DAMAGED)
        taken.add(target)
        total -= _one(archive, member, path, folder / target, min(limit, total))
    if not taken:
        raise InputRefused(f"{path}: nothing in it is text", f"names must end in one of {', '.join(sorted(SUFFIXES))}")


def _target(member: zipfile.ZipInfo, path: Path) -> Path | None:
    """Where a member goes, under the folder; None for one that is left out."""
    names = re.split(r"[/\\]", member.filename)
    if ".." in names or names[0] == "" or _DRIVE.fullmatch(names[0]) or "\0" in member.filename:
        raise InputRefused(f"{path}: {member.filename!r} would lie outside of its folder", "nothing of it was taken")
    names = [name for name in names if name not in ("", ".")]
    left_out = any(name.startswith(".") or name == "__MACOSX" for name in names)
    if left_out or member.is_dir() or stat.S_ISLNK(member.external_attr >> 16):
        return None
    target = Path(*names)
    return target if target.suffix.lower() in SUFFIXES else None


def _one(archive: zipfile.ZipFile, member: zipfile.ZipInfo, path: Path, target: Path, limit: int) -> int:
    """Inflate one member into a new file; its size."""
    where = f"{path}: {member.filename!r}"
    if member.flag_bits & _ENCRYPTED:
        raise InputRefused(f"{where} is encrypted", "unpack it with its password, and give the folder")
    size = 0
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        with archive.open(member) as packed, target.open("xb") as file:
            while block := packed.read(_BLOCK):
                size += len(block)
                if size > limit:
                    raise InputRefused(f"{where} has more than {limit} bytes", "unpack it yourself, and split it")
                file.write(block)
        written = _written(member) or path.stat().st_mtime
        os.utime(target, (written, written))
    except (*_FAULTS, OSError) as error:
        raise _refused(where, error) from None
    return size


def _refused(where: str, error: Exception) -> Exception:
    """A fault of the archive as a refusal; one of the disk as it is."""
    if isinstance(error, OSError) and error.errno not in _FAULT_NUMBERS:
        return error
    return InputRefused(f"{where} cannot be read ({error})", _DAMAGED)


def _written(member: zipfile.ZipInfo) -> float | None:
    """When a member was written, as seconds since 1970; archives do not give the time zone. None: it does not say."""
    try:
        return datetime(*member.date_time, tzinfo=UTC).timestamp() if member.date_time[0] > _NEVER else None
    except ValueError:
        return None
