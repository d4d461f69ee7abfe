"""Removal of injected text: our own memory, and the context that a host adds to a conversation.

Recall must not feed on itself, so `<memory>` blocks are removed from every source. A tag counts only at the start of a
line or right after another tag: people and models mention tags inside a sentence, and that is text.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from typing import Final

_Span = tuple[int, int, int, int, str]  # start and end, the same of the inner text, tag

MIN_ARGUMENT_WORDS: Final = 3
"""Words of a command's arguments: `/review only the webhook code` is a request, `/model opus` is not."""

# Not `<memory unit='KiB'>`: that is a libvirt domain, somebody's work.
# The text of a hook on the same line before the block belongs to the block.
_MEMORY: Final = re.compile(
    r"(?m)(?P<open>^(?:[^\n<]{0,200}\bhook\b[^\n<]{0,200}|[ \t]*)<(?P<name>memory)(?:[ \t]+(?!unit\b)[^>\n]{0,500})?>)"
    r"|</(?P<closed>memory)[ \t]*>"
)
_HOST_TAG: Final = (
    r"system-reminder|command-name|command-message|command-args|local-command-[a-z]+|task-notification|bash-[a-z]+"
    r"|teammate-message|ide_[a-z_]+|environment_context|user-prompt-submit-hook"
)
_HOST: Final = re.compile(
    rf"(?m)(?P<open>(?:^|(?<=>))[ \t]*<(?P<name>{_HOST_TAG})(?:[ \t][^>\n]{{0,500}})?>)|</(?P<closed>{_HOST_TAG})>"
)
_INTERRUPTED: Final = re.compile(r"(?m)^[ \t]*\[Request interrupted by user[^\]\n]{0,80}\][ \t]*$")
_ANSI: Final = re.compile(r"\x1b\[[0-9;?]{0,32}[A-Za-z]")
_BLANK_LINES: Final = re.compile(r"\n[ \t]*\n\s*\n")


def strip_memory(text: str) -> str:
    """Return `text` without `<memory>…</memory>` blocks and their hook lines. Unclosed tags stay."""
    return _cut_blocks(text, _MEMORY, {}) if "</memory" in text else text


def strip_host(text: str) -> str:
    """Return `text` without the blocks and marks of Claude Code: reminders, command echoes, notifications.

    `<bash-input>` becomes `$ command`; `<command-args>` stay if they are a phrase.
    """
    text = _ANSI.sub("", text)
    if "</" in text:
        text = _cut_blocks(text, _HOST, _RETAINED)
    if "[Request interrupted" in text:
        text = _INTERRUPTED.sub("", text).strip()
    return text


def find_blocks(text: str, pattern: re.Pattern[str]) -> list[_Span]:
    """Return the outermost blocks between tags. `pattern` has the groups `open` and `name`, or `closed`."""
    opened: dict[str, list[tuple[int, int]]] = {}
    spans: list[_Span] = []
    for match in pattern.finditer(text):
        if match["open"] is not None:
            opened.setdefault(match["name"], []).append(match.span())
        elif opened.get(match["closed"]):
            start, inner = opened[match["closed"]].pop()
            spans.append((start, match.end(), inner, match.start(), match["closed"]))
    outermost: list[_Span] = []
    for span in sorted(spans, key=lambda span: (span[0], -span[1])):
        if not outermost or span[0] >= outermost[-1][1]:
            outermost.append(span)
    return outermost


def cut_spans(text: str, spans: Iterable[tuple[int, int, str]]) -> str:
    """Return `text` with each span from start to end replaced by a text."""
    parts, position = [], 0
    for start, end, replacement in spans:
        parts += [text[position:start], replacement]
        position = end
    return "".join([*parts, text[position:]])


def _cut_blocks(text: str, pattern: re.Pattern[str], retained: dict[str, Callable[[str], str]]) -> str:
    blocks = find_blocks(text, pattern)
    if not blocks:
        return text
    spans = (
        (start, end, retained[tag](text[inner:inner_end]) if tag in retained else "")
        for start, end, inner, inner_end, tag in blocks
    )
    return _BLANK_LINES.sub("\n\n", cut_spans(text, spans)).strip()


def _retain_command(inner: str) -> str:
    return f"$ {inner.strip()}" if inner.strip() else ""


def _retain_arguments(inner: str) -> str:
    return inner.strip() if len(inner.split()) >= MIN_ARGUMENT_WORDS else ""


_RETAINED: Final[dict[str, Callable[[str], str]]] = {"bash-input": _retain_command, "command-args": _retain_arguments}


def iterate_between(text: str, opening: str, closing: str) -> Iterator[tuple[int, int]]:
    """Yield start and end of each block between two marks, the marks included. An unclosed block is none."""
    end = 0
    while (start := text.find(opening, end)) >= 0 and (close := text.find(closing, start)) >= 0:
        end = close + len(closing)
        yield start, end
