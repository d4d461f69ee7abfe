"""Signs in the prose of an item that raise or lower its salience, or tell who vouches for it."""

from __future__ import annotations

import re
from typing import Final, NamedTuple

from helix.util.wordlists import read_groups

WORDS: Final = read_groups("helix.enrich", "salience")


class Sign(NamedTuple):
    """One sign. A text without any of `words` is not searched; without a pattern a word is enough."""

    name: str  # a key of `WEIGHTS`
    words: frozenset[str]
    pattern: re.Pattern[str] | None

    def is_in(self, words: frozenset[str], prose: str) -> bool:
        """Return whether lower-cased prose, with the set of its words, shows the sign."""
        if self.words and self.words.isdisjoint(words):
            return False
        return self.pattern is None or self.pattern.search(prose) is not None


def make_sign(name: str, words: str, *patterns: str) -> Sign:
    """Build a sign from words separated by blanks and alternative patterns; ^ is the start of a line or sentence."""
    pattern = re.compile("|".join(patterns), re.MULTILINE) if patterns else None
    return Sign(name, frozenset(words.split()), pattern)


def _join_words(group: str) -> str:
    return "|".join(sorted(WORDS[group]))


_MONTH: Final = (
    r"(?:jan(?:uary)?|feb(?:ruary)?|mar(?:ch)?|apr(?:il)?|may|june?|july?|aug(?:ust)?|sept?(?:ember)?|oct(?:ober)?|"
    r"nov(?:ember)?|dec(?:ember)?)"
)
_DAY: Final = r"(?:mon|tues|wednes|thurs|fri|satur|sun)day"
_PEOPLE: Final = r"\b(?:i|we|he|she|they)"
_LEAD: Final = (
    r"^\W{0,4}(?:(?:ok|okay|right|sure|great|good|now|next|first|alright|perfect|and|so|also|then)\W{1,3}){0,2}"
)

DECISION: Final = (
    make_sign(
        "decision",
        "decided chose settled agreed opted picked went ruled signed approved decision closed not longer final mind "
        "minds switch switched switching",
        r"\b(?:decided|chose|settled (?:on|for)|agreed|opted|picked|went with|ruled out|signed off|approved|"
        r"decision (?:is|was)|decision:|case closed|not up for|no longer|final answer|(?:that's|is) final|"
        r"up (?:my|our) minds?|switch(?:ed|ing)? to)\b",
    ),
    make_sign(
        "decision",
        "going go stick sticking stay staying",
        r"\b(?:going|go|stick|sticking|stay|staying) with\b|\bstay(?:ing)? on\b|\bgoing for the\b",
    ),
    make_sign(
        "decision",
        "use using take taking have drop dropping ditch scrap adopt keep keeping switch switching avoid skip changing "
        "moving",
        r"\b(?:let'?s|we(?:'ll| will|'re| are)|i(?:'ll| will)) (?:just |going to |gonna )?"
        r"(?:use|using|take the|taking the|have the|drop|dropping|ditch|scrap|adopt|"
        r"keep(?:ing)? (?:the|our|it|using|both)|switch|switching|avoid|skip|changing|moving)\b",
    ),
    make_sign(
        "decision",
        "it then",
        r"\b(?!(?:here|there|where|what|how|that|so|as|like|since|back|until|till|by|just|and|but|even|now|only|right|"
        r"if)\b)\w{1,40} (?:it is|then)(?:[.!,;]|$)",
    ),
)
"""A choice was made."""

SIGNS: Final = (
    *DECISION,
    # an earlier statement does not hold
    make_sign(
        "correction",
        "no nope wrong actually wait stop correction update scratch",
        r"^\W{0,4}(?:no|nope|wrong|actually|wait|stop|correction|update|scratch that)\b[,.! :]",
    ),
    make_sign(
        "correction",
        "not wrong isn't outdated meant should mistake mixed actually",
        r"\b(?:that'?s (?:not|wrong|outdated)|isn't (?:right|correct)|i meant|should have been|not what i|wrong "
        r"\w{2,20}|my mistake|mixed up|it'?s actually|not \w{1,20}[.;,] (?:it|but))\b|, not ",
    ),
    make_sign(
        "correction",
        "forgot missed misunderstood broke renamed",
        r"\byou (?:also )?(?:forgot|missed|misunderstood|broke)\b",
    ),
    # a promise or a deadline
    make_sign(
        "commitment",
        "i'll we'll promise promised deadline due by todo remind remember owe owes scheduled booked before until till "
        "volunteer volunteered than",
        r"\b(?:i promise|promised?|deadline|due (?:on|by|in|this|next|at)|action item|todo|remind me|remember to|"
        r"owes? (?:you|me|us|him|her)|scheduled|booked|volunteer(?:ed)?|i'll (?:own|come|bring|send|pay|do|be|have))\b",
        rf"\b(?:by|before|until|till|no later than) (?:the )?(?:{_DAY}|tomorrow|tonight|eod|end of|next|{_MONTH}|noon|"
        r"\d)",
    ),
    # a preference or a convention
    make_sign("rule", "favourite favorite allergic vegetarian vegan"),
    make_sign("rule", "always never", r"(?<!'m )(?<!can )(?<!'re )(?<!will )(?<!'ll )\b(?:always|never)\b"),
    make_sign(
        "rule",
        "prefer prefers preferred love loves hate hates dislike dislikes can't avoid avoids rather",
        _PEOPLE + r"(?:'d| would)? (?:\w{2,12} )?(?:prefers?|preferred|loves?|hates?|dislikes?|can't stand|avoids?|"
        r"rather)\b",
    ),
    make_sign("rule", "fan now forward", r"\b(?:not a (?:big |huge )?fan|from now on|going forward)\b"),
    make_sign("rule", "please", r"\bplease (?:don'?t|do not|always|never|keep|use|stop|only|answer|write|make)\b"),
    make_sign(
        "rule", "don't dont do stop", r"(?:^|[,;.] ?|\b(?:and|so|but|please) )(?:don'?t|do not|stop) (?:ever )?[a-z]"
    ),
    make_sign("rule", "no", r"(?:^|[,;.:] ?|\band )no (?:\w{2,20} )?\w{2,20}s\b"),
    # the cause of an error, or its fix
    make_sign(
        "resolution",
        "cause caused causes problem issue bug culprit fix fixed fixes reason resolved resolves turns turned solved "
        "solves workaround works worked passes pass passing found because due green trick missing redundant full",
        r"\b(?:root cause|resolve[ds]|turn(?:s|ed) out|solve[ds]|workaround|the trick|culprit|found it)\b",
        r"\bnow (?:pass(?:es)?|works?)\b|\b(?:works|passes|passing|green) (?:now|again)\b",
        r"\b(?:tests pass|that worked)\b",
        r"\bthe (?:\w{2,20} )?(?:problem|issue|bug|cause|reason|fix) (?:is|was)\b",
        r"\bfix(?:ed|es)\b",
        r"\bcause[ds] by\b|\b(?:was|is) (?:because|due to|missing|redundant|full)\b",
    ),
    make_sign(
        "person",
        "my our i'm i i've his her their",
        rf"\b(?:my|our|his|her|their) (?:\w{{2,20}} )?(?:{_join_words('relations')})\b",
        r"\bi(?:'m| am) (?:a|an|from|moving|engaged|married|pregnant)\b",
        r"\bi(?:'ve)? (?:live|work|run|own|moved|got|bought|adopted|graduated|signed up|joined|study|teach)\b",
    ),
    make_sign(
        "constraint",
        "must mustn't can't cannot only limit max maximum min minimum most least required requires require mandatory "
        "policy allowed forbidden budget cap capped have has pinned",
        r"\b(?:must(?!')|mustn't|cannot|can't|limit|max(?:imum)?|min(?:imum)?|at (?:most|least)|require[ds]?|mandatory|"
        r"policy|forbidden|budget|capped|pinned|ha(?:s|ve) to|only)\b",
    ),
    make_sign(
        "date",
        "monday tuesday wednesday thursday friday saturday sunday mondays tuesdays wednesdays thursdays fridays "
        "saturdays sundays yesterday tomorrow tonight ago",
    ),
    make_sign(
        "date",
        "#",
        rf"\b(?:\d{{4}}-\d\d-\d\d(?![t ]\d\d:)|\d{{1,2}}(?:st|nd|rd|th)?(?: of)? {_MONTH}|"
        rf"{_MONTH} (?:the )?\d{{1,2}}|(?:19|20)\d\d|"
        r"\d{1,2}(?:st|nd|rd|th|:\d\d(?: ?[ap]m)?| ?[ap]m| o'clock))\b",
    ),
    make_sign(
        "date",
        "last next this end",
        r"\b(?:last|next|this) (?:night|week|month|year|weekend|summer|winter|spring|autumn|fall|quarter)\b|"
        r"\bend of (?:the )?(?:week|month|year|quarter|day|january|february|march|april|may|june|july|august|september|"
        r"october|november|december)\b",
    ),
    make_sign("date", "in", rf"\bin {_MONTH}\b"),
    make_sign("number", "#", r"(?<![\w.#/-])[$€£]?\d+(?:[.,:]\d+)*(?:%| ?[a-z]{1,9}\b)?(?![\w/-])"),
    make_sign(
        "quantity",
        "two three four five six seven eight nine ten eleven twelve fifteen twenty thirty forty fifty sixty ninety "
        "hundred thousand million half dozen twice third",
    ),
    make_sign(
        "event",
        "i i've i'd we we've we'd he he's he'd she she's she'd they they've they'd",
        _PEOPLE + r"(?:'ve| have| has|'d| had)? (?:just |also |even |already |finally |recently )?"
        rf"(?:[a-z]{{2,14}}ed|{_join_words('past')})\b",
    ),
    make_sign(
        "emphasis",
        "important critical critically crucial must never warning beware remember definitely ever",
        r"\b(?:important|critical(?:ly)?|crucial|must(?!')|never|warning|beware|remember)\b",
    ),
)
NARRATION: Final = make_sign(
    "narration",
    "let let's looking checking reading searching opening running starting installing now i'll i'm one going first "
    "next",
    _LEAD + "(?:let me|let's (?:see|look|check)|i'll (?:now |just |also )?(?:take|have|check|look|start|read|open|"
    "search|run|go|begin|prepare|change|ask|do)|(?:looking|checking|reading|searching|opening|running|"
    r"starting|installing)\b|i'm (?:going to|checking|looking)|now (?:the|to|i)\b|one (?:moment|second))",
)
GENERIC: Final = make_sign(
    "generic",
    "there it's depends generally typically usually consider various several many important essential common commonly "
    "overall here most general best wide",
    r"\b(?:there are (?:many|several|various|a few|lots)|depends on|in general|generally|typically|usually|"
    r"best practices?|(?:it'?s|it is) (?:important|essential|worth|crucial|helpful) to|consider|"
    r"here are (?:some|a few)|commonly|a wide range|various|overall|many (?:teams|people|modern)|most \w{3,12})\b",
)
HEDGE: Final = make_sign(
    "hedge",
    "maybe perhaps possibly probably presumably potentially conceivably supposedly think thinking guess guessing "
    "suppose believe assume suspect reckon imagine doubt bet hunch sure certain unsure might might've could could've "
    "may seem seems appear appears likely unlikely afaik iirc unclear dunno know knows remember recall idea wonder "
    "wondering tentative tentatively leaning toying undecided decided theory unless clue hard memory wrong quote torn "
    "smells wager plausible plausibly conceivable conceivably we'll convinced fence minds suspicion speculating "
    "debating considering tempted",
    r"\b(?:maybe|perhaps|possibly|probably|presumably|potentially|supposedly|i(?:'d| would)? (?:think|guess|suppose|"
    r"believe|assume|suspect|reckon|imagine|doubt|bet)|(?:my|a|that|the|best) (?:guess|hunch)|(?:not|n't) (?:\w{2,10} "
    "|100 ?% )?(?:sure|certain|know|decided|convinced)|unsure|undecided|no idea|might|(?:it|that|this|which) could|"
    "(?:could|may) (?:well |just |also )?be (?:a|an|the|just|because|due|that|caused|related|why|from|something)|"
    "(?:seems?|appears?) (?:to|like|that)|(?:most |very |un)?likely|afaik|iirc|(?:as far as|if) i (?:know|remember|"
    "recall)|unclear|dunno|who knows|wonder(?:ing)? (?:if|whether) (?!you)|tentative(?:ly)?|leaning towards?|toying "
    r"with|thinking (?:about |of |maybe ){1,2}\w{2,14}ing|thinking maybe|in theory|unless i'm|no clue|could(?:'ve| "
    "have) been|hard to (?:say|tell)|if memory serves|(?:could|may|might) be wrong|don't quote me|torn between|"
    "smells like|i'd wager|plausibl[ey]|conceivabl[ey]|we'll see|on the fence|two minds|my suspicion|speculating|"
    r"debating (?:if|whether)|(?:'m|'re|am|are|been|still) considering|tempted to)\b|^could be\b",
)
ASSENT: Final = re.compile(
    r"^\W{0,4}(?:(?:ok|okay|o{1,8}h{1,8}|hm{1,8}|mm{1,8}|ah|well|great|good|cool|perfect|alright|right|fine|sure|"
    r"haha)\W{1,3}){0,2}(?:yes|yep|yeah|yup|agreed|approved|confirmed|deal|exactly|go (?:ahead|for it|with)|do (?:it|"
    "that|so|this)|ship it|lgtm|sounds (?:good|great|right|fine)|works for me|that works|good (?:idea|plan|call)|"
    "(?:suits|fine (?:by|with)|good with) me|i'm (?:in|on board|happy with)|let's do|please do|sold|correct|that's "
    r"right|fair(?: enough)?|makes sense|by all means|absolutely|definitely|of course|settled|\+1)(?!\w)"
)
REJECTS: Final = re.compile(r"^\W{0,4}(?:no|nope|nah|wrong|actually|wait|stop|don't|do not|not)\b")

CHOICE: Final = re.compile(
    r"^\W{0,4}(?:the )?(?:first|second|third|last|former|latter|\w{3,10}er) (?:one|option)\b|"
    r"^\W{0,4}(?:option|plan|variant|version|number) \w{1,3}\b|^\W{0,4}(?:both|[a-d]|[1-9])\W{0,4}$"
)
"""Names one of several options by its position."""

WEAK_ASSENT: Final = re.compile(
    r"^\W{0,4}(?:ok|okay|sure|fine|good|great|perfect|nice|alright|cool|right|please|then|yes|yep|yeah|so)\b"
)
"""Opens an agreement, but also other answers."""

ORDER: Final = re.compile(
    r"^\W{0,4}(?:(?:ok|okay|yes|sure|fine|good|great|perfect|nice|alright|cool|right|please|then|and|so|just|now)"
    rf"\W{{1,3}}){{0,3}}(?:{_join_words('orders')})\b(?!:)(?P<it> (?:it|that|this|them|those|these|both)\b)?"
)
PROPOSES: Final = make_sign(
    "proposal",
    "should shall suggest suggestion recommend recommendation propose would could want let's how what option options "
    "either then can i'd we",
    r"\b(?:should (?:we|i)|shall (?:we|i)|i(?:'d| would) (?:go with|use)|i(?:'d| would)? (?:suggest|recommend|propose)|"
    r"want me to|would you (?:like|prefer)|let's|how about|what about|we (?:could|can|might)|could (?:be|use|just)|"
    r"my (?:suggestion|recommendation|preference)|options? (?:are|is|a|1)|either|i can(?!')|then )",
)
BACK: Final = make_sign(
    "back",
    "earlier said mentioned told before above discussed agreed",
    r"\b(?:(?:as|like) (?:you|i|we|he|she) (?:said|mentioned|told|discussed|agreed)|"
    r"(?:you|i|we) (?:\w{2,10} )?mentioned|you (?:said|told)|"
    r"(?:said|discussed|agreed|told you) (?:earlier|before|above)|from (?:earlier|before))\b",
)
