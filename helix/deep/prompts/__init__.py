"""Prompts, one file each: the system message, a line `---`, and the user message."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from functools import cache
from importlib.resources import files
from string import Template

from helix.util.sanitise import sanitise_text

Messages = Sequence[Mapping[str, str]]
"""A prompt: `role` and `content` of each message."""

_SEPARATOR = "\n---\n"


def fill_prompt(name: str, **fields: str) -> Messages:
    """Fill in a prompt; fields in what is filled in stay as they are."""
    system, user = (Template(part) for part in read_prompt(name).split(_SEPARATOR))
    return [
        {"role": "system", "content": system.substitute()},
        {"role": "user", "content": user.substitute(fields).strip()},
    ]


@cache
def read_prompt(name: str) -> str:
    """Read a prompt's file."""
    return (files("helix.deep.prompts") / f"{name}.txt").read_text("utf-8")


@cache
def digest() -> str:
    """Return sixteen hex digits over all prompts; they are part of the key of cached replies."""
    names = sorted(entry.name for entry in files("helix.deep.prompts").iterdir() if entry.name.endswith(".txt"))
    return hashlib.sha256("".join(read_prompt(name.removesuffix(".txt")) for name in names).encode()).hexdigest()[:16]


def quote(text: str) -> str:
    """Return a question or a memory as data in a prompt: none of our tags, no hidden characters, one line."""
    return " ".join(sanitise_text(text).replace("<", "&lt;").split())
