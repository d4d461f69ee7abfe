"""Collection of labelled cases: of the packaged histories, of other sets, and of prompts that need no memory."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from helix.errors import UsageError
from helix.settings import Settings
from helix.types import F32
from pipelines.eval.relevance.ask import CaseEvidence, ask_case
from pipelines.eval.relevance.cases import Case, list_cases, list_prompts, read_prompts
from pipelines.eval.relevance.haystacks import HISTORIES, Haystacks, open_haystacks
from pipelines.eval.relevance.log_cases import UNSAID, list_foreign, list_unsaid
from pipelines.eval.replay.logs import open_logs
from pipelines.training.router import predict_left_out, read_router, read_training_prompts

MOST: Final[Mapping[str, int]] = {
    HISTORIES: 1_200,
    "xquad": 1_500,
    "locomo": 700,
    "friendsqa": 600,
    "qmsum": 250,
    "cranfield": 150,
}
"""Questions of a set that are asked; of more, a sample."""

_ANY: Final = 400

_PACKAGED: Final = ("prompts without need", "chores")

TESTED: Final = (*_PACKAGED, UNSAID)
"""Sources that are only measured, never trained on."""

_HELD: Final = "test"  # half of the packaged histories that is never trained on


def collect_cases(
    sets: Mapping[str, tuple[str, Path]],
    settings: Settings,
    work: Path,
    say: Callable[[str], None],
    logs: Path | None = None,
) -> list[CaseEvidence]:
    """Ingest the histories and sets below `work`, ask all cases, and read their evidence.

    Args:
        sets: (name in the registry, path) by label.
        logs: a folder of agents' logs, whose prompts are asked as well.

    Raises:
        UsageError, InputRefused: as in `read_set`.
    """
    given: dict[str, tuple[str, Path | None]] = {HISTORIES: (HISTORIES, None), **sets}
    haystacks = [open_haystacks(label, name, path, settings, work) for label, (name, path) in given.items()]
    encoder = haystacks[0].snap.encoder
    router = read_router(encoder, settings)
    if router is None:
        raise UsageError("the router cannot be trained", "install helix-recall[workers]")
    for one in haystacks:  # a store may have been ingested by an earlier release
        one.snap.files.__dict__["router"] = router
    alone = [one for one in haystacks if len(one.projects) == 1]
    asked: list[CaseEvidence] = []
    for one in haystacks:
        cases = list(list_cases(one, alone, MOST.get(one.kind, _ANY)))
        asked += _ask(cases, settings)
        say(f"{one.label}: {len(cases)} cases of {len(one.questions)} questions")
    trained = _ask(_list_training_prompts(haystacks), settings)
    left_out = predict_left_out(encoder)
    asked += [_with_logit(one, left_out[one.question]) for one in trained]
    for source, name, each in zip(_PACKAGED, ("no_memory", "chores"), (2, 4), strict=True):
        asked += _ask(list_prompts(source, read_prompts(name), "none", haystacks, each), settings)
    if logs is not None:
        asked += _ask_logs(logs, haystacks, settings, work, router, say)
    say(f"{len(asked)} cases in all")
    return asked


def _ask_logs(
    folder: Path,
    haystacks: Sequence[Haystacks],
    settings: Settings,
    work: Path,
    router: dict[str, F32],
    say: Callable[[str], None],
) -> list[CaseEvidence]:
    """Ask the prompts of logs of other projects, and of their own before anything relevant was said."""
    logs = open_logs(folder, settings, work)
    logs.snap.files.__dict__["router"] = router
    asked = _ask(list_foreign(logs, haystacks), settings) + _ask(list_unsaid(logs), settings)
    say(f"{folder.name}: {len(asked)} cases of {len(logs.prompts)} prompts")
    return asked


def _ask(cases: Iterable[Case], settings: Settings) -> list[CaseEvidence]:
    return [ask_case(case, settings) for case in cases]


def _list_training_prompts(haystacks: Sequence[Haystacks]) -> Iterable[Case]:
    prompts: Any = read_training_prompts()
    yield from list_prompts("training prompts without need", prompts["no_memory"][::3], "none", haystacks, 1)
    yield from list_prompts("training chores", prompts["chores"], "none", haystacks, 2)
    yield from list_prompts("questions to another memory", prompts["memory"][::2], "other", haystacks, 1)


def _with_logit(one: CaseEvidence, needless: float) -> CaseEvidence:
    """Return the case with a log-odds from a classifier that was trained without its prompt."""
    return one if one.evidence is None else one._replace(evidence=one.evidence._replace(needless=needless))


def is_trainable(one: CaseEvidence) -> bool:
    """Return whether a case may be trained on."""
    return one.source not in TESTED and not one.category.startswith(f"{_HELD} ")
