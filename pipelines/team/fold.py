"""The state of a team's memory: a function of the set of its entries, and of nothing else.

Entries are only added, so the files of two clones merge by union: a grow-only set, the simplest of the state-based
CRDTs (Shapiro, Preguiça, Baquero and Zawirski, "Conflict-free replicated data types", 2011). Union is associative,
commutative and idempotent, and the state is computed from the set alone. So clones that hold the same entries have the
same state, whatever the order in which these came. No clock takes part.

Membership has three layers, each judged by the one above it alone, so that no two removals can contradict each other:

1. the team's key signs owners, and removals of owners;
2. owners sign members, and removals of members; the team's key may as well;
3. members and owners sign what the team knows.

A removal lists the entries of its member that stay. Others of that key are not accepted, whatever time they claim: a
key that left cannot write into the past. Several removals of one member accept what any of them lists, since the
signer of each could have written that entry itself.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

from pipelines.team.entry import LEARNED, TeamEntry
from pipelines.team.keys import verify


class Refusal(NamedTuple):
    """An entry that is not accepted."""

    entry: TeamEntry
    reason: str


@dataclass(frozen=True)
class TeamState:
    """The state of a set of entries, by id."""

    root: str  # id of the team's first entry; empty: it is missing or damaged
    entries: Mapping[str, TeamEntry]  # all of the set
    accepted: Mapping[str, TeamEntry]  # ascending by id
    refused: Mapping[str, Refusal]
    removals: Mapping[str, tuple[str, ...]]  # member → accepted removals
    withdrawn: Mapping[str, str]  # entry → the least accepted withdrawal

    @cached_property
    def members(self) -> dict[str, TeamEntry]:
        """The members whose key is accepted for new entries, by id."""
        return {key: one for key, one in self.accepted.items() if one.kind == "member" and key not in self.removals}

    @cached_property
    def replacements(self) -> dict[str, tuple[str, ...]]:
        """The accepted entries that replace an entry and are not withdrawn, ascending, by the entry."""
        found: dict[str, list[str]] = {}
        for key, one in self.accepted.items():
            for old in one.replaces if key not in self.withdrawn else ():
                if old in self.accepted:
                    found.setdefault(old, []).append(key)
        return {old: tuple(new) for old, new in found.items()}

    @cached_property
    def known_entries(self) -> dict[str, TeamEntry]:
        """The entries that stores learn, those that others replace included."""
        return {key: one for key, one in self.accepted.items() if one.kind in LEARNED and key not in self.withdrawn}

    @cached_property
    def holding(self) -> dict[str, TeamEntry]:
        """The entries that hold: known, and not replaced."""
        return {key: one for key, one in self.known_entries.items() if key not in self.replacements}

    def name_signer(self, entry: TeamEntry) -> str:
        """Return the name of the member who signed an entry; "team" for the team's key."""
        signer = self.entries.get(entry.signer)
        return signer.name if signer and signer.kind == "member" else "team"

    def summarise(self) -> tuple[object, ...]:
        """Return all that the state says, to be compared."""
        return (
            self.root,
            tuple(self.accepted),
            tuple(sorted((key, one.reason) for key, one in self.refused.items())),
            tuple(sorted(self.removals.items())),
            tuple(sorted(self.withdrawn.items())),
            tuple(sorted(self.replacements.items())),
        )


def fold_entries(entries: Mapping[str, TeamEntry], root: str) -> TeamState:
    """Return the state of some entries, by id.

    Args:
        root: id of the team's first entry, which the caller trusts.
    """
    return _Judge(entries, root).judge_all()


class _Judge:
    """One reading of a set of entries, from the top layer down."""

    def __init__(self, entries: Mapping[str, TeamEntry], root: str) -> None:
        self.entries = {key: entries[key] for key in sorted(entries)}
        top = self.entries.get(root)
        self.root = root if top and top.kind == "team" and verify(top.key, top.signed_bytes, top.signature) else ""
        self.accepted: dict[str, TeamEntry] = {root: top} if self.root and top else {}
        self.refused: dict[str, Refusal] = {}
        self.removals: dict[str, list[str]] = {}

    def judge_all(self) -> TeamState:
        """Judge each layer, and return the state."""
        by_kind: dict[str, list[str]] = {}
        for key, entry in self.entries.items():
            by_kind.setdefault(entry.kind, []).append(key)
        members, removals = by_kind.get("member", []), by_kind.get("removal", [])
        is_owner = {key: self.entries[key].role == "owner" for key in members}
        for layer in (True, False):  # owners first
            self._judge_each(key for key in members if is_owner[key] is layer)
            chosen = [key for key in removals if is_owner.get(self.entries[key].removes, False) is layer]
            self._judge_each(chosen)
            for key in chosen:
                if key in self.accepted:
                    self.removals.setdefault(self.entries[key].removes, []).append(key)
        self._judge_each(key for kind in LEARNED for key in by_kind.get(kind, ()))
        self._judge_each(by_kind.get("withdrawal", ()))
        for key in by_kind.get("team", ()):
            if key != self.root:
                self._refuse(key, "the first entry of another team")
        return TeamState(
            self.root,
            self.entries,
            {key: self.accepted[key] for key in sorted(self.accepted)},
            self.refused,
            {member: tuple(sorted(found)) for member, found in self.removals.items()},
            self._find_withdrawn(by_kind.get("withdrawal", ())),
        )

    def _judge_each(self, keys: Iterable[str]) -> None:
        for key in keys:
            entry = self.entries[key]
            reason = self._find_fault(key, entry)
            if reason:
                self._refuse(key, reason)
            else:
                self.accepted[key] = entry

    def _refuse(self, key: str, reason: str) -> None:
        self.refused[key] = Refusal(self.entries[key], reason)

    def _find_fault(self, key: str, entry: TeamEntry) -> str:
        """Return the reason why an entry of a layer is not accepted; empty if it is."""
        if not self.root or entry.team != self.root:
            return "of another team"
        signer = self.entries.get(entry.signer)
        if signer is None or signer.kind not in ("team", "member"):
            return "signed by no member of the team"
        if overreach := self._find_overreach(entry, signer):
            return overreach
        if entry.signer not in self.accepted:
            return "signed by no member of the team"
        if not verify(signer.key, entry.signed_bytes, entry.signature):
            return "the signature does not match: it was changed, or another key signed it"
        if entry.signer in self.removals and not self._stays(key, entry.signer):
            return f"signed by {signer.name}, who left, and not among the entries that stay"
        return ""

    def _stays(self, key: str, signer: str) -> bool:
        return any(key in self.entries[removal].accepts for removal in self.removals[signer])

    def _find_overreach(self, entry: TeamEntry, signer: TeamEntry) -> str:
        """Return the reason why a signer may not write an entry; empty if it may."""
        is_team, is_owner = signer.kind == "team", signer.role == "owner"
        match entry.kind:
            case "member":
                allowed = is_team or (is_owner and entry.role == "member")
                return "" if allowed else f"{signer.name} may not add a member of the role {entry.role}"
            case "removal":
                target = self.entries.get(entry.removes)
                if target is None or target.kind != "member":
                    return "it removes no member"
                allowed = is_team or (is_owner and target.role == "member")
                return "" if allowed else f"{signer.name} may not remove {target.name}"
            case "withdrawal":
                target = self.entries.get(entry.withdraws)
                if target is None or target.kind not in LEARNED:
                    return "it withdraws no entry"
                allowed = is_team or is_owner or entry.signer == target.signer
                return "" if allowed else f"{signer.name} may not withdraw an entry of another member"
        missing = next((one for one in entry.replaces if one not in self.entries), "")
        return f"it replaces {missing[:12]}, which is missing" if missing else ""

    def _find_withdrawn(self, withdrawals: Iterable[str]) -> dict[str, str]:
        found: dict[str, str] = {}
        for key in withdrawals:  # ascending
            if key in self.accepted:
                found.setdefault(self.entries[key].withdraws, key)
        return found
