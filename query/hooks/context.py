"""What the memory says at a point of an agent's session: the same in the query process and where the store is opened
for one hook.

A prompt is asked as it is, within the project of the folder the agent works in; what its own session said is in its
context already and left out. At the start of a session the newest of the project is told.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple, cast

import numpy as np

from helix.sdk.memory import Memory
from helix.settings import load
from helix.snapshot.reader.snapshot import Snapshot
from helix.snapshot.segment.batch import NO_TIME, digest
from helix.stages.trace import Trace
from query.hooks.command import project_of

if TYPE_CHECKING:
    from helix.encoders.dense import Encoder
    from helix.types import Bundle
    from query.hooks.encoder_process import EncoderBeside

LIMIT: Final = 8_000
"""Characters of a context, as agents count them; a longer one they cut, or put into a file."""

SOURCES: Final = ("claude-code", "codex", "gemini", "cursor")
"""Formats that the hooks' sessions are read in: a session is known by its source and its id."""

BRIEFING: Final = "decisions, open work and next steps"
SESSIONS: Final = 3
"""Of a project, that a briefing is about: the newest."""

_BUDGET: Final = 1_800  # tokens that mostly fit into LIMIT
_TRIES: Final = 12
_STEP: Final = 0.75  # at the most at a time: a word that is one token can have a thousand characters
_GENERAL: Final = 400  # characters; a longer question is about something


class Asked(NamedTuple):
    """What a hook wants to know."""

    kind: str  # prompt | start
    prompt: str
    folders: tuple[str, ...]  # that the agent works in, the likeliest first
    session: str
    source: str  # of a start: startup | resume | clear | compact

    @classmethod
    def of(cls, raw: Mapping[str, Any]) -> Asked:
        """From JSON; what is of another type counts as not said."""
        folders = raw.get("folders")
        named = tuple(one for one in folders if isinstance(one, str)) if isinstance(folders, list) else ()
        kind, prompt, session, source = (
            value if isinstance(value := raw.get(name), str) else "" for name in ("kind", "prompt", "session", "source")
        )
        return cls(kind, prompt, named, session, source)


def open_memory(root: Path | str, encoder: EncoderBeside | None = None) -> Memory:
    """A store, opened for one question; `encoder` is its own, which another process reads."""
    memory = Memory(root, load(), warm=False)
    if encoder and memory.snapshot.manifest and memory.snapshot.manifest.lineage.encoder == encoder.fingerprint:
        memory.snapshot.encoder = cast("Encoder", encoder)
    return memory


def answer(memory: Memory, asked: Mapping[str, Any], whole: Snapshot | None = None) -> dict[str, str]:
    """`context`, empty where there is nothing to say, and `said`: what was done, without a word of what was asked.

    Args:
        whole: the generation as who asks may see it; as everybody may where not given.
    """
    one = Asked.of(asked)
    whole = whole or memory.snapshot.seen_by(None)
    snap = whole if one.kind == "start" and one.source == "compact" else _without(whole, one.session)
    project = next((name for folder in one.folders if (name := project_of(folder)) in snap.live_projects), None)
    say = _briefing if one.kind == "start" else _recollection
    context, said = say(memory, snap, one, project)
    return {"context": context, "said": f"{said}, {'project' if project else 'no project'}"}


def told(memory: Memory, snap: Snapshot, question: str | None, project: str | None, budget: int) -> str:
    """A context as text: of a question, or of where the newest sessions stand, of a project or of all.

    Args:
        snap: the generation as who asks may see it.

    Raises:
        UsageError: an argument is out of range or names what is not there.
    """
    given: dict[str, Any] = {"project": project, "budget": budget}
    if question is None:
        from helix.question.build import check_known

        project = check_known("project", project, snap.live_projects)
        question, given["since"] = _standing(project), _since(snap, project)
    return _recall(memory, snap, question, **given).context


def _recollection(memory: Memory, snap: Snapshot, one: Asked, project: str | None) -> tuple[str, str]:
    """What the prompt brings to mind."""
    prompt = one.prompt.strip()
    if "</" in prompt:
        from helix.sources.common.strip import strip_host, strip_memory  # here: with it come all the formats

        prompt = strip_host(strip_memory(prompt)).strip()
    if not prompt:
        return "", "empty"
    # A filter forces a search, so whether the prompt is one that needs no memory is asked without it.
    if project and len(prompt) <= _GENERAL and _needless(memory, snap, prompt):
        return "", "skipped"
    return _fitting(memory, snap, prompt, project=project)


def _briefing(memory: Memory, snap: Snapshot, one: Asked, project: str | None) -> tuple[str, str]:
    """The newest of a project; of none that is known there is nothing to tell."""
    if project is None:
        return "", "nothing"
    return _fitting(memory, snap, _standing(project), project=project, since=_since(snap, project))


def _standing(project: str | None) -> str:
    """What a briefing asks."""
    return BRIEFING if project is None else f"{BRIEFING} in {project}"


def _since(snap: Snapshot, project: str | None) -> str | None:
    """When the oldest of the newest sessions began; None where there are no more, or some item has no time."""
    columns = snap.columns
    rows = np.flatnonzero(
        snap.alive if project is None else snap.alive & (columns.project == snap.projects.index(project))
    )
    times, sessions = columns.time[rows], columns.session[rows]
    if not len(rows) or (times == NO_TIME).any():
        return None
    codes, of = np.unique(sessions, return_inverse=True)
    if len(codes) <= SESSIONS:
        return None
    begun = np.full(len(codes), np.iinfo(np.int64).max)
    np.minimum.at(begun, of, times)
    oldest = int(np.sort(begun)[-SESSIONS])
    return str(np.datetime64(oldest, "s")) + "Z"


def _fitting(memory: Memory, snap: Snapshot, question: str, **given: Any) -> tuple[str, str]:
    """The context, within LIMIT: where it is longer, it is packed anew with fewer tokens."""
    budget = _BUDGET
    for _ in range(_TRIES):
        bundle = _recall(memory, snap, question, budget=budget, **given)
        if bundle.skipped:
            return "", "skipped"
        long = _length(bundle.context)
        if long <= LIMIT:
            degraded = ", degraded" if bundle.degraded else ""
            return bundle.context, (f"{long} characters" if long else "nothing found") + degraded
        budget = int(min(budget, bundle.tokens) * max(_STEP, 0.97 * LIMIT / long))
    return "", "too long"


def _length(text: str) -> int:
    """Characters as JavaScript counts them: agents are written in it."""
    return len(text) if text.isascii() else len(text.encode("utf-16-le", "surrogatepass")) // 2


def _recall(memory: Memory, snap: Snapshot, question: str, **given: Any) -> Bundle:
    """One recall of a part of a snapshot."""
    from helix.encoders.rerank import Rerankers
    from helix.question.build import make_query
    from helix.recipes.load_profile import load as profile
    from helix.recipes.registry import recipe

    settings = memory.settings
    constants = profile("helix", settings.profiles)
    query = make_query(question, snap, settings, **given)
    return recipe(constants.recipe).recall(query, snap, constants, Trace(), Rerankers(settings))


def _needless(memory: Memory, snap: Snapshot, prompt: str) -> bool:
    """Whether the router skips the prompt."""
    from helix.question.build import make_query
    from helix.recipes.common import begin

    _, plan = begin(make_query(prompt, snap, memory.settings), snap, Trace())
    return plan.skip


def _without(snap: Snapshot, session: str) -> Snapshot:
    """The same generation without a session: the agent has it in its context. After a compaction that is no longer
    so, and at its start the agent is told.
    """
    codes = snap.live_sessions(np.array([int(digest(source, session), 16) for source in SOURCES], np.uint64))
    return snap.without(codes) if codes else snap
