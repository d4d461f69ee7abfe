"""The context that a hook adds to an agent's session, from the query process or from a store opened for one hook.

A prompt is recalled unchanged, within the project of the agent's folder; its own session is left out, since the agent
has it already, and so is what hooks gave the session before. Where the memory probably does not help, there is nothing.
A starting session gets a briefing of its project (`query.hooks.briefing`), a tool call what is known of it
(`query.hooks.actions`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple, cast

import numpy as np

from helix.sdk.memory import Memory
from helix.settings import load
from helix.snapshot.reader.snapshot import Snapshot
from helix.snapshot.segment.batch import hash_parts
from helix.stages.trace import Trace
from helix.types import RecallOptions
from helix.util.workspaces import Workspace

if TYPE_CHECKING:
    from helix.encoders.dense import Encoder
    from helix.types import Bundle
    from query.hooks.encoder_process import EncoderProcess

LIMIT: Final = 8_000
"""UTF-16 characters of a context; agents cut a longer one, or move it to a file."""

SOURCES: Final = ("claude-code", "codex", "gemini", "cursor")
"""Source formats of the agents: a session is identified by its source and id."""

PROMPT_BUDGET: Final = 1_800
"""Tokens of the context of a prompt."""

LEAST_RELEVANCE: Final = 0.03
"""Least relevance of an item that a hook adds."""

_BRIEFING: Final = "decisions, open work and next steps"
_LEAST: Final = 60  # tokens left to a session; with fewer there is nothing
_MOST_SEEN: Final = 2_000  # items
_MAX_PACKS: Final = 12  # attempts to pack within LIMIT
_STEP: Final = 0.75  # largest factor between two budgets: one token may be a word of a thousand characters
_GENERAL: Final = 400  # characters; a longer prompt always concerns a topic


class HookQuestion(NamedTuple):
    """The fields of a hook's request."""

    kind: str  # prompt | start | before | after a tool call
    prompt: str
    workspaces: tuple[Workspace, ...]  # folders of the agent, the likeliest first
    session: str
    source: str  # of a start: startup | resume | clear | compact
    seen: tuple[str, ...] = ()  # ids of items that the session was given
    left: int | None = None  # tokens that may be added to the session; None: no limit

    @classmethod
    def from_json(cls, raw: Mapping[str, Any]) -> HookQuestion:
        """Read the fields from JSON; a value of a wrong type counts as absent."""
        folders, known = raw.get("folders"), raw.get("repositories")
        workspaces = tuple(
            Workspace(folder.replace("\\", "/").rstrip("/"), *_read_repository(known, folder))
            for folder in (folders if isinstance(folders, list) else ())
            if isinstance(folder, str)
        )
        kind, prompt, session, source = (
            value if isinstance(value := raw.get(name), str) else "" for name in ("kind", "prompt", "session", "source")
        )
        given, left = raw.get("seen"), raw.get("left")
        seen = tuple(one for one in given if isinstance(one, str))[-_MOST_SEEN:] if isinstance(given, list) else ()
        limit = left if isinstance(left, int) and not isinstance(left, bool) else None
        return cls(kind, prompt, workspaces, session, source, seen, limit)


def _read_repository(known: object, folder: str) -> tuple[str, str]:
    """Return (top folder, remote) of a folder, as the hook found them; empty texts where it did not."""
    found = known.get(folder) if isinstance(known, dict) else None
    match found:
        case [str(top), str(remote)]:
            return top, remote
    return "", ""


def open_memory(root: Path | str, encoder: EncoderProcess | None = None) -> Memory:
    """Open a store for one question, with the encoder process where it has the store's own encoder."""
    memory = Memory(root, load(), warm=False)
    if encoder and memory.snapshot.manifest and memory.snapshot.manifest.lineage.encoder == encoder.fingerprint:
        memory.snapshot.files.encoder = cast("Encoder", encoder)
    return memory


class HookContext(NamedTuple):
    """A context, a note on it for the log, and the ids of its items."""

    text: str
    note: str
    items: tuple[str, ...] = ()


class PromptRules(NamedTuple):
    """Limits of the context of a prompt."""

    answered: float  # least probability that the answer helps
    relevance: float = LEAST_RELEVANCE  # of an item, at least
    budget: int = PROMPT_BUDGET  # tokens
    options: Mapping[str, Any] = {}  # others of a recall, as `RecallOptions` names them


def answer_hook(
    memory: Memory, request: Mapping[str, Any], view: Snapshot | None = None, rules: PromptRules | None = None
) -> dict[str, Any]:
    """Return `context`, which may be empty, `said`, a note for the log without a word of the prompt, `items`, `tokens`.

    Args:
        view: the caller's view of the generation; None: everybody's.
        rules: of a prompt; None: those of the settings.
    """
    question = HookQuestion.from_json(request)
    view = view or memory.snapshot.seen_by(None)
    after_compaction = question.kind == "start" and question.source == "compact"  # then the agent lost its session
    project = view.catalog.locate_project(question.workspaces)
    known = () if question.kind in ("before", "after") else question.seen
    snap = _drop_known(view, "" if after_compaction else question.session, known)
    if question.left is not None and question.left < _LEAST:
        found = HookContext("", "the session's tokens are spent")
    elif question.kind in ("before", "after"):
        found = _answer_action(snap, question, project, request)
    elif question.kind == "start":
        found = _brief_project(snap, question, project, None)
    else:
        found = _recall_prompt(memory, snap, question, project, rules or PromptRules(memory.settings.hook_answered))
    tokens = sum(snap.counter([found.text])) if found.text else 0
    where = "project" if project else "no project"
    return {"context": found.text, "said": f"{found.note}, {where}", "items": list(found.items), "tokens": tokens}


def _answer_action(
    snap: Snapshot, question: HookQuestion, project: str | None, request: Mapping[str, Any]
) -> HookContext:
    """Return the context for a tool call. In an unknown project, only a failure is looked up: in all projects."""
    from query.hooks.actions import Action, answer_after, answer_before

    if project is None and question.kind == "before":
        return HookContext("", "nothing")
    answer = answer_before if question.kind == "before" else answer_after
    found = answer(snap, Action.from_json(request), project, frozenset(question.seen))
    return HookContext(found.text, found.note, found.items)


def build_context(memory: Memory, snap: Snapshot, question: str | None, project: str | None, **options: Any) -> str:
    """Return a context as text: for a question, or a briefing about the newest sessions.

    Where the options of time leave nothing, the text is one line that says so.

    Args:
        snap: the caller's view of the generation.
        project: the only project; None: all.
        options: others of a recall, as `RecallOptions` names them. A briefing takes the budget and the times.

    Raises:
        UsageError: an argument is out of range or names something unknown.
    """
    options["project"] = project
    if question is not None:
        bundle = _recall(memory, snap, question, **options)
        return bundle.context or bundle.notice or ""
    from helix.question.build import build_query
    from query.hooks.briefing import BRIEFING_BUDGET, brief_project

    options.setdefault("budget", BRIEFING_BUDGET)
    query = build_query(_BRIEFING, snap, memory.settings, RecallOptions(**options))
    seen = snap.known_at(query.as_of, query.ingested_as_of)
    at = int(query.as_of.timestamp()) if query.as_of else None
    text = brief_project(seen, query.project, query.budget, at).text
    return text or _recall(memory, snap, _BRIEFING, **{**options, "budget": 0}).notice or ""


def _recall_prompt(
    memory: Memory, snap: Snapshot, question: HookQuestion, project: str | None, rules: PromptRules
) -> HookContext:
    """Return the context for a prompt: relevant items, if the memory probably helps."""
    prompt = question.prompt.strip()
    if "</" in prompt:
        from helix.sources.common.injected import strip_host, strip_memory  # imports every source format

        prompt = strip_host(strip_memory(prompt)).strip()
    if not prompt:
        return HookContext("", "empty")
    # A project filter forces a search, so the skip rules are asked without it.
    if project and len(prompt) <= _GENERAL and _is_skipped(memory, snap, prompt):
        return HookContext("", "skipped")
    budget = rules.budget if question.left is None else min(rules.budget, question.left)
    options = {**rules.options, "project": project, "min_relevance": rules.relevance}
    return _recall_within_limit(memory, snap, prompt, budget, answered=rules.answered, **options)


def _brief_project(snap: Snapshot, question: HookQuestion, project: str | None, at: int | None) -> HookContext:
    """Return the context for a session start; an unknown project has no briefing."""
    from query.hooks.briefing import BRIEFING_BUDGET, brief_project  # other events need none

    if project is None:
        return HookContext("", "nothing")
    budget = BRIEFING_BUDGET if question.left is None else min(BRIEFING_BUDGET, question.left)
    while True:
        found = brief_project(snap, project, budget, at)
        length = _count_utf16(found.text)
        if length <= LIMIT:
            return HookContext(found.text, f"{length} characters" if length else "nothing found", found.items)
        budget = int(budget * _STEP)


def brief_view(memory: Memory, view: Snapshot, now: datetime) -> HookContext:
    """Return the briefing of a view whose rows are all of one project, as of a moment."""
    from query.hooks.briefing import BRIEFING_BUDGET, brief_project

    found = brief_project(view, None, BRIEFING_BUDGET, int(now.timestamp()))
    return HookContext(found.text, "", found.items)


def _recall_within_limit(
    memory: Memory, snap: Snapshot, question: str, budget: int, answered: float = 0.0, **options: Any
) -> HookContext:
    """Return a context, with the budget lowered until it fits LIMIT.

    Args:
        answered: least probability that the answer helps; below, there is no context.
    """
    for _ in range(_MAX_PACKS):
        bundle = _recall(memory, snap, question, budget=budget, **options)
        if bundle.skipped:
            return HookContext("", "skipped")
        if bundle.answered < answered:
            return HookContext("", f"nothing relevant ({bundle.answered:.2f})")
        context = bundle.context
        length = _count_utf16(context)
        if length <= LIMIT:
            degraded = ", degraded" if bundle.degraded else ""
            note = (f"{length} characters" if length else "nothing found") + degraded
            return HookContext(context, note, tuple(dict.fromkeys(item.id for item in bundle.packed)))
        budget = int(min(budget, bundle.tokens) * max(_STEP, 0.97 * LIMIT / length))
    return HookContext("", "too long")


def _count_utf16(text: str) -> int:
    """Count characters as JavaScript does, the agents' language."""
    return len(text) if text.isascii() else len(text.encode("utf-16-le", "surrogatepass")) // 2


def _recall(memory: Memory, snap: Snapshot, question: str, **options: Any) -> Bundle:
    """Recall from a view of the generation."""
    from helix.encoders.rerank import Rerankers
    from helix.sdk.answer_question import answer_question

    settings = memory.settings
    return answer_question(question, snap, RecallOptions(**options), settings, Trace(), Rerankers(settings))


def _is_skipped(memory: Memory, snap: Snapshot, prompt: str) -> bool:
    """Return whether the skip rules say that a prompt needs no memory."""
    from helix.question.build import build_query
    from helix.recipes.common import begin

    _, plan = begin(build_query(prompt, snap, memory.settings), snap, Trace())
    return plan.skip


def _drop_known(snap: Snapshot, session: str, seen: Sequence[str]) -> Snapshot:
    """Return the view without the agent's own session, and without items that it was given."""
    names = np.array([int(hash_parts(source, session), 16) for source in SOURCES], np.uint64)
    codes = snap.catalog.live_sessions(names) if session else ()
    rows = [row for identity in seen if (row := snap.find(identity)) is not None]
    return snap.exclude(codes, rows) if codes or rows else snap
