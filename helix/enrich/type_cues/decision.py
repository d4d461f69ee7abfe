"""Cues of a decision: a choice was made, with or without its reason."""

from __future__ import annotations

from typing import Final

from helix.enrich.type_cues.cue import AGENTS, HUMAN, make_cue, make_word_cue

_ASSENT: Final = (
    r"(?:ok(?:ay)?|yes|yep|yeah|no|nah|nope|fine|alright|all right|right|good|great|agreed|sure|deal|perfect|"
    r"sounds (?:good|right)|so|then|alright then|done)"
)
DECISION: Final = (
    make_word_cue(
        "decision",
        0.65,
        "decided agreed chose chosen settled opted picked concluded",
        r"(?:we|i|you|they|team|committee|board|everyone)\b(?:'ve| have| had)? (?:all |finally |also |"
        r"then )?(?:decided|agreed|chosen?|settled on|opted|picked|concluded that)\b",
    ),
    make_word_cue(
        "decision",
        0.65,
        "decision decided",
        r"(?:the |our |final |key )decision (?:is|was)\b",
        r"decision(?: record)?(?: \d+)?[:.]",
        r"decided (?:to|on|against|that|not)\b",
    ),
    make_word_cue(
        "decision",
        0.55,
        "go stick settle adopt switch standardise standardize stay take pick",
        r"(?:let'?s|we(?:'ll| will| should)?|i(?:'ll| will)) (?:go with|stick (?:with|to)|settle on|adopt|switch to|"
        r"standardi[sz]e on|stay with|take the|pick )\b",
    ),
    make_word_cue(
        "decision",
        0.5,
        "we'll let's lets i'll will",
        r"(?:we(?:'ll| will)|let'?s|i(?:'ll| will)) (?:use|drop|avoid|skip|not|keep (?:the|our|using|both|it as|"
        r"it simple)|call it|take|host|pay|store|stop|quit|cancel|stick)\b",
    ),
    make_word_cue(
        "decision",
        0.4,
        "going went gone go settled opted opting opt ruled signed ended turned chosen choice picked chose mind minds "
        "landed closed favour voted vote",
        r"(?:(?:going|gone|went) (?:with|for)|go with|landed on|settled(?: on|:|\.|,)|opt(?:ed|ing)? for|ruled out|"
        r"signed off on|ended up \w+ing|turned down|chosen|choice fell|picked|chose|made up (?:my|our) minds?|"
        r"closed as|in favour,|voted|vote (?:was|went))\b",
    ),
    make_cue(
        "decision",
        0.5,
        "",
        r"\W{0,4}(?:agreed|approved|decided|confirmed|deal|settled|resolved|final answer|accepted|rejected|adr|rfc)\b",
        where="opening",
    ),
    make_word_cue("decision", 0.3, "agreed approved accepted refused", r"(?:agreed|approved|accepted|refused)\b"),
    make_word_cue(
        "decision",
        0.45,
        "status outcome resolution chosen verdict rationale rejected poll options amendment",
        r"(?:status: (?:accepted|approved|rejected|adopted)|outcome|resolution: |chosen: |verdict|rationale|"
        r"rejected: |poll\b|options: |amendment)",
    ),
    make_cue(
        "decision",
        0.45,
        "",
        rf"\W{{0,4}}(?:{_ASSENT}[,.:!;]? (?:then |so |and )?)(?:let'?s |we(?:'ll|'re| will| are| can)? |"
        r"i(?:'ll|'m| will| am)? )?(?:(?:go|going) (?:with|for|ahead)|keep|leave|drop|ditch|scrap|forget|skip|stay|"
        r"stick|take|pick|make it|use|ship|cut|merge|do it|that one|the \w+ one|option)\b",
        r"\W{0,4}(?:let'?s not|forget|ditch|scrap|leave (?:it|the)|keep (?:it|the|both)|go (?:with|for)|option|"
        r"not worth|not \w{3,12}ing|drop)\b",
        origins=HUMAN,
        where="opening",
    ),
    make_cue(
        "decision", 0.5, "", r"\W{0,4}[\w' -]{1,40} (?:it is|then)(?:[.,!;]| -|$)", origins=HUMAN, where="opening"
    ),
    make_word_cue(
        "decision",
        0.4,
        "discussion debate final that's discussing won't purpose scope stays stay settles",
        r"(?:end of (?:discussion|debate)|(?:that's|is) final|final (?:answer|call)|that's that|done discussing|"
        r"won't fix|on purpose|out of scope|it stays|settles it)\b",
        r"stays? (?:as|at|with|in|on|where|behind|per|free|flat|for now)\b",
    ),
    make_cue(
        "decision",
        0.4,
        "from now on|no more|for good|after all|in the end|is out|instead|(was ",
        r"\b(?:from now on|no more|for good|after all|in the end|instead[.,;]|is out[,.;])|\(was \d",
    ),
    make_cue("decision", 0.15, ", not ", r", not \w"),
    make_word_cue(
        "decision",
        0.4,
        "rather call want count",
        r"(?:i|we)(?:'d| would) rather\b",
        r"my call\b|count me in\b",
        r"i want (?:the|it|a) ",
    ),
    make_word_cue(
        "decision",
        0.35,
        "going doing adding supporting longer dropping switching keeping cutting freezing replacing removing "
        "postponing giving taking moving gonna won't support drop dropped postpone replace keep cut chose will",
        r"(?:we|i)(?:'re| are|'m| am) (?:not (?:going|doing|adding|supporting)|no longer|dropping|switching|keeping|"
        r"cutting|freezing|replacing|removing|postponing|giving up|taking the|moving (?:everything|all|to))\b",
        r"(?:we|i) (?:won't|will not|do not support|don't support|drop|dropped|postpone|replace|keep both|cut|chose)\b",
        r"(?:gonna|(?:'m|'re|am|are) going to) (?:skip|drop|keep|use|stop|quit|stick|take|leave|sell|switch|cancel)\b",
    ),
    make_word_cue(
        "decision",
        0.4,
        "picked chose decided opted agreed asked rejected wanted requested choice request understood confirmed",
        r"you(?:'ve)? (?:picked|chose|decided|opted|agreed|asked for|rejected)\b",
        r"(?:as (?:you )?(?:agreed|asked|wanted|decided|requested)|per your (?:choice|request))\b",
        r"(?:understood|confirmed)\b",
        origins=AGENTS,
    ),
    make_word_cue(
        "decision",
        0.2,
        "instead rather favor favour tradeoff trade over",
        r"(?:instead of|rather than|in favou?r of|trade-?off|over the)\b",
    ),
    make_word_cue(
        "decision", 0.1, "because reason so rationale since", r"(?:because|the reason|so that|rationale|since|reason:)"
    ),
)
