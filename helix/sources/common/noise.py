"""Removal of noise that looks the same in every format.

The rules, in this order:

- `summariser`: a session whose prompts are all fixed texts of a program. The program makes a model name, summarise or
  watch another session, so this one adds nothing.
- `encoded`: a run of 200 characters or more in base64 or hex, of a picture or an archive. A note of its length stays.
- `repeated`: a paragraph of 200 characters or more that the session has already, such as text pasted into every prompt.
  Answers stay: a model that repeats itself means it. So do chats, meetings and notes, which people write on purpose.

The rules look only at earlier turns, so a log that still grows reads the same.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from typing import Final

from helix.types import Parsed, Session, Turn

ENCODED: Final = 200
"""Least characters of an encoded run: longer than a word of any language."""

REPEATED: Final = 200
"""Least characters of a repeated paragraph: too long to be typed twice."""

_RUN: Final = re.compile(rf"(?:data:[\w.+-]{{1,60}}/[\w.+;=-]{{1,80}},)?[A-Za-z0-9+/_-]{{{ENCODED},}}={{0,2}}", re.A)
_LINES: Final = re.compile(r"(?:^[A-Za-z0-9+/]{60,80}\n){4,}[A-Za-z0-9+/]{0,80}={0,2}$", re.ASCII | re.MULTILINE)
_PARAGRAPHS: Final = re.compile(r"(\n[ \t]*\n\s*)")

# Openings of prompts that programs send, all found in logs.
_PROGRAM_PROMPT: Final = re.compile(
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


_PEOPLE: Final = frozenset({"jsonl", "markdown", "captions", "meeting", "slack"})  # formats that people write


def remove_noise(parsed: Parsed) -> Parsed:
    """Return the sessions without noise; `junk` counts the characters left out."""
    junk = Counter(parsed.junk)
    kept = []
    for session in parsed.sessions:
        if session.exported:
            kept.append(session)
            continue
        prompts = [turn.text for turn in session.turns if turn.origin == "human" and turn.role == "user"]
        if session.source not in _PEOPLE and prompts and all(map(_PROGRAM_PROMPT.match, prompts)):
            junk["summariser"] += sum(len(turn.text) for turn in session.turns)
            continue
        turns = tuple(_clean_turns(session, junk))
        if turns:
            kept.append(session if turns == session.turns else replace(session, turns=turns))
    return replace(parsed, sessions=tuple(kept), junk=junk)


def _clean_turns(session: Session, junk: Counter[str]) -> Iterator[Turn]:
    seen: set[int] = set()
    for turn in session.turns:
        text = _remove_encoded(turn.text, junk)
        if turn.role != "assistant" and session.source not in _PEOPLE:
            text = _remove_repeated(text, seen, junk)
        if text:
            yield turn if text == turn.text else replace(turn, text=text)


def _remove_encoded(text: str, junk: Counter[str]) -> str:
    if len(text) < ENCODED:
        return text

    def write_note(match: re.Match[str]) -> str:
        run = match[0]
        # Data has many different characters, digits among them; a row of dashes or a long path has not.
        if len(set(run)) < 12 or not re.search(r"\d", run) or run.count("/") > len(run) / 12 or "--" in run:
            return run
        junk["encoded"] += len(run)
        return f"[{len(run)} characters of encoded data]"

    return _LINES.sub(write_note, _RUN.sub(write_note, text))


def _remove_repeated(text: str, seen: set[int], junk: Counter[str]) -> str:
    if len(text) < REPEATED:
        return text
    kept, dropped = [], 0
    for part in _PARAGRAPHS.split(text):
        if len(part) >= REPEATED:
            key = hash(" ".join(part.split()))
            if key in seen:
                dropped += len(part)
                continue
            seen.add(key)
        kept.append(part)
    junk["repeated"] += dropped
    return "".join(kept).strip() if dropped else text
