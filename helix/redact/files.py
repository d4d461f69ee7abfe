"""Secrets in files of a known form: .netrc, .pgpass, Kubernetes manifests."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from helix.redact.rules import FORM, GAP, OPEN, QUOTE, Secret, Trigger, is_password, make_rule
from helix.redact.values import is_literal, regex

_FIELD: Final = rf"[^\s\\\"']{{1,128}}{GAP}{{1,40}}"
_NETRC: Final = (
    rf"machine{GAP}{{1,40}}{_FIELD}(?:login|user){GAP}{{1,40}}{_FIELD}(?:account{GAP}{{1,40}}{_FIELD})?"
    rf"password{GAP}{{1,40}}([^\s\\\"'`<>]{{4,256}}+)"
)
_PGPASS: Final = (
    r"(?<=[\w*]):(?:5432|6432|5433|\*):(?:[\w-]{1,63}|\*):[\w.-]{1,63}:([^\s:\"'`\\<>]{4,256}+)(?=\s|\\+[nr]|[\"'`]|$)"
)

_KIND: Final = rf"kind{QUOTE}?:[ \t]{{0,8}}{QUOTE}?Secret\b"
_BLOCK_OF_DATA: Final = rf"(?:\b|(?<=\\n))(?:data|stringData){QUOTE}?:"
_FROM_KIND: Final = 4096  # characters of a manifest before and after its kind
_ENTRY: Final = (
    rf"{GAP}{{0,40}}[,{{]?{GAP}{{0,40}}(?:\\{{0,16}}[\"'])?(?P<name>[\w.-]{{1,128}}+)"
    rf"(?:\\{{0,16}}[\"']:[ \t]{{0,8}}{OPEN}|:[ \t]{{0,8}}(?:{OPEN})?)"
    r"(?P<value>[^\s\"'`\\{}<>,]{1,4096}+)(?:\\{0,16}[\"'])?"
)
_OTHER_ENTRIES: Final = ("kind", "metadata", "apiVersion", "type", "name", "namespace", "immutable")
_MOST_ENTRIES: Final = 100


def _find_manifest(text: str, at: int) -> tuple[int, int]:
    """Return the bounds of a manifest: the kinds of its neighbours, or the lines between."""
    begin, end = max(0, at - _FROM_KIND), min(len(text), at + _FROM_KIND)
    for border in ("kind:", 'kind"', "kind\\", "\n---", "\\n---"):
        begin = max(begin, text.rfind(border, begin, at) + 1)
        following = text.find(border, at + 1, end)
        end = following if following >= 0 else end
    return begin, end


def _find_kubernetes_values(text: str, at: int) -> Iterator[Secret]:
    """Find the values under `data:` and `stringData:` of a manifest of kind Secret, in any order."""
    if regex(_KIND).match(text, at) is None:
        return
    begin, end = _find_manifest(text, at)
    for block in regex(_BLOCK_OF_DATA).finditer(text, begin, end):
        place = block.end()
        for _ in range(_MOST_ENTRIES):
            entry = regex(_ENTRY).match(text, place, end)
            if entry is None or entry["name"] in _OTHER_ENTRIES:
                break
            if len(entry["value"]) > 3 and is_literal(entry["value"]):
                yield Secret(*entry.span("value"), "kubernetes-secret-yaml", FORM)
            place = entry.end()


def list_triggers() -> Iterator[Trigger]:
    """Yield the rules with their keywords."""
    yield Trigger("machine", make_rule(_NETRC, "password", is_password))
    yield Trigger(":5432:|:6432:|:5433:|:*:", make_rule(_PGPASS, "password", is_password))
    yield Trigger("kind", _find_kubernetes_values)
