"""What kind of memory a text is: one of `helix.types.TYPES`.

Cues in one table give every type a score; a softmax regression over these scores, the text's vector and its origin
decides where one was trained for the encoder. Without one the cues decide alone.
"""

from __future__ import annotations

import io
import re
import tokenize
import zipfile
import zlib
from collections.abc import Sequence
from functools import lru_cache
from typing import Final, NamedTuple

import numpy as np

from helix.errors import StoreError
from helix.types import F32, ROLES, TYPES

SCANNED: Final = 8_000
"""Characters looked at; an item is far shorter."""
_OPENING: Final = 200
_ENDING: Final = 80


class Cue(NamedTuple):
    """A sign, and how much one sighting of it weighs. A text without any of `needs` is not searched.

    Patterns meet lower-cased text; `raw` ones meet it as written. `origins` of none is any. `where` is "", "opening"
    (the pattern matches at the start of the first `_OPENING` characters) or "ending" (within the last `_ENDING`).
    A text without any of the whole words in `words` need not be shown at all.
    """

    name: str
    weight: float
    needs: tuple[str, ...]
    pattern: re.Pattern[str]
    raw: bool = False
    origins: tuple[str, ...] = ()
    where: str = ""
    words: frozenset[str] = frozenset()

    def seen(self, text: str, lower: str) -> bool:
        """Whether the cue is in `text`; `lower` is the same text, lower-cased."""
        searched = text if self.raw else lower
        if self.where == "opening":
            return self.pattern.match(searched, 0, _OPENING) is not None
        if self.where == "ending":
            searched = searched[-_ENDING:]
        if self.needs and not any(word in searched for word in self.needs):
            return False
        return self.pattern.search(searched) is not None


def cue(
    name: str, weight: float, needs: str, *patterns: str, raw: bool = False, origins: str = "", where: str = ""
) -> Cue:
    """A row of a table: `needs` and `origins` separated by `|`, `patterns` alternatives; ^ and $ are line borders."""
    wanted = tuple(needs.split("|")) if needs else ()
    only = tuple(origins.split("|")) if origins else ()
    return Cue(name, weight, wanted, re.compile("|".join(patterns), re.MULTILINE), raw, only, where)


def said(name: str, weight: float, words: str, *patterns: str, origins: str = "") -> Cue:
    """A row for what only a text with one of `words` can say: far cheaper to rule out than `cue`.

    Patterns begin at a word's start, behind one character that is no letter; so a text has to begin with one.
    """
    pattern = rf"[\s(\"'*_`-](?:{'|'.join(patterns)})"
    return cue(name, weight, "", pattern, origins=origins)._replace(words=frozenset(words.split()))


_TOLD: Final = "human"
_SHOWN: Final = "assistant|subagent|tool|document|summary|runtime_context"
"""Where an imperative tells the reader how; from a human it asks for work."""
_AGENT: Final = "assistant|subagent"

_VERBS: Final = (
    r"(?:add|adjust|apply|ask|attach|avoid|bake|break|build|bump|call|change|check|choose|clean|clear|click|clone|"
    r"close|commit|compare|configure|connect|convert|copy|count|create|cut|delete|deploy|describe|disable|divide|"
    r"do not|don't|download|draw|drop|edit|enable|ensure|enter|export|fill|find|fold|follow|give|go|hang|hold|import|"
    r"include|insert|install|keep|launch|lean|leave|list|log|look|lower|make|mark|measure|mix|move|multiply|never|"
    r"note|open|paste|pick|place|pour|press|prune|pull|push|put|read|rebuild|record|reload|remove|rename|repeat|"
    r"replace|report|restart|restore|return|rinse|rotate|run|save|schedule|select|send|set|sign|skip|sort|speak|"
    r"start|stir|stop|store|subtract|swap|switch|tag|take|tell|test|tick|treat|try|turn|type|update|upgrade|upload|"
    r"use|verify|wait|warm|wash|watch|wear|wipe|work|wrap|write)\b"
)
_ASSENT: Final = (
    r"(?:ok(?:ay)?|yes|yep|yeah|no|nah|nope|fine|alright|all right|right|good|great|agreed|sure|deal|perfect|"
    r"sounds (?:good|right)|so|then|alright then|done)"
)
_PAST: Final = (
    r"(?:went|met|saw|had|did|got|took|made|told|said|found|felt|came|visited|tried|started|finished|attended|joined|"
    r"bought|ran|spent|spoke|talked|asked|called|lost|left|missed|moved|read|looked|broke|fell|woke|slept|cooked|"
    r"walked|drove|heard|noticed|sat|signed|sent|wrote|paid|won|played|watched|forgot|brought|planted|scored|"
    r"reported|received|arrived|stopped|changed|added|fixed|updated|removed|renamed|pushed|created|checked|killed)"
)

CUES: Final = (
    # decision: a choice was made, with or without its reason
    said(
        "decision",
        0.65,
        "decided agreed chose chosen settled opted picked concluded",
        r"(?:we|i|you|they|team|committee|board|everyone)\b(?:'ve| have| had)? (?:all |finally |also |"
        r"then )?(?:decided|agreed|chosen?|settled on|opted|picked|concluded that)\b",
    ),
    said(
        "decision",
        0.65,
        "decision decided",
        r"(?:the |our |final |key )decision (?:is|was)\b",
        r"decision(?: record)?(?: \d+)?[:.]",
        r"decided (?:to|on|against|that|not)\b",
    ),
    said(
        "decision",
        0.55,
        "go stick settle adopt switch standardise standardize stay take pick",
        r"(?:let'?s|we(?:'ll| will| should)?|i(?:'ll| will)) (?:go with|stick (?:with|to)|settle on|adopt|switch to|"
        r"standardi[sz]e on|stay with|take the|pick )\b",
    ),
    said(
        "decision",
        0.5,
        "we'll let's lets i'll will",
        r"(?:we(?:'ll| will)|let'?s|i(?:'ll| will)) (?:use|drop|avoid|skip|not|keep (?:the|our|using|both|it as|"
        r"it simple)|call it|take|host|pay|store|stop|quit|cancel|stick)\b",
    ),
    said(
        "decision",
        0.4,
        "going went gone go settled opted opting opt ruled signed ended turned chosen choice picked chose mind minds "
        "landed closed favour voted vote",
        r"(?:(?:going|gone|went) (?:with|for)|go with|landed on|settled(?: on|:|\.|,)|opt(?:ed|ing)? for|ruled out|"
        r"signed off on|ended up \w+ing|turned down|chosen|choice fell|picked|chose|made up (?:my|our) minds?|"
        r"closed as|in favour,|voted|vote (?:was|went))\b",
    ),
    cue(
        "decision",
        0.5,
        "",
        r"\W{0,4}(?:agreed|approved|decided|confirmed|deal|settled|resolved|final answer|accepted|rejected|adr|rfc)\b",
        where="opening",
    ),
    said("decision", 0.3, "agreed approved accepted refused", r"(?:agreed|approved|accepted|refused)\b"),
    said(
        "decision",
        0.45,
        "status outcome resolution chosen verdict rationale rejected poll options amendment",
        r"(?:status: (?:accepted|approved|rejected|adopted)|outcome|resolution: |chosen: |verdict|rationale|"
        r"rejected: |poll\b|options: |amendment)",
    ),
    cue(
        "decision",
        0.45,
        "",
        rf"\W{{0,4}}(?:{_ASSENT}[,.:!;]? (?:then |so |and )?)(?:let'?s |we(?:'ll|'re| will| are| can)? |"
        r"i(?:'ll|'m| will| am)? )?(?:(?:go|going) (?:with|for|ahead)|keep|leave|drop|ditch|scrap|forget|skip|stay|"
        r"stick|take|pick|make it|use|ship|cut|merge|do it|that one|the \w+ one|option)\b",
        r"\W{0,4}(?:let'?s not|forget|ditch|scrap|leave (?:it|the)|keep (?:it|the|both)|go (?:with|for)|option|"
        r"not worth|not \w{3,12}ing|drop)\b",
        origins=_TOLD,
        where="opening",
    ),
    cue("decision", 0.5, "", r"\W{0,4}[\w' -]{1,40} (?:it is|then)(?:[.,!;]| -|$)", origins=_TOLD, where="opening"),
    said(
        "decision",
        0.4,
        "discussion debate final that's discussing won't purpose scope stays stay settles",
        r"(?:end of (?:discussion|debate)|(?:that's|is) final|final (?:answer|call)|that's that|done discussing|"
        r"won't fix|on purpose|out of scope|it stays|settles it)\b",
        r"stays? (?:as|at|with|in|on|where|behind|per|free|flat|for now)\b",
    ),
    cue(
        "decision",
        0.4,
        "from now on|no more|for good|after all|in the end|is out|instead|(was ",
        r"\b(?:from now on|no more|for good|after all|in the end|instead[.,;]|is out[,.;])|\(was \d",
    ),
    cue("decision", 0.15, ", not ", r", not \w"),
    said(
        "decision",
        0.4,
        "rather call want count",
        r"(?:i|we)(?:'d| would) rather\b",
        r"my call\b|count me in\b",
        r"i want (?:the|it|a) ",
    ),
    said(
        "decision",
        0.35,
        "going doing adding supporting longer dropping switching keeping cutting freezing replacing removing "
        "postponing giving taking moving gonna won't support drop dropped postpone replace keep cut chose will",
        r"(?:we|i)(?:'re| are|'m| am) (?:not (?:going|doing|adding|supporting)|no longer|dropping|switching|keeping|"
        r"cutting|freezing|replacing|removing|postponing|giving up|taking the|moving (?:everything|all|to))\b",
        r"(?:we|i) (?:won't|will not|do not support|don't support|drop|dropped|postpone|replace|keep both|cut|chose)\b",
        r"(?:gonna|(?:'m|'re|am|are) going to) (?:skip|drop|keep|use|stop|quit|stick|take|leave|sell|switch|cancel)\b",
    ),
    said(
        "decision",
        0.4,
        "picked chose decided opted agreed asked rejected wanted requested choice request understood confirmed",
        r"you(?:'ve)? (?:picked|chose|decided|opted|agreed|asked for|rejected)\b",
        r"(?:as (?:you )?(?:agreed|asked|wanted|decided|requested)|per your (?:choice|request))\b",
        r"(?:understood|confirmed)\b",
        origins=_AGENT,
    ),
    said(
        "decision",
        0.2,
        "instead rather favor favour tradeoff trade over",
        r"(?:instead of|rather than|in favou?r of|trade-?off|over the)\b",
    ),
    said(
        "decision",
        0.1,
        "because reason so rationale since",
        r"(?:because|the reason|so that|rationale|since|reason:)",
    ),
    # procedural: how something is done
    said(
        "procedural",
        0.6,
        "step steps instructions checklist runbook usage",
        r"step[- ]by[- ]step\b",
        r"follow (?:these|the) (?:steps|instructions)\b",
        r"(?:these|the following) steps\b",
        r"(?:instructions|runbook|checklist|usage)\b",
    ),
    said("procedural", 0.5, "step", r"step \d"),
    said("procedural", 0.5, "run", r"run (?:the following|this command|these commands)\b"),
    said("procedural", 0.2, "how way", r"how[- ]to\b|the way (?:to|we|i|you)\b"),
    said(
        "procedural",
        0.35,
        "first",
        r"first\b[^.,;\n]{3,120}+[.,;\n][^\n]{0,120}\b(?:then|next|after that|finally|only then|last)\b",
        r"\w{3,20} first, (?:then )?",
    ),
    cue("procedural", 0.35, "$ |❯ ", r"\n\s{0,8}(?:\$|❯) ?[a-z][\w.-]+ "),
    cue(
        "procedural",
        0.35,
        "`",
        r"`(?:sudo |\$ )?(?:git|pip|npm|npx|uv|cargo|docker|make|pytest|python3?|kubectl|brew|apt|go|ssh|scp) [^`\n]+`",
        origins=_SHOWN,
    ),
    cue(
        "procedural",
        0.3,
        "\n-|\n*|\n1|\n2|\n  ",
        rf"\n\s{{0,8}}(?:[-*]|\d{{1,2}}[.)]) (?:\*\*)?{_VERBS}",
    ),
    cue("procedural", 0.1, "1. |2. |1) |2) ", r"\n\s{0,8}[1-9][.)] "),
    cue("procedural", 0.4, "", rf"\W{{0,8}}(?:\d{{1,2}}[.)] )?{_VERBS} (?!to me)", origins=_SHOWN, where="opening"),
    said(
        "procedural",
        0.4,
        "if when whenever once before after",
        rf"(?:if|when|whenever|once|before|after) [^.,;:\n]{{3,80}}[,:] (?:then |just |first |always |you |"
        rf"please )?{_VERBS}",
    ),
    cue(
        "procedural",
        0.35,
        "",
        rf"\W{{0,4}}(?:always|never|don't|do not|every(?:body|one)? |whenever|when(?! did| was| is| are)|if|before|"
        rf"after|once|until|for new|to {_VERBS})\b(?![^?\n]{{0,200}}\?)",
        where="opening",
    ),
    said(
        "procedural",
        0.2,
        "make sure forget always never then you must should",
        r"(?:make sure|be sure to|don'?t forget to|always|never|only then) \w",
        rf"you (?:then |just |first |always |can |should |need to |have to |must )?{_VERBS}",
        r"(?:must|should) (?:be|not|never|always)\b",
    ),
    # code: the thing itself
    cue("code", 0.35, "```|~~~", r"\n\s{0,8}(?:```|~~~)"),
    cue("code", 0.25, "```|~~~", r"\n\s{0,8}(?:```|~~~)[\w+-]+\s*$"),
    cue(
        "code",
        0.65,
        "",
        r"\n(?:diff --git|@@ -\d|\+\+\+ |--- a/|<{7} |>{7} |#!/)",
        raw=True,
    ),
    cue(
        "code",
        0.65,
        'Traceback|File "|Error|Exception|  at |\tat |error|fatal: |warning: |WARN|INFO|ERROR|DEBUG',
        r"\n[ \t]{0,40}(?:Traceback \(most recent|File \".+\", line \d|(?:Uncaught )?[\w.]{1,80}(?:Error|"
        r"Exception)[:( ]|at \S+ ?\(.+:\d|error(?:\[E\d|:)|fatal: |warning: |\[?(?:WARN|INFO|ERROR|"
        r"DEBUG)(?:ING)?\]?[ :]|npm ERR!)",
        r"\n\[?\d{4}-\d\d-\d\d[T ]\d\d:\d\d\S{0,20} \[?(?:WARN|INFO|ERROR|DEBUG)",
        raw=True,
    ),
    cue(
        "code",
        0.6,
        "",
        r"\n[ \t]{0,40}(?:def \w+\(|class \w+[(:{]|(?:async )?function\b.*\(|func [\w(]|(?:pub )?fn \w+|"
        r"import [\w.{\"]+$|from [\w.]+ import|#include|package \w+;?$|(?:export )?const \w+ =|let \w+ =|(?:public|"
        r"private|static) \w+ \w+[ ({=])",
        r"\n(?:SELECT [^\n]{1,200}|CREATE (?:TABLE|INDEX)|ALTER TABLE|INSERT INTO|UPDATE \w+ SET)",
        raw=True,
    ),
    said(
        "code",
        0.5,
        "denied exit exited passed failed dumped branch matches bash zsh sh directory",
        r"(?:command not found|permission denied|no such file)\s",
        r"exit(?:ed with)? (?:code|status) \d|(?:passed|failed)(?:, \d| in \d)|core dumped",
        r"on branch \S+\n|no matches found\s*$",
    ),
    cue("code", 0.5, "rw-|├──|└──|-+-", r"\n[d-][rwx-]{9}|[├└]──|-{2,}\+-{2,}"),
    cue(
        "code", 0.5, "", r"\n[\w./-]{2,120}:\d+:\d*:? ?", r"\n\[[\w.-]+\]$", r"\n\w{2,40} ?= ?\S+$", r"\n[\w.-]{2,40}:$"
    ),
    cue("code", 0.5, "\n+|\n-", r"(?:\n[+-](?:\t| {3})[^\n]{0,300}){2}"),
    cue("code", 0.3, ";|{|}", r"[;{}]\s*$"),
    cue("code", 0.45, "→|\t|: ", r"\n\s{0,8}\d+(?:→|\t|: ?\t)"),
    cue("code", 0.2, "/", r"/[\w.-]{1,80}/(?:[\w.-]{1,80}/){0,18}[\w.-]{1,80}\.\w{1,5}\b"),
    # semantic: what holds beyond this conversation
    said(
        "semantic",
        0.6,
        "prefer hate dislike favorite favourite preference can't",
        r"i (?:really |strongly |generally |usually |always |much )?(?:prefer|hate|dislike|can't stand)\b",
        r"my (?:favou?rite|preference)\b",
    ),
    said("semantic", 0.3, "like love enjoy", r"i (?:really |always |also )?(?:like|love|enjoy)\b"),
    said(
        "semantic",
        0.55,
        "defined called known located responsible based named means refers stands consists founded born belong "
        "belongs depend depends lives defaults",
        r"(?:is|are) (?:defined as|called|known as|located|responsible for|based (?:on|in)|named)\b",
        r"(?:means|refers to|stands for|consists of|belongs? to|depends? on|lives? in|defaults? to|best known for)\b",
        r"(?:founded|was (?:born|founded)|\(born|\(\d{4}[–-]\d{4}\))",
    ),
    said(
        "semantic",
        0.5,
        "my",
        r"my (?:name|wife|husband|partner|birthday|job|email|address|dog|cat|son|daughter|mother|father|sister|"
        r"brother|manager|boss|grand\w{3,6}|goal|dream|passion|budget|team|company)\b[^?\n]{0,60} (?:is|are|works?|"
        r"has|lives?)\b",
        r"my (?:name|birthday|email|goal|dream|passion|budget) ",
    ),
    said(
        "semantic",
        0.45,
        "i'm i i've we're",
        r"i(?:'m| am) (?:a|an|allergic|from|based|vegan|vegetarian|scared of|more of|left-handed|colou?r ?blind|"
        r"into)\b",
        r"i (?:live|work|study|studied|grew up) (?:in|at|as|for|with|on)\b",
        r"i (?:speak|usually|don't (?:eat|drink|like|do|speak))\b|i've been an?\b|we're an?\b",
    ),
    said(
        "semantic",
        0.25,
        "he's she's he she they they're",
        r"(?:s?he|they)(?:'s|'re| is| are| has| hates| loves| works) (?:a|an|the|my|our|very|really|always|also|as|"
        r"from)\b",
    ),
    cue(
        "semantic",
        0.25,
        " is | are | was | were | has | have | supports | requires | uses | provides | holds | needs ",
        r"\n(?!This|That|These|Those|It|There|Here|I|We|You|He|She|They|What|Where|Who|How|Now|"
        r"Let)[A-Z`][\w` .-]{1,40}? (?:is|are|was|were|has|have|supports|requires|uses|provides|holds|needs|takes|"
        r"returns) ",
        raw=True,
    ),
    said(
        "semantic",
        0.3,
        "my our his her their each every both",
        r"(?:my|our|his|her|their|each|every|both) [\w'-]{2,30}(?: [\w'-]{2,30}){0,2}? (?:is|are|has|have|takes|"
        r"holds|needs|means|runs|starts|uses|wins|knows) (?!still|again|now|done|green|fine)",
    ),
    cue(
        "semantic",
        0.3,
        "",
        r"\W{0,4}(?:the|all) [\w'.-]{2,30}(?: [\w'.-]{2,30}){0,3}? (?:is|are|has|have|takes|holds|needs|means|runs|"
        r"starts|uses|wins|knows) (?!still|again|now|done|green|fine)",
        where="opening",
    ),
    cue("semantic", 0.1, "**", r"\n\s{0,8}(?:[-*] )?\*\*[^*\n]{2,60}\*\*:? "),
    said(
        "semantic",
        0.2,
        "always never default general typically supports requires usually generally fyi context know every",
        r"(?:always|never|by default|in general|typically|supports|requires|usually|generally|fyi|for context|"
        r"just so you know|every (?:other )?(?:day|week|month|year|morning|evening|night|\w{3,6}day))\b",
    ),
    cue(
        "semantic",
        0.4,
        "",
        r"\W{0,4}(?:glossary|features|requirements|(?:known )?limitations|overview|licen[cs]e|about|persona|"
        r"background|fyi|for context|by \W?\w+\W? (?:i|we) mean|when i say)\b",
        where="opening",
    ),
    # episodic: something happened, to somebody, at some time, or is asked for now
    said(
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
    cue("episodic", 0.3, "at 0|at 1|at 2", r"\bat [012]?\d:\d\d\b"),
    said(
        "episodic",
        0.25,
        "i we he she they i've we've",
        rf"(?:i|we|he|she|they)(?:'ve| have)? (?:just |recently |finally |both |all |also |then |never )?{_PAST}\b",
        r"(?:i've|we've|i have) (?:just |been |finally )?\w+(?:ed|ing)\b",
    ),
    cue("episodic", 0.5, "?", r"\?\W{0,6}\Z", where="ending"),
    said(
        "episodic",
        0.4,
        "can could help ideas advice tips think should suggest",
        r"(?:can|could) you\b|help me\b|what do you think|do you think|any (?:ideas|advice|tips)\b|should i\b",
        origins=_TOLD,
    ),
    cue("episodic", 0.15, "?", r"\?(?:\s|$)", origins="human|assistant|subagent"),
    cue(
        "episodic",
        0.4,
        "",
        r"\W{0,4}(?:\w{2,12}[,.!]? )?(?:please|pls|can|could|would|will) (?:you|u|someone|we|i)\b",
        r"\W{0,4}(?:(?:ok|so|and|hey|hi|but|hmm+|wait)[,.]? )?(?:please|pls|help|what|what's|whats|why|how(?! to)|"
        r"who|where|which|is (?:there|it|this|that)|do (?:we|you|i|they)|does|did|are (?:we|you|there)|have (?:we|"
        r"you)|should)\b",
        origins=_TOLD,
        where="opening",
    ),
    cue(
        "episodic",
        0.4,
        "",
        r"\W{0,4}(?:(?:ok(?:ay)?|now|and|then|please|pls|great|good)[,.]? ){0,4}(?:now )?(?:fix|add|make|rename|"
        r"write|implement|run|check|look|show|explain|update|remove|refactor|create|tell|try|review|undo|continue|"
        r"go on|take a|find|summari[sz]e|generate|translate|give me|list|commit|push|start|open|rerun|investigate|"
        r"search|compare|merge|install|do the|let me know)\b",
        origins=_TOLD,
        where="opening",
    ),
    cue(
        "episodic",
        0.5,
        "",
        r"\W{0,4}(?:(?:ok(?:ay)?|now|great|good|perfect|right)[,.!]? )?(?:let me|i'?ll (?:start|begin|look|check|now|"
        r"update|go|run|take|add|fix|also|first|search|read|try)|i(?:'m| am) (?:going|now|sorry|still|glad|happy)|"
        r"i(?:'ve| have)\b|i \w{2,12}ed\b|i (?:ran|found|could|see|notice|hear|think)|now (?:i|let|to|the)|done|"
        r"found|fixed|good question|great|perfect|congratulations|you're (?:right|welcome)|running|reading|looking|"
        r"checking|trying|searching|still|so far|all (?:\w+ )?(?:tests|tasks|checks)|thank|that sounds|happy to|"
        r"before i|would you|which|it seems|hi\b|hello|sure)",
        origins=_AGENT,
        where="opening",
    ),
    said(
        "episodic",
        0.3,
        "thanks thank congrats congratulations sorry lol haha wow birthday luck ugh omg awesome amazing proud "
        "excited glad job how",
        r"(?:thanks|thank you|congrat\w*|sorry|lol|haha\w*|wow|happy birthday|good luck|ugh|omg|awesome|amazing|glad|"
        r"so proud|excited|great job|how are)\b",
        origins="human|assistant|subagent",
    ),
    said(
        "episodic",
        0.25,
        "i'm am still we're",
        r"(?:i'm|i am|we're) (?:\w{2,15}ing|stuck|still|so|in the middle)\b|still (?:failing|getting|waiting|broken|"
        r"no)\b",
    ),
)
"""The table of cues. Those of one type add up as independent evidence: 1 - Π(1 - weight)."""

PRIORS: Final = {
    "human": ("episodic", 0.3),
    "assistant": ("episodic", 0.25),
    "subagent": ("episodic", 0.25),
    "summary": ("episodic", 0.3),
    "tool": ("code", 0.45),
    "document": ("semantic", 0.4),
    "runtime_context": ("semantic", 0.3),
}
"""By origin: what a text is before a word of it is read, and how likely."""

_CUES_OF: Final = {origin: tuple(row for row in CUES if not row.origins or origin in row.origins) for origin in PRIORS}

_ORIGIN_OF: Final = {"assistant": "assistant", "tool": "tool", "system": "runtime_context", "document": "document"}
"""By role, for an origin nobody knows."""

PRECEDENCE: Final = ("decision", "procedural", "code", "semantic", "episodic")
"""The tie rule: the earlier wins. Rarer types come first, the default last."""

_IMPERATIVE: Final = frozenset(_VERBS[3:-3].split("|")) | {"don't", "do"}
_CLAUSE = re.compile(
    r"[,.;:\n] ?(?:\d{1,2}[.)] |[-*] )?(?:then |and then |and |finally |next |just |always )?([a-z']{2,20}) "
)
_WORD = re.compile(r"[a-z']+")
_CODE_SIGNS: Final = "{}()[];=<>_|&"
_DENSITY_FLOOR: Final = 0.04
"""Code signs a character: English prose has under .02, source code .06 to .15."""
_DENSITY_WEIGHT: Final = 0.7
_MATHS: Final = ("\\frac", "\\cdot", "\\times", "\\sqrt", "\\text{")
"""A formula in TeX is as dense in signs as source code."""
_FEWEST_SIGNS: Final = 5
"""A smiley is no code."""

_SUREST: Final = 0.999
"""Scores above it count as it: past that, more cues say nothing new."""


class TypeModel(NamedTuple):
    """A softmax regression over `features`; one column a type, in the order of TYPES."""

    weights: F32  # float32[f, 5]
    bias: F32  # float32[5]
    temperature: F32  # float32[], divides the logits (Guo et al. 2017, On Calibration of Modern Neural Networks)


DAMAGE: Final = (
    OSError,
    ValueError,
    KeyError,
    EOFError,
    RuntimeError,  # an entry that claims to be encrypted, or packed in a way nobody knows
    tokenize.TokenError,  # numpy reads an array's header as Python
    zipfile.BadZipFile,
    zlib.error,
)
"""What numpy and zipfile raise over an npz file with wrong bytes."""


def load_types(data: bytes) -> TypeModel:
    """The model in the bytes of an npz file.

    Raises:
        StoreError: the bytes are damaged, or of another layout.
    """
    remedy = "the file is damaged: restore it from a backup, or rebuild the store with 'helix ingest'"
    try:
        with np.load(io.BytesIO(data), allow_pickle=False) as arrays:
            model = TypeModel(*(np.asarray(arrays[name], np.float32) for name in TypeModel._fields))
    except DAMAGE as error:
        raise StoreError(f"the type classifier cannot be read: {error}", remedy) from None
    k = len(TYPES)
    if model.weights.shape[1:] != (k,) or model.bias.shape != (k,) or model.temperature.shape or model.temperature <= 0:
        raise StoreError(f"the type classifier cannot be read: its arrays do not fit {len(TYPES)} types", remedy)
    return model


def classify(text: str, role: str, origin: str) -> tuple[str, float]:
    """The type of `text` and how sure the cues are, in [0, 1).

    The type with the highest score wins; its score is the confidence. Ties go by `PRECEDENCE`.

    Args:
        text: one item; only the first `SCANNED` characters count.
        role: one of `helix.types.ROLES`.
        origin: as in `helix.types.Turn`.
    """
    return _strongest(cue_scores(text, role, origin))


@lru_cache(maxsize=4_096)  # a session that grows is judged anew with all that came before
def cue_scores(text: str, role: str, origin: str) -> tuple[float, ...]:
    """How strongly the cues speak for each of TYPES, in that order, each in [0, 1). Arguments as for `classify`."""
    text = "\n" + text[:SCANNED]  # so that every line begins with a break
    lower = text.lower().replace("’", "'")
    words = frozenset(_WORD.findall(lower))
    known = origin if origin in PRIORS else _ORIGIN_OF.get(role, "human")
    doubt = dict.fromkeys(TYPES, 1.0)
    kind, weight = PRIORS[known]
    doubt[kind] = 1 - weight
    for row in _CUES_OF[known]:
        if not (row.words and row.words.isdisjoint(words)) and row.seen(text, lower):
            doubt[row.name] *= 1 - row.weight
    doubt["procedural"] *= 1 - _imperatives(lower, known)
    doubt["code"] *= 1 - _density(text)
    return tuple(1 - left for left in doubt.values())


def classify_all(
    texts: Sequence[str], roles: Sequence[str], origins: Sequence[str], vectors: F32 | None, model: TypeModel | None
) -> list[tuple[str, float]]:
    """The type of each text and the probability that it is right; without vectors or a model, the cues' word.

    Args:
        texts, roles, origins: as for `classify`, n of each.
        vectors: float32[n, d], what the model's encoder made of the texts.

    Raises:
        StoreError: the model is for vectors of another width.
    """
    scores = [cue_scores(*item) for item in zip(texts, roles, origins, strict=True)]
    if vectors is None or model is None or not scores:
        return [_strongest(row) for row in scores]
    chances = probabilities(features(scores, roles, origins, vectors), model)
    best = chances.argmax(axis=1)
    sure = chances[np.arange(len(best)), best]
    return [(TYPES[i], round(p, 4)) for i, p in zip(best.tolist(), sure.tolist(), strict=True)]


def features(scores: Sequence[tuple[float, ...]], roles: Sequence[str], origins: Sequence[str], vectors: F32) -> F32:
    """What the model sees: the vector, each type's evidence -log(1 - score), role and origin one-hot.

    Evidence adds up where scores saturate, as a linear model needs it.

    Args:
        scores: n of `cue_scores`.
        vectors: float32[n, d].

    Returns:
        float32[n, d + 5 + 5 + 7].
    """
    evidence = -np.log1p(-np.minimum(np.asarray(scores, np.float32), _SUREST))
    return np.hstack([vectors, evidence, _one_hot(roles, ROLES), _one_hot(origins, tuple(PRIORS))])


def probabilities(x: F32, model: TypeModel) -> F32:
    """Softmax of the model's logits: float32[n, f] → float32[n, 5], rows sum to 1.

    Raises:
        StoreError: x is of another width than the model.
    """
    if x.shape[1] != len(model.weights):
        raise StoreError(
            f"the type classifier takes {len(model.weights)} features, not {x.shape[1]}",
            "it belongs to another encoder: rebuild the store with 'helix reindex'",
        )
    logits = (x @ model.weights + model.bias) / model.temperature
    powers = np.exp(logits - logits.max(axis=1, keepdims=True))
    return np.asarray(powers / powers.sum(axis=1, keepdims=True), np.float32)


def _one_hot(values: Sequence[str], known: tuple[str, ...]) -> F32:
    """float32[n, len(known)]; a row of zeros for a value nobody knows."""
    rows = np.vstack([np.eye(len(known), dtype=np.float32), np.zeros(len(known), np.float32)])
    place = {name: i for i, name in enumerate(known)}
    return np.asarray(rows[[place.get(value, len(known)) for value in values]], np.float32)


def _strongest(scores: tuple[float, ...]) -> tuple[str, float]:
    """The type of the highest score and that score; ties by `PRECEDENCE`."""
    best = max(PRECEDENCE, key=lambda name: round(scores[TYPES.index(name)], 6))
    return best, round(scores[TYPES.index(best)], 4)


def _imperatives(lower: str, origin: str) -> float:
    """Weight of clauses that begin with an imperative: one may be chance, and from a human a request."""
    found = sum(word in _IMPERATIVE for word in _CLAUSE.findall(lower))
    if found > 1:
        return 0.35 if origin == "human" else 0.5
    return 0.2 if found and origin != "human" else 0.0


def _density(text: str) -> float:
    """Weight of the density of code signs: 0 at the floor, `_DENSITY_WEIGHT` from four times the floor."""
    signs = sum(map(text.count, _CODE_SIGNS))
    if signs < _FEWEST_SIGNS or any(sign in text for sign in _MATHS):
        return 0.0
    excess = (signs / len(text) - _DENSITY_FLOOR) / (3 * _DENSITY_FLOOR)
    return _DENSITY_WEIGHT * min(1.0, max(0.0, excess))
