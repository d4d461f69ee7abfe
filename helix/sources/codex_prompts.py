"""Texts of a Codex log's messages: the typed part of a prompt, without the context of its host."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Final

from helix.sources.common.fields import get_string, list_blocks
from helix.sources.common.injected import cut_spans, iterate_between
from helix.sources.common.json_text import try_json
from helix.sources.common.text_cleaner import TextCleaner

SHELL_TAG: Final = "<user_shell_command>"
SUMMARY_OPENS: Final = "Another language model started to solve this problem"  # instructions, up to the line's end

_CONTEXT_TAG: Final = (
    r"environment_context|user_instructions|instructions|permissions instructions|collaboration_mode|multi_agent_mode"
    r"|apps_instructions|plugins_instructions|skills_instructions|recommended_plugins|skill|model_switch"
    r"|personality_spec|turn_aborted|subagent_notification|additional_context|goal_context|codex_internal_context"
    r"|hook_prompt|user_action|realtime_conversation|realtime_delegation"
)
_CONTEXT: Final = re.compile(
    rf"\s*(?:<(?P<tag>{_CONTEXT_TAG})(?:\s[^>\n]{{0,500}})?>|# AGENTS\.md instructions)", re.IGNORECASE
)
_AGENTS_MD_TAG: Final = "INSTRUCTIONS"
_NOTICES: Final = (
    "Warning: apply_patch was requested via exec_command",
    "Warning: The maximum number of unified exec processes",
)
_IMAGE_TAG: Final = re.compile(r"</?image\b[^>\n]{0,500}>")
_REQUEST: Final = "\n## My request for Codex:"  # after the context that an editor or the desktop adds
_EDITOR_CONTEXT: Final = "# Context from my IDE setup:"
_FOLDER: Final = re.compile(r"<cwd>(?P<new>[^<\n]{1,500})</cwd>|Current working directory: (?P<old>[^\n]{1,500})")
_CITATION: Final = ("<oai-mem-citation>", "</oai-mem-citation>")


def list_texts(content: object) -> list[str]:
    """Return the texts of a message's content: a text, or a list of texts and parts."""
    if isinstance(content, str):
        return [content]
    return [text for block in list_blocks(content) if (text := get_string(block, "text"))]


def strip_context(text: str, cleaner: TextCleaner) -> str:
    """Return the typed part of one text of a prompt."""
    text = text.strip()
    if text.startswith(SHELL_TAG):
        command = text.partition("<command>")[2].partition("</command>")[0].strip()
        kept = f"$ {command}" if command else ""
    elif _IMAGE_TAG.fullmatch(text) or text.startswith(_NOTICES):
        kept = ""
    else:
        kept = text[_find_context_end(text) :].strip()
        if kept.startswith("# "):
            context, marker, request = kept.partition(_REQUEST)
            kept = request.strip() if marker else "" if kept.startswith(_EDITOR_CONTEXT) else context
    return cleaner.cut(text, kept, "host")


def _find_context_end(text: str) -> int:
    """Return the end of the context blocks that open a text."""
    at = 0
    while (opened := _CONTEXT.match(text, at)) is not None:
        close = f"</{opened['tag'] or _AGENTS_MD_TAG}>"
        if text.endswith(close):  # a block may contain its own closing tag: skills are documents
            return len(text)
        closed = text.find(close, opened.end())
        if closed < 0:
            return at if opened["tag"] else len(text)
        at = closed + len(close)
    return at


def find_folder(texts: Iterable[str]) -> str | None:
    """Return the folder in the environment context of a log without one in its header."""
    for text in texts:
        if text.lstrip().lower().startswith("<environment_context>"):
            found = _FOLDER.search(text)
            if found is not None:
                return str(found["new"] or found["old"]).strip()
    return None


def find_forwarded(text: str) -> str | None:
    """Return another agent's message, which a log may have as JSON in an answer of this agent."""
    if not (text.startswith('{"author"') and '"recipient"' in text):
        return None
    return get_string(try_json(text), "content")


def cut_citations(text: str) -> str:
    """Return an answer without the citations of the host's memory."""
    spans = [(start, end, "") for start, end in iterate_between(text, *_CITATION)]
    return cut_spans(text, spans).strip() if spans else text
