"""Planted logs: every scene once, each in a frame of a log. A seed determines values, quotes, names and frames.

The scenes were written from terminals, configuration and agents' transcripts, not from the rules that must find them.
"""

from __future__ import annotations

from dataclasses import dataclass

from tests.support.planted.template import Planted, read_marks, read_sections
from tests.support.planted.values import Values

_SCENES, _FRAMES = read_sections("scenes.txt"), read_sections("frames.txt")


@dataclass(frozen=True, slots=True)
class Log:
    """A text with the places of its secrets and look-alikes."""

    name: str
    text: str
    secrets: tuple[Planted, ...]
    likes: tuple[Planted, ...]


def build_corpus(seed: int) -> list[Log]:
    """Build one log of each scene."""
    values, logs = Values(seed), []
    for number, (scene, template) in enumerate(_SCENES):
        frame, around = _FRAMES[values.random.randrange(len(_FRAMES))]
        text, planted = read_marks(values.render(around, text=values.render(template)))
        secrets = tuple(each for each in planted if each.kind)
        logs.append(Log(f"{number}-{scene}-{frame}", text, secrets, tuple(each for each in planted if not each.kind)))
    return logs
