"""How much a piece of a session is worth remembering, and who vouches for it: stated sums, no model.

A piece is read once: code, quotations and log lines are left out of its prose, and its questions out of what it says,
since what is asked is not asserted. Signs are looked for in what is said; a sign counts once, however often it is seen.
"""

from __future__ import annotations

import math
import re
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Final, NamedTuple

from helix.text.tokenize import tokenise

SCANNED: Final = 8_000
"""Characters looked at; an item is far shorter."""


class Piece(NamedTuple):
    """A piece of a session. `names` are the keys of the entities it names, its own speaker left out."""

    text: str
    role: str  # one of helix.types.ROLES
    origin: str  # as in helix.types.Turn
    type: str  # one of helix.types.TYPES
    turn: int  # place of its turn in the session; several pieces may share one
    names: tuple[str, ...] = ()


class Worth(NamedTuple):
    """Salience in [0, 1], to 4 digits, and what it is made of: the parts sum to it unless it was capped."""

    value: float
    parts: tuple[tuple[str, float], ...]


class Trust(NamedTuple):
    """Confidence in [0, 1], and who vouches: a key of `TRUST`."""

    value: float
    source: str


WEIGHTS: Final[Mapping[str, float]] = {
    # what is said: with a main sign (.15 and more) a sentence of ordinary length comes to .5 and is worth keeping
    "decision": 0.25,  # what was chosen is asked for later, with its reason
    "correction": 0.15,  # what was believed before is wrong; what is right often stands beside it
    "commitment": 0.2,  # who does what, by when
    "rule": 0.2,  # preferences and conventions hold beyond the session
    "resolution": 0.2,  # what an error came from, what helped
    "person": 0.15,  # facts about people
    "fact": 0.05,  # says what something named is or does
    "constraint": 0.05,  # bounds a solution, but "must" and "only" are everywhere
    "date": 0.2,  # "when" is what people ask
    "number": 0.25,  # figures are what memory loses first
    "quantity": 0.1,  # a number spelt out is often a figure of speech
    "event": 0.15,  # somebody did something
    "emphasis": 0.05,  # says nothing by itself
    "first person": 0.05,  # about the speaker, not about the world at large
    "error": 0.25,  # the one thing in a tool's output that is looked for again
    "decision type": 0.05,  # the classifier may see what the signs do not
    "semantic type": 0.05,  # likewise
    # its form and its place in the session
    "length": 0.1,  # below every main sign: a long text without one stays below a short text with one
    "rarity": 0.1,  # names what the rest of the session does not
    "first": 0.03,  # the task is stated first, but told again by what is done about it
    "after error": 0.05,  # what was made of it
    "referred to": 0.1,  # somebody needed it already
    "confirmed": 0.25,  # as much as a decision spelt out
    # what speaks against it
    "asks": -0.05,  # the answer is what is looked for
    "only asks": -0.1,
    "hedged": -0.1,  # may not hold
    "cheer": -0.1,  # warmth; what is told with it stands on its own
    "narration": -0.2,  # the next step says what came of it
    "generic": -0.2,  # any textbook has it
    "code type": -0.2,  # its figures and words are not statements
    "origin": -0.05,  # times `ORIGIN`
}
"""What each sign is worth. The same few hundredths more or less change little: no weight is finely tuned."""

BASE: Final = 0.25
ORIGIN: Final[Mapping[str, float]] = {
    "document": 1.0,
    "assistant": 1.0,
    "subagent": 2.0,
    "tool": 4.0,
    "runtime_context": 5.0,
}
"""Machines write numbers and rules all the time, people when they matter. 0 for every other origin."""

CHATTER: Final = 0.03
_CHATTER_LENGTH: Final = 80
"""Characters; a longer text is not chatter, whatever its words."""
_CHATTER_TEXT: Final = (
    "ok okay k kk thank thanks thx ty ta cheers lol haha hahaha hehe cool great nice awesome perfect sure yes yeah yep "
    "yup no nope hi hey hello bye goodbye good morning night job work got it sounds continue go on ahead please do "
    "done right true wow oh ah hm hmm um so much a lot you too problem np welcome youre sorry see later take care "
    "there and is that thats all very proceed next warmup absolutely definitely indeed exactly fine well amazing "
    "wonderful lovely glad same here both agreed totally understood noted sweet phew super brilliant "
)
_CHATTER: Final = frozenset(_CHATTER_TEXT.split())
_CHEER_TEXT: Final = (
    "wow cool awesome great amazing congrats congratulations thanks thank glad haha hahaha lol yay aww omg lovely nice "
    "sweet brilliant luck hi hello hey"
)
_CHEER: Final = frozenset(_CHEER_TEXT.split())
_STATES_TEXT: Final = (
    "is are was were isn't lives works runs uses costs belongs owns called moved it's he's she's they're we're that's"
)
_STATES: Final = frozenset(_STATES_TEXT.split())
_FIRST_PERSON: Final = frozenset(("i", "i'm", "i've", "i'd", "my", "me", "we", "we're", "we've", "our", "us"))


class Sign(NamedTuple):
    """One thing to look for. A text without any of `words` is not searched; without a pattern a word is enough."""

    name: str  # a key of `WEIGHTS`
    words: frozenset[str]
    pattern: re.Pattern[str] | None

    def seen(self, words: frozenset[str], prose: str) -> bool:
        """Whether it is in lower-cased prose, given with the set of its words."""
        if self.words and self.words.isdisjoint(words):
            return False
        return self.pattern is None or self.pattern.search(prose) is not None


def _sign(name: str, words: str, *patterns: str) -> Sign:
    """`words` separated by blanks, `patterns` are alternatives; ^ is the start of a line or sentence."""
    pattern = re.compile("|".join(patterns), re.MULTILINE) if patterns else None
    return Sign(name, frozenset(words.split()), pattern)


_MONTH: Final = (
    r"(?:jan(?:uary)?|feb(?:ruary)?|mar(?:ch)?|apr(?:il)?|may|june?|july?|aug(?:ust)?|sept?(?:ember)?|oct(?:ober)?|"
    r"nov(?:ember)?|dec(?:ember)?)"
)
_DAY: Final = r"(?:mon|tues|wednes|thurs|fri|satur|sun)day"
_KIN: Final = (
    "name wife husband partner boyfriend girlfriend fiance fiancee birthday job dog cat son daughter mother mom mum "
    "father dad parents sister brother family kid kids child children baby boss manager landlord doctor cousin aunt "
    "uncle niece nephew grandma grandpa grandmother grandfather neighbour neighbor roommate flatmate flat house "
    "address email phone salary budget passport"
)
_PAST: Final = (
    "went got had took made saw met found bought sold won lost ran came felt did told gave wrote left became began "
    "broke brought built caught drove ate fell flew heard held knew led paid sent spent taught wore been gone done "
    "seen taken was were"
)
_PEOPLE: Final = r"\b(?:i|we|he|she|they)"
_LEAD: Final = (
    r"^\W{0,4}(?:(?:ok|okay|right|sure|great|good|now|next|first|alright|perfect|and|so|also|then)\W{1,3}){0,2}"
)
_VERB: Final = (
    "add apply approve avoid block book bring bump buy cache call cancel cap change check choose clear close confirm "
    "copy cut delete deploy disable do drop enable expose fix give go have hire hold ignore increase install invite "
    "keep kill leave let limit lock log lower make mark merge move order pay pick pin plan point post prefer publish "
    "pull push put raise reject remove rename replace require reserve reset respect restore retry revert roll run "
    "schedule scrap sell send set ship sign skip split squash start stay stick stop store submit swap switch tag take "
    "tell trim try turn update upgrade use wait wrap write"
)

DECISION: Final = (
    _sign(
        "decision",
        "decided chose settled agreed opted picked went ruled signed approved decision closed not longer final mind "
        "minds switch switched switching",
        r"\b(?:decided|chose|settled (?:on|for)|agreed|opted|picked|went with|ruled out|signed off|approved|"
        r"decision (?:is|was)|decision:|case closed|not up for|no longer|final answer|(?:that's|is) final|"
        r"up (?:my|our) minds?|switch(?:ed|ing)? to)\b",
    ),
    _sign(
        "decision",
        "going go stick sticking stay staying",
        r"\b(?:going|go|stick|sticking|stay|staying) with\b|\bstay(?:ing)? on\b|\bgoing for the\b",
    ),
    _sign(
        "decision",
        "use using take taking have drop dropping ditch scrap adopt keep keeping switch switching avoid skip changing "
        "moving",
        r"\b(?:let'?s|we(?:'ll| will|'re| are)|i(?:'ll| will)) (?:just |going to |gonna )?"
        r"(?:use|using|take the|taking the|have the|drop|dropping|ditch|scrap|adopt|"
        r"keep(?:ing)? (?:the|our|it|using|both)|switch|switching|avoid|skip|changing|moving)\b",
    ),
    _sign(
        "decision",
        "it then",
        r"\b(?!(?:here|there|where|what|how|that|so|as|like|since|back|until|till|by|just|and|but|even|now|only|right|"
        r"if)\b)\w{1,40} (?:it is|then)(?:[.!,;]|$)",
    ),
)
"""A choice was made."""

SIGNS: Final = (
    *DECISION,
    # what was said before does not hold
    _sign(
        "correction",
        "no nope wrong actually wait stop correction update scratch",
        r"^\W{0,4}(?:no|nope|wrong|actually|wait|stop|correction|update|scratch that)\b[,.! :]",
    ),
    _sign(
        "correction",
        "not wrong isn't outdated meant should mistake mixed actually",
        r"\b(?:that'?s (?:not|wrong|outdated)|isn't (?:right|correct)|i meant|should have been|not what i|wrong "
        r"\w{2,20}|my mistake|mixed up|it'?s actually|not \w{1,20}[.;,] (?:it|but))\b|, not ",
    ),
    _sign(
        "correction",
        "forgot missed misunderstood broke renamed",
        r"\byou (?:also )?(?:forgot|missed|misunderstood|broke)\b",
    ),
    # somebody will do something, by some time
    _sign(
        "commitment",
        "i'll we'll promise promised deadline due by todo remind remember owe owes scheduled booked before until till "
        "volunteer volunteered than",
        r"\b(?:i promise|promised?|deadline|due (?:on|by|in|this|next|at)|action item|todo|remind me|remember to|"
        r"owes? (?:you|me|us|him|her)|scheduled|booked|volunteer(?:ed)?|i'll (?:own|come|bring|send|pay|do|be|have))\b",
        rf"\b(?:by|before|until|till|no later than) (?:the )?(?:{_DAY}|tomorrow|tonight|eod|end of|next|{_MONTH}|noon|"
        r"\d)",
    ),
    # what somebody wants from now on: a preference or a convention
    _sign("rule", "favourite favorite allergic vegetarian vegan"),
    _sign("rule", "always never", r"(?<!'m )(?<!can )(?<!'re )(?<!will )(?<!'ll )\b(?:always|never)\b"),
    _sign(
        "rule",
        "prefer prefers preferred love loves hate hates dislike dislikes can't avoid avoids rather",
        _PEOPLE + r"(?:'d| would)? (?:\w{2,12} )?(?:prefers?|preferred|loves?|hates?|dislikes?|can't stand|avoids?|"
        r"rather)\b",
    ),
    _sign("rule", "fan now forward", r"\b(?:not a (?:big |huge )?fan|from now on|going forward)\b"),
    _sign("rule", "please", r"\bplease (?:don'?t|do not|always|never|keep|use|stop|only|answer|write|make)\b"),
    _sign(
        "rule",
        "don't dont do stop",
        r"(?:^|[,;.] ?|\b(?:and|so|but|please) )(?:don'?t|do not|stop) (?:ever )?[a-z]",
    ),
    _sign("rule", "no", r"(?:^|[,;.:] ?|\band )no (?:\w{2,20} )?\w{2,20}s\b"),
    # what an error came from, and what put it right
    _sign(
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
    _sign(
        "person",
        "my our i'm i i've his her their",
        rf"\b(?:my|our|his|her|their) (?:\w{{2,20}} )?(?:{'|'.join(_KIN.split())})\b",
        r"\bi(?:'m| am) (?:a|an|from|moving|engaged|married|pregnant)\b",
        r"\bi(?:'ve)? (?:live|work|run|own|moved|got|bought|adopted|graduated|signed up|joined|study|teach)\b",
    ),
    _sign(
        "constraint",
        "must mustn't can't cannot only limit max maximum min minimum most least required requires require mandatory "
        "policy allowed forbidden budget cap capped have has pinned",
        r"\b(?:must(?!')|mustn't|cannot|can't|limit|max(?:imum)?|min(?:imum)?|at (?:most|least)|require[ds]?|mandatory|"
        r"policy|forbidden|budget|capped|pinned|ha(?:s|ve) to|only)\b",
    ),
    _sign(
        "date",
        "monday tuesday wednesday thursday friday saturday sunday mondays tuesdays wednesdays thursdays fridays "
        "saturdays sundays yesterday tomorrow tonight ago",
    ),
    _sign(
        "date",
        "#",
        rf"\b(?:\d{{4}}-\d\d-\d\d(?![t ]\d\d:)|\d{{1,2}}(?:st|nd|rd|th)?(?: of)? {_MONTH}|"
        rf"{_MONTH} (?:the )?\d{{1,2}}|(?:19|20)\d\d|"
        r"\d{1,2}(?:st|nd|rd|th|:\d\d(?: ?[ap]m)?| ?[ap]m| o'clock))\b",
    ),
    _sign(
        "date",
        "last next this end",
        r"\b(?:last|next|this) (?:night|week|month|year|weekend|summer|winter|spring|autumn|fall|quarter)\b|"
        r"\bend of (?:the )?(?:week|month|year|quarter|day|january|february|march|april|may|june|july|august|september|"
        r"october|november|december)\b",
    ),
    _sign("date", "in", rf"\bin {_MONTH}\b"),
    _sign("number", "#", r"(?<![\w.#/-])[$€£]?\d+(?:[.,:]\d+)*(?:%| ?[a-z]{1,9}\b)?(?![\w/-])"),
    _sign(
        "quantity",
        "two three four five six seven eight nine ten eleven twelve fifteen twenty thirty forty fifty sixty ninety "
        "hundred thousand million half dozen twice third",
    ),
    _sign(
        "event",
        "i i've i'd we we've we'd he he's he'd she she's she'd they they've they'd",
        _PEOPLE + r"(?:'ve| have| has|'d| had)? (?:just |also |even |already |finally |recently )?"
        rf"(?:[a-z]{{2,14}}ed|{'|'.join(_PAST.split())})\b",
    ),
    _sign(
        "emphasis",
        "important critical critically crucial must never warning beware remember definitely ever",
        r"\b(?:important|critical(?:ly)?|crucial|must(?!')|never|warning|beware|remember)\b",
    ),
)
NARRATION: Final = _sign(
    "narration",
    "let let's looking checking reading searching opening running starting installing now i'll i'm one going first "
    "next",
    _LEAD + "(?:let me|let's (?:see|look|check)|i'll (?:now |just |also )?(?:take|have|check|look|start|read|open|"
    "search|run|go|begin|prepare|change|ask|do)|(?:looking|checking|reading|searching|opening|running|"
    r"starting|installing)\b|i'm (?:going to|checking|looking)|now (?:the|to|i)\b|one (?:moment|second))",
)
GENERIC: Final = _sign(
    "generic",
    "there it's depends generally typically usually consider various several many important essential common commonly "
    "overall here most general best wide",
    r"\b(?:there are (?:many|several|various|a few|lots)|depends on|in general|generally|typically|usually|"
    r"best practices?|(?:it'?s|it is) (?:important|essential|worth|crucial|helpful) to|consider|"
    r"here are (?:some|a few)|commonly|a wide range|various|overall|many (?:teams|people|modern)|most \w{3,12})\b",
)
HEDGE: Final = _sign(
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
"""Names one of several by its place."""

WEAK_ASSENT: Final = re.compile(
    r"^\W{0,4}(?:ok|okay|sure|fine|good|great|perfect|nice|alright|cool|right|please|then|yes|yep|yeah|so)\b"
)
"""Opens an agreement, but also any other answer."""

ORDER: Final = re.compile(
    r"^\W{0,4}(?:(?:ok|okay|yes|sure|fine|good|great|perfect|nice|alright|cool|right|please|then|and|so|just|now)"
    rf"\W{{1,3}}){{0,3}}(?:{'|'.join(_VERB.split())})\b(?!:)(?P<it> (?:it|that|this|them|those|these|both)\b)?"
)
PROPOSES: Final = _sign(
    "proposal",
    "should shall suggest suggestion recommend recommendation propose would could want let's how what option options "
    "either then can i'd we",
    r"\b(?:should (?:we|i)|shall (?:we|i)|i(?:'d| would) (?:go with|use)|i(?:'d| would)? (?:suggest|recommend|propose)|"
    r"want me to|would you (?:like|prefer)|let's|how about|what about|we (?:could|can|might)|could (?:be|use|just)|"
    r"my (?:suggestion|recommendation|preference)|options? (?:are|is|a|1)|either|i can(?!')|then )",
)
BACK: Final = _sign(
    "back",
    "earlier said mentioned told before above discussed agreed",
    r"\b(?:(?:as|like) (?:you|i|we|he|she) (?:said|mentioned|told|discussed|agreed)|"
    r"(?:you|i|we) (?:\w{2,10} )?mentioned|you (?:said|told)|"
    r"(?:said|discussed|agreed|told you) (?:earlier|before|above)|from (?:earlier|before))\b",
)


_WORD = re.compile(r"[\w']+")
_DIGIT = re.compile(r"\d")
_QUOTED = re.compile(
    r"```.*?(?:```|\Z)|`[^`\n]{1,200}`|\"[^\"\n]{1,200}\"|^(?:>|\$ |\t| {4}|[+-]{1,3}[ \t]{0,40}\w{0,40}[({=]| "
    r"{0,6}\d{1,6}(?:→|\t)|\[?\d{4}-\d\d-\d\d[T ]\d\d:)[^\n]*|^[#* -]{0,6}\d{1,2}[.)][ \t]",
    re.DOTALL | re.MULTILINE,
)
"""Code, quotations, commands, numbered lines, those of logs and list numbers: nobody in the session says this."""

_ODD_START: Final = frozenset("> $\t[123456789+-#*")
_QUESTION = re.compile(
    r"\W{0,4}(?:(?:and|so|ok|okay|but|hey|hi|hmm|wait|also|btw|then|no|yes|well|oh)\W{1,3}){0,2}(?:"
    r"(?:whats|(?:what|why|how|where|who|which|when|whose)(?:'s|'re| (?:is|are|was|were|do|does|did|can|could|should|"
    r"would|will|has|have|about|many|much|kind)))\b|"
    r"(?:can|could|would|should|shall|does|did|is|are|was|were|will|may|am) (?:i|you|we|they|he|she|it|there|this|that|"
    r"these|those|the|any|anyone|anybody|everyone|somebody|your|my|our)\b|(?:do|have) (?:i|you|we|they)\b)"
)
"""Many do not type the question mark."""
_ERROR = re.compile(
    r"[A-Za-z](?:Error|Exception)\b|\b(?:E[A-Z]{4,12}|ERROR|FATAL|panic:|segfault|failed with|Traceback)"
)


_HASH: Final = frozenset("#")
_NONE: Final[frozenset[str]] = frozenset()


class Reading(NamedTuple):
    """A piece, read once."""

    origin: str
    said: str  # lower-cased prose, a sentence a line, without questions
    words: frozenset[str]  # of what is said; "#" when there is a digit
    length: int  # words, questions included
    asks: bool
    hedged: bool
    terms: frozenset[str]  # as the index has them
    marks: frozenset[str]  # names, and terms with a digit: what a later turn repeats only when it means the same
    proposes: bool
    looks_back: bool


def _read(piece: Piece) -> Reading:
    return _reading(piece.text, piece.role, piece.origin, piece.names)


@lru_cache(maxsize=2_048)  # a session that grows is judged anew with all that came before
def _reading(text: str, role: str, origin: str, names: tuple[str, ...]) -> Reading:
    text = text[:SCANNED].replace("’", "'")
    odd = "`" in text or '"' in text or "\n" in text or text[:1] in _ODD_START
    prose = (_QUOTED.sub(" ", text) if odd else text).lower()
    found = _WORD.findall(prose)
    words = frozenset(found)
    prose = prose.replace("? ", "?\n").replace(". ", ".\n").replace("! ", "!\n")
    sentences = prose.split("\n")
    asserted = [_asserted(sentence) for sentence in sentences]
    asks = asserted != sentences
    said = "\n".join(asserted)
    terms = frozenset(tokenise(text))
    origin = origin if origin in _SOURCE else _ORIGIN_OF.get(role, "runtime_context")
    return Reading(
        origin=origin,
        said=said,
        words=(frozenset(_WORD.findall(said)) if asks else words) | (_HASH if _DIGIT.search(said) else _NONE),
        length=len(found),
        asks=asks,
        hedged=origin != "tool" and _hedged(words, prose),
        terms=terms,
        marks=frozenset(t for t in terms if not t.isalpha() and _DIGIT.search(t)).union(names),
        proposes=(asks and origin != "human") or PROPOSES.seen(words, prose),
        looks_back=BACK.seen(words, prose),
    )


def _asserted(sentence: str) -> str:
    """What a sentence says before it asks: "the demo is on Friday, can you …" says when the demo is."""
    if not sentence.rstrip(" )\"'*").endswith("?"):
        return "" if _QUESTION.match(sentence) else sentence
    clauses = sentence.split(", ")
    at = next((place for place, clause in enumerate(clauses) if _QUESTION.match(clause)), len(clauses) - 1)
    return ", ".join(clauses[:at])


_HEDGED_SHARE: Final = 3
"""Clauses to one hedge."""


def _hedged(words: frozenset[str], prose: str) -> bool:
    """Whether a third of the clauses is hedged: one aside in a long answer does not make it a guess."""
    if not HEDGE.seen(words, prose):
        return False
    clauses = prose.replace(", ", "\n").split("\n")
    hedges = sum(HEDGE.seen(words, clause) for clause in clauses)
    return hedges * _HEDGED_SHARE >= sum(" " in clause.strip() for clause in clauses)


# ---------------------------------------------------------------- who vouches

TRUST: Final[Mapping[str, float]] = {
    "confirmed": 0.95,  # the user decided, or said yes to it
    "statement": 0.8,  # the user says so
    "document": 0.75,  # somebody wrote it down, at some time
    "claim": 0.6,  # an assistant says so
    "report": 0.55,  # its subagent says so
    "output": 0.5,  # true of one moment and one machine
    "context": 0.45,  # put in by the runtime
    "summary": 0.4,  # retold, with what got lost
    "speculation": 0.3,  # whoever says it is not sure
}
"""Who vouches for a text, and how far it can be believed: strictly falling."""

_SOURCE: Final[Mapping[str, str]] = {
    "human": "statement",
    "document": "document",
    "assistant": "claim",
    "subagent": "report",
    "tool": "output",
    "runtime_context": "context",
    "summary": "summary",
}
_ORIGIN_OF: Final = {"user": "human", "assistant": "assistant", "tool": "tool", "document": "document"}
"""By role, for an origin nobody knows; `runtime_context` for the rest."""

_RECALLED: Final = 4
"""Turns back in which an order may have found its object."""

_BRIEF: Final = 6
"""Words of an answer that is a yes and little else."""

_CHOICE_WORDS: Final = 5
"""Words of an answer that only names what it picks."""


def confidences(pieces: Sequence[Piece]) -> list[Trust]:
    """Who vouches for each piece of a session, and the value `TRUST` gives that.

    The order of `TRUST`: what the user decided or agreed to, and the proposal agreed to; what the user says; a
    document; what an assistant says; its subagent; a tool's output; the runtime; a summary; a hedged text by anyone
    but a tool.
    """
    return judged(pieces)[1]


def judged(pieces: Sequence[Piece]) -> tuple[list[Worth], list[Trust]]:
    """`saliences` and `confidences` of the pieces of a session, from one reading."""
    readings = [_read(piece) for piece in pieces]
    agreed = _confirmed(pieces, readings)
    sources = [_speaker(reading) for reading in readings]
    for index in {*_decided(readings), *agreed}:
        sources[index] = "confirmed"
    worths = [_sum(strengths) for strengths in _strengths(pieces, readings, agreed)]
    return worths, [Trust(TRUST[source], source) for source in sources]


def _speaker(reading: Reading) -> str:
    return "speculation" if reading.hedged else _SOURCE[reading.origin]


def _decided(readings: Sequence[Reading]) -> list[int]:
    """Pieces in which the user decides, unasked."""
    return [
        index
        for index, reading in enumerate(readings)
        if reading.origin == "human"
        and not reading.hedged
        and any(sign.seen(reading.words, reading.said) for sign in DECISION)
    ]


_SPEAKERS: Final = frozenset(("human", "assistant", "subagent"))


def _confirmed(pieces: Sequence[Piece], readings: Sequence[Reading]) -> set[int]:
    """Pieces in which the user agrees to what was said before, and the pieces that proposed it."""
    found: set[int] = set()
    spoken: list[list[int]] = []  # the turns so far, as their pieces, tools left out
    for index, (piece, reading) in enumerate(zip(pieces, readings, strict=True)):
        if reading.origin not in _SPEAKERS:
            continue
        if spoken and pieces[spoken[-1][0]].turn == piece.turn:
            spoken[-1].append(index)  # only the opening of a turn answers
            continue
        target = _target(readings, spoken)
        if target and reading.origin == "human" and not reading.hedged:
            known = [readings[i] for turn in spoken[-_RECALLED:] for i in turn]
            answer = _answer(reading, [readings[i] for i in target], known)
            if answer:
                found.add(index)
            if answer in ("yes", "order"):
                found.update([i for i in target if readings[i].proposes] or target[-1:])
        spoken.append([index])
    return found


def _target(readings: Sequence[Reading], spoken: Sequence[list[int]]) -> list[int]:
    """The turn a user may be agreeing to: a machine's, over the user's own asides, or what a person just proposed."""
    if spoken and readings[spoken[-1][0]].origin == "human" and any(readings[i].proposes for i in spoken[-1]):
        return spoken[-1]
    return next((turn for turn in spoken[: -_RECALLED - 1 : -1] if readings[turn[0]].origin != "human"), [])


def _names_only(reading: Reading, content: frozenset[str], target: Sequence[Reading]) -> bool:
    """Whether an answer only names what it picks: all it says stands in the turn before."""
    offered = frozenset[str]().union(*(other.terms for other in target))
    return bool(content) and reading.length <= _CHOICE_WORDS and content <= offered


def _answer(reading: Reading, target: Sequence[Reading], known: Sequence[Reading]) -> str:
    """How the user agrees: "yes", "order" (do it), "choice" (names one of several), or "" where not.

    Args:
        target: the turn agreed to.
        known: the last turns, where an order may find its object.
    """
    said = reading.said
    if not said.strip() or REJECTS.search(said):
        return ""
    machine = target[0].origin != "human"
    proposed = any(other.proposes for other in target)
    content = reading.terms - _CHATTER
    shared = any(not content.isdisjoint(other.terms) for other in target)
    # Among friends a long "yeah, …" is warmth more often than a decision.
    if proposed and (machine or shared or reading.length <= _BRIEF) and ASSENT.search(said):
        return "yes"
    if reading.asks:
        return ""
    if proposed and shared and WEAK_ASSENT.search(said):
        return "yes"
    order = ORDER.search(said)
    if order and (order["it"] or (machine and any(not content.isdisjoint(other.terms) for other in known))):
        return "order"
    if not machine:
        return ""
    if CHOICE.search(said) or _names_only(reading, content, target):
        return "choice"
    return ""


# ---------------------------------------------------------------- what is worth remembering

_DENSE: Final = 40
"""Words from which a sign counts less: the longer a text, the likelier one is there by chance."""

_FULL_LENGTH: Final = 8
"""Words from which length earns all it can; nothing up to 2."""

_RARE: Final = 3
"""Pieces a term may be in to tell them from the rest of the session."""

_REFERENCES: Final = 2
"""Later turns that make it all it can be."""


def saliences(pieces: Sequence[Piece]) -> list[Worth]:
    """Worth of remembering each piece of a session, given in reading order.

    min(1, max(0, BASE + Σ WEIGHTS · strength)), rounded to 4 digits. A strength is 1 or 0, but for

    - the signs of a text of w > 40 words: sqrt(40 / w);
    - `length`: (w - 2) / 6 within [0, 1];
    - `rarity`: log((n + 1) / df) / log(n + 1) of the rarest name, where n pieces name anything and df of them this
      (the inverse document frequency of Spärck Jones 1972, scaled to 1 for what one piece names);
    - `referred to`: half for each later turn, up to 2, that repeats a name, a number, or two words, or says "as you
      mentioned" and repeats one, of those that no more than 3 pieces have;
    - `origin`: `ORIGIN`.

    Chatter ("ok, thanks!") is `CHATTER`, a text without a word 0. Linear in the pieces: a term has at most 3 places.
    """
    return judged(pieces)[0]


def _strengths(pieces: Sequence[Piece], readings: Sequence[Reading], agreed: set[int]) -> list[dict[str, float]]:
    naming = sum(1 for piece in pieces if piece.names)
    named = Counter(name for piece in pieces for name in set(piece.names))
    references = _references(pieces, readings)
    first = next((piece.turn for piece, reading in zip(pieces, readings, strict=True) if reading.origin == "human"), -1)
    failed = False
    found = []
    for index, (piece, reading) in enumerate(zip(pieces, readings, strict=True)):
        if _chatter(piece.text):
            found.append({"chatter": float(reading.length > 0)})
            continue
        strengths = _signs(piece, reading)
        strengths["length"] = min(1.0, max(0, reading.length - 2) / (_FULL_LENGTH - 2))
        strengths["rarity"] = max((_rarity(named[name], naming) for name in piece.names), default=0.0)
        strengths["first"] = float(piece.turn == first and reading.origin == "human")
        strengths["after error"] = float(failed and reading.origin != "tool")
        strengths["referred to"] = min(1.0, references[index] / _REFERENCES)
        strengths["confirmed"] = float(index in agreed)
        strengths["origin"] = ORIGIN.get(reading.origin, 0.0)
        failed = bool(strengths.get("error"))
        found.append(strengths)
    return found


_HUMAN: Final = frozenset(("event", "person"))
"""Signs that mean something only where a person speaks."""


def _signs(piece: Piece, reading: Reading) -> dict[str, float]:
    """Strength of what is seen in the text itself."""
    words, said, origin = reading.words, reading.said, reading.origin
    if origin == "tool":
        return {"error": float(_ERROR.search(piece.text, 0, SCANNED) is not None)}
    human = origin in ("human", "summary")
    strength = min(1.0, math.sqrt(_DENSE / max(1, reading.length)))
    strengths = {sign.name: strength for sign in SIGNS if (human or sign.name not in _HUMAN) and sign.seen(words, said)}
    if origin in ("assistant", "subagent"):
        strengths["narration"] = float(NARRATION.seen(words, said))
        strengths["generic"] = float(GENERIC.seen(words, said))
    elif human:
        strengths["fact"] = float(bool(piece.names) and not _STATES.isdisjoint(words))
        strengths["first person"] = float(not _FIRST_PERSON.isdisjoint(words))
    strengths["decision type"] = float(piece.type == "decision")
    strengths["semantic type"] = float(piece.type == "semantic" and origin != "document")
    strengths["code type"] = float(piece.type == "code")
    strengths["asks"] = float(reading.asks)
    strengths["only asks"] = float(reading.asks and not reading.said.strip())
    strengths["hedged"] = float(reading.hedged)
    strengths["cheer"] = float(not _CHEER.isdisjoint(words))
    return strengths


_LETTERS = re.compile(r"\w+")
_APOSTROPHE: Final = str.maketrans("", "", "'’")


def _chatter(text: str) -> bool:
    """Whether a text says nothing: no word at all, or only words that say nothing."""
    return len(text) <= _CHATTER_LENGTH and _CHATTER.issuperset(_LETTERS.findall(text.lower().translate(_APOSTROPHE)))


def _sum(strengths: Mapping[str, float]) -> Worth:
    if "chatter" in strengths:
        value = CHATTER * strengths["chatter"]
        return Worth(value, (("chatter", value),))
    parts = [("base", BASE)]
    parts += [(name, round(weight * strengths[name], 4)) for name, weight in WEIGHTS.items() if strengths.get(name)]
    total = sum(amount for _, amount in parts)
    return Worth(round(min(1.0, max(0.0, total)), 4), tuple(parts))


def _rarity(pieces: int, naming: int) -> float:
    """1 for what one piece names, falling to near 0 for what all do; `naming` pieces name anything."""
    return math.log((naming + 1) / pieces) / math.log(naming + 1)


def _references(pieces: Sequence[Piece], readings: Sequence[Reading]) -> list[int]:
    """How many later turns refer to each piece. Work is bounded by `_RARE`² a term."""
    places: dict[str, list[int]] = defaultdict(list)
    for index, reading in enumerate(readings):
        for term in reading.terms | reading.marks:
            places[term].append(index)
    overlap: Counter[tuple[int, int]] = Counter()
    for term, found in places.items():
        if not 2 <= len(found) <= _RARE:
            continue
        for at, earlier in enumerate(found):
            for later in found[at + 1 :]:
                if pieces[later].turn > pieces[earlier].turn:
                    overlap[earlier, pieces[later].turn] += _weight(term, readings[earlier], readings[later])
    counts = [0] * len(pieces)
    for (earlier, _), shared in overlap.items():
        counts[earlier] += shared >= 2
    return counts


_TELLING: Final = 5
"""Characters of a word that says what is meant."""


def _weight(term: str, earlier: Reading, later: Reading) -> int:
    """2 refers by itself: a name or number, or any rare word where the later one says that it looks back."""
    if term in earlier.marks or later.looks_back:
        return 2
    return int(len(term) >= _TELLING)


def given(worth: Worth, pinned: bool, priority: float | None) -> Worth:
    """What the input says of a piece goes before what is seen in it.

    Args:
        worth: as `saliences` found it.
        pinned: makes it 1.
        priority: p in [1, 2] takes the value v to v + (1 - v)(p - 1); what lies outside counts as the nearer bound.
    """
    value, parts = worth
    if pinned:
        return Worth(1.0, (*parts, ("pinned", round(1 - value, 4))))
    if priority is None or priority <= 1:
        return worth
    gain = (1 - value) * (min(2.0, priority) - 1)
    return Worth(round(value + gain, 4), (*parts, ("priority", round(gain, 4))))
