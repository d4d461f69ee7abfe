"""Secrets told by the form they stand in: private keys, JSON web tokens, URLs, headers, cookies, command lines.

Each form is tried where one of its keywords stands. None looks further than a few thousand characters, but for the
body of a private key, which ends at the next dashes.
"""

from __future__ import annotations

import base64
import re
from collections.abc import Iterator
from typing import Final

from helix.redact.hiding import across_lines
from helix.redact.kinds import FORM, GAP, LEFT, TOKEN, Found
from helix.redact.rules import OPEN, QUOTE, Row, given, matching, whatever
from helix.redact.values import literal, path, random, regex, told, user_and_password


def _signed(value: str) -> bool:
    return random(value.replace("%", ""))


# --- keys in armour ---------------------------------------------------------------------------------------------------

_BEGIN: Final = r"(?:-----BEGIN|---- BEGIN)"
_END: Final = r"(?:-----END|---- END)"
_BLOCK: Final = r" [A-Z0-9 ]{0,40}PRIVATE KEY(?: BLOCK)? ?-{4,5}"
# Newlines are real or escaped (\n, \\n).
_WHOLE: Final = rf"{_BEGIN}{_BLOCK}(?:(?P<body>(?>(?:[^-\"'`\\<>{{}}]|-(?!---)|\\+[nrt/])*)){_END}{_BLOCK})?"
# What stands between the lines of a key that is quoted, indented, numbered, or part of a diff.
_GLUE: Final = r"(?>(?:[\s\"'`,|>#*\]\[()→:;.-]|\+(?=[\s\"'\\])|\\+(?:[nrt]|(?=[\"'`\n]))|\d{1,6}(?=[→:|\t ]))*)"
_HEADER: Final = r"(?:(?:Version|Comment|Proc-Type|DEK-Info|Hash|Charset): [^\n\\\"']{0,80}" + _GLUE + ")*"
# Letters, so that it is no number of JSON, which may not become a placeholder.
_LINE: Final = _GLUE + _HEADER + r"(?P<data>(?=[0-9+/]{0,64}[A-Za-z][0-9+/]{0,64}[A-Za-z])[A-Za-z0-9+/]{16,}+={0,3})"
_GAPS: Final = rf"{GAP}*"
_MOST_LINES: Final = 400


def _private_key(text: str, at: int) -> Iterator[Found]:
    """-----BEGIN … PRIVATE KEY-----: whole; or cut off, or in pieces: then its lines of base64."""
    match = regex(_WHOLE).match(text, at)
    if match is None:
        return
    if match["body"] is not None:
        if regex("[A-Za-z0-9+/]{16}").search(match["body"]):
            yield Found(at, match.end(), "private-key", TOKEN)
        return
    start, end = at, match.end()
    for _ in range(_MOST_LINES):
        line = regex(_LINE).match(text, end)
        if line is None or (end == match.end() and not _is_base64(line["data"])):
            break
        if regex(_GAPS).fullmatch(text[end : line.start("data")]) is None:
            # Quotes and the like stay where they are.
            if end > match.end():
                yield Found(start, end, "private-key", TOKEN)
            start = line.start("data")
        end = line.end()
    if end > match.end():
        yield Found(start, end, "private-key", TOKEN)


_LINE_BEFORE: Final = (
    r"(?:(?<![A-Za-z0-9+/=\\])|(?<=\\[nrt]))(?P<data>=?[A-Za-z0-9+/]{4,76}={0,3})(?P<glue>" + _GLUE + r")\Z"
)
_MOST_BEFORE: Final = 128  # characters of a line of base64 and of what parts it from the next


def _end_of_private_key(text: str, at: int) -> Iterator[Found]:
    """-----END … PRIVATE KEY----- whose beginning is not there, as `tail` leaves it: the lines of base64 before it."""
    end = regex(_END + _BLOCK).match(text, at)
    lines: list[re.Match[str]] = []  # from the last one on
    start = at
    while end and len(lines) < _MOST_LINES:
        line = regex(_LINE_BEFORE).search(text, max(0, start - _MOST_BEFORE), start)
        if line is None:
            break
        # The last may be short, and so may the sum behind it; what quotes or commas part from the end is another thing.
        short = len(lines) < 2 and regex(_GAPS).fullmatch(line["glue"]) is not None
        if not (_is_base64(line["data"]) if len(line["data"]) >= 16 else short):
            break
        lines.append(line)
        start = line.start("data")
    if end is None or not any(len(line["data"]) >= 16 for line in lines):
        return
    stop = end.end()
    for line in lines:
        if regex(_GAPS).fullmatch(line["glue"]) is None:  # quotes and the like stay where they are
            if stop != end.end():
                yield Found(start, stop, "private-key", TOKEN)
            stop = line.end("data")
        start = line.start("data")
    yield Found(start, stop, "private-key", TOKEN)


def _is_base64(line: str) -> bool:
    """Whether this is, and no path that the key is written to."""
    mixed = line.lower() != line and line.upper() != line
    return mixed and any(c.isdigit() for c in line)


_ARMOUR_IN_BASE64: Final = LEFT + r"LS0tLS1CRUdJTi[A-Za-z0-9+/]{40,}+={0,3}"


def _armour_in_base64(text: str, at: int) -> Iterator[Found]:
    """A private key that is base64 once more, as Kubernetes has it; certificates begin the same way."""
    match = regex(_ARMOUR_IN_BASE64).match(text, at)
    if match and b" PRIVATE KEY" in base64.b64decode(match[0][:64][: len(match[0]) // 4 * 4]):
        yield Found(*match.span(), "private-key", TOKEN)


_NUMBER: Final = r"[\"'](?:d|k|p|q|dp|dq|qi)\\*[\"'][ \t]?:[ \t]?\\*[\"']([\w-]{20,2000}+)"
_FROM_JSON_WEB_KEY: Final = 2000  # characters before and behind `kty`


def _json_web_key(text: str, at: int) -> Iterator[Found]:
    """The private numbers of a JSON web key."""
    if not text.startswith("kty", at):
        return
    begin = max(0, at - _FROM_JSON_WEB_KEY)
    begin = max(begin, text.rfind("{", begin, at))
    if text.find("kty", begin, at) >= 0:
        return  # it has been looked at
    end = text.find("}", at, at + _FROM_JSON_WEB_KEY)
    for match in regex(_NUMBER).finditer(text, begin, at + _FROM_JSON_WEB_KEY if end < 0 else end):
        yield Found(*match.span(1), "private-key", TOKEN)


# Header, payload, signature; five parts when encrypted. A header is JSON, and `eyJ` is base64 of `{"`.
_JSON_WEB_TOKEN: Final = (
    LEFT + r"eyJ[\w-]{8,2048}+(?:\.[\w-]{8,8192}+(?:\.[\w-]{4,4096}+){1,3}"
    r"|\.eyJ[\w-]{8,8192}+\.?(?![\w-])|\.\.[\w-]{8,8192}+(?:\.[\w-]{4,4096}+){1,2})"
)
_TOKEN_IN_BASE64: Final = LEFT + r"ZXlK[A-Za-z0-9+/_-]{60,8192}+={0,2}"


def _json_web_token_in_base64(text: str, at: int) -> Iterator[Found]:
    """The same, base64 once more."""
    match = regex(_TOKEN_IN_BASE64).match(text, at)
    if match and base64.b64decode(match[0][:60], altchars=b"-_").isascii():
        yield Found(*match.span(), "jwt-base64", TOKEN)


# --- addresses --------------------------------------------------------------------------------------------------------

_USER: Final = r"[^\s/:@?#\"'`\\<>{}\[\]()|,]{0,128}+"
_OF_URL: Final = (
    rf"://{_USER}:(?P<secret>[^\s/@\"'`\\<>{{}}\[\]]{{1,256}}+(?:@[^\s/@\"'`\\<>{{}}\[\]:]{{0,64}}(?=@))?)"
    r"@(?=[\w\[${%.-])"
)
_DATABASE: Final = (
    r"(?i)(?:postgres(?:ql)?|mysql2?|mariadb|mongodb(?:\+srv)?|rediss?|amqps?|mssql|sqlserver|cockroachdb|clickhouse"
    r"|kafka|nats|mqtts?|ldaps?|smtps?|imaps?|ftps?|sftp|oracle|db2|neo4j|bolt|cassandra|couchbase|influxdb|snowflake"
    r"|redshift|trino|presto|hive)(?:\+\w{2,16})?\Z"
)
# Passwords of databases are pasted as they are, slashes and all; what begins as a number of a port does is none.
_OF_DATABASE: Final = (
    rf"://{_USER}:(?P<secret>(?!\d{{1,5}}[/?])[^\s\"'`\\<>{{}}?,]{{3,256}})"
    r"@(?=[\w.-]+(?::\d{2,5})?(?:[/?,\s\"'`\\]|$))"
)


def _url_password(text: str, at: int) -> Iterator[Found]:
    """scheme://user:password@host."""
    pasted = regex(_DATABASE).search(text[max(0, at - 32) : at]) is not None
    match = (regex(_OF_DATABASE).match(text, at) if pasted else None) or regex(_OF_URL).match(text, at)
    if match and _password_of_url(match["secret"]):
        yield Found(*match.span("secret"), "url-password", FORM)


def _password_of_url(value: str) -> bool:
    if value.isdigit():
        return len(value) > 5
    return len(value) > 2 and value[0] not in "$*" and "://" not in value and literal(value)


# What signs an address for a time, with Azure, Amazon and Google.
_SIGNATURE: Final = (
    r"(?:(?<=[?&;])sig|(?<=0026)sig|x-(?:amz|goog)-signature|(?<=[?&])signature)=([A-Za-z0-9%+/_~-]{24,1024}+={0,2})"
)
_DISCORD: Final = r"(?:login|run|start)\(\s{0,4}\\*[\"'`]([MNO][\w-]{22,27}\.[\w-]{6}\.[\w-]{27,40})\\*[\"'`]"


def _telegram(text: str, at: int) -> Iterator[Found]:
    """123456789:AA…, and the number with it where no escape ends in it (`\\u0019`)."""
    match = regex(r":AA[\w-]{33}(?![\w-])").match(text, at)
    number = regex(r"\d{7,12}(?!\d)").match(text[max(0, at - 13) : at][::-1])
    if match and number:
        start = at - number.end()
        escaped = regex(r"\\u[0-9A-Fa-f]{0,4}\Z").search(text[max(0, start - 6) : start])
        yield Found(at + 1 if escaped else start, match.end(), "telegram-bot-api-token", TOKEN)


# --- headers ----------------------------------------------------------------------------------------------------------

_IS: Final = (
    rf"(?:{QUOTE}(?:,|{GAP}){{1,48}}{QUOTE}?[Vv]alue)?{QUOTE}?"  # the two halves of a pair
    r"[\])]?[ \t]{0,4}(?:=>|[:=,]|\\u003[ad])[ \t]{0,4}(?:[bfru](?=[\"'\\]))?"
)
_SCHEME: Final = (
    r"(?:bearer|basic|token|digest|api-?key|key|negotiate|ntlm|hawk|oauth|bot|splunk|ssws|geniekey|hmac|apitoken"
    r"|pveapitoken|aws4-hmac-sha256|aws|sharedkey(?:lite)?|sharedaccesssignature|zoho-oauthtoken|klaviyo-api-key)"
    r"(?:[ \t=]{1,4}|%20)(?:token=|key=|id=)?"
)
_CREDENTIALS: Final = r"[A-Za-z0-9._~+/=:%!@|-]"
_AUTHORIZATION: Final = rf"{LEFT}authorization{_IS}(?:{OPEN})?[ \t]?"


def _authorization(text: str, at: int) -> Iterator[Found]:
    """Authorization: SCHEME credentials; also as a pair of strings in code, and without a scheme."""
    head = regex(_AUTHORIZATION, re.IGNORECASE).match(text, at)
    if head is None or ((set(head[0]) & set("\"'`")) and head[0].rstrip()[-1] not in "\"'`;"):
        return  # the value of a quoted name is quoted, or none for us
    scheme = regex(_SCHEME, re.IGNORECASE).match(text, head.end())
    if scheme is None:
        secret = regex(_CREDENTIALS + "{16,8192}+").match(text, head.end())
        if secret and random(secret[0]):
            yield Found(*secret.span(), "authorization", FORM)
        return
    yield from _parameters(text, scheme.end())
    secret = regex(_CREDENTIALS + "{6,8192}+").match(text, scheme.end())
    if (
        secret
        and not regex(r"\w{1,24}=(?:[\w\"'\\]|\Z)").match(secret[0])
        and literal(secret[0])
        and not path(secret[0])
    ):
        yield Found(*secret.span(), "authorization", FORM)


_PARAMETER: Final = (
    r"\b(?:response|signature|oauth_token|oauth_signature|mac|sig)=\\*[\"']?([A-Za-z0-9%+/=_-]{16,256}+)"
)


def _parameters(text: str, at: int) -> Iterator[Found]:
    """Digest …, response="…"; AWS4-HMAC-SHA256 …, Signature=…; OAuth oauth_token="…"."""
    line = text.find("\n", at, at + 1024)
    for match in regex(_PARAMETER, re.IGNORECASE).finditer(text, at, at + 1024 if line < 0 else line):
        if _signed(match[1]):
            yield Found(*match.span(1), "authorization", FORM)


_BEARER: Final = r"(?i:bearer)(?:[ \t]{1,4}|%20)([A-Za-z0-9._~+/=-]{16,8192}+)"
_BASIC: Final = r"(?i:basic)[ \t]{1,4}([A-Za-z0-9+/]{8,1024}+={0,2})"

_COOKIES: Final = rf"cookies?{_IS}(?:{OPEN})?[ \t]?"
_COOKIE: Final = r"(?P<name>[\w.$%-]{1,80}+)=(?P<value>[^\s;,\"'`\\<>\[\]{}]{1,4096}+)"
_LOGGED_IN: Final = (
    r"(?i)(?!.*(?:csrf|xsrf|expires|session_start|lang|theme|count))"
    r".*(?:sess|sid\Z|auth|token|jwt|remember|login|logged_in|identity|credential|secret|aspnet|li_at\Z)"
)
_MOST_COOKIES: Final = 40


def _cookies(text: str, at: int) -> Iterator[Found]:
    """Cookie: and Set-Cookie:, of which those that keep somebody logged in."""
    head = regex(_COOKIES, re.IGNORECASE).match(text, at)
    end = head.end() if head else 0
    for _ in range(_MOST_COOKIES if head else 0):
        pair = regex(_COOKIE).match(text, end)
        if pair is None:
            return
        value = pair["value"]
        if regex(_LOGGED_IN).match(pair["name"]) and len(value) >= 8 and (told(value) or random(value)):
            yield Found(*pair.span("value"), "cookie", FORM)
        following = regex(r"(?i)(?:;[ \t]{0,4}(?:Secure|HttpOnly)\b)*;[ \t]{0,4}").match(text, pair.end())
        if following is None:
            return
        end = following.end()


# The names that frameworks give to the cookie of a session, anywhere.
_SESSION: Final = (
    LEFT + r"(?:sessionid|PHPSESSID|JSESSIONID|ASP\.NET_SessionId|connect\.sid|laravel_session|__Secure-[\w.-]{1,40}"
    r"|__Host-[\w.-]{1,40})=([^\s;,\"'`\\<>\[\]{}&]{16,4096}+)"
)


# --- files ------------------------------------------------------------------------------------------------------------

_FIELD: Final = rf"[^\s\\\"']{{1,128}}{GAP}{{1,40}}"
_NETRC: Final = (
    rf"machine{GAP}{{1,40}}{_FIELD}(?:login|user){GAP}{{1,40}}{_FIELD}(?:account{GAP}{{1,40}}{_FIELD})?"
    rf"password{GAP}{{1,40}}([^\s\\\"'`<>]{{4,256}}+)"
)
_PGPASS: Final = (
    r"(?<=[\w*]):(?:5432|6432|5433|\*):(?:[\w-]{1,63}|\*):[\w.-]{1,63}:([^\s:\"'`\\<>]{4,256}+)(?=\s|\\+[nr]|[\"'`]|$)"
)

_KIND: Final = rf"kind{QUOTE}?:[ \t]{{0,8}}{QUOTE}?Secret\b"
_BLOCK_OF_DATA: Final = rf"(?:\b|(?<=\\n))(?:data|stringData){QUOTE}?:"
_FROM_KIND: Final = 4096  # characters of a manifest before and behind its kind
_ENTRY: Final = (
    rf"{GAP}{{0,40}}[,{{]?{GAP}{{0,40}}(?:\\{{0,16}}[\"'])?(?P<name>[\w.-]{{1,128}}+)"
    rf"(?:\\{{0,16}}[\"']:[ \t]{{0,8}}{OPEN}|:[ \t]{{0,8}}(?:{OPEN})?)"
    r"(?P<value>[^\s\"'`\\{}<>,]{1,4096}+)(?:\\{0,16}[\"'])?"
)
_OTHER_ENTRIES: Final = ("kind", "metadata", "apiVersion", "type", "name", "namespace", "immutable")
_MOST_ENTRIES: Final = 100


def _manifest(text: str, at: int) -> tuple[int, int]:
    """From the kind of the manifest before to that of the one behind, or to the line between."""
    begin, end = max(0, at - _FROM_KIND), min(len(text), at + _FROM_KIND)
    for border in ("kind:", 'kind"', "kind\\", "\n---", "\\n---"):
        begin = max(begin, text.rfind(border, begin, at) + 1)
        behind = text.find(border, at + 1, end)
        end = behind if behind >= 0 else end
    return begin, end


def _kubernetes(text: str, at: int) -> Iterator[Found]:
    """The values under `data:` and `stringData:` of a manifest of kind Secret, before or behind its kind."""
    if regex(_KIND).match(text, at) is None:
        return
    begin, end = _manifest(text, at)
    for block in regex(_BLOCK_OF_DATA).finditer(text, begin, end):
        place = block.end()
        for _ in range(_MOST_ENTRIES):
            entry = regex(_ENTRY).match(text, place, end)
            if entry is None or entry["name"] in _OTHER_ENTRIES:
                break
            if len(entry["value"]) > 3 and literal(entry["value"]):
                yield Found(*entry.span("value"), "kubernetes-secret-yaml", FORM)
            place = entry.end()


def rows() -> Iterator[Row]:
    """The forms, and the keywords where each is tried."""
    yield Row("-----begin|---- begin", _private_key)
    yield Row("-----end|---- end", _end_of_private_key, r" [a-z0-9 ]{0,40}private key")
    yield Row(
        "private-lines:",
        matching(r"Private-Lines: \d{1,3}((?:(?:\s|\\+[nr])+[A-Za-z0-9+/=]{16,}+)+)", "private-key", whatever),
    )
    yield Row("ls0tls1crudjti", _armour_in_base64)
    yield Row("kty", _json_web_key)
    yield Row("eyj", across_lines(matching(_JSON_WEB_TOKEN, "jwt", whatever, TOKEN), 0))
    yield Row("zxlk", _json_web_token_in_base64)
    yield Row("://", _url_password)
    yield Row("sig=|x-amz-sig|x-goog-sig|signature=", matching(_SIGNATURE, "signature", _signed, flags=re.IGNORECASE))
    yield Row(":aa", _telegram)
    yield Row("login(|run(|start(", matching(_DISCORD, "discord-bot-token", whatever, TOKEN))
    yield Row("authorization", _authorization)
    yield Row("bearer", matching(_BEARER, "bearer-token", told))
    yield Row("basic", matching(_BASIC, "authorization", user_and_password))
    yield Row("cookie", _cookies)
    yield Row(
        "sessionid=|phpsessid=|jsessionid=|asp.net_sessionid=|connect.sid=|laravel_session=|__secure-|__host-",
        matching(_SESSION, "cookie", _signed),
    )
    yield Row("machine", matching(_NETRC, "password", given))
    yield Row(":5432:|:6432:|:5433:|:*:", matching(_PGPASS, "password", given))
    yield Row("kind", _kubernetes)
