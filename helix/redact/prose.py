"""Passwords that are told in a sentence: "use password hunter2 to log in", "the password is hunter2".

A sentence about a password has mostly no password in it ("password reset", "the password field2 is empty"), so the word
behind must look like one: it has letters and figures or signs, and none of the words that people describe forms,
columns and tests with.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from helix.redact.kinds import FORM, Found
from helix.redact.rules import NEWLINE, Row
from helix.redact.values import literal, name, path, random, reference, regex, told

_SAID: Final = r"(?i:pass(?:word|wort|phrase|code)|kennwort|pw|pwd|contrase\w{1,2}a|(?<=mot de )passe)"
_ALONE: Final = r"(?:(?<![\w./$<{@&#%\\-])|(?<=\\[nrt]))"  # it is no part of a name, and no option
_ITS_LINE: Final = rf":[ \t]{{0,4}}{NEWLINE}[ \t]{{0,8}}(?P<below>)"
_FOR: Final = r"(?:[ ](?:for|of|to|on|in)(?:[ ][\w@.-]{1,24}){1,4}?)?"
_IS: Final = (
    r"(?:is|was|are|remains|stays|will[ ]be|should[ ]be|has[ ]been|=|lautet|ist|war|est|es)"
    r"(?:[ ](?:now|still|just|simply|currently|set[ ]to|jetzt|noch))?:?"
)
_LINK: Final = (
    rf"(?:{_FOR}(?P<is>(?:['’]s|[ ]{_IS})[ ]{{1,2}})|[ ]?\([ ]?|[ \t]{{1,4}}(?:still[ ]|now[ ])?(?!(?:still|now)\b)"
    rf"|[ ](?:-|–|—|->|→)[ ]|,[ ](?=[^\s,]{{5,64}},[ ])"
    rf"|{_ITS_LINE}|[ ](?P<to>to)[ ]|[ ](?P<from>from)[ ]|[ ](?P<far>[a-z][\w@. -]{{1,50}}):[ ])"
)
_OPENING: Final = r"(?P<quote>[“‘«„\"'`*]{0,2}|\\{1,16}\")"
_VALUE: Final = r"(?![,:\]}])(?P<value>[^\s\"'`“”‘’«»<>\\|]{5,64}+)"
_FOLLOWS: Final = rf"(?=[ \t]|{NEWLINE}|[\"'`”’»“\\]|\Z)"
_PROSE: Final = rf"{_ALONE}{_SAID}{_LINK}{_OPENING}{_VALUE}{_FOLLOWS}"
_CHANGED: Final = r"(?i:(?:\b|(?<=\\[nrt]))(?:sets?|setting|chang(?:e|ed|ing)|reset|updated?|rotated?)\b)[^.\n]{0,40}\Z"
_SECOND: Final = rf"[ ]to[ ]{_OPENING}{_VALUE}"

# What is numbered, and may stand behind the word `password`.
_NUMBERED_NOUNS: Final = """
account api arg argon args argument attempt attempts auth bcrypt bit bits box branch bucket bug build bullet button
byte bytes case cell changed chapter char chars check class client code col column commit component config connect
control cookie count crypt day days dialog digit docs edge element endpoint entered entry error event example exercise
expired feature field file fix flag flow form frame func function group handler hash header hmac host hour hours idea
image index input int issue item iteration job key label layer layout length level lib line link list login member
menu method min mode model module month months msg name node note number oauth object offset option order page panel
param parameter part phase plan point policy pool port problem process prompt question regex reset role round route
row rule scenario schema score screen script scrypt section segment server service session set sha slide slot source
stage state step store string style tab table task team template test ticket tier token topic tree tried try type
typed unit used user utf val value var varchar variable variant version video view volume wave web week weeks wizard
word words world year years zone zxcvbn
"""
_NOUN: Final = frozenset(_NUMBERED_NOUNS.split())
_NUMBERED: Final = r"_?([A-Za-z]+)[-_]?\d{1,3}[a-z]{0,2}"
_TECHNICAL: Final = (
    r"(?i)(?:argon2(?:id|i|d)?|pbkdf2\w*|bcrypt\w*|scrypt\w*|sha\d+\w*|md[45](?:crypt)?|base\d+|utf\w*|latin|iso|rfc\d+|oauth\d?"
    r"|saml\d?|ldaps?\d?|ntlmv?\d?|aes\d*|rsa\d*|hmac\w*|x\.?509|zxcvbn\d?|[tuh]?otp\d?|[2m]fa|u2f|fido\d?|k8s|i18n|l10n"
    r"|v\d+|h\d|ssh\d?|https?\d?|ipv\d|log4\w+|py\d+|node\d+|web\d|win\d+|o365|s3|ec2|b64"
    r"|\d+(?:st|nd|rd|th|x|ms|s|m|h|d|kb|mb|chars?|bits?|bytes?|days?|min))(?:[-_./].*)?"
)


def _told(text: str, at: int) -> Iterator[Found]:
    """The password behind the word that `at` is the beginning of."""
    match = regex(_PROSE).match(text, at)
    if match is None:
        return
    value = _trimmed(match["value"], match["quote"])
    if match["to"] and not regex(_CHANGED).search(text, max(0, at - 60), at):
        return
    if (
        match["below"] is not None
        and regex(rf"[ \t]{{0,4}}(?:{NEWLINE}|\\{{0,16}}\"|\Z)").match(text, match.end()) is None
    ):
        return
    if match["far"] and (name(value) or not random(value + value)):
        return
    if not _is_password(value, strictly=not match["is"]):
        return
    start = match.start("value")
    yield Found(start, start + len(value), "password", FORM)
    second = regex(_SECOND).match(text, start + len(value)) if match["from"] else None
    if second and _is_password(_trimmed(second["value"], second["quote"]), strictly=True):
        begin = second.start("value")
        yield Found(begin, begin + len(_trimmed(second["value"], second["quote"])), "password", FORM)


def _trimmed(value: str, quote: str) -> str:
    """The value without what ends the sentence, the bracket or the emphasis about it."""
    value = value.rstrip("*" if quote else ".,;:?)*…")
    return value.rstrip(".,;:?)") if not quote else value


def _is_password(value: str, strictly: bool) -> bool:
    """Tell whether a word of a sentence is a password: letters with figures or signs, of no technique and no form."""
    if len(value) < (6 if strictly else 5) or not told(value) or regex(_TECHNICAL).fullmatch(value):
        return False
    if value[0] in "[{($%&" or path(value) or reference(value) or regex(r"[\w.]+[(\[{=].*|.*[=(\[{]").fullmatch(value):
        return False
    numbered = regex(_NUMBERED).fullmatch(value)
    if numbered and numbered[1].lower() in _NOUN:
        return False
    if strictly and regex(r"[a-z]+(?:[_./-][a-z]+)*[_./-]?v?\d|[A-Za-z]+[_./-].*\.\w{1,4}|.*:\d+").fullmatch(value):
        # hunter2 is one, and step_2 none: a word with one figure behind it must be no word of a form.
        return value.isalnum() and numbered is not None and literal(value)
    return True


# hunter2 is the password
_BACKWARDS: Final = (
    r"(?:(?<![^\s(\"'`“])|(?<=\\[nrt]))(?P<quote>[“\"'`*]{0,2})(?P<value>[^\s\"'`“”‘’«»<>\\|]{6,64})[”\"'`*]{0,2}"
    r"[ ](?:is|was|as|for)[ ](?:(?:the|my|your|our|a|its|his|her)[ ])?(?:\w{2,16}[ ]){0,2}\Z"
)
_NO_NOUN: Final = (
    r"(?i:password|passphrase|passcode)"
    rf"(?=[.,;!?)]|[ ](?:for|to|of|on|and|if|when|at|there)\b|{NEWLINE}|\\{{0,16}}\"|\Z)"
)
_BACK: Final = 140  # characters


def _backwards(text: str, at: int) -> Iterator[Found]:
    """`use hunter2 as the password`."""
    if regex(rf"{_ALONE}{_NO_NOUN}").match(text, at) is None:
        return
    match = regex(_BACKWARDS).search(text, max(0, at - _BACK), at)
    if match:
        value = _trimmed(match["value"], match["quote"])
        if _is_password(value, strictly=True):
            yield Found(match.start("value"), match.start("value") + len(value), "password", FORM)


_WITH_USER: Final = (
    r"(?i:user(?:name)?|login|usr)[ ]?[:=][ ]?[\w.@\\-]{1,64}(?:[,;]|[ ]and|[ ]/)?[ \t]{1,4}"
    r"(?i:pass|pw|pwd|password)[ ]?[:=][ ]?([^\s\"'`\\<>]{5,64}+)"
)
_APP_PASSWORD: Final = (
    r"(?i:app(?:lication)?[ -](?:specific[ -])?password)[\w ]{0,24}?(?:is|:)[ ]{1,2}"
    r"([a-z]{4}(?:[ -][a-z]{4}){3})(?![\w-])"
)


def _with_user(text: str, at: int) -> Iterator[Found]:
    """`user: ana pass: …`."""
    match = regex(_WITH_USER).match(text, at)
    if match:
        value = match[1].rstrip(".,;:?)")
        if len(value) > 4 and told(value):
            yield Found(match.start(1), match.start(1) + len(value), "password", FORM)


def _app_password(text: str, at: int) -> Iterator[Found]:
    """Four times four letters, as Google makes them."""
    match = regex(_APP_PASSWORD).match(text, at)
    if match:
        yield Found(*match.span(1), "password", FORM)


def rows() -> Iterator[Row]:
    """The forms, and the keywords where each is tried."""
    yield Row("password|passwort|passphrase|passcode|kennwort", _told, r"(?:[ '?,]|: ?[\n\\])")
    yield Row("contrase|passe ", _told)
    yield Row("password|passphrase|passcode", _backwards, r"(?:[.,;!?) \n\\\"]|$)")
    yield Row("pw|pwd", _told, r"[ '?]")
    yield Row("user|usr", _with_user, r"(?:name)? ?[:=]")
    yield Row("login:|login=|login :", _with_user)
    yield Row("app", _app_password, r"(?:lication)?[ -](?:specific[ -])?password")
