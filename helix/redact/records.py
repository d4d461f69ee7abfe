"""Records that mark a value as secret: `"sensitive": true`, unseal keys, lists of codes, generated passwords."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

from helix.redact.rules import FORM, NEWLINE, STRING, Secret, Trigger, accept_any, make_rule
from helix.redact.values import is_literal, is_numeric, is_path, is_random, is_secret_like, regex

_SENSITIVE: Final = r"(?:sensitive\\*\":\s{0,4}true|(?:CONCEALED|SecureString)\\*\"|vault\.azure\.net/secrets/)"
_BETWEEN: Final = r"(?:[^{}\[\]]|\{\}|\[\]){0,600}?"
_VALUE_AFTER: Final = (
    rf"{_SENSITIVE}{_BETWEEN}[Vv]alue(?P<deep>\\*)\":\s{{0,4}}(?:(?=(?P=deep)\"){STRING}|(?P<many>[\[{{]))"
)
_VALUE_BEFORE: Final = rf"[Vv]alue(?P<deep>\\*)\":\s{{0,4}}(?=(?P=deep)\"){STRING}[^{{}}]{{0,120}}\Z"
_INNER: Final = 2_000  # characters of a sensitive list or map
_AROUND: Final = 600  # characters around a word that may belong to its record


def _find_sensitive(text: str, at: int) -> Iterator[Secret]:
    """Find the value of a record marked as sensitive, concealed or secure."""
    record = regex(_VALUE_AFTER).match(text, at)
    if record and record["many"]:
        end = _find_end(text, record)
        for inner in regex(rf"{STRING}(?!\s{{0,4}}:)").finditer(text, record.end(), end):
            yield from _read_record_value(inner)
    elif record:
        yield from _read_record_value(record)
    elif not text.startswith("vault", at):
        for before in regex(_VALUE_BEFORE).finditer(text, max(0, at - _AROUND), at):
            yield from _read_record_value(before)


def _find_end(text: str, record: re.Match[str]) -> int:
    """Return the end of a record's list or map, or of the JSON string that holds it; its start if neither is near."""
    start, slashes = record.end(), len(record["deep"])
    end = max(start, text.find("]" if record["many"] == "[" else "}", start, start + _INNER))
    outer = regex(rf"(?<!\\)\\{{0,{slashes - 1}}}\"").search(text, start, end) if slashes else None
    return outer.start() if outer else end


def _read_record_value(match: re.Match[str]) -> Iterator[Secret]:
    if len(match["string"]) > 3 and is_literal(match["string"]):
        yield Secret(*match.span("string"), "secret", FORM)


_SHARE: Final = (
    r"(?:(?i:(?:unseal|recovery) key)|(?:(?<=\n)|(?<=\\n))Key [1-9](?=: [A-Za-z0-9+/]{43}))"
    r"(?: \(will be hidden\))?(?: \d{1,2})?[^\n:\\]{0,24}:(?:\s|\\+[nt]|\x1b\[[\d;]{0,8}m){0,8}"
    r"([A-Za-z0-9+/]{20,256}+={0,2})"
)
_LIST: Final = (
    r"(?:unseal_?keys|recovery_?(?:keys|codes)|backup_?codes|scratch_?codes|api_?keys|secret_?keys|access_?tokens"
    r"|auth_?tokens|passwords|root_?tokens|keys_(?:b64|base64|hex))\w{0,12}(?:\\*[\"'])?[ ]?(?:=|:|=>)\s{0,4}\["
)
_ITEM: Final = r"(?:\s|\\+[nrt]|,){0,40}\\*[\"'](?![,:\]}])([^\s\"'\\]{4,512})\\*[\"']"
_MOST_ITEMS: Final = 64


def _find_list(text: str, at: int) -> Iterator[Secret]:
    """Find the items of a list with a telling name: `"unseal_keys_b64": ["…", "…"]`."""
    match = regex(_LIST, re.IGNORECASE).match(text, at)
    end = match.end() if match else 0
    for _ in range(_MOST_ITEMS if match else 0):
        item = regex(_ITEM).match(text, end)
        if item is None:
            return
        if is_secret_like(item[1]) and (len(item[1]) < 16 or is_random(item[1])):
            yield Secret(*item.span(1), "secret", FORM)
        end = item.end()


_GAP: Final = r"(?:[ \t]|\x1b\[[\d;]{0,8}m|\\{1,4}(?:u001b|x1b|e|033)\[[\d;]{0,8}m)"
_GENERATED: Final = (
    rf"(?i:generated password for)[^\n:\\]{{1,160}}?is:{_GAP}{{0,8}}(?:{NEWLINE})?{_GAP}{{0,8}}"
    r"([^\s\"'`\\<>]{6,128}+)"
)
_WIFI: Final = r"Key Content[ \t]{1,40}:[ \t]{1,8}([^\s\"'`\\<>]{8,63}+)"  # netsh wlan show profile … key=clear
_ENCODED: Final = r"Encoded Token[ \t]{1,20}([\w+/=-]{16,256}+)"  # vault operator generate-root
_ACCOUNT_KEY: Final = (
    r"(?i:(?:primary|secondary)(?:master|readonly(?:master)?)?key)\\*\":\s{0,4}\\*\"([A-Za-z0-9+/]{32,128}={0,2})\\*\""
)
_SECRET_ID: Final = (
    r"secret_id\\*[\"']?[ \t]{0,24}[:=]?[ \t]{0,24}\\*[\"']?([0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12})(?![\w-])"
)


def _is_generated(value: str) -> bool:
    return is_literal(value) and not is_path(value) and not is_numeric(value)


_LISTS: Final = (
    "unseal_key|unsealkeys|recovery_key|recoverykeys|recovery_code|recoverycodes|backup_code|backupcodes|scratch_code",
    "api_keys|apikeys|secret_keys|secretkeys|access_tokens|auth_tokens|passwords|root_token|keys_b64|keys_base64|keys_hex",
)


def list_triggers() -> Iterator[Trigger]:
    """Yield the rules with their keywords."""
    yield Trigger("sensitive", _find_sensitive, r"\\*\":\s{0,4}true")
    yield Trigger("concealed|securestring", _find_sensitive, r"\\*\"")
    yield Trigger("vault.azure.net/secrets/", _find_sensitive)
    share = make_rule(_SHARE, "secret", accept_any)
    yield Trigger("unseal key|recovery key|key 1: |key 2: |key 3: |key 4: |key 5: ", share)
    for words in _LISTS:
        yield Trigger(words, _find_list)
    yield Trigger("generated password for", make_rule(_GENERATED, "password", _is_generated))
    yield Trigger("key content", make_rule(_WIFI, "password", _is_generated))
    yield Trigger("encoded token", make_rule(_ENCODED, "token", is_random))
    near_vault = (r"(?i)role_?id|approle|vault", _AROUND, _AROUND)  # elsewhere a `secret_id` may be no secret
    yield Trigger("secret_id", make_rule(_SECRET_ID, "secret", accept_any, flags=re.IGNORECASE, context=near_vault))
    account_key = make_rule(_ACCOUNT_KEY, "key", is_random)
    yield Trigger("primary|secondary", account_key, r"(?:master|readonly(?:master)?)?key")
