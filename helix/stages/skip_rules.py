"""Skip rules: whether a question needs memory, by its words.

The router's classifier sees only the vector, which knows the topic but hardly who is meant. A name, a "we" or a "did"
is read in the words.
"""

from __future__ import annotations

import re
from typing import Final

import numpy as np

from helix.types import F32

MAX_CHARS: Final = 400
"""A longer question is specific, so it is never skipped."""

AGREEMENT: Final = 0.5
"""The classifier's probability that is enough if the words agree."""

MIN_WORDS: Final = 4
"""Fewer words are a search by key words ("redis timeout"), unless they are a courtesy or a sum."""

MAX_WORDS: Final = 12
"""More words, without a number or a text to work on, are specific."""

_LANGUAGES: Final = (
    "arabic|chinese|czech|danish|dutch|english|finnish|french|german|greek|hebrew|hindi|hungarian|italian|japanese|"
    "korean|latin|mandarin|norwegian|polish|portuguese|russian|spanish|swedish|thai|turkish|ukrainian|vietnamese|welsh"
)
_GENERAL: Final = (  # common names
    rf"{_LANGUAGES}|python|javascript|typescript|java|rust|ruby|php|haskell|kotlin|swift|perl|scala|go|golang|bash|git|"
    "linux|unix|node|markdown|latex|excel|html|css|sql|json|xml|yaml|csv|utf|ascii|uuid|regex|rgb|https?|tcp|udp|dns|ssh|"
    "urls?|uris?|apis?|ipv?[46]?|rest|mac|windows|celsius|fahrenheit|kelvin|roman|morse|utc|gmt|cet|pst|us|earth|mars|moon|"
    "sun|i"
)
_UNIT: Final = (
    r"(?:(?:centi|milli|kilo)?(?:met(?:re|er)s?|grams?)|kilos?|inch(?:es)?|f(?:oo|ee)t|yards?|miles?|knots|"
    r"nautical miles|acres?|hectares?|ounces?|pounds?|stone|(?:milli)?lit(?:re|er)s?|pints?|quarts?|gallons?|cups?|"
    r"tablespoons?|teaspoons?|fluid ounces|mph|km/h|m/s|km|kg|cm|mm|m|ml|lbs?|oz|psi|bar|(?:kilo|mega|giga)?bytes?|"
    r"[kmgt]i?b|degrees|radians|(?:kilo)?watts?|(?:kilo)?joules?|calories|seconds|minutes|hours|days|weeks|celsius|fahrenheit|"
    r"kelvin|[cf]\b)"
)

# A text to work on says nothing of the caller: quoted, or after a colon or bracket up to the end.
_GIVEN: Final = re.compile(
    r"[\"“][^\"”]{1,400}[\"”]|(?<!\w)['‘][^'’]{1,200}['’](?!\w)|(?::\s?(?=\S)|(?=[{\[<]))[^?]{0,400}\Z"
)
_CAPITAL: Final = re.compile(
    rf"(?<=[a-z,\d] )(?!(?i:{_GENERAL})\b)[A-Z][A-Za-z]"  # not the first word of a sentence
    r"|\b(?!(?:What|Who|It|That|There|Here|How|Where|When|Let|He|She)\b)[A-Z][a-z]{1,30}['’]s\b"
)
_SHARED: Final = re.compile(
    # people: us, or somebody known
    r"\b(?:we|us|our|ours|he|she|him|her|his|hers|they|them|their|theirs|team|user|clients?|customers?|"
    # the past: done or said
    r"did|was|were|had|has|been|said|told|decided|agreed|went|happened|changed|wrote|mention(?:s|ed)?|suggested|discussed|"
    r"recommended|remember|remind|according|decisions?|meetings?|notes?|conversations?|"
    # time and place
    r"again|still|yet|ago|since|yesterday|currently|last|latest|recent(?:ly)?|any ?more|so far|before|here|project|"
    r"repo|codebase)\b",
    re.I,
)
_KNOWN_THING: Final = re.compile(r"how (?:to|do|does|can|should|would)\b.{0,80}\b(?:the|this|that|these)\b", re.I)
"""How to rotate the keys is specific; how to reverse a list is general."""

_NAME_IN_CODE: Final = re.compile(
    r"\w[_\\]\w|(?!km/h|m/s)[A-Za-z]{1,2}/[A-Za-z]|[a-z][A-Z]|\w\(\)|(?<!\w)--\w|::|#\d|\w\.[a-z]{2,4}\b"
)

_SUM: Final = re.compile(
    r"(?:(?:what(?:'s| is)|how much is|calculate|compute|work out|evaluate|solve) )?"
    r"(?:[\d\s.,()+*/^%=×÷-]|\b[xy]\b|plus|minus|times|divided by|squared|cubed|percent of){3,200}\??",
    re.I,
)
_CONVERSION: Final = re.compile(
    rf"(?:.{{0,40}}\d ?)(?:{_UNIT}(?:\W.{{0,20}})?) (?:to|in|into|as) (?:a |an )?(?:square |cubic )?{_UNIT}\W{{0,3}}"
    rf"|how many {_UNIT} (?:are |is |make |does )?(?:there )?(?:up |in )?.{{0,12}}(?:an?|one|the) "
    rf"(?:\w{{1,10}} )?{_UNIT}\W{{0,3}}",
    re.I,
)
_REWORK: Final = re.compile(
    r"(?:please |can you |could you )?(?:translate|convert|rewrite|reword|rephrase|paraphrase|(?:re)?format|prettify|"
    r"minify|pretty[- ]?print|fix|correct|proofread|turn|change|put|make|shorten|expand|simplify|summari[sz]e|sort|"
    r"order|reverse|remove|replace|split|join|count|extract|encode|decode|escape|indent|capitali[sz]e|title-case|wrap|strip|"
    r"spell|add|say)\b",
    re.I,
)
_POINTED_AT: Final = re.compile(r"(?:this|these|the following|the text below)\b(?: \w{1,20}){0,3}\W{0,3}", re.I)
_INTO_LANGUAGE: Final = re.compile(rf"\b(?:to|in|into|from) (?:{_LANGUAGES})\b|\A(?:{_LANGUAGES}) for\b", re.I)
_INVENTION: Final = re.compile(
    r"(?:please |can you |could you )?(?:write|compose|draft|invent|make up|tell|come up with)(?: me)? "
    r"(?:an?|another|some) (?:\w{1,15}[ -]){0,3}(?:poem|haiku|limerick|sonnet|rhyme|joke|riddle|pun|story|slogan|song|"
    r"tongue twister|fun fact|lullaby|ode|couplet|dialogue|toast)s?\b",
    re.I,
)
_COURTESY: Final = re.compile(
    r"(?:(?:thanks?|thank you|thx|ta|ty|cheers|much appreciated|hello|hi|hiya|hey|howdy|greetings|yo|bye|goodbye|ciao|"
    r"good (?:morning|evening|night|day|afternoon)|see you|see ya|take care|talk soon|have a (?:nice|good|great)|sorry|"
    r"oops|haha|lol|wow|ok|okay|cool|great|nice|perfect|brilliant|awesome|lovely|excellent|hmm|no worries|no problem|"
    r"fair enough|alright|sure|got it|you're welcome|well done|good work|great work|many|very much|so much|a lot|all|"
    r"there|everyone|again|for now|day|week|weekend|evening|later|soon|tomorrow|then|and|that's|funny|fine|"
    r"impressive|it|up|keep|absolutely|definitely|indeed|of course|not really|really|yes|yep|yeah|no|nope|morning|"
    r"evening|what's up|are you there|hope you're well|you're a star|bot)(?:[\s,.!;:)]{1,5}|\Z)){1,8}",
    re.I,
)


def speaks_of_memory(text: str) -> bool:
    """Return whether a question names somebody, the past or an identifier, or is long; it is never skipped then."""
    text = text.strip()
    if len(text) > MAX_CHARS:
        return True
    rest = _GIVEN.sub(" ", text)
    if text.isupper() and len(text) > 5:
        return True  # names cannot be recognised
    if any(pattern.search(rest) for pattern in (_CAPITAL, _SHARED, _NAME_IN_CODE, _KNOWN_THING)):
        return True
    if len(text.split()) < MIN_WORDS and not is_self_contained(text):
        return True
    return rest == text and len(text.split()) > MAX_WORDS and not any(char.isdigit() for char in text)


def is_self_contained(text: str) -> bool:
    """Return whether a question is a sum, a conversion, a text to work on, an invention or a courtesy."""
    text = text.strip()
    if not text or len(text) > MAX_CHARS:
        return False
    if any(pattern.fullmatch(text) for pattern in (_SUM, _CONVERSION, _COURTESY)) or _INVENTION.match(text):
        return True
    rework = _REWORK.match(text)
    if rework and _POINTED_AT.fullmatch(text, rework.end() + 1):
        return True  # "format this JSON": the text is in the message
    return _GIVEN.search(text) is not None and bool(rework or _INTO_LANGUAGE.search(text))


_MARKS: Final[tuple[re.Pattern[str], ...]] = (
    *(_CAPITAL, _SHARED, _NAME_IN_CODE, _KNOWN_THING),
    *(re.compile(rf"\b(?:{words})\b", re.I) for words in ("we|us|our|ours", "i|i'm|i've|i'd|me|my|mine")),
    re.compile(r"\b(?:did|was|were|had|has|have|been)\b", re.I),
    re.compile(r"\b(?:this|that|these|those|it|everything|all)\b", re.I),
    re.compile(r"\A(?:what|who|whom|whose|which|when|where|why|how)\b", re.I),
    re.compile(r"\A(?:is|are|was|were|do|does|did|has|have|had|will)\b", re.I),
    re.compile(r"\?\s*\Z"),
    re.compile(r"\d"),
)
"""Marks of a prompt, searched outside a text that it gives."""

_WHOLE: Final = (_SUM, _CONVERSION, _COURTESY)
_STARTS: Final = (_INVENTION, _REWORK)
_LENGTHS: Final = (1, 2, 3, 5, 8, 12)  # words

PROMPT_FEATURES: Final = 2 + len(_MARKS) + len(_WHOLE) + len(_STARTS) + 2 + len(_LENGTHS)
"""Number of features of `describe_prompt`."""


def describe_prompt(text: str) -> F32:
    """Return how a prompt is worded, for the classifier of prompts that need no memory: float32[PROMPT_FEATURES]."""
    text = text.strip()[:MAX_CHARS]
    rest = _GIVEN.sub(" ", text)
    words = len(text.split())
    found = [
        *(speaks_of_memory(text), is_self_contained(text)),
        *(mark.search(rest) is not None for mark in _MARKS),
        *(pattern.fullmatch(text) is not None for pattern in _WHOLE),
        *(pattern.match(text) is not None for pattern in _STARTS),
        *(rest != text, _INTO_LANGUAGE.search(text) is not None),
        *(words > length for length in _LENGTHS),
    ]
    return np.array(found, np.float32)


def is_general(text: str, score: float, threshold: float) -> bool:
    """Return whether a question needs no memory, by its words and the router's classifier.

    Args:
        text: the question.
        score: the classifier's probability that it needs none; 0 without a classifier.
        threshold: the score must be above it, or above `AGREEMENT` if the words agree.
    """
    if score <= min(AGREEMENT, threshold) or speaks_of_memory(text):
        return False
    return score > threshold or is_self_contained(text)
