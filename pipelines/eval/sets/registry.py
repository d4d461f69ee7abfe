"""Benchmark sets by name, read in their authors' layouts."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path

from helix.errors import InputRefused, UsageError
from pipelines.eval.sets.benchmark import Benchmark
from pipelines.eval.sets.conversations import convert_beam, convert_locomo, convert_longmemeval, convert_qmsum
from pipelines.eval.sets.fairytaleqa import convert_fairytaleqa
from pipelines.eval.sets.friendsqa import convert_friendsqa
from pipelines.eval.sets.histories import convert_histories
from pipelines.eval.sets.passages import convert_beir, convert_hipporag, convert_ir
from pipelines.eval.sets.squad_pairs import convert_squad_pairs
from pipelines.eval.sets.written import convert_chats, convert_worlds
from pipelines.eval.sets.xquad import convert_xquad

Convert = Callable[[Path, Path, str], Benchmark]
"""An adapter: (the set's path, the folder to write documents to, the set's name) → the set."""

SETS: Mapping[str, Convert] = {
    "locomo": convert_locomo,
    "beam": convert_beam,
    "longmemeval": convert_longmemeval,
    "qmsum": convert_qmsum,
    "friendsqa": convert_friendsqa,
    "histories": convert_histories,
    "chats": convert_chats,
    "worlds": convert_worlds,
    "fairytaleqa": convert_fairytaleqa,
    "squad_pairs": convert_squad_pairs,
    **dict.fromkeys(("musique", "hotpotqa", "2wikimultihopqa"), convert_hipporag),
    "xquad": convert_xquad,
    "beir": convert_beir,
    **dict.fromkeys(("ir", "cranfield", "npl"), convert_ir),
}


def read_set(name: str, path: Path, folder: Path) -> Benchmark:
    """Convert a set into files below `folder`. Questions without text or gold are left out, and counted.

    Raises:
        UsageError: no set has that name.
        InputRefused: `path` does not hold that set.
    """
    if name not in SETS:
        raise UsageError(f"no set {name!r}", f"there are {', '.join(SETS)}")
    folder.mkdir(parents=True, exist_ok=True)
    try:
        benchmark = _drop_unusable(SETS[name](path, folder, name))
    except (OSError, ValueError, LookupError, TypeError, AttributeError) as error:
        fault = f"{path} is no {name} set: {type(error).__name__}: {error}"
        raise InputRefused(fault, "see 'helix eval --help'") from None
    if not benchmark.questions:
        raise InputRefused(f"{path} holds no question with gold turns", "see 'helix eval --help'")
    return benchmark


def _drop_unusable(benchmark: Benchmark) -> Benchmark:
    left_out = Counter(benchmark.left_out)
    usable = []
    for question in benchmark.questions:
        if not question.text.strip():
            left_out["no text"] += 1
        elif not question.gold:
            left_out["no gold turn"] += 1
        else:
            usable.append(question)
    return replace(benchmark, questions=tuple(usable), left_out=dict(left_out))
