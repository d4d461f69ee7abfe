"""Private keys and JSON web tokens: whole, cut off, in pieces, or encoded again."""

from __future__ import annotations

import base64
import re
from collections.abc import Iterator
from typing import Final

from helix.redact.line_breaks import extend_across_lines
from helix.redact.rules import GAP, LEFT, TOKEN, Secret, Trigger, accept_any, make_rule
from helix.redact.values import regex

_BEGIN: Final = r"(?:-----BEGIN|---- BEGIN)"
_END: Final = r"(?:-----END|---- END)"
_BLOCK: Final = r" [A-Z0-9 ]{0,40}PRIVATE KEY(?: BLOCK)? ?-{4,5}"
# Newlines are real or escaped (\n, \\n).
_WHOLE: Final = rf"{_BEGIN}{_BLOCK}(?:(?P<body>(?>(?:[^-\"'`\\<>{{}}]|-(?!---)|\\+[nrt/])*)){_END}{_BLOCK})?"
# Between the lines of a key that is quoted, indented, numbered or part of a diff.
_GLUE: Final = r"(?>(?:[\s\"'`,|>#*\]\[()→:;.-]|\+(?=[\s\"'\\])|\\+(?:[nrt]|(?=[\"'`\n]))|\d{1,6}(?=[→:|\t ]))*)"
_HEADER: Final = r"(?:(?:Version|Comment|Proc-Type|DEK-Info|Hash|Charset): [^\n\\\"']{0,80}" + _GLUE + ")*"
# With letters: a JSON number may not become a placeholder.
_LINE: Final = _GLUE + _HEADER + r"(?P<data>(?=[0-9+/]{0,64}[A-Za-z][0-9+/]{0,64}[A-Za-z])[A-Za-z0-9+/]{16,}+={0,3})"
_GAPS: Final = rf"{GAP}*"
_MOST_LINES: Final = 400


def _find_private_key(text: str, at: int) -> Iterator[Secret]:
    """Find -----BEGIN … PRIVATE KEY-----: whole, or the base64 lines of one that is cut off or in pieces."""
    match = regex(_WHOLE).match(text, at)
    if match is None:
        return
    if match["body"] is not None:
        if regex("[A-Za-z0-9+/]{16}").search(match["body"]):
            yield Secret(at, match.end(), "private-key", TOKEN)
        return
    start, end = at, match.end()
    for _ in range(_MOST_LINES):
        line = regex(_LINE).match(text, end)
        if line is None or (end == match.end() and not _is_base64(line["data"])):
            break
        if regex(_GAPS).fullmatch(text[end : line.start("data")]) is None:
            # Quotes and the like stay.
            if end > match.end():
                yield Secret(start, end, "private-key", TOKEN)
            start = line.start("data")
        end = line.end()
    if end > match.end():
        yield Secret(start, end, "private-key", TOKEN)


_LINE_BEFORE: Final = (
    r"(?:(?<![A-Za-z0-9+/=\\])|(?<=\\[nrt]))(?P<data>=?[A-Za-z0-9+/]{4,76}={0,3})(?P<glue>" + _GLUE + r")\Z"
)
_MOST_BEFORE: Final = 128  # characters of a line of base64 and of its separator


def _find_private_key_end(text: str, at: int) -> Iterator[Secret]:
    """Find the base64 lines before -----END … PRIVATE KEY----- without its beginning, as `tail` prints it."""
    end = regex(_END + _BLOCK).match(text, at)
    lines: list[re.Match[str]] = []  # the last one first
    start = at
    while end and len(lines) < _MOST_LINES:
        line = regex(_LINE_BEFORE).search(text, max(0, start - _MOST_BEFORE), start)
        if line is None:
            break
        # The last two (data and checksum) may be short, unless quotes or commas separate them from the end.
        short = len(lines) < 2 and regex(_GAPS).fullmatch(line["glue"]) is not None
        if not (_is_base64(line["data"]) if len(line["data"]) >= 16 else short):
            break
        lines.append(line)
        start = line.start("data")
    if end is None or not any(len(line["data"]) >= 16 for line in lines):
        return
    stop = end.end()
    for line in lines:
        if regex(_GAPS).fullmatch(line["glue"]) is None:  # quotes and the like stay
            if stop != end.end():
                yield Secret(start, stop, "private-key", TOKEN)
            stop = line.end("data")
        start = line.start("data")
    yield Secret(start, stop, "private-key", TOKEN)


def _is_base64(line: str) -> bool:
    """Return whether a line is base64, not the path of a file with the key."""
    mixed = line.lower() != line and line.upper() != line
    return mixed and any(c.isdigit() for c in line)


_PUTTY: Final = r"Private-Lines: \d{1,3}((?:(?:\s|\\+[nr])+[A-Za-z0-9+/=]{16,}+)+)"

_ARMOUR_IN_BASE64: Final = LEFT + r"LS0tLS1CRUdJTi[A-Za-z0-9+/]{40,}+={0,3}"


def _is_encoded_armour(value: str) -> bool:
    """Return whether base64 is a private key in armour, as in Kubernetes; certificates begin the same way."""
    return b" PRIVATE KEY" in base64.b64decode(value[:64][: len(value) // 4 * 4])


_NUMBER: Final = r"[\"'](?:d|k|p|q|dp|dq|qi)\\*[\"'][ \t]?:[ \t]?\\*[\"']([\w-]{20,2000}+)"
_FROM_JSON_WEB_KEY: Final = 2000  # characters before and after `kty`


def _find_json_web_key(text: str, at: int) -> Iterator[Secret]:
    """Find the private numbers of a JSON web key."""
    if not text.startswith("kty", at):
        return
    begin = max(0, at - _FROM_JSON_WEB_KEY)
    begin = max(begin, text.rfind("{", begin, at))
    if text.find("kty", begin, at) >= 0:
        return  # this object was searched at its first `kty`
    end = text.find("}", at, at + _FROM_JSON_WEB_KEY)
    for match in regex(_NUMBER).finditer(text, begin, at + _FROM_JSON_WEB_KEY if end < 0 else end):
        yield Secret(*match.span(1), "private-key", TOKEN)


# Header, payload, signature; five parts if encrypted. A header is JSON: `eyJ` is base64 of `{"`.
_JSON_WEB_TOKEN: Final = (
    LEFT + r"eyJ[\w-]{8,2048}+(?:\.[\w-]{8,8192}+(?:\.[\w-]{4,4096}+){1,3}"
    r"|\.eyJ[\w-]{8,8192}+\.?(?![\w-])|\.\.[\w-]{8,8192}+(?:\.[\w-]{4,4096}+){1,2})"
)
_TOKEN_IN_BASE64: Final = LEFT + r"ZXlK[A-Za-z0-9+/_-]{60,8192}+={0,2}"


def _is_encoded_token(value: str) -> bool:
    return base64.b64decode(value[:60], altchars=b"-_").isascii()


def list_triggers() -> Iterator[Trigger]:
    """Yield the rules with their keywords."""
    yield Trigger("-----begin|---- begin", _find_private_key)
    yield Trigger("-----end|---- end", _find_private_key_end, r" [a-z0-9 ]{0,40}private key")
    yield Trigger("private-lines:", make_rule(_PUTTY, "private-key", accept_any))
    yield Trigger("ls0tls1crudjti", make_rule(_ARMOUR_IN_BASE64, "private-key", _is_encoded_armour, TOKEN))
    yield Trigger("kty", _find_json_web_key)
    yield Trigger("eyj", extend_across_lines(make_rule(_JSON_WEB_TOKEN, "jwt", accept_any, TOKEN), 0))
    yield Trigger("zxlk", make_rule(_TOKEN_IN_BASE64, "jwt-base64", _is_encoded_token, TOKEN))
