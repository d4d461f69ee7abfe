"""Cues of an event, a question or a request."""

from __future__ import annotations

from typing import Final

from helix.enrich.type_cues.cue import AGENTS, HUMAN, make_cue, make_word_cue

_PAST: Final = (
    r"(?:went|met|saw|had|did|got|took|made|told|said|found|felt|came|visited|tried|started|finished|attended|joined|"
    r"bought|ran|spent|spoke|talked|asked|called|lost|left|missed|moved|read|looked|broke|fell|woke|slept|cooked|"
    r"walked|drove|heard|noticed|sat|signed|sent|wrote|paid|won|played|watched|forgot|brought|planted|scored|"
    r"reported|received|arrived|stopped|changed|added|fixed|updated|removed|renamed|pushed|created|checked|killed)"
)
EPISODIC: Final = (
    make_word_cue(
        "episodic",
        0.3,
        "yesterday today tonight tomorrow ago night week weekend month year summer winter morning afternoon evening "
        "monday tuesday wednesday thursday friday saturday sunday noon midnight",
        r"(?:yesterday|today|tonight|tomorrow)\b",
        r"(?:last|next|this) (?:night|week|weekend|month|year|summer|winter|morning|afternoon|evening|(?:mon|tues|"
        r"wednes|thurs|fri|satur|sun)day)\b",
        r"(?:days?|weeks?|months?|years?|minutes?|hours?) ago\b",
        r"(?:on|since|until) (?:mon|tues|wednes|thurs|fri|satur|sun)day\b",
        r"at (?:noon|midnight)\b",
    ),
    make_cue("episodic", 0.3, "at 0|at 1|at 2", r"\bat [012]?\d:\d\d\b"),
    make_word_cue(
        "episodic",
        0.25,
        "i we he she they i've we've",
        rf"(?:i|we|he|she|they)(?:'ve| have)? (?:just |recently |finally |both |all |also |then |never )?{_PAST}\b",
        r"(?:i've|we've|i have) (?:just |been |finally )?\w+(?:ed|ing)\b",
    ),
    make_cue("episodic", 0.5, "?", r"\?\W{0,6}\Z", where="ending"),
    make_word_cue(
        "episodic",
        0.4,
        "can could help ideas advice tips think should suggest",
        r"(?:can|could) you\b|help me\b|what do you think|do you think|any (?:ideas|advice|tips)\b|should i\b",
        origins=HUMAN,
    ),
    make_cue("episodic", 0.15, "?", r"\?(?:\s|$)", origins="human|assistant|subagent"),
    make_cue(
        "episodic",
        0.4,
        "",
        r"\W{0,4}(?:\w{2,12}[,.!]? )?(?:please|pls|can|could|would|will) (?:you|u|someone|we|i)\b",
        r"\W{0,4}(?:(?:ok|so|and|hey|hi|but|hmm+|wait)[,.]? )?(?:please|pls|help|what|what's|whats|why|how(?! to)|"
        r"who|where|which|is (?:there|it|this|that)|do (?:we|you|i|they)|does|did|are (?:we|you|there)|have (?:we|"
        r"you)|should)\b",
        origins=HUMAN,
        where="opening",
    ),
    make_cue(
        "episodic",
        0.4,
        "",
        r"\W{0,4}(?:(?:ok(?:ay)?|now|and|then|please|pls|great|good)[,.]? ){0,4}(?:now )?(?:fix|add|make|rename|"
        r"write|implement|run|check|look|show|explain|update|remove|refactor|create|tell|try|review|undo|continue|"
        r"go on|take a|find|summari[sz]e|generate|translate|give me|list|commit|push|start|open|rerun|investigate|"
        r"search|compare|merge|install|do the|let me know)\b",
        origins=HUMAN,
        where="opening",
    ),
    make_cue(
        "episodic",
        0.5,
        "",
        r"\W{0,4}(?:(?:ok(?:ay)?|now|great|good|perfect|right)[,.!]? )?(?:let me|i'?ll (?:start|begin|look|check|now|"
        r"update|go|run|take|add|fix|also|first|search|read|try)|i(?:'m| am) (?:going|now|sorry|still|glad|happy)|"
        r"i(?:'ve| have)\b|i \w{2,12}ed\b|i (?:ran|found|could|see|notice|hear|think)|now (?:i|let|to|the)|done|"
        r"found|fixed|good question|great|perfect|congratulations|you're (?:right|welcome)|running|reading|looking|"
        r"checking|trying|searching|still|so far|all (?:\w+ )?(?:tests|tasks|checks)|thank|that sounds|happy to|"
        r"before i|would you|which|it seems|hi\b|hello|sure)",
        origins=AGENTS,
        where="opening",
    ),
    make_word_cue(
        "episodic",
        0.3,
        "thanks thank congrats congratulations sorry lol haha wow birthday luck ugh omg awesome amazing proud "
        "excited glad job how",
        r"(?:thanks|thank you|congrat\w*|sorry|lol|haha\w*|wow|happy birthday|good luck|ugh|omg|awesome|amazing|glad|"
        r"so proud|excited|great job|how are)\b",
        origins="human|assistant|subagent",
    ),
    make_word_cue(
        "episodic",
        0.25,
        "i'm am still we're",
        r"(?:i'm|i am|we're) (?:\w{2,15}ing|stuck|still|so|in the middle)\b|still (?:failing|getting|waiting|broken|"
        r"no)\b",
    ),
)
