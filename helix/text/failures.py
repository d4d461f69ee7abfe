"""Failures in the output of a tool: their class, message and place, and fingerprints by which they are found again.

A fingerprint leaves out the particulars of one occasion: folders, line numbers, addresses, times, digests. Two are
made of each failure: a close one of class and message, and a loose one without the names in the message, so that
`cannot use fooProvider (variable of type *foo.Provider)` meets the same fault of another provider.
"""

from __future__ import annotations

import errno
import re
from typing import Final, NamedTuple

MAX_CHARS: Final = 200_000
"""Characters of an output that are searched, half of them from its end."""

MOST: Final = 8
"""Failures of one output: the first ones."""

LINE_CHARS: Final = 300
"""Characters retained of the line that tells a failure."""


_PLACE_NAMES: Final = 4  # names of a file's path that are retained


class Failure(NamedTuple):
    """A failure that an output tells."""

    kind: str  # class of an exception, code of a compiler or linter, `test`, a program's name; lower case
    message: str  # normalised
    line: str  # as written, shortened
    place: str = ""  # file, or file and function

    @property
    def loose(self) -> str:
        """The message without names: only words of it that a language or a tool wrote."""
        return _loosen(self.message)


_ANSI: Final = re.compile(r"\x1b(?:\[[0-9;?]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\))")
_CODES: Final = "|".join(sorted(errno.errorcode.values(), key=len, reverse=True))
_ERRNO: Final = re.compile(rf"\b(?:{_CODES}|ERESOLVE|ELIFECYCLE|ENOTFOUND|EUSAGE|ETARGET|EINTEGRITY)\b")

_EXCEPTION: Final = re.compile(
    r"(?:E {2,}|\s*(?:Caused by: |Uncaught |Unhandled |Unhandled exception: |During: |\(node:\d+\) |> )?)"
    r"(?P<kind>(?:[A-Za-z_$][\w$]*[.:]{1,2})*[A-Z][\w$]*(?:Error|Exception|Failure|Fault|Interrupt|Exit))"
    r"(?: \[(?P<code>[A-Z_\d]+)\])?(?: ?: ?(?P<message>.*)|\s*\Z)"
)
_COMPILER: Final = re.compile(  # src/a.ts(3,4): error TS2345: … · a.c:3:4: fatal error: … · error[E0382]: …
    r"\s*(?:(?P<place>(?:[A-Za-z]:)?[^\s:(]{1,200}\.\w{1,8})(?::\d+(?::\d+)?|\(\d+(?:,\d+)?\))(?::| -)\s+)?"
    r"(?P<level>fatal error|error|Error|ERROR|fatal|FATAL|panic|ERR!)(?:\[(?P<tag>\w+)\]| (?P<code>[A-Z]{1,6}\d{2,6}))?"
    r"\s?[:!]? (?P<message>\S.*)"
)
_PLACED: Final = re.compile(r"\s*(?:vet: )?(?P<place>[^\s:(]{1,200}\.\w{1,8}):\d+(?::\d+)?:? (?P<message>\S.*)")
_TAG: Final = re.compile(
    r"(?:\((?P<linter>[\w-]{2,30})\)|\[(?P<code>[\w-]{2,30})\])\s*\Z|\A(?P<rule>[A-Z]{1,6}\d{2,5})[: ]"
)
_TEST: Final = re.compile(
    r"\s*(?:--- FAIL: (?P<go>\S+)(?: \([\d.]+s\))?|FAILED (?P<py>[^\s:]+::\S+)(?: - (?P<why>.*))?"
    r"|test (?P<rust>\S+) \.\.\. FAILED"
    r"|not ok \d+ - (?P<tap>.+)|(?:FAIL|ERROR): (?P<unit>test\w+) \([\w.]+\)|[✕×✗] (?P<js>.+?)(?: \(?\d+ ?m?s\)?)?"
    r"|● (?P<jest>.+ › .+))\s*\Z"
)
_PROGRAM: Final = re.compile(
    r"(?P<program>[A-Za-z][\w./+-]{0,60}|\(eval\)|/[\w./-]{1,80}):(?: line \d+:|\d+:)? (?P<message>(?:.{0,160}: )?"
    r"(?:command not found.*|(?:[Nn]o such file or directory|[Pp]ermission denied|[Nn]ot a directory|[Ii]s a directory"
    r"|[Ff]ile exists|[Nn]o space left on device|[Cc]onnection refused|[Oo]peration not permitted"
    r"|[Aa]ddress already in use|[Nn]ot found|[Kk]illed|[Tt]imed? ?out)\b.*"
    r"|(?:cannot|can't|could not|couldn't|unable to|failed to|no|invalid|unknown|unrecognized|illegal|missing"
    r"|ambiguous|unexpected|unsupported|refusing to|error|fatal|bad|too many|not) .*"
    r"|\*\*\* .*))"
)
_PHRASE: Final = re.compile(
    r"\s*(?P<message>(?:Could not (?:resolve|find|connect|open|install)|Cannot find|Unable to|Failed to|No module named"
    r"|Module not found|Segmentation fault|Command failed|Permission denied|Connection refused"
    r"|undefined reference to|ld: |collect2: |Killed\b|Out of memory|Authentication failed|remote: error"
    r"|! \[(?:remote )?rejected\]|CONFLICT \(|hint: Updates were rejected|BUILD FAILED|FAILURE: ).{0,250})"
)
_NPM: Final = re.compile(r"npm (?:ERR!|error) (?:code (?P<code>\w+)|(?P<message>[A-Z]\w.{3,}))")
_NPM_NEWS: Final = ("A complete log", "Found:", "Could not resolve dependency")
_PANIC: Final = re.compile(r"thread '[^']{0,80}' panicked at (?P<place>[^\s:]{1,200})(?::\d+:\d+)?:?(?P<message>.*)")
_GO_NEWS: Final = (
    "downloading",
    "finding",
    "extracting",
    "added",
    "upgraded",
    "creating",
    "to add",
    "found",
    "warning",
)
_FRAME: Final = re.compile(r'\s*File "(?P<file>[^"\n]{1,300})", line \d+(?:, in (?P<function>\S{1,80}))?')
_NO_ERROR: Final = re.compile(
    r"\b(?:0 (?:errors?|failed|failures?)|no errors?|without errors?|Error(?:s)?: 0)\b|\bwarning\b", re.IGNORECASE
)
_SUMMARY: Final = re.compile(r"\s*(?:FAIL\b|exit status \d|make(?:\[\d+\])?: \*\*\*)")


def find_failures(
    output: str, *, failed: bool | None = None, program: str = "", reading: bool = False, run: bool = True
) -> list[Failure]:
    """Return the failures that an output tells, the decisive ones first, each once.

    Args:
        failed: what the log says of the call; with True there is at least one failure for an output with text.
        program: the name of the program, or of the tool.
        reading: the output shows files: only the program's own message at its begin counts.
        run: it is that of a command, which tells what failed at its end; another tool does so at its begin.
    """
    lines, program = _list_lines(output), program.partition(" ")[0].lower()
    if failed is False:
        return []
    read = [line for line in lines[:3] if _is_own_message(line, program)] if reading else lines
    found: dict[tuple[str, str], Failure] = {}
    last: dict[tuple[str, str], Failure] = {}
    place = ""
    for line in read:
        if frame := _FRAME.match(line):
            place = _shorten_place(frame["file"]) + (f":{frame['function']}" if frame["function"] else "")
            continue
        failure = _read_line(line, place, program)
        if failure is None:
            continue
        group = last if _SUMMARY.match(line) else found
        group.setdefault((failure.kind, failure.message), failure)
        place = ""
    ordered = [*_put_causes_first([*found.values()]), *last.values()]
    if not ordered and failed and (line := _find_message(lines, first=not run)):
        ordered = [Failure(program, normalise_message(line), line.strip()[:LINE_CHARS])]
    return ordered[:MOST]


def _list_lines(output: str) -> list[str]:
    if len(output) > MAX_CHARS:
        half = MAX_CHARS // 2
        output = f"{output[:half]}\n{output[-half:]}"
    text = _ANSI.sub("", output).replace("\r\n", "\n")
    return [line.rsplit("\r", 1)[-1].rstrip()[:1_000] for line in text.split("\n")]


def _is_own_message(line: str, program: str) -> bool:
    """Return whether a line is a message of the program that shows files."""
    name = re.escape(program.rpartition("/")[2] or "-")
    return bool(re.match(rf"(?:fatal|error|u?{name}|bash|zsh|sh|\(eval\)|bfs)(?:: |:\d+: )", line))


def _read_line(line: str, place: str, program: str) -> Failure | None:
    """Return the failure that a line tells; None for any other line."""
    if not line.strip() or len(line) < 4:
        return None
    if test := _TEST.match(line):
        name = next(value for key, value in test.groupdict().items() if value and key != "why")
        return _make("test", name.rpartition("/")[2] if "::" in name else name, line)
    if _NO_ERROR.search(line) and not _EXCEPTION.match(line):
        return None
    if match := _EXCEPTION.match(line):
        kind = re.split(r"[.:]", match["kind"])[-1]
        code = match["code"] or _find_code(match["message"] or "")
        return _make(code or kind, match["message"] or "", line, place)
    if line.startswith("npm "):
        match = _NPM.match(line)
        is_news = match is None or (match["message"] or "").startswith(_NPM_NEWS)
        return None if is_news or match is None else _make(match["code"] or "npm", match["message"] or "", line)
    if match := _COMPILER.match(line):
        kind = match["code"] or match["tag"] or _find_code(match["message"]) or program or match["level"]
        return _make(kind, _cut_tag(match["message"])[0], line, _shorten_place(match["place"] or ""))
    if match := _PLACED.match(line):
        message, tag = _cut_tag(match["message"])
        is_message = tag or not re.match(
            r"[)}\]/*#]|(?:func|def|class|return|import|const|let|var|type|if|for)\b", message
        )
        return _make(tag or program, message, line, _shorten_place(match["place"])) if is_message else None
    if match := _PANIC.match(line):
        return _make("panic", match["message"].strip("' "), line, _shorten_place(match["place"]))
    if line.startswith("go: "):
        return None if line[4:].startswith(_GO_NEWS) else _make("go", line[4:], line)
    if match := _PROGRAM.match(line):
        return _make(_find_code(line) or match["program"].rpartition("/")[2], match["message"], line)
    if match := _PHRASE.match(line):
        return _make(_find_code(line) or program, match["message"], line)
    return None


_SHELLS: Final = frozenset({"bash", "sh", "zsh", "(eval)", "dash", "fish"})


def _make(kind: str, message: str, line: str, place: str = "") -> Failure:
    kind = "shell" if kind in _SHELLS else kind
    return Failure(kind.lower(), normalise_message(message), line.strip()[:LINE_CHARS], place)


def _find_code(text: str) -> str:
    match = _ERRNO.search(text)
    return match[0] if match else ""


def _cut_tag(message: str) -> tuple[str, str]:
    """Return a message without the linter's or the rule's name, and that name."""
    tag = ""
    while match := _TAG.search(message):  # the linter's name at the end, the rule's at the begin: the rule says more
        tag = tag if tag and not match["rule"] else next(filter(None, match.groups()))
        message = (message[: match.start()] + message[match.end() :]).strip()
    return message, tag


def _shorten_place(path: str) -> str:
    """Return the end of a file's path."""
    return "/".join(path.replace("\\", "/").removeprefix("./").split("/")[-_PLACE_NAMES:])


def _put_causes_first(failures: list[Failure]) -> list[Failure]:
    """Return failures that name a cause before those that only name a test."""
    return sorted(failures, key=lambda failure: failure.kind == "test")


def _find_message(lines: list[str], *, first: bool) -> str:
    texts = [line for line in lines if re.search(r"[A-Za-z]{3}", line) and not re.match(r"(?i)\s*exit code\b", line)]
    return texts[0 if first else -1] if texts else ""


# ---------------------------------------------------------------- fingerprints

_PARTICULARS: Final = (
    (re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}"), "#"),
    (re.compile(r"\b\d{4}-\d\d-\d\d[t ]\d\d:\d\d(?::\d\d(?:[.,]\d+)?)?(?:z|[+-]\d\d:?\d\d)?"), "#"),
    (re.compile(r"(?:https?|file|postgres(?:ql)?|redis|mongodb|amqp)://[^\s'\"`<>)]+"), "<url>"),
    (re.compile(r"0x[0-9a-f]+"), "#"),
    (re.compile(r"\b(?=[a-f]*\d)(?=\d*[a-f])[0-9a-f]{7,64}\b"), "#"),
    (re.compile(r"\b(?:\d{1,3}(?:\.\d{1,3}){3}|localhost)(?::\d+)?\b"), "#"),
)
_PATH: Final = re.compile(r"(?:(?<![\w.])(?:~|\.{1,2}|[a-z]:)?[\\/]|(?<![\w./])(?=[\w.-]+/))[^\s'\"`:,;()<>|]+")
_PLACE: Final = re.compile(r":\d+(?::\d+)?\b|\b(?:line|column|col|position|char) \d+|\(\d+[,:]\d+\)")
_NUMBER: Final = re.compile(r"\b\d+(?:[.,]\d+)*(?:ms|s|kb|mb|gb|b|%)?\b|(?<=[a-z_])\d{2,}\b")
_QUOTED: Final = re.compile(r"'[^'\n]{1,200}'|\"[^\"\n]{1,200}\"|`[^`\n]{1,200}`|“[^”\n]{1,200}”")
_NAME: Final = re.compile(
    r"[*&]?[\w$]+(?:[.:]{1,2}[*&]?[\w$]+)+(?:\(\))?|\b[\w$]*_[\w$]*\b|[\w$]+\(\)|<url>|<path>|[\w.-]+\.\w{1,6}\b"
)
_CAMEL: Final = re.compile(r"\b[A-Za-z]*[a-z][A-Z]\w*\b")


def normalise_message(message: str) -> str:
    """Return a message in lower case without the particulars of one occasion; paths as their last name."""
    text = message[:LINE_CHARS].strip()
    # Names in camel case are marked here, since the letters' case is lost: `fooProvider` → `foo​Provider`.
    text = _CAMEL.sub(lambda match: f"\x00{match[0]}\x00", text).lower()
    for pattern, replacement in _PARTICULARS:
        text = pattern.sub(replacement, text)
    text = _PLACE.sub("", text)
    text = _PATH.sub(lambda match: re.split(r"[\\/]", match[0].rstrip("/\\"))[-1] or "/", text)
    return " ".join(_NUMBER.sub("#", text).split()).rstrip(" .:,;")


def _loosen(message: str) -> str:
    text = re.sub(r"\x00[^\x00]*\x00", "*", message)
    text = _NAME.sub("*", _QUOTED.sub("*", text))
    return " ".join(re.sub(r"[*#](?:[\s,.]*[*#])*", "*", text).split())
