"""Labelled questions: of each it is known which items help with it, and whether any does.

A question is answerable from its own haystack; not from another of its kind; nor from its own without the evidence,
which is the hard case; sets may have questions without an answer; and prompts such as "run the tests" need no memory.
"""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from datetime import datetime
from importlib.resources import files
from typing import Final, NamedTuple

import numpy as np

from helix.snapshot.reader.snapshot import Snapshot
from pipelines.eval.relevance.haystacks import Haystacks
from pipelines.eval.sets.benchmark import Question

KINDS: Final = ("own", "other", "hard", "abstention", "none")
"""Kinds of cases; only `own` is answerable."""

SMALL: Final = (1, 2, 3, 5, 8, 13, 21, 34, 55)
"""Items of the smallest haystacks: a store begins with few."""


PARALLEL: Final = ("xquad",)
"""Sets whose haystacks say the same in several languages, so that another one helps too."""


class Case(NamedTuple):
    """A question to a snapshot."""

    source: str  # label of the set
    group: str  # conversation or file; cases of a group are never split between training and test
    kind: str  # of KINDS
    question: str
    category: str  # of the question, in its set
    snap: Snapshot
    project: str | None
    at: datetime | None
    gold: frozenset[int]  # rows that help


def list_cases(one: Haystacks, others: Sequence[Haystacks], most: int, seed: int = 0) -> Iterator[Case]:
    """Yield the cases of a set's questions, each question in turn.

    Some haystacks are filtered by their project in a store of many, some are a store of their own, some are a few items
    of one. Statistics of a store differ among these, and relevance must not.

    Args:
        others: haystacks of the same kind, where the set has only one of its own.
        most: questions; of more, a sample.
    """
    draw = random.Random(f"{seed} {one.label}")
    chosen = draw.sample(one.questions, most) if len(one.questions) > most else list(one.questions)
    for question in chosen:
        way = draw.choice(("filter", "filter", "store", "small"))
        gold = one.find_rows(question.gold)
        yield _make_case(one, "own", question, *_narrow(one, question, gold, frozenset(), way, draw), gold)
        if one.kind in PARALLEL:
            article = one.find_rows(question.related)
            yield _make_case(one, "other", question, *_narrow(one, question, frozenset(), article, way, draw))
        elif (other := _choose_other(one, others, str(question.project), draw)) is not None:
            lender, project = other
            moved = question._replace(project=project)
            yield _make_case(one, "other", question, *_narrow(lender, moved, frozenset(), frozenset(), way, draw))
        if way != "small":
            removed = gold if one.kind in PARALLEL else gold | one.find_rows(question.related)
            yield _make_case(one, "hard", question, *_narrow(one, question, frozenset(), removed, way, draw))
    for question in one.unanswerable:
        yield _make_case(one, "abstention", question, one.snap, question.project)


def _make_case(
    one: Haystacks,
    kind: str,
    question: Question,
    snap: Snapshot,
    project: str | None,
    gold: frozenset[int] = frozenset(),
) -> Case:
    group = f"{one.label} {question.project}"
    return Case(one.label, group, kind, question.text, question.kind, snap, project, question.at, gold)


def _choose_other(
    one: Haystacks, others: Sequence[Haystacks], own: str, draw: random.Random
) -> tuple[Haystacks, str] | None:
    """Choose another haystack: of the same set, else of another set."""
    projects = [project for project in one.projects if project != own]
    if projects:
        return one, draw.choice(projects)
    lenders = [other for other in others if other.label != one.label]
    if not lenders:
        return None
    lender = draw.choice(lenders)
    return lender, draw.choice(lender.projects)


def _narrow(
    one: Haystacks,
    question: Question,
    kept: frozenset[int],
    removed: frozenset[int],
    way: str,
    draw: random.Random,
) -> tuple[Snapshot, str | None]:
    """Return the snapshot to ask, and its project filter.

    Args:
        kept: rows that stay in a small haystack.
        removed: rows to leave out.
        way: filter, store or small.
    """
    snap, project = one.snap, str(question.project)
    if way == "filter" and not removed:
        return snap, project
    alive = snap.alive.copy() if way == "filter" else one.select(project)
    if removed:
        alive[list(removed)] = False
    if way == "small":
        alive = _keep_few(alive, kept, draw)
    narrowed = Snapshot(snap.files, snap.row_map.narrow(alive, None), snap)
    return narrowed, project if way == "filter" and project in narrowed.catalog.live_projects else None


def _keep_few(
    alive: np.ndarray[tuple[int], np.dtype[np.bool_]], kept: frozenset[int], draw: random.Random
) -> np.ndarray[tuple[int], np.dtype[np.bool_]]:
    """Return a run of few of the live rows, around one of those that stay."""
    rows, n = np.flatnonzero(alive), draw.choice(SMALL)
    middle = int(np.searchsorted(rows, draw.choice(sorted(kept)))) if kept else draw.randrange(len(rows))
    first = max(0, min(middle - draw.randrange(n), len(rows) - n))
    few = np.zeros_like(alive)
    few[rows[first : first + n]] = True
    few[[row for row in kept if alive[row]]] = True
    return few


# ---------------------------------------------------------------- prompts that need no memory


def read_prompts(name: str) -> list[str]:
    """Read packaged prompts for the measurement: `no_memory` or `chores`."""
    text = (files("pipelines.eval") / "data" / "relevance" / f"{name}.txt").read_text("utf-8")
    return [line.strip() for line in text.splitlines() if line.strip()]


def list_prompts(
    label: str, prompts: Sequence[str], kind: str, haystacks: Sequence[Haystacks], each: int, seed: int = 0
) -> Iterator[Case]:
    """Yield each prompt asked of some random haystacks, none of which can help.

    Args:
        kind: of the cases: `none`, or `other` for questions to somebody else's memory.
        each: haystacks a prompt.
    """
    draw = random.Random(f"{seed} {label}")
    for i, prompt in enumerate(prompts):
        for _ in range(each):
            one = draw.choice(haystacks)
            project = draw.choice(one.projects)
            question = Question(project, prompt, frozenset(), at=one.moments[project])
            way = draw.choice(("filter", "store", "small"))
            snap, within = _narrow(one, question, frozenset(), frozenset(), way, draw)
            yield Case(label, f"{label} {i}", kind, prompt, "", snap, within, question.at, frozenset())
