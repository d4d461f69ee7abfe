"""Whether a value is a secret itself, and not a reference to one, a mask, a stand-in or a description.

What a log says behind `password=` is mostly one of those: `$DB_PASSWORD`, `os.environ["X"]`, `********`,
`your-password-here`, `string`. There is no list of all of them, but each sort has its form, and stand-ins are made of
the words that people describe secrets with, which random strings are not.
"""

from __future__ import annotations

import base64
import binascii
import re
from functools import cache
from typing import Final

# Words that describe a secret without being one; a value made only of these is documentation.
_DESCRIBING: Final = """
a access account admin after all an and any api apikey app application are argument as at attribute auth authorization
aws azure bad bar base basic baz be bearer before bit bool boolean bot bytes change changeme char character characters
chars check client code config confirm const contrasena correct cred credential credentials creds csrf current custom
data database db default demo deny description dev development disabled do does dummy each email empty enabled encoded
enter env environment eof error example expired expires fake false field file first float foo for forgot from func
generate generated get git github given go goes has haslo have header hello here heslo hidden host id if in incorrect
info input insecure insert int integer invalid is it jwt kennwort key keyring keys last length limit literal local
localhost login long machine manager match me missing mock must my mysql name need needs new next no none not null
number oauth object of off ok old on only option optional options or org other page param parameter params parola pass
passphrase passwd password passwords passwort pat path personal placeholder please postgres private prod production
property props provided provider public put pw pwd query qux random real redacted ref refresh replace request required
reserved reset response root same sample scope secret secrets see senha server service session set shared should some
something staging state store stored str string stripe strong struct stub super sure system template test testing
tests text that the their then there this to todo token tokens true tuple type types uid undefined unknown unreserved
unset update usage use used user username users using uuid valid value values var variable vault very void wachtwoord
wait was we when which will with word world write wrong xxx you your
"""
_WORDS: Final = frozenset(_DESCRIBING.split())
_LONGEST_WORD: Final = max(map(len, _WORDS))
_LOOKED_AT: Final = 100  # characters of a value that are looked at

_PHRASE: Final = r"[\w'!?.,@#$%&*+-]+(?: [\w'!?.,@#$%&*+-]+){1,23}"
_SENTENCE: Final = """
a an the your my our their his her its is are was be been has have had do does did not no must should can cannot could
will would may at least more than to of for in on with or and if when then this that from by as you we they it i enter
please wrong invalid required missing forgot reset new old confirm password passwords token secret key value field
account user login name type char chars character characters long short too matches match hash string text example
default unknown none null true false only any all some be via using per here there
"""
_PROSE: Final = frozenset(_SENTENCE.split())  # one of these is in a sentence about a pass phrase

_STAND_IN: Final = (  # in lower case
    r"your(?:[-_ ]|own|api|secret|token|key|pass|client|access)|xxxxx|change[-_]?(?:me|this|it)"
    r"|replace[-_ ]?(?:me|this|with)|example|redacted|masked|omitted|truncated|placeholder|dummy|insert[-_ ]|not-?a-?"
    r"|none-?needed|x-oauth-basic|\*\*\*|••|\.\.\.|…|\$\{|\$\(|\{\{|#\{|%\(|\}\}|<%"
)
# What code calls a thing by that is held elsewhere.
_REFERENCE: Final = (
    r"(?:os|sys|self|this|process|settings|config|env|secrets|vars?|local|data|module|props|params|args|req|request|ctx"
    r"|options|opts)\.[a-z_]{2}|import\.meta|configs?\[|env[:(\[]|getenv|environ|vault[:/]|op://|ref\+|ssm:|arn:"
    r"|keyring:|keychain:|file:|lookup\(|get_?[sS]ecret|fromjson|sha256:|projects/[\w-]+/secrets"
    r"|(?i:none|null|true|false|undefined|nil|function|lambda|await|new|return)\b"
)
_NO_VALUE: Final = (
    r"(?:0x)?(?:deadbeef|cafebabe|0123456789abcdef|1234567890abcdef|abcdef|123456)+[0-9a-f]{0,8}"  # of no use
    r"|\$\w+|\$env:\w+|\$\{[^}]*\}?|%\w+%|@\w+@|<[^<>]*>?|\{[\w.:\- ]*\}|\[[\w .-]*\]|%[sdrv]|:\w+|\?|&\w+|\*\w+"
    r"|[A-Z][A-Z0-9]*(?:_[A-Z0-9]+)+_?"  # THE_NAME_OF_A_VARIABLE
    r"|0x[0-9a-fA-F]{1,8}|#[0-9a-fA-F]{3,8}|Ag[A-D][0-9A-Za-z+/=]{90,}"  # a number, a colour; a sealed secret
)
_ADDRESS: Final = r"[A-Za-z][A-Za-z0-9+.-]{1,15}://|[\w.+-]{1,64}@[\w-]{1,64}(?:\.[\w-]{2,20}){0,3}\.[a-z]{2,12}$"
_FILE: Final = (
    r"(?i)[\w./~@+-]+\.(?:pem|key|crt|cer|json|ya?ml|txt|env|toml|p12|pfx|jks|pub|cfg|conf|ini|asc|gpg|der|py|js|ts|tsx"
    r"|go|rs|rb|java|kt|md|html?|sh|xml|sql|lock|log|csv|png|svg|css)(?::\d+)*"
)
_PATH: Final = r"(?:~|\.{1,2}|[A-Za-z]:)?(?:[/\\][\w.@ -]*)+|(?:[a-z][a-z_-]+/){2,}[\w.-]+"
_PLAIN_SEGMENT: Final = r"[a-z][a-z_.-]{2,}|\.{1,2}|~|[A-Za-z]:|Users|Library|Program Files|Windows"
_NUMBERS: Final = r"[\d.,:/_+\- TZ%]+"
_TECHNICAL: Final = (
    r"(?i)(?:base|sha|md|utf|ascii|x|http|oauth|ipv|hs|rs|es|ps|aes|rsa|ed|ec|k|v|p|s|i|u|int|float|bcrypt|argon|scrypt"
    r"|pbkdf|blake|ecdsa|curve|secp|python|py|node|win|log4j|web|tls|ssl|windows|rc|beta|alpha|arm)[-_]?\d{1,5}"
    r"(?:[-_./][a-z]*\d{0,4}){0,3}"
)
_LETTERS: Final = r"[A-Z]?[a-z]+|[A-Z]+(?![a-z])|[A-Z]"
_NAME: Final = r"[A-Za-z]+\d{0,3}(?:[-_.:/ ][A-Za-z]+\d{0,3})*(?:[-_.]v?\d{1,3})?"
_PLAIN: Final = r"_*(?:[a-z]+\d{0,3}(?:_[a-z]+\d{0,3})*|[a-z]*(?:[A-Z][a-z]+)+\d{0,3})"
_DOTTED: Final = rf"\.?(?:{_PLAIN}|_*[a-z]+\d*[a-z]*)(?:\??(?:\.|->|::)\w+)+[?!:]?"
_VOWELS: Final = frozenset("aeiouyAEIOUY")
_CONSONANTS: Final = r"(?i)[bcdfghjklmnpqrstvwxz]{5}"


@cache
def regex(pattern: str, flags: int = 0) -> re.Pattern[str]:
    """The pattern compiled, when it is first wanted: a dozen a text are, and importing all would be felt."""
    return re.compile(pattern, flags)


def literal(value: str) -> bool:
    """Whether `value` is something that somebody could use: not a reference, a mask or a description."""
    value = value[:_LOOKED_AT]
    if len(set(value)) < 3 or regex(_STAND_IN).search(value.lower()) or regex(_REFERENCE).match(value):
        return False
    if regex(_NO_VALUE).fullmatch(value) or regex(_ADDRESS).match(value):
        return False
    return not described(value) and not (regex(_FILE).fullmatch(value) and wordy(value))


def described(value: str, figures: int = 1) -> bool:
    """Whether describing words make up `value`, and so many figures at most (`my-secret-key`, `test-token-1`)."""
    words = [word.lower() for word in regex(_LETTERS).findall(value[:_LOOKED_AT])]
    joined = "".join(words)  # words may be run together over a change of case (`myAPIkey`)
    if not joined or not (all(_spelled(word) for word in words) or _spelled(joined)):
        return False
    return sum(c.isdigit() for c in value[:_LOOKED_AT]) <= figures


def told(value: str) -> bool:
    """Whether a bare word is a secret by its looks: `token=token_value` and `token=hunter2` differ in nothing else."""
    value = value[:_LOOKED_AT]
    return (
        regex(r"\d").search(value) is not None
        and regex(r"[^\W\d_]").search(value) is not None
        and literal(value)
        and not reference(value)
        and not regex(_TECHNICAL).fullmatch(value)
        and not path(value)
    )


def reference(value: str) -> bool:
    """Whether this is how code reaches a thing: `form.password1.data`."""
    value = value[:_LOOKED_AT]
    return bool(regex(_DOTTED).fullmatch(value)) and wordy(value)


def identifier(value: str) -> bool:
    """Whether code may call a thing so: `X448PublicKey`."""
    if not value.isidentifier() or not wordy(value):
        return False
    words = [word.lower() for word in regex(_LETTERS).findall(value[:_LOOKED_AT])]
    return any(len(word) > 2 and word in _WORDS for word in words) or len(regex(r"\d+").findall(value)) < 2


def compound(value: str) -> bool:
    """Whether code calls a thing so for sure, with more words than one: `V1SecretSource`."""
    return identifier(value) and sum(len(word) > 2 for word in regex(_LETTERS).findall(value[:_LOOKED_AT])) > 1


def path(value: str) -> bool:
    """Whether this names a file. Base64 may begin with a slash, but not with a word."""
    value = value[:_LOOKED_AT]
    if not regex(_PATH).fullmatch(value):
        return False
    first = regex(r"[^/\\]+").search(value)
    return first is not None and regex(_PLAIN_SEGMENT).fullmatch(first[0]) is not None


def name(value: str) -> bool:
    """Whether somebody named a thing so: words, a number at most (`my-app-secret-2`)."""
    value = value[:_LOOKED_AT]
    return bool(regex(_NAME).fullmatch(value)) and wordy(value)


def wordy(value: str) -> bool:
    """Whether the letters of `value` can be spoken, as those of words can; random ones seldom can."""
    words = regex(_LETTERS).findall(value[:_LOOKED_AT])
    spoken = sum(
        len(word)
        for word in words
        if len(word) > 2 and _VOWELS.intersection(word) and not regex(_CONSONANTS).search(word)
    )
    return spoken > 0 and spoken >= 0.7 * sum(map(len, words))


def numbers(value: str) -> bool:
    """Whether there are but figures: a count, a date, a version."""
    return bool(regex(_NUMBERS).fullmatch(value[:_LOOKED_AT]))


def uuid(value: str) -> bool:
    return regex(r"(?i)[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}").fullmatch(value) is not None


def random(value: str) -> bool:
    """Whether nobody made this up: long, of letters and as a rule figures, in no order."""
    value = value[:_LOOKED_AT]
    if len(value) < 12 or len(set(value)) < 8 or not any(c.isalpha() for c in value):
        return False
    if sum(c.isdigit() for c in value) < 2 and (len(value) < 20 or wordy(value) or value.islower()):
        return False
    return not (name(value) or path(value) or numbers(value) or reference(value)) and literal(value)


def gibberish(value: str) -> bool:
    """Whether this is a long run of any signs, white space among them, as generators of salts make."""
    if len(value) < 32 or len(set(value)) < 20:
        return False
    words = [word for word in value.split() if len(word) > 2 and name(word)]
    return len(words) < 3 and any(c.isdigit() for c in value) and any(not c.isalnum() and c != " " for c in value)


def passphrase(value: str) -> bool:
    """Whether words with space between them are a pass phrase, and no sentence about one."""
    if not regex(_PHRASE).fullmatch(value) or not literal(value):
        return False
    words = [word.strip(".,!?'").lower() for word in value.split()]
    return not _PROSE.intersection(words) and (len(words) > 2 or any(c.isdigit() for c in value))


def user_and_password(encoded: str) -> bool:
    """Whether this is base64 of `user:password`."""
    try:
        plain = base64.b64decode(encoded + "=" * (-len(encoded) % 4), validate=True).decode("utf-8")
    except (binascii.Error, ValueError):
        return False
    user, colon, password = plain.partition(":")
    return bool(user and colon and password) and plain.isprintable() and literal(password)


def _spelled(letters: str) -> bool:
    """Whether describing words, run together, make up these letters."""
    if letters in _WORDS or len(letters) > 4 * _LONGEST_WORD:
        return letters in _WORDS
    reached = [True] + [False] * len(letters)
    for end in range(1, len(letters) + 1):
        for start in range(max(0, end - _LONGEST_WORD), end):
            if reached[start] and letters[start:end] in _WORDS:
                reached[end] = True
                break
    return reached[-1]
