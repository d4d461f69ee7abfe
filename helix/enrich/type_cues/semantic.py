"""Cues of knowledge that holds beyond the conversation."""

from __future__ import annotations

from typing import Final

from helix.enrich.type_cues.cue import make_cue, make_word_cue

SEMANTIC: Final = (
    make_word_cue(
        "semantic",
        0.6,
        "prefer hate dislike favorite favourite preference can't",
        r"i (?:really |strongly |generally |usually |always |much )?(?:prefer|hate|dislike|can't stand)\b",
        r"my (?:favou?rite|preference)\b",
    ),
    make_word_cue("semantic", 0.3, "like love enjoy", r"i (?:really |always |also )?(?:like|love|enjoy)\b"),
    make_word_cue(
        "semantic",
        0.55,
        "defined called known located responsible based named means refers stands consists founded born belong "
        "belongs depend depends lives defaults",
        r"(?:is|are) (?:defined as|called|known as|located|responsible for|based (?:on|in)|named)\b",
        r"(?:means|refers to|stands for|consists of|belongs? to|depends? on|lives? in|defaults? to|best known for)\b",
        r"(?:founded|was (?:born|founded)|\(born|\(\d{4}[–-]\d{4}\))",
    ),
    make_word_cue(
        "semantic",
        0.5,
        "my",
        r"my (?:name|wife|husband|partner|birthday|job|email|address|dog|cat|son|daughter|mother|father|sister|"
        r"brother|manager|boss|grand\w{3,6}|goal|dream|passion|budget|team|company)\b[^?\n]{0,60} (?:is|are|works?|"
        r"has|lives?)\b",
        r"my (?:name|birthday|email|goal|dream|passion|budget) ",
    ),
    make_word_cue(
        "semantic",
        0.45,
        "i'm i i've we're",
        r"i(?:'m| am) (?:a|an|allergic|from|based|vegan|vegetarian|scared of|more of|left-handed|colou?r ?blind|"
        r"into)\b",
        r"i (?:live|work|study|studied|grew up) (?:in|at|as|for|with|on)\b",
        r"i (?:speak|usually|don't (?:eat|drink|like|do|speak))\b|i've been an?\b|we're an?\b",
    ),
    make_word_cue(
        "semantic",
        0.25,
        "he's she's he she they they're",
        r"(?:s?he|they)(?:'s|'re| is| are| has| hates| loves| works) (?:a|an|the|my|our|very|really|always|also|as|"
        r"from)\b",
    ),
    make_cue(
        "semantic",
        0.25,
        " is | are | was | were | has | have | supports | requires | uses | provides | holds | needs ",
        r"\n(?!This|That|These|Those|It|There|Here|I|We|You|He|She|They|What|Where|Who|How|Now|Let)[A-Z`][\w` "
        ".-]{1,40}? (?:is|are|was|were|has|have|supports|requires|uses|provides|holds|needs|takes|returns) ",
        raw=True,
    ),
    make_word_cue(
        "semantic",
        0.3,
        "my our his her their each every both",
        r"(?:my|our|his|her|their|each|every|both) [\w'-]{2,30}(?: [\w'-]{2,30}){0,2}? (?:is|are|has|have|takes|"
        r"holds|needs|means|runs|starts|uses|wins|knows) (?!still|again|now|done|green|fine)",
    ),
    make_cue(
        "semantic",
        0.3,
        "",
        r"\W{0,4}(?:the|all) [\w'.-]{2,30}(?: [\w'.-]{2,30}){0,3}? (?:is|are|has|have|takes|holds|needs|means|runs|"
        r"starts|uses|wins|knows) (?!still|again|now|done|green|fine)",
        where="opening",
    ),
    make_cue("semantic", 0.1, "**", r"\n\s{0,8}(?:[-*] )?\*\*[^*\n]{2,60}\*\*:? "),
    make_word_cue(
        "semantic",
        0.2,
        "always never default general typically supports requires usually generally fyi context know every",
        r"(?:always|never|by default|in general|typically|supports|requires|usually|generally|fyi|for context|"
        r"just so you know|every (?:other )?(?:day|week|month|year|morning|evening|night|\w{3,6}day))\b",
    ),
    make_cue(
        "semantic",
        0.4,
        "",
        r"\W{0,4}(?:glossary|features|requirements|(?:known )?limitations|overview|licen[cs]e|about|persona|"
        r"background|fyi|for context|by \W?\w+\W? (?:i|we) mean|when i say)\b",
        where="opening",
    ),
)
