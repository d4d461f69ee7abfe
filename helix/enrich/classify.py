"""What kind of memory a text is: one of `helix.types.TYPES`, by the cues in one table, no model."""

from __future__ import annotations

import re
from typing import Final, NamedTuple

SCANNED: Final = 8_000
"""Characters looked at; an item is far shorter."""


class Cue(NamedTuple):
    """A sign, and how much one sighting of it weighs. A text without any of `needs` is not searched.

    Patterns meet lower-cased text; `raw` ones meet it as written.
    """

    name: str
    weight: float
    needs: tuple[str, ...]
    pattern: re.Pattern[str]
    raw: bool = False

    def seen(self, text: str, lower: str) -> bool:
        """Whether the cue is in `text`; `lower` is the same text, lower-cased."""
        searched = text if self.raw else lower
        if self.needs and not any(word in searched for word in self.needs):
            return False
        return self.pattern.search(searched) is not None


def cue(name: str, weight: float, needs: str, *patterns: str, raw: bool = False) -> Cue:
    """A row of a table: `needs` separated by `|`, `patterns` are alternatives; ^ and $ are line borders."""
    wanted = tuple(needs.split("|")) if needs else ()
    return Cue(name, weight, wanted, re.compile("|".join(patterns), re.MULTILINE), raw)


CUES: Final = (
    # decision: a choice was made, with or without its reason
    cue(
        "decision",
        0.7,
        "decided|agreed|chose|settled|opted",
        r"\b(?:we|i|you|they|team)\b(?:'ve| have| had)? (?:all |finally |also )?"
        r"(?:decided|agreed|chose|settled on|opted)\b",
    ),
    cue(
        "decision",
        0.65,
        "decision|decided",
        r"\b(?:the |our |final |key )decision (?:is|was)\b",
        r"\bdecision:",
        r"\bdecided (?:to|on|against|that|not)\b",
    ),
    cue(
        "decision",
        0.55,
        "go with|stick with|settle on|adopt|switch to",
        r"\b(?:let'?s|we(?:'ll| will| should)|i(?:'ll| will)) (?:go with|stick with|settle on|adopt|switch to)\b",
    ),
    cue(
        "decision",
        0.5,
        "we'll|we will|let's|lets",
        r"\b(?:we(?:'ll| will)|let'?s) (?:use|drop|avoid|skip|not|keep (?:the|our|using|both|it as|it simple))\b",
    ),
    cue(
        "decision",
        0.4,
        "going with|went with|settled on|opt|ruled out|signed off",
        r"\b(?:(?:'m|'re|am|are) going with|went with|settled on|opt(?:ed)? for|ruled out|signed off)\b",
    ),
    cue("decision", 0.3, "agreed|approved", r"\bagreed (?:on|to)\b", r"^\W*approved\b"),
    cue(
        "decision",
        0.2,
        "instead of|rather than|in favo|tradeoff|trade-off",
        r"\b(?:instead of|rather than|in favou?r of|trade-?off)",
    ),
    cue("decision", 0.1, "because|the reason|so that|rationale", r"\b(?:because|the reason|so that|rationale)\b"),
    # procedural: how something is done
    cue(
        "procedural",
        0.6,
        "step|instructions",
        r"\bstep[- ]by[- ]step\b",
        r"\bfollow (?:these|the) (?:steps|instructions)\b",
        r"\b(?:these|the following) steps\b",
    ),
    cue("procedural", 0.5, "step ", r"^\W{0,6}step \d"),
    cue("procedural", 0.5, "run ", r"\brun (?:the following|this command|these commands)\b"),
    cue("procedural", 0.2, "how to|how-to", r"\bhow[- ]to\b"),
    cue(
        "procedural",
        0.25,
        "first",
        r"\bfirst\b[^.,;\n]{3,120}+[.,;\n][^\n]{0,120}\b(?:then|next|after that|finally)\b",
    ),
    cue("procedural", 0.35, "\n$|\n>|\n❯|$ |❯ ", r"^\s{0,8}(?:\$|❯) ?[a-z][\w.-]+ "),
    cue(
        "procedural",
        0.35,
        "`",
        r"`(?:sudo |\$ )?(?:git|pip|npm|npx|uv|cargo|docker|make|pytest|python3?|kubectl|brew|apt|go) [^`\n]+`",
    ),
    cue(
        "procedural",
        0.3,
        "",
        r"^\s{0,8}(?:[-*]|\d{1,2}[.)]) (?:run|install|open|click|set|create|add|copy|configure|restart|check|go to)\b",
    ),
    cue("procedural", 0.1, "1. |2. |1) |2) ", r"^\s{0,8}[1-9][.)] "),
    cue(
        "procedural",
        0.15,
        "make sure|be sure|forget to|always |never ",
        r"\b(?:make sure|be sure to|don'?t forget to|always|never) \w",
    ),
    # code: the thing itself
    cue("code", 0.35, "```|~~~", r"^\s{0,8}(?:```|~~~)"),
    cue("code", 0.25, "```|~~~", r"^\s{0,8}(?:```|~~~)[\w+-]+\s*$"),
    cue(
        "code",
        0.65,
        "diff --git|@@ -|+++ |--- a/|<<<<|>>>>",
        r"^(?:diff --git|@@ -\d|\+\+\+ |--- a/|<{7} |>{7} )",
        raw=True,
    ),
    cue(
        "code",
        0.65,
        'Traceback|File "|Error|Exception|at |error[',
        r"^[ \t]{0,40}(?:Traceback \(most recent|File \".+\", line \d|\w{1,80}(?:Error|Exception): |"
        r"at \S+ ?\(.+:\d|error\[E\d)",
        raw=True,
    ),
    cue(
        "code",
        0.6,
        "def |class |func|fn |import |from |#include|package |const |let |public |private |static ",
        r"^[ \t]{0,40}(?:def \w+\(|class \w+[(:{]|(?:async )?function\b.*\(|func [\w(]|(?:pub )?fn \w+|"
        r"import [\w.{\"]+$|from [\w.]+ import|#include|package \w+;?$|(?:export )?const \w+ =|"
        r"let \w+ =|(?:public|private|static) \w+ \w+[ ({=])",
        raw=True,
    ),
    cue("code", 0.3, ";|{|}", r"[;{}]\s*$"),
    cue("code", 0.25, "→|\t|: ", r"^\s{0,8}\d+(?:→|\t|: ?\t)"),
    cue("code", 0.2, "/", r"(?<![\w./-])/?(?:[\w.-]{1,80}/){2,20}[\w.-]{1,80}\.\w{1,5}\b"),
    # semantic: what holds beyond this conversation
    cue(
        "semantic",
        0.6,
        "prefer|hate|dislike|favorite|favourite|can't stand",
        r"\bi (?:really |strongly |generally |usually |always |much )?(?:prefer|hate|dislike|can't stand)\b",
        r"\bmy (?:favou?rite|preference)\b",
    ),
    cue("semantic", 0.25, "like|love|enjoy", r"\bi (?:really |always |also )?(?:like|love|enjoy)\b"),
    cue(
        "semantic",
        0.55,
        "defined|called|known as|located|responsible|based on|named|means that|refers to|stands for|consists of",
        r"\b(?:is|are) (?:defined as|called|known as|located|responsible for|based on|named)\b",
        r"\b(?:means that|refers to|stands for|consists of)\b",
    ),
    cue(
        "semantic",
        0.5,
        "my ",
        r"\bmy (?:name|wife|husband|partner|birthday|job|email|address|dog|cat|son|daughter|mother|father|sister|"
        r"brother|manager|boss)\b",
    ),
    cue(
        "semantic",
        0.4,
        "i'm |i am |i live|i work|i stud|i grew",
        r"\bi(?:'m| am) (?:a|an|allergic|from|based|vegan|vegetarian)\b",
        r"\bi (?:live|work|study|studied|grew up) (?:in|at|as|for|with)\b",
    ),
    cue(
        "semantic",
        0.2,
        " is | are | was | were | has | supports | requires | uses | provides ",
        r"^(?!This|That|These|Those|It|There|Here|I|We|You|He|She|They|What|Where|Who|How|Now|Let)[A-Z][\w -]{1,40} "
        r"(?:is|are|was|were|has|supports|requires|uses|provides) ",
        raw=True,
    ),
    cue("semantic", 0.1, "**", r"^\s{0,8}(?:[-*] )?\*\*[^*\n]{2,60}\*\*:? "),
    cue(
        "semantic",
        0.15,
        "always|never|by default|in general|typically|supports|requires",
        r"\b(?:always|never|by default|in general|typically|supports|requires)\b",
    ),
    # episodic: something happened, to somebody, at some time
    cue(
        "episodic",
        0.3,
        "day|tonight|tomorrow|last |next | ago",
        r"\b(?:yesterday|today|tonight|tomorrow)\b",
        r"\b(?:last|next) (?:night|week|weekend|month|year|summer|winter|[a-z]{3,6}day)\b",
        r"\b(?:days?|weeks?|months?|years?) ago\b",
    ),
    cue(
        "episodic",
        0.2,
        "i |we |he |she |they ",
        r"\b(?:i|we|he|she|they) (?:just |recently |finally )?(?:went|met|saw|had|did|got|took|made|told|said|found|"
        r"felt|came|visited|tried|started|finished|attended|joined|bought)\b",
    ),
)
"""The table of cues. Those of one type add up as independent evidence: 1 - Π(1 - weight)."""

PRIORS: Final = {
    "human": ("episodic", 0.3),
    "assistant": ("episodic", 0.25),
    "subagent": ("episodic", 0.25),
    "summary": ("episodic", 0.3),
    "tool": ("code", 0.45),
    "document": ("semantic", 0.4),
    "runtime_context": ("semantic", 0.3),
}
"""By origin: what a text is before a word of it is read, and how likely."""

_ORIGIN_OF: Final = {"assistant": "assistant", "tool": "tool", "system": "runtime_context", "document": "document"}
"""By role, for an origin nobody knows."""

PRECEDENCE: Final = ("decision", "procedural", "code", "semantic", "episodic")
"""The tie rule: the earlier wins. Rarer types come first, the default last."""

_CODE_SIGN = re.compile(r"[{}()\[\];=<>_|&]")
_DENSITY_FLOOR: Final = 0.04
"""Code signs a character: English prose has under .02, source code .06 to .15."""
_DENSITY_WEIGHT: Final = 0.7
_FEWEST_SIGNS: Final = 5
"""A smiley is no code."""


def classify(text: str, role: str, origin: str) -> tuple[str, float]:
    """The type of `text` and how sure the cues are, in [0, 1).

    The type with the highest score wins; its score is the confidence. Ties go by `PRECEDENCE`.

    Args:
        text: one item; only the first `SCANNED` characters count.
        role: one of `helix.types.ROLES`.
        origin: as in `helix.types.Turn`.
    """
    text = text[:SCANNED]
    lower = text.lower()
    doubt = dict.fromkeys(PRECEDENCE, 1.0)
    kind, weight = PRIORS.get(origin) or PRIORS[_ORIGIN_OF.get(role, "human")]
    doubt[kind] = 1 - weight
    for row in CUES:
        if row.seen(text, lower):
            doubt[row.name] *= 1 - row.weight
    doubt["code"] *= 1 - _density(text)
    best = min(PRECEDENCE, key=lambda name: round(doubt[name], 6))
    return best, round(1 - doubt[best], 4)


def _density(text: str) -> float:
    """Weight of the density of code signs: 0 at the floor, `_DENSITY_WEIGHT` from four times the floor."""
    signs = len(_CODE_SIGN.findall(text))
    if signs < _FEWEST_SIGNS:
        return 0.0
    excess = (signs / len(text) - _DENSITY_FLOOR) / (3 * _DENSITY_FLOOR)
    return _DENSITY_WEIGHT * min(1.0, max(0.0, excess))
