"""Redaction of names: of files, folders, sessions and projects, which are stored next to the text.

Two names with different secrets must stay two names: otherwise one file or session would replace another. So a redacted
name ends in a short hash of the whole name, the same each time: `[REDACTED:jwt]~3f9a2c41`. The hash is slow to compute
and reveals nothing of a token. A password short enough to guess can be guessed with it by a reader of the store.
"""

from __future__ import annotations

import hashlib
from collections import Counter
from functools import lru_cache
from typing import Final

from helix.redact.redact import PLACEHOLDER, redact
from helix.redact.values import regex

_ROUNDS: Final = 2_000  # a few milliseconds; a log may have thousands of such names
_SUFFIX: Final = r"\.[A-Za-z0-9]{1,8}\Z"
_ID_FIELDS: Final = (
    r"session|session_?[iI]d|conversation|conversation_?[iI]d|thread_?[iI]d|chat_?[iI]d|composerId|id|uuid|parent_?[uU]uid"
    r"|parent_?[iI]d|parent|message_?[iI]d|turn_?[iI]d|project|project_?[iI]d|cwd|workdir"
)
_FIELD: Final = rf"(\"(?:{_ID_FIELDS})\"\s{{0,4}}:\s{{0,4}}\")([^\"\\]{{1,512}})"
_LONGEST_FIELD: Final = 600  # characters of an id with the name of its field


@lru_cache(maxsize=4_096)
def redact_name(name: str) -> str:
    """Return a name without secrets, with a hash if it held one."""
    clean, counts = redact(name)
    return f"{clean}~{_hash_name(name)}" if counts else name


@lru_cache(maxsize=4_096)
def redact_path(path: str) -> str:
    """Return a path without secrets in the names of its folders and file; the suffix stays."""
    # Each on a line of its own: a folder's name says nothing about the next.
    if not redact("\n".join(path.split("/")))[1]:
        return path
    return "/".join(_redact_file_name(name) for name in path.split("/"))


def redact_log(text: str) -> tuple[str, Counter[str]]:
    """Redact a JSON log as `redact` does, but keep the ids of sessions and turns distinct."""
    clean, counts = redact(text)
    if counts and _has_placeholder_in_id(clean):
        marked = regex(_FIELD).sub(lambda field: field[1] + redact_path(field[2]), text)
        clean, rest = redact(marked)
        return clean, rest + (counts - rest)
    return clean, counts


def _has_placeholder_in_id(clean: str) -> bool:
    """Return whether any placeholder is inside an id."""
    within = regex(rf"\"(?:{_ID_FIELDS})\"\s{{0,4}}:\s{{0,4}}\"[^\"\\]*\Z")
    at = clean.find(PLACEHOLDER)
    while at >= 0:
        if within.search(clean, max(0, at - _LONGEST_FIELD), at):
            return True
        at = clean.find(PLACEHOLDER, at + 1)
    return False


def _redact_file_name(name: str) -> str:
    suffix = regex(_SUFFIX).search(name)
    stem = name[: suffix.start()] if suffix else name
    clean, counts = redact(stem)
    if not counts and (whole := redact(name))[1]:
        return f"{whole[0]}~{_hash_name(name)}"
    return f"{clean}~{_hash_name(name)}{suffix[0] if suffix else ''}" if counts else name


def _hash_name(name: str) -> str:
    return hashlib.pbkdf2_hmac("sha256", name.encode("utf-8", "surrogatepass"), b"helix name", _ROUNDS, 4).hex()
