"""Prompts of real logs of agents as cases that no item helps with.

*Another project*: a prompt is asked of the items of another project of the logs, and of a haystack of the other sets.

*Nothing said*: a prompt is asked of its own project as of its moment, without its own session, and only of earlier
sessions that share no rare term with the prompt and the agent's reply to it. Terms are those of
`pipelines.eval.replay.evidence`; one in more than COMMON of the earlier items is not rare. Prompts that have, with
their reply, fewer than LEAST_TERMS such terms cannot be judged, nor earlier sessions of fewer than LEAST_ITEMS items in
all; both give no case. The rule errs where something is said again in other words, so these cases are only measured.
"""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from typing import Final

import numpy as np

from helix.types import I64
from pipelines.eval.evaluate import find_last_moment
from pipelines.eval.relevance.cases import Case, list_prompts
from pipelines.eval.relevance.haystacks import Haystacks
from pipelines.eval.replay.evidence import TermIndex, find_terms
from pipelines.eval.replay.logs import LoggedPrompt, Logs, tell_moment

FOREIGN: Final = "prompts of logs to another project"
UNSAID: Final = "prompts of logs, nothing said before"

COMMON: Final = 0.5
"""Share of the earlier items above which a term is too common to tell a topic."""

LEAST_TERMS: Final = 3
LEAST_ITEMS: Final = 10

_LEAST_WORDS: Final = 3  # of a prompt; a shorter one ("yes", "proceed") asks nothing of any memory


def list_foreign(logs: Logs, haystacks: Sequence[Haystacks], seed: int = 0) -> Iterator[Case]:
    """Yield the prompts asked of other projects: of the logs, and of other sets."""
    draw = random.Random(f"{seed} {FOREIGN}")
    prompts = [prompt for prompt in logs.prompts if len(prompt.text.split()) >= _LEAST_WORDS]
    rows = {name: [item.row for item in logs.items if item.project == name] for name in logs.projects}
    for prompt in prompts:
        others = [name for name, of in rows.items() if name != prompt.project and len(of) >= LEAST_ITEMS]
        if others:
            yield _make_case(logs, FOREIGN, "other", prompt, np.array(rows[draw.choice(others)], np.int64))
    elsewhere = list_prompts(FOREIGN, [prompt.text for prompt in prompts], "other", haystacks, 1, seed)
    for prompt, case in zip(prompts, elsewhere, strict=True):
        yield case._replace(group=_name_group(prompt), category=prompt.source)


def list_unsaid(logs: Logs) -> Iterator[Case]:
    """Yield the prompts asked of those earlier sessions of their project that said nothing relevant."""
    index = TermIndex({item.row: item.text for item in logs.items}, logs.snap.rows)
    for prompt in logs.prompts:
        if len(prompt.text.split()) >= _LEAST_WORDS and len(rows := select_unsaid(logs, index, prompt)):
            yield _make_case(logs, UNSAID, "none", prompt, rows)


def select_unsaid(logs: Logs, index: TermIndex, prompt: LoggedPrompt) -> I64:
    """Return the rows of the earlier sessions that share no rare term with a prompt and its reply: int64[n]."""
    earlier = logs.list_earlier(prompt)
    terms = find_terms(prompt.text) | index.join(item.row for item in prompt.reply)
    if len(terms) < LEAST_TERMS:
        return earlier[:0]
    shared = set(index.weigh(terms, earlier, COMMON))
    sharing = {logs.by_row[row].session for row in earlier.tolist() if shared & index.terms[row]}
    rows = [row for row in earlier.tolist() if logs.by_row[row].session not in sharing]
    return np.array(rows if len(rows) >= LEAST_ITEMS else [], np.int64)


def _make_case(logs: Logs, source: str, kind: str, prompt: LoggedPrompt, rows: I64) -> Case:
    unsaid = source == UNSAID
    snap = logs.narrow(rows, prompt.at if unsaid else None)
    at = tell_moment(prompt.at) if unsaid else find_last_moment(snap, None)
    return Case(source, _name_group(prompt), kind, prompt.text, prompt.source, snap, None, at, frozenset())


def _name_group(prompt: LoggedPrompt) -> str:
    """Return the group of a prompt's cases: those of a project are never split between training and test."""
    return f"logs {prompt.project}"
