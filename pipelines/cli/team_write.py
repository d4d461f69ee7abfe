"""The kinds of `helix team` that write to the team's log."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from helix.cli.parser import build_parser, print_json, resolve_store
from helix.cli.terminal import print_note, print_text
from helix.errors import UsageError
from helix.settings import load
from helix.util.sanitise import printable_lines

if TYPE_CHECKING:
    from helix.cli.parser import Parser
    from pipelines.team.drafts import EntryDraft
    from pipelines.team.entry import TeamEntry
    from pipelines.team.fold import TeamState
    from pipelines.team.members import Signer
    from pipelines.team.place import TeamPlace


def build_team_parser(kind: str, describe: str, examples: str) -> Parser:
    """Return the parser of a kind, with the options of all of them."""
    new = build_parser(f"team {kind}", describe, examples)
    new.add_argument("--repo", default=".", metavar="DIR", help="a folder of the repository (the current one)")
    new.add_argument("--remote", metavar="NAME", help="its remote (origin, or the only one)")
    new.add_argument("--branch", metavar="NAME", help="the branch of the team's memory (helix-team)")
    new.add_argument("--root", metavar="ID", help="the team to trust (the one this clone trusts)")
    return new


def open_options(options: Any) -> TeamPlace:
    """Return the team that the options name."""
    from pipelines.team.place import open_place

    return open_place(Path(options.repo), remote=options.remote, branch=options.branch, root=options.root)


def read_team(options: Any) -> tuple[TeamPlace, TeamState]:
    """Fetch the log, and return the place and the state; trust the only team of a new clone."""
    from pipelines.team.log import fetch_log, read_log
    from pipelines.team.place import fold_log, trust_team

    place = open_options(options)
    log = read_log(place.repository, fetch_log(place.repository, place.remote, place.branch))
    place = trust_team(place, log)
    return place, fold_log(place, log)


def write_entries(place: TeamPlace, entries: Sequence[TeamEntry], author: str) -> str:
    """Add entries to the log and push it; return the commit."""
    from pipelines.team.log import add_entries

    return add_entries(place.repository, entries, author, place.remote, place.branch)


# ---------------------------------------------------------------- members


def init_team(argv: Sequence[str]) -> int:
    """Begin a team: its key, its first owner, and the branch of its memory."""
    new = build_team_parser(
        "init", init_team.__doc__ or "", "  helix team init\n  helix team init --name core --as ana"
    )
    new.add_argument("--name", metavar="TEAM", help="the team's name (that of the repository)")
    new.add_argument("--as", metavar="MEMBER", dest="member", help="your name in the team (that of your login)")
    options = new.parse_args(argv)
    settings = load()
    from pipelines.team.keys import format_fingerprint
    from pipelines.team.log import fetch_log, read_log
    from pipelines.team.members import make_team
    from pipelines.team.place import default_name, find_roots, locate_root_key, update_config

    place = open_options(options)
    log = read_log(place.repository, fetch_log(place.repository, place.remote, place.branch))
    if roots := find_roots(log):
        raise UsageError(f"the branch {place.branch} holds the team {roots[0].name} already", "run 'helix team join'")
    name = options.name or make_plain_name(place.project)
    made = make_team(name, options.member or default_name(), settings)
    place = replace(place, root=made.root.id)
    update_config(place, {"root": made.root.id, "project": place.project, "kinds": place.kinds})
    commit = write_entries(place, [made.root, made.owner], made.owner.name)
    key = locate_root_key(settings, made.root.id)
    shown = format_fingerprint(made.root.key)
    if options.json:
        print_json({"team": made.root.id, "name": name, "fingerprint": shown, "key": str(key), "commit": commit})
        return 0
    print_text(f"team {name}: {made.root.id}, key {shown}\nbranch {place.branch}, owner {made.owner.name}")
    print_note(f"keep a copy of {key} where only owners read it: it alone adds and removes owners")
    print_note(f"what may leave this clone: {place.config}")
    return 0


def make_plain_name(text: str) -> str:
    """Return a text in the letters of a name."""
    import re

    return re.sub(r"[^A-Za-z0-9._-]+", "-", text).strip("-._")[:40] or "team"


def join_team(argv: Sequence[str]) -> int:
    """Make your key if you have none, and print the command with which an owner adds you."""
    new = build_team_parser("join", join_team.__doc__ or "", "  helix team join ben")
    new.add_argument("name", nargs="?", metavar="NAME", help="your name in the team (that of your login)")
    options = new.parse_args(argv)
    settings = load()
    from pipelines.team.keys import format_fingerprint
    from pipelines.team.members import check_member_name, describe_join, ensure_key
    from pipelines.team.place import default_name, locate_key

    name = check_member_name(options.name or default_name())
    key = ensure_key(settings)
    if options.json:
        print_json({"name": name, "key": key.public, "fingerprint": format_fingerprint(key.public)})
        return 0
    print_note(f"your key is {locate_key(settings)}; its fingerprint is {format_fingerprint(key.public)}")
    print_note("ask an owner of the team to run:")
    print_text(describe_join(name, key.public))
    return 0


def add_to_team(argv: Sequence[str]) -> int:
    """Add a member: entries that their key signs are accepted from now on."""
    new = build_team_parser("add", add_to_team.__doc__ or "", "  helix team add ben --key 'kD0…='")
    new.add_argument("name", metavar="NAME", help="the member's name")
    new.add_argument("--key", required=True, metavar="KEY", help="the public key that 'helix team join' printed")
    new.add_argument("--owner", action="store_true", help="an owner, who may add and remove members")
    options = new.parse_args(argv)
    settings = load()
    from pipelines.team.keys import format_fingerprint
    from pipelines.team.members import add_member

    place, state = read_team(options)
    entry = add_member(state, options.name, options.key, "owner" if options.owner else "member", settings)
    commit = write_entries(place, [entry], "team")
    shown = format_fingerprint(entry.key)
    text = f"{entry.name} is a member ({entry.role}), key {shown}: compare it with what they see"
    if options.json:
        print_json({"member": entry.id, "name": entry.name, "role": entry.role, "fingerprint": shown, "commit": commit})
    else:
        print_text(text)
    return 0


def remove_from_team(argv: Sequence[str]) -> int:
    """Remove a member: their key signs nothing new, and what the team has of theirs stays."""
    new = build_team_parser("remove", remove_from_team.__doc__ or "", "  helix team remove ben")
    new.add_argument("name", metavar="NAME", help="the member's name, or the first digits of the id")
    options = new.parse_args(argv)
    settings = load()
    from pipelines.team.members import remove_member

    place, state = read_team(options)
    entry = remove_member(state, options.name, settings)
    commit = write_entries(place, [entry], "team")
    name = state.entries[entry.removes].name
    if options.json:
        print_json({"member": entry.removes, "name": name, "accepts": len(entry.accepts), "commit": commit})
    else:
        print_text(f"{name} left: {len(entry.accepts)} entries of theirs stay, and no new one is accepted")
    return 0


def withdraw(argv: Sequence[str]) -> int:
    """Withdraw an entry: every store forgets it with its next pull. The history of git keeps its text."""
    new = build_team_parser("withdraw", withdraw.__doc__ or "", "  helix team withdraw 3f9a52c0d1e4")
    new.add_argument("entry", metavar="ENTRY", help="the first digits of its id, of 'helix team show'")
    options = new.parse_args(argv)
    settings = load()
    from pipelines.team.members import withdraw_entry

    place, state = read_team(options)
    entry = withdraw_entry(state, options.entry, settings)
    commit = write_entries(place, [entry], state.name_signer(entry))
    if options.json:
        print_json({"withdrawn": entry.withdraws, "commit": commit})
    else:
        print_text(f"{entry.withdraws[:12]} is withdrawn; a secret in it is known to all who fetched it")
    return 0


# ---------------------------------------------------------------- publish


def publish(argv: Sequence[str]) -> int:
    """Publish decisions, rules and chosen notes, after a preview of each file.

    Of itself it offers what you said in the project: decisions that hold, rules, pinned notes. --item names any other.
    """
    new = build_team_parser(
        "publish",
        publish.__doc__ or "",
        "  helix team publish                      # shows each file, then asks\n"
        "  helix team publish --item 3f9a52c0d1e4b768 --yes\n"
        "  helix team publish --review             # on a branch of its own, for a pull request\n"
        "  helix team publish --never 3f9a52c0d1e4b768",
    )
    new.add_argument("--item", action="append", default=[], metavar="ID", help="only this item; again for others")
    new.add_argument("--replaces", action="append", default=[], metavar="ENTRY", help="the entry it replaces")
    new.add_argument("--never", action="append", default=[], metavar="ID", help="do not offer this item again")
    new.add_argument("--yes", action="store_true", help="publish all of it without a question")
    new.add_argument("--review", action="store_true", help="push to a branch of its own, for a pull request")
    options = new.parse_args(argv)
    settings, store = load(), resolve_store(options)
    from helix.sdk.open import open_memory
    from pipelines.team.drafts import list_drafts
    from pipelines.team.learn import refuse_switched_off
    from pipelines.team.log import push_log
    from pipelines.team.members import find_signer
    from pipelines.team.place import extend_config

    if options.never:
        extend_config(open_options(options), "never", options.never)
        print_note(f"{len(options.never)} items are not offered again")
        return 0
    if options.replaces and len(options.item) != 1:
        raise UsageError("--replaces needs one --item", "name the item that replaces the entry")
    place, state = read_team(options)
    refuse_switched_off(store, place)
    signer = find_signer(state, settings, needs_team=False)
    memory = open_memory(store, settings, warm=False)
    drafts = list_drafts(memory, place, state, options.item)
    if options.replaces:
        drafts = [_link(draft, options.replaces, state) for draft in drafts]
    if not drafts:
        push_log(place.repository, place.remote, place.branch)  # what an earlier publication left unsent
        print_json({"published": [], "commit": None}) if options.json else print_text("nothing to publish")
        return 0
    return _publish(options, place, signer, state, drafts)


def _link(draft: EntryDraft, names: Sequence[str], state: TeamState) -> EntryDraft:
    from pipelines.team.drafts import replace_entries

    found = [key for name in names for key in state.known_entries if len(name) >= 4 and key.startswith(name)]
    if len(found) != len(names):
        raise UsageError(f"{len(found)} entries begin with {', '.join(names)}", "give ids of 'helix team show'")
    return replace_entries(draft, found, state)


def _publish(options: Any, place: TeamPlace, signer: Signer, state: TeamState, drafts: Sequence[EntryDraft]) -> int:
    """Show the files, ask, and push those that the owner chose."""
    from pipelines.team.drafts import sign_draft
    from pipelines.team.log import propose_entries

    entries = [sign_draft(draft, state.root, signer.entry, signer.key) for draft in drafts]
    if not options.yes:
        _preview(drafts, entries, state)
        if not sys.stdin.isatty():
            raise UsageError("nothing is published without --yes", "look at the preview, then run it with --yes")
        chosen = _ask(len(entries))
        entries = [entries[number] for number in chosen]
        if not entries:
            print_note("nothing was published")
            return 0
    if options.review:
        if place.remote is None:
            raise UsageError("the repository has no remote", "a pull request needs one")
        topic = f"{place.branch}-{signer.name}-{entries[0].id[:8]}"
        commit = propose_entries(place.repository, entries, signer.name, place.remote, place.branch, topic)
        done = f"{len(entries)} entries are on the branch {topic}: open a pull request from it into {place.branch}"
    else:
        topic, commit = place.branch, write_entries(place, entries, signer.name)
        done = f"{len(entries)} entries published on {place.branch}"
    if options.json:
        published = [{"id": entry.id, "path": entry.path, "item": entry.item} for entry in entries]
        print_json({"published": published, "branch": topic, "commit": commit})
    else:
        print_text(done)
    return 0


def _preview(drafts: Sequence[EntryDraft], entries: Sequence[TeamEntry], state: TeamState) -> None:
    """Print each file as it would be written, with what its owner should look at, on stderr."""
    for number, (draft, entry) in enumerate(zip(drafts, entries, strict=True), 1):
        notes = [*draft.warnings]
        notes += [f"replaces {old[:12]}: {' '.join(state.entries[old].text.split())[:100]}" for old in entry.replaces]
        print_note(f"[{number}] {entry.path}  (item {entry.item}, said by {draft.by})")
        for note in notes:
            print_note(f"    ! {note}")
        print(printable_lines(entry.dump().decode()), file=sys.stderr)


def _ask(count: int) -> list[int]:
    """Ask which of some numbered entries to publish; return their positions, none for no answer."""
    sys.stderr.write(f"Publish? y: all {count}, numbers such as 1 3: these, anything else: none [N] ")
    sys.stderr.flush()
    answer = sys.stdin.readline().strip().lower()
    if answer in ("y", "yes", "all"):
        return list(range(count))
    words = answer.replace(",", " ").split()
    if not words or not all(word.isdigit() and 1 <= int(word) <= count for word in words):
        return []
    return sorted({int(word) - 1 for word in words})
