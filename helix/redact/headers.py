"""Credentials in HTTP headers: Authorization and cookies."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

from helix.redact.rules import FORM, GAP, LEFT, OPEN, QUOTE, Secret, Trigger, make_rule
from helix.redact.urls import is_signature
from helix.redact.values import is_literal, is_login, is_path, is_random, is_secret_like, regex

_IS: Final = (
    rf"(?:{QUOTE}(?:,|{GAP}){{1,48}}{QUOTE}?[Vv]alue)?{QUOTE}?"  # halves of a pair
    r"[\])]?[ \t]{0,4}(?:=>|[:=,]|\\u003[ad])[ \t]{0,4}(?:[bfru](?=[\"'\\]))?"
)
_SCHEME: Final = (
    r"(?:bearer|basic|token|digest|api-?key|key|negotiate|ntlm|hawk|oauth|bot|splunk|ssws|geniekey|hmac|apitoken"
    r"|pveapitoken|aws4-hmac-sha256|aws|sharedkey(?:lite)?|sharedaccesssignature|zoho-oauthtoken|klaviyo-api-key)"
    r"(?:[ \t=]{1,4}|%20)(?:token=|key=|id=)?"
)
_CREDENTIALS: Final = r"[A-Za-z0-9._~+/=:%!@|-]"
_AUTHORIZATION: Final = rf"{LEFT}authorization{_IS}(?:{OPEN})?[ \t]?"


def _find_authorization(text: str, at: int) -> Iterator[Secret]:
    """Find the credentials of an Authorization header, also as strings in code or without a scheme."""
    head = regex(_AUTHORIZATION, re.IGNORECASE).match(text, at)
    if head is None or ((set(head[0]) & set("\"'`")) and head[0].rstrip()[-1] not in "\"'`;"):
        return  # a quoted name requires a quoted value
    scheme = regex(_SCHEME, re.IGNORECASE).match(text, head.end())
    if scheme is None:
        secret = regex(_CREDENTIALS + "{16,8192}+").match(text, head.end())
        if secret and is_random(secret[0]):
            yield Secret(*secret.span(), "authorization", FORM)
        return
    yield from _find_parameters(text, scheme.end())
    secret = regex(_CREDENTIALS + "{6,8192}+").match(text, scheme.end())
    if secret is None or regex(r"\w{1,24}=(?:[\w\"'\\]|\Z)").match(secret[0]):
        return  # the first parameter
    if is_literal(secret[0]) and not is_path(secret[0]):
        yield Secret(*secret.span(), "authorization", FORM)


_PARAMETER: Final = (
    r"\b(?:response|signature|oauth_token|oauth_signature|mac|sig)=\\*[\"']?([A-Za-z0-9%+/=_-]{16,256}+)"
)


def _find_parameters(text: str, at: int) -> Iterator[Secret]:
    """Find the parameters of Digest (response="…"), AWS4-HMAC-SHA256 (Signature=…), OAuth (oauth_token="…")."""
    line = text.find("\n", at, at + 1024)
    for match in regex(_PARAMETER, re.IGNORECASE).finditer(text, at, at + 1024 if line < 0 else line):
        if is_signature(match[1]):
            yield Secret(*match.span(1), "authorization", FORM)


_BEARER: Final = r"(?i:bearer)(?:[ \t]{1,4}|%20)([A-Za-z0-9._~+/=-]{16,8192}+)"
_BASIC: Final = r"(?i:basic)[ \t]{1,4}([A-Za-z0-9+/]{8,1024}+={0,2})"

_COOKIES: Final = rf"cookies?{_IS}(?:{OPEN})?[ \t]?"
_COOKIE: Final = r"(?P<name>[\w.$%-]{1,80}+)=(?P<value>[^\s;,\"'`\\<>\[\]{}]{1,4096}+)"
_LOGGED_IN: Final = (
    r"(?i)(?!.*(?:csrf|xsrf|expires|session_start|lang|theme|count))"
    r".*(?:sess|sid\Z|auth|token|jwt|remember|login|logged_in|identity|credential|secret|aspnet|li_at\Z)"
)
_MOST_COOKIES: Final = 40


def _find_cookies(text: str, at: int) -> Iterator[Secret]:
    """Find the session cookies of Cookie: and Set-Cookie:."""
    head = regex(_COOKIES, re.IGNORECASE).match(text, at)
    end = head.end() if head else 0
    for _ in range(_MOST_COOKIES if head else 0):
        pair = regex(_COOKIE).match(text, end)
        if pair is None:
            return
        value = pair["value"]
        if regex(_LOGGED_IN).match(pair["name"]) and len(value) >= 8 and (is_secret_like(value) or is_random(value)):
            yield Secret(*pair.span("value"), "cookie", FORM)
        following = regex(r"(?i)(?:;[ \t]{0,4}(?:Secure|HttpOnly)\b)*;[ \t]{0,4}").match(text, pair.end())
        if following is None:
            return
        end = following.end()


# Session cookies of frameworks, anywhere.
_SESSION: Final = (
    LEFT + r"(?:sessionid|PHPSESSID|JSESSIONID|ASP\.NET_SessionId|connect\.sid|laravel_session|__Secure-[\w.-]{1,40}"
    r"|__Host-[\w.-]{1,40})=([^\s;,\"'`\\<>\[\]{}&]{16,4096}+)"
)


def list_triggers() -> Iterator[Trigger]:
    """Yield the rules with their keywords."""
    yield Trigger("authorization", _find_authorization)
    yield Trigger("bearer", make_rule(_BEARER, "bearer-token", is_secret_like))
    yield Trigger("basic", make_rule(_BASIC, "authorization", is_login))
    yield Trigger("cookie", _find_cookies)
    yield Trigger(
        "sessionid=|phpsessid=|jsessionid=|asp.net_sessionid=|connect.sid=|laravel_session=|__secure-|__host-",
        make_rule(_SESSION, "cookie", is_signature),
    )
