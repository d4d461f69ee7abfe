"""Entities with a shape: URLs, paths, errors, pins, commits, versions, tickets, modules and identifiers."""

from __future__ import annotations

import errno
import re
from typing import Final

from helix.text.gazetteer import COMMON_WORDS, ORGANISATIONS, PROJECTS
from helix.types import Entity
from helix.util.wordlists import fill_pattern, read_groups, read_patterns

MAX_MENTION: Final = 200
"""Characters of one mention."""

_PIECES, _TABLES = read_patterns("helix.text", "shapes", {"ERRNO": "|".join(sorted(errno.errorcode.values()))})
_SHAPES: Final = {
    kind: "|".join(fill_pattern(shape, _PIECES) for shape in shapes) for kind, shapes in _TABLES["shapes"].items()
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
            rf"{_CAPITALISED}(?:(?P<plain>{_SHAPES['name']})|[A-Z][a-z]{{0,40}}+)",
            *(f"(?P<{kind}>{shapes})" for kind, shapes in _SHAPES.items()),
        )
    )
)

_WORDS: Final = read_groups("helix.text", "shapes")
_OBJECTS: Final = _WORDS["objects"]
_RECEIVERS: Final = _OBJECTS | _WORDS["instances"]
# Also in the form of grep.
_LINE_NUMBER: Final = re.compile(rf"(\.(?:{_PIECES['SUFFIXES']})|)(?:(?::\d+)+:?|-\d+(?:-.*)?)\Z")
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
