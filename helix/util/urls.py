"""Checks of a URL before anything connects to it. No error repeats the URL: it may hold a password."""

from __future__ import annotations

import re
from collections.abc import Sequence
from urllib.parse import SplitResult, unquote, urlsplit

from helix.errors import UsageError

_HOST = re.compile(r"(\[[\w:.%-]+\]|[\w.~%-]+)(?::(.*))?")  # a name or an address, and a port

_STORE_EXAMPLE = "s3://bucket/prefix, file:///folder or a folder"


def check_http_url(url: str, name: str, example: str) -> None:
    """Check the address of an HTTP server, to which paths are added.

    Args:
        name: the option or setting that held the URL, for the error.
        example: a URL that would pass.

    Raises:
        UsageError: the URL does not pass.
    """
    parts = _split(url, name, ("http", "https"), example)
    _check_host(parts, name, example)
    if parts.query or parts.fragment:
        raise UsageError(f"{name} has a query or a fragment", f"give one like {example}")


def check_redis_url(url: str, name: str) -> None:
    """Check the address of a Redis server: a host, or a socket on this machine.

    Raises:
        UsageError: the URL does not pass.
    """
    example = "redis://localhost:6379/0"
    parts = _split(url, name, ("redis", "rediss", "redis+socket"), example)
    if parts.scheme == "redis+socket":
        if parts.netloc or not parts.path.strip("/"):
            raise UsageError(f"{name} names no socket", "give one like redis+socket:///run/redis.sock")
        return
    if parts.netloc:  # without a host, clients use localhost
        _check_host(parts, name, example)
    if not re.fullmatch(r"(/[0-9]*)?", parts.path):
        raise UsageError(f"{name} has a path that is no number of a database", f"give one like {example}")


def check_store_url(url: str, name: str) -> None:
    """Check the place of a published store: a folder, or the URL of a folder or of an object store.

    Raises:
        UsageError: the URL does not pass.
    """
    if "://" in url:
        url = unquote(url)
        _split(url, name, ("s3", "file"), _STORE_EXAMPLE)
    try:
        is_valid = b"\0" not in url.encode()
    except UnicodeEncodeError:  # a lone surrogate, which only a file's name can hold
        is_valid = False
    if not is_valid:
        raise UsageError(f"{name} has characters that a folder's name cannot have", f"give one like {_STORE_EXAMPLE}")


def _split(url: str, name: str, schemes: Sequence[str], example: str) -> SplitResult:
    remedy = f"give one like {example}"
    if not url.isprintable() or url != url.strip():
        raise UsageError(f"{name} has characters that a URL cannot have", remedy)
    try:
        parts = urlsplit(url)
    except ValueError:  # one bracket without the other, or no address between them
        raise UsageError(f"{name} is no URL", remedy) from None
    if parts.scheme not in schemes:
        raise UsageError(f"{name} is no URL that begins with {'://, '.join(schemes)}://", remedy)
    return parts


def _check_host(parts: SplitResult, name: str, example: str) -> None:
    remedy = f"give one like {example}"
    host = _HOST.fullmatch(parts.netloc.rpartition("@")[2])
    try:
        (parts.hostname or "").encode("idna")  # no label is empty or too long
    except UnicodeError:
        host = None
    if not host:
        raise UsageError(f"{name} names no host", remedy)
    port = host[2]
    if port and not (re.fullmatch(r"[0-9]{1,5}", port) and 0 < int(port) < 1 << 16):
        raise UsageError(f"{name} has a port that is no number from 1 to 65535", remedy)
