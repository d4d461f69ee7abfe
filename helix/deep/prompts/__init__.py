"""The prompts, a file each: what the system says, a line `---`, and what the user asks."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from functools import cache
from importlib.resources import files
from string import Template

from helix.util.sanitise import sanitise_text

Messages = Sequence[Mapping[str, str]]
"""A prompt: `role` and `content` of each message."""

_BETWEEN = "\n---\n"


def prompt(name: str, **said: str) -> Messages:
    """The prompt of that name, filled in. What is filled in is never looked through for fields again."""
    system, user = (Template(part) for part in text_of(name).split(_BETWEEN))
    return [
        {"role": "system", "content": system.substitute()},
        {"role": "user", "content": user.substitute(said).strip()},
    ]


@cache
def text_of(name: str) -> str:
    """A prompt as it is written."""
    return (files("helix.deep.prompts") / f"{name}.txt").read_text("utf-8")


@cache
def digest() -> str:
    """Sixteen hex digits over all prompts: what was asked by others is another answer."""
    found = sorted(entry.name for entry in files("helix.deep.prompts").iterdir() if entry.name.endswith(".txt"))
    return hashlib.sha256("".join(text_of(name.removesuffix(".txt")) for name in found).encode()).hexdigest()[:16]


def quoted(text: str) -> str:
    """A question or a memory as data in a prompt: no tag of ours in it, no hidden characters, one line."""
    return " ".join(sanitise_text(text).replace("<", "&lt;").split())
