"""Words and pattern pieces shared by the rules of facts: names, relatives, professions, languages."""

from __future__ import annotations

from typing import Final

from helix.util.wordlists import read_groups

WORDS: Final = read_groups("helix.enrich", "facts")
"""Word sets by heading; the file describes each."""

NOT_NAMES: Final = WORDS["not names"]
TITLES: Final = WORDS["titles"]
JOBS: Final = WORDS["jobs"]
AMBIGUOUS_JOBS: Final = WORDS["ambiguous jobs"]
LANGUAGES: Final = WORDS["languages"]
NATIONALITIES: Final = LANGUAGES | WORDS["nationalities"]
VAGUE: Final = WORDS["vague"]

# Alternatives of a pattern are strings with "|".

MONTHS: Final = "January|February|March|April|May|June|July|August|September|October|November|December"

# A word of a name, a person's name, several names.
CAP: Final = r"[A-ZÀ-ÖØ-Þ][a-zß-öø-ÿ]{1,30}(?:['-][A-Z][a-zß-öø-ÿ]{1,30})?"
NAME: Final = rf"{CAP}(?: {CAP}){{0,2}}"
NAMES: Final = rf"{NAME}(?:(?:,? and |, ?| & ){NAME}){{0,5}}"

KIN: Final = {
    "spouse": "wife|husband|spouse",
    "partner": "partner|boyfriend|girlfriend|bf|gf|fiancé|fiancée|fiance|fiancee",
    "child": "son|sons|daughter|daughters|kid|kids|child|children|toddler|twins|stepson|stepdaughter",
    "parent": "mother|father|mom|mum|mam|dad|mama|papa|stepmother|stepfather|stepmom|stepdad",
    "sibling": "sister|sisters|brother|brothers|sibling|siblings|stepbrother|stepsister",
    "friend": "friend|friends|bestie|buddy|pal|mate|mates",
    "colleague": "colleague|colleagues|coworker|coworkers|co-worker|co-workers|workmate|workmates|teammate|teammates",
    "manager": "manager|boss|supervisor|team lead",
    "pet": (
        "dog|dogs|cat|cats|puppy|puppies|kitten|kittens|kitty|rabbit|rabbits|bunny|parrot|hamster|hamsters|tortoise|"
        "turtle|horse|horses|pony|goldfish|budgie|budgies|ferret|ferrets|lizard|gecko|snake|guinea pig|guinea pigs|"
        "retriever|labrador|poodle|beagle|corgi|collie|dachshund|spaniel|terrier|husky|pet|pets|pup|parakeet|canary"
    ),
}
"""Relation → nouns of its object: "my wife Eva" is a spouse."""
ANY_KIN: Final = "|".join(KIN.values())
OTHER_KIN: Final = "cousin|aunt|uncle|niece|nephew|flatmate|roommate|housemate|neighbour|neighbor|landlord|landlady"

# Not "my ex-husband", "my late father" or "my future wife".
KIN_ADJECTIVE: Final = r"(?:(?!ex\b|late\b|former\b|future\b|imaginary\b|old boss)[a-zé-]{2,14} ){0,2}"

DIETS: Final = (
    "vegan|vegetarian|pescatarian|pescetarian|flexitarian|gluten-free|gluten free|dairy-free|dairy free|lactose-free|"
    "sugar-free|keto|ketogenic|paleo|low-carb|low carb|low-fodmap|low fodmap|plant-based|plant based|halal|kosher|"
    "carnivore|raw vegan|mediterranean|teetotal"
)

# Employers without a name: "a bakery".
INSTITUTIONS: Final = (
    "bakery|bank|bookshop|bookstore|bar|brewery|cafe|café|charity|cinema|clinic|college|council|daycare|embassy|"
    "factory|farm|florist|garage|gallery|garden centre|gym|hardware store|high school|hospital|hotel|kindergarten|"
    "laboratory|law firm|library|museum|newspaper|nursery|nursing home|observatory|pharmacy|post office|"
    "primary school|publisher|pub|research institute|restaurant|school|startup|start-up|studio|supermarket|theatre|"
    "theater|university|vet clinic|zoo"
)

# Names of numeric settings.
SETTING_NOUN: Final = (
    "timeout|limit|port|size|ttl|threshold|interval|rate|retries|retry count|count|level|concurrency|delay|budget|"
    "capacity|window|length|depth|width|height|quota|parallelism|workers|replicas|memory|period|frequency|percentage|"
    "tolerance|seed|temperature|batch|backoff|retention|mode|locale|timezone|time zone|region|endpoint|flag|maximum|"
    "minimum|max|min|ceiling|cap"
)
