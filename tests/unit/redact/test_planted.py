"""How much of what is planted in realistic logs is found, and how much else. `docs/redaction.md` has the figures."""

from __future__ import annotations

import json
from collections import Counter

import pytest

from helix.redact.redact import redact
from helix.sources.common.decode import plain_escapes
from tests.support.planted import PROVIDERS, Log, Score, corpus, score

SEEDS = (11, 23, 37, 41, 59)


@pytest.fixture(scope="module")
def logs() -> list[Log]:
    return [log for seed in SEEDS for log in corpus(seed)]


@pytest.fixture(scope="module")
def scores(logs: list[Log]) -> list[Score]:
    return [score(log, redact(log.text)[0]) for log in logs]


def test_the_corpus_is_large_and_varied() -> None:
    for seed in SEEDS:
        logs = corpus(seed)
        secrets = [secret for log in logs for secret in log.secrets]
        assert len(secrets) >= 250
        assert len({secret.kind for secret in secrets}) >= 60
        assert sum(len(log.likes) for log in logs) >= 250
        assert len({secret.value for secret in secrets}) > 0.95 * len(secrets)
        assert all(log.text[each.start : each.stop] == each.value for log in logs for each in log.secrets + log.likes)
    assert {log.text for log in corpus(1)}.isdisjoint({log.text for log in corpus(2)})
    assert [log.text for log in corpus(1)] == [log.text for log in corpus(1)]
    assert len(PROVIDERS) >= 60


def test_nearly_all_secrets_go(logs: list[Log], scores: list[Score]) -> None:
    missed = Counter(secret.kind for each in scores for secret in each.missed)
    assert 1 - missed.total() / sum(len(log.secrets) for log in logs) >= 0.98, missed


def test_nearly_nothing_else_goes(scores: list[Score]) -> None:
    wrong = [span for each in scores for span in each.wrong]
    assert 1 - len(wrong) / sum(each.redactions for each in scores) >= 0.95, wrong
    touched = sum(len(each.touched) for each in scores)
    assert touched <= 0.01 * sum(each.redactions for each in scores)


def test_no_secret_is_found_by_looking_for_it(logs: list[Log], scores: list[Score]) -> None:
    for log, each in zip(logs, scores, strict=True):
        text, _ = redact(log.text)
        for secret in set(log.secrets) - set(each.missed):
            assert len(secret.value) < 8 or secret.value not in text, secret


def test_json_stays_json(logs: list[Log]) -> None:
    lines = 0
    for log in logs:
        if log.text.startswith('{"') and "\n" in log.text and log.name.rpartition("-")[2] != "plain":
            before, after = log.text.splitlines(), redact(log.text)[0].splitlines()
            assert len(before) == len(after)
            for line, redacted in zip(before, after, strict=True):
                assert json.loads(redacted).keys() == json.loads(line).keys()
                lines += 1
    assert lines > 100


def test_escapes_hide_nothing_once_they_are_undone(logs: list[Log]) -> None:
    """As JSON may write any letter, and some writers do some."""
    log = next(log for log in logs if log.name.startswith("1-") and '{"' in log.text[:2])
    hidden = log.text.replace("=", "\\u003d").replace("g", "\\u0067")
    text, _ = redact(plain_escapes(hidden))
    assert not [secret for secret in log.secrets if secret.value in text]


def test_the_score_counts_what_it_should() -> None:
    log = next(log for log in corpus(1) if log.name == "20-commands-" + log.name.rpartition("-")[2])
    untouched = score(log, log.text)
    assert len(untouched.missed) == len(log.secrets)
    assert untouched.redactions == 0
    first, like = log.secrets[5], log.likes[0]
    one = log.text[: first.start] + "[REDACTED:password]" + log.text[first.stop :]
    assert len(score(log, one).missed) == len(log.secrets) - 1
    assert score(log, one).wrong == ()
    half = log.text[: first.start] + "[REDACTED:password]" + log.text[first.stop - 1 :]
    assert len(score(log, half).missed) == len(log.secrets)
    other = log.text[: like.start] + "[REDACTED:token]" + log.text[like.stop :]
    assert len(score(log, other).wrong) == 1
    assert score(log, other).touched == (like,)
    greedy = log.text[: first.start - 40] + "[REDACTED:token]" + log.text[first.stop :]
    assert len(score(log, greedy).wrong) == 1
