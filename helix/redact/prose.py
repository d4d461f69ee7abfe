"""Passwords in sentences: "use password hunter2 to log in", "the password is hunter2".

Most sentences about passwords contain none ("password reset", "the password field2 is empty"). So the word must look
like one: letters with digits or signs, and no word that describes forms, columns and tests.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

from helix.redact.rules import FORM, NEWLINE, Secret, Trigger, accept_any, make_rule
from helix.redact.values import is_literal, is_name, is_path, is_random, is_reference, is_secret_like, read_words, regex

_PASSWORD: Final = r"(?i:pass(?:word|wort|phrase|code)|kennwort|pw|pwd|contrase\w{1,2}a|(?<=mot de )passe)"
_ALONE: Final = r"(?:(?<![\w./$<{@&#%\\-])|(?<=\\[nrt]))"  # no part of a name, no option
_OWN_LINE: Final = rf":[ \t]{{0,4}}{NEWLINE}[ \t]{{0,8}}(?P<below>)"
_FOR: Final = r"(?:[ ](?:for|of|to|on|in)(?:[ ][\w@.-]{1,24}){1,4}?)?"
_IS: Final = (
    r"(?:is|was|are|remains|stays|will[ ]be|should[ ]be|has[ ]been|=|lautet|ist|war|est|es)"
    r"(?:[ ](?:now|still|just|simply|currently|set[ ]to|jetzt|noch))?:?"
)
_LINK: Final = (
    rf"(?:{_FOR}(?P<is>(?:['’]s|[ ]{_IS})[ ]{{1,2}})|[ ]?\([ ]?|[ \t]{{1,4}}(?:still[ ]|now[ ])?(?!(?:still|now)\b)"
    rf"|[ ](?:-|–|—|->|→)[ ]|,[ ](?=[^\s,]{{5,64}},[ ])"
    rf"|{_OWN_LINE}|[ ](?P<to>to)[ ]|[ ](?P<from>from)[ ]|[ ](?P<far>[a-z][\w@. -]{{1,50}}):[ ])"
)
_OPENING: Final = r"(?P<quote>[“‘«„\"'`*]{0,2}|\\{1,16}\")"
_VALUE: Final = r"(?![,:\]}])(?P<value>[^\s\"'`“”‘’«»<>\\|]{5,64}+)"
_FOLLOWS: Final = rf"(?=[ \t]|{NEWLINE}|[\"'`”’»“\\]|\Z)"
_PROSE: Final = rf"{_ALONE}{_PASSWORD}{_LINK}{_OPENING}{_VALUE}{_FOLLOWS}"
_CHANGED: Final = r"(?i:(?:\b|(?<=\\[nrt]))(?:sets?|setting|chang(?:e|ed|ing)|reset|updated?|rotated?)\b)[^.\n]{0,40}\Z"
_LINE_END: Final = rf"[ \t]{{0,4}}(?:{NEWLINE}|\\{{0,16}}\"|\Z)"
_SECOND: Final = rf"[ ]to[ ]{_OPENING}{_VALUE}"

_CODE: Final = r"[\w.]+[(\[{=].*|.*[=(\[{]"
_NUMBERED: Final = r"_?([A-Za-z]+)[-_]?\d{1,3}[a-z]{0,2}"
_TECHNICAL: Final = (
    r"(?i)(?:argon2(?:id|i|d)?|pbkdf2\w*|bcrypt\w*|scrypt\w*|sha\d+\w*|md[45](?:crypt)?|base\d+|utf\w*|latin|iso|rfc\d+|oauth\d?"
    r"|saml\d?|ldaps?\d?|ntlmv?\d?|aes\d*|rsa\d*|hmac\w*|x\.?509|zxcvbn\d?|[tuh]?otp\d?|[2m]fa|u2f|fido\d?|k8s|i18n|l10n"
    r"|v\d+|h\d|ssh\d?|https?\d?|ipv\d|log4\w+|py\d+|node\d+|web\d|win\d+|o365|s3|ec2|b64"
    r"|\d+(?:st|nd|rd|th|x|ms|s|m|h|d|kb|mb|chars?|bits?|bytes?|days?|min))(?:[-_./].*)?"
)


def _find_stated(text: str, at: int) -> Iterator[Secret]:
    """Find the password after a word for it."""
    match = regex(_PROSE).match(text, at)
    if match is None:
        return
    if match["to"] and not regex(_CHANGED).search(text, max(0, at - 60), at):
        return
    if match["below"] is not None and regex(_LINE_END).match(text, match.end()) is None:
        return
    value = _trim_value(match["value"], match["quote"])
    if match["far"] and (is_name(value) or not is_random(value + value)):
        return
    for secret in _read_value(match, is_strict=not match["is"]):
        yield secret
        second = regex(_SECOND).match(text, secret.stop) if match["from"] else None
        if second:
            yield from _read_value(second, is_strict=True)


def _read_value(match: re.Match[str], is_strict: bool) -> Iterator[Secret]:
    value, start = _trim_value(match["value"], match["quote"]), match.start("value")
    if _is_password(value, is_strict):
        yield Secret(start, start + len(value), "password", FORM)


def _trim_value(value: str, quote: str) -> str:
    """Return a value without the end of its sentence, bracket or emphasis."""
    value = value.rstrip("*" if quote else ".,;:?)*…")
    return value.rstrip(".,;:?)") if not quote else value


def _is_password(value: str, is_strict: bool) -> bool:
    """Return whether a word of a sentence is a password: letters with digits or signs, no technique, no form."""
    if len(value) < (6 if is_strict else 5) or not is_secret_like(value) or regex(_TECHNICAL).fullmatch(value):
        return False
    if value[0] in "[{($%&" or is_path(value) or is_reference(value) or regex(_CODE).fullmatch(value):
        return False
    numbered = regex(_NUMBERED).fullmatch(value)
    if numbered and numbered[1].lower() in read_words("numbered_noun"):
        return False
    if is_strict and regex(r"[a-z]+(?:[_./-][a-z]+)*[_./-]?v?\d|[A-Za-z]+[_./-].*\.\w{1,4}|.*:\d+").fullmatch(value):
        # hunter2 is one, step_2 is none: a word with one digit must be no word of a form.
        return value.isalnum() and numbered is not None and is_literal(value)
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


def _find_backwards(text: str, at: int) -> Iterator[Secret]:
    """Find `use hunter2 as the password`."""
    if regex(rf"{_ALONE}{_NO_NOUN}").match(text, at) is None:
        return
    match = regex(_BACKWARDS).search(text, max(0, at - _BACK), at)
    if match:
        yield from _read_value(match, is_strict=True)


_WITH_USER: Final = (
    r"(?i:user(?:name)?|login|usr)[ ]?[:=][ ]?[\w.@\\-]{1,64}(?:[,;]|[ ]and|[ ]/)?[ \t]{1,4}"
    r"(?i:pass|pw|pwd|password)[ ]?[:=][ ]?([^\s\"'`\\<>]{5,64}+)"
)
_APP_PASSWORD: Final = (  # four groups of four letters, as Google makes them
    r"(?i:app(?:lication)?[ -](?:specific[ -])?password)[\w ]{0,24}?(?:is|:)[ ]{1,2}"
    r"([a-z]{4}(?:[ -][a-z]{4}){3})(?![\w-])"
)


def _find_with_user(text: str, at: int) -> Iterator[Secret]:
    """Find `user: ana pass: …`."""
    match = regex(_WITH_USER).match(text, at)
    if match:
        value = match[1].rstrip(".,;:?)")
        if len(value) > 4 and is_secret_like(value):
            yield Secret(match.start(1), match.start(1) + len(value), "password", FORM)


def list_triggers() -> Iterator[Trigger]:
    """Yield the rules with their keywords."""
    yield Trigger("password|passwort|passphrase|passcode|kennwort", _find_stated, r"(?:[ '?,]|: ?[\n\\])")
    yield Trigger("contrase|passe ", _find_stated)
    yield Trigger("password|passphrase|passcode", _find_backwards, r"(?:[.,;!?) \n\\\"]|$)")
    yield Trigger("pw|pwd", _find_stated, r"[ '?]")
    yield Trigger("user|usr", _find_with_user, r"(?:name)? ?[:=]")
    yield Trigger("login:|login=|login :", _find_with_user)
    app_password = make_rule(_APP_PASSWORD, "password", accept_any)
    yield Trigger("app", app_password, r"(?:lication)?[ -](?:specific[ -])?password")
