"""Junk that looks the same in every format, taken out of what an adapter has read. The rules, in this order:

- `summariser`: a session in which every prompt is the fixed text of a program that had a model name, sum up or watch
  another session. It says nothing that the other one does not say.
- `encoded`: a run of 200 characters or more in base64 or hex, of a picture or an archive. A note of its length stays.
- `repeated`: a paragraph of 200 characters or more, that the same session has word for word already. What is pasted
  into every prompt, and what a tool prints each time, is said once. Answers are left alone: a model that repeats itself
  means it. So are chats, meetings and notes: what people keep, they keep on purpose.

All of it looks at what came before, never at what comes after, so a log that is still being written reads the same.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from typing import Final

from helix.types import Parsed, Session, Turn

ENCODED: Final = 200
"""Characters of a run that is no word of any language."""

REPEATED: Final = 200
"""Characters of a paragraph that nobody types twice."""

_RUN: Final = re.compile(
    rf"(?:data:[\w.+-]{{1,60}}/[\w.+;=-]{{1,80}},)?[A-Za-z0-9+/_-]{{{ENCODED},}}={{0,2}}", re.ASCII
)
_LINES: Final = re.compile(r"(?:^[A-Za-z0-9+/]{60,80}\n){4,}[A-Za-z0-9+/]{0,80}={0,2}$", re.ASCII | re.MULTILINE)
_PARAGRAPHS: Final = re.compile(r"(\n[ \t]*\n\s*)")

# The beginnings of prompts that programs send, each as one that has been seen in logs.
_HEADLESS: Final = re.compile(
    r"\s*(?:"
    r"Please write a \d+[-–]\d+ word title (?:for|of) the following conversation"
    r"|(?:Generate|Write|Create) a (?:concise|short|brief)[^\n]{0,60}\btitle\b[^\n]{0,80}"
    r"\b(?:conversation|session|chat|task)"
    r"|(?:Please )?(?:[Ss]ummari[sz]e|[Cc]ondense) (?:this|the (?:following|above)) "
    r"(?:coding |agent |Claude Code |AI )?(?:conversation|session|transcript|chat)\b"
    r"|Analyze if this message indicates a new conversation topic"
    r"|Extract any file paths that this command reads or modifies"
    r"|You are a (?:memory|summary|summarization|observer) agent\b"
    r"|You are a Claude-Mem\b"
    r"|Hello memory agent\b"
    r"|Your task is to (?:create|write|produce) a detailed summary of the conversation so far"
    r"|\[SUGGESTION MODE:"
    r"|Warmup\s*$"
    r")"
)


_KEPT: Final = frozenset({"jsonl", "markdown", "captions", "meeting", "slack"})
"""Formats of what people keep."""


def clean(parsed: Parsed) -> Parsed:
    """What was read, without junk of any format; what is left out is counted in characters."""
    junk = Counter(parsed.junk)
    kept = []
    for session in parsed.sessions:
        if _is_headless(session):
            junk["summariser"] += sum(len(turn.text) for turn in session.turns)
            continue
        turns = tuple(_turns(session, junk))
        if turns:
            kept.append(session if turns == session.turns else replace(session, turns=turns))
    return replace(parsed, sessions=tuple(kept), junk=junk)


def _is_headless(session: Session) -> bool:
    prompts = [turn.text for turn in session.turns if turn.origin == "human" and turn.role == "user"]
    return session.source not in _KEPT and bool(prompts) and all(map(_HEADLESS.match, prompts))


def _turns(session: Session, junk: Counter[str]) -> Iterator[Turn]:
    said: set[int] = set()
    for turn in session.turns:
        text = _without_encoded(turn.text, junk)
        if turn.role != "assistant" and session.source not in _KEPT:
            text = _without_repeated(text, said, junk)
        if text:
            yield turn if text == turn.text else replace(turn, text=text)


def _without_encoded(text: str, junk: Counter[str]) -> str:
    if len(text) < ENCODED:
        return text

    def note(match: re.Match[str]) -> str:
        run = match[0]
        # A row of dashes, or a long path, is no data; that has many different characters, digits among them.
        if len(set(run)) < 12 or not re.search(r"\d", run) or run.count("/") > len(run) / 12 or "--" in run:
            return run
        junk["encoded"] += len(run)
        return f"[{len(run)} characters of encoded data]"

    return _LINES.sub(note, _RUN.sub(note, text))


def _without_repeated(text: str, said: set[int], junk: Counter[str]) -> str:
    if len(text) < REPEATED:
        return text
    kept, left_out = [], 0
    for part in _PARAGRAPHS.split(text):
        if len(part) >= REPEATED:
            key = hash(" ".join(part.split()))
            if key in said:
                left_out += len(part)
                continue
            said.add(key)
        kept.append(part)
    junk["repeated"] += left_out
    return "".join(kept).strip() if left_out else text
