"""Rules forbid some command lines, and decisions are recognised."""

from __future__ import annotations

import pytest

from helix.text.cues import DECIDES, PREFERS, read_cues
from helix.work.rules import forbids


@pytest.mark.parametrize(
    ("rule", "line", "against"),
    [
        ("Never use npm here, use pnpm.", "npm install", True),
        ("Never use npm here, use pnpm.", "pnpm install", False),
        ("Never run `npm publish` from a laptop.", "cd web && npm publish --tag next", True),
        ("Never run `npm publish` from a laptop.", "npm install", False),
        ("Don't git push --force to main", "git push --force origin main", True),
        ("Don't git push --force to main", "git commit -m 'no push'", False),
        ("Always use uv run pytest, never pytest directly.", "pytest -q tests", True),
        ("Always use uv run pytest, never pytest directly.", "uv run pytest -q tests", False),
        ("Always run make check before a commit.", "make check", False),
        ("Use make test instead of tox.", "tox -e py311", True),
        ("Use make test instead of tox.", "make test", False),
        ("never edit codegen.py by hand: make codegen writes it", "make codegen", False),
        ("Never commit secrets.", "git commit -m x", False),
        ("Never use npm here", "grep -rn npm docs", False),
        ("Never use npm here", "", False),
    ],
)
def test_a_rule_is_against_a_command(rule: str, line: str, against: bool) -> None:
    assert forbids(rule, line) is against


@pytest.mark.parametrize(
    ("text", "role", "decides"),
    [
        ("We decided that queue.py stays as it is.", "user", True),
        ("Have we decided on queue.py?", "user", False),
        ("We decided that queue.py stays as it is.", "assistant", False),
        ("an undecided vote", "user", False),
        ("We decided on it. " * 30, "user", False),
    ],
)
def test_a_decision_is_a_users_and_short(text: str, role: str, decides: bool) -> None:
    assert bool(read_cues(text, role) & DECIDES) is decides


@pytest.mark.parametrize(
    ("text", "prefers"),
    [
        ("I prefer short answers without emojis.", True),
        ("I'd rather have small commits", True),
        ("My preference is that tests come first.", True),
        ("In this project, all times are UTC.", True),
        ("please use metric units in all answers", True),
        ("Which do I prefer?", False),
        ("please write the test", False),
        ("He would rather have small commits", False),
        ("rather than agent have the footer say filter by agent", False),
    ],
)
def test_a_preference_opens_a_text(text: str, prefers: bool) -> None:
    assert bool(read_cues(text, "user") & PREFERS) is prefers
    assert not read_cues(text, "assistant") & PREFERS
