"""Connections to an object store or a shared folder: list, read, write and delete files there.

A remote holds `files/<sha256>` (immutable, named by content), `manifests/<name>` and `CURRENT`, which is replaced last,
and only if no other push has replaced it since it was read. So a reader sees the old generation or the new one, and of
two pushes at once one wins. `push` and `pull` transfer the files that a manifest names. A list is a hint: it may lack
files and name deleted ones.
"""

from __future__ import annotations

import fcntl
import os
import re
import secrets
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor, as_completed
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Final, NoReturn, TypeVar
from urllib.parse import parse_qsl, unquote, urlencode, urlsplit

from helix.errors import StoreError, UsageError
from helix.snapshot import paths
from helix.snapshot.replication import s3
from helix.snapshot.replication.s3 import Bucket, ListedObject, Moved
from helix.util.urls import find_http_url_fault, find_store_url_fault

BLOCK = 1 << 20  # bytes
THREADS = 8
OPTIONS = ("endpoint_override", "scheme", "region")  # of an s3:// URL
BUCKET = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{1,62}")
SECRETS = ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN")
REMEDIES = {  # by a part of the error text of the server or the system, in lower case
    "nosuchbucket": "make the bucket first, or check its name",
    "accessdenied": "check AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY and the bucket's policy",
    "accesskeyid": "check AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY",
    "signaturedoesnotmatch": "check AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY",
    "169.254.": "set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or use ~/.aws",
    "requesttimetooskewed": "set this machine's clock: the server refuses requests that are signed at another time",
    "requestexpired": "set this machine's clock: the server refuses requests that are signed at another time",
    "permanentredirect": "name the bucket's region: ?region=…",
    "301 moved": "name the bucket's region: ?region=…",
    "slowdown": "the server asks for fewer requests: wait a moment, then run the command again",
    "http error": "check endpoint_override, scheme and the network, then run the command again",
    "errno 13": "check the owner and the permissions of the folder",
    "errno 28": "free some space there, then run the command again",
    "errno 37": "the folder's file system has no locks: mount it with them, or use an object store",
}
LOCK: Final = ".lock"  # of a shared folder: held while a pointer is replaced

_CODE: Final = re.compile(r"<Code>([^<]*)</Code>(?:.*?<Message>([^<]*)</Message>)?", re.DOTALL)

S = TypeVar("S")
T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class RemoteStore:
    """An object store or a shared folder. `url` holds no secret. One of `folder` and `bucket` is None."""

    url: str
    folder: Path | None
    bucket: Bucket | None

    @property
    def objects(self) -> Bucket:
        """The bucket, where every put is atomic."""
        if self.bucket is None:
            raise TypeError(f"{self.url} is a folder")
        return self.bucket


@dataclass(frozen=True, slots=True)
class Pointer:
    """A small file that is replaced on a condition: its bytes, and on S3 the tag of its last write."""

    data: bytes
    tag: str


class MissingFile(Exception):
    """A file does not exist: it was never written, deleted since it was named, or lost."""


class Overtaken(Exception):
    """A pointer was replaced by another process since it was read."""


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
    return RemoteStore(str(path), path, None)


def _connect_s3(bucket: str, prefix: str, options: dict[str, str]) -> RemoteStore:
    scheme, endpoint = _find_endpoint(bucket, options)
    base = f"{bucket}/{prefix}".rstrip("/")
    remote = RemoteStore(f"s3://{base}" + (f"?{urlencode(options, safe=':/')}" if options else ""), None, None)
    with translate_errors(remote):
        address = f"{scheme}://{endpoint}" if endpoint else None
        return RemoteStore(remote.url, None, s3.open_bucket(bucket, prefix, address, options.get("region")))


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
    except OSError as error:
        fail(remote, "use", error)
    except Exception as error:
        if not type(error).__module__.startswith("obstore"):
            raise
        fail(remote, "use", error)


def fail(remote: RemoteStore, action: str, error: Exception) -> NoReturn:
    """Raise an error of the remote as a StoreError of one line, without credentials."""
    whole = str(error)
    first = " ".join(whole.partition("\n\nDebug source")[0].partition("<?xml")[0].split()).rstrip(".: ")
    code = _CODE.search(whole)
    reason = first if code is None else f"{first}: {code[1]}" + (f" ({code[2]})" if code[2] else "")
    for variable in SECRETS:
        if len(value := os.environ.get(variable, "")) >= 8:  # a shorter one is a dummy
            reason = reason.replace(value, "…")
    remedies = (remedy for sign, remedy in REMEDIES.items() if sign in reason.lower())
    remedy = next(remedies, "check the URL, then run the command again")
    raise StoreError(f"cannot {action} {remote.url}: {reason}", remedy) from None


@contextmanager
def _find_missing(remote: RemoteStore, name: str) -> Iterator[None]:
    """Raise MissingFile for a file that does not exist; of a bucket that does not exist, StoreError."""
    with translate_errors(remote):
        try:
            yield
        except FileNotFoundError as error:
            if "NoSuchBucket" in str(error):
                raise
            raise MissingFile(f"{remote.url}: {name}") from None


def list_files(remote: RemoteStore, folder: str = "", *, recursive: bool = True) -> dict[str, ListedObject]:
    """List the files of the remote or of one folder by name; a hint. S3 needs a request per 1,000."""
    with translate_errors(remote):
        if remote.folder is None:
            return s3.list_objects(remote.objects, folder, recursive=recursive)
        found, base = dict[str, ListedObject](), remote.folder / folder
        for path in base.rglob("*") if recursive else base.glob("*"):
            with suppress(FileNotFoundError):  # just deleted
                info = path.stat()
                if path.is_file():
                    found[str(path.relative_to(remote.folder))] = ListedObject(info.st_size, info.st_mtime)
        return found


def list_folders(remote: RemoteStore) -> list[str]:
    """List the names of the remote's folders; a hint."""
    with translate_errors(remote):
        if remote.folder is None:
            return s3.list_folders(remote.objects, "")
        return sorted(path.name for path in remote.folder.glob("*") if path.is_dir())


def read_size(remote: RemoteStore, name: str) -> int | None:
    """Return the bytes of a file, by one request; None if it does not exist."""
    with suppress(MissingFile), _find_missing(remote, name):
        return (remote.folder / name).stat().st_size if remote.folder else s3.read_size(remote.objects, name)
    return None


def read_blocks(remote: RemoteStore, name: str) -> Iterator[bytes]:
    """Read a file block by block, from S3 by one request.

    Raises:
        MissingFile: it does not exist.
        StoreError: the remote refuses.
    """
    with _find_missing(remote, name):
        if remote.folder is None:
            yield from s3.read_blocks(remote.objects, name)
            return
        with (remote.folder / name).open("rb") as file:
            while block := file.read(BLOCK):
                yield block


def put_blocks(remote: RemoteStore, name: str, blocks: Iterable[bytes], *, same_folder: bool = False) -> None:
    """Write a file whole or not at all.

    Args:
        same_folder: keep the unfinished file in the target's folder, where no push removes it.
    """
    with translate_errors(remote):
        if remote.folder is None:
            s3.write_blocks(remote.objects, name, blocks)
            return
        target = remote.folder / name
        folder = target.parent if same_folder else remote.folder
        write_blocks(folder / f"{paths.TEMPORARY}{secrets.token_hex(8)}", target, blocks)
        paths.sync_folder(target.parent)


def put_file(remote: RemoteStore, name: str, data: bytes) -> None:
    """Write or replace a small file; concurrent readers get the old one or the new one."""
    with translate_errors(remote):
        if remote.folder is None:
            s3.write_object(remote.objects, name, data)
            return
        make_folder((remote.folder / name).parent)
        paths.write_file(remote.folder / name, data)


def delete_file(remote: RemoteStore, name: str) -> None:
    """Delete a file, if it exists."""
    with translate_errors(remote):
        if remote.folder is None:
            s3.delete_object(remote.objects, name)
        else:
            (remote.folder / name).unlink(missing_ok=True)


# ------------------------------------------------------------ pointers


def read_pointer(remote: RemoteStore, name: str) -> Pointer | None:
    """Read a pointer; None if it does not exist."""
    return read_newer_pointer(remote, name, None)


def read_newer_pointer(remote: RemoteStore, name: str, known: Pointer | None) -> Pointer | None:
    """Read a pointer, by one request; return `known` itself if it was not written since, None if it does not exist."""
    with suppress(MissingFile), _find_missing(remote, name):
        if remote.folder is None:
            found = s3.read_tagged(remote.objects, name, known.tag if known else "")
            return known if found is None else Pointer(*found)
        data = (remote.folder / name).read_bytes()
        return known if known and known.data == data else Pointer(data, "")
    return None


def replace_pointer(remote: RemoteStore, name: str, text: str, read: Pointer | None) -> Pointer:
    """Write a pointer unless it was written since it was read: a bucket's server decides, or a folder's lock.

    A mark of blanks after the text makes each write unlike every other; readers strip it.

    Args:
        read: as it was read; None: it did not exist.

    Raises:
        Overtaken: it was written.
    """
    mark = "".join(secrets.choice(" \t") for _ in range(64))
    data = f"{text}\n{mark}\n".encode()
    with translate_errors(remote):
        if remote.folder is None:
            try:
                return Pointer(data, s3.replace_object(remote.objects, name, data, read.tag if read else ""))
            except Moved:
                raise Overtaken(f"{remote.url}: {name}") from None
        make_folder(remote.folder)
        with paths.hold_lock(remote.folder / LOCK):
            if read_pointer(remote, name) != read:
                raise Overtaken(f"{remote.url}: {name}")
            paths.write_file(remote.folder / name, data)
            return Pointer(data, "")


def write_blocks(temporary: Path, target: Path, blocks: Iterable[bytes]) -> None:
    """Write a local file whole or not at all, through `temporary` on the same disk. The caller syncs the folder."""
    make_folder(temporary.parent)
    make_folder(target.parent)
    handle = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    try:
        with os.fdopen(handle, "wb") as file:
            with suppress(OSError):  # without locks, a push that prunes may remove it, and this one fails
                fcntl.flock(file.fileno(), fcntl.LOCK_EX)
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
