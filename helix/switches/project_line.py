"""The project's own switch: the line `helix: off` in a file that its agents read.

The line is alone on its line, in any letter case, after a list's dash or in an HTML comment. The files are in the
folder of the session or above it, up to the top of its repository; without one, up to the home folder. A hook imports
this module while an agent waits, so it imports next to nothing.
"""

from __future__ import annotations

import os
import stat
from contextlib import suppress

FILES = ("AGENTS.md", "CLAUDE.md", "GEMINI.md", ".helix")
_MOST = 1 << 16  # bytes of a file that are read
_DEEPEST = 64  # folders that are looked at


def find_line(folder: str) -> str:
    """Return the path of the file that switches a folder off; empty for none."""
    return next((path for above in _list_folders(folder) for name in FILES if _has_line(path := f"{above}/{name}")), "")


def _list_folders(folder: str) -> list[str]:
    """List a folder and those above it, up to the top of its repository, else up to the home folder."""
    at = folder.rstrip("/")
    if not os.path.isabs(at) or "\0" in at or not os.path.isdir(at):  # noqa: PTH112, PTH117
        return []
    home = os.path.expanduser("~").rstrip("/")  # noqa: PTH111
    folders: list[str] = []
    while at and len(folders) < _DEEPEST:
        folders.append(at)
        if at == home or os.path.exists(f"{at}/.git"):  # noqa: PTH110
            return folders
        at = os.path.dirname(at).rstrip("/")  # noqa: PTH120
    return folders[:1]  # no project's top is known: files of shared folders do not count


def _has_line(path: str) -> bool:
    with suppress(OSError):
        handle = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
        try:
            if not stat.S_ISREG(os.fstat(handle).st_mode):
                return False
            data = os.read(handle, _MOST)
        finally:
            os.close(handle)
        lines = data.splitlines()
        if len(data) == _MOST:  # the last line may be cut
            lines = lines[:-1]
        return any(map(_is_switch, lines))
    return False


def _is_switch(line: bytes) -> bool:
    text = line.removeprefix(b"\xef\xbb\xbf").strip().lower()
    if not text.endswith((b"off", b"-->")) or b"helix" not in text:
        return False
    if text[:2] in (b"- ", b"* "):
        text = text[2:].strip()
    if text.startswith(b"<!--") and text.endswith(b"-->"):
        text = text[4:-3].strip()
    name, colon, value = text.partition(b":")
    return bool(colon) and name.strip() == b"helix" and value.strip() == b"off"
