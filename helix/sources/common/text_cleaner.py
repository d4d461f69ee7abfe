"""The texts of one document, cleaned, and the counts of all that is left out."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field

from helix.sources.common.fields import name_type
from helix.sources.common.injected import strip_host, strip_memory
from helix.sources.common.steps import StepNotes
from helix.sources.common.tools import TOOL_CHARS, format_call, is_own_call, keep_ends
from helix.types import Parsed, Problem, Session


@dataclass(slots=True)
class TextCleaner:
    """Rules for prompts, answers and tool results. It counts characters by rule and unknown types by name."""

    tool_chars: int = TOOL_CHARS
    problems: list[Problem] = field(default_factory=list)
    unknown: Counter[str] = field(default_factory=Counter)
    junk: Counter[str] = field(default_factory=Counter)
    own_calls: set[str] = field(default_factory=set)  # ids of tool calls that asked Helix itself
    steps: StepNotes = field(default_factory=StepNotes)

    def clean_prompt(self, text: str) -> str:
        """Return the text that a person typed, without our own memory and the host's additions."""
        own = self.clean_answer(text)
        return self.cut(own, strip_host(own).strip(), "host")

    def clean_answer(self, text: str) -> str:
        """Return the text of a model without our own memory.

        Host tags stay: no host injects them into an answer, so the model is writing about them.
        """
        text = text.strip()
        return self.cut(text, strip_memory(text).strip(), "memory")

    def clean_output(
        self, text: str, failed: bool | None = None, id: str | None = None, exit_code: int | None = None
    ) -> str:
        """Return both ends of a tool's result, after `error: ` if the tool failed.

        Args:
            failed: what the log says; None: nothing.
            id: of the call, where the log names it.
        """
        return self.retain_output(self.clean_prompt(text), failed, id, exit_code)

    def retain_output(
        self, text: str, failed: bool | None = None, id: str | None = None, exit_code: int | None = None
    ) -> str:
        """Return what `clean_output` does, of a text that is clean."""
        kept = self.shorten(text)
        kept = f"error: {kept}" if failed and kept else kept
        self.steps.note_result(kept, text, failed, exit_code, id or "")
        return kept

    def shorten(self, text: str, limit: int | None = None) -> str:
        """Return both ends of a text, by default `tool_chars` characters."""
        return self.cut(text, keep_ends(text, limit or self.tool_chars), "tool-output")

    def cut(self, text: str, kept: str, rule: str) -> str:
        """Return `kept`, and count the characters that `text` has more."""
        self.count(len(text) - len(kept), rule)
        return kept

    def drop(self, rule: str, *texts: str | None) -> None:
        """Count texts that a rule leaves out."""
        self.count(sum(len(text) for text in texts if text), rule)

    def count(self, characters: int, rule: str) -> None:
        """Count characters that a rule leaves out."""
        if characters > 0:
            self.junk[rule] += characters

    def count_unknown(self, type: object) -> None:
        """Count records or parts of an unknown type."""
        self.unknown[name_type(type)] += 1

    def format_call(self, name: str, arguments: object, id: str | None = None) -> str:
        """Return the line for a tool call. For a call of Helix return nothing, and note its id."""
        if not is_own_call(name, arguments):
            return self.write_call(name, arguments, id)
        self.own_calls.add(id or "")
        return ""

    def write_call(self, name: str, arguments: object, id: str | None = None) -> str:
        """Return the line for a tool call that asks something else than Helix."""
        line = format_call(name, arguments)
        self.steps.note_call(line, name, arguments, id or "")
        return line

    def build(self, sessions: Iterable[Session]) -> Parsed:
        """Return the sessions with the problems and the counts."""
        return Parsed(tuple(map(self.steps.add_steps, sessions)), tuple(self.problems), +self.unknown, +self.junk)
