"""Guards against clauses that state no fact: make-believe, questions, orders, quotations, reports, doubts, denials."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import Final

# The rest of the text is make-believe, or material to work on.
_PLAY: Final = re.compile(
    r"\b(?:pretend|role-?play|act as|imagine|once upon a time|main character|protagonist|(?:my|the) character|"
    "proofread|in (?:the|this|my|his|her|a) (?:new )?(?:novel|book|film|movie|show|story|game|series|play|dream|"
    r"sketch|script|sitcom|fanfic)|(?:write|tell|draft|make up)(?: me| us)? (?:a|an|the|another|me a) (?:\w+ "
    "){0,3}(?:story|poem|song|scene|dialogue|tale|novel|bio|letter|email|sketch|script|joke|essay|paragraph|article|"
    "character|persona)|(?:^|please |(?:can|could|would) you |: ?)(?:translate|rewrite|rephrase|paraphrase)|(?:fix|"
    r"correct|improve|check) (?:this|the|my) (?:sentence|text|grammar|paragraph)|you are (?:a|an|now) (?:\w+ "
    r"){0,2}(?:pirate|wizard|expert|assistant|detective|character))\b"
)
_JOKE: Final = re.compile(r"\b(?:kidding|jk|joking|just a joke|psych|april fools?)\b|(?<!\w)/s\b", re.IGNORECASE)

# A sentence with one of these states nothing.
_UNREAL: Final = re.compile(
    r"(?i)\b(?:if|unless|suppose|supposing|assum(?:e|es|ing)|imagine|imagining|wish|wished|pretend|dream(?:t|ed|ing)?|"
    r"hypothetically|for (?:example|instance)|e\.g\.|let us say|let's say|lets say|say we|as though|yeah,? right|"
    "oh sure|oh great|sure,? and|who knows|once upon|what would|would it|(?:isn't|aren't|wasn't|don't|doesn't) (?:it|"
    r"that|they|he|she|we|you)\?)(?!\w)|^should (?:I|we)\b|^(?:had|were) (?:I|we)\b|\bwere (?:my|our)\b"
)
# Attributes a clause to somebody else.
_REPORTED: Final = re.compile(
    r"(?i)\b(?:rumou?rs?|apparently|allegedly|supposedly|reportedly|presumably|according to|claim(?:s|ed)?|heard|hear|"
    "reckons?|swears? (?:that|he|she|they|it|I)|insists?|thinks?|thought|believes?|believed|told|tells|tell (?:me|us|"
    "you)|say|says|said|saying|wrote|asks|asked|whether|as far as|or was it|suggest(?:s|ed)?|ought|recommend(?:s|ed)?|"
    r"joke[sd]?|someone|somebody)\b"
)
# The speaker doubts the clause.
_HEDGED: Final = re.compile(
    r"(?i)\b(?:maybe|perhaps|probably|possibly|guess|suppose|not sure|unsure|no idea|likely|in theory|think|wonder\w*|"
    "hopefully|hope|hoping|seems?|seemed|seemingly|sort of|kind of|doubt|bet|potentially|theoretically|ideally|"
    r"typically|in general|generally speaking|by default|most people|as a joke|sounds like|as well be)\b"
)

# These govern the next verb, so they count only up to the comma after the object.
_MODAL: Final = re.compile(
    r"(?i)\b(?:might|may(?= (?:be|have|not|\w+ to)\b)|could|would|should|must|assume|thinking|considering|feels like|"
    "felt like|looks? like|tempted|propos(?:e|es|ed|ing)|basically|practically|literally|pretty much|almost|nearly|"
    "want|wants|wanna|wanted|need to|needs to|trying to|tried to|about to|supposed to|eventually|someday|one day|"
    r"either|can be|used to|plan on maybe|like to|love to)\b"
)
_NEGATED: Final = re.compile(
    r"(?i)\b(?:not|never|no|none|nobody|nothing|neither|nor|without|hardly|barely|rarely|seldom|far from)\b"
)
# Openings of a question and of an order.
_ASKS: Final = re.compile(
    "(?i)(?:(?:so|and|but|ok|okay|hey|hi|wait|btw|well|um|also|or),? ){0,2}(?:do|does|did|is|are|am|was|were|can|could|"
    "would|will|should|shall|has|have|had|what|who|where|why|how|which|whose|whom|any(?:one|body)?|ever|wouldn't|isn't|"
    r"aren't|don't|doesn't|didn't|haven't|won't|can't)\b(?!ever)(?!,)"
)
_ORDERS: Final = re.compile(
    "(?i)(?:(?:ok|okay|so|and|then|now|also|please|pls|hey),? ){0,2}(?:please|pls|use|set|add|make sure|ensure|"
    "remember|do not|don't|consider|let's|lets|let us|try|change|update|switch|move|replace|rename|give|show|find|"
    r"explain|implement|create|fix|run|tell|ask|learn|note that you|act|pick|choose|put|keep)\b(?! (?:to|is|are|was)\b)"
)

# A question after a statement: "…, what about you?", "… so could you check?"
_TAIL_QUESTION: Final = re.compile(
    r"(?i)(?:,|;|:| -| –| —|\)|(?<=\w)(?= (?:can|could|would|will|do) you\b)|(?= how do (?:i|we|you)\b)) ?"
    r"(?:so |and |but )?(?=(?:can|could|would|will|do|did|are|have) (?:you|we|i|anyone|someone|somebody|it)\b|"
    r"(?:what|how|where|when|who|which|why|any|shall)\b|so no\b|"
    r"(?:was|is|are|were|did|does|do|has|have)(?:n't| not) (?:he|she|it|they|you|we|I) \w+ \w+)"
)
_OK_TAIL: Final = re.compile(r",? ?(?:so [^,?]{1,60})?,? (?:ok|okay|yeah)\s*\?+\s*\Z", re.IGNORECASE)
_QUOTE: Final = re.compile(r"[\"“”«»]")
_QUOTED_SPEECH: Final = re.compile(r"[\"“«][^\"“”«»]*\s[^\"“”«»]*\s[^\"“”«»]*[\"”»]")
_SAMPLE: Final = re.compile(
    r"\A[^:]{0,80}\b(?:sentence|text|sample|example|bio|template|prompt)\b[^:]{0,40}:", re.IGNORECASE
)


def drop_play(sentences: Iterable[str]) -> list[str]:
    """Return the sentences up to the begin of make-believe, without jokes and the sentences before them."""
    serious: list[str] = []
    for raw in sentences:
        sentence = raw.strip()
        if _PLAY.search(sentence.lower()):
            break
        if _JOKE.search(sentence):
            if serious:
                serious.pop()
        elif _SHORTEST <= len(sentence) <= _LONGEST:
            serious.append(sentence)
    return serious


def cut_statement(sentence: str) -> str:
    """Return the stated part of a sentence; "" for a question, a supposition, an order or a quotation."""
    if sentence.endswith("?") or "?" in sentence[-4:]:
        tail = _OK_TAIL.search(sentence) or _TAIL_QUESTION.search(sentence)
        if tail is None:
            return ""
        sentence = sentence[: tail.start()].rstrip(" ,;:-–—(")
    if _ASKS.match(sentence) or _ORDERS.match(sentence) or _UNREAL.search(sentence) or _SAMPLE.match(sentence):
        return ""
    quotes = len(_QUOTE.findall(sentence))
    if quotes and (quotes % 2 or _QUOTED_SPEECH.search(sentence)):
        return ""
    return sentence


_SHORTEST, _LONGEST = 6, 600  # characters of a sentence; a longer one is a log
_SHORT_REPORT: Final = 5  # words: "…, she says" attributes the clause before it


def is_hedged(clause: str) -> bool:
    """Return whether the speaker doubts it: "maybe", "I guess"."""
    return _HEDGED.search(clause) is not None


def is_doubtful(clause: str) -> bool:
    """Return whether it is hedged, or has a modal verb: "could"."""
    return is_hedged(clause) or _MODAL.search(clause) is not None


def attribute_clauses(clauses: list[str]) -> Iterator[tuple[str, bool]]:
    """Yield each clause, and whether it is attributed to somebody else or revoked by the next one: "…, I guess"."""
    for clause, after in zip(clauses, [*clauses[1:], ""], strict=True):
        short = len(after.split()) <= _SHORT_REPORT
        tail = _REPORTED.search(after)
        by_tail = (tail is not None and (tail.start() == 0 or short)) or (short and is_hedged(after))
        yield clause, by_tail or _REPORTED.search(clause) is not None


def is_denied(clause: str, match: re.Match[str], negative: bool) -> bool:
    """Return whether a negation or a modal verb precedes the comma after the object's begin.

    Args:
        negative: the pattern itself has a negation, so none counts.
    """
    begin = match.start("o") if "o" in match.groupdict() else match.end()
    comma = clause.find(",", max(begin, 0))
    end = comma if comma >= 0 else len(clause)
    return bool(_MODAL.search(clause, 0, end) or (not negative and _NEGATED.search(clause, 0, end)))
