"""A cue of an item's type, and the builders of cue tables."""

from __future__ import annotations

import re
from typing import Final, NamedTuple

_OPENING: Final = 200  # characters
_ENDING: Final = 80

HUMAN: Final = "human"
AGENTS: Final = "assistant|subagent"
NOT_HUMAN: Final = "assistant|subagent|tool|document|summary|runtime_context"
"""Origins whose imperatives instruct the reader; a human's imperative asks for work."""

VERBS: Final = (
    r"(?:add|adjust|apply|ask|attach|avoid|bake|break|build|bump|call|change|check|choose|clean|clear|click|clone|"
    r"close|commit|compare|configure|connect|convert|copy|count|create|cut|delete|deploy|describe|disable|divide|"
    r"do not|don't|download|draw|drop|edit|enable|ensure|enter|export|fill|find|fold|follow|give|go|hang|hold|import|"
    r"include|insert|install|keep|launch|lean|leave|list|log|look|lower|make|mark|measure|mix|move|multiply|never|"
    r"note|open|paste|pick|place|pour|press|prune|pull|push|put|read|rebuild|record|reload|remove|rename|repeat|"
    r"replace|report|restart|restore|return|rinse|rotate|run|save|schedule|select|send|set|sign|skip|sort|speak|"
    r"start|stir|stop|store|subtract|swap|switch|tag|take|tell|test|tick|treat|try|turn|type|update|upgrade|upload|"
    r"use|verify|wait|warm|wash|watch|wear|wipe|work|wrap|write)\b"
)


class TypeCue(NamedTuple):
    """A pattern, and the weight of one occurrence."""

    name: str  # one of helix.types.TYPES
    weight: float
    needs: tuple[str, ...]  # a text without any of them is not searched
    pattern: re.Pattern[str]
    raw: bool = False  # matches the text as written, not lower-cased
    origins: tuple[str, ...] = ()  # none: any
    where: str = ""  # "opening": matches at the start of the first 200 characters; "ending": within the last 80
    words: frozenset[str] = frozenset()  # `is_in` is false for a text without any of these whole words

    def is_in(self, text: str, lower: str) -> bool:
        """Return whether the cue is in `text`; `lower` is the same text, lower-cased."""
        searched = text if self.raw else lower
        if self.where == "opening":
            return self.pattern.match(searched, 0, _OPENING) is not None
        if self.where == "ending":
            searched = searched[-_ENDING:]
        if self.needs and not any(word in searched for word in self.needs):
            return False
        return self.pattern.search(searched) is not None


def make_cue(
    name: str, weight: float, needs: str, *patterns: str, raw: bool = False, origins: str = "", where: str = ""
) -> TypeCue:
    """Build a cue: `|` separates `needs` and `origins`, `patterns` are alternatives; ^ and $ are line borders."""
    wanted = tuple(needs.split("|")) if needs else ()
    only = tuple(origins.split("|")) if origins else ()
    return TypeCue(name, weight, wanted, re.compile("|".join(patterns), re.MULTILINE), raw, only, where)


def make_word_cue(name: str, weight: float, words: str, *patterns: str, origins: str = "") -> TypeCue:
    """Build a cue that needs one of `words` in the text, which is far cheaper to rule out.

    Patterns begin at the start of a word, after one character that is no letter. A text has to begin with one.
    """
    pattern = rf"[\s(\"'*_`-](?:{'|'.join(patterns)})"
    return make_cue(name, weight, "", pattern, origins=origins)._replace(words=frozenset(words.split()))
