"""Recall and precision of redaction on planted logs; `docs/explanation/redaction.md` has the figures."""

from __future__ import annotations

import json
from collections import Counter

import pytest

from helix.redact.redact import redact
from helix.sources.common.decode import unescape_ascii
from tests.support.planted.corpus import Log, build_corpus
from tests.support.planted.score import Score, score_log
from tests.support.planted.values import PROVIDERS

SEEDS = (11, 23, 37, 41, 59)


@pytest.fixture(scope="module")
def logs() -> list[Log]:
    return [log for seed in SEEDS for log in build_corpus(seed)]


@pytest.fixture(scope="module")
def texts(logs: list[Log]) -> list[str]:
    return [redact(log.text)[0] for log in logs]


@pytest.fixture(scope="module")
def scores(logs: list[Log], texts: list[str]) -> list[Score]:
    return list(map(score_log, logs, texts))


def test_the_corpus_is_large_and_varied() -> None:
    for seed in SEEDS:
        logs = build_corpus(seed)
        secrets = [secret for log in logs for secret in log.secrets]
        assert len(secrets) >= 250
        assert len({secret.kind for secret in secrets}) >= 60
        assert sum(len(log.likes) for log in logs) >= 250
        assert len({secret.value for secret in secrets}) > 0.95 * len(secrets)
        assert all(log.text[each.start : each.stop] == each.value for log in logs for each in log.secrets + log.likes)
    assert {log.text for log in build_corpus(1)}.isdisjoint({log.text for log in build_corpus(2)})
    assert [log.text for log in build_corpus(1)] == [log.text for log in build_corpus(1)]
    assert len(PROVIDERS) >= 60


def test_recall_is_at_least_98_percent(logs: list[Log], scores: list[Score]) -> None:
    missed = Counter(secret.kind for each in scores for secret in each.missed)
    assert 1 - missed.total() / sum(len(log.secrets) for log in logs) >= 0.98, missed


def test_precision_is_at_least_95_percent(scores: list[Score]) -> None:
    wrong = [span for each in scores for span in each.wrong]
    assert 1 - len(wrong) / sum(each.redactions for each in scores) >= 0.95, wrong
    touched = sum(len(each.touched) for each in scores)
    assert touched <= 0.01 * sum(each.redactions for each in scores)


def test_no_found_secret_remains_anywhere(logs: list[Log], texts: list[str], scores: list[Score]) -> None:
    for log, text, each in zip(logs, texts, scores, strict=True):
        for secret in set(log.secrets) - set(each.missed):
            assert len(secret.value) < 8 or secret.value not in text, secret


def test_json_stays_json(logs: list[Log], texts: list[str]) -> None:
    lines = 0
    for log, text in zip(logs, texts, strict=True):
        if log.text.startswith('{"') and "\n" in log.text and log.name.rpartition("-")[2] != "plain":
            for line, redacted in zip(log.text.splitlines(), text.splitlines(), strict=True):
                assert json.loads(redacted).keys() == json.loads(line).keys()
                lines += 1
    assert lines > 100


def test_escaped_letters_hide_no_secret(logs: list[Log]) -> None:
    log = next(log for log in logs if log.name.startswith("1-") and '{"' in log.text[:2])
    hidden = log.text.replace("=", "\\u003d").replace("g", "\\u0067")
    text, _ = redact(unescape_ascii(hidden))
    assert not [secret for secret in log.secrets if secret.value in text]


def test_the_score_counts_missed_wrong_and_touched() -> None:
    log = next(log for log in build_corpus(1) if log.name == "20-commands-" + log.name.rpartition("-")[2])
    untouched = score_log(log, log.text)
    assert len(untouched.missed) == len(log.secrets)
    assert untouched.redactions == 0
    first, like = log.secrets[5], log.likes[0]
    one = log.text[: first.start] + "[REDACTED:password]" + log.text[first.stop :]
    assert len(score_log(log, one).missed) == len(log.secrets) - 1
    assert score_log(log, one).wrong == ()
    half = log.text[: first.start] + "[REDACTED:password]" + log.text[first.stop - 1 :]
    assert len(score_log(log, half).missed) == len(log.secrets)
    other = log.text[: like.start] + "[REDACTED:token]" + log.text[like.stop :]
    assert len(score_log(log, other).wrong) == 1
    assert score_log(log, other).touched == (like,)
    greedy = log.text[: first.start - 40] + "[REDACTED:token]" + log.text[first.stop :]
    assert len(score_log(log, greedy).wrong) == 1
