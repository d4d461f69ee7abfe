"""Rules about possessions, tastes and languages."""

from __future__ import annotations

from typing import Final

from helix.enrich.facts.rules.grammar import ADVERBS, IS, OBJECT, make_person
from helix.enrich.facts.rules.rule import make_rule
from helix.enrich.facts.slots.people import read_diet, read_languages
from helix.enrich.facts.slots.things import read_one_thing, read_possession, read_taste
from helix.enrich.facts.words import DIETS

HELD: Final = (
    "house|flat|apartment|cottage|cabin|farm|boat|car|van|motorbike|motorcycle|bike|campervan|caravan|piano|guitar|"
    "violin|cello|telescope|tractor|truck|yacht|scooter|kayak|canoe|greenhouse|allotment|vineyard"
)
BOUGHT: Final = (
    f"{HELD}|condo|bicycle|camera|laptop|phone|narrowboat|houseboat|drum kit|synthesizer|keyboard|tent|surfboard|"
    "printer|drone|bakery|shop|studio|farmhouse|barn|plot|bungalow|Tesla|sailboat|ebike|e-bike|moped|console|tablet|"
    "watch|horse|loom|kiln|sewing machine|accordion|saxophone|trumpet|harp"
)
FOND: Final = (
    "into|fond of|keen on|obsessed with|crazy about|mad about|a sucker for|"
    "an? (?:big |huge |massive |great |real |total |avid |lifelong )?fan of"
)

# fmt: off
TASTES: Final = (
    make_rule("owns", read_possession, 0.9, "own owns", make_person("own", "owns") + OBJECT),
    make_rule("owns", read_possession, 0.8, "bought purchased inherited",
          make_person(f"(?:have )?{ADVERBS}(?:bought|purchased|inherited)(?: ourselves| myself| us)?",
          "(?:has )?(?:bought|purchased|inherited)") + rf" (?P<o>(?:an?|our|my) (?:[\w-]+ ){{0,3}}?(?:{BOUGHT})\b.*)"),
    make_rule("owns", read_possession, 0.75, "drive drives",
          make_person("drive", "drives") + r" (?P<o>an? (?:[\w-]+ ){0,2}[A-Z0-9].*)"),
    make_rule("owns", read_possession, 0.8, "sold", make_person("(?:have )?sold", "(?:has )?sold") +
          r" (?P<o>(?:my|our|his|her|their) (?:[\w-]+ ){0,3}.*)", closes=True),
    make_rule("likes", read_taste, 0.85,
          "love loves like likes enjoy enjoys adore adores into fond keen obsessed fan crazy mad sucker",
          make_person(f"love|like|enjoy|adore|(?:am|are|have been) {ADVERBS}(?:{FOND})",
          f"loves|likes|enjoys|adores|(?:is|has been) {ADVERBS}(?:{FOND})") + OBJECT),
    make_rule("likes", read_taste, 0.8, "favourite favorite",
          r"\b(?P<s>[Mm]y) (?:all-time )?(?:favou?rite) (?:[a-z]+ ){0,2}"
          "(?:is|are) (?P<o>(?!when|how|that|to|the one|probably).+)"),
    make_rule("dislikes", read_taste, 0.85,
          "hate hates dislike dislikes detest detests loathe loathes despise despises stand bear",
          make_person("hate|dislike|detest|loathe|despise|can not stand|can not bear",
          "hates|dislikes|detests|loathes|despises|can not stand|can not bear") + OBJECT, negative=True),
    make_rule("dislikes", read_taste, 0.8, "not",
          make_person("do not (?:really )?(?:like|enjoy)|am not (?:really )?(?:a |an? )?(?:big |huge )?(?:fan of|into|"
                      "fond of|keen on)", "does not (?:really )?(?:like|enjoy)") + OBJECT, negative=True),
    make_rule("prefers", read_one_thing, 0.9, "prefer prefers", make_person("prefer", "prefers") + OBJECT),
    make_rule("allergic_to", read_taste, 0.95, "allergic", IS + f" {ADVERBS}allergic to{OBJECT}"),
    make_rule("allergic_to", read_taste, 0.9, "allergy",
          make_person("have", "has") + " (?:an? |this )?(?:severe |bad |mild |terrible |serious |strong |"
          r"nasty )?(?P<o>[a-z]+(?: [a-z]+)?) allergy(?=[.,;!]|\Z| (?:and|so|but|that|which|since)\b)"),
    make_rule("allergic_to", read_taste, 0.9, "allergy", make_person("have", "has") +
          f" (?:an? )?(?:[a-z]+ )?allergy to{OBJECT}"),
    make_rule("diet", read_diet, 0.9, "vegan vegetarian pescatarian pescetarian flexitarian free keto ketogenic paleo "
                                      "carb fodmap based halal kosher carnivore teetotal mediterranean",
          make_person("am|have been|went|turned|became|eat|am eating|follow|am on|am following",
          "is|has been|went|turned|became|eats|is eating|follows|is on|is following") +
          rf" {ADVERBS}(?P<o>(?:an? )?(?:strict(?:ly)? |fully |mostly |completely )?(?:{DIETS})\b.*)"),
    make_rule("speaks", read_languages, 0.95, "speak speaks fluent",
          make_person(f"(?:can )?speak|am {ADVERBS}fluent in",
          f"(?:can )?speaks?|is {ADVERBS}fluent in") +
          " (?:fluent |native |both |a little |a bit of |some )?(?P<o>.+)"),
    make_rule("speaks", read_languages, 0.95, "language tongue",
          rf"\b(?P<s>[Mm]y) (?:native language|mother tongue|first language|native tongue) is{OBJECT}"),
)
# fmt: on
