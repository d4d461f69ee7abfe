"""What a text names: people, paths, identifiers, errors, URLs, tickets, versions and capitalised names, by shape."""

from __future__ import annotations

import errno
import re
from functools import lru_cache
from typing import Final

from helix.types import Entity

MAX_ENTITIES: Final = 64
"""Kept of one text: the first ones. A longer list is a listing, and would make a hub of the graph."""

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
_TOP_LEVEL: Final = "com|org|net|io|dev|ai|edu|gov|co\\.uk|de|fr"
_C: Final = r"[\w.@+-]"  # a path component's characters
_CAPITAL: Final = r"(?:[A-ZÀ-ÖØ-Þ][a-zß-ÿ'’]+(?:[A-Z][a-z]+)?|[A-Z]['’][A-Z][a-z]+|[A-Z]\.|[A-Z]{2,6})"
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
        rf"(?<![\w<./\\])(?:src|tests?|docs?|lib|pkg|cmd|internal|scripts)/(?:{_C}{{1,100}}/){{0,30}}(?:{_C}{{1,100}})?",
        rf"(?<![\w./\\])[\w-][\w.-]{{0,80}}\.(?:{_SUFFIXES})(?![\w(])",
        r"(?<![\w./])(?:Makefile|Dockerfile|Justfile|Jenkinsfile|\.(?:gitignore|env|dockerignore|npmrc))(?!\w)",
    ),
    "error": (
        r"(?<!\w)(?:[A-Za-z_]\w{0,60}\.){0,5}[A-Z]\w{0,80}(?:Error|Exception|Warning)(?![A-Za-z0-9_])",
        rf"(?<!\w)(?:{_ERRNO}|ERR_[A-Z_]{{3,60}}|SIG(?:KILL|TERM|SEGV|INT|ABRT|HUP|PIPE)|OOMKilled)(?!\w)",
        r"(?<![\w-])(?:[EWFC]\d{3,4}|TS\d{4,5}|CS\d{4}|LNK\d{4}|ORA-\d{5}|SQLSTATE \w{5})(?![\w-])",
        r"(?<!\w)(?i:HTTP(?:/\d(?:\.\d)?)?|status(?: code)?:?) [45]\d\d(?!\w)",
    ),
    "version": (
        rf"(?<![\w.])v\d{{1,5}}(?:\.\d{{1,6}}){{1,3}}{_PRE}(?![\w.]\w)",
        r"(?<![\w.@/-])@?[A-Za-z][\w./-]{0,60}(?:\[\w{1,40}\])?(?:==|@)v?\d{1,5}(?:\.\w{1,10}){0,4}",
        rf"(?<![\w.:/-])\d{{1,5}}\.\d{{1,5}}\.\d{{1,6}}{_PRE}(?!\w|\.\d|[:/-]\w)",
    ),
    "ticket": (r"(?<![\w&#/])\#\d{1,5}(?![\w;-])", r"(?<![\w/.-])[A-Z][A-Z0-9]{1,9}-\d{1,6}(?![\w-])"),
    "identifier": (
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
    "name": (
        rf"(?<![\w'’.-])(?:(?:Dr|Mrs?|Ms|Prof)\. )?{_CAPITAL}"
        rf"(?: (?:(?:of|of the|de|van|von|da|del|la|der) )?{_CAPITAL}){{0,5}}(?!\w)",
    ),
}
# Most of prose is plain lower-case words: passed over at once.
_PLAIN: Final = r"(?:(?<!\S)(?!status|http)[a-z]{1,40}+[,;!?.]?\s{1,8}+){1,200}+"
_MENTION = re.compile("|".join((_PLAIN, *(f"(?P<{kind}>{'|'.join(shapes)})" for kind, shapes in _SHAPES.items()))))

# Capitalised because a sentence, a heading or a log line begins, not because they are names.
_COMMON_TEXT: Final = (
    "a about absolutely according act actually add added adding additionally after again all allow almost along "
    "already also although always am an and another any anyone anything anyway apply apparently are aren't as ask at "
    "available avoid aw aww awesome back based basically be because been before being below besides best better "
    "between big both break build building but by bye call can can't cannot certainly change changed changes changing "
    "check checked checking choose clean clear clearly click close code come command commit common complete completed "
    "congrats congratulations consider continue cool copy could couldn't count create created creating critical "
    "currently data date day days dear debug decided default define definitely delete deleted details did didn't "
    "different do document does doesn't doing don't done down drop during each easy edit either else empty end ensure "
    "error errors especially even eventually ever every everyone everything everywhere exactly examine example "
    "excellent exit explain explore extract fail failed failing fair false feel few file files final finally find "
    "fine first fix fixed fixes fixing follow following for found from full function further generate generated get "
    "getting give given giving go goal going good got great guess had haha happy has have haven't having he hello "
    "help hence her here here's hey hi high his hmm hold honestly hope hopefully how however huge i i'd i'll i'm i've "
    "id idea if immediately implement implementation implemented important in include included indeed info initial "
    "initially input inside install instead interesting into is isn't issue issues it it'll it's its just keep key "
    "know last lastly later launch learn leave less let let's lets like likely line lines list listen live load local "
    "log logs lol long look looking looks lots love low main major make makes making many max maybe me mean meanwhile "
    "merge message method might min mine minor missing more moreover most move moved much multiple must my name need "
    "needs neither never nevertheless new next nice no nobody none nope nor not note notes nothing notice now null "
    "number obviously of off oh ok okay old on once one only oops open option or other others otherwise our out "
    "outside over overall own part pass passed path per perfect perhaps phase place please plus point possible "
    "previous previously print prior probably problem proceed process proud provide pull push put question questions "
    "quick quickly quite rather re read reading ready really reason recent recently regarding remember remove removed "
    "rename replace report request required reset result results return returns review right run running safe same "
    "save say search second section see seems send set several shall she should show shows similarly simple simply "
    "since single skip so some somebody someone something sometimes soon sorry sounds source specifically start "
    "started starting status step steps still stop strong such suggest suggested summary super support sure switch "
    "system take takes taking task tasks tell test tested testing tests text than thank thanks that that'd that'll "
    "that's the their them then there there's therefore these they they're thing things think third this those though "
    "three through thus time title to today together told tomorrow tonight too tool top total totally tried true try "
    "trying turn two type typically under understand understood unfortunately unless until up update updated updates "
    "updating upon us use used user users uses using usually value values verify verified very via view wait walk "
    "want warning was wasn't watch way we we'd we'll we're we've welcome well went were what what's whatever when "
    "whenever where whereas whether which while who whole whose why will with within without won't word words work "
    "working works worth would wow write writing wrong woohoo woo anytime yay yeah year years yep yes yesterday yet "
    "you you'd you'll you're you've your yours yup "
    # calendar
    "monday tuesday wednesday thursday friday saturday sunday january february march april may june july august "
    "september october november december mon tue wed thu fri sat sun jan feb mar apr jun jul aug sep sept oct nov dec "
    "utc gmt pm "
    # headings and labels of logs
    "agent assistant bash glob grep human output thought context plan background usage args parameters raises caution "
    "tip todo fixme xxx nb n/a ps eof head stdin stdout stderr medium options pros cons verdict conclusion "
    "recommendation strengths weaknesses "
    # acronyms everybody uses: hubs, not names
    "api apis cli url urls uri json jsonl html css http https sql xml yaml toml csv pdf ids ui ux os cpu gpu ram io "
    "ip dns ssh ssl tls tcp udp utf ascii pr prs mr ci cd db pid uuid sdk ide llm ai ml lgtm imo fyi asap etc eta faq "
    "omg btw idk post patch select nil warn trace readme license changelog dry kiss yagni wip tbd na vs "
)
_COMMON: Final = frozenset(_COMMON_TEXT.split())
_TITLES: Final = frozenset(("Dr.", "Mr.", "Mrs.", "Ms.", "Prof."))
_COMMON_ENDINGS: Final = ("ing", "ly", "n't", "ed", "'s", "'m", "'ll", "'re", "'ve", "'d")
# Brand spelling, not code.
_BRANDS_TEXT: Final = (
    "github gitlab javascript typescript youtube linkedin postgresql mysql paypal openai macos iphone ipad icloud "
    "whatsapp facebook tiktok duckdb mongodb graphql devops ebay fedex powerpoint nodejs pytorch tensorflow deepmind "
    "bitbucket stackoverflow clickhouse dynamodb redis webassembly vscode specstory mcdonald macdonald onedrive"
)
_BRANDS: Final = frozenset(_BRANDS_TEXT.split())
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
_SENTENCE_START = re.compile(r"(?:\A|[.!?:;…。]|[\n•|>*#/=\"“(\[-])[\s\"'“”(*_#>\[-]*\Z")
_START_WIDTH: Final = 12
# What follows a subject. Nothing on the line, a colon or closing bold: a heading or a label.
_AFTER = re.compile(
    r"(?!\s*(?:\*\*|__|:|\n|\Z))(?P<verb>,? (?:is|was|has|had|will|would|can|could|should|does|did|and|said|says|"
    r"told|asked|wants?|went|got|made|took|came|[a-z]{2,12}ed|[a-z]{2,12}[a-rt-z]s)\b)?"
)
_LOWER_WORD = re.compile(r"\b[a-zß-ÿ]+\b")
_INSIDE = re.compile(r"(?<=[a-z,] )[A-ZÀ-ÖØ-Þ]\w*")
_LINE_NUMBER = re.compile(rf"(\.(?:{_SUFFIXES})|)(?:(?::\d+)+:?|-\d+(?:-.*)?)\Z")  # also as grep writes them
_OBJECTS: Final = frozenset(
    ("self", "this", "console", "process", "window", "document", "request", "response", "req", "res", "app", "math",
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


def entities(text: str, speaker: str | None = None) -> list[Entity]:
    """What `text` names, each (kind, key) once, in order of first appearance, at most `MAX_ENTITIES`.

    `speaker` comes first, as a person. Keys are lower-cased and normalised: a path without `./`, `a/`, `b/` and line
    number and with forward slashes, a URL as host and path, an identifier without `()`. A single capitalised word at
    the start of a sentence counts only when it is not a common English word.
    """
    found: dict[tuple[str, str], Entity] = {}
    if speaker is not None and speaker.strip():
        name = " ".join(speaker.split())[:_LONGEST]
        found["person", name.lower()] = Entity("person", name.lower(), name)
    text = text[:SCANNED]
    for match in _MENTION.finditer(text):
        entity = _read(text, match) if match.lastgroup else None
        # The speaker naming herself is no second entity.
        if entity is None or ("person", entity.key) in found:
            continue
        found.setdefault((entity.kind, entity.key), entity)
        if len(found) >= MAX_ENTITIES:
            break
    return list(found.values())


def _read(text: str, match: re.Match[str]) -> Entity | None:
    """The entity of one mention, or None where the shape misled."""
    kind, name = str(match.lastgroup), match.group()[:_LONGEST]
    if kind in ("url", "host"):
        return _url(name)
    if kind == "path":
        return _path(name)
    if kind == "ticket":
        return None if name.rpartition("-")[0] in _NOT_TICKETS else Entity(kind, name.lower(), name)
    if kind == "identifier":
        return _identifier(name)
    if kind == "name":
        return _name(text, match.start(), name)
    if kind == "error":
        return _error(name)
    name = name.rstrip(_TRAILING)
    return Entity(kind, name.lower(), name)


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


def _identifier(name: str) -> Entity | None:
    key = name.lower().replace("->", ".")
    if key in _BRANDS:
        return Entity("name", key, name)
    if key in _COMMON or key in _KEYWORDS or len(key) < 4 or not _LETTER.search(key):
        return None
    return Entity("identifier", key, name)


def _name(text: str, start: int, name: str) -> Entity | None:
    end = start + len(name)
    words = name.replace("’", "'").split()
    opens = _starts_sentence(text, start)
    if words[0] in _TITLES:
        del words[0]
        opens = False
    # "Thanks Melanie", "The Visibility Timeout": what opens a sentence is not part of the name.
    while words and _common(words[0]) and (opens or words[0] != "New" or len(words) == 1):
        del words[0]
        opens = False
    while words and (_common(words[-1]) or words[-1].islower()):
        del words[-1]
    if not words:
        return None
    owner = words[-1].endswith("'s")
    words[-1] = words[-1].removesuffix("'s")
    shown = " ".join(words)
    key = shown.lower().strip("'.")
    if len(key) < 3 or (opens and not owner and not _is_name(text, end, shown)):
        return None
    return Entity("name", key, shown)


def _is_name(text: str, end: int, shown: str) -> bool:
    """Whether a capitalised run that opens a sentence or line is a name: a heading is none, a lone word hardly ever."""
    if len(shown) == len(text.strip(" ?!.")):
        return True
    after = _AFTER.match(text, end)
    if after is None:
        return False
    if " " in shown or "'" in shown or shown.isupper():
        return True
    lower_case, inside = _uses(text)
    lower = shown.lower()
    if lower.endswith(_COMMON_ENDINGS) or lower in lower_case:
        return False
    return after["verb"] is not None or shown in inside


@lru_cache(maxsize=4)
def _uses(text: str) -> tuple[frozenset[str], frozenset[str]]:
    """The words of `text` written in lower case, and those capitalised inside a sentence."""
    return frozenset(_LOWER_WORD.findall(text)), frozenset(_INSIDE.findall(text))


def _common(word: str) -> bool:
    word = word.lower().strip("'.")
    return word in _COMMON or word.partition("'")[0] in _COMMON


def _starts_sentence(text: str, start: int) -> bool:
    return start == 0 or _SENTENCE_START.search(text[max(0, start - _START_WIDTH) : start]) is not None
