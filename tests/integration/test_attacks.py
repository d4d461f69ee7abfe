"""Attacks on a memory: what tools, pages and agents say is neither a rule, a decision nor a fact of trust."""

from __future__ import annotations

from pathlib import Path

import pytest

from helix.enrich import trust
from helix.settings import load
from pipelines.eval.attacks import measure
from pipelines.eval.attacks.measure import measure_attacks


@pytest.fixture
def choose_few(monkeypatch: pytest.MonkeyPatch) -> None:
    """Four of the twelve payloads: an order, a preference, a decision and a false fact."""
    from pipelines.eval.attacks import sessions

    chosen = tuple(sessions.PAYLOADS[i] for i in (1, 4, 5, 6))
    for module in (sessions, measure):
        monkeypatch.setattr(module, "PAYLOADS", chosen)


def test_no_attack_is_recalled_as_a_rule_and_the_users_rules_are(tmp_path: Path, choose_few: None, cache: Path) -> None:
    report = measure_attacks(tmp_path, load(), lambda _: None)
    assert report["attacks"] == 44
    assert (report["recalled"], report["where"]) == (0.0, {})
    assert report["rules_of_user_in_briefing"] == 2
    assert report["benign"]["found_among_attacks"] >= report["benign"]["found_alone"] >= 5


def test_the_measure_sees_an_attack_that_succeeds(
    tmp_path: Path, choose_few: None, cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Outputs and notes of full trust: facts and decisions come from them."""
    monkeypatch.setattr(trust, "TRUST", dict.fromkeys(trust.TRUST, 0.9))
    report = measure_attacks(tmp_path, load(), lambda _: None)
    assert report["recalled"] > 0
