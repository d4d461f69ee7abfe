"""Faults of a URL, found before anything connects to it. No message repeats the URL: it may hold a password."""

from __future__ import annotations

import re
from collections.abc import Sequence
from urllib.parse import SplitResult, unquote, urlsplit

Fault = tuple[str, str]
"""(what is wrong, the remedy), the arguments of a `helix.errors.UsageError`."""

_HOST = re.compile(r"(\[[\w:.%-]+\]|[\w.~%-]+)(?::(.*))?")  # a name or an address, and a port
_STORE_EXAMPLE = "s3://bucket/prefix, file:///folder or a folder"


def find_http_url_fault(url: str, name: str, example: str) -> Fault | None:
    """Return the fault of the address of an HTTP server, to which paths are added.

    Args:
        name: the option or setting that held the URL.
        example: a URL without a fault.
    """
    parts = _split(url, name, ("http", "https"), example)
    if not isinstance(parts, SplitResult):
        return parts
    has_more = parts.query or parts.fragment
    return _find_host_fault(parts, name, example) or (
        (f"{name} has a query or a fragment", f"give one like {example}") if has_more else None
    )


def find_redis_url_fault(url: str, name: str) -> Fault | None:
    """Return the fault of the address of a Redis server: a host, or a socket on this machine."""
    example = "redis://localhost:6379/0"
    parts = _split(url, name, ("redis", "rediss", "redis+socket"), example)
    if not isinstance(parts, SplitResult):
        return parts
    if parts.scheme == "redis+socket":
        has_path = not parts.netloc and parts.path.strip("/")
        return None if has_path else (f"{name} names no socket", "give one like redis+socket:///run/redis.sock")
    if parts.netloc and (fault := _find_host_fault(parts, name, example)):  # without a host, clients use localhost
        return fault
    if not re.fullmatch(r"(/[0-9]*)?", parts.path):
        return f"{name} has a path that is no number of a database", f"give one like {example}"
    return None


def find_store_url_fault(url: str, name: str) -> Fault | None:
    """Return the fault of the place of a published store: a folder, or the URL of a folder or an object store."""
    if "://" in url:
        url = unquote(url)
        parts = _split(url, name, ("s3", "file"), _STORE_EXAMPLE)
        if not isinstance(parts, SplitResult):
            return parts
    try:
        is_valid = b"\0" not in url.encode()
    except UnicodeEncodeError:  # a lone surrogate, which only a file's name can hold
        is_valid = False
    fault = f"{name} has characters that a folder's name cannot have", f"give one like {_STORE_EXAMPLE}"
    return None if is_valid else fault


def _split(url: str, name: str, schemes: Sequence[str], example: str) -> SplitResult | Fault:
    remedy = f"give one like {example}"
    if not url.isprintable() or url != url.strip():
        return f"{name} has characters that a URL cannot have", remedy
    try:
        parts = urlsplit(url)
    except ValueError:  # one bracket without the other, or no address between them
        return f"{name} is no URL", remedy
    if parts.scheme not in schemes:
        return f"{name} is no URL that begins with {'://, '.join(schemes)}://", remedy
    return parts


def _find_host_fault(parts: SplitResult, name: str, example: str) -> Fault | None:
    remedy = f"give one like {example}"
    host = _HOST.fullmatch(parts.netloc.rpartition("@")[2])
    try:
        (parts.hostname or "").encode("idna")  # no label is empty or too long
    except UnicodeError:
        host = None
    if not host:
        return f"{name} names no host", remedy
    port = host[2]
    if port and not (re.fullmatch(r"[0-9]{1,5}", port) and 0 < int(port) < 1 << 16):
        return f"{name} has a port that is no number from 1 to 65535", remedy
    return None
