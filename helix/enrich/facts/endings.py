"""Clauses that end a state: "I no longer live here", "we stopped using Redis", "fyi we don't use it anymore"."""

from __future__ import annotations

import re
from typing import Final

_NO_LONGER: Final = re.compile(r"\b(?:no longer|not longer) ")
_AFTERTHOUGHT: Final = re.compile(r", (?:and )?no longer .*")  # "due on Friday, no longer on Monday"
_ANYMORE: Final = re.compile(r",? (?:anymore|any more|any longer)\b")
_DO_NOT: Final = re.compile(r"\b(?:do not|(?P<third>does not)|(?P<have>have|has) not been|not) (?P<verb>\w+)?")
# fmt: off
_BASE: Final = {
    "using": "use", "living": "live", "working": "work", "studying": "study", "dating": "am dating", "eating": "eat",
    "speaking": "speak", "seeing": "am seeing", "relying": "rely",
}
# fmt: on
_STOPPED: Final = re.compile(
    r"\b(?:have |has )?(?:just |finally |recently )?(?:stopped|quit|gave up|given up) "
    rf"(?P<verb>{'|'.join(_BASE)})\b"
)


def cut_ending(clause: str) -> tuple[str, bool]:
    """Return the statement that a clause ends: "I no longer live here" → ("I live here", True)."""
    clause = _AFTERTHOUGHT.sub("", clause)
    if _NO_LONGER.search(clause):
        return _NO_LONGER.sub("", clause, count=1), True
    if _ANYMORE.search(clause):
        positive, changed = _DO_NOT.subn(_affirm, _ANYMORE.sub("", clause), count=1)
        return (positive, True) if changed else (clause, False)
    positive, changed = _STOPPED.subn(lambda match: _BASE[match["verb"]], clause, count=1)
    return positive, changed > 0


def _affirm(match: re.Match[str]) -> str:
    """Return a verb without its negation: "does not carry" → "carries"."""
    verb = match["verb"] or ""
    if match["third"]:
        return verb[:-1] + "ies" if verb.endswith("y") and verb[-2:-1] not in "aeo" else f"{verb}s"
    return f"{match['have']} been {verb}" if match["have"] else verb
