"""Entities with a shape: URLs, paths, errors, pins, commits, versions, tickets, modules and identifiers."""

from __future__ import annotations

import errno
import re
from typing import Final

from helix.text.gazetteer import COMMON_WORDS, ORGANISATIONS, PROJECTS
from helix.types import Entity
from helix.util.wordlists import read_groups

MAX_MENTION: Final = 200
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

# One scan: the first kind that matches wins. Repetitions are bounded, so a word of a megabyte takes linear time.
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
    # listed names only
    "brand": (r"(?<![\w.])(?=[A-Z]\w{1,30}[A-Z])(?=\w{0,30}[a-z])[A-Za-z0-9]{3,30}(?!\w)",),
    "name": (
        rf"(?<![\w'’.-])(?:(?:Dr|Mrs?|Ms|Prof)\.? )?{_CAPITAL}"
        rf"(?: (?:(?:of|of the|de|van|von|da|del|la|der|&) )?{_CAPITAL}){{0,5}}(?!\w)",
    ),
}
# Text where no shape begins is skipped at once: punctuation, the rest of a word, plain lower-case words and numbers.
# Only a URL may begin within a word.
_ENDS: Final = r"(?![\w/\\@`\[+~-]|\.\S|\(\)|==|::|:[/\\]|[<>]=)"
_SKIPPED: Final = (
    r"(?>(?:[^\w.@+~/#\\-]++|(?<=\w)(?:\w++(?!:)|[.@+~/#\\-])|(?>(?:(?<!\S)(?!status|http)[a-z]{1,40}+[,;!?.]?\s{1,8}+){1,200})"
    rf"|(?<!ommit )(?!status|http)(?:[a-z]{{1,40}}+(?>(?:-[a-z]{{1,40}}+){{0,4}})|\d{{1,6}}+){_ENDS})+)"
)
# A capitalised word without a connector is a name or nothing.
_CAPITALISED: Final = rf"(?=[A-Z][a-z]{{0,40}}+{_ENDS})(?!Makefile|Dockerfile|Justfile|Jenkinsfile|H[Tt]|[Ss]tatus)"
MENTION: Final = re.compile(
    "|".join(
        (
            _SKIPPED,
            rf"{_CAPITALISED}(?:(?P<plain>{_SHAPES['name'][0]})|[A-Z][a-z]{{0,40}}+)",
            *(f"(?P<{kind}>{'|'.join(shapes)})" for kind, shapes in _SHAPES.items()),
        )
    )
)

_WORDS: Final = read_groups("helix.text", "shapes")
_OBJECTS: Final = _WORDS["objects"]
_RECEIVERS: Final = _OBJECTS | _WORDS["instances"]
_LINE_NUMBER: Final = re.compile(rf"(\.(?:{_SUFFIXES})|)(?:(?::\d+)+:?|-\d+(?:-.*)?)\Z")  # also in the form of grep
_DIGEST: Final = re.compile(r"[a-z0-9+]{40}|sha\d{3}-")
_QUERY: Final = re.compile(r"[?#$]")
_STATUS: Final = re.compile(r" ([45]\d\d)\Z")
_LETTER: Final = re.compile(r"[A-Za-z]")
_SURNAME: Final = re.compile(r"(?:Mc|Mac|De|Di|Le|La|Van|Fitz)[A-Z][a-z]{2,20}")
_PIN: Final = re.compile(r"(?:[=<>~]=|(?<!\A)@)\^?v?")
_TRAILING: Final = ".,;:!?'\"*_-"


def read_shape(match: re.Match[str]) -> tuple[Entity, ...]:
    """Return the entities of one match of `MENTION`; none where the shape misleads."""
    kind, name = str(match.lastgroup), match.group()[:MAX_MENTION]
    if kind == "pin":
        return _read_pin(name)
    entity = _read_one(kind, name)
    return () if entity is None else (entity,)


def _read_one(kind: str, name: str) -> Entity | None:
    if kind in ("url", "host"):
        return _read_url(name)
    if kind == "path":
        return _read_path(name)
    if kind == "ticket":
        return None if name.rpartition("-")[0].lower() in _WORDS["no tickets"] else Entity(kind, name.lower(), name)
    if kind == "brand" and name.lower() not in PROJECTS and name.lower() not in ORGANISATIONS:
        return None
    if kind in ("identifier", "module", "brand"):
        return _read_identifier(kind, name)
    if kind == "error":
        return _read_error(name)
    if kind == "commit":
        return Entity(kind, name[:7], name)
    name = name.rstrip(_TRAILING)
    return Entity(kind, name.lower().removeprefix("v"), name)


def _read_pin(name: str) -> tuple[Entity, ...]:
    """Return the package and the version of `name==1.2`."""
    package, version = _PIN.split(name, maxsplit=1)
    package, version = package.partition("[")[0], version.rstrip(_TRAILING)
    key = package.lower()
    if key in ("python", "node"):
        return (Entity("project", key, package), Entity("version", version, version))
    return (Entity("package", key, package), Entity("version", version.lower(), version))


def _read_url(name: str) -> Entity | None:
    name = name.rstrip(_TRAILING + "/")
    key = _QUERY.split(name.lower().partition("://")[2] or name.lower(), maxsplit=1)[0]
    host, slash, path = key.partition("/")
    key = (host.rpartition("@")[2].removeprefix("www.") + slash + path).rstrip(_TRAILING + "/")
    return Entity("url", key, name) if _LETTER.search(key) else None


def _read_error(name: str) -> Entity | None:
    """Key an error by its class without the module; `status 404` and `HTTP/1.1 404` have one key."""
    status = _STATUS.search(name)
    key = f"http {status[1]}" if status else name.lower().rpartition(".")[2]
    return None if key in _WORDS["flags"] else Entity("error", key, name)


def _read_path(name: str) -> Entity | None:
    name = _LINE_NUMBER.sub(r"\1", name).rstrip(_TRAILING)
    key = re.sub(r"[\\/]+", "/", name.lower()).rstrip("/")
    while key.startswith("./"):
        key = key[2:]
    if key[:2] in ("a/", "b/") and "/" in key[2:]:  # the two sides of a diff
        key = key[2:]
    parts = [part for part in key.split("/") if part]
    # `2024/05/07` is a date, `/help` a command, `this.db` an attribute, `next.js` a product, the rest a digest.
    if (
        not _LETTER.search(key)
        or (key.startswith("/") and len(parts) < 2 and "." not in key)
        or (len(parts) == 1 and (key.partition(".")[0] in _OBJECTS or key in _WORDS["products"]))
        or _DIGEST.search(key)
    ):
        return None
    return Entity("path", key, name)


def _read_identifier(kind: str, name: str) -> Entity | None:
    key = name.lower().replace("->", ".")
    if key in PROJECTS:
        return Entity("project", key, name)
    if key in ORGANISATIONS:
        return Entity("organisation", key, name)
    if key in _WORDS["brands"] or _SURNAME.fullmatch(name):
        return Entity("name", key, name)
    if kind == "module" and key.partition(".")[0] in _RECEIVERS:
        kind = "identifier"
    if key in COMMON_WORDS or key in _WORDS["keywords"] or len(key) < 4 or not _LETTER.search(key):
        return None
    return Entity(kind, key, name)
