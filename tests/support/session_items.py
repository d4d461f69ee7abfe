"""Items of a session, as salience and trust see them."""

from __future__ import annotations

from helix.enrich.classify import classify
from helix.enrich.utterance import SessionItem
from helix.text.entities import find_entities
from tests.support.labelled import load_labelled


def user(text: str, *, type: str = "episodic", turn: int = 0, names: tuple[str, ...] = ()) -> SessionItem:
    return SessionItem(text, "user", "human", type, turn, names)


def assistant(text: str, *, type: str = "episodic", turn: int = 0, names: tuple[str, ...] = ()) -> SessionItem:
    return SessionItem(text, "assistant", "assistant", type, turn, names)


def tool(text: str, turn: int = 0, names: tuple[str, ...] = ()) -> SessionItem:
    return SessionItem(text, "tool", "tool", "code", turn, names)


def load_sessions(split: str | None = None) -> list[tuple[list[SessionItem], list[bool], list[str]]]:
    """Return the labelled sessions: items, whether each is worth keeping, and who vouches for it."""
    sessions = []
    for session in load_labelled("salience", split):
        turns = session["turns"]
        items = [
            SessionItem(
                turn["text"], turn["role"], turn["origin"], classify(turn["text"], turn["role"], turn["origin"])[0],
                place, tuple(entity.key for entity in find_entities(turn["text"])),
            )
            for place, turn in enumerate(turns)
        ]  # fmt: skip
        sessions.append((items, [turn["keep"] for turn in turns], [turn["source"] for turn in turns]))
    return sessions
