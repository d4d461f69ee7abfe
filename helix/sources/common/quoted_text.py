"""A text as a block quote of Markdown: readable, inert, and the same bytes when it is read back.

A quoted text must not reach beyond its quote, nor act inside it: no front matter, HTML, comment, embed, wiki link, tag,
formula, block id or plug-in. So every such mark gets a backslash, which Markdown hides. Code fences stay as they are,
since nothing acts inside them; but a fence of an unusual language gets the prefix `text-`, for plug-ins run some.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from typing import Final

_FENCE: Final = re.compile(r" {0,3}(?P<mark>`{3,}(?=[^`]*\Z)|~{3,})(?P<blank>[ \t]*)(?P<info>.*)", re.DOTALL)
_PREFIX: Final = "text-"

_LANGUAGES: Final = (
    "text txt plain log console output sh bash zsh fish shell powershell ps1 bat cmd python py pycon js jsx ts tsx "
    "javascript typescript json jsonl json5 yaml yml toml ini cfg conf xml html css scss sql c h cpp hpp c++ cs csharp "
    "java kotlin scala go rust rs ruby rb php perl lua r swift dart elixir erlang haskell ocaml clojure lisp diff "
    "patch make makefile cmake dockerfile docker nginx graphql proto protobuf csv tsv md markdown tex vim asm"
)
_INERT: Final = frozenset(_LANGUAGES.split())
"""Languages of a fence that no plug-in runs."""

# Marks that act outside code. A backslash before any of `_MARKS`, or before a backslash, is one of the text.
_MARKS: Final = r"\[<%$#^"
_ACTS: Final = re.compile(
    r"\\(?=[\\\[<%$#^])"  # it would hide the next character
    r"|<(?=[A-Za-z/!?%])"  # HTML, autolinks, comments, templates
    r"|(?<=!)\[|\[(?=\[)|(?<=\[)\[|^\[(?=[^\]]*\]:)"  # pictures and embeds, wiki links, link definitions
    r"|%(?=%)|(?<=%)%"  # comments of Obsidian
    r"|\$(?=\$)|(?<=\$)\$"  # formulas over several lines
    r"|(?<![^\s\\])#(?=[^\s#])"  # tags
    r"|(?<![^\s\\])\^(?=[A-Za-z0-9-]+\s*\Z)"  # block ids
)
_HIDDEN: Final = re.compile(r"\\([\\\[<%$#^])")

_UNSAFE: Final = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u2028\u2029\ufeff\ufffe\uffff]")
"""Characters that end a line for some programs, or that a file of text may not hold."""


def has_unsafe(text: str) -> bool:
    """Return whether a text has characters that no quote can hold: its quote shows them as U+FFFD."""
    return _UNSAFE.search(text) is not None


def quote_text(text: str) -> str:
    """Return a text as lines of a block quote."""
    shown = _UNSAFE.sub("\ufffd", text)
    return "\n".join(f"> {line}" if line else ">" for line in _map_lines(shown.split("\n"), escape_line, _mark_info))


def unquote_lines(lines: list[str]) -> str:
    """Return the text of the lines of a block quote; what `quote_text` wrote comes back as it was."""
    inner = [line[2:] if line.startswith("> ") else line[1:] for line in lines]
    return "\n".join(_map_lines(inner, _restore_line, _restore_info))


def escape_line(line: str) -> str:
    """Return one line with a backslash before each mark that would act."""
    return _ACTS.sub(lambda match: f"\\{match[0]}", line)


def _restore_line(line: str) -> str:
    return _HIDDEN.sub(r"\1", line)


def _map_lines(
    lines: list[str], outside: Callable[[str], str], opening: Callable[[re.Match[str]], str]
) -> Iterator[str]:
    """Yield lines, those outside of code fences changed by one function, those that open a fence by another."""
    fence = ""
    for line in lines:
        found = _FENCE.fullmatch(line)
        if fence:
            if found and found["mark"].startswith(fence) and not found["info"].strip():
                fence = ""
            yield line
        elif found:
            fence = found["mark"]
            yield opening(found)
        else:
            yield outside(line)


def _mark_info(found: re.Match[str]) -> str:
    """Return a line that opens a fence, with a harmless language."""
    line, info = found[0], found["info"]
    if not info.strip() or info.strip().lower() in _INERT:
        return line
    return line[: found.start("info")] + _PREFIX + info


def _restore_info(found: re.Match[str]) -> str:
    line, info = found[0], found["info"]
    return line[: found.start("info")] + info.removeprefix(_PREFIX)
