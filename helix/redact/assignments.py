"""Names and their values: `DB_PASSWORD=…`, `"api_key": "…"`, `password: …`, `env("TOKEN", "…")`.

The text is code, configuration, shell, prose, or JSON with any of these in a string, escaped once or more; most values
are no secrets. Three questions are separate: the place of the value (here), the meaning of the name (`variable_names`)
and the look of the value (`values`).

A placeholder never covers the closing quote or half an escape, so JSON stays JSON at every depth.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final, NamedTuple

from helix.redact.kinds import LONGEST, classify_value
from helix.redact.rules import ASSIGNED, GAP, NAMED, Secret
from helix.redact.values import (
    is_compound,
    is_description,
    is_gibberish,
    is_identifier,
    is_literal,
    is_login,
    is_name,
    is_numeric,
    is_passphrase,
    is_path,
    is_random,
    is_reference,
    is_secret_like,
    is_uuid,
    is_wordlike,
    regex,
)
from helix.redact.variable_names import NameMeaning, classify_name

KEYWORDS: Final = {
    **dict.fromkeys(("pass", "pwd", "psk", "mnemonic", "secret", "token", "jwt", "bearer", "key", "cred", "auth"), ""),
    **dict.fromkeys(("kennwort", "contrase", "contribsys"), ""),
    **dict.fromkeys(("phrase", "pat", "pw", "psw", "login"), "(?![a-z])"),
    **dict.fromkeys(("client", "access"), "[_-]?id"),
}
"""Every name of interest contains one of these, lower case → the pattern that must follow it."""

_SHORTEST: Final = 6  # characters of a value
_LONGEST_NAME: Final = 64  # characters of a name
_BEFORE: Final = 80  # characters before the name

_NAMED: Final = "|".join(keyword + follows for keyword, follows in KEYWORDS.items())
_REST_OF_NAME: Final = rf"[\wñ.\-]{{0,{_LONGEST_NAME}}}+"
_QUOTE: Final = r"(?:\\{0,16}[\"'`]|&quot;|&\#39;)"
_COLOUR: Final = r"(?:(?:\x1b|\\{1,16}(?:u001b|x1b|e|033))\[[0-9;]{0,8}m)?"
_RUN: Final = r"[^\x00-\x20\x7f\x85\xa0\u2028\u2029\u3000\"'`\\<>\[]"  # no white space, no quote
_JUDGED: Final = 512  # characters of a bare value that are judged; the rest belongs to it
_BARE: Final = rf"(?>{_RUN}{{1,{_JUDGED}}}+(?:\[(?!REDACTED:){_RUN}{{0,64}}+){{0,8}})"  # ends before a placeholder
_REST_OF_VALUE: Final = r"[\w+/=.~%-]*+"
# Name and value are joined as halves of a pair, by a type and a sign, by a sign, or by space. Inside quotes escaped n
# times, a character escaped once more has 2n + 1 backslashes before it.
_ASSIGNMENT: Final = rf"""
    (?P<close> {_QUOTE} [\])]{{0,2}} | [\])] | \*{{1,2}} )?
    (?:
      (?P<pair> (?:,|{GAP}){{1,48}} (?:{_QUOTE}[Tt]ype{_QUOTE}:[ ]?{_QUOTE}\w{{1,32}}{_QUOTE}(?:,|{GAP}){{1,48}})?
        {_QUOTE}? (?:[Pp]arameter)? [Vv]alue {_QUOTE}? [ \t]{{0,2}} [:=] [ \t]{{0,2}}
      | (?:</key>|>) {GAP}{{0,48}} <(?:value|string)> )
    | [ \t]{{0,20}}
      (?: :[ \t]?[A-Za-z_&*][\w.:&*<>|\[\]' ]{{0,40}}?
        | [ \t](?:string|String|As[ ]String|&str|&'static[ ]str|char[ ]?\*) )
      [ \t]{{0,4}} (?P<typed> = )(?!=) [ \t]{{0,4}} (?=[bBrRuU]?{_QUOTE})
    | {_COLOUR}
      (?: [ ]\([^()\n\"'\\]{{1,30}}\) | [ ](?:for|of|to|on|in)[ ][\w@.-]{{1,24}}(?:[ ][\w@.-]{{1,24}}){{0,2}}
        | [ ](?:lautet|ist|est|es|now|value) | (?:[ ][\w:.-]{{1,32}}={_QUOTE}[^\"'<>\\]{{0,80}}{_QUOTE}){{1,4}}(?=>) )?
      [ \t]{{0,20}}
      (?P<sign> => | :=(?!=) | :- | ={{1,3}} | :(?!:) | \\u003[aAdD] | %3[aAdD] | \|\|=? | \?\?=? | [,|>(→]
        | \b(?:or|is)\b )
      \*{{0,2}} [ \t]{{0,20}}
    | (?P<blank> [ \t]{{1,24}} )
    )
    {_COLOUR} \*{{0,2}}
    (?: (?:default(?:_value)?[ ]?=[ ]?)? (?:[\w.]{{0,20}}(?:Secret|SecretStr|SecretString|String|Some|str|bytes)\()?
        (?P<prefix>[bBrRuUfF]{{0,2}}|[@$])
        (?: (?P<slashes>\\{{0,16}})
            (?: "(?P<double>(?>(?:[^"\\\r\n]{{1,64}}+|(?P=slashes)\\(?:(?P=slashes)["\\]|[^"\\\s])){{1,128}}))
                (?P=slashes)"
              | '(?P<single>(?>(?:[^'"\\\r\n]{{1,64}}+|\\+[^'"`\\\snr]){{1,128}}))(?P=slashes)'
              | `(?P<back>[^`"'\\\r\n]{{1,{LONGEST}}}+)(?P=slashes)`
              | ["'`](?P<cut>{_BARE}) (?! [ \t]?[\w"'`] )
            )
          | &(?:quot|\#39);(?P<entity>[^&\s"'<>\\]{{1,{LONGEST}}}+)&(?:quot|\#39);
        )
      | (?P<bare>{_BARE})
    )
"""
_OR: Final = ("||", "||=", "??", "??=", "or")

_AFTER_STRING: Final = ",:]} \t"  # follow a closing quote of JSON, not an opening one
_NO_START: Final = "=,;:)]}|&?*({>"  # cannot begin a bare value
_CODE: Final = r"[,;()\[\]{}&|$]"
_CALL: Final = r"[A-Za-z_][\w.:]*[(\[{]"
# The end of a word in a shell or a settings file: the next assignment, or a separator.
_NEXT: Final = r"[;&|](?:[;&|]|$|(?:export )?[A-Za-z_]\w*=)|[,;)\]}]+$"
_LINE_START: Final = (
    r"(?:^|[\n\r\"'`]|\\[nrt])[ \t]*(?:\d+[:→|\t][ \t]*)?(?:[-+>#*][ \t]+|\+)?(?:export[ \t]+|set[ \t]+)?\Z"
)
_LINE_END: Final = r"[ \t]*(?:\Z|[\n\r]|\\+[nr]|\\*[\"'])"
_SET: Final = r"(?:\b(?:set|setenv|setx|ENV|ARG)|-gx|-Ux|-x|config:set)[ \t]+\Z"
_SPOKEN: Final = ("pass", "key", "token", "secret", "password")  # `set pass` is English
_SQL_OR_C: Final = r"\b(?i:with|user|role|encrypted|alter)\b[^\n]{0,40}\Z|#[ \t]*define[ \t]+\Z"
_TAG: Final = r"<(?:\w{1,12}:)?\Z"
_SETTER: Final = (
    r"(?:\w*\.)*(?:set|with|use)[A-Z_]\w*|PASSWORD"
    r"|(?:\w*\.)+(?:\w{1,12}_)?(?i:(?:user|db|client|api|access|auth)?(?:password|passwd|passphrase|secret|token|key))"
)
_RESOURCE: Final = r"arn:[\w:*/.-]{0,80}\Z|::\Z"  # before a name that is part of a resource
_TOKEN_CHARACTERS: Final = r"[\w+/=.~:@!#$%^*-]+"
_USER_AND: Final = r"[\w.@+-]{1,64}:([^\s:]{4,})"


class _Assignment(NamedTuple):
    """A name, its value, and the way they are joined."""

    name: str
    value: str
    quote: str  # "" for a bare value
    sign: str  # as written; "" for a space, "value" for the other half of a pair
    close: str  # of the name: a quote, a bracket
    is_tight: bool  # no space around the sign
    is_spaced: bool  # space before the sign
    is_shell: bool  # NAME=value
    has_line: bool  # name and value fill a line
    is_option: bool  # the name is an option of a command: --password
    before: str
    after: str


def find_assignment(text: str, at: int) -> Iterator[Secret]:
    """Find the value of the name that contains a keyword at a place."""
    rest = regex(_REST_OF_NAME, re.ASCII).match(text, at)
    end = rest.end() if rest else at
    match = regex(_ASSIGNMENT, re.VERBOSE).match(text, end)
    if match is None:
        return
    start, stop = match.span(match.lastgroup or 0)
    if not _SHORTEST <= stop - start <= LONGEST or (match["bare"] is None and text[start] in _AFTER_STRING):
        return
    if match["bare"] and match["pair"] and match["pair"].rstrip(" \t:=")[-1] in "\"'`":
        return  # an unquoted value of JSON is no string
    begin = _find_name_start(text, end)
    name = text[begin:end].strip("-.")
    if len(name) < 2 or not regex(_NAMED).search(name.lower()):
        return
    pair = _read_assignment(text, match, begin, name)
    if len(pair.value) < _SHORTEST or not _is_joined(pair):
        return
    value, quote = pair.value, pair.quote
    kind = classify_value(name.lower(), value)
    meaning = None if kind else classify_name(name) or _classify_phrase(text, begin, name)
    # The test for a literal takes longest, and the tests before it rule out most values.
    if not (kind or (meaning and _is_secret(pair, meaning))) or not (quote or is_literal(value)):
        return
    stop = start + len(value)
    if kind:
        yield Secret(start, stop, kind, ASSIGNED)
    elif meaning:
        rest = regex(_REST_OF_VALUE, re.ASCII).match(text, stop) if len(value) >= _JUDGED and not quote else None
        yield Secret(start, rest.end() if rest else stop, meaning.kind, NAMED)


def _find_name_start(text: str, end: int) -> int:
    r"""Return the start of the name that ends at a place, without the end of an escape (`\n`, a colour)."""
    match = regex(r"[\wñ.\-]*", re.ASCII).match(text[max(0, end - _LONGEST_NAME) : end][::-1])
    start = end - (match.end() if match else 0)
    mark = text[start - 1] if start else ""
    if mark == "\\" and text[start : start + 1] in ("n", "r", "t", "b", "f"):
        return start + 1
    colour = regex(r"\d{0,3}m").match(text, start, end) if mark in ("[", ";") else None
    return colour.end() if colour else start


def _read_assignment(text: str, match: re.Match[str], begin: int, name: str) -> _Assignment:
    """Return name and value of a match, the value without what follows it."""
    start, stop = match.span(match.lastindex or 0)
    sign = match["typed"] or match["sign"] or ("value" if match["pair"] else "")
    close = match["close"] or ""
    before = text[max(0, begin - _BEFORE) : begin]
    at = match.start("sign")
    is_spaced = at > 0 and text[at - 1] in " \t"
    is_tight = at > 0 and not is_spaced and text[match.end("sign")] not in " \t"
    is_shell = is_tight and sign == "=" and not close and name.isupper()
    has_line = bool(regex(_LINE_START).search(before)) and bool(regex(_LINE_END).match(text, stop))
    bare = match["bare"]
    if bare:
        is_tagged = sign == ">" or (sign == "value" and text[stop : stop + 1] == "<")
        stop = start + len(_cut_value(bare, is_shell or (has_line and not regex(_CALL).match(bare)), is_tagged))
    elif "f" in match["prefix"].lower() and "{" in text[start:stop]:
        stop = start  # a template
    return _Assignment(
        name=name,
        value=text[start:stop],
        quote="" if bare else text[start - 1],
        sign=sign,
        close=close,
        is_tight=is_tight,
        is_spaced=is_spaced,
        is_shell=is_shell,
        has_line=has_line,
        is_option=text[begin] == "-",
        before=before,
        after=text[stop : stop + 1],
    )


def _cut_value(run: str, is_whole: bool, is_tagged: bool) -> str:
    """Cut a run without space or quotes to the value: all of it in settings and tags, else up to code."""
    if run[0] in _NO_START:
        return ""
    if is_tagged:
        return run
    cut = regex(_NEXT if is_whole else _CODE).search(run)
    return (run[: cut.start()] if cut else run).partition("**")[0]


def _is_joined(pair: _Assignment) -> bool:
    """Return whether name and value belong together, and are not just adjacent."""
    sign, close, before = pair.sign, pair.close, pair.before
    if regex(_RESOURCE).search(before) or (not pair.quote and pair.after in ("(", "[", "{")):
        return False
    if sign == "":
        if pair.is_option or (pair.name not in _SPOKEN and regex(_SET).search(before)):
            return pair.quote != "" or not close
        if pair.quote:
            return pair.has_line or before.endswith(":") or regex(_SQL_OR_C).search(before) is not None
        return pair.has_line and not close and is_secret_like(pair.value)
    if sign == "|":
        return "|" in before[before.rfind("\n") + 1 :]  # a table, not a union of types
    if sign == ">":
        return not pair.quote and pair.after == "<" and regex(_TAG).search(before) is not None
    if sign == "(":
        return pair.quote != "" and not close and regex(_SETTER).fullmatch(pair.name) is not None
    if sign == ",":
        # A second argument: ("TOKEN", "…"), {token, "…"}; not {"format": "password", "type": "…"}.
        opening = before.rstrip("\\\"'` bru")[-1:]
        return pair.quote != "" and opening in (("(", "[") if close else ("{",)) and pair.after != ":"
    if sign in _OR:
        return pair.quote not in ("", "`")
    # A quoted key with a bare value is JSON or code: a number or a name.
    return pair.quote != "" or sign == "value" or not close or close[-1] in "`*"


def _classify_phrase(text: str, begin: int, name: str) -> NameMeaning | None:
    """Return the meaning of a name in two words: `api key`, `seed phrase`, `mot de passe`."""
    if name == "passe":
        return NameMeaning("password", True) if text[max(0, begin - 7) : begin].lower() == "mot de " else None
    if name.lower() not in ("key", "phrase"):
        return None
    before = regex(r"([A-Za-z]{2,20}) \Z").search(text[max(0, begin - 24) : begin])
    meaning = classify_name(f"{before[1]}_{name}") if before else None
    return meaning if meaning and meaning.is_sure else None


def _is_secret(pair: _Assignment, meaning: NameMeaning) -> bool:
    """Return whether a value is a secret, by the meaning of its name and the way they are joined."""
    kind, value = meaning.kind, pair.value
    is_clear = pair.quote != "" or pair.is_shell
    if kind == "credentials":
        return _is_credentials(value, is_clear)
    if _is_name_again(value, pair.name) or (kind in ("token", "key") and not _has_token_characters(value)):
        return False
    bare_line = pair.has_line and not pair.quote
    if pair.name.lower() == "pass" and not (bare_line or (is_secret_like(value) and (pair.quote or pair.is_tight))):
        return False  # a passed test, a pass band, a step
    if regex(r"\s").search(value):
        if not pair.quote or not meaning.is_sure or meaning.is_label:
            return False
        return is_gibberish(value) or (kind == "password" and is_passphrase(value))
    if not meaning.is_sure or meaning.is_label:
        return (is_clear or pair.sign in ("=", ":", "=>", ":=", "value")) and is_random(value) and not is_uuid(value)
    if not is_literal(value) or is_path(value):
        return False
    if kind == "password":
        return _is_password(pair)
    return not _is_stand_in(value) and _is_token(pair, kind)


def _is_password(pair: _Assignment) -> bool:
    """Return whether a value is a password. Any word may be one, if it is clearly the value itself."""
    value = pair.value
    if pair.quote and pair.sign != "|":
        return True
    if is_reference(value):
        return False
    is_named = pair.is_option or pair.name.isupper()
    if pair.is_shell or (pair.sign in ("=", "value") and is_named and not pair.is_spaced):
        return True
    # `password: swordfish` on its own line is a setting; a type would be capital or well known.
    is_setting = pair.has_line and pair.sign in (":", "=") and not pair.is_spaced
    return (is_setting and value.isalpha() and value.islower()) or is_secret_like(value)


def _is_token(pair: _Assignment, kind: str) -> bool:
    """Return whether a value is a token or key; machines make them, so they look random."""
    value = pair.value
    if pair.sign in ("|", "is", "→"):
        return is_secret_like(value) and is_random(value) and not is_identifier(value)
    if pair.quote:
        if kind == "secret" or regex(r"\d").search(value):
            return not (is_compound(value) or is_reference(value))
        return len(value) >= 8 and not is_wordlike(value)
    if pair.sign == "=" and pair.is_option:
        return not (kind == "secret" and value.isalpha() and value.islower())  # --secret=billing names one
    if pair.is_shell or (pair.sign == "value" and pair.name.isupper()):
        return True
    return is_secret_like(value) and not is_identifier(value)


def _is_name_again(value: str, name: str) -> bool:
    """Return whether a value only repeats its name (`PASSWORD = "password"`, `"hashed_passwords"`)."""
    short, long = ("".join(filter(str.isalnum, text[: 2 * _LONGEST_NAME])).lower() for text in (value, name))
    return short != "" and (short in long or (long in short and short.isalpha() and is_wordlike(value)))


def _has_token_characters(value: str) -> bool:
    """Return whether a token may have these characters; a regular expression has others."""
    return regex(_TOKEN_CHARACTERS, re.ASCII).fullmatch(value) is not None or is_gibberish(value)


def _is_stand_in(value: str) -> bool:
    """Return whether a value is certainly no token: digits, or a name of several words."""
    return is_numeric(value) or is_description(value, 4) or (is_name(value) and any(c in "-_.:/" for c in value))


def _is_credentials(value: str, is_clear: bool) -> bool:
    """Return whether a value is a user with a password, or random."""
    if regex(r"\s").search(value):
        return False
    both = regex(_USER_AND).fullmatch(value)
    return is_login(value) or (is_clear and (is_secret_like(both[1]) if both else is_random(value)))
