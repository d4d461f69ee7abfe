"""Tool calls and results of a Codex log, which wraps both in several ways."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Final

from helix.sources.codex_prompts import list_texts
from helix.sources.common.fields import get_mapping, get_string
from helix.sources.common.json_text import expand_json, try_json

_PATCH_OPENS: Final = "*** Begin Patch"
_PATCHED: Final = re.compile(r"(?m)^\*\*\* (?:Add|Update|Delete) File: (.{1,500})$")
_SHELL_FLAGS: Final = frozenset({"-c", "-lc", "-Command", "/c"})
_ARGUMENTS: Final = ("arguments", "input", "action", "revised_prompt")

# Lines of the shell tools above the output of a command.
_OUTPUT_HEAD: Final = re.compile(
    r"(?:(?:Chunk ID: |Wall time: |Exit code: |Process exited with code |Process running with session ID "
    r"|Original token count: |Total output lines: |Duration: )[^\n]{0,200}\n)+Output:(?:\n|$)"
)
_EXIT_CODE: Final = re.compile(r"(?:Exit code: |exited with code )(-?\d+)")
_OUTPUT_FIELDS: Final = ("output", "content", "text", "stdout", "stderr")
_PART_TYPES: Final = frozenset({"text", "input_text", "output_text", "image", "input_image"})
_RESULT_FIELDS: Final = frozenset({"content", "isError", "is_error", "structuredContent", "_meta"})
_MAX_WRAPPINGS: Final = 4  # of one tool result


def get_tool_name(kind: str, item: Mapping[str, Any]) -> str:
    """Return the name of the tool of a call."""
    return get_string(item, "name") or get_string(item.get("function"), "name") or kind.removesuffix("_call")


def read_arguments(item: Mapping[str, Any]) -> object:
    """Return the arguments of a call: for a patch its files, for a wrapped shell command the command."""
    return _simplify(next((item[name] for name in _ARGUMENTS if item.get(name) is not None), None))


def _simplify(value: object) -> object:
    if isinstance(value, str):
        if value.startswith(_PATCH_OPENS):
            return ", ".join(dict.fromkeys(_PATCHED.findall(value)))
        value = expand_json(value) if value.lstrip().startswith("{") else value
    if not isinstance(value, dict):
        return value
    patch = get_string(value, "input")
    if patch is not None and patch.startswith(_PATCH_OPENS):
        return _simplify(patch)
    arguments = {name: field for name, field in value.items() if name != "type"}
    command = arguments.get("command")
    if isinstance(command, list) and len(command) > 2 and all(isinstance(word, str) for word in command):
        arguments["command"] = command[-1] if command[-2] in _SHELL_FLAGS else command
    return arguments


def read_result(value: object, depth: int = _MAX_WRAPPINGS) -> tuple[str, bool, int | None]:
    """Return the text of a tool's result, whether the tool failed, and the exit code; None: unknown.

    The result may be under a head of lines, JSON in a string, or a list of parts.
    """
    if isinstance(value, str):
        head = _OUTPUT_HEAD.match(value)
        if head is not None and depth > 0:
            code = _EXIT_CODE.search(head[0])
            text, failed, inner_code = read_result(value[head.end() :], depth - 1)
            number = int(code[1]) if code is not None else inner_code
            return text, failed or bool(number), number
        inner = _unwrap(value) if depth > 0 else None
        return (value, False, None) if inner is None else read_result(inner, depth - 1)
    if isinstance(value, list):
        return "\n".join(list_texts(value)), False, None
    if not isinstance(value, dict) or depth <= 0:
        return "", False, None
    parts = [read_result(value.get(name), depth - 1) for name in _OUTPUT_FIELDS]
    text = "\n".join(text.strip("\n") for text, *_ in parts if text.strip())
    codes = (*_list_codes(value), *(number for *_, number in parts))
    exit_code = next((number for number in codes if number is not None), None)
    return text, _has_failed(value) or any(failed for _, failed, _ in parts), exit_code


def _has_failed(result: Mapping[str, Any]) -> bool:
    if result.get("success") is False or result.get("isError") is True or result.get("is_error") is True:
        return True
    return any(_list_codes(result))


def _list_codes(result: Mapping[str, Any]) -> list[int]:
    codes = (get_mapping(result, "metadata").get("exit_code"), result.get("exit_code"), result.get("exitCode"))
    return [code for code in codes if isinstance(code, int) and not isinstance(code, bool)]


def _unwrap(text: str) -> object:
    """Return the tool's result inside a JSON text; None for JSON that is itself the result."""
    value = try_json(text) if text.lstrip()[:1] in ("{", "[") else None
    if isinstance(value, list):
        return value if value and all(get_string(part, "type") in _PART_TYPES for part in value) else None
    if not isinstance(value, dict):
        return None
    is_shell = "output" in value and isinstance(value.get("metadata"), dict)
    return value if is_shell or (isinstance(value.get("content"), list) and value.keys() <= _RESULT_FIELDS) else None
