"""Secrets out of names: of files, folders, sessions and projects, which are kept beside the text.

Two names that held different secrets must not become one: a file would take the place of another, a session that of
another. So what is left of a name is followed by a mark of the whole of it, the same each time:
`[REDACTED:jwt]~3f9a2c41`. The mark is short and slow to make, and tells nothing of a token; whoever has the store could
still try a list of guesses of a password on it.
"""

from __future__ import annotations

import hashlib
from collections import Counter
from functools import lru_cache
from typing import Final

from helix.redact.redact import PLACEHOLDER, redact
from helix.redact.values import regex

_ROUNDS: Final = 2_000  # some milliseconds; a log may have thousands of such names
_SUFFIX: Final = r"\.[A-Za-z0-9]{1,8}\Z"
_ID_FIELDS: Final = (
    r"session|session_?[iI]d|conversation|conversation_?[iI]d|thread_?[iI]d|chat_?[iI]d|composerId|id|uuid|parent_?[uU]uid"
    r"|parent_?[iI]d|parent|message_?[iI]d|turn_?[iI]d|project|project_?[iI]d|cwd|workdir"
)
_FIELD: Final = rf"(\"(?:{_ID_FIELDS})\"\s{{0,4}}:\s{{0,4}}\")([^\"\\]{{1,512}})"
_LONGEST_FIELD: Final = 600  # characters of an id and of the name of its field


@lru_cache(maxsize=4_096)
def redact_name(name: str) -> str:
    """A name without secrets, told from any other by a mark where it held one."""
    clean, found = redact(name)
    return f"{clean}~{_mark(name)}" if found else name


@lru_cache(maxsize=4_096)
def redact_path(path: str) -> str:
    """A path without secrets in the names of its folders and of its file, which keeps its suffix."""
    # Each by itself: a folder's name says nothing of the next one's.
    if not redact("\n".join(path.split("/")))[1]:
        return path
    return "/".join(_of_path(name) for name in path.split("/"))


def redact_log(text: str) -> tuple[str, Counter[str]]:
    """Redact a log in JSON as `redact` does, but keep ids of sessions and turns that held a secret distinct."""
    clean, found = redact(text)
    if found and _is_in_id(clean):
        marked = regex(_FIELD).sub(lambda field: field[1] + redact_path(field[2]), text)
        clean, rest = redact(marked)
        return clean, rest + (found - rest)
    return clean, found


def _is_in_id(clean: str) -> bool:
    """Return whether any placeholder stands in an id."""
    within = regex(rf"\"(?:{_ID_FIELDS})\"\s{{0,4}}:\s{{0,4}}\"[^\"\\]*\Z")
    at = clean.find(PLACEHOLDER)
    while at >= 0:
        if within.search(clean, max(0, at - _LONGEST_FIELD), at):
            return True
        at = clean.find(PLACEHOLDER, at + 1)
    return False


def _of_path(name: str) -> str:
    suffix = regex(_SUFFIX).search(name)
    stem = name[: suffix.start()] if suffix else name
    clean, found = redact(stem)
    if not found and (whole := redact(name))[1]:
        return f"{whole[0]}~{_mark(name)}"
    return f"{clean}~{_mark(name)}{suffix[0] if suffix else ''}" if found else name


def _mark(name: str) -> str:
    return hashlib.pbkdf2_hmac("sha256", name.encode("utf-8", "surrogatepass"), b"helix name", _ROUNDS, 4).hex()
