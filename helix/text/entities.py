"""What a text names, by shape, by lists and by the words around: people, places, software, paths, errors, dates."""

from __future__ import annotations

import errno
import re
import sys
from bisect import bisect_left
from collections.abc import Iterator
from datetime import datetime
from typing import Final

from helix.text import gazetteer as known
from helix.text.dates import moments
from helix.text.names import named
from helix.types import Entity

MAX_ENTITIES: Final = 64
"""Kept of one text: the first ones. A longer list is a listing, and would make a hub of the graph."""

EVERGREEN: Final = frozenset({"person", "place", "relationship"})
"""Kinds that stay true whenever they were said."""

SCANNED: Final = 16_000
"""Characters looked at; an item is far shorter."""

_LONGEST: Final = 200
"""Characters of one mention."""

_SUFFIXES: Final = (
    "py|pyi|ipynb|js|jsx|ts|tsx|mjs|cjs|go|rs|c|h|cc|cpp|hpp|java|kt|rb|php|cs|swift|scala|sh|bash|zsh|ps1|bat|sql|"
    "md|mdx|rst|txt|json|jsonl|ndjson|yaml|yml|toml|ini|cfg|conf|env|lock|xml|html|htm|css|scss|sass|less|vue|svelte|"
    "csv|tsv|parquet|arrow|npy|npz|onnx|pdf|docx|xlsx|png|jpe?g|gif|svg|log|db|sqlite|proto|tf|gradle|mod|sum|diff|"
    "patch|whl|zip|gz|tgz|tar|ex|exs|erl|hs|lua|pl|r|jl|dart|el|vim|vtt|srt|eml|vscdb|traj|service|plist"
)
_TOP_LEVEL: Final = "com|org|net|io|dev|ai|edu|gov|co\\.uk|de|fr|example"
_C: Final = r"[\w.@+-]"  # a path component's characters
_UPPER: Final = "A-ZÀ-ÖØ-ÞĆČĎĐĞĶĹĻŁŃŇŌŐŘŚŞŠŤŪŮŰŹŻŽİĀĒĪ"
_LOWER: Final = "a-zß-ÿ\\u0100-\\u017f"
_CAPITAL: Final = rf"(?:GmbH|[{_UPPER}][{_LOWER}'’]+(?:-?[A-Z][a-z]+)?|[A-Z]['’][A-Z][a-z]+|[A-Z]\.|[A-Z]{{2,6}})"
_PRE: Final = r"(?:-?(?:alpha|beta|rc|dev|post)[.\d]{0,8})?"
_ERRNO: Final = "|".join(sorted(errno.errorcode.values()))

# One scan; of the kinds in this order the first that fits wins. Repetitions are bounded: a megabyte word stays linear.
_SHAPES: Final = {
    "url": (r"(?:https?|ftp|wss?|ssh|git|postgres(?:ql)?|redis|s3)://[^\s\"'`<>\\|)\]}]{1,500}",),
    "host": (rf"(?<![\w.@/-])(?:[a-z0-9-]{{1,63}}\.){{1,4}}(?:{_TOP_LEVEL})(?:/[\w./%~-]{{0,200}})?(?![\w(-]|\.\w)",),
    "path": (
        # rooted; relative with a suffix; four components; below a usual root; a file
        rf"(?<![\w<./\\:])(?:[A-Za-z]:[\\/]|\.{{1,2}}/|~/|/)(?:{_C}{{1,100}}[\\/]{{1,2}}){{0,30}}{_C}{{1,100}}/?",
        rf"(?<![\w<./\\])(?:{_C}{{1,100}}[\\/]){{1,30}}{_C}{{0,80}}\.(?:{_SUFFIXES})(?![\w(])",
        rf"(?<![\w<./\\])(?:{_C}{{1,100}}/){{3,30}}{_C}{{1,100}}",
        rf"(?<![\w<./\\])(?:{_C}{{1,100}}/){{2,30}}(?![\w*])",
        rf"(?<![\w<./\\])(?:src|tests?|docs?|lib|pkg|cmd|internal|scripts)/(?:{_C}{{1,100}}/){{0,30}}"
        rf"(?:{_C}{{1,100}})?",
        rf"(?<![\w./\\])[\w-][\w.-]{{0,80}}\.(?:{_SUFFIXES})(?![\w(])",
        r"(?<![\w./])(?:Makefile|Dockerfile|Justfile|Jenkinsfile|\.(?:gitignore|env|dockerignore|npmrc))(?!\w)",
    ),
    "error": (
        r"(?<!\w)(?:[A-Za-z_]\w{0,60}\.){0,5}[A-Z]\w{0,80}(?:Error|Exception|Warning)(?![A-Za-z0-9_])",
        rf"(?<!\w)(?:{_ERRNO}|ERR_[A-Z_]{{3,60}}|SIG(?:KILL|TERM|SEGV|INT|ABRT|HUP|PIPE)|OOMKilled)(?!\w)",
        r"(?<=code )E[A-Z]{3,20}(?!\w)",
        r"(?<![\w-])(?:[EWFC]\d{3,4}|TS\d{4,5}|CS\d{4}|LNK\d{4}|ORA-\d{5}|SQLSTATE \w{5})(?![\w-])",
        r"(?<!\w)(?i:HTTP(?:/\d(?:\.\d)?)?|status(?: code)?:?) [45]\d\d(?!\w)",
    ),
    "pin": (
        r"(?<![\w.@/-])@?[A-Za-z][\w./-]{0,60}(?:\[[\w,]{1,40}\])?(?:==|@\^?)v?\d{1,5}(?:\.\w{1,10}){0,4}",
        r"(?<![\w.@/-])[A-Za-z][\w.-]{2,60}(?:\[[\w,]{1,40}\])?(?:>=|~=|<=)\d{1,5}(?:\.\d{1,6}){1,3}(?![\w%])",
    ),
    "commit": (
        r"(?<![\w/.#:-])(?=[0-9a-f]{0,39}\d)(?=[0-9a-f]{0,39}[a-f])[0-9a-f]{7,40}(?![\w-]|\.\w)",
        r"(?<=[Cc]ommit )[0-9a-f]{7,40}(?!\w)",
    ),
    "version": (
        rf"(?<![\w.])v\d{{1,5}}(?:\.\d{{1,6}}){{1,3}}{_PRE}(?![\w.]\w)",
        rf"(?:(?<=version )|(?<=release ))\d{{1,5}}(?:\.\d{{1,6}}){{1,3}}{_PRE}(?!\w|\.\d)",
        rf"(?<![\w.:/-])\d{{1,5}}\.\d{{1,5}}\.\d{{1,6}}{_PRE}(?!\w|\.\d|[:/-]\w)",
    ),
    "ticket": (r"(?<![\w&#/])\#\d{1,5}(?![\w;-])", r"(?<![\w/.-])[A-Z][A-Z0-9]{1,9}-\d{1,6}(?![\w-])"),
    "module": (
        r"(?<![\w./@$-])(?!www\.)[a-z_][a-z0-9_]{1,60}"
        r"(?:\.[a-z_][a-z0-9_]{0,60}){1,7}\.[a-z_][a-z0-9_]{1,60}(?![\w(/@=-]|\.\w)",
    ),
    "identifier": (
        r"(?<![\w.])(?:[A-Z][a-z0-9]{1,30}){2,6}\.[a-z_]\w{1,60}(?!\w)",
        # called; a::b; dotted with an underscore; dotted and called; snake_case; camelCase; PascalCase; in backticks
        r"(?<![\w.])[A-Za-z_]\w{0,80}(?:(?:\.|::|->)[A-Za-z_]\w{1,80}){0,6}(?=\(\))",
        r"(?<![\w.])[A-Za-z_]\w{0,80}(?:::[A-Za-z_]\w{0,80}){1,6}",
        r"(?<![\w.])(?:[A-Za-z_]\w{0,80}\.){1,6}[a-z_]\w{0,60}_\w{1,60}(?!\w)",
        r"(?<![\w.])[a-z]\w{1,40}(?:\.[A-Za-z]\w{1,60}){1,6}(?=\(|`)",
        r"(?<![\w.])_{0,2}[A-Za-z][A-Za-z0-9]{0,60}(?:_[A-Za-z0-9]{1,60}){1,12}_{0,2}(?!\w)",
        r"(?<!\w)(?=[a-z]{1,40}[A-Z])[a-z]{1,40}(?:[A-Z]{1,20}[a-z0-9]{1,40}){0,8}[A-Z]{0,20}(?!\w)",
        r"(?<!\w)(?:[A-Z]{1,10}[a-z0-9]{1,40}){2,8}[A-Z]{0,8}(?!\w)",
        r"(?<=`)[A-Za-z][\w-]{2,80}(?=`)",
    ),
    # of the lists only
    "brand": (r"(?<![\w.])(?=[A-Z]\w{1,30}[A-Z])(?=\w{0,30}[a-z])[A-Za-z0-9]{3,30}(?!\w)",),
    "name": (
        rf"(?<![\w'’.-])(?:(?:Dr|Mrs?|Ms|Prof)\.? )?{_CAPITAL}"
        rf"(?: (?:(?:of|of the|de|van|von|da|del|la|der|&) )?{_CAPITAL}){{0,5}}(?!\w)",
    ),
}
# Where no shape begins is passed over at once: signs, the rest of a word, lower-case words and numbers that nothing
# joins to more. Only a URL may begin within a word.
_ENDS: Final = r"(?![\w/\\@`\[+~-]|\.\S|\(\)|==|::|:[/\\]|[<>]=)"
_PASSED: Final = (
    r"(?>(?:[^\w.@+~/#\\-]++|(?<=\w)(?:\w++(?!:)|[.@+~/#\\-])|(?>(?:(?<!\S)(?!status|http)[a-z]{1,40}+[,;!?.]?\s{1,8}+){1,200})"
    rf"|(?<!ommit )(?!status|http)(?:[a-z]{{1,40}}+(?>(?:-[a-z]{{1,40}}+){{0,4}})|\d{{1,6}}+){_ENDS})+)"
)
# A capitalised word that nothing joins to more is a name, or nothing.
_CAPITALISED: Final = rf"(?=[A-Z][a-z]{{0,40}}+{_ENDS})(?!Makefile|Dockerfile|Justfile|Jenkinsfile|H[Tt]|[Ss]tatus)"
_MENTION = re.compile(
    "|".join(
        (
            _PASSED,
            rf"{_CAPITALISED}(?:(?P<plain>{_SHAPES['name'][0]})|[A-Z][a-z]{{0,40}}+)",
            *(f"(?P<{kind}>{'|'.join(shapes)})" for kind, shapes in _SHAPES.items()),
        )
    )
)

_KEYWORDS: Final = frozenset(
    ("func", "function", "class", "const", "struct", "string", "bool", "boolean", "none", "null", "undefined", "self",
     "main", "init", "async", "await", "yield", "lambda", "import", "elif", "else", "print", "integer",
     "float", "object")
)  # fmt: skip
# Standards and models look like tickets.
_NOT_TICKETS: Final = frozenset(
    ("UTF", "SHA", "ISO", "RFC", "GPT", "MD", "AES", "RSA", "HTTP", "TLS", "UTC", "GMT", "COVID", "IEEE", "CVE", "PEP",
     "ES", "ECMA", "ASCII", "X", "BASE", "B", "H", "MP", "CC", "TOP", "PM", "AM", "K", "F", "A",
     "LICENSE", "BGE", "MIT")
)  # fmt: skip
_LINE_NUMBER = re.compile(rf"(\.(?:{_SUFFIXES})|)(?:(?::\d+)+:?|-\d+(?:-.*)?)\Z")  # also as grep writes them
_OBJECTS: Final = frozenset(
    ("self", "this", "console", "process", "window", "document", "request", "response", "req", "res", "math",
     "os", "sys", "np", "e", "i")
)  # fmt: skip
_PRODUCTS: Final = frozenset(
    ("node.js", "next.js", "vue.js", "react.js", "express.js", "three.js", "chart.js", "d3.js")
)
_DIGEST = re.compile(r"[a-z0-9+]{40}|sha\d{3}-")
_QUERY = re.compile(r"[?#$]")
_FLAGS: Final = frozenset(("iserror", "onerror", "haserror", "nowarning", "onwarning"))
_STATUS = re.compile(r" ([45]\d\d)\Z")
_LETTER = re.compile(r"[A-Za-z]")
_TRAILING: Final = ".,;:!?'\"*_-"
# Brand spelling, not code.
_BRANDS: Final = frozenset(("github", "javascript", "macdonald", "vscode", "specstory", "powerpoint"))
_SURNAME = re.compile(r"(?:Mc|Mac|De|Di|Le|La|Van|Fitz)[A-Z][a-z]{2,20}")


def _words(text: str) -> frozenset[str]:
    return frozenset(text.split())


_KIN: Final = "|".join(sorted(known.KIN, key=len, reverse=True))
_OWNED = re.compile(
    r"(?<!\w)(?:(?P<own>[Mm]y|[Oo]ur)|(?P<owner>[A-ZÀ-Þ][\w-]{1,30}(?: [A-ZÀ-Þ][\w-]{1,30})?)['’]s) "
    r"(?:(?:older|younger|little|big|elder|eldest|youngest|baby|twin|late|dear|lovely|new|old|sweet|poor|own|ex) ){0,2}"
    rf"(?P<kin>{_KIN})(?:['’]s)?(?![\w-])"
)
_KIN_WORDS: Final = frozenset(known.KIN)

# Programs whose name is no English word: their commands are known without backticks.
_PROGRAMS: Final = known.PROGRAMS | known.PROGRAMS_ALONE
_ENGLISH: Final = _words("""
bandit bash black bun cabal cargo cat celery composer conda convert coverage cypress diff dig dune echo env expo export
find firebase flask flutter go grunt gulp hatch head helix helm heroku java jest jupyter kill less make mix mocha mongo
mount netlify ng nginx ninja node nox nx opam patch perf perl php playwright pod prefect prisma python rails rake ruby
snap sort source stack storybook supabase tail tee time top touch tox turbo uniq vagrant vercel vue watch which
""")
_PLAIN_PROGRAMS: Final = _PROGRAMS - _ENGLISH | {"go", "make", "cargo", "helm", "tox"}
_SUB: Final = "|".join(sorted(known.SUBCOMMANDS, key=len, reverse=True))
_BARE: Final = "|".join(sorted(_PLAIN_PROGRAMS - {"go", "make"}, key=len, reverse=True))
# In backticks, behind a prompt or in a chain; or in prose with a subcommand, a flag, a URL or a path behind it.
_COMMAND = re.compile(
    r"(?:(?:(?<!`)`|(?:\A|\n)[ \t]{0,8}[$❯%>] |&& )(?:(?:sudo|time|[A-Z_]{2,30}=[^\s`]{1,40}) ){0,2}"
    r"(?P<program>[a-z][\w.+-]{0,30})(?:(?P<module> -m [\w.]{1,40})| (?P<sub>[a-z][\w:.-]{0,40}))?(?=[\s`;|&]|\Z))"
    rf"|(?<![\w./@`$-])(?:(?P<bare>{_BARE}) (?:(?P<bare_sub>{_SUB})(?![\w/.-])|(?=-{{1,2}}[a-zA-Z]"
    rf"|https?:|[\w.]{{1,40}}/\w)))"
    # else what can begin none is passed over
    rf"|(?>(?:(?<=\w)\w++|[^\w`&\n]++|(?!(?:{_BARE}) )\w++)+)"
)

_NAME: Final = r"@?[A-Za-z][\w.-]{0,60}(?:/[\w.-]{1,60})?"
_INSTALLED = re.compile(
    r"(?<![\w-])(?:pip3?|pipx|conda|mamba|npm|pnpm|yarn|bun|cargo|uv|poetry|brew|apt|apt-get|gem|go)(?: pip)? "
    r"(?:install|add|get|remove|uninstall)((?: -{1,2}[\w-]{1,30}(?:=\S{1,40})?){0,4})"
    r"(?P<names>(?: ['\"]?@?[A-Za-z][\w./@-]{0,60}(?:\[[\w,]{1,40}\])?(?:(?:[=<>~!^]="
    r"|@)[\w.^]{1,20})?['\"]?(?=[\s`,.;:)]|\Z)){1,12})"
)
# A text without any of the words before a pattern is not searched.
_IMPORTED = (
    ((" import ",), re.compile(r"(?m:^|[`;])\s{0,8}from (?P<name>[A-Za-z_][\w.]{0,60}) import ")),
    (
        ("import ",),
        re.compile(
            r"(?m:^|[`;])(?:>>> )?[ \t]{0,8}import (?P<name>[A-Za-z_][\w.]{0,60})(?= as \w|[ \t]{0,4}(?:$|[\n`;#,]))"
        ),
    ),
    (
        ("No module named", "Cannot find module"),
        re.compile(r"(?:No module named|Cannot find module) ['\"](?P<name>@?[A-Za-z_][\w./-]{0,60})['\"]"),
    ),
    (
        tuple(f"{word}{quote}" for word in ("from", "import", "require(") for quote in ("'", '"', " '", ' "')),
        re.compile(r"(?<!@)(?:from|import|require\() ?['\"](?P<name>@?[a-z][\w.-]{0,60}(?:/[\w.-]{1,60})?)['\"]"),
    ),
)
_CHANGED = re.compile(
    r"(?:[Bb]ump|[Uu]pgrad|[Uu]pdat|[Dd]owngrad|[Pp]in)(?:e|ed|es|ing|ned|ning|s)? (?:to )?"
    r"(?P<name>[a-z][a-z0-9_-]{1,40})"
    r"(?: from v?(?P<former>\d[\w.]{0,20}))? (?:to )?(?=v?\d{1,4}\.\d)"
)
_CHANGES: Final = ("ump", "pgrad", "pdat", "owngrad", "Pin", "pin")
_INSTALLS: Final = (" install ", " add ", " get ", " remove ", " uninstall ")
_DEPENDENCIES: Final = ("ependenc", "requirements", "package.json")
_DEPENDENCY = re.compile(
    rf"\b(?:[Aa]dd|[Rr]emove|[Dd]rop|[Ii]nstall|[Uu]ninstall)(?:ed|d|ing)? (?P<names>{_NAME}(?:"
    rf"(?:, and |, | and ){_NAME}){{0,6}}) "
    r"(?:to|from|in|as) (?:an? |the |our |your )?(?:dev |runtime |new )?(?:dependenc|requirements"
    r"|devDependenc|package\.json)"
)
_NOT_PACKAGES: Final = _words("""
a again all an and as but dependencies deps everything first for from globally in into is it locally my not on or our
package packages requirements so that the them then these this to was with your
""")
_VERSION_AFTER = re.compile(r" v?(\d{1,4}(?:\.\d{1,6}){0,3})(?![\w%:/-]|\.\d|,\d)")
_SIBLING = re.compile(
    r"(?<![\w.:/$€£-])(?P<version>\d{1,3}\.\d{1,5})(?![\w%:/-]|\.\d| ?(?:s|ms|seconds|percent|x|GB|MB|times|million)\b)"
)
_SYSTEM = re.compile(r"(?<!\w)(?:Windows|Android|iOS|macOS|Ubuntu) \d{1,2}(?:\.\d{1,2})?(?!\w)")
_LOWER_TOKEN = re.compile(r"(?<![\w.@/$-])(?<!``)[a-z][a-z0-9]{1,30}(?:[.+#-][a-z0-9+#]{1,20}){0,3}")
_TECHNICAL: Final = frozenset(
    ("path", "identifier", "error", "command", "module", "package", "pin", "commit", "version")
)

_INSTANCES: Final = _words("""
args body cfg child children client cmd col config ctx data el element err error event file form have input item
message model models msg node obj options opts output page params parent payload props query response result results rm
root row schema server session settings shown state test user value values view weather
""")
_LOCAL: Final = _words("""
api app auth child_process client common components config constants core crypto db events forms fs helpers http https
lib main models os path routes schema server settings shared src stream test tests types url util utils views
""")
_LISTED: Final = known.PROJECTS | known.ORGANISATIONS
_RECEIVERS: Final = _OBJECTS | _INSTANCES
_HEADINGS = re.compile(r"(?m:^)[ \t>+\d→-]{0,12}#{1,6} [^\n]{1,200}|\*\*[^*\n]{1,100}\*\*")

_Mention = tuple[int, int, tuple[Entity, ...]]


def entities(text: str, speaker: str | None = None, at: datetime | None = None) -> list[Entity]:
    """What `text` names, each (kind, key) once, in order of first appearance, at most `MAX_ENTITIES`.

    `speaker` comes first, as a person. `at` is when it was said: dates count from it, and without it only those that
    name their year are found. Keys are lower-cased and normalised: a path without `./`, `a/`, `b/` and line number and
    with forward slashes, a URL as host and path, an identifier without `()`, a version without `v`, a commit's first
    seven digits, a command's program and subcommand, a date in ISO 8601, a relationship as "sister of melanie". A
    single capitalised word at the start of a sentence counts only when it is not a common English word.
    """
    found: dict[tuple[str, str], Entity] = {}
    own = ""
    if speaker is not None and speaker.strip():
        name = " ".join(speaker.split())[:_LONGEST]
        own = name.lower()
        found["person", own] = Entity("person", own, name)
    for _, _, named_here in _without_overlaps(_mentions(text[:SCANNED], own, at)):
        for entity in named_here:
            # The speaker naming herself is no second entity.
            if entity.key != own:
                found.setdefault((entity.kind, entity.key), entity)
        if len(found) >= MAX_ENTITIES:
            break
    return list(found.values())[:MAX_ENTITIES]


def _mentions(text: str, own: str, at: datetime | None) -> Iterator[list[_Mention]]:
    """Mentions in passes: where two overlap the earlier pass wins."""
    words = frozenset(_LOWER_TOKEN.findall(text))
    code = "`" in text or "$ " in text or "❯" in text or "&& " in text
    if code or words & _PLAIN_PROGRAMS:
        yield list(_commands(text))
    if not words.isdisjoint(_PACKAGE_WORDS) or "require(" in text:
        yield list(_packages(text))
    shaped: list[_Mention] = []
    listed: list[_Mention] = []
    names: list[re.Match[str]] = []
    technical = False
    for match in _MENTION.finditer(text):
        if match.lastgroup in ("name", "plain"):
            names.append(match)
        elif match.lastgroup and (read := _read(match)):
            technical = technical or match.lastgroup in _TECHNICAL
            if read[0].kind == "project":
                listed.extend(_versioned(text, match.start(), match.end(), read[0]))
            else:
                shaped.append((match.start(), match.end(), read))
    yield shaped
    yield listed
    yield [(*moment.where, (Entity("date", moment.key, moment.said),)) for moment in moments(text, at)]
    if not words.isdisjoint(_KIN_WORDS):
        yield list(_relationships(text, own))
    if "Windows " in text or "OS " in text or "Android " in text or "Ubuntu " in text:
        yield [(m.start(), m.end(), (Entity("project", m.group().lower(), m.group()),)) for m in _SYSTEM.finditer(text)]
    headings = [match.span() for match in _HEADINGS.finditer(text)] if "#" in text or "**" in text else []
    talk = bool(own) and not technical and not code
    projects: list[_Mention] = []
    for match in names:
        place = bisect_left(headings, (match.start(), len(text)))
        heading = place > 0 and headings[place - 1][1] > match.start()
        if entity := named(text, match.start(), match.group()[:_LONGEST], talk=talk, heading=heading):
            projects += _versioned(text, match.start(), match.end(), entity)
    if not words.isdisjoint(known.PROJECTS):
        for match in _LOWER_TOKEN.finditer(text):
            if match.group() in known.PROJECTS:
                entity = Entity("project", match.group(), match.group())
                projects += _versioned(text, match.start(), match.end(), entity)
    yield projects
    here = [entity for mentions in (shaped, listed, projects) for *_, found in mentions for entity in found]
    versions = {e.key.partition(".")[0] for e in here if e.kind == "version" and "." in e.key}
    if versions:
        yield [
            (m.start(), m.end(), (Entity("version", m["version"], m.group()),))
            for m in _SIBLING.finditer(text)
            if m["version"].partition(".")[0] in versions
        ]


def _without_overlaps(passes: Iterator[list[_Mention]]) -> list[_Mention]:
    """The mentions of all passes in order of appearance; what lies on one of an earlier pass is left out."""
    kept: list[_Mention] = []
    for mentions in passes:
        new: list[_Mention] = []
        for mention in mentions:
            start, end = mention[:2]
            place = bisect_left(kept, (end,))
            if place == 0 or kept[place - 1][1] <= start:
                new.append(mention)
        kept = sorted(kept + new, key=lambda mention: mention[:2])
    return kept


def _versioned(text: str, start: int, end: int, entity: Entity) -> list[_Mention]:
    """A project and the version said behind it: "DuckDB 1.0.0"."""
    mention: _Mention = (start, end, (entity,))
    after = _VERSION_AFTER.match(text, end) if entity.kind in ("project", "name") else None
    if after is None or ("." not in after[1] and (entity.kind == "name" or int(after[1]) > 99)):
        return [mention]
    return [mention, (after.start(1), after.end(), (Entity("version", after[1], after[1]),))]


def _commands(text: str) -> Iterator[_Mention]:
    """Program and subcommand of shell commands; `python -m X` is X."""
    for match in _COMMAND.finditer(text):
        program, sub = match["program"] or match["bare"], match["sub"] or match["bare_sub"]
        if program not in _PROGRAMS:  # nor what was passed over
            continue
        bare = match["program"] in _ENGLISH and not match["sub"] and not match["module"]
        if bare and text[match.end() : match.end() + 1] != " ":
            continue  # `watch` alone is a word
        start = match.start("program" if match["program"] else "bare")
        if match["module"]:
            key, end = match["module"].split()[-1], match.end("module")
        elif sub and program in known.PROGRAMS and "." not in sub:
            key, end = f"{program} {sub}", match.end("sub" if match["sub"] else "bare_sub")
        elif not sub and program in known.PROJECTS and text[match.end() : match.end() + 1] == "`":
            continue  # a lone `docker` is the tool
        else:
            key, end = program, start + len(program)
        yield start, end, (Entity("command", key.lower(), text[start:end]),)
    for match in _RUN_WORD.finditer(text) if "un " in text or "an " in text or "unning " in text else ():
        yield match.start("program"), match.end("program"), (Entity("command", match["program"], match["program"]),)


_RUN_WORD = re.compile(
    r"\b(?:[Rr]un|[Rr]unning|[Rr]an|[Rr]e-?run(?:ning)?) `?(?P<program>pytest|mypy|ruff|eslint|tsc"
    r"|jest|vitest|make|tox|nox|flake8|black|"
    r"prettier|shellcheck|golangci-lint)(?![\w/.-])(?! [a-z])"
)
_PACKAGE_WORDS: Final = _words("""
add added bump bumped bumping downgrade downgraded drop dropped from get import install module named pin pinned remove
removed require uninstall update updated updating upgrade upgraded upgrading
""")


def _packages(text: str) -> Iterator[_Mention]:
    """Installed, imported, pinned and listed libraries, with the version where it stands beside."""
    for needs, pattern in _IMPORTED:
        for match in pattern.finditer(text) if any(word in text for word in needs) else ():
            name = match["name"].lower()
            if name.startswith(".") or name in _LOCAL or name.partition(".")[0] in sys.stdlib_module_names:
                continue
            kind = "module" if "." in name and not name.startswith("@") else "package"
            yield match.start("name"), match.end("name"), (Entity(kind, name, match["name"]),)
    for match in _CHANGED.finditer(text) if any(stem in text for stem in _CHANGES) else ():
        name = match["name"]
        version = _VERSION_AFTER.match(" " + text[match.end() : match.end() + 30])
        if version and name not in known.COMMON and name not in known.HEADINGS and name not in _NOT_PACKAGES:
            versions = [Entity("version", v, v) for v in (match["former"], version[1]) if v]
            yield match.start("name"), match.end() + version.end() - 1, (Entity("package", name, name), *versions)
    for match in _INSTALLED.finditer(text) if any(word in text for word in _INSTALLS) else ():
        yield from _listed(match)
    for match in _DEPENDENCY.finditer(text) if any(word in text for word in _DEPENDENCIES) else ():
        yield from _listed(match)


_ITEM = re.compile(
    r"['\"]?(?P<name>@?[A-Za-z][\w.-]{0,60}(?:/[\w.-]{1,60}){0,5})(?:\[[\w,]{1,40}\])?(?:(?:[=<>~!^]="
    r"|@\^?)v?(?P<version>[\w.]{1,20}))?"
)


def _listed(match: re.Match[str]) -> Iterator[_Mention]:
    """The packages of an install line or a list, up to the first word that is none."""
    for item in _ITEM.finditer(match.string, *match.span("names")):
        name = item["name"].rstrip(".,").lower()
        if name == "and":
            continue
        if name in _NOT_PACKAGES:
            return
        said = [Entity("package", name, item["name"])]
        if item["version"] and item["version"][0].isdigit():
            said.append(Entity("version", item["version"], item["version"]))
        yield item.start(), item.end(), tuple(said)


def _relationships(text: str, own: str) -> Iterator[_Mention]:
    """Whose kin is named: "my sister" is the speaker's, "Ana's husband" Ana's; without an owner there is none."""
    for match in _OWNED.finditer(text):
        owner = own if match["own"] else match["owner"].lower()
        if owner and not (match["owner"] and (owner in known.COMMON or owner in known.KIN)):
            key = f"{known.KIN[match['kin']]} of {owner}"
            yield match.start("kin"), match.end("kin"), (Entity("relationship", key, match.group()),)


def _read(match: re.Match[str]) -> tuple[Entity, ...]:
    """The entities of one shaped mention; none where the shape misled."""
    kind, name = str(match.lastgroup), match.group()[:_LONGEST]
    if kind == "pin":
        return _pin(name)
    entity = _shaped(kind, name)
    return () if entity is None else (entity,)


def _shaped(kind: str, name: str) -> Entity | None:
    if kind in ("url", "host"):
        return _url(name)
    if kind == "path":
        return _path(name)
    if kind == "ticket":
        return None if name.rpartition("-")[0] in _NOT_TICKETS else Entity(kind, name.lower(), name)
    if kind == "brand" and name.lower() not in _LISTED:
        return None
    if kind in ("identifier", "module", "brand"):
        return _identifier(kind, name)
    if kind == "error":
        return _error(name)
    if kind == "commit":
        return Entity(kind, name[:7], name)
    name = name.rstrip(_TRAILING)
    return Entity(kind, name.lower().removeprefix("v"), name)


def _pin(name: str) -> tuple[Entity, ...]:
    """`name==1.2` is a package and a version."""
    package, version = _PIN.split(name, maxsplit=1)
    package, version = package.partition("[")[0], version.rstrip(_TRAILING)
    if package.lower() in ("python", "node"):
        return (Entity("project", package.lower(), package), Entity("version", version, version))
    return (Entity("package", package.lower(), package), Entity("version", version.lower(), version))


_PIN = re.compile(r"(?:[=<>~]=|(?<!\A)@)\^?v?")


def _url(name: str) -> Entity | None:
    name = name.rstrip(_TRAILING + "/")
    key = _QUERY.split(name.lower().partition("://")[2] or name.lower(), maxsplit=1)[0]
    host, slash, path = key.partition("/")
    key = (host.rpartition("@")[2].removeprefix("www.") + slash + path).rstrip(_TRAILING + "/")
    return Entity("url", key, name) if _LETTER.search(key) else None


def _error(name: str) -> Entity | None:
    """By class, whatever module it was reached through; `status 404` and `HTTP/1.1 404` are one."""
    status = _STATUS.search(name)
    key = f"http {status[1]}" if status else name.lower().rpartition(".")[2]
    return None if key in _FLAGS else Entity("error", key, name)


def _path(name: str) -> Entity | None:
    name = _LINE_NUMBER.sub(r"\1", name).rstrip(_TRAILING)
    key = re.sub(r"[\\/]+", "/", name.lower()).rstrip("/")
    while key.startswith("./"):
        key = key[2:]
    if key[:2] in ("a/", "b/") and "/" in key[2:]:  # a diff's two sides
        key = key[2:]
    parts = [part for part in key.split("/") if part]
    # `/help` is a command, `2024/05/07` a date, `../..` nowhere, `this.db` an attribute, the rest a digest.
    if (
        not _LETTER.search(key)
        or (key.startswith("/") and len(parts) < 2 and "." not in key)
        or (len(parts) == 1 and (key.partition(".")[0] in _OBJECTS or key in _PRODUCTS))
        or _DIGEST.search(key)
    ):
        return None
    return Entity("path", key, name)


def _identifier(kind: str, name: str) -> Entity | None:
    key = name.lower().replace("->", ".")
    if key in known.PROJECTS:
        return Entity("project", key, name)
    if key in known.ORGANISATIONS:
        return Entity("organisation", key, name)
    if key in _BRANDS or _SURNAME.fullmatch(name):
        return Entity("name", key, name)
    if kind == "module" and key.partition(".")[0] in _RECEIVERS:
        kind = "identifier"
    if key in known.COMMON or key in _KEYWORDS or len(key) < 4 or not _LETTER.search(key):
        return None
    return Entity(kind, key, name)
