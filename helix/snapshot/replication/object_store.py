"""Connections to an object store or a shared folder: list, read, write and delete files there.

A remote holds `files/<sha256>` (immutable, named by content), `manifests/<name>` and `CURRENT`, which is replaced last.
So a reader sees the old generation or the new one. `push` and `pull` transfer the files that a manifest names.
"""

from __future__ import annotations

import atexit
import gc
import os
import re
import secrets
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor, as_completed
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, NoReturn, TypeVar
from urllib.parse import parse_qsl, unquote, urlencode, urlsplit

import pyarrow as pa
from pyarrow import fs

from helix.errors import StoreError, UsageError
from helix.snapshot import paths
from helix.util.urls import find_http_url_fault, find_store_url_fault

BLOCK = 1 << 20  # bytes; on S3 also the size of one read request
THREADS = 8
CONNECT, SILENCE, ATTEMPTS = 3.0, 6.0, 3  # seconds to connect, seconds without a byte, attempts of one S3 request
OPTIONS = ("endpoint_override", "scheme", "region")  # of an s3:// URL
BUCKET = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{1,62}")
SECRETS = ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN")
REMEDIES = {  # by a part of the error text of pyarrow or the system, in lower case
    "network_connection": "check endpoint_override, scheme and the network, then run the command again",
    "no_such_bucket": "make the bucket first, or check its name",
    "access_denied": "check AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY and the bucket's policy",
    "access_key_id": "check AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY",
    "signature": "check AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY",
    "http status 301": "name the bucket's region: ?region=…",
    "errno 13": "check the owner and the permissions of the folder",
    "errno 28": "free some space there, then run the command again",
}

S = TypeVar("S")
T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class RemoteStore:
    """An object store or a shared folder. `url` holds no secret. `folder` is None on S3, where every put is atomic."""

    files: Any  # pyarrow.fs.FileSystem
    base: str
    url: str
    folder: Path | None

    def locate(self, name: str) -> str:
        """Return the path of `name` for `files`."""
        return f"{self.base}/{name}"


class MissingFile(Exception):
    """A file does not exist: it was never written, deleted since it was named, or lost."""


def connect(url: str) -> RemoteStore:
    """Connect to the place a URL names. Only a bucket on AWS needs a request: for its region.

    Raises:
        UsageError: not `s3://bucket/prefix`, `file:///folder` or a folder, or it carries credentials.
        StoreError: the bucket's region cannot be found.
    """
    if fault := find_store_url_fault(url, "the URL"):
        raise UsageError(*fault)
    if url and "://" not in url and not url.startswith(("s3:", "file:")):
        return _connect_folder(url)
    remedy = "use s3://bucket/prefix, file:///folder or a folder"
    try:
        parts = urlsplit(url, allow_fragments=False)
    except ValueError:
        raise UsageError("the URL cannot be read", remedy) from None
    if parts.scheme == "file" and parts.netloc in ("", "localhost") and parts.path.startswith("/") and not parts.query:
        return _connect_folder(unquote(parts.path))
    if parts.scheme == "s3":
        options = dict(parse_qsl(parts.query, keep_blank_values=True))
        return _connect_s3(parts.netloc, unquote(parts.path).strip("/"), options)
    raise UsageError(f"no store can be at this {parts.scheme}: URL" if url else "the URL is empty", remedy)


def _connect_folder(name: str) -> RemoteStore:
    path = Path(name).expanduser().absolute()
    return RemoteStore(fs.LocalFileSystem(), str(path), str(path), path)


def _connect_s3(bucket: str, prefix: str, options: dict[str, str]) -> RemoteStore:
    scheme, endpoint = _find_endpoint(bucket, options)
    base = f"{bucket}/{prefix}".rstrip("/")
    remote = RemoteStore(None, base, f"s3://{base}" + (f"?{urlencode(options, safe=':/')}" if options else ""), None)
    _shut_down_at_exit()
    with translate_errors(remote):
        region = options.get("region")
        if not region and not endpoint:
            region = fs.resolve_s3_region(bucket)
        files = fs.S3FileSystem(
            region=region,
            endpoint_override=endpoint or None,
            scheme=scheme,
            connect_timeout=CONNECT,
            request_timeout=SILENCE,
            retry_strategy=fs.AwsStandardS3RetryStrategy(max_attempts=ATTEMPTS),
            allow_delayed_open=True,  # one request a small file instead of three
        )
    return RemoteStore(files, remote.base, remote.url, None)


def _find_endpoint(bucket: str, options: dict[str, str]) -> tuple[str, str]:
    """Return (scheme, endpoint) of an s3:// URL. Messages never repeat a part that may hold a secret."""
    endpoint = options.get("endpoint_override") or os.environ.get("AWS_ENDPOINT_URL_S3") or ""
    endpoint = endpoint or os.environ.get("AWS_ENDPOINT_URL", "")
    scheme, _, endpoint = endpoint.rstrip("/").rpartition("://")
    if "@" in bucket or "@" in endpoint:
        remedy = "set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or use ~/.aws"
        raise UsageError("credentials do not belong in a URL", remedy)
    if not BUCKET.fullmatch(bucket):
        raise UsageError("the s3:// URL does not begin with a bucket's name", "use s3://bucket/prefix")
    if unknown := sorted(set(options) - set(OPTIONS)):
        raise UsageError(f"an s3:// URL has no option {unknown[0]!r}", f"there are {', '.join(OPTIONS)}")
    scheme = options.get("scheme") or scheme or "https"
    if scheme not in ("http", "https"):
        raise UsageError("the option scheme of an s3:// URL is http or https", "leave it out for https")
    setting = "endpoint_override or AWS_ENDPOINT_URL"
    if endpoint and (fault := find_http_url_fault(f"{scheme}://{endpoint}", setting, "127.0.0.1:9000")):
        raise UsageError(*fault)
    return scheme, endpoint


@cache
def _shut_down_at_exit() -> None:
    atexit.register(shut_down)  # runs before pyarrow's own handler, which was registered on import


def shut_down() -> None:
    """Shut S3 down for the rest of the process, if it was used.

    The interpreter's own shutdown can hang (pyarrow 24 and later) while a file system is still referenced.
    """
    gc.collect()
    fs.ensure_s3_finalized()


def check_apart(root: Path, remote: RemoteStore) -> None:
    """Check that store and remote are separate folders.

    Raises:
        UsageError: one contains the other, or `remote` is a store itself.
    """
    if remote.folder is None:
        return
    local, folder = root.resolve(), remote.folder.resolve()
    if local == folder or local in folder.parents or folder in local.parents:
        raise UsageError(f"{remote.url} and the store {root} are not apart", "name a folder outside the store")
    if (folder / "segments").is_dir():
        raise UsageError(
            f"{remote.url} is a store itself, not the result of 'helix push'",
            "name an empty folder, or copy the store as it is",
        )


@contextmanager
def translate_errors(remote: RemoteStore) -> Iterator[None]:
    """Raise errors of the remote as StoreError, without credentials."""
    try:
        yield
    except (OSError, pa.ArrowException) as error:
        fail(remote, "use", error)


def fail(remote: RemoteStore, action: str, error: Exception) -> NoReturn:
    """Raise an error of the remote as a StoreError of one line, without credentials."""
    reason = " ".join(str(error).split()).rstrip(".")
    for variable in SECRETS:
        if len(value := os.environ.get(variable, "")) >= 8:  # a shorter one is a dummy
            reason = reason.replace(value, "…")
    remedies = (remedy for sign, remedy in REMEDIES.items() if sign in reason.lower())
    remedy = next(remedies, "check the URL, then run the command again")
    raise StoreError(f"cannot {action} {remote.url}: {reason}", remedy) from None


def list_files(remote: RemoteStore, folder: str = "", *, recursive: bool = True) -> dict[str, Any]:
    """List the files of the remote or of one folder: FileInfo of pyarrow by name. S3 needs a request per 1,000."""
    base = remote.locate(folder).rstrip("/")
    with translate_errors(remote):
        infos = remote.files.get_file_info(fs.FileSelector(base, recursive=recursive, allow_not_found=True))
    return {info.path[len(remote.base) + 1 :]: info for info in infos if info.type == fs.FileType.File}


def read_blocks(remote: RemoteStore, name: str) -> Iterator[bytes]:
    """Read a file block by block: on S3 one request to find it and one a block.

    Raises:
        MissingFile: it does not exist.
        StoreError: the remote refuses.
    """
    try:
        with remote.files.open_input_stream(remote.locate(name), compression=None) as stream:
            while block := stream.read(BLOCK):
                yield block
    except FileNotFoundError:
        raise MissingFile(f"{remote.url}: {name}") from None
    except (OSError, pa.ArrowException) as error:
        fail(remote, "read", error)


def put_blocks(remote: RemoteStore, name: str, blocks: Iterable[bytes], *, same_folder: bool = False) -> None:
    """Write a file that does not exist yet.

    Args:
        same_folder: keep the unfinished file in the target's folder, where no push removes it.
    """
    if remote.folder:
        with translate_errors(remote):
            target = remote.folder / name
            folder = target.parent if same_folder else remote.folder
            write_blocks(folder / f"{paths.TEMPORARY}{secrets.token_hex(8)}", target, blocks)
            paths.sync_folder(target.parent)
        return
    with translate_errors(remote):
        try:
            with remote.files.open_output_stream(remote.locate(name), compression=None) as stream:
                for block in blocks:
                    stream.write(block)
        except BaseException:  # a task's time limit may end it at any moment
            # A stream cannot be abandoned: closing it published the blocks so far. They are short of the recorded
            # size, so no reader accepts them, but they are deleted anyway.
            with suppress(OSError):
                remote.files.delete_file(remote.locate(name))
            raise


def put_file(remote: RemoteStore, name: str, data: bytes) -> None:
    """Write or replace a small file; concurrent readers get the old one or the new one."""
    with translate_errors(remote):
        if remote.folder:
            make_folder((remote.folder / name).parent)
            paths.write_file(remote.folder / name, data)
            return
        with remote.files.open_output_stream(remote.locate(name), compression=None) as stream:
            stream.write(data)


def delete_file(remote: RemoteStore, name: str) -> None:
    """Delete a file, if it exists."""
    with translate_errors(remote), suppress(FileNotFoundError):
        remote.files.delete_file(remote.locate(name))


def write_blocks(temporary: Path, target: Path, blocks: Iterable[bytes]) -> None:
    """Write a local file whole or not at all, through `temporary` on the same disk. The caller syncs the folder."""
    make_folder(temporary.parent)
    make_folder(target.parent)
    handle = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    try:
        with os.fdopen(handle, "wb") as file:
            file.writelines(blocks)
            file.flush()
            os.fsync(file.fileno())
        temporary.replace(target)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise


def make_folder(folder: Path) -> None:
    """Make a private folder and its missing parents."""
    if not folder.is_dir():
        make_folder(folder.parent)
        folder.mkdir(mode=0o700, exist_ok=True)


def map_parallel(work: Callable[[S], T], things: Iterable[S]) -> list[tuple[S, T]]:
    """Apply `work` to every thing in a few threads; the first failure stops the rest."""
    with ThreadPoolExecutor(THREADS) as pool:
        jobs = {pool.submit(work, thing): thing for thing in things}
        try:
            return [(jobs[job], job.result()) for job in as_completed(jobs)]
        except BaseException:
            pool.shutdown(wait=True, cancel_futures=True)
            raise
