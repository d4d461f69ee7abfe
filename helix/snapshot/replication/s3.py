"""A bucket of an S3 server, through obstore: requests are retried with growing, random delays, within bounds."""

from __future__ import annotations

import configparser
import os
import urllib.error
import urllib.request
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from datetime import timedelta
from functools import lru_cache
from itertools import chain
from pathlib import Path
from typing import Any, Final

from helix.errors import UsageError

CONNECT, SILENCE, PATIENCE = 3.0, 6.0, 30.0  # seconds: to connect; without a byte of an answer; to send a part
RETRIES, RETRY_FOR = 8, 20.0  # of one request: how often, and for how many seconds
FIRST_DELAY, LONGEST_DELAY = 0.1, 4.0  # seconds before a retry: drawn at random between the first and a growing bound
BLOCK: Final = 1 << 20  # bytes of a block that is read
PART: Final = 8 << 20  # bytes; a longer object is sent in parts of this size

_ENVIRONMENT: Final = ("AWS_CONTAINER_CREDENTIALS_RELATIVE_URI", "AWS_CONTAINER_CREDENTIALS_FULL_URI", "AWS_ROLE_ARN")
_KEYS: Final = {
    "access_key_id": "aws_access_key_id",
    "secret_access_key": "aws_secret_access_key",
    "token": "aws_session_token",
}
_OTHER_WAYS: Final = ("role_arn", "sso_session", "sso_start_url", "credential_process", "login_session")


class Moved(Exception):
    """An object that was replaced since it was read."""


@dataclass(frozen=True, slots=True)
class Bucket:
    """The objects of a bucket whose names begin with a prefix: `reads` gives up a silent server sooner."""

    reads: Any  # obstore.store.S3Store
    writes: Any


@dataclass(frozen=True, slots=True)
class ListedObject:
    """An object of a list."""

    size: int  # bytes
    modified: float  # seconds, by the server's clock


def open_bucket(bucket: str, prefix: str, endpoint: str | None, region: str | None) -> Bucket:
    """Open a bucket. Connections are kept for the next call with the same environment.

    Args:
        endpoint: a URL; None: AWS.
        region: None: on AWS one request finds it.

    Raises:
        UsageError: obstore is not installed, or the credentials of a profile need another program.
        OSError: the region cannot be found.
    """
    environment = tuple(
        sorted((name, value) for name, value in os.environ.items() if name.startswith(("AWS_", "HOME")))
    )
    return _open_bucket(bucket, prefix, endpoint, region, environment)


@lru_cache(maxsize=64)
def _open_bucket(bucket: str, prefix: str, endpoint: str | None, region: str | None, _environment: object) -> Bucket:
    try:
        from obstore.store import S3Store
    except ImportError:
        raise UsageError("s3:// needs the package obstore", "install it: pip install 'helix-recall[s3]'") from None
    config: dict[str, Any] = {"disable_bulk_delete": True}  # every server knows DELETE, and it is repeated if it fails
    config["region"] = region or (_find_region(bucket) if endpoint is None else "us-east-1")
    if endpoint is not None:
        config["endpoint"] = endpoint
    keys, provider = find_credentials(os.environ)

    def connect(silence: float) -> Any:
        """Return a client that gives up after `silence` seconds without a byte."""
        return S3Store(
            bucket,
            prefix=prefix or None,
            config={**config, **keys},
            credential_provider=provider,
            client_options={
                "allow_http": endpoint is not None and endpoint.startswith("http:"),
                "connect_timeout": timedelta(seconds=CONNECT),
                "read_timeout": timedelta(seconds=silence),
                "timeout": timedelta(hours=12),  # of a whole object; silence ends it sooner
            },
            retry_config={
                "max_retries": RETRIES,
                "retry_timeout": timedelta(seconds=RETRY_FOR),
                "backoff": {
                    "init_backoff": timedelta(seconds=FIRST_DELAY),
                    "max_backoff": timedelta(seconds=LONGEST_DELAY),
                    "base": 2,
                },
            },
        )

    return Bucket(connect(SILENCE), connect(PATIENCE))


def _find_region(bucket: str) -> str:
    """Return the region of a bucket on AWS, which even a refusal names."""
    request = urllib.request.Request(f"https://s3.amazonaws.com/{bucket}", method="HEAD")
    try:
        with urllib.request.urlopen(request, timeout=CONNECT + SILENCE) as answer:
            region = answer.headers.get("x-amz-bucket-region")
    except urllib.error.HTTPError as refusal:
        region = refusal.headers.get("x-amz-bucket-region")
        if not region and refusal.code == 404:
            raise OSError("NoSuchBucket: the bucket does not exist") from None
    return region or "us-east-1"


# ------------------------------------------------------------ credentials


def find_credentials(environ: Mapping[str, str]) -> tuple[dict[str, str], Callable[[], Any] | None]:
    """Return (keys, provider) for obstore, which itself reads the environment and asks the machine's metadata server.

    A profile of ~/.aws gives keys; one that needs a program or a login is left to boto3, if that is installed.

    Raises:
        UsageError: it is not.
    """
    if environ.get("AWS_ACCESS_KEY_ID") or any(environ.get(name) for name in _ENVIRONMENT):
        return {}, None
    section = _read_profile(environ)
    if section.get(_KEYS["access_key_id"]) and section.get(_KEYS["secret_access_key"]):
        return {key: section[name] for key, name in _KEYS.items() if section.get(name)}, None
    if not any(section.get(name) for name in _OTHER_WAYS):
        return {}, None
    try:
        from obstore.auth.boto3 import Boto3CredentialProvider
    except ImportError:
        raise UsageError(
            "the AWS profile has no keys, but a way to get some that needs boto3",
            'install boto3, or export keys first: eval "$(aws configure export-credentials --format env)"',
        ) from None
    return {}, Boto3CredentialProvider()


def _read_profile(environ: Mapping[str, str]) -> dict[str, str]:
    """Read a profile of ~/.aws; keys of `credentials` count before those of `config`."""
    name = environ.get("AWS_PROFILE") or environ.get("AWS_DEFAULT_PROFILE") or "default"
    home = Path(environ.get("HOME", "~")).expanduser() / ".aws"
    found: dict[str, str] = {}
    for path, section in (
        (environ.get("AWS_CONFIG_FILE") or home / "config", name if name == "default" else f"profile {name}"),
        (environ.get("AWS_SHARED_CREDENTIALS_FILE") or home / "credentials", name),
    ):
        parser = configparser.RawConfigParser()
        with suppress(OSError, configparser.Error, UnicodeDecodeError):
            parser.read_string(Path(path).expanduser().read_text("utf-8"))
        if parser.has_section(section):
            found |= {key: value.strip() for key, value in parser.items(section)}
    return found


# ------------------------------------------------------------ objects


def list_objects(bucket: Bucket, folder: str, *, recursive: bool) -> dict[str, ListedObject]:
    """List objects by name: one request a thousand."""
    import obstore

    prefix = folder or None
    if recursive:
        found = [entry for page in obstore.list(bucket.reads, prefix, chunk_size=1_000) for entry in page]
    else:
        found = list(obstore.list_with_delimiter(bucket.reads, prefix)["objects"])
    return {entry["path"]: ListedObject(int(entry["size"]), entry["last_modified"].timestamp()) for entry in found}


def list_folders(bucket: Bucket, folder: str) -> list[str]:
    """List the names that end in `/` right below a folder, without what comes before and after."""
    import obstore

    found = obstore.list_with_delimiter(bucket.reads, folder or None)["common_prefixes"]
    return sorted(name.rstrip("/").rpartition("/")[2] for name in found)


def read_size(bucket: Bucket, name: str) -> int:
    """Return the bytes of an object, by one request."""
    import obstore

    return int(obstore.head(bucket.reads, name)["size"])


def read_blocks(bucket: Bucket, name: str) -> Iterator[bytes]:
    """Read an object block by block, by one request; a broken answer is continued where it ended."""
    import obstore

    for block in obstore.get(bucket.reads, name).stream(min_chunk_size=BLOCK):
        yield bytes(block)


def read_tagged(bucket: Bucket, name: str, known: str = "") -> tuple[bytes, str] | None:
    """Read a small object and the tag of its last write; None if that is the known one."""
    import obstore
    from obstore.exceptions import NotModifiedError

    try:
        found = obstore.get(bucket.reads, name, options={"if_none_match": known} if known else {})
        return bytes(found.bytes()), str(found.meta["e_tag"] or "")
    except NotModifiedError:
        return None


def write_blocks(bucket: Bucket, name: str, blocks: Iterable[bytes]) -> None:
    """Write an object whole or not at all: by one request, or in parts, which an error gives up."""
    import obstore

    rest, head, size = iter(blocks), list[bytes](), 0
    for block in rest:
        head.append(block)
        size += len(block)
        if size > PART:
            parts = chain(head, rest)
            obstore.put(bucket.writes, name, parts, use_multipart=True, chunk_size=PART, max_concurrency=1)
            return
    write_object(bucket, name, b"".join(head))


def write_object(bucket: Bucket, name: str, data: bytes) -> None:
    """Write or replace an object, by one request."""
    import obstore

    obstore.put(bucket.writes, name, data, use_multipart=False)


def replace_object(bucket: Bucket, name: str, data: bytes, tag: str) -> str:
    """Replace an object unless it was written since its tag was read; return the new tag.

    The server decides, by If-Match or, for an object that did not exist, If-None-Match.

    Args:
        data: unlike any other write of this object, so that a repeated request is known for its own.
        tag: empty: the object did not exist.

    Raises:
        Moved: it was written.
    """
    import obstore
    from obstore.exceptions import AlreadyExistsError, PreconditionError

    try:
        done = obstore.put(bucket.reads, name, data, use_multipart=False, mode={"e_tag": tag} if tag else "create")
        return str(done["e_tag"] or "")
    except (AlreadyExistsError, PreconditionError):
        with suppress(FileNotFoundError):
            found = read_tagged(bucket, name)
            if found and found[0] == data:  # the answer to the first attempt was lost
                return found[1]
        raise Moved(name) from None


def delete_object(bucket: Bucket, name: str) -> None:
    """Delete an object, if it exists."""
    import obstore

    with suppress(FileNotFoundError):
        obstore.delete(bucket.writes, name)
