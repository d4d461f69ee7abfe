"""Rules about endings, and rarer phrasings of all relations."""

from __future__ import annotations

from typing import Final

from helix.enrich.facts.rules.grammar import ADVERBS, AND_I, BEFORE, IS, OBJECT, THING, make_person
from helix.enrich.facts.rules.rule import make_rule
from helix.enrich.facts.rules.tastes import HELD
from helix.enrich.facts.rules.things import FROM
from helix.enrich.facts.slots.people import (
    read_called_name,
    read_introduced_name,
    read_languages,
    read_organisation,
    read_person,
    read_role,
)
from helix.enrich.facts.slots.things import read_possession, read_responsibility, read_tool
from helix.enrich.facts.slots.values import read_action, read_nothing, read_number, read_value, read_version

# fmt: off
ENDINGS: Final = (
    make_rule("works_at", read_organisation, 0.9, "quit left resigned fired laid lost",
          make_person(f"(?:have )?{ADVERBS}(?:quit|left|resigned from|lost|was (?:fired|laid off) from|got (?:fired|"
          "laid off) from)(?: (?:my|the) (?:old )?(?:job|position|role|post|gig))(?: (?:at|with|for))",
          "(?:has )?(?:quit|left|resigned from|lost) (?:her|his|their|the) (?:job|position|role|post) (?:at|with|for)")
          + OBJECT, closes=True),
    make_rule("works_at", read_organisation, 0.85, "quit resigned fired laid", make_person("(?:have )?(?:quit|"
                                                                                           "resigned from|was "
                                                                                           "(?:fired|laid off) from|"
                                                                                           "got (?:fired|laid off) "
                                                                                           "from|(?:have been) laid "
                                                                                           "off from)",
          "(?:has )?(?:quit|resigned from|was (?:fired|laid off) from|got (?:fired|laid off) from)") +
          " (?P<o>[A-Z].+)", closes=True),
)
# fmt: on

# fmt: off
RARE: Final = (
    make_rule("name_is", read_called_name, 0.85, "name", rf"(?:\A|[,.] )(?P<s>[Nn]ame) is{OBJECT}"),
    make_rule("name_is", read_called_name, 0.85, "call calls", r"\b(?:[Pp]eople|(?:[Mm]y )?[Ff]riends|[Ee]veryone|"
                                                               "[Ee]verybody|[Tt]hey(?: all)?) (?:just )?calls? "
                                                               "(?P<s>me) (?P<o>[A-Z].*)"),
    make_rule("name_is", read_introduced_name, 0.8, "hi hello hey am", r"\A(?:[Hh]i|[Hh]ello|[Hh]ey)(?: (?:there|all|"
                                                                       "everyone|everybody|team|folks))?[,!]? "
                                                                       "(?P<s>I) am (?P<o>[A-Z].*)"),
    make_rule("partner", read_person, 0.85, "together",
          rf"{AND_I} (?:are|have been) (?:back |now |still )?together(?= since| now| again|[.!,]|\Z)"),
    make_rule("owns", read_possession, 0.75, "have has got", make_person("have(?: got)?|got", "has(?: got)?") +
          rf" (?P<o>an? (?:[\w-]+ ){{0,2}}(?:{HELD})(?=[.,;!]|\Z| and\b| in\b| near\b| called\b).*)"),
    make_rule("uses", read_tool, 0.9, "dropped ditched abandoned",
          make_person("(?:have )?(?:just |finally )?(?:dropped|ditched|abandoned)",
          "(?:has )?(?:dropped|ditched|abandoned)") +
          rf" (?P<old>\S{{2,30}}(?: \S{{2,20}})?) (?:for|in favou?r of){OBJECT}"),
    make_rule("set_to", read_value, 0.85, "_",
          r"(?:\A|[,(] ?|\band )(?P<t>[A-Z][A-Z0-9]*(?:_[A-Z0-9]+)+) is (?:now |still |currently )?(?P<o>(?!missing|"
          "required|deprecated|unset|empty|optional|broken|wrong|used|defined|set|the|a|an|what|where|how|in|on|to|"
          "for|just|also|only|always|never|gone|too|so|very|being|already|valid|invalid|ignored|exported|available|"
          r"important)[`\"']?[\w.-]+(?=[`\"']?(?:\Z|[.,;]| on\b| in\b| for\b| now\b| at\b| again\b)).*)"),
    make_rule("set_to", read_number, 0.8, "is",
          rf"{BEFORE}(?P<t>[A-Z]{{3,}}[A-Z0-9]*) is (?:now |still |currently |set at )?(?P<o>\d.*)"),
    make_rule("owned_by", read_responsibility, 0.85, "responsible charge",
          make_person(f"(?:am|are) {ADVERBS}(?:responsible for|in charge of)",
          f"is {ADVERBS}(?:responsible for|in charge of)") +
          r" (?P<thing>(?!the |our |all |my |your |this |that |it\b|\w+ing \w).+)"),
    make_rule("owned_by", read_responsibility, 0.8, "took taken taking",
          make_person("(?:have )?(?:took|taken) over", "(?:has )?(?:took|taken) over") +
          " (?P<thing>(?:the|our|all) .+)"),
    make_rule("works_at", read_nothing, 0.85, "quit left lost job laid fired",
          f"{BEFORE}(?P<s>I) (?:have )?(?:just |finally |recently )?(?:(?:quit|left|lost|resigned from) my job|"
          r"was laid off|got laid off|was fired|got fired)(?=[.,;!]|\Z| (?:in|on|last|yesterday|today|"
          r"this|two|three|a|after|and|to|a few)\b)", closes=True),
    make_rule("spouse", read_nothing, 0.85, "divorced",
          f"{BEFORE}(?P<s>I|[Ww]e) (?:am|got|are|have been) (?:now |finally |recently )?divorced(?! from)",
          closes=True),
    make_rule("works_as", read_role, 0.8, "started",
          make_person("(?:have )?(?:just )?started as an?", "(?:has )?(?:just )?started as an?") + OBJECT),
    make_rule("speaks", read_languages, 0.9, "speaker", IS + " (?:a )?native (?P<o>[A-Z][a-z]+) speaker"),
    make_rule("uses", read_tool, 0.8, "uses using",
          rf"{BEFORE}(?:[Oo]ur (?P<t>[\w-]+(?: [\w-]+)?)|[Tt]he (?P<app>app|project|service|backend|frontend|api|repo|"
          f"pipeline|site|website)) (?:now |currently |still |also ){{0,2}}(?:uses|is using){OBJECT}"),
    make_rule("set_to", read_value, 0.85, "changed raised lowered increased reduced bumped extended decreased",
          f"{THING} (?:was|were|has been|have been|got) {ADVERBS}(?:changed|raised|lowered|increased|reduced|bumped|"
          f"extended|decreased) {FROM} to{OBJECT}"),
    make_rule("version_is", read_version, 0.85, "version",
          rf"{BEFORE}(?:[Oo]ur|[Tt]he) (?P<t>[\w.+#-]{{2,30}}) version is "
          r"(?:now |currently |still )?(?:at )?(?P<o>v?\d.*)"),
    make_rule("decided", read_action, 0.8, "decided agreed",
          f"{BEFORE}(?P<s>I|[Ww]e) (?:have |all |finally |also |just ){{0,3}}(?:decided|agreed) that{OBJECT}"),
)
# fmt: on
