"""Safe extraction of the text files of a zip archive, the form of many chat exports.

A header can lie. Sizes are counted while a member is inflated, never read from its header. A member whose name leaves
the folder refuses the whole archive. Links are not followed and not created. Only names of text files are extracted:
not pictures, nor the HTML copy of the conversations, nor hidden files.
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
"""Suffixes of the members that are extracted."""

MAX_MEMBERS: Final = 200_000  # a workspace of hundreds of channels has a file per channel and day

_MAGIC: Final = (b"PK\x03\x04", b"PK\x05\x06")  # a first member; an archive without any
_BLOCK: Final = 1 << 20
_LIST_BYTES: Final = 1 << 25  # of the list of members
_NO_TIME: Final = 1980  # the year of members without a time
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


class _BoundedFile(io.BufferedReader):
    """A file with a limit on one read: `zipfile` reads the whole list of members at once."""

    def read(self, size: int | None = -1, /) -> bytes:
        wanted = _LIST_BYTES + 1 if size is None or size < 0 else size
        data = super().read(min(wanted, _LIST_BYTES + 1))
        if len(data) > _LIST_BYTES:
            raise zipfile.BadZipFile("too many members")
        return data


def is_archive(path: Path) -> bool:
    """Return whether a file is a zip archive, by its content."""
    try:
        with path.open("rb") as file:
            return file.read(4) in _MAGIC
    except OSError:
        return False


def unpack(path: Path, folder: Path, limit: int, total: int) -> None:
    """Extract the text files of an archive into a folder, under their own names and times.

    After a refusal the caller deletes the folder.

    Args:
        limit: bytes of one member, inflated.
        total: bytes of all members, inflated.

    Raises:
        InputRefused: too large, encrypted, damaged, or written to do harm; no text file in it.
    """
    try:
        with _BoundedFile(io.FileIO(path)) as file, zipfile.ZipFile(file) as archive:
            _extract_members(archive, path, folder, limit, total)
    except (*_FAULTS, OSError) as error:
        raise _explain(str(path), error) from None


def _extract_members(archive: zipfile.ZipFile, path: Path, folder: Path, limit: int, total: int) -> None:
    members = archive.infolist()
    if len(members) > MAX_MEMBERS:
        raise InputRefused(f"{path}: {len(members)} members; at most {MAX_MEMBERS} are allowed", "unpack it yourself")
    targets: set[Path] = set()
    for member in members:
        target = _find_target(member, path)
        if target is None:
            continue
        if target in targets:
            raise InputRefused(f"{path}: {member.filename!r} is in it twice", _DAMAGED)
        targets.add(target)
        total -= _extract(archive, member, path, folder / target, min(limit, total))
    if not targets:
        raise InputRefused(f"{path}: nothing in it is text", f"names must end in one of {', '.join(sorted(SUFFIXES))}")


def _find_target(member: zipfile.ZipInfo, path: Path) -> Path | None:
    """Return the path of a member under the folder; None for one that is not extracted."""
    names = re.split(r"[/\\]", member.filename)
    if ".." in names or names[0] == "" or _DRIVE.fullmatch(names[0]) or "\0" in member.filename:
        raise InputRefused(f"{path}: {member.filename!r} leads outside of its folder", "nothing of it was extracted")
    names = [name for name in names if name not in ("", ".")]
    is_hidden = any(name.startswith(".") or name == "__MACOSX" for name in names)
    if is_hidden or member.is_dir() or stat.S_ISLNK(member.external_attr >> 16):
        return None
    target = Path(*names)
    return target if target.suffix.lower() in SUFFIXES else None


def _extract(archive: zipfile.ZipFile, member: zipfile.ZipInfo, path: Path, target: Path, limit: int) -> int:
    """Inflate one member into a new file, and return its size in bytes."""
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
        mtime = _read_mtime(member) or path.stat().st_mtime
        os.utime(target, (mtime, mtime))
    except (*_FAULTS, OSError) as error:
        raise _explain(where, error) from None
    return size


def _explain(where: str, error: Exception) -> Exception:
    """Return a refusal for a fault of the archive; a fault of the disk as it is."""
    if isinstance(error, OSError) and error.errno not in _FAULT_NUMBERS:
        return error
    return InputRefused(f"{where} cannot be read ({error})", _DAMAGED)


def _read_mtime(member: zipfile.ZipInfo) -> float | None:
    """Return a member's time in seconds since 1970, read as UTC: archives have no time zone. None: no time."""
    try:
        return datetime(*member.date_time, tzinfo=UTC).timestamp() if member.date_time[0] > _NO_TIME else None
    except ValueError:
        return None
