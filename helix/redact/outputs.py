"""Output of commands that print a secret: `op read …`, `terraform output -raw db_password`.

The value alone tells nothing; the command does. Its output is on the next line of a terminal, in the Markdown block
after the command, or in the record of a tool's result. The id of the call joins an agent's call and its result.
"""

from __future__ import annotations

import base64
import binascii
import re
from collections.abc import Iterator
from functools import cache
from typing import Final

from helix.redact.rules import FORM, LEFT, NEWLINE, Secret, Trigger
from helix.redact.values import is_literal, is_numeric, is_path, is_random, is_reference, is_secret_like, regex
from helix.redact.variable_names import classify_name
from helix.util.wordlists import read_toml

_FILTERS: Final = r"base64|tr|head|tail|jq|cut|sed|awk|cat|tee|grep|xxd|python\d?|openssl base64"
_ELSEWHERE: Final = rf"\|(?![ \t]*(?:{_FILTERS})\b)|(?<![2&-])>(?!&|[ \t]*/dev/(?:stdout|tty))|<<|--help\b|[ \t]-h\b"
_SUBSTITUTED: Final = r"(?:\$\(|[<>]\(|=`)[^()\n`]{0,80}\Z"  # an outer command reads the output
_OUTER: Final = 120  # characters of an outer command
_REST: Final = 600  # characters of a command
_ENDS: Final = rf"(?P<line>{NEWLINE})|(?P<quote>\\*\"[ ]?[,}}\]])|(?P<tick>`)"
_FENCE: Final = (
    r"(?:</summary>)?"
    rf"(?:[ \t]{{0,8}}(?:```\w{{0,12}}|~~~|(?i:output|result|prints|gives):?)?[ \t]{{0,4}}{NEWLINE}){{0,6}}"
)
_VALUE: Final = (
    r"[ \t]{0,8}(?:\d{1,6}(?:→|\t|\\{1,4}t))?(?P<open>\\{0,16}\"(?![,:\]}]))?"
    r"(?P<value>[^\s\"'`\\<>]{6,4096}+)(?(open)\\{0,16}\")%?[ \t]{0,8}"
    rf"(?={NEWLINE}|\\{{0,16}}\"|\Z)"
)

_CALL_AFTER: Final = r"\"(?:call_id|callID|callId|tool_call_id)\\*\":[ ]?\\*\"([\w-]{8,80})\\*\""
_CALL_ID: Final = r"\"(?:id|call_id|callID|tool_call_id)\\*\":[ ]?\\*\"([\w-]{8,80})\\*\""
_AROUND: Final = 600  # characters around a command that contain the id of its call
_TO_RESULT: Final = 6_000  # characters between a command and its output
_RESULT: Final = r"\"(?:content|text|output|stdout|observation|aggregated_output|result)\\*\":[ ]?\\*\""
_OTHER_CALL: Final = r"\"(?:tool_use|function_call|command|cmd|tool_use_id|call_id|tool_call_id)\\*\""
_MOST_RESULTS: Final = 6


@cache
def _build_command_pattern() -> str:
    printing = read_toml("helix.redact", "commands")["printing"]
    commands = "|".join((*printing["always"], *printing["by_name"]))
    return LEFT + "(?:" + commands.replace("…", r"[^\n|]{0,120}?").replace(" ", r"[ \t]+") + ")"


def _find_printed(text: str, at: int) -> Iterator[Secret]:
    """Find what a command printed."""
    command = regex(_build_command_pattern()).match(text, at)
    is_sure = _classify_command(command) if command else None
    end = _find_command_end(text, command.end()) if command and is_sure is not None else None
    if command is None or end is None or regex(_SUBSTITUTED).search(text, max(0, at - _OUTER), at):
        return
    if regex(_ELSEWHERE).search(text, command.end(), end.start()):
        return
    command_text = text[at : end.start()]
    if end["quote"] or regex(r"\\*\"").match(text, end.end()):  # the JSON string of the command ends
        places = _find_results(text, at, end.end())
    else:
        fence = regex(_FENCE).match(text, end.end())
        places = iter([fence.end() if fence else end.end()])
    for place in places:
        value = regex(_VALUE).match(text, place)
        if value and value["value"] not in command_text and _is_printed(value["value"], bool(is_sure)):
            yield Secret(*value.span("value"), "secret", FORM)


def _classify_command(command: re.Match[str]) -> bool | None:
    """Return True if a command prints a secret, False if its output must look random, None if it prints none."""
    kind = command.lastgroup
    if kind is None:
        return True
    name = regex(r"\.(?:txt|key|secret|pass|token|conf|json)$").sub("", command[kind].rsplit(":", 1)[-1])
    meaning = classify_name(name.strip("._-"))
    if meaning is None or meaning.kind == "credentials" or meaning.is_label:
        return False if kind in ("secret", "vault") else None
    return True if meaning.is_sure else None if kind == "file" else False


def _find_command_end(text: str, at: int) -> re.Match[str] | None:
    """Return the end of a command: of its line, unless a backslash continues it, or of its string."""
    for end in regex(_ENDS).finditer(text, at, at + _REST):
        if not (end[0] == "\n" and text[end.start() - 1] == "\\"):
            return end
    return None


def _find_results(text: str, at: int, end: int) -> Iterator[int]:
    """Yield the starts of the tool results that belong to the call with the command at a place."""
    begin = max(0, at - _AROUND)
    begin = max(begin, text.rfind("\n", begin, at) + 1)
    before = [*regex(_CALL_ID).finditer(text, begin, at)]
    after = regex(_CALL_AFTER).search(text, end, end + _AROUND)
    place, stop = end, min(len(text), end + _TO_RESULT)
    most = 2  # without an id: one result, and one inside a JSON string
    for call in (after[1] if after else "", before[-1][1] if before else ""):
        found = text.find(call, after.end() if after and call == after[1] else end, stop) if call else -1
        if found >= 0:
            place, most = found + len(call), _MOST_RESULTS
            break
    other = regex(_OTHER_CALL).search(text, place, stop)
    for number, result in enumerate(regex(_RESULT).finditer(text, place, other.start() if other else stop)):
        if number == most:
            return
        yield result.end()


def _is_printed(value: str, is_sure: bool) -> bool:
    """Return whether a line of one word is a secret, not a name, version, prompt or error message."""
    if not is_literal(value) or is_numeric(value) or is_path(value) or is_reference(value):
        return False
    if regex(r"[^\s]*[@~:][^\s]*[$#%>]|[a-z\d-]+(?:\.[a-z\d-]+){2,}(?::\d+)?|\[.*|.*:|v?\d+\.\d+.*").fullmatch(value):
        return False
    return is_random(value) or (is_sure and is_secret_like(value))


_DECODED: Final = (
    r"(?:echo|printf)[ \t]{1,4}(?:-n[ \t]{1,4})?\\{0,8}[\"']?(?P<secret>[A-Za-z0-9+/]{8,4096}+={0,2})\\{0,8}[\"']?"
    r"[ \t]{0,4}\|[ \t]{0,4}base64[ \t]{1,4}(?:-d|-D|--decode)"
)


def _find_decoded(text: str, at: int) -> Iterator[Secret]:
    """Find `echo aHVudGVyMg== | base64 -d` and its output."""
    match = regex(_DECODED).match(text, at)
    if match is None:
        return
    with_end = match["secret"] + "=" * (-len(match["secret"]) % 4)
    try:
        plain = base64.b64decode(with_end, validate=True).decode("utf-8").strip()
    except (binascii.Error, ValueError):
        return
    if len(plain) < 6 or not plain.isprintable() or not is_secret_like(plain.rpartition(":")[2]):
        return
    yield Secret(*match.span("secret"), "secret", FORM)
    place = text.find(plain, match.end(), match.end() + _TO_RESULT)
    while place >= 0:
        yield Secret(place, place + len(plain), "secret", FORM)
        place = text.find(plain, place + len(plain), match.end() + _TO_RESULT)


def list_triggers() -> Iterator[Trigger]:
    """Yield the rules with their keywords."""
    for words in read_toml("helix.redact", "commands")["printing"]["keywords"]:
        yield Trigger(words, _find_printed)
    name = r"[^\s|;&]{0,80}(?:pass|secret|token|key|cred|pw)"
    yield Trigger("pass |gopass ", _find_printed, r"[\w.-]{1,40}/")
    yield Trigger("cat |less |head |tail |more |bat |base64 -d", _find_printed, name)
    yield Trigger("echo ", _find_printed, r"[\\\"']{0,8}\$")
    yield Trigger("echo |printf ", _find_decoded, r"[^|\n]{8,200}\| ?base64")
