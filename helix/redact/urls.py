"""Secrets in URLs: passwords, signatures; tokens of Telegram and Discord bots."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

from helix.redact.rules import FORM, TOKEN, Secret, Trigger, accept_any, make_rule
from helix.redact.values import is_literal, is_random, regex


def is_signature(value: str) -> bool:
    """Return whether a value, percent-encoded or not, is a signature."""
    return is_random(value.replace("%", ""))


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
# Passwords of databases are often pasted unencoded, with slashes; a port number is no password.
_OF_DATABASE: Final = (
    rf"://{_USER}:(?P<secret>(?!\d{{1,5}}[/?])[^\s\"'`\\<>{{}}?,]{{3,256}})"
    r"@(?=[\w.-]+(?::\d{2,5})?(?:[/?,\s\"'`\\]|$))"
)


def _find_url_password(text: str, at: int) -> Iterator[Secret]:
    """Find the password of scheme://user:password@host."""
    is_database = regex(_DATABASE).search(text[max(0, at - 32) : at]) is not None
    match = (regex(_OF_DATABASE).match(text, at) if is_database else None) or regex(_OF_URL).match(text, at)
    if match and _is_url_password(match["secret"]):
        yield Secret(*match.span("secret"), "url-password", FORM)


def _is_url_password(value: str) -> bool:
    if value.isdigit():
        return len(value) > 5
    return len(value) > 2 and value[0] not in "$*" and "://" not in value and is_literal(value)


# Signatures of temporary URLs: Azure, Amazon, Google.
_SIGNATURE: Final = (
    r"(?:(?<=[?&;])sig|(?<=0026)sig|x-(?:amz|goog)-signature|(?<=[?&])signature)=([A-Za-z0-9%+/_~-]{24,1024}+={0,2})"
)
_DISCORD: Final = r"(?:login|run|start)\(\s{0,4}\\*[\"'`]([MNO][\w-]{22,27}\.[\w-]{6}\.[\w-]{27,40})\\*[\"'`]"


def _find_telegram_token(text: str, at: int) -> Iterator[Secret]:
    r"""Find 123456789:AA…; the number stays if it is the end of an escape (`\u0019`)."""
    match = regex(r":AA[\w-]{33}(?![\w-])").match(text, at)
    number = regex(r"\d{7,12}(?!\d)").match(text[max(0, at - 13) : at][::-1])
    if match and number:
        start = at - number.end()
        escaped = regex(r"\\u[0-9A-Fa-f]{0,4}\Z").search(text[max(0, start - 6) : start])
        yield Secret(at + 1 if escaped else start, match.end(), "telegram-bot-api-token", TOKEN)


def list_triggers() -> Iterator[Trigger]:
    """Yield the rules with their keywords."""
    yield Trigger("://", _find_url_password)
    signature = make_rule(_SIGNATURE, "signature", is_signature, flags=re.IGNORECASE)
    yield Trigger("sig=|x-amz-sig|x-goog-sig|signature=", signature)
    yield Trigger(":aa", _find_telegram_token)
    yield Trigger("login(|run(|start(", make_rule(_DISCORD, "discord-bot-token", accept_any, TOKEN))
