"""Taking out what no one wrote: our own injected memory, and the context a host adds to a conversation.

Recall must not feed on itself, so `<memory>` blocks go from every source. Only tags that open at the start of a line
(or right behind another tag) count: people and models mention tags in the middle of a sentence, and that is text.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from typing import Final

_Span = tuple[int, int, int, int, str]  # from, to, the same of what is inside, tag

# Not `<memory unit='KiB'>`: that is a libvirt domain, somebody's work.
# What a hook says before the block on the same line belongs to the block.
_MEMORY: Final = re.compile(
    r"(?m)(?P<open>^(?:[^\n<]{0,200}\bhook\b[^\n<]{0,200}|[ \t]*)<memory(?:[ \t]+(?!unit\b)[^>\n]{0,500})?>)"
    r"|(?P<close></memory[ \t]*>)"
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
_MIN_ARGUMENT_WORDS: Final = 3  # `/review only the webhook code` says something, `/model opus` does not


def strip_memory(text: str) -> str:
    """`text` without `<memory>…</memory>` blocks, nor the hook line that introduces one. Unclosed tags stay."""
    if "</memory" not in text:
        return text
    return _without(text, _memory_spans(text))


def strip_host(text: str) -> str:
    """`text` without the blocks and marks that Claude Code adds: reminders, command echoes, notifications.

    `<bash-input>` becomes `$ command`; `<command-args>` stay when they are a phrase.
    """
    text = _ANSI.sub("", text)
    if "</" in text:
        text = _without(text, _host_spans(text))
    if "[Request interrupted" in text:
        text = _INTERRUPTED.sub("", text).strip()
    return text


def _memory_spans(text: str) -> Iterator[_Span]:
    opened: list[int] = []
    for match in _MEMORY.finditer(text):
        if match["open"] is not None:
            opened.append(match.start())
        elif opened:
            start = opened.pop()
            yield start, match.end(), start, start, "memory"


def _host_spans(text: str) -> Iterator[_Span]:
    opened: dict[str, list[tuple[int, int]]] = {}
    for match in _HOST.finditer(text):
        if match["open"] is not None:
            opened.setdefault(match["name"], []).append(match.span())
        elif opened.get(match["closed"]):
            start, inner = opened[match["closed"]].pop()
            yield start, match.end(), inner, match.start(), match["closed"]


def _command(inner: str) -> str:
    return f"$ {inner.strip()}" if inner.strip() else ""


def _arguments(inner: str) -> str:
    return inner.strip() if len(inner.split()) >= _MIN_ARGUMENT_WORDS else ""


_KEPT: Final[dict[str, Callable[[str], str]]] = {"bash-input": _command, "command-args": _arguments}


def _without(text: str, spans: Iterator[_Span]) -> str:
    """Cut the spans; a span inside another one goes with it."""
    outermost: list[_Span] = []
    for span in sorted(spans, key=lambda span: (span[0], -span[1])):
        if not outermost or span[0] >= outermost[-1][1]:
            outermost.append(span)
    if not outermost:
        return text
    parts, position = [], 0
    for start, end, inner, inner_end, tag in outermost:
        keep = _KEPT.get(tag)
        parts += [text[position:start], keep(text[inner:inner_end]) if keep else ""]
        position = end
    return _BLANK_LINES.sub("\n\n", "".join([*parts, text[position:]])).strip()
