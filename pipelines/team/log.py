"""The team's log: the entries of one branch, fetched, merged and pushed.

The local copy is the ref `refs/helix/team`, which no work tree has checked out. A merge is a union of files, since
every entry has a name of its own; other files of the branch, such as a workflow, are those of the remote.
"""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Final

from helix.errors import UsageError
from helix.util.failpoints import failpoint
from helix.util.sanitise import sanitise_name
from pipelines.team.entry import MAX_REMOVAL, PATH, EntryRefused, TeamEntry, parse_entry
from pipelines.team.git import PushRejected, Repository, TreeFile

LOCAL: Final = "refs/helix/team"
"""The local copy of the log."""

FETCHED: Final = "refs/helix/team-fetched"
"""The remote's branch as it was last fetched."""

BRANCH: Final = "helix-team"
"""The branch of the remote."""

MAX_ENTRIES: Final = 50_000
"""Files of a log; a larger one is refused before any file is read."""

ATTEMPTS: Final = 12
"""Pushes of one publication, each after another publisher was first."""

_PAUSE: Final = 0.05  # seconds before the second push, at random up to so much times the number of attempts
_PLAIN: Final = "100644"


@dataclass(frozen=True)
class LogReading:
    """The entries of a commit, and the files that are none."""

    commit: str | None
    entries: Mapping[str, TeamEntry]  # by id
    paths: Mapping[str, str]  # id → path
    problems: Mapping[str, str]  # path → reason
    others: tuple[str, ...]  # paths of files outside of the folders of entries


EMPTY: Final = LogReading(None, {}, {}, {}, ())


def read_log(repository: Repository, commit: str | None) -> LogReading:
    """Read and check the form of every entry of a commit. Signatures are not checked here.

    Raises:
        UsageError: it has too many files.
    """
    if commit is None:
        return EMPTY
    tree = repository.read_tree(commit)
    if len(tree) > MAX_ENTRIES:
        raise UsageError(
            f"{commit[:12]} has {len(tree):,} files, more than {MAX_ENTRIES:,}", "name the branch of a team's memory"
        )
    problems: dict[str, str] = {}
    others: list[str] = []
    wanted: dict[str, TreeFile] = {}
    for path, file in tree.items():
        if PATH.fullmatch(path) is None:
            others.append(path)
        elif file.mode != _PLAIN:
            problems[path] = "no plain file: a link, a submodule or a program"
        elif file.size > MAX_REMOVAL:
            problems[path] = f"{file.size:,} bytes, more than an entry has"
        else:
            wanted[path] = file
    contents = repository.read_blobs([file.digest for file in wanted.values()])
    entries: dict[str, TeamEntry] = {}
    paths: dict[str, str] = {}
    for path, file in wanted.items():
        try:
            if file.digest not in contents:
                raise EntryRefused("missing in this clone: fetch without a filter")
            entry = parse_entry(path, contents[file.digest])
        except EntryRefused as error:
            problems[path] = str(error)
            continue
        entries[entry.id], paths[entry.id] = entry, path
    return LogReading(commit, entries, paths, problems, tuple(others))


def fetch_log(repository: Repository, remote: str | None, branch: str) -> str | None:
    """Fetch the branch and merge it into the local copy; return its commit, None if there is no entry anywhere."""
    if remote is None:
        return repository.find_commit(LOCAL)
    fetched = repository.fetch_branch(remote, branch, FETCHED)
    failpoint("team.fetched")
    for _ in range(ATTEMPTS):
        local = repository.find_commit(LOCAL)
        merged = merge_logs(repository, local, fetched)
        if merged is None or merged == local or repository.set_ref(LOCAL, merged, local):
            return merged
    raise UsageError(f"{LOCAL} changes all the time", "try again when no other process publishes")


def merge_logs(repository: Repository, local: str | None, fetched: str | None) -> str | None:
    """Return a commit with the entries of two, which is one of them if that has them all. No ref is set."""
    if local is None or fetched is None or local == fetched or repository.is_ancestor(fetched, local):
        return local or fetched
    missing = _find_missing(repository, local, repository.read_tree(fetched))
    if not missing:
        return fetched
    # An entry that the remote's branch lost comes back: entries are only added.
    parents = [fetched] if repository.is_ancestor(local, fetched) else sorted((fetched, local))
    return repository.commit_files(fetched, missing, "Merge entries", "team", parents)


def _find_missing(repository: Repository, local: str, theirs: Mapping[str, TreeFile]) -> dict[str, str]:
    """Return path and digest of the entries of a commit that another tree has not."""
    tree = repository.read_tree(local)
    some = [path for path, file in tree.items() if path not in theirs and PATH.fullmatch(path) and file.mode == _PLAIN]
    contents = repository.read_blobs([tree[path].digest for path in some])
    found: dict[str, str] = {}
    for path in some:
        with suppress(EntryRefused):
            parse_entry(path, contents.get(tree[path].digest, b""))
            found[path] = tree[path].digest
    return found


def add_entries(
    repository: Repository, entries: Sequence[TeamEntry], author: str, remote: str | None, branch: str
) -> str:
    """Add entries to the log and push it; return the commit. After a kill, the next call pushes what was added.

    Raises:
        UsageError: others pushed first each time, or the remote refuses the push.
    """
    digests = repository.write_blobs([entry.dump() for entry in entries])
    files = {entry.path: digest for entry, digest in zip(entries, digests, strict=True)}
    message = _describe(entries)

    def build(base: str | None) -> str:
        known = repository.read_tree(base) if base else {}
        missing = {path: digest for path, digest in files.items() if path not in known}
        if base and not missing:
            return base
        return repository.commit_files(base, missing, message, author, [base] if base else [])

    return _push(repository, build, remote, branch)


def push_log(repository: Repository, remote: str | None, branch: str) -> str | None:
    """Push what the local copy has and the remote has not; return the commit."""
    base = fetch_log(repository, remote, branch)
    return _push(repository, lambda base: base or "", remote, branch) if base else None


def _push(repository: Repository, build: Callable[[str | None], str], remote: str | None, branch: str) -> str:
    """Fetch, build a commit on the log, and push it, until no other push came in between."""
    for attempt in range(ATTEMPTS):
        if attempt:
            time.sleep(random.uniform(0, _PAUSE * attempt))
        base = fetch_log(repository, remote, branch)
        commit = build(base)
        if commit != base and not repository.set_ref(LOCAL, commit, base):
            continue
        failpoint("team.committed")
        if remote is None or commit == repository.find_commit(FETCHED):
            return commit
        try:
            repository.push_branch(remote, commit, branch)
        except PushRejected:
            continue
        repository.set_ref(FETCHED, commit, repository.find_commit(FETCHED))
        failpoint("team.pushed")
        return commit
    raise UsageError(f"others pushed to {branch} first, {ATTEMPTS} times", "try again: the entries are kept")


def propose_entries(
    repository: Repository, entries: Sequence[TeamEntry], author: str, remote: str, branch: str, topic: str
) -> str:
    """Push entries to a branch of their own, on top of the log, for a pull request; return the commit.

    The local copy does not get them: they are the team's once the request is merged.
    """
    base = repository.fetch_branch(remote, branch, FETCHED)
    digests = repository.write_blobs([entry.dump() for entry in entries])
    files = {entry.path: digest for entry, digest in zip(entries, digests, strict=True)}
    commit = repository.commit_files(base, files, _describe(entries), author, [base] if base else [])
    repository.push_branch(remote, commit, topic)
    return commit


def _describe(entries: Sequence[TeamEntry]) -> str:
    """Return the message of a commit: one line, and for several entries a line each."""
    names = [entry.name or entry.topic or entry.text or entry.removes or entry.withdraws for entry in entries]
    lines = [f"{entry.kind}: {sanitise_name(name, 72)}" for entry, name in zip(entries, names, strict=True)]
    return lines[0] if len(lines) == 1 else "\n".join([f"{len(lines)} entries", "", *lines])
