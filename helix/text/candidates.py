"""Texts that a pattern may match, by Arrow's RE2: it reads several hundred megabytes a second, `re` about ten.

RE2 knows no look-around and only ASCII words. So it reads a looser pattern that rules most texts out, and `re` decides
on the rest.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import lru_cache
from typing import Final

import numpy as np

from helix.types import Bool

LEAST: Final = 32
"""Texts from which ruling out pays: compiling a pattern takes a third of a millisecond each time."""

_LOOK_AROUND: Final = re.compile(r"\(\?<?[!=](?:[^()\[\]]|\[[^\]]*\]|\([^()]*\))*\)")
_PART: Final = re.compile(r"\[(?:\\.|[^\]\\])*\]|\\.|.", re.DOTALL)
_BEYOND: Final = r"\x{80}-\x{10ffff}"  # ASCII; classes of Unicode take a hundred times as long to compile
_WIDER: Final = {r"\w": r"\w" + _BEYOND, r"\d": r"\d" + _BEYOND, r"\s": r"\s\x0b\x1c-\x1f" + _BEYOND}


def find_candidates(texts: Sequence[str], patterns: Sequence[re.Pattern[str]]) -> Bool:
    """Return which texts each pattern may match: bool[n, patterns]. All of them where there are few texts."""
    if len(texts) < LEAST:
        return np.ones((len(texts), len(patterns)), np.bool_)
    import pyarrow as pa  # here: a recall reads the words of claims, and rules out no text
    import pyarrow.compute as pc

    array = pa.array(texts, pa.large_string())
    found = [pc.match_substring_regex(array, pattern=loosen(pattern)) for pattern in patterns]
    return np.column_stack([column.to_numpy(zero_copy_only=False) for column in found])


@lru_cache(maxsize=256)
def loosen(pattern: re.Pattern[str]) -> str:
    """Return a pattern of RE2 that is found in every text in which `pattern` is found.

    Without look-arounds and word borders; any character beyond ASCII counts as a letter, a digit and a space.
    """
    wider = "".join(map(_widen, _PART.findall(_LOOK_AROUND.sub("", pattern.pattern))))
    flags = "i" * bool(pattern.flags & re.IGNORECASE) + "m" * bool(pattern.flags & re.MULTILINE)
    return f"(?{flags}:{wider})" if flags else wider


def _widen(part: str) -> str:
    """Return a class, an escape or a character with what `re` counts to it."""
    if part[0] == "[":
        return part[0] + "".join(_WIDER.get(inner, inner) for inner in _PART.findall(part[1:-1])) + "]"
    return "" if part == r"\b" else f"[{_WIDER[part]}]" if part in _WIDER else part
