"""What a command printed whose purpose is to print a secret: `op read …`, `terraform output -raw db_password`.

The value itself says nothing, the command does. It stands on the next line of a terminal, in the block of Markdown
behind the command, or in the record of a tool's result, which an agent's log has behind that of the call; the id of the
call joins the two. Records that say themselves that they hold a secret (`"sensitive": true`) are looked at here, too.
"""

from __future__ import annotations

import base64
import binascii
import re
from collections.abc import Iterator
from typing import Final

from helix.redact.kinds import FORM, LEFT, Found
from helix.redact.names import meaning
from helix.redact.rules import NEWLINE, STRING, Row, matching, whatever
from helix.redact.values import literal, numbers, path, random, reference, regex, told

# In these a space is any white space of a line, and … what else stands before the next pipe.
_ALWAYS: Final = (  # what prints a secret, whatever it is called
    r"op read\b",
    r"op item get\b…--(?:fields|reveal|otp)",
    r"(?:go)?pass (?:show\b|otp\b|(?:[\w.-]{1,40}/){1,4}[\w.@-]{1,64}(?=\s|\\))",
    r"az (?:keyvault secret show|acr credential show|account get-access-token)\b",
    r"az …(?:keys list|list-keys|keys renew|credential reset|--expose-token|list-connection-strings?)\b",
    r"aws …(?:get-login-password|get-authorization-token|get-secret-value|--with-decryption|get-random-password)\b",
    r"gcloud …(?:secrets versions access|print-(?:access|identity)-token)\b",
    r"bw get (?:password|totp)\b",
    r"(?:vault|bao) (?:kv get|read|token create) …-field",
    r"(?:kubectl|oc) …create token\b",
    r"(?:kubectl|oc) …get secrets?\b…(?:\| ?base64 (?:-d|-D|--decode)\b|(?:jsonpath|template|columns)=)",
    r"oc whoami (?:-t|--show-token)\b",
    r"(?:gh|glab|fly|flyctl|databricks) auth token\b",
    r"heroku auth:token\b",
    r"security find-(?:generic|internet)-password\b… -w",
    r"secret-tool lookup\b",
    r"lpass show\b…--(?:password|notes)",
    r"(?:keyring|credstash) get\b",
    r"chamber read\b",
    r"(?:gcloud kms|aws kms) decrypt\b",
    r"keepassxc-cli show\b…-a",
    r"argocd admin initial-password\b",
    r"docker swarm join-token\b",
    r"wg gen(?:key|psk)\b",
    r"pwgen\b",
    r"openssl rand -(?:base64|hex)\b",
    r"rails secret\b",
    r"mix phx\.gen\.secret\b",
)
_BY_NAME: Final = (  # what prints the value of a name, which tells whether it is a secret
    r"(?:terraform|tofu|terragrunt) output\b… (?P<output>[A-Za-z_][\w-]{2,80})",
    r"pulumi (?:config get|stack output)\b… (?P<stack>[A-Za-z_][\w:-]{2,80})",
    r"heroku config:get (?P<config>\w{3,80})",
    r"doppler secrets get (?P<secret>\w{3,80})",
    r"(?:gpg|sops|age|ansible-vault) …(?:-d|--decrypt|view) (?P<vault>)",
    r"jq (?:-\w{1,4} )?\\{0,4}[\"']?\.(?:[\w-]{1,40}(?:\[\d*\])?\.){0,6}(?P<field>[\w-]{3,80}?)(?:\.value)?(?![\w.-])",
    r"printenv (?P<variable>\w{3,80})",
    r"echo \\{0,8}[\"']?\$\{?(?P<echoed>\w{3,80})",
    r"(?:cat|less|head|tail|more|bat|base64 -d) (?:-\w{1,8} )?(?:[\w.~@$-]{0,60}/){0,12}(?P<file>[\w.-]{3,80})",
    r"(?:npm|yarn|git|gh) config (?:--\w{1,12} ){0,2}(?:get )?(?P<setting>[\w./:-]{4,120})",
)
_COMMAND: Final = "".join(
    (LEFT, "(?:", "|".join((*_ALWAYS, *_BY_NAME)).replace("…", r"[^\n|]{0,120}?").replace(" ", r"[ \t]+"), ")")
)
_FILTERS: Final = r"base64|tr|head|tail|jq|cut|sed|awk|cat|tee|grep|xxd|python\d?|openssl base64"
_ELSEWHERE: Final = rf"\|(?![ \t]*(?:{_FILTERS})\b)|(?<![2&-])>(?!&|[ \t]*/dev/(?:stdout|tty))|<<|--help\b|[ \t]-h\b"
_TAKEN: Final = r"(?:\$\(|[<>]\(|=`)[^()\n`]{0,80}\Z"  # by the command around it
_TAKEN_BY: Final = 120  # characters before a command that may take what it prints
_REST: Final = 600  # characters of a command that are looked at
_ENDS: Final = rf"(?P<line>{NEWLINE})|(?P<quote>\\*\"[ ]?[,}}\]])|(?P<tick>`)"
_FENCE: Final = (
    r"(?:</summary>)?"
    rf"(?:[ \t]{{0,8}}(?:```\w{{0,12}}|~~~|(?i:output|result|prints|gives):?)?[ \t]{{0,4}}{NEWLINE}){{0,6}}"
)
_VALUE: Final = (
    r"[ \t]{0,8}(?:\d{1,6}(?:→|\t|\\{1,4}t))?(?P<open>\\{0,16}\"(?![,:\]}]))?"
    r"(?P<value>[^\s\"'`\\<>]{6,4096}+)(?(open)\\{0,16}\")%?[ \t]{0,8}"
    rf"(?={NEWLINE}|\\{{0,16}}\"|\Z)"
)

_CALL_BEHIND: Final = r"\"(?:call_id|callID|callId|tool_call_id)\\*\":[ ]?\\*\"([\w-]{8,80})\\*\""
_CALL_ID: Final = r"\"(?:id|call_id|callID|tool_call_id)\\*\":[ ]?\\*\"([\w-]{8,80})\\*\""
_AROUND: Final = 600  # characters about a command in which the id of its call stands
_TO_RESULT: Final = 6_000  # characters between a command and what it printed
_RESULT: Final = r"\"(?:content|text|output|stdout|observation|aggregated_output|result)\\*\":[ ]?\\*\""
_OTHER_CALL: Final = r"\"(?:tool_use|function_call|command|cmd|tool_use_id|call_id|tool_call_id)\\*\""
_MOST_RESULTS: Final = 6


def _printed(text: str, at: int) -> Iterator[Found]:
    """Return what a command printed."""
    command = regex(_COMMAND).match(text, at)
    sure = _is_sure(command) if command else None
    end = _end(text, command.end()) if command and sure is not None else None
    if command is None or end is None or regex(_TAKEN).search(text, max(0, at - _TAKEN_BY), at):
        return
    if regex(_ELSEWHERE).search(text, command.end(), end.start()):
        return
    said = text[at : end.start()]
    if end["quote"] or regex(r"\\*\"").match(text, end.end()):  # the string of JSON that the command stands in ends
        places = _results(text, at, end.end())
    else:
        fence = regex(_FENCE).match(text, end.end())
        places = iter([fence.end() if fence else end.end()])
    for place in places:
        value = regex(_VALUE).match(text, place)
        if value and value["value"] not in said and _is_printed(value["value"], bool(sure)):
            yield Found(*value.span("value"), "secret", FORM)


def _is_sure(command: re.Match[str]) -> bool | None:
    """Tell whether this prints a secret: by what it does, or by the name it is asked for; None: it does not."""
    kind = command.lastgroup
    if kind is None:
        return True
    name = regex(r"\.(?:txt|key|secret|pass|token|conf|json)$").sub("", command[kind].rsplit(":", 1)[-1])
    promised = meaning(name.strip("._-"))
    if promised is None or promised.kind == "credentials" or promised.label:
        return False if kind in ("secret", "vault") else None
    return True if promised.sure else None if kind == "file" else False


def _end(text: str, at: int) -> re.Match[str] | None:
    """Return where the command ends: with its line, unless that goes on; with the string it stands in."""
    for end in regex(_ENDS).finditer(text, at, at + _REST):
        if not (end[0] == "\n" and text[end.start() - 1] == "\\"):
            return end
    return None


def _results(text: str, at: int, end: int) -> Iterator[int]:
    """Return where the texts begin that a tool gave back to the call whose command stands at `at`."""
    begin = max(0, at - _AROUND)
    begin = max(begin, text.rfind("\n", begin, at) + 1)
    before = [*regex(_CALL_ID).finditer(text, begin, at)]
    behind = regex(_CALL_BEHIND).search(text, end, end + _AROUND)
    place, stop = end, min(len(text), end + _TO_RESULT)
    most = 2  # where nothing tells whose they are: one, and one in a string of JSON
    for call in (behind[1] if behind else "", before[-1][1] if before else ""):
        found = text.find(call, behind.end() if behind and call == behind[1] else end, stop) if call else -1
        if found >= 0:
            place, most = found + len(call), _MOST_RESULTS
            break
    other = regex(_OTHER_CALL).search(text, place, stop)
    for number, result in enumerate(regex(_RESULT).finditer(text, place, other.start() if other else stop)):
        if number == most:
            return
        yield result.end()


def _is_printed(value: str, sure: bool) -> bool:
    """Return whether a line of one word is a secret, and no name, version, prompt or complaint."""
    if not literal(value) or numbers(value) or path(value) or reference(value):
        return False
    if regex(r"[^\s]*[@~:][^\s]*[$#%>]|[a-z\d-]+(?:\.[a-z\d-]+){2,}(?::\d+)?|\[.*|.*:|v?\d+\.\d+.*").fullmatch(value):
        return False
    return random(value) or (sure and told(value))


_DECODED: Final = (
    r"(?:echo|printf)[ \t]{1,4}(?:-n[ \t]{1,4})?\\{0,8}[\"']?(?P<secret>[A-Za-z0-9+/]{8,4096}+={0,2})\\{0,8}[\"']?"
    r"[ \t]{0,4}\|[ \t]{0,4}base64[ \t]{1,4}(?:-d|-D|--decode)"
)


def _decoded(text: str, at: int) -> Iterator[Found]:
    """`echo aHVudGVyMg== | base64 -d`, and what that printed."""
    match = regex(_DECODED).match(text, at)
    if match is None:
        return
    with_end = match["secret"] + "=" * (-len(match["secret"]) % 4)
    try:
        plain = base64.b64decode(with_end, validate=True).decode("utf-8").strip()
    except (binascii.Error, ValueError):
        return
    if len(plain) < 6 or not plain.isprintable() or not told(plain.rpartition(":")[2]):
        return
    yield Found(*match.span("secret"), "secret", FORM)
    place = text.find(plain, match.end(), match.end() + _TO_RESULT)
    while place >= 0:
        yield Found(place, place + len(plain), "secret", FORM)
        place = text.find(plain, place + len(plain), match.end() + _TO_RESULT)


# --- records that say what they hold ----------------------------------------------------------------------------------

_SAYS_SO: Final = r"(?:sensitive\\*\":\s{0,4}true|(?:CONCEALED|SecureString)\\*\"|vault\.azure\.net/secrets/)"
_BETWEEN: Final = r"(?:[^{}\[\]]|\{\}|\[\]){0,600}?"
_VALUE_BEHIND: Final = (
    rf"{_SAYS_SO}{_BETWEEN}[Vv]alue(?P<deep>\\*)\":\s{{0,4}}(?:(?=(?P=deep)\"){STRING}|(?P<many>[\[{{]))"
)
_VALUE_BEFORE: Final = rf"[Vv]alue(?P<deep>\\*)\":\s{{0,4}}(?=(?P=deep)\"){STRING}[^{{}}]{{0,120}}\Z"
_INNER: Final = 2_000  # characters of a list or a map that is sensitive


def _sensitive(text: str, at: int) -> Iterator[Found]:
    """The value of a record that calls it sensitive, concealed or secure."""
    record = regex(_VALUE_BEHIND).match(text, at)
    if record and record["many"]:
        end = text.find("]" if record["many"] == "[" else "}", record.end(), record.end() + _INNER)
        for inner in regex(rf"{STRING}(?!\s{{0,4}}:)").finditer(text, record.end(), max(end, record.end())):
            yield from _of_record(inner)
    elif record:
        yield from _of_record(record)
    elif not text.startswith("vault", at):
        for before in regex(_VALUE_BEFORE).finditer(text, max(0, at - _AROUND), at):
            yield from _of_record(before)


def _of_record(match: re.Match[str]) -> Iterator[Found]:
    if len(match["string"]) > 3 and literal(match["string"]):
        yield Found(*match.span("string"), "secret", FORM)


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


def _list(text: str, at: int) -> Iterator[Found]:
    """`"unseal_keys_b64": ["…", "…"]`: a list of what its name promises."""
    match = regex(_LIST, re.IGNORECASE).match(text, at)
    end = match.end() if match else 0
    for _ in range(_MOST_ITEMS if match else 0):
        item = regex(_ITEM).match(text, end)
        if item is None:
            return
        if told(item[1]) and (len(item[1]) < 16 or random(item[1])):
            yield Found(*item.span(1), "secret", FORM)
        end = item.end()


_GAP: Final = r"(?:[ \t]|\x1b\[[\d;]{0,8}m|\\{1,4}(?:u001b|x1b|e|033)\[[\d;]{0,8}m)"
_GENERATED: Final = (
    rf"(?i:generated password for)[^\n:\\]{{1,160}}?is:{_GAP}{{0,8}}(?:{NEWLINE})?{_GAP}{{0,8}}"
    r"([^\s\"'`\\<>]{6,128}+)"
)
_OF_WIFI: Final = r"Key Content[ \t]{1,40}:[ \t]{1,8}([^\s\"'`\\<>]{8,63}+)"  # netsh wlan show profile … key=clear
_ENCODED: Final = r"Encoded Token[ \t]{1,20}([\w+/=-]{16,256}+)"  # vault operator generate-root
_ACCOUNT_KEY: Final = (
    r"(?i:(?:primary|secondary)(?:master|readonly(?:master)?)?key)\\*\":\s{0,4}\\*\"([A-Za-z0-9+/]{32,128}={0,2})\\*\""
)
_SECRET_ID: Final = (
    r"secret_id\\*[\"']?[ \t]{0,24}[:=]?[ \t]{0,24}\\*[\"']?([0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12})(?![\w-])"
)


def _is_generated(value: str) -> bool:
    return literal(value) and not path(value) and not numbers(value)


def _secret_id(text: str, at: int) -> Iterator[Found]:
    """The UUID by which an application proves itself to Vault; others have such names for what is no secret."""
    match = regex(_SECRET_ID, re.IGNORECASE).match(text, at)
    if match and regex(r"(?i)role_?id|approle|vault").search(text, max(0, at - _AROUND), at + _AROUND):
        yield Found(*match.span(1), "secret", FORM)


_WORDS: Final = (
    "op read|op item get|pass show|gopass show|az keyvault|az acr|az account|aws |gcloud |bw get|vault |bao |kubectl ",
    "oc whoami|gh auth|glab auth|fly|databricks |heroku |security find|secret-tool|lpass |keyring get|credstash",
    "chamber |keepassxc|argocd |docker swarm|wg gen|pwgen|openssl rand|rails secret|mix phx|terraform output",
    "tofu output|terragrunt output|pulumi |doppler |printenv |npm config|git config|oc get secret|oc create token",
    "gpg |sops |age -d|age --decrypt|ansible-vault|jq ",
)
_LISTS: Final = (
    "unseal_key|unsealkeys|recovery_key|recoverykeys|recovery_code|recoverycodes|backup_code|backupcodes|scratch_code",
    "api_keys|apikeys|secret_keys|secretkeys|access_tokens|auth_tokens|passwords|root_token|keys_b64|keys_base64|keys_hex",
)


def rows() -> Iterator[Row]:
    """The forms, and the keywords where each is tried."""
    for words in _WORDS:
        yield Row(words, _printed)
    named = r"[^\s|;&]{0,80}(?:pass|secret|token|key|cred|pw)"
    yield Row("pass |gopass ", _printed, r"[\w.-]{1,40}/")
    yield Row("generated password for", matching(_GENERATED, "password", _is_generated))
    yield Row("key content", matching(_OF_WIFI, "password", _is_generated))
    yield Row("encoded token", matching(_ENCODED, "token", random))
    yield Row("secret_id", _secret_id)
    yield Row("primary|secondary", matching(_ACCOUNT_KEY, "key", random), r"(?:master|readonly(?:master)?)?key")
    yield Row("cat |less |head |tail |more |bat |base64 -d", _printed, named)
    yield Row("echo ", _printed, r"[\\\"']{0,8}\$")
    yield Row("echo |printf ", _decoded, r"[^|\n]{8,200}\| ?base64")
    yield Row("sensitive", _sensitive, r"\\*\":\s{0,4}true")
    yield Row("concealed|securestring", _sensitive, r"\\*\"")
    yield Row("vault.azure.net/secrets/", _sensitive)
    yield Row("unseal key|recovery key|key 1: |key 2: |key 3: |key 4: |key 5: ", matching(_SHARE, "secret", whatever))
    for words in _LISTS:
        yield Row(words, _list)
