"""Tests of a value: a secret, or a reference to one, a mask, a stand-in, a description.

Most values after `password=` in a log are no secrets: `$DB_PASSWORD`, `os.environ["X"]`, `********`,
`your-password-here`, `string`. Each sort has its form, and stand-ins consist of the words that describe secrets.
"""

from __future__ import annotations

import base64
import binascii
import re
from functools import cache
from typing import Final

from helix.util.wordlists import read_groups

_EXAMINED: Final = 100  # characters of a value

_PHRASE: Final = r"[\w'!?.,@#$%&*+-]+(?: [\w'!?.,@#$%&*+-]+){1,23}"
_STAND_IN: Final = (  # in lower case
    r"your(?:[-_ ]|own|api|secret|token|key|pass|client|access)|xxxxx|change[-_]?(?:me|this|it)"
    r"|replace[-_ ]?(?:me|this|with)|example|redacted|masked|omitted|truncated|placeholder|dummy|insert[-_ ]|not-?a-?"
    r"|none-?needed|x-oauth-basic|\*\*\*|••|\.\.\.|…|\$\{|\$\(|\{\{|#\{|%\(|\}\}|<%"
)
# How code names a value stored elsewhere.
_REFERENCE: Final = (
    r"(?:os|sys|self|this|process|settings|config|env|secrets|vars?|local|data|module|props|params|args|req|request|ctx"
    r"|options|opts)\.[a-z_]{2}|import\.meta|configs?\[|env[:(\[]|getenv|environ|vault[:/]|op://|ref\+|ssm:|arn:"
    r"|keyring:|keychain:|file:|lookup\(|get_?[sS]ecret|fromjson|sha256:|projects/[\w-]+/secrets"
    r"|(?i:none|null|true|false|undefined|nil|function|lambda|await|new|return)\b"
)
_NO_VALUE: Final = (
    r"(?:0x)?(?:deadbeef|cafebabe|0123456789abcdef|1234567890abcdef|abcdef|123456)+[0-9a-f]{0,8}"  # a stand-in
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


_read_groups: Final = cache(read_groups)


@cache
def read_words(key: str) -> frozenset[str]:
    """Return one list of `data/words.txt`, which is read at its first use."""
    return _read_groups("helix.redact", "words")[key]


@cache
def regex(pattern: str, flags: int = 0) -> re.Pattern[str]:
    """Compile a pattern at its first use; compiling all at import would take too long."""
    return re.compile(pattern, flags)


def is_literal(value: str) -> bool:
    """Return whether a value is usable as it is: no reference, mask, stand-in or description."""
    value = value[:_EXAMINED]
    if len(set(value)) < 3 or regex(_STAND_IN).search(value.lower()) or regex(_REFERENCE).match(value):
        return False
    if regex(_NO_VALUE).fullmatch(value) or regex(_ADDRESS).match(value):
        return False
    return not is_description(value) and not (regex(_FILE).fullmatch(value) and is_wordlike(value))


def is_description(value: str, digits: int = 1) -> bool:
    """Return whether a value consists of describing words and at most `digits` digits (`my-secret-key`)."""
    words = [word.lower() for word in regex(_LETTERS).findall(value[:_EXAMINED])]
    joined = "".join(words)  # words may join across a change of case (`myAPIkey`)
    if not joined or not (all(_is_spelled(word) for word in words) or _is_spelled(joined)):
        return False
    return sum(c.isdigit() for c in value[:_EXAMINED]) <= digits


def is_secret_like(value: str) -> bool:
    """Return whether a bare word looks like a secret, as `hunter2` does and `token_value` does not."""
    value = value[:_EXAMINED]
    return (
        regex(r"\d").search(value) is not None
        and regex(r"[^\W\d_]").search(value) is not None
        and is_literal(value)
        and not is_reference(value)
        and not regex(_TECHNICAL).fullmatch(value)
        and not is_path(value)
    )


def is_reference(value: str) -> bool:
    """Return whether a value is an expression of code: `form.password1.data`."""
    value = value[:_EXAMINED]
    return bool(regex(_DOTTED).fullmatch(value)) and is_wordlike(value)


def is_identifier(value: str) -> bool:
    """Return whether a value may be a name in code: `X448PublicKey`."""
    if not value.isidentifier() or not is_wordlike(value):
        return False
    words = [word.lower() for word in regex(_LETTERS).findall(value[:_EXAMINED])]
    return (
        any(len(word) > 2 and word in read_words("describing") for word in words)
        or len(regex(r"\d+").findall(value)) < 2
    )


def is_compound(value: str) -> bool:
    """Return whether a value is a name in code of several words: `V1SecretSource`."""
    return is_identifier(value) and sum(len(word) > 2 for word in regex(_LETTERS).findall(value[:_EXAMINED])) > 1


def is_path(value: str) -> bool:
    """Return whether a value names a file. Base64 may begin with a slash, but not with a word."""
    value = value[:_EXAMINED]
    if not regex(_PATH).fullmatch(value):
        return False
    first = regex(r"[^/\\]+").search(value)
    return first is not None and regex(_PLAIN_SEGMENT).fullmatch(first[0]) is not None


def is_name(value: str) -> bool:
    """Return whether a value is a made-up name: words, and at most one number (`my-app-secret-2`)."""
    value = value[:_EXAMINED]
    return bool(regex(_NAME).fullmatch(value)) and is_wordlike(value)


def is_wordlike(value: str) -> bool:
    """Return whether the letters form words that can be pronounced; random letters seldom do."""
    words = regex(_LETTERS).findall(value[:_EXAMINED])
    spoken = sum(
        len(word)
        for word in words
        if len(word) > 2 and _VOWELS.intersection(word) and not regex(_CONSONANTS).search(word)
    )
    return spoken > 0 and spoken >= 0.7 * sum(map(len, words))


def is_numeric(value: str) -> bool:
    """Return whether a value is a count, a date or a version."""
    return bool(regex(_NUMBERS).fullmatch(value[:_EXAMINED]))


def is_uuid(value: str) -> bool:
    """Return whether a value is a UUID."""
    return regex(r"(?i)[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}").fullmatch(value) is not None


def is_random(value: str) -> bool:
    """Return whether a value is random: long, letters and mostly digits, no words."""
    value = value[:_EXAMINED]
    if len(value) < 12 or len(set(value)) < 8 or not any(c.isalpha() for c in value):
        return False
    if sum(c.isdigit() for c in value) < 2 and (len(value) < 20 or is_wordlike(value) or value.islower()):
        return False
    return not (is_name(value) or is_path(value) or is_numeric(value) or is_reference(value)) and is_literal(value)


def is_gibberish(value: str) -> bool:
    """Return whether a value is a long run of any characters, white space included, as salt generators make."""
    if len(value) < 32 or len(set(value)) < 20:
        return False
    words = [word for word in value.split() if len(word) > 2 and is_name(word)]
    return len(words) < 3 and any(c.isdigit() for c in value) and any(not c.isalnum() and c != " " for c in value)


def is_passphrase(value: str) -> bool:
    """Return whether several words are a pass phrase, not a sentence about one."""
    if not regex(_PHRASE).fullmatch(value) or not is_literal(value):
        return False
    words = [word.strip(".,!?'").lower() for word in value.split()]
    return not read_words("sentence").intersection(words) and (len(words) > 2 or any(c.isdigit() for c in value))


def is_login(encoded: str) -> bool:
    """Return whether a value is base64 of `user:password`."""
    try:
        plain = base64.b64decode(encoded + "=" * (-len(encoded) % 4), validate=True).decode("utf-8")
    except (binascii.Error, ValueError):
        return False
    user, colon, password = plain.partition(":")
    return bool(user and colon and password) and plain.isprintable() and is_literal(password)


def _is_spelled(letters: str) -> bool:
    """Return whether these letters are describing words, joined."""
    words, longest = read_words("describing"), _measure_longest()
    if letters in words or len(letters) > 4 * longest:
        return letters in words
    reached = [True] + [False] * len(letters)
    for end in range(1, len(letters) + 1):
        for start in range(max(0, end - longest), end):
            if reached[start] and letters[start:end] in words:
                reached[end] = True
                break
    return reached[-1]


@cache
def _measure_longest() -> int:
    return max(map(len, read_words("describing")))
