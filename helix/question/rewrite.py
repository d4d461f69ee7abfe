"""Rewriting of a question: without words that only ask, and in the voice of the speaker it names.

"Can you list the order in which I brought up different aspects of my budget tracker?" is about the budget tracker;
"summary", "order" and "conversations" would find turns about summaries. And to "what did Ana research?" Ana's turn says
"I researched …", so "what did I research?" is nearer to it.
"""

from __future__ import annotations

import re
from collections.abc import Set as AbstractSet
from typing import Final

from helix.text.gazetteer import COMMON_WORDS
from helix.text.languages import ENGLISH

_TALK: Final = r"(?:conversations?|chats?|discussions?|sessions?|interactions?|exchanges?|messages)"
_KIND: Final = r"(?:comprehensive|clear|complete|detailed|concise|brief|full|thorough|short|quick|high-level)"
_ABOUT: Final = r"(?:a|an|the|how|what|everything|all|when|where|who|why|which|in|my|our)"
_REQUESTS: Final = tuple(
    re.compile(pattern, re.IGNORECASE)
    for pattern in (
        r"^\W*(?:hey|hi|hello|ok|okay|so|please|well)[,. ]+",
        r"^\W*(?:can|could|would|will) you(?: please)?\b,?",
        r"^\W*(?:please )?(?:give|provide|show|tell|walk|write|list|remind|help|summari[sz]e|recap|outline|describe"
        rf"|explain)(?: me| us)?(?: with| of| through| about| to)?\b(?= {_ABOUT}\b)",
        rf"^\W*(?:a|an|the)? ?(?:{_KIND}(?:,| and)? ){{0,3}}(?:summary|overview|recap|rundown|timeline|account|list)"
        r" of\b",
        r"\bthe order in which (?:i|we|you) (?:brought up|mentioned|discussed|talked about|raised|asked about)\b"
        r"(?: (?:the )?(?:different|various|these))?(?: (?:aspects|topics|things|parts|points) of)?",
        rf"\b(?:across|throughout|during|in|over|from) (?:all )?(?:of )?(?:our|my|the|these) "
        rf"(?:previous |past |earlier |recent |last |many )?{_TALK}\b",
        r",? in order\b(?=\W{0,3}(?:$|[.,?]))",
        r"\bmention only(?: and only)? \w+ items?\b\.?",
        r"\b(?:based on|according to|from) what (?:i|we|you)(?:'ve| have)? "
        r"(?:said|told you|mentioned|discussed|talked about)(?: so far| before| earlier)?\b,?",
        r"\bdid (?:i|we) (?:say|mention|tell you)(?: that)?\b",
        r"\b(?:do you|can you) (?:remember|recall)\b",
        r"\bremind me\b",
        r"\b(?:we've|we have|i've|i have|you've|you have) (?:discussed|covered|talked about|mentioned)(?: so far)?\b",
        r"\bover time\b|\bso far\b",
    )
)
_CONTENT: Final = re.compile(r"\w{3,}")
_MIN_WORDS: Final = 2
"""Words of three letters that must remain; else the request is the topic itself."""

_WORD: Final = re.compile(r"[^\W_](?:[\w'’-]{0,98}\w)?(?:(?<=s)['’](?=\s))?")  # including James'
_BEFORE: Final = tuple("/\\@._#~=-")
_AFTER: Final = re.compile(r"[/\\@_=~-]|\.\w")
"""Next to one of these a name is part of a path, an address or an identifier."""

_OWN: Final = re.compile(r"['’]s?$")


def remove_request(text: str, language: str = ENGLISH) -> str:
    """Remove the English words that only ask, unless hardly any would remain. Linear time."""
    if language != ENGLISH:
        return text
    topic = text
    for pattern in _REQUESTS:
        topic = pattern.sub(" ", topic)
    topic = " ".join(topic.split()).strip(" ,;:")
    return topic if len(_CONTENT.findall(topic)) >= _MIN_WORDS else text


def speak_as(text: str, speakers: AbstractSet[str], language: str = ENGLISH) -> str:
    """Put the question as the speaker it names would: "Ana" becomes "I", "Ana's" becomes "my".

    Args:
        speakers: words of speakers' names, lower case. A common word (Will, May) is a name only if it is capitalised
            after the first word.
    """
    if not speakers or language != ENGLISH:
        return text
    parts: list[str] = []
    end, last_named = 0, -1
    for place, match in enumerate(_WORD.finditer(text)):
        word = match.group()
        bare = _OWN.sub("", word)
        name, owns = bare.lower(), bare != word
        if name not in speakers or (name in COMMON_WORDS and (place == 0 or not word[0].isupper())):
            continue
        if text[match.start() - 1 : match.start()] in _BEFORE or _AFTER.match(text, match.end()):
            continue
        between = text[end : match.start()]
        if last_named == end and between == " ":  # a name of several words is one speaker
            parts[-1] = "my" if owns else parts[-1]
        else:
            parts += [between, "my" if owns else "I"]
        end = last_named = match.end()
    return "".join([*parts, text[end:]])
