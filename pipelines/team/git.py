"""The `git` program, called for one ref: it reads and writes objects, never a work tree, an index or a stash.

Every call has a fixed list of words, no shell, no prompt and none of the repository's hooks. Names of branches and
remotes are checked by a pattern before they become words. The files of a commit are read as objects and never checked
out, so no path in them becomes a path of this machine.
"""

from __future__ import annotations

import os
import re
import subprocess
import tempfile
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Final, NamedTuple

from helix.errors import UsageError

TIMEOUT: Final = 120
"""Seconds of one call, those over a network included."""

LEAST_VERSION: Final = (2, 30)

_CONFIG: Final = (
    *("-c", "core.hooksPath=/dev/null", "-c", "core.fsmonitor=false", "-c", "core.quotePath=true"),
    *("-c", "gc.auto=0", "-c", "maintenance.auto=false", "-c", "commit.gpgSign=false", "-c", "push.gpgSign=false"),
    *("-c", "protocol.ext.allow=never", "-c", "fetch.writeCommitGraph=false", "-c", "push.followTags=false"),
    *("-c", "submodule.recurse=false", "-c", "advice.detachedHead=false"),
)
# Variables that a hook of git sets for its children: they would name another repository or index.
_DROPPED: Final = (
    *("GIT_DIR", "GIT_WORK_TREE", "GIT_INDEX_FILE", "GIT_OBJECT_DIRECTORY", "GIT_ALTERNATE_OBJECT_DIRECTORIES"),
    *("GIT_COMMON_DIR", "GIT_NAMESPACE", "GIT_PREFIX", "GIT_CEILING_DIRECTORIES", "GIT_EDITOR", "GIT_QUARANTINE_PATH"),
)
_NAME: Final = re.compile(r"(?!.*(?:\.\.|//|@\{|\.lock(?:/|\Z)))[A-Za-z0-9][A-Za-z0-9._/-]{0,99}(?<![./])")
_REVISION: Final = re.compile(r"(?!.*(?:\.\.|//|@\{))[A-Za-z0-9][A-Za-z0-9._/~^-]{0,199}")
_COMMIT: Final = re.compile(r"[0-9a-f]{40}(?:[0-9a-f]{24})?")
_EMAIL: Final = "team@helix.invalid"  # of commits: the address of a member stays at home
_LOST_RACE: Final = (
    *("[rejected]", "fetch first", "non-fast-forward", "cannot lock ref"),
    *("reference already exists", "failed to update ref", "incorrect old value"),
)


class GitError(UsageError):
    """A failed call of git; the message ends with the last line that git printed."""


class PushRejected(GitError):
    """A push of a commit that does not contain the remote's."""


class TreeFile(NamedTuple):
    """A file of a commit, by the object it names."""

    mode: str  # 100644 of a file, 100755 executable, 120000 of a link, 160000 of a submodule
    digest: str
    size: int  # bytes; 0 of a submodule


class Repository:
    """A repository of this machine.

    Args:
        folder: any folder in it.

    Raises:
        UsageError: it is in no repository, or git is not installed.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        found = self.run("rev-parse", "--path-format=absolute", "--git-common-dir", "--show-object-format").split("\n")
        self.common = Path(found[0])
        """The folder that all worktrees of the repository share."""
        self._no_object = "0" * (64 if found[1:2] == ["sha256"] else 40)

    # ------------------------------------------------------------ calls

    def run(self, *words: str, data: bytes | None = None, environ: Mapping[str, str] | None = None) -> str:
        """Run git and return what it printed, without the last line end.

        Raises:
            GitError: it failed.
        """
        return self.run_bytes(*words, data=data, environ=environ).decode("utf-8", "replace").removesuffix("\n")

    def run_bytes(self, *words: str, data: bytes | None = None, environ: Mapping[str, str] | None = None) -> bytes:
        """Run git and return the bytes it printed; see `run`."""
        given = {name: value for name, value in os.environ.items() if name not in _DROPPED}
        given |= {"GIT_TERMINAL_PROMPT": "0", "GIT_OPTIONAL_LOCKS": "0", "GIT_NO_REPLACE_OBJECTS": "1", "LC_ALL": "C"}
        given |= {"GIT_SSH_VARIANT": "ssh", "GIT_LITERAL_PATHSPECS": "1", **(environ or {})}
        command = ["git", *_CONFIG, *words]
        try:
            done = subprocess.run(  # a fixed list of words, no shell
                command, cwd=self._folder, input=data, capture_output=True, check=False, env=given, timeout=TIMEOUT
            )
        except FileNotFoundError:
            if not self._folder.is_dir():
                raise UsageError(f"{self._folder} is no folder", "name a folder of the repository") from None
            raise UsageError("git is not installed", "install git") from None
        except subprocess.TimeoutExpired:
            raise GitError(f"git {words[0]} took more than {TIMEOUT} s", "look at the remote, and try again") from None
        if done.returncode:
            raise _make_error(words[0], done.stderr)
        return done.stdout

    # ------------------------------------------------------------ refs

    def find_commit(self, revision: str) -> str | None:
        """Return the commit of a ref or a revision; None if it names none.

        Raises:
            UsageError: it is no name of a revision.
        """
        try:
            return self.run(
                "rev-parse", "--verify", "--quiet", "--end-of-options", f"{check_revision(revision)}^{{commit}}"
            )
        except GitError:
            return None

    def set_ref(self, ref: str, commit: str, before: str | None) -> bool:
        """Set a ref if it still is at the commit `before` (None: it is absent); return whether it was."""
        try:
            self.run("update-ref", "--no-deref", ref, commit, before or self._no_object)
        except GitError:
            return False
        return True

    def is_ancestor(self, old: str, new: str) -> bool:
        """Return whether a commit contains another."""
        try:
            self.run("merge-base", "--is-ancestor", old, new)
        except GitError:
            return False
        return True

    # ------------------------------------------------------------ objects

    def read_tree(self, commit: str) -> dict[str, TreeFile]:
        """Return the files of a commit by path, submodules and links included. No file is read."""
        found: dict[str, TreeFile] = {}
        for line in self.run_bytes("ls-tree", "-r", "-l", "-z", check_commit(commit)).split(b"\0"):
            head, tab, path = line.partition(b"\t")
            if tab:
                mode, _, digest, size = head.decode("ascii").split()
                found[path.decode("utf-8", "surrogateescape")] = TreeFile(mode, digest, int(size) if size != "-" else 0)
        return found

    def read_blobs(self, digests: Sequence[str]) -> dict[str, bytes]:
        """Return the contents of files by digest; a missing one is left out."""
        data = "".join(f"{check_commit(digest)}\n" for digest in dict.fromkeys(digests)).encode()
        answer = self.run_bytes("cat-file", "--batch", data=data) if data else b""
        found: dict[str, bytes] = {}
        at = 0
        while at < len(answer):
            end = answer.index(b"\n", at)
            words = answer[at:end].split(b" ")
            at = end + 1
            if len(words) == 3:  # digest, type, size
                size = int(words[2])
                found[words[0].decode("ascii")] = answer[at : at + size]
                at += size + 1
        return found

    def write_blobs(self, contents: Sequence[bytes]) -> list[str]:
        """Write files as objects; return their digests."""
        if not contents:
            return []
        with tempfile.TemporaryDirectory(prefix="helix-") as folder:
            paths = [Path(folder, str(number)) for number in range(len(contents))]
            for path, content in zip(paths, contents, strict=True):
                path.write_bytes(content)
            data = "".join(f"{path}\n" for path in paths).encode()
            return self.run("hash-object", "-w", "--no-filters", "--stdin-paths", data=data).split("\n")

    def commit_files(
        self, base: str | None, files: Mapping[str, str], message: str, author: str, parents: Iterable[str]
    ) -> str:
        """Commit a tree: the files of `base`, and others by path and digest. No ref is set."""
        with tempfile.TemporaryDirectory(prefix="helix-") as folder:
            environ = {"GIT_INDEX_FILE": str(Path(folder, "index"))}  # never the repository's own
            self.run("read-tree", *([check_commit(base)] if base else ["--empty"]), environ=environ)
            data = "".join(f"100644 {digest}\t{path}\0" for path, digest in files.items()).encode()
            self.run("update-index", "-z", "--add", "--index-info", data=data, environ=environ)
            tree = self.run("write-tree", environ=environ)
        names = {f"GIT_{who}_NAME": author for who in ("AUTHOR", "COMMITTER")}
        names |= {f"GIT_{who}_EMAIL": _EMAIL for who in ("AUTHOR", "COMMITTER")}
        words = [word for parent in parents for word in ("-p", check_commit(parent))]
        return self.run("commit-tree", tree, *words, "-F", "-", data=message.encode(), environ=names)

    # ------------------------------------------------------------ remotes

    def list_remotes(self) -> list[str]:
        """List the names of the remotes."""
        return [name for name in self.run("remote").split("\n") if name]

    def read_url(self, remote: str) -> str:
        """Return the address of a remote."""
        return self.run("remote", "get-url", check_name(remote, "remote"))

    def fetch_branch(self, remote: str, branch: str, ref: str) -> str | None:
        """Fetch one branch into a ref; return its commit, or None if the remote has no such branch."""
        words = ("fetch", "--quiet", "--no-tags", "--no-write-fetch-head", "--no-recurse-submodules")
        source = f"+refs/heads/{check_name(branch, 'branch')}:{ref}"
        try:
            self.run(*words, check_name(remote, "remote"), source)
        except GitError as error:
            if "couldn't find remote ref" in error.what:
                return None
            raise
        return self.find_commit(ref)

    def push_branch(self, remote: str, commit: str, branch: str) -> None:
        """Push a commit to a branch, if it contains the remote's.

        Raises:
            PushRejected: it does not, or another push came first.
        """
        target = f"{check_commit(commit)}:refs/heads/{check_name(branch, 'branch')}"
        self.run("push", "--quiet", "--no-verify", check_name(remote, "remote"), target)


def check_name(name: str, kind: str) -> str:
    """Return the name of a branch or a remote.

    Raises:
        UsageError: git has no such names, or it could be read as an option or a range.
    """
    if not _NAME.fullmatch(name):
        raise UsageError(f"{name!r} is no name of a {kind}", "use letters, digits, '.', '_', '-' and '/'")
    return name


def check_revision(revision: str) -> str:
    """Return the name of a revision.

    Raises:
        UsageError: it could be read as an option or a range.
    """
    if not _REVISION.fullmatch(revision):
        raise UsageError(f"{revision!r} is no name of a commit", "give a branch, a tag or a commit")
    return revision


def check_commit(digest: str) -> str:
    """Return the digest of an object.

    Raises:
        UsageError: it is none.
    """
    if not _COMMIT.fullmatch(digest):
        raise UsageError(f"{digest[:80]!r} is no object of git", "give a whole digest")
    return digest


def _make_error(command: str, stderr: bytes) -> GitError:
    lines = [line.strip() for line in stderr.decode("utf-8", "replace").splitlines() if line.strip()]
    text = " / ".join(line for line in lines if not line.startswith("hint:"))[-600:] or "no message"
    if command == "push" and any(words in text for words in _LOST_RACE):
        return PushRejected(f"git push: {text}", "fetch, and push again")
    if "not a git repository" in text:
        return GitError("this folder is in no git repository", "run the command in a clone, or name one with --repo")
    return GitError(f"git {command}: {text}", "look at the repository and its remote")
