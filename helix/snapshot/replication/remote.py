"""Publishes a store to, and takes one from, an object store or a shared folder.

What lies there: `files/<sha256>`, immutable, by content; `manifests/<name>` as in the store; `CURRENT`, replaced last.
So a reader sees the old generation or the new one, what is there already is never sent again, and an interrupted run
goes on where it stopped. What serving needs goes over, that is what a manifest names; the ledger (`inbox/`) stays.
"""

from __future__ import annotations

import atexit
import gc
import hashlib
import os
import re
import secrets
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor, as_completed
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import cache
from pathlib import Path, PurePosixPath
from typing import Any, NoReturn, TypeVar
from urllib.parse import parse_qsl, unquote, urlencode, urlsplit

import pyarrow as pa
from pyarrow import fs

from helix.errors import Damaged, HelixError, StoreError, UsageError
from helix.snapshot import manifest as manifests
from helix.snapshot import paths, pins
from helix.snapshot.manifest import File, Manifest
from helix.util.failpoints import failpoint
from helix.util.hashing import hash_file
from helix.util.urls import find_http_url_fault, find_store_url_fault

BLOCK = 1 << 20  # bytes; on S3 also what one request reads
THREADS = 8
TRIES = 5  # how often to start over because CURRENT moved on and its files were deleted
KEEP = 2  # manifests that `--prune` leaves: the one before last may be on its way to somebody
CONNECT, SILENCE, ATTEMPTS = 3.0, 6.0, 3  # seconds to connect, seconds without a byte, tries of one S3 request
OPTIONS = ("endpoint_override", "scheme", "region")  # of an s3:// URL
HELD = ("segments", "indexes", "deletes", "documents", "forgotten", "access", "encoders")  # folders of immutable files
NAME = re.compile(r"\d{8}-[0-9a-f]{16}\.json")
SHA256 = re.compile(r"[0-9a-f]{64}")
BUCKET = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{1,62}")

S = TypeVar("S")
T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Report:
    """What a push or pull did: of the `files` a generation needs, how many went over, how much, and in what time."""

    url: str
    generation: int
    manifest: str
    files: int
    transferred: int
    bytes: int  # of the files transferred
    removed: int  # garbage
    seconds: float


@dataclass(frozen=True, slots=True)
class Remote:
    """Where to publish. `url` may be shown; `folder` is set where it is one: S3 alone writes whole files or none."""

    files: Any  # pyarrow.fs.FileSystem
    base: str
    url: str
    folder: Path | None

    def at(self, name: str) -> str:
        """The path of `name` for `files`."""
        return f"{self.base}/{name}"


class Vanished(Exception):
    """A file is not there: never was, deleted since it was named, or lost."""


def push(root: Path, url: str, *, force: bool = False, prune: bool = False, keep: int = KEEP) -> Report:
    """Publish the store's current generation at `url`: files that are not there, then the manifest, then CURRENT.

    Every file is checked on the way. The generation published at `url` has to be an ancestor of ours, by the `parent`
    links of our manifests; where `gc` has cut that line short, one with a smaller number than the oldest ancestor we
    know of passes too. CURRENT is looked at again right before it is replaced, but that is not one step with it: let
    one machine at a time push to a place.

    Args:
        root: the store.
        url: `s3://bucket/prefix[?endpoint_override=HOST:PORT&scheme=http&region=R]`, a `file://` URL or a folder.
            Credentials come from the environment or the usual AWS files.
        force: replace whatever is published there.
        prune: at the end, remove files there that the newest `keep` manifests do not name, and the other manifests.
        keep: at least 1. 1 is for after a deletion (`forget`), so that the generation before it goes at once.

    Raises:
        UsageError: `url` is none of these, or is the store itself.
        StoreError: nothing to publish, a damaged local file, another history or no access there. CURRENT there stays.
    """
    started = time.monotonic()
    if keep < 1:
        raise UsageError(f"keep={keep}: the current generation cannot go", "keep at least 1")
    remote = connect(url)
    apart(root, remote)

    def current() -> str:
        name = manifests.current_name(root)
        if name is None:
            raise StoreError(f"nothing is published in {root} yet", "ingest something first: 'helix ingest PATH'")
        return name

    def work(name: str) -> Report:
        with _pinned(root, name):
            return _push(root, remote, name, force, keep if prune else 0, started)

    return _settled(current, work, str(root), "run 'helix verify'; pull it from where it was pushed, or from a backup")


def pull(url: str, root: Path, *, force: bool = False, wait: float = 60.0) -> Report:
    """Make the generation published at `url` the store's current one: missing files, then the manifest, then CURRENT.

    Every file is checked on the way. One that is here already is kept: as it is where a manifest here names it, else
    after a look at its digest, so an interrupted pull goes on. The writer's lock is held throughout.

    No local commit may get lost: the generation that is current here has to be known there, by its manifest or as an
    ancestor of what is published. Where the line of ancestors is cut there, one passes that has a smaller number
    than the oldest of them, is of the same lineage, and was not built here upon a generation that is known there.

    Args:
        url: see `push`.
        root: the store; made where there is none.
        force: take what is published even so. Local generations it does not have, deletions among them, are given up;
            documents accepted here stay in the inbox and go in again with the next commit.
        wait: seconds to wait for another writer.

    Raises:
        UsageError: `url` is none that `push` takes.
        StoreError: nothing published or no access there, a damaged file there, or local generations that would be
            lost. The store stays at its generation; files that came whole are kept for the next try.
    """
    started = time.monotonic()
    remote = connect(url)
    apart(root, remote)

    def current() -> str:
        name = remote_current(remote)
        if name is None:
            raise StoreError(f"no Helix store is published at {remote.url}", "check the URL, or 'helix push' one there")
        return name

    def work(name: str) -> Report:
        return _pull(root, remote, name, force, wait, started)

    return _settled(current, work, remote.url, "push it again from a whole store")


def follow(url: str, root: Path, *, wait: float = 60.0) -> Report | None:
    """Pull, where another generation is published than the one here, and remove what is older; None where it is not.

    Raises:
        UsageError, StoreError: as `pull`.
    """
    remote = connect(url)
    apart(root, remote)
    name = remote_current(remote)  # two requests, and no more where there is no news
    mine = manifests.current_name(root) if (root / "inbox").is_dir() else None
    report = pull(url, root, wait=wait) if name is None or name != mine else None
    if report or _outlived(root):
        from helix.snapshot.gc import collect

        collect(root, 1, paths.STALE, wait)
    return report


def _outlived(root: Path) -> bool:
    """Whether there are generations that nobody can want any more, but for a reader that has pinned one."""
    current = manifests.current_name(root)
    older = (path for path in (root / "manifests").glob("[0-9]*.json") if path.name != current)
    return any(paths.age(path) > paths.STALE for path in older)


def shut_down() -> None:
    """End S3 for good, where it was used; for the end of a process.

    Left to the interpreter, this can hang for ever (pyarrow 24 and later) while a file system is still referred to.
    """
    gc.collect()
    fs.ensure_s3_finalized()


# ---------------------------------------------------------------- the two directions


def _push(root: Path, remote: Remote, name: str, force: bool, keep: int, started: float) -> Report:
    data = b"".join(read_local(root, f"manifests/{name}"))
    manifest = manifests.parse(name, data)
    there = {**listing(remote, "files"), **listing(remote, "manifests")}  # a share holds a lot more
    if keep:
        there |= listing(remote, recursive=False)
    old = _old_current(remote, force)
    if old and not force:
        history = _history(name, lambda ancestor: _local_manifest(root, ancestor))
        if old not in history and _generation(old) >= _generation(history[-1]):
            raise StoreError(
                f"{remote.url} is at generation {_generation(old)} ({old}), "
                f"which generation {_generation(name)} of {root} does not come from",
                "pull it first, or push to another place; --force replaces it",
            )
    wanted = {file.sha256: file for file in manifest.files()}
    missing = [file for digest, file in wanted.items() if _size(there, f"files/{digest}") != file.bytes]
    failpoint("push.begin")

    def send(file: File) -> None:
        remedy = "nothing was published; restore it from a backup"
        blocks = verified(read_local(root, file.path), file, str(root / file.path), remedy)
        put_blocks(remote, f"files/{file.sha256}", blocks)
        failpoint("push.file")

    each(send, missing)
    if _size(there, f"manifests/{name}") != len(data):
        put(remote, f"manifests/{name}", data)
    failpoint("push.manifest")
    if old != name:
        if _old_current(remote, force) != old:
            raise StoreError(f"CURRENT of {remote.url} was replaced by another push meanwhile", "run the command again")
        put(remote, "CURRENT", f"{name}\n".encode())
    try:
        removed = _prune(remote, there, name, manifest, keep) if keep else 0
    except StoreError as error:
        what = f"generation {manifest.generation} is published, but the garbage is not removed: {error.what}"
        raise StoreError(what, error.remedy) from None
    return _report(remote, name, len(wanted), missing, removed, started)


def _pull(root: Path, remote: Remote, name: str, force: bool, wait: float, started: float) -> Report:
    data = b"".join(read_remote(remote, f"manifests/{name}"))

    def may(mine: str, manifest: Manifest) -> None:
        if not force and not manifests.load(root, mine).is_ledger:  # such a one holds no item that could get lost
            _may_replace(root, mine, remote, name, manifest)

    return take(root, remote, name, data, may, wait, started)


def take(
    root: Path,
    remote: Remote,
    name: str,
    data: bytes,
    may: Callable[[str, Manifest], None],
    wait: float,
    started: float,
) -> Report:
    """Fetch what a manifest names and is not here, and make it current.

    Args:
        data: the manifest's bytes.
        may: raises StoreError where it must not take the place of the manifest of this name.

    Raises:
        StoreError: the manifest or a file there is damaged, or another writer is at work.
        Vanished: a file is not there.
    """
    from helix.snapshot import writer  # here, since only this direction writes a store

    manifest = remote_manifest(remote, name, data)
    paths.create(root)
    with writer.lock(root, wait) as held, paths.building(root) as workplace:
        mine = manifests.current_name(root)
        if mine and mine != name:
            may(mine, manifest)
        trusted = _named(root)

        def fetch(file: File) -> bool:
            target = root / file.path
            if _is_whole(target, file, trusted):
                return False
            source = f"files/{file.sha256}"
            blocks = verified(
                read_remote(remote, source),
                file,
                f"{remote.url}: {source} ({file.path})",
                "the store here is as it was; remove that file there and push again from a whole store",
            )
            with _writing(root):
                _write(workplace / secrets.token_hex(8), target, blocks)
            failpoint("pull.file")
            return True

        files = list({file.path: file for file in manifest.files()}.values())
        fetched = [file for file, new in each(fetch, files) if new]
        with _writing(root):
            for folder in {parent for file in files for parent in PurePosixPath(file.path).parents}:
                paths.sync_folder(root / folder)
            if mine is None:
                writer.begin(root)
            if not _is_same(root / "manifests" / name, data):
                paths.write_file(root / "manifests" / name, data)
            failpoint("pull.manifest")
            held.check()
            if mine != name:
                writer.point(root, name)
    return _report(remote, name, len(files), fetched, 0, started)


def _report(remote: Remote, name: str, files: int, moved: list[File], removed: int, started: float) -> Report:
    return Report(
        url=remote.url,
        generation=_generation(name),
        manifest=name,
        files=files,
        transferred=len(moved),
        bytes=sum(file.bytes for file in moved),
        removed=removed,
        seconds=round(time.monotonic() - started, 3),
    )


def _settled(current: Callable[[], str], work: Callable[[str], T], where: str, remedy: str) -> T:
    """Work on what CURRENT names; again, where a file has gone and CURRENT has moved on."""
    for _ in range(TRIES):
        name = current()
        try:
            return work(name)
        except Vanished as gone:
            if current() == name:
                raise StoreError(f"{gone} is missing, though generation {_generation(name)} needs it", remedy) from None
    raise StoreError(f"{where} published {TRIES} generations and deleted them while this ran", "run the command again")


def each(work: Callable[[S], T], things: Iterable[S]) -> list[tuple[S, T]]:
    """A few at a time; the first failure stops the rest."""
    with ThreadPoolExecutor(THREADS) as pool:
        jobs = {pool.submit(work, thing): thing for thing in things}
        try:
            return [(jobs[job], job.result()) for job in as_completed(jobs)]
        except BaseException:
            pool.shutdown(wait=True, cancel_futures=True)
            raise


# ---------------------------------------------------------------- histories


def _generation(name: str) -> int:
    return int(name[:8])


def _history(name: str, load: Callable[[str], Manifest | None], down_to: int = 0) -> list[str]:
    """`name` and its ancestors, as far as their manifests are there and no further than generation `down_to`."""
    names = [name]
    while _generation(names[-1]) > down_to and (manifest := load(names[-1])) and manifest.parent:
        names.append(manifest.parent)
    return names


def _may_replace(root: Path, mine: str, remote: Remote, name: str, manifest: Manifest) -> None:
    """Raises StoreError where a pull would lose local generations; see `pull`."""
    there = {path.removeprefix("manifests/") for path in listing(remote, "manifests")}

    def load(ancestor: str) -> Manifest | None:
        if ancestor == name:
            return manifest
        if ancestor not in there:
            return None
        return remote_manifest(remote, ancestor, b"".join(read_remote(remote, f"manifests/{ancestor}")))

    if mine in there:
        return
    history = _history(name, load, _generation(mine))
    if mine in history:
        return
    local = _history(mine, lambda ancestor: _local_manifest(root, ancestor))
    if (
        _generation(mine) < _generation(history[-1])
        and not there.intersection(local)
        and manifests.load(root, mine).lineage == manifest.lineage
    ):
        return
    raise StoreError(
        f"{root} is at generation {_generation(mine)} ({mine}), which {remote.url}, at generation {_generation(name)}, "
        "does not have",
        "push it there, or pull into another folder; --force discards what is not there",
    )


def _local_manifest(root: Path, name: str) -> Manifest | None:
    try:
        return manifests.load(root, name)
    except StoreError:
        return None  # deleted by gc, or damaged: the history ends here


def remote_manifest(remote: Remote, name: str, data: bytes) -> Manifest:
    """A manifest from there, which names nothing but files of a store."""
    try:
        manifest = manifests.parse(name, data)
    except HelixError as error:
        raise type(error)(f"{remote.url}: {error.what}", error.remedy) from None
    for file in manifest.files():
        # What lies elsewhere is not to be believed: it must not write outside the store, nor over CURRENT.
        parts = PurePosixPath(file.path).parts
        if len(parts) < 2 or parts[0] not in HELD or ".." in parts or not SHA256.fullmatch(file.sha256):
            raise StoreError(
                f"{remote.url}: manifests/{name} names {file.path!r}, which is no file of a store",
                "nothing was taken; push again from a store that 'helix verify' finds whole",
            )
    return manifest


def remote_current(remote: Remote) -> str | None:
    """What CURRENT names there; None where nothing is published."""
    try:
        name = b"".join(read_remote(remote, "CURRENT")).decode("ascii", "replace").strip()
    except Vanished:
        return None
    if not NAME.fullmatch(name):
        raise StoreError(
            f"{remote.url}: CURRENT is damaged or of a newer Helix: it names {name[:60]!r}",
            "upgrade Helix; if that does not help, push again with --force",
        )
    return name


def _old_current(remote: Remote, force: bool) -> str | None:
    try:
        return remote_current(remote)
    except StoreError:
        if force:
            return None
        raise


# ---------------------------------------------------------------- bytes


def verified(blocks: Iterable[bytes], file: File, where: str, remedy: str) -> Iterator[bytes]:
    """The blocks, the last one only when all have the recorded size and digest: nothing damaged gets whole."""
    digest, size, held = hashlib.sha256(), 0, b""
    for block in blocks:
        digest.update(block)
        size += len(block)
        if size > file.bytes:
            break
        if held:
            yield held
        held = block
    if size != file.bytes:
        raise Damaged(f"{where} is damaged: its size is not the recorded {file.bytes} bytes", remedy)
    if digest.hexdigest() != file.sha256:
        raise Damaged(f"{where} is damaged: sha256 {digest.hexdigest()[:12]}…, not {file.sha256[:12]}…", remedy)
    yield held


def read_local(root: Path, name: str) -> Iterator[bytes]:
    """A file of the store, a block at a time. Raises Vanished where it is not there."""
    path = root / name
    try:
        with path.open("rb") as file:
            while block := file.read(BLOCK):
                yield block
    except FileNotFoundError:
        raise Vanished(str(path)) from None
    except OSError as error:
        what = f"cannot read {path}: {error.strerror or error}"
        raise StoreError(what, "check its permissions and the disk") from None


def read_remote(remote: Remote, name: str) -> Iterator[bytes]:
    """A file there, a block at a time: on S3 one request to find it, one a block. Raises Vanished where it is not."""
    try:
        with remote.files.open_input_stream(remote.at(name), compression=None) as stream:
            while block := stream.read(BLOCK):
                yield block
    except FileNotFoundError:
        raise Vanished(f"{remote.url}: {name}") from None
    except (OSError, pa.ArrowException) as error:
        _failed(remote, "read", error)


def put_blocks(remote: Remote, name: str, blocks: Iterable[bytes], *, beside: bool = False) -> None:
    """Write a file that is not there yet.

    Args:
        beside: what is unfinished lies in the same folder, where no push removes it; a push alone may write elsewhere.
    """
    if remote.folder:
        with talking(remote):
            target = remote.folder / name
            folder = target.parent if beside else remote.folder
            _write(folder / f"{paths.TEMPORARY}{secrets.token_hex(8)}", target, blocks)
            paths.sync_folder(target.parent)
        return
    with talking(remote):
        try:
            with remote.files.open_output_stream(remote.at(name), compression=None) as stream:
                for block in blocks:
                    stream.write(block)
        except BaseException:  # a task's time may be up at any moment
            # A stream cannot be given up: closing it published the blocks so far. They are short of the recorded
            # size, so nobody takes them for the file, but they need not stay either.
            with suppress(OSError):
                remote.files.delete_file(remote.at(name))
            raise


def put(remote: Remote, name: str, data: bytes) -> None:
    """Write or replace a small file; whoever reads meanwhile gets the old one or the new one."""
    with talking(remote):
        if remote.folder:
            _make_folder((remote.folder / name).parent)
            paths.write_file(remote.folder / name, data)
            return
        with remote.files.open_output_stream(remote.at(name), compression=None) as stream:
            stream.write(data)


def _write(temporary: Path, target: Path, blocks: Iterable[bytes]) -> None:
    """Write a whole file or none, by way of `temporary` on the same disk. The caller syncs the folder."""
    _make_folder(temporary.parent)
    _make_folder(target.parent)
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


def _make_folder(folder: Path) -> None:
    if not folder.is_dir():
        _make_folder(folder.parent)
        folder.mkdir(mode=0o700, exist_ok=True)


def _is_whole(path: Path, file: File, trusted: set[tuple[str, int, str]]) -> bool:
    if not path.is_file() or path.stat().st_size != file.bytes:
        return False
    return (file.path, file.bytes, file.sha256) in trusted or hash_file(path) == file.sha256


def _is_same(path: Path, data: bytes) -> bool:
    return path.is_file() and path.read_bytes() == data


def _named(root: Path) -> set[tuple[str, int, str]]:
    """What the manifests here name; a file in place under such a name was checked when it got there."""
    found: set[tuple[str, int, str]] = set()
    for path in (root / "manifests").glob("[0-9]*.json"):
        manifest = _local_manifest(root, path.name)
        found.update((file.path, file.bytes, file.sha256) for file in (manifest.files() if manifest else ()))
    return found


@contextmanager
def _pinned(root: Path, name: str) -> Iterator[None]:
    """Keep `gc` off a generation while it is read, where the store can be written."""
    held = pins.pin(root, name)
    try:
        yield
    finally:
        if held:
            pins.release(*held)


@contextmanager
def _writing(root: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise paths.unwritable(root, error) from None


# ---------------------------------------------------------------- what lies there


def listing(remote: Remote, folder: str = "", *, recursive: bool = True) -> dict[str, Any]:
    """Every file there, or in one folder there: pyarrow's FileInfo by name, from one walk (S3: 1,000 a request)."""
    base = remote.at(folder).rstrip("/")
    with talking(remote):
        found = remote.files.get_file_info(fs.FileSelector(base, recursive=recursive, allow_not_found=True))
    return {info.path[len(remote.base) + 1 :]: info for info in found if info.type == fs.FileType.File}


def _size(there: Mapping[str, Any], name: str) -> int | None:
    return int(there[name].size) if name in there else None


def _prune(remote: Remote, there: Mapping[str, Any], current: str, manifest: Manifest, keep: int) -> int:
    """Remove what the newest `keep` manifests do not name; how many files.

    `there` was listed before the push, so what anybody has sent since stays.
    """
    others = [name for path in there if NAME.fullmatch(name := path.removeprefix("manifests/")) and name != current]
    others.sort(key=lambda name: (there[f"manifests/{name}"].mtime_ns or 0, name), reverse=True)
    named = {file.sha256 for file in manifest.files()}
    for name in others[: keep - 1]:
        kept = remote_manifest(remote, name, b"".join(read_remote(remote, f"manifests/{name}")))
        named.update(file.sha256 for file in kept.files())
    old = [f"manifests/{name}" for name in others[keep - 1 :]]
    files = [path for path in there if SHA256.fullmatch(digest := path.removeprefix("files/")) and digest not in named]
    files += [path for path in there if path.removeprefix("manifests/").startswith(paths.TEMPORARY)]
    # First the manifests, so that none is left that names a file which is gone.
    each(lambda path: remove(remote, path), old)
    each(lambda path: remove(remote, path), files)
    return len(old) + len(files)


def remove(remote: Remote, name: str) -> None:
    """Delete a file there, if there is one."""
    with talking(remote), suppress(FileNotFoundError):
        remote.files.delete_file(remote.at(name))


# ---------------------------------------------------------------- where


def connect(url: str) -> Remote:
    """The place a URL names; S3 is not asked anything yet, but for the region of a bucket on AWS.

    Raises:
        UsageError: not `s3://bucket/prefix`, `file:///folder` or a folder, or it carries credentials.
        StoreError: the bucket's region cannot be found.
    """
    if fault := find_store_url_fault(url, "the URL"):
        raise UsageError(*fault)
    if url and "://" not in url and not url.startswith(("s3:", "file:")):
        return _folder(url)
    remedy = "use s3://bucket/prefix, file:///folder or a folder"
    try:
        parts = urlsplit(url, allow_fragments=False)
    except ValueError:
        raise UsageError("the URL cannot be read", remedy) from None
    if parts.scheme == "file" and parts.netloc in ("", "localhost") and parts.path.startswith("/") and not parts.query:
        return _folder(unquote(parts.path))
    if parts.scheme == "s3":
        return _s3(parts.netloc, unquote(parts.path).strip("/"), dict(parse_qsl(parts.query, keep_blank_values=True)))
    raise UsageError(f"no store can be at this {parts.scheme}: URL" if url else "the URL is empty", remedy)


def _folder(name: str) -> Remote:
    path = Path(name).expanduser().absolute()
    return Remote(fs.LocalFileSystem(), str(path), str(path), path)


def _s3(bucket: str, prefix: str, options: dict[str, str]) -> Remote:
    # Nothing of a URL that may hold a secret is repeated in a message.
    endpoint = options.get("endpoint_override") or os.environ.get("AWS_ENDPOINT_URL_S3") or ""
    endpoint = endpoint or os.environ.get("AWS_ENDPOINT_URL", "")
    scheme, _, endpoint = endpoint.rstrip("/").rpartition("://")
    if "@" in bucket or "@" in endpoint:
        raise UsageError(
            "credentials do not belong in a URL", "set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or use ~/.aws"
        )
    if not BUCKET.fullmatch(bucket):
        raise UsageError("the s3:// URL does not begin with a bucket's name", "use s3://bucket/prefix")
    if unknown := sorted(set(options) - set(OPTIONS)):
        raise UsageError(f"an s3:// URL has no option {unknown[0]!r}", f"there are {', '.join(OPTIONS)}")
    scheme = options.get("scheme") or scheme or "https"
    if scheme not in ("http", "https"):
        raise UsageError("the option scheme of an s3:// URL is http or https", "leave it out for https")
    if endpoint:
        setting = "endpoint_override or AWS_ENDPOINT_URL"
        if fault := find_http_url_fault(f"{scheme}://{endpoint}", setting, "127.0.0.1:9000"):
            raise UsageError(*fault)
    base = f"{bucket}/{prefix}".rstrip("/")
    remote = Remote(None, base, f"s3://{base}" + (f"?{urlencode(options, safe=':/')}" if options else ""), None)
    _shut_down_at_exit()
    with talking(remote):
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
    return Remote(files, remote.base, remote.url, None)


@cache
def _shut_down_at_exit() -> None:
    atexit.register(shut_down)  # runs before pyarrow's own, which was registered when it was imported


def apart(root: Path, remote: Remote) -> None:
    """Raises UsageError where one of the two is in the other, or `remote` is a store itself."""
    if remote.folder is None:
        return
    here, there = root.resolve(), remote.folder.resolve()
    if here == there or here in there.parents or there in here.parents:
        raise UsageError(f"{remote.url} and the store {root} are not apart", "name a folder outside the store")
    if (there / "segments").is_dir():
        raise UsageError(
            f"{remote.url} is a store itself, not what 'helix push' makes",
            "name an empty folder, or copy the store as it is",
        )


@contextmanager
def talking(remote: Remote) -> Iterator[None]:
    """What the other side refuses, as a StoreError without credentials."""
    try:
        yield
    except (OSError, pa.ArrowException) as error:
        _failed(remote, "use", error)


REMEDIES = {  # by what the error of pyarrow or of the system says, in lower case
    "network_connection": "check endpoint_override, scheme and the network, then run the command again",
    "no_such_bucket": "make the bucket first, or check its name",
    "access_denied": "check AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY and the bucket's policy",
    "access_key_id": "check AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY",
    "signature": "check AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY",
    "http status 301": "name the bucket's region: ?region=…",
    "errno 13": "check the owner and the permissions of the folder",
    "errno 28": "free some space there, then run the command again",
}


def _failed(remote: Remote, doing: str, error: Exception) -> NoReturn:
    """Raise what went wrong there, in one line and without credentials."""
    reason = " ".join(str(error).split()).rstrip(".")
    for variable in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN"):
        if len(value := os.environ.get(variable, "")) >= 8:  # a shorter one is a dummy
            reason = reason.replace(value, "…")
    remedy = next(
        (remedy for sign, remedy in REMEDIES.items() if sign in reason.lower()),
        "check the URL, then run the command again",
    )
    raise StoreError(f"cannot {doing} {remote.url}: {reason}", remedy) from None
