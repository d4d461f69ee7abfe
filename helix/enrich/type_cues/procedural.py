"""Cues of a procedure: how something is done."""

from __future__ import annotations

from typing import Final

from helix.enrich.type_cues.cue import NOT_HUMAN, VERBS, make_cue, make_word_cue

PROCEDURAL: Final = (
    make_word_cue(
        "procedural",
        0.6,
        "step steps instructions checklist runbook usage",
        r"step[- ]by[- ]step\b",
        r"follow (?:these|the) (?:steps|instructions)\b",
        r"(?:these|the following) steps\b",
        r"(?:instructions|runbook|checklist|usage)\b",
    ),
    make_word_cue("procedural", 0.5, "step", r"step \d"),
    make_word_cue("procedural", 0.5, "run", r"run (?:the following|this command|these commands)\b"),
    make_word_cue("procedural", 0.2, "how way", r"how[- ]to\b|the way (?:to|we|i|you)\b"),
    make_word_cue(
        "procedural",
        0.35,
        "first",
        r"first\b[^.,;\n]{3,120}+[.,;\n][^\n]{0,120}\b(?:then|next|after that|finally|only then|last)\b",
        r"\w{3,20} first, (?:then )?",
    ),
    make_cue("procedural", 0.35, "$ |❯ ", r"\n\s{0,8}(?:\$|❯) ?[a-z][\w.-]+ "),
    make_cue(
        "procedural",
        0.35,
        "`",
        r"`(?:sudo |\$ )?(?:git|pip|npm|npx|uv|cargo|docker|make|pytest|python3?|kubectl|brew|apt|go|ssh|scp) [^`\n]+`",
        origins=NOT_HUMAN,
    ),
    make_cue("procedural", 0.3, "\n-|\n*|\n1|\n2|\n  ", rf"\n\s{{0,8}}(?:[-*]|\d{{1,2}}[.)]) (?:\*\*)?{VERBS}"),
    make_cue("procedural", 0.1, "1. |2. |1) |2) ", r"\n\s{0,8}[1-9][.)] "),
    make_cue(
        "procedural", 0.4, "", rf"\W{{0,8}}(?:\d{{1,2}}[.)] )?{VERBS} (?!to me)", origins=NOT_HUMAN, where="opening"
    ),
    make_word_cue(
        "procedural",
        0.4,
        "if when whenever once before after",
        rf"(?:if|when|whenever|once|before|after) [^.,;:\n]{{3,80}}[,:] (?:then |just |first |always |you |"
        rf"please )?{VERBS}",
    ),
    make_cue(
        "procedural",
        0.35,
        "",
        rf"\W{{0,4}}(?:always|never|don't|do not|every(?:body|one)? |whenever|when(?! did| was| is| are)|if|before|"
        rf"after|once|until|for new|to {VERBS})\b(?![^?\n]{{0,200}}\?)",
        where="opening",
    ),
    make_word_cue(
        "procedural",
        0.2,
        "make sure forget always never then you must should",
        r"(?:make sure|be sure to|don'?t forget to|always|never|only then) \w",
        rf"you (?:then |just |first |always |can |should |need to |have to |must )?{VERBS}",
        r"(?:must|should) (?:be|not|never|always)\b",
    ),
)
