"""Rules that a person sets: "never push to main", "from now on run the linter first"."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

from helix.enrich.facts.canonical import find_kind
from helix.enrich.facts.changes import Clause, read_slots
from helix.enrich.facts.drafts import Draft, Voice
from helix.enrich.facts.reference import LESS
from helix.enrich.facts.sentences import is_doubtful
from helix.enrich.facts.slots import read_value
from helix.enrich.facts.subjects import is_setting
from helix.enrich.facts.values import is_tool, read_amount
from helix.enrich.facts.words import PATTERNS, WORDS

CONDUCT_WORDS: Final = WORDS["conduct words"]
"""Words of which a sentence with a rule has one."""

_MOST_WORDS: Final = 24


def read_conduct(sentence: str, voice: Voice) -> Iterator[Draft]:
    """Yield the rule that a sentence sets, and the choice of a tool that it makes."""
    if "?" in sentence[-3:]:
        return
    match = PATTERNS["conduct"].match(sentence)
    if not match:
        yield from _read_joint_choice(sentence, voice)
        yield from _read_order(sentence, voice)
        yield from _read_use_order(sentence, voice)
        return
    rule = next(filter(None, match.group("named", "strict", "colon", "lasting", "ordered", "local")))
    rule = PATTERNS["lasting"].sub("", rule).strip(" .,!;:")
    words = rule.replace("no one ", "nobody ").replace("No one ", "Nobody ").split()
    if not 2 < len(words) <= _MOST_WORDS or PATTERNS["unreal"].search(sentence):
        return
    low = [word.lower().strip(",.;:") for word in words]
    if (match["strict"] or match["named"]) and low[1] in WORDS["no rule"]:
        return
    if match["strict"] and not _is_rule(low):
        return
    rule = rule[0].lower() + rule[1:] if words[0].lower() in WORDS["rule words"] or words[0].istitle() else rule
    yield Draft("we", "rule", rule, "", False, 0.85)
    if words[0].lower() in ("use", "using"):
        text = f"we {rule}"
        for draft in read_slots(Clause(text, text, False), voice):
            yield draft._replace(confidence=round(draft.confidence * 0.8, 4))


# fmt: off
_PAST: Final = {
    "move": "moved", "migrate": "migrated", "adopt": "adopted", "pick": "picked", "choose": "chose", "swap": "swapped",
    "drop": "dropped", "ditch": "ditched", "go for": "go with", "stay on": "stay with", "keep using": "stick with",
}
# fmt: on
_CHOSEN: Final = frozenset(("uses", "is", "kept_for", "scheduled_for", "called"))
_TASK: Final = re.compile(
    r" \S+ (?:to|here|on|in) (?!(?:the |our )?(?:backend|frontend|API|repo|project|prod|production|CI)\b)"
)


def _read_joint_choice(sentence: str, voice: Voice) -> Iterator[Draft]:
    """Yield what a user chooses for both: "let's go with Redis for sessions"; "let's use grep here" is a task."""
    match = PATTERNS["let us"].match(sentence) if voice.role == "user" else None
    if not match or PATTERNS["unreal"].search(sentence) or is_doubtful(sentence):
        return
    verb = match["verb"].lower()
    if verb == "use" and _TASK.match(match["rest"]):
        return
    text = f"we {_PAST.get(verb, verb)}{match['rest']}"
    drafts = list(read_slots(Clause(text, text, False), voice))
    if all(draft.relation in _CHOSEN and (draft.relation != "uses" or is_tool(draft.object)) for draft in drafts):
        yield from (draft._replace(confidence=round(draft.confidence * LESS, 4)) for draft in drafts)


def _read_use_order(sentence: str, voice: Voice) -> Iterator[Draft]:
    """Yield the tool that a user orders in place of one of its kind: "use pnpm, not npm"."""
    match = PATTERNS["use order"].match(sentence) if voice.role == "user" else None
    if not match:
        return
    new, old = match["new"].rstrip("."), match["old"].rstrip(".")
    if find_kind(new.lower()) and find_kind(new.lower()) == find_kind(old.lower()):
        weight = round(0.85 * LESS, 4)
        yield Draft("we", "uses", old, "", True, weight, change=True)
        yield Draft("we", "uses", new, "", False, weight, change=True)


_FURTHER: Final = re.compile(r"(?:,| and| then) ")  # "set X to 5 and rerun it" is a task of the moment
_IDENTIFIER: Final = re.compile(r"[A-Z][A-Z0-9]*(?:_[A-Z0-9]+)+|[a-z]\w*(?:[._-][a-z]\w*)+")


def _read_order(sentence: str, voice: Voice) -> Iterator[Draft]:
    """Yield the setting that a user orders: "set SESSION_TTL to 7200"; "set up the tests" is a task."""
    match = PATTERNS["setting order"].match(sentence) if voice.role == "user" else None
    if not match or PATTERNS["unreal"].search(sentence) or is_doubtful(sentence) or _FURTHER.search(match["o"]):
        return
    key = match["key"].strip("`")
    coded = _IDENTIFIER.fullmatch(key) is not None
    if not (coded or is_setting(key)) or key.lower() in WORDS["no subject alone"]:
        return
    read = read_value if coded else read_amount
    weight = round(0.85 * LESS, 4)
    former = read(match["old"]) if match["old"] else []
    yield from (Draft(key, "set_to", value, "", True, weight) for value in former)
    yield from (Draft(key, "set_to", value, "", False, weight) for value in read(match["o"]))


def _is_rule(words: list[str]) -> bool:
    """Return whether "always", "never" or "everybody" opens an order or a custom, not a report: "never started"."""
    verb = words[1] if words[0] != "do" else words[3] if len(words) > 3 else ""
    if words[0] in ("always", "never", "do"):
        return verb in WORDS["rule verbs"]
    base = verb.removesuffix("s")
    known = base in WORDS["rule verbs"] or verb.removesuffix("es") in WORDS["rule verbs"]
    return WORDS["refers back"].isdisjoint(words) and (known or verb in ("may", "must", "can", "shall"))
