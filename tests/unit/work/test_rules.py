"""Rules forbid some command lines, and decisions are recognised."""

from __future__ import annotations

from pathlib import Path

import pytest

from helix.snapshot.reader.snapshot import Snapshot
from helix.text.cues import DECIDES, PREFERS, read_cues
from helix.work.rules import find_rules_about, find_rules_against, forbids
from helix.work.sessions import list_last_sessions
from tests.support.tiny import BASE, make_store


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
    ("language", "rule", "forbidden", "allowed"),
    [
        ("de", "Bitte nie npm install verwenden, immer pnpm.", "npm install", "pnpm install"),
        ("de", "npm install niemals verwenden", "npm install", "npm test"),
        ("de", "Nutze pnpm statt npm.", "npm install", "pnpm install"),
        ("de", "npm nicht verwenden, sondern pnpm", "npm install", "pnpm install"),
        ("es", "Nunca uses npm aquí, usa pnpm", "npm install", "pnpm install"),
        ("fr", "N'utilise jamais npm install", "npm install", "npm test"),
        ("it", "Non usare mai npm install", "npm install", "npm test"),
        ("ja", "npmの代わりにpnpmを使ってください", "npm install", "pnpm install"),
        ("ja", "npm installは絶対に使わないでください", "npm install", "npm test"),
        ("nl", "Gebruik nooit npm, altijd pnpm", "npm install", "pnpm install"),
        ("pt", "Não use npm aqui, use pnpm", "npm install", "pnpm install"),
        ("ru", "Никогда не используй npm install", "npm install", "npm test"),
        ("zh", "别用npm，用pnpm", "npm install", "pnpm install"),
    ],
)
def test_a_rule_forbids_in_its_language(language: str, rule: str, forbidden: str, allowed: str) -> None:
    assert forbids(rule, forbidden, language)
    assert not forbids(rule, allowed, language)


@pytest.mark.parametrize(
    ("text", "role", "decides"),
    [
        ("We decided that queue.py stays as it is.", "user", True),
        ("Have we decided on queue.py?", "user", False),
        ("We decided that queue.py stays as it is.", "assistant", False),
        ("an undecided vote", "user", False),
        ("Agreed. Now fix queue.py.", "user", False),
        ("The team has agreed to keep queue.py.", "user", True),
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
        ("please write tests for all functions", False),
        ("In this repo find the bug in queue.py", False),
        ("I prefer option 2", False),
        ("I'd rather do it later", False),
        ("I rather like the new logo", False),
        ("please answer in German", True),
        ("He would rather have small commits", False),
        ("rather than agent have the footer say filter by agent", False),
    ],
)
def test_a_preference_opens_a_text(text: str, prefers: bool) -> None:
    assert bool(read_cues(text, "user") & PREFERS) is prefers
    assert not read_cues(text, "assistant") & PREFERS


NEVER = "Never use npm here, see web/app.ts."
PATH = ("path", "app.ts", "app.ts")


def make_rules(root: Path, **changes: object) -> Snapshot:
    """The same words by a user, a named speaker, an agent, a doubtful user, and a user whom the next one corrects."""
    given = [
        {"speaker": None}, {"speaker": "Mallory"}, {"speaker": None, "role": "assistant"},
        {"speaker": None, "confidence": 0.3}, {"speaker": None}, {"speaker": None, **changes},
    ]  # fmt: skip
    dated = [{**one, "time": BASE + 60 * i, "session": f"s{i}"} for i, one in enumerate(given)]
    texts = [NEVER] * 5 + ["npm is fine in web/app.ts."]
    return make_store(root, texts, given=dated, mentions=[[PATH]] * 6, changes=[(4, 5, 1.0)])


def test_a_rule_is_a_users_own_of_trust_and_not_replaced(tmp_path: Path) -> None:
    snap = make_rules(tmp_path)
    assert find_rules_about(snap, "/srv/web/app.ts", BASE + 10_000).tolist() == [0]
    assert find_rules_against(snap, "npm install", BASE + 10_000).tolist() == [0]
    assert find_rules_about(snap, "/srv/web/app.ts", BASE + 241).tolist() == [4, 0]  # before it was replaced
    none = snap.columns.confidence < 0
    assert find_rules_about(snap, "/srv/web/app.ts", BASE + 10_000, none).tolist() == []
    assert find_rules_against(snap, "npm install", BASE + 10_000, none).tolist() == []
    assert find_rules_against(snap, "ls", BASE + 10_000).tolist() == []


def test_a_note_of_an_agent_takes_no_rule_away(tmp_path: Path) -> None:
    snap = make_rules(tmp_path, role="assistant", confidence=0.47)
    assert find_rules_about(snap, "/srv/web/app.ts", BASE + 10_000).tolist() == [4, 0]


def test_a_session_and_its_branches_are_listed_once(tmp_path: Path) -> None:
    names = ["logs~a~one", "logs~b~two", "main", "main~2349cab0"]
    given = [{"session": name, "time": BASE + 60 * i} for i, name in enumerate(names)]
    snap = make_store(tmp_path, ["text"] * 4, given=given)
    ends = list_last_sessions(snap, snap.alive, 5)
    assert [names[end.first] for end in ends] == ["main~2349cab0", "logs~b~two", "logs~a~one"]
