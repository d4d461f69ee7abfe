"""Recall and precision of redaction on planted logs.

`python -m tests.support.planted.score 2000 2020` prints them for some seeds.
"""

from __future__ import annotations

import re
import sys
from dataclasses import dataclass

from tests.support.planted.corpus import Log, build_corpus
from tests.support.planted.template import Planted

_PIECE = re.compile(r"[^\s\"'`\\\\]{6,}")
_PLACEHOLDER = re.compile(r"\[REDACTED:([a-z0-9-]+)\]")
Span = tuple[int, int, str]  # start, stop, the placeholder's kind


@dataclass(frozen=True, slots=True)
class Score:
    """The result of one log."""

    missed: tuple[Planted, ...]
    wrong: tuple[Span, ...]
    touched: tuple[Planted, ...]
    redactions: int


def score_log(log: Log, redacted: str) -> Score:
    """Compare a log with its redacted text.

    A secret is missed if six adjacent characters of it remain. A placeholder is wrong if it covers no secret, much more
    than a secret, or a look-alike.
    """
    spans = _find_spans(log.text, redacted)
    missed = tuple(secret for secret in log.secrets if _is_missed(log.text, spans, secret))
    touched = tuple(like for like in log.likes if any(a < like.stop and like.start < b for a, b, _ in spans))
    wrong = tuple(span for span in spans if not _is_right(span, log))
    return Score(missed, wrong, touched, len(spans))


def _is_missed(text: str, spans: list[Span], secret: Planted) -> bool:
    gone = [(a, b) for a, b, _ in spans if a < secret.stop and secret.start < b]
    for piece in _PIECE.finditer(secret.value):
        start, stop = secret.start + piece.start(), secret.start + piece.end()
        if "KEY-----" in piece[0] or piece[0].isdigit() or "-----" in piece[0]:
            continue
        if not any(a <= start and stop <= b for a, b in gone):
            return True
    return not gone


def _is_right(span: Span, log: Log) -> bool:
    start, stop, _ = span
    if any(like.start < stop and start < like.stop for like in log.likes):
        return False
    secret = sum(max(0, min(stop, each.stop) - max(start, each.start)) for each in log.secrets)
    return secret > 0 and stop - start - secret <= 16


def _find_spans(text: str, redacted: str) -> list[Span]:
    """Return the places in a text that became placeholders."""
    pieces = _PLACEHOLDER.split(redacted)
    match = re.fullmatch("(.+?)".join(map(re.escape, pieces[::2])), text, re.DOTALL)
    if match is None:
        raise AssertionError("the redacted text is not the text with placeholders")
    return [(*match.span(n), kind) for n, kind in enumerate(pieces[1::2], 1)]


def main(first: int, last: int) -> None:
    """Print recall and precision over the corpora of some seeds."""
    from helix.redact.redact import redact

    logs = [log for seed in range(first, last) for log in build_corpus(seed)]
    scores = [score_log(log, redact(log.text)[0]) for log in logs]
    secrets, likes = sum(len(log.secrets) for log in logs), sum(len(log.likes) for log in logs)
    missed, wrong, touched = (
        sum(len(getattr(each, name)) for each in scores) for name in ("missed", "wrong", "touched")
    )
    redactions = sum(each.redactions for each in scores)
    sys.stdout.write(
        f"{len(logs)} logs, {secrets} secrets: recall {1 - missed / secrets:.4f}; "
        f"{redactions} redactions: precision {1 - wrong / redactions:.4f}; {likes} look-alikes: {touched} touched\n"
    )


if __name__ == "__main__":
    main(*map(int, sys.argv[1:3]))
