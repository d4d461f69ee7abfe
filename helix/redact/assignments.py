"""A name and the value it is given: `DB_PASSWORD=…`, `"api_key": "…"`, `password: …`, `env("TOKEN", "…")`.

What makes it hard: the text is code, configuration, shell, prose, or JSON with any of these in a string of it, escaped
once or more; and most values are no secrets. So three things are asked apart: where the value is (here), what the name
promises (`secret_names`) and what the value looks like (`secret_values`).

What is replaced never holds the quote that ends it or half an escape, so JSON stays JSON at every depth.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final, NamedTuple

from helix.redact import kinds as secret_kinds
from helix.redact.kinds import ASSIGNED, GAP, LONGEST, NAMED, Found
from helix.redact.names import Meaning, meaning
from helix.redact.values import (
    compound,
    described,
    gibberish,
    identifier,
    literal,
    name,
    numbers,
    passphrase,
    path,
    random,
    reference,
    regex,
    told,
    user_and_password,
    uuid,
    wordy,
)

KEYWORDS: Final = {
    **dict.fromkeys(("pass", "pwd", "psk", "mnemonic", "secret", "token", "jwt", "bearer", "key", "cred", "auth"), ""),
    **dict.fromkeys(("kennwort", "contrase", "contribsys"), ""),
    **dict.fromkeys(("phrase", "pat", "pw", "psw", "login"), "(?![a-z])"),
    **dict.fromkeys(("client", "access"), "[_-]?id"),
}
"""One of these is in every name that is of interest, lower case; with what stands behind it, as a pattern."""

_SHORTEST: Final = 6  # characters of a value
_LONGEST_NAME: Final = 64  # characters of a name that are looked at
_BEFORE: Final = 80  # characters before it that are

_NAMED: Final = "|".join(keyword + behind for keyword, behind in KEYWORDS.items())
_REST: Final = rf"[\wñ.\-]{{0,{_LONGEST_NAME}}}+"
_QUOTE: Final = r"(?:\\{0,16}[\"'`]|&quot;|&\#39;)"
_COLOUR: Final = r"(?:(?:\x1b|\\{1,16}(?:u001b|x1b|e|033))\[[0-9;]{0,8}m)?"
_RUN: Final = r"[^\x00-\x20\x7f\x85\xa0\u2028\u2029\u3000\"'`\\<>\[]"  # no white space, no quote
_JUDGED: Final = 512  # characters of a bare value by which it is judged; the rest is what goes on in it
_BARE: Final = rf"(?>{_RUN}{{1,{_JUDGED}}}+(?:\[(?!REDACTED:){_RUN}{{0,64}}+){{0,8}})"  # ends before a placeholder
_ON: Final = r"[\w+/=.~%-]*+"
# The two are joined by being halves of a pair, by a type and a sign, by a sign, or by nothing but space. Within quotes
# that are escaped n times, what is escaped once more has 2n + 1 backslashes before it.
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

_BEHIND: Final = ",:]} \t"  # a string of JSON; the quote before did not open but close
_NO_START: Final = "=,;:)]}|&?*({>"  # of a bare value
_CODE: Final = r"[,;()\[\]{}&|$]"
_CALL: Final = r"[A-Za-z_][\w.:]*[(\[{]"
# What ends a word of a shell, or of a file of settings: the next assignment, a separator at its end.
_NEXT: Final = r"[;&|](?:[;&|]|$|(?:export )?[A-Za-z_]\w*=)|[,;)\]}]+$"
_LINE_START: Final = (
    r"(?:^|[\n\r\"'`]|\\[nrt])[ \t]*(?:\d+[:→|\t][ \t]*)?(?:[-+>#*][ \t]+|\+)?(?:export[ \t]+|set[ \t]+)?\Z"
)
_LINE_END: Final = r"[ \t]*(?:\Z|[\n\r]|\\+[nr]|\\*[\"'])"
_SET: Final = r"(?:\b(?:set|setenv|setx|ENV|ARG)|-gx|-Ux|-x|config:set)[ \t]+\Z"
_SPOKEN: Final = ("pass", "key", "token", "secret", "password")  # set pass …: English
_SQL_OR_C: Final = r"\b(?i:with|user|role|encrypted|alter)\b[^\n]{0,40}\Z|#[ \t]*define[ \t]+\Z"
_TAG: Final = r"<(?:\w{1,12}:)?\Z"
_SETTER: Final = (
    r"(?:\w*\.)*(?:set|with|use)[A-Z_]\w*|PASSWORD"
    r"|(?:\w*\.)+(?:\w{1,12}_)?(?i:(?:user|db|client|api|access|auth)?(?:password|passwd|passphrase|secret|token|key))"
)
_RESOURCE: Final = r"arn:[\w:*/.-]{0,80}\Z|::\Z"  # the name is part of one
_OF_TOKEN: Final = r"[\w+/=.~:@!#$%^*-]+"
_USER_AND: Final = r"[\w.@+-]{1,64}:([^\s:]{4,})"


class _Given(NamedTuple):
    """A value, and how it is joined to its name."""

    name: str
    value: str
    quote: str  # "" for a bare value
    sign: str  # as written; "" for a space, "value" for the other half of a pair
    close: str  # what closes the name: a quote, a bracket
    tight: bool  # there is no space about the sign
    spaced: bool  # there is some before it
    shell: bool  # NAME=value
    line: bool  # both have a line for themselves
    option: bool  # the name is an option of a command: --password
    before: str
    behind: str


def find(text: str, at: int) -> Iterator[Found]:
    """The value of the name that `at` lies in."""
    rest = regex(_REST, re.ASCII).match(text, at)
    end = rest.end() if rest else at
    match = regex(_ASSIGNMENT, re.VERBOSE).match(text, end)
    if match is None:
        return
    start, stop = match.span(match.lastgroup or 0)
    if not _SHORTEST <= stop - start <= LONGEST or (match["bare"] is None and text[start] in _BEHIND):
        return
    if match["bare"] and match["pair"] and match["pair"].rstrip(" \t:=")[-1] in "\"'`":
        return  # what JSON has without quotes is no string
    begin = _name_start(text, end)
    called = text[begin:end].strip("-.")
    if len(called) < 2 or not regex(_NAMED).search(called.lower()):
        return
    given = _given(text, match, begin, called)
    if len(given.value) < _SHORTEST or not _joined(given):
        return
    kind = secret_kinds.of_value(called.lower(), given.value)
    promised = None if kind else meaning(called) or _key_of(text, begin, called)
    # Whether it is a literal takes the longest to tell, and most are ruled out before.
    if not (kind or (promised and _holds(given, promised))) or not (given.quote or literal(given.value)):
        return
    if kind:
        yield Found(start, start + len(given.value), kind, ASSIGNED)
    elif promised:
        stop = start + len(given.value)
        on = regex(_ON, re.ASCII).match(text, stop) if len(given.value) >= _JUDGED and not given.quote else None
        yield Found(start, on.end() if on else stop, promised.kind, NAMED)


def _name_start(text: str, end: int) -> int:
    """Where the name begins that ends at `end`: not with what is left of an escape (`\\n`, a terminal's colour)."""
    found = regex(r"[\wñ.\-]*", re.ASCII).match(text[max(0, end - _LONGEST_NAME) : end][::-1])
    start = end - (found.end() if found else 0)
    mark = text[start - 1] if start else ""
    if mark == "\\" and text[start : start + 1] in ("n", "r", "t", "b", "f"):
        return start + 1
    colour = regex(r"\d{0,3}m").match(text, start, end) if mark in ("[", ";") else None
    return colour.end() if colour else start


def _given(text: str, match: re.Match[str], begin: int, called: str) -> _Given:
    start, stop = match.span(match.lastindex or 0)
    sign = match["typed"] or match["sign"] or ("value" if match["pair"] else "")
    close = match["close"] or ""
    before = text[max(0, begin - _BEFORE) : begin]
    at = match.start("sign")
    spaced = at > 0 and text[at - 1] in " \t"
    tight = at > 0 and not spaced and text[match.end("sign")] not in " \t"
    shell = tight and sign == "=" and not close and called.isupper()
    line = bool(regex(_LINE_START).search(before)) and bool(regex(_LINE_END).match(text, stop))
    bare = match["bare"]
    if bare:
        tagged = sign == ">" or (sign == "value" and text[stop : stop + 1] == "<")
        stop = start + len(_word(bare, shell or (line and not regex(_CALL).match(bare)), tagged))
    elif "f" in match["prefix"].lower() and "{" in text[start:stop]:
        stop = start  # a template
    return _Given(
        name=called,
        value=text[start:stop],
        quote="" if bare else text[start - 1],
        sign=sign,
        close=close,
        tight=tight,
        spaced=spaced,
        shell=shell,
        line=line,
        option=text[begin] == "-",
        before=before,
        behind=text[stop : stop + 1],
    )


def _word(run: str, whole: bool, tagged: bool) -> str:
    """What of a run without space or quotes is the value: all of it in settings and in a tag, else code ends it."""
    if run[0] in _NO_START:
        return ""
    if tagged:
        return run
    cut = regex(_NEXT if whole else _CODE).search(run)
    return (run[: cut.start()] if cut else run).partition("**")[0]


def _joined(given: _Given) -> bool:
    """Whether name and value belong together, and do not just stand beside each other."""
    sign, close, before = given.sign, given.close, given.before
    if regex(_RESOURCE).search(before) or (not given.quote and given.behind in ("(", "[", "{")):
        return False
    if sign == "":
        if given.option or (given.name not in _SPOKEN and regex(_SET).search(before)):
            return given.quote != "" or not close
        if given.quote:
            return given.line or before.endswith(":") or regex(_SQL_OR_C).search(before) is not None
        return given.line and not close and told(given.value)
    if sign == "|":
        return "|" in before[before.rfind("\n") + 1 :]  # a table, no union of types
    if sign == ">":
        return not given.quote and given.behind == "<" and regex(_TAG).search(before) is not None
    if sign == "(":
        return given.quote != "" and not close and regex(_SETTER).fullmatch(given.name) is not None
    if sign == ",":
        # An argument, or the second of two: ("TOKEN", "…"), {token, "…"}; not {"format": "password", "type": "…"}.
        opening = before.rstrip("\\\"'` bru")[-1:]
        return given.quote != "" and opening in (("(", "[") if close else ("{",)) and given.behind != ":"
    if sign in _OR:
        return given.quote not in ("", "`")
    # A quoted key with a bare value is JSON or code: the value is a number or a name.
    return given.quote != "" or sign == "value" or not close or close[-1] in "`*"


def _key_of(text: str, begin: int, called: str) -> Meaning | None:
    """`api key`, `seed phrase`, `mot de passe`: the word before says what it opens."""
    if called == "passe":
        return Meaning("password", True) if text[max(0, begin - 7) : begin].lower() == "mot de " else None
    if called.lower() not in ("key", "phrase"):
        return None
    before = regex(r"([A-Za-z]{2,20}) \Z").search(text[max(0, begin - 24) : begin])
    found = meaning(f"{before[1]}_{called}") if before else None
    return found if found and found.sure else None


def _holds(given: _Given, promised: Meaning) -> bool:
    """Whether the value is a secret, given its name and how the two are joined."""
    kind, value = promised.kind, given.value
    clear = given.quote != "" or given.shell
    if kind == "credentials":
        return _credentials(value, clear)
    if _says_the_same(value, given.name) or (kind in ("token", "key") and not _of_token(value)):
        return False
    bare_line = given.line and not given.quote
    if given.name.lower() == "pass" and not (bare_line or (told(value) and (given.quote or given.tight))):
        return False  # a test that passed, a filter's band, a step
    if regex(r"\s").search(value):
        if not given.quote or not promised.sure or promised.label:
            return False
        return gibberish(value) or (kind == "password" and passphrase(value))
    if not promised.sure or promised.label:
        return (clear or given.sign in ("=", ":", "=>", ":=", "value")) and random(value) and not uuid(value)
    if not literal(value) or path(value):
        return False
    if kind == "password":
        return _is_password(given)
    return not _stand_in(value) and _is_token(given, kind)


def _is_password(given: _Given) -> bool:
    """Whether this is one; it may be any word, so long as it is clear that it is the value itself."""
    value = given.value
    if given.quote and given.sign != "|":
        return True
    if reference(value):
        return False
    if given.shell or (given.sign in ("=", "value") and (given.option or given.name.isupper()) and not given.spaced):
        return True
    # `password: swordfish`, alone on its line, is a setting; a type there would be capital, or well known.
    if given.line and given.sign in (":", "=") and not given.spaced and value.isalpha() and value.islower():
        return True
    return told(value)


def _is_token(given: _Given, kind: str) -> bool:
    """Whether this is one; nobody makes them up, so they look it."""
    value = given.value
    if given.sign in ("|", "is", "→"):
        return told(value) and random(value) and not identifier(value)
    if given.quote:
        if kind == "secret" or regex(r"\d").search(value):
            return not (compound(value) or reference(value))
        return len(value) >= 8 and not wordy(value)
    if given.sign == "=" and given.option:
        return not (kind == "secret" and value.isalpha() and value.islower())  # --secret=billing names one
    if given.shell or (given.sign == "value" and given.name.isupper()):
        return True
    return told(value) and not identifier(value)


def _says_the_same(value: str, called: str) -> bool:
    """Whether the value does but repeat the name (`PASSWORD = "password"`, `"hashed_passwords"`)."""
    short, long = ("".join(filter(str.isalnum, text[: 2 * _LONGEST_NAME])).lower() for text in (value, called))
    return short != "" and (short in long or (long in short and short.isalpha() and wordy(value)))


def _of_token(value: str) -> bool:
    """Whether a token may be made of these characters; a regular expression is."""
    return regex(_OF_TOKEN, re.ASCII).fullmatch(value) is not None or gibberish(value)


def _stand_in(value: str) -> bool:
    """Whether a token or key is none for sure: figures, a name of several words."""
    return numbers(value) or described(value, 4) or (name(value) and any(c in "-_.:/" for c in value))


def _credentials(value: str, clear: bool) -> bool:
    """Whether this is a user and a password, or something random."""
    if regex(r"\s").search(value):
        return False
    both = regex(_USER_AND).fullmatch(value)
    return user_and_password(value) or (clear and (told(both[1]) if both else random(value)))
