"""The words the patterns of facts are made of: names, relatives, professions, languages."""

from __future__ import annotations

from typing import Final


def word_set(text: str) -> frozenset[str]:
    """The words of a text block."""
    return frozenset(text.split())


# Alternatives of a pattern are strings with "|", what a word is looked up in is a set.

MONTHS: Final = "January|February|March|April|May|June|July|August|September|October|November|December"

# What is written with a capital, or taken for a subject, and names nobody.
NOT_NAMES: Final = word_set("""
    i i'm we he she it they you this that these those there here who what which where when why how everyone everybody
    someone somebody anyone nobody people one the a an my our his her their your its and but or so if then also now well
    yes yeah no not ok okay hi hey hello thanks thank please sorry just because since after before while all both each
    some most many few more only even still yet currently today yesterday tomorrow tonight mom mum mama mam dad daddy
    papa grandpa grandma granny grandad uncle aunt auntie brother sister mother father wife husband boss son daughter
    friend monday tuesday wednesday thursday friday saturday sunday january february march april may june july august
    september october november december christmas easter god jesus lol haha omg btw fyi wow oh ah ugh hmm actually
    honestly really finally maybe perhaps let lets let's do does did is are was were am be been has have had will would
    can could should may might must for from in on at to of with by as about like than very too other recent previous
    several early numerous prior various past certain different case field those below above overall once instead
    however therefore next first second third moreover furthermore additionally another such its using based given
    according note dear regarding between within during against under over whenever dr mr mrs ms prof english french
    german spanish italian todo fixme note update done api cli url http json sql ai user users client server team
    everything nothing something anything time life home work school
""")

# What may stand before a name.
TITLES: Final = word_set("grandpa grandma granny grandad uncle aunt auntie dr mr mrs ms prof cousin")

# A name's word; a person's name; several people's.
CAP: Final = r"[A-ZÀ-ÖØ-Þ][a-zß-öø-ÿ]{1,30}(?:['-][A-Z][a-zß-öø-ÿ]{1,30})?"
NAME: Final = rf"{CAP}(?: {CAP}){{0,2}}"
NAMES: Final = rf"{NAME}(?:(?:,? and |, ?| & ){NAME}){{0,5}}"

# Who stands to whom: the noun, and the relation from its owner.
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
ANY_KIN: Final = "|".join(KIN.values())
OTHER_KIN: Final = "cousin|aunt|uncle|niece|nephew|flatmate|roommate|housemate|neighbour|neighbor|landlord|landlady"

# "my ex-husband", "my late father", "my future wife": no state of today.
KIN_ADJECTIVE: Final = r"(?:(?!ex\b|late\b|former\b|future\b|imaginary\b|old boss)[a-zé-]{2,14} ){0,2}"

# Professions, by their last word.
JOBS: Final = word_set("""
    accountant actor actress advisor adviser agent analyst anaesthetist animator anthropologist apprentice archaeologist
    archivist architect artist assistant astronomer athlete attorney auditor author baker banker barber barista
    bartender beekeeper biologist blacksmith bookkeeper botanist bouncer brewer bricklayer broker builder butcher
    caretaker carer carpenter cashier chef chemist choreographer cleaner clerk coach cobbler composer conductor
    consultant contractor cook coordinator coroner counsellor counselor courier cto ceo cfo coo curator dancer dentist
    dermatologist designer detective developer dietitian dietician director dispatcher diver doctor driver economist
    editor electrician engineer entrepreneur estate-agent farmer filmmaker firefighter fisherman fishmonger florist
    forester freelancer gardener geographer geologist glazier goldsmith guard guide gynaecologist hairdresser handyman
    historian housekeeper hygienist illustrator influencer inspector instructor interpreter investigator janitor
    jeweller jeweler joiner journalist judge lawyer lecturer librarian lifeguard linguist locksmith logistician luthier
    machinist maid manager marketer mason masseur masseuse mathematician mechanic meteorologist midwife milliner miner
    minister model musician nanny neurologist neuroscientist notary novelist nurse nutritionist oboist officer
    oncologist operator optician optometrist orthodontist osteopath paediatrician painter paralegal paramedic pastor
    pathologist pediatrician pharmacist philosopher photographer physician physicist physiotherapist pianist pilot
    planner plasterer playwright plumber poet policeman policewoman politician porter postman potter priest principal
    producer professor programmer proofreader psychiatrist psychologist publicist publisher radiographer radiologist
    ranger realtor receptionist recruiter referee reporter researcher restorer roofer sailor salesman salesperson
    saleswoman scientist screenwriter scriptwriter sculptor seamstress secretary seller sociologist soldier solicitor
    sommelier songwriter specialist statistician steward stewardess stonemason strategist supervisor surgeon surveyor
    tailor tattooist teacher technician technologist tester therapist tiler trader trainer translator tutor undertaker
    upholsterer urologist vet veterinarian violinist violist waiter waitress watchmaker weaver welder winemaker writer
    youtuber zoologist sysadmin administrator devops dba sre carer caregiver babysitter bus-driver dogwalker stylist
    beautician cellist drummer guitarist bassist singer rapper dj cameraman
""")

# A noun like these is a job only with something before it: "I'm a guide", "a model" may be anything.
JOB_HEADS: Final = word_set("lead head manager director officer agent assistant")

# A job only with a word before it, and never of a third party: "Foo is a widely used guide".
AMBIGUOUS_JOBS: Final = word_set("""
    model guide manager guard judge minister coach officer director assistant agent operator specialist author builder
    host principal driver editor planner porter publisher reporter producer tester trader trainer translator writer
    composer conductor interpreter dispatcher runner
""")

# With one of these it is praise, a wish or the past: "a great cook", "a retired judge".
NO_JOB: Final = word_set("""
    good bad great terrible better new big real huge awful amateur hobby aspiring wannabe retired former future proud
    slow fast natural terrific mean total budding home born very lifelong careful first-time decent keen avid nervous
    early comprehensive shooting point language widely popular powerful simple free online resume coding quick useful
""")

# What one may speak.
LANGUAGES: Final = word_set("""
    afrikaans albanian amharic arabic armenian azerbaijani basque belarusian bengali bosnian bulgarian burmese cantonese
    catalan chinese corsican croatian czech danish dutch english esperanto estonian farsi filipino finnish flemish
    french frisian gaelic galician georgian german greek greenlandic gujarati hausa hawaiian hebrew hindi hungarian
    icelandic igbo indonesian irish italian japanese javanese kannada kazakh khmer kinyarwanda korean kurdish kyrgyz lao
    latin latvian lingala lithuanian luxembourgish macedonian malay malayalam maltese mandarin maori marathi mongolian
    nepali norwegian odia pashto persian polish portuguese punjabi quechua romanian romansh russian samoan sanskrit
    sardinian scots serbian sinhala slovak slovene slovenian somali spanish swahili swedish tagalog tamil tatar telugu
    thai tibetan tigrinya turkish turkmen twi ukrainian urdu uyghur uzbek vietnamese welsh wolof xhosa yiddish yoruba
    zulu asl bsl
""")

# "My boss is Irish" names nobody.
NATIONAL: Final = LANGUAGES | word_set("""
    american australian austrian belgian brazilian british canadian chilean colombian cuban egyptian ethiopian ghanaian
    indian iranian iraqi israeli jewish kenyan lebanese mexican moroccan muslim catholic christian hindu nigerian
    pakistani peruvian scottish swiss syrian tunisian venezuelan
""")

# How one may eat.
DIETS: Final = (
    "vegan|vegetarian|pescatarian|pescetarian|flexitarian|gluten-free|gluten free|dairy-free|dairy free|lactose-free|"
    "sugar-free|keto|ketogenic|paleo|low-carb|low carb|low-fodmap|low fodmap|plant-based|plant based|halal|kosher|"
    "carnivore|raw vegan|mediterranean|teetotal"
)

# Where one may work without a name: "a bakery".
INSTITUTIONS: Final = (
    "bakery|bank|bookshop|bookstore|bar|brewery|cafe|café|charity|cinema|clinic|college|council|daycare|embassy|"
    "factory|farm|florist|garage|gallery|garden centre|gym|hardware store|high school|hospital|hotel|kindergarten|"
    "laboratory|law firm|library|museum|newspaper|nursery|nursing home|observatory|pharmacy|post office|"
    "primary school|publisher|pub|research institute|restaurant|school|startup|start-up|studio|supermarket|theatre|"
    "theater|university|vet clinic|zoo"
)

# What a number may be set to.
SETTING_NOUN: Final = (
    "timeout|limit|port|size|ttl|threshold|interval|rate|retries|retry count|count|level|concurrency|delay|budget|"
    "capacity|window|length|depth|width|height|quota|parallelism|workers|replicas|memory|period|frequency|percentage|"
    "tolerance|seed|temperature|batch|backoff|retention|mode|locale|timezone|time zone|region|endpoint|flag|maximum|"
    "minimum|max|min|ceiling|cap"
)

# What points back, or says nothing.
VAGUE: Final = word_set("""
    it this that these those them him her me us you they he she i we what how when where which who whom everything
    something anything nothing one both some any all each my your our his their its there here to so such being none
    mine yours ours theirs myself yourself others another same more less much many most few lot lots bit not seeing
    hearing getting having
""")
