"""Asking a case: the ranking of a profile, and the evidence of its best rows."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple, cast

import numpy as np

from helix.question.build import build_query
from helix.recipes.default import rank_question
from helix.recipes.load_profile import load
from helix.settings import Settings
from helix.stages.features.relevance import LISTED, Evidence, read_evidence
from helix.stages.reading import reorder
from helix.stages.trace import Trace
from helix.types import Bool, RecallOptions
from pipelines.eval.relevance.cases import Case

if TYPE_CHECKING:
    from helix.stages.constants import HelixProfile


class CaseEvidence(NamedTuple):
    """A case with its answer. `evidence` is None where the question is skipped, or nothing is found."""

    source: str
    group: str
    kind: str
    question: str
    category: str
    evidence: Evidence | None
    gold: Bool  # bool[n], of the rows of the evidence
    all_gold: int  # rows that help, found or not


def ask_case(case: Case, settings: Settings) -> CaseEvidence:
    """Rank a case's snapshot by the default profile, and read the evidence of the best rows."""
    profile = cast("HelixProfile", load("helix", settings.profiles))
    options = RecallOptions(project=case.project, now=case.at)
    query = build_query(case.question, case.snap, settings, options, profile)
    ranked = rank_question(query, case.snap, profile, Trace())
    evidence, gold = None, np.zeros(0, bool)
    if ranked is not None and len(ranked.pool):
        query, vector, plan, pool, signs = ranked
        pool = reorder(pool, query, vector, case.snap, plan, profile.reading)
        rows = pool.row[:LISTED].astype(np.int64)
        evidence = read_evidence(rows, signs(), query, vector, case.snap, plan)
        gold = np.isin(rows, sorted(case.gold))
    return CaseEvidence(*case[:5], evidence, gold, len(case.gold))
