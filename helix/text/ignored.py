"""Words of a question that name no filter: blanked before hints are read from it."""

from __future__ import annotations

import re
from collections.abc import Sequence


def blank_words(text: str, ignored: Sequence[str]) -> str:
    """Return a text with blanks in place of some words, in any case: positions stay the same.

    Args:
        ignored: words as they are in the text, such as "last week"; words that are part of longer ones stay.
    """
    for words in ignored:
        pattern = rf"(?<!\w){re.escape(words.strip())}(?!\w)"
        text = re.sub(pattern, lambda match: " " * len(match[0]), text, flags=re.IGNORECASE) if words.strip() else text
    return text
