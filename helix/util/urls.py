"""What a URL has to be before anybody connects to it. None is repeated in an error: it may hold a password."""

from __future__ import annotations

import re
from collections.abc import Sequence
from urllib.parse import SplitResult, unquote, urlsplit

from helix.errors import UsageError

_HOST = re.compile(r"(\[[\w:.%-]+\]|[\w.~%-]+)(?::(.*))?")  # a name or an address, and a port

_PLACE = "s3://bucket/prefix, file:///folder or a folder"


def check_web(url: str, name: str, example: str) -> None:
    """Check the address of a server that speaks HTTP, to which paths are added.

    Args:
        name: what the URL was given as, for the error.
        example: one that would do.

    Raises:
        UsageError: it is none.
    """
    parts = _split(url, name, ("http", "https"), example)
    _check_host(parts, name, example)
    if parts.query or parts.fragment:
        raise UsageError(f"{name} has something behind its path", f"give one like {example}")


def check_redis(url: str, name: str) -> None:
    """Check the address of a Redis: a host, or a socket on this machine.

    Raises:
        UsageError: it is none.
    """
    example = "redis://localhost:6379/0"
    parts = _split(url, name, ("redis", "rediss", "redis+socket"), example)
    if parts.scheme == "redis+socket":
        if parts.netloc or not parts.path.strip("/"):
            raise UsageError(f"{name} names no socket", "give one like redis+socket:///run/redis.sock")
        return
    if parts.netloc:  # else it is Redis's usual place
        _check_host(parts, name, example)
    if not re.fullmatch(r"(/[0-9]*)?", parts.path):
        raise UsageError(f"{name} ends with no number of a database", f"give one like {example}")


def check_place(url: str, name: str) -> None:
    """Check where a store may be published: a folder, or a URL of one or of an object store.

    Raises:
        UsageError: it is neither.
    """
    if "://" in url:
        url = unquote(url)
        _split(url, name, ("s3", "file"), _PLACE)
    try:
        known = b"\0" not in url.encode()
    except UnicodeEncodeError:  # half a character, which only a name of a file can have
        known = False
    if not known:
        raise UsageError(f"{name} has characters that no name of a folder may have", f"give one like {_PLACE}")


def _split(url: str, name: str, schemes: Sequence[str], example: str) -> SplitResult:
    remedy = f"give one like {example}"
    if not url.isprintable() or url != url.strip():
        raise UsageError(f"{name} has characters that no URL may have", remedy)
    try:
        parts = urlsplit(url)
    except ValueError:  # half a pair of brackets, or no address in them
        raise UsageError(f"{name} is no URL", remedy) from None
    if parts.scheme not in schemes:
        raise UsageError(f"{name} is no URL that begins with {'://, '.join(schemes)}://", remedy)
    return parts


def _check_host(parts: SplitResult, name: str, example: str) -> None:
    remedy = f"give one like {example}"
    found = _HOST.fullmatch(parts.netloc.rpartition("@")[2])
    try:
        (parts.hostname or "").encode("idna")  # no part of it is empty or too long
    except UnicodeError:
        found = None
    if not found:
        raise UsageError(f"{name} names no host", remedy)
    port = found[2]
    if port and not (re.fullmatch(r"[0-9]{1,5}", port) and 0 < int(port) < 1 << 16):
        raise UsageError(f"{name} has a port that is no number from 1 to 65535", remedy)
