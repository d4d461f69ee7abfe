"""Rules about tools, decisions, settings, versions and places of things."""

from __future__ import annotations

from typing import Final

from helix.enrich.facts.rules.grammar import (
    ADVERBS,
    AGENT,
    BEFORE,
    DETERMINED,
    JUST,
    OBJECT,
    PHRASE,
    TEAM,
    THING,
    WORD,
    make_agent,
    make_person,
)
from helix.enrich.facts.rules.rule import make_rule
from helix.enrich.facts.slots.people import read_person, read_place
from helix.enrich.facts.slots.things import read_one_thing, read_responsibility, read_tool
from helix.enrich.facts.slots.values import read_action, read_host, read_number, read_path, read_value, read_version
from helix.enrich.facts.words import NAME, SETTING_NOUN

CHANGE: Final = (
    "changed|bumped|raised|lowered|increased|reduced|updated|decreased|cut|dropped|extended|shortened|doubled|halved"
)
CHANGED: Final = make_agent(CHANGE)
UPGRADED: Final = make_agent("upgraded|bumped|updated|downgraded|migrated|moved|pinned")
FROM: Final = r"from (?P<old>\S{1,40}(?: (?:seconds?|minutes?|ms|MB|GB|hours?|days?|s))?)"
PACKAGE: Final = r"(?P<t>[`\"']?[A-Za-z][\w.@/+#`\"'-]{0,40}(?: [A-Z][\w.]{0,20}){0,2})"
PROJECT: Final = "project|repo|service|app|backend|frontend|team|codebase"
VERSION: Final = r"(?:version )?(?P<o>v?\d.*)"

# fmt: off
TOOLS: Final = (
    make_rule("uses", read_tool, 0.85, "use uses using rely relies relying",
          make_person(f"use|(?:am|are) {ADVERBS}using|have {ADVERBS}been using|rely on|are {ADVERBS}relying on|using",
          f"uses|is {ADVERBS}using|relies on") + OBJECT),
    make_rule("uses", read_tool, 0.8, "uses use using",
          f"{BEFORE}(?P<we>(?:[Oo]ur|[Tt]he) (?:whole |entire )?team) {ADVERBS}(?:uses?|is using){OBJECT}"),
    make_rule("uses", read_tool, 0.9, "switched migrated moved ported went changed transitioned",
          make_person(f"(?:have )?{ADVERBS}(?:switched|migrated|moved|ported|went|changed|transitioned)"
          "(?: [a-z -]{2,30}?| everything| over| away)?", "(?:has )?(?:switched|migrated|moved)(?: over)?") +
          f" from (?P<old>.{{2,40}}?) (?:over )?to{OBJECT}"),
    make_rule("uses", read_tool, 0.8, "switched migrated",
          make_person(f"(?:have )?{ADVERBS}(?:switched|migrated)(?: [a-z ]{{2,30}}?| over| everything)?",
          "(?:has )?(?:switched|migrated)(?: over)?") + f" to{OBJECT}"),
    make_rule("uses", read_tool, 0.9, "replaced swapped",
          make_person(f"(?:have )?{ADVERBS}(?:replaced|swapped(?: out)?)",
          "(?:has )?(?:replaced|swapped(?: out)?)") + f" (?P<old>.{{2,40}}?) (?:with|by|for){OBJECT}"),
    make_rule("uses", read_tool, 0.8, "dropped ditched rid phased abandoned retired away off",
          make_person(f"(?:have )?{ADVERBS}(?:dropped|ditched|abandoned|got rid of|gotten rid of|phased out|retired|"
                      "(?:moved|migrated) (?:away from|off(?: of)?))", "(?:has )?(?:dropped|ditched|got rid of)") +
          " (?P<o>[A-Z].+)", closes=True),
    make_rule("decided", read_action, 0.9, "decided agreed chose opted resolved",
          f"(?:{BEFORE}|(?<!that )(?<!what )(?<!thing "
          rf")\b(?=(?:I|we)\b))(?:(?P<s>I|[Ww]e)|{TEAM}|(?P<n>{NAME})) (?:have |has |all |finally |also |just |"
          f"then |had ){{0,3}}{ADVERBS}(?:decided|agreed|chose|opted|resolved) to{OBJECT}"),
    make_rule("decided", read_one_thing, 0.75, "decided settled",
          f"{BEFORE}(?:(?P<s>I|[Ww]e)|{TEAM}) (?:have |all |finally |"
          r"also |just ){0,3}(?:decided on|settled on) (?P<o>(?!\d|version|one|two|three|four|five)[^:]+)\Z"),
    make_rule("decided", read_action, 0.8, "decision",
          f"{BEFORE}(?P<we>(?:[Tt]he|[Oo]ur) (?:final )?decision) (?:is|was) to{OBJECT}"),
)
# fmt: on

# fmt: off
SETTINGS: Final = (
    make_rule("set_to", read_value, 0.9, "set configured",
          f"{THING} (?:is|are|was|were|has been|have been|had been) {ADVERBS}(?:set|configured) to{OBJECT}"),
    make_rule("set_to", read_value, 0.85, "set",
          rf"{AGENT}{JUST}set (?!up\b|my\b)(?:the |our )?(?P<t>{PHRASE}) (?:back )?to{OBJECT}"),
    make_rule("set_to", read_value, 0.9, CHANGE,
          rf"{CHANGED} (?:the |our )?(?!my\b)(?P<t>{PHRASE}) {FROM} (?:down |up |back )?to{OBJECT}"),
    make_rule("set_to", read_number, 0.85, "changed bumped raised lowered increased reduced extended decreased",
          rf"{CHANGED} (?:the |our )?(?!my\b)(?P<t>{PHRASE}) (?:down |up |back )?to{OBJECT}"),
    make_rule("set_to", read_value, 0.9, "_",
          f"{BEFORE}(?P<t>[A-Z][A-Z0-9]*(?:_[A-Z0-9]+)+|[a-z][a-z0-9]*(?:_[a-z0-9]+)+) "
          rf"(?:is|are) {ADVERBS}(?:at )?(?P<o>[`\"']?(?:\d|true\b|false\b|on\b|off\b|enabled\b|disabled\b|True\b|"
          r"False\b|/|https?:).*)"),
    make_rule("set_to", read_number, 0.75, SETTING_NOUN,
          f"{BEFORE}(?P<det>[Tt]he|[Oo]ur|[Mm]y) (?P<t>(?:{WORD} ){{0,3}}?(?i:{SETTING_NOUN})) (?:is|are) (?:now |"
          r"currently |still |back to |back at |at |only |already ){0,2}(?P<o>[`\"']?\d.*)"),
    make_rule("version_is", read_version, 0.9, "upgraded bumped updated downgraded migrated moved went",
          rf"{UPGRADED}(?: from)? (?:the |our |my )?{PACKAGE}(?: version)? (?:from )?(?P<old>v?\d[\w.-]{{0,20}}) to "
          r"(?:[A-Z]\w* )?(?P<o>v?\d.*)"),
    make_rule("version_is", read_version, 0.85, "upgraded bumped updated downgraded pinned",
          f"{UPGRADED} (?:the |our |my )?{PACKAGE} (?:up |down |back )?(?:to|at) {VERSION}"),
    make_rule("version_is", read_version, 0.85, "upgraded updated moved switched migrated",
          f"{BEFORE}(?P<agent>[Ww]e|I) (?:have |just |already |also |finally ){{0,3}}(?:upgraded|updated|moved|"
          rf"switched|migrated) to (?P<t>[A-Za-z][\w.@/+#-]{{0,40}}) {VERSION}"),
    make_rule("version_is", read_version, 0.85, "on using running at",
          rf"{BEFORE}(?P<agent>[Ww]e|I|[Oo]ur \w+|[Tt]he (?:{PROJECT})) (?:are|am|is) {ADVERBS}(?:on|at|running|"
          rf"running on) (?P<t>[A-Za-z][\w.@/+#-]{{0,40}}(?: [A-Z]\w+)?) {VERSION}"),
    make_rule("version_is", read_version, 0.8, "runs run use uses",
          rf"{BEFORE}(?P<agent>[Ww]e|[Oo]ur \w+|[Tt]he (?:{PROJECT}|"
          rf"CI)) {ADVERBS}(?:runs?) (?:on )?(?P<t>[A-Z][\w.+#-]{{0,40}}) {VERSION}"),
    make_rule("version_is", read_version, 0.85, "version at on",
          rf"{BEFORE}(?P<det>[Tt]he |[Oo]ur )?(?P<t>[\w.+#-]{{2,40}}(?: "
          rf"[\w.+#-]{{2,30}})?) (?:is|are) {ADVERBS}(?:at|on) (?:version |(?=v?\d+\.\d))(?P<o>v?\d.*)"),
    make_rule("version_is", read_version, 0.85, "pinned upgraded updated bumped",
          f"{THING} (?:is|was|has been) {ADVERBS}(?:pinned (?:to|at)|upgraded to|updated to|bumped to) {VERSION}"),
    make_rule("runs_on", read_host, 0.85, "run runs listen listens hosted deployed listening running",
          f"{DETERMINED} {ADVERBS}(?:runs?|listens?|lives?(?= on )|(?:is|are) {ADVERBS}(?:running|listening|hosted|"
          f"deployed)) (?:on|at|to){OBJECT}"),
    make_rule("runs_on", read_host, 0.8, "port",
          rf"{BEFORE}(?P<t>[A-Z][\w-]{{1,30}}(?: [\w-]{{2,20}}){{0,2}}?) {ADVERBS}(?:runs?|"
          rf"listens?|(?:is|are) {ADVERBS}(?:running|listening)) on (?P<o>port \d.*)"),
    make_rule("located_at", read_path, 0.85, "/ py toml yaml yml json jsonl ini cfg conf env md txt log sql db sqlite "
                                             "csv parquet sh ts js tsx rs go lock xml html",
          f"{THING} (?:is|are|lives?|sits?|goes?|go|stays?) {ADVERBS}(?:stored |kept |located |saved |found |written |"
          f"defined |configured |mounted |checked in |right )?(?:in|at|under|inside|to){OBJECT}"),
    make_rule("located_at", read_path, 0.8, "moved", f"{AGENT}{JUST}(?:moved|put) (?:the |our |"
          rf"my )?(?P<t>{PHRASE}) (?:from \S{{1,60}} )?(?:to|into|in|under){OBJECT}"),
    make_rule("located_at", read_place, 0.8, "office headquarters hq warehouse shop lab studio center centre",
          f"{BEFORE}(?P<det>[Tt]he|[Oo]ur) (?:new |main |head )?(?P<t>(?:[a-z]+ )?(?:office|headquarters|HQ|warehouse|"
          f"shop|lab|studio|data ?cent(?:re|er))) (?:is|are) {ADVERBS}(?:located |based )?in{OBJECT}"),
    make_rule("owned_by", read_responsibility, 0.9,
          "responsible charge own owns owner maintain maintains maintainer care after",
          make_person(f"own|am {ADVERBS}(?:responsible for|in charge of|the owner of)|are {ADVERBS}(?:responsible for|"
                      "in charge of)|maintain|take care of|look after",
          f"owns|is {ADVERBS}(?:responsible for|in charge of|the owner of|"
          "the maintainer of)|maintains|takes care of|looks after") + " (?P<thing>(?:the|our|all) .+)"),
    make_rule("owned_by", read_person, 0.9, "owned maintained looked handled led",
          f"{THING} (?:is|are) {ADVERBS}(?:owned|maintained|looked after|handled|led) by{OBJECT}"),
)
# fmt: on
