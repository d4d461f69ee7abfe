"""Secrets on command lines: known commands (`mysql -p…`), and options common to many (`-u NAME -p …`)."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

from helix.redact.rules import (
    FORM,
    LEFT,
    OPEN,
    QUOTE,
    WORD,
    Rule,
    Secret,
    Trigger,
    accept_any,
    is_password,
    make_rule,
)
from helix.redact.values import is_random, is_secret_like, is_uuid, regex

_ARGUMENTS: Final = 600  # characters of a command
# A backslash continues a shell's line; JSON doubles it and writes the line end with another.
_COMMAND_LINE: Final = r"(?>(?:[^\n\\]{1,100}+|\\+[^nr\\\n]|\\+\n|\\{3,}n){0,100})"
_USER_AND: Final = (
    rf"(?:(?:{OPEN})?[^\s:\"'`\\]{{0,128}}:([^\s\"'`\\]{{3,256}}+)"
    rf"|(?P<quote>{QUOTE}):([^\s,\"'`\\]{{3,256}}+)(?=(?P=quote)))"
)
_CURL: Final = rf"[ \t](?:-u|--user|-U|--proxy-user)(?:[ \t]{{0,4}}|=){_USER_AND}"
_HTTPIE: Final = rf"{LEFT}https? {{1,4}}(?:--?[\w-]{{1,20}} {{1,4}}){{0,3}}(?:-a|--auth)(?: {{1,4}}|=){_USER_AND}"
_ANY: Final = r"(?:\\{0,16}\"[^\"\\]{1,128}\\{0,16}\"|[^\s\\]{1,200})[ \t]{1,4}"  # a skipped argument
_TIGHT: Final = rf"(?![ \t-]){WORD}"  # `-pPASSWORD`; with a space the option means something else
_LOOSE: Final = rf"(?:[ \t]{{0,4}}|=){WORD}"
_APART: Final = rf"[ \t]{{1,4}}{WORD}"
_SET: Final = r"(?:[ \t]{1,4}|=)"
_HTTP_BASIC: Final = r"http-basic\.[\w.-]{1,64}[ \t]{1,4}[\w.@-]{1,64}"
_HOST_TOKEN: Final = r"(?:github-oauth|gitlab-oauth|gitlab-token|bitbucket-oauth|bearer)\.[\w.-]{1,64}"
_USER_PERCENT: Final = rf"[ \t](?:-U|--user)(?:[ \t]{{0,4}}|=)(?:{OPEN})?[\w./\\-]{{1,64}}%{WORD}"

_COMMANDS: Final = (
    # keywords, the command, the option that takes the password
    ("mysql", rf"{LEFT}mysql(?:dump|admin|import)?\b", rf"[ \t](?:-p(?![ \t-])|password[ \t]{{1,4}}){WORD}"),
    ("mariadb", rf"{LEFT}mariadb(?:-dump|-admin)?\b", rf"[ \t](?:-p(?![ \t-])|password[ \t]{{1,4}}){WORD}"),
    ("redis-cli", r"redis-cli\b", rf"[ \t](?:-a|--pass){_APART}"),
    ("login", r"login\b", rf"[ \t]-p{_APART}"),
    ("mongo", rf"{LEFT}mongo(?:sh|dump|restore|export|import|stat)?\b", rf"[ \t]-p{_APART}"),
    ("ldap", rf"{LEFT}ldap(?:search|add|modify|delete|whoami|passwd)\b", rf"[ \t]-[ws]{_APART}"),
    ("zip", r"zip\b", rf"[ \t]-P[ \t]{{0,4}}{WORD}"),
    ("7z|rar ", rf"{LEFT}(?:7z[ar]?|rar|unrar)\b", rf"[ \t]-h?p{_TIGHT}"),
    ("smb|rpcclient|winexe|wmic", rf"{LEFT}(?:smb\w{{3,8}}|rpcclient|winexe|wmic)\b", _USER_PERCENT),
    ("sqlcmd|bcp |isql|tsql", rf"{LEFT}(?:sqlcmd|bcp|isql|tsql)\b", rf"[ \t]-P{_LOOSE}"),
    ("ipmi|mosquitto_", rf"{LEFT}(?:ipmi\w{{4,8}}|mosquitto_[ps]ub)\b", rf"[ \t]-P{_APART}"),
    ("cqlsh|cypher-shell|twine|psexec", r"(?:cqlsh|cypher-shell|twine|psexec(?:64)?)\b", rf"[ \t]-p{_APART}"),
    ("snmp", rf"{LEFT}snmp\w{{3,9}}\b", rf"[ \t]-[AXc]{_APART}"),
    ("lftp|ncftp", rf"{LEFT}(?:lftp|ncftp\w{{0,3}})\b", rf"[ \t]-[up][ \t]{{1,4}}(?:[^\s,\"'\\]{{1,64}},)?{WORD}"),
    ("freerdp|rdesktop|mstsc|cmdkey|schtasks", r"\w{5,12}", rf"[ \t](?:/p:|/pass:|/rp[ \t]|-p[ \t]{{1,4}}){WORD}"),
    (
        "sqlplus|expdp|impdp|sqlldr|rman ",
        rf"{LEFT}(?:sqlplus|expdp|impdp|sqlldr|rman)\b",
        r"[ \t=][\w$#]{1,32}/(?!/)([^\s\"'`\\<>@;/]{3,128}+)(?=[@\s\"'\\;]|$)",
    ),
    ("openssl", r"openssl[ \t]{1,4}(?:enc\b|aes-|des)", rf"[ \t]-[kK]{_APART}"),
    ("skopeo|buildah|podman|crane", rf"{LEFT}\w{{5,8}}\b", rf"[ \t]--(?:src-|dest-)?creds?{_SET}{_USER_AND}"),
    ("nmcli", rf"{LEFT}nmcli\b", rf"[ \t](?:password|[\w.-]{{1,32}}\.(?:psk|password|wep-key0))[ \t]{{1,4}}{WORD}"),
    ("nuget", r"nuget\b", rf"(?i:[ \t](?:setapikey|-k|--api-key|-apikey)){_APART}"),
    ("codecov", r"codecov\w{0,12}\b[^\n]{0,100}?(?=[ \t]-)", rf"[ \t](?:-t|--token){_SET}{WORD}"),
    ("doctl|linode|hcloud|glab|scw ", rf"{LEFT}\w{{3,8}}\b", rf"[ \t](?:-t|--token|--access-token){_SET}{WORD}"),
    ("poetry", rf"{LEFT}poetry[ \t]{{1,4}}config\b", rf"[ \t](?:{_HTTP_BASIC}|pypi-token\.[\w.-]{{1,64}}){_APART}"),
    ("composer", rf"{LEFT}composer[ \t]{{1,4}}config\b", rf"[ \t](?:{_HTTP_BASIC}|{_HOST_TOKEN}){_APART}"),
    (
        "npm config|yarn config|pnpm config",
        r"\w{3,4} config[ \t]{1,4}(?:-\w[ \t]{1,4})?set\b",
        rf"_(?:authToken|auth|password){_SET}{WORD}",
    ),
)  # fmt: skip

_NAME: Final = r"(?:\\{0,4}\"[^\"\\]{1,64}\\{0,4}\"|[\w.\\@-]{1,64})"
_BEFORE: Final = {
    # keyword: text before the password
    "sshpass": r"sshpass[ \t]{1,4}-p[ \t]{0,4}",
    "htpasswd": rf"htpasswd[ \t]{{1,4}}-\w{{0,8}}b\w{{0,8}}[ \t]{{1,4}}{_ANY}[^\s\\]{{1,64}}[ \t]{{1,4}}",
    "masterauth": r"masterauth[ \t]{1,8}",  # redis.conf
    "requirepass": r"requirepass[ \t]{1,8}",
    "setuser": r"(?i:setuser)[ \t]{1,4}[\w-]{1,64}(?:[ \t]{1,4}(?:on|reset|resetpass)){0,3}[ \t]{1,4}>",
    "auth ": r"(?<=> )(?i:auth) {1,4}(?:[\w-]{1,32} {1,4})?",  # prompt of redis-cli
    "-pass": r"(?<=[ \t])-pass(?:in|out|word)?[ \t]{1,4}pass:",  # openssl
    "securestring": r"(?i:securestring)[ \t]{1,4}(?:-String[ \t]{1,4})?(?=\\{0,16}[\"'])",
    "identified": (
        r"(?i:identified(?: with \w{1,40})? (?:by|as)(?: password)?[ \t]{1,4})(?=\\{0,16}[\"'])"
    ),
    "set password": (
        r"(?i:set password(?: for [^\s\\;=]{1,80})?[ \t]{0,4}=[ \t]{0,4}(?:(?:old_)?password\()?)(?=\\{0,16}[\"'])"
    ),
    "rabbitmqctl": rf"rabbitmqctl[ \t]{{1,4}}(?:-\w[ \t]{{1,4}}{_ANY})?(?:add_user|change_password|authenticate_user)"
    rf"[ \t]{{1,4}}{_ANY}",
    "mc alias set|mcli alias set|mc config host add": (
        rf"mc(?:li)? (?:alias set|config host add)[ \t]{{1,4}}(?:--?[\w-]{{1,20}} ){{0,2}}{_ANY}{_ANY}{_ANY}"
    ),
    "mc admin user add": rf"mc admin user add[ \t]{{1,4}}{_ANY}{_ANY}",
    "rclone obscure": r"rclone obscure[ \t]{1,4}",
    "-setairportnetwork": rf"-setairportnetwork[ \t]{{1,4}}{_ANY}{_ANY}",
    "netsh wlan": r"netsh wlan[^\n]{1,120}?[ \t]key=(?!clear)",
    "snyk config set": r"snyk config set[ \t]{1,4}api=",
    "net user |net1 user |net.exe user ": rf"net(?:1|\.exe)? user[ \t]{{1,4}}{_NAME}[ \t]{{1,4}}(?![/*])",
    "net use ": r"net use[ \t]{1,4}(?:\w:[ \t]{1,4})?\\[^\s]{3,120}[ \t]{1,4}(?![/*])",
    "wpa_passphrase": rf"wpa_passphrase[ \t]{{1,4}}{_NAME}[ \t]{{1,4}}",
    "openssl passwd": r"openssl passwd(?:[ \t]{1,4}-(?:salt[ \t]{1,4}[^\s\\]{1,32}|\w{1,9})){0,4}[ \t]{1,4}",
    "user-secrets set": rf"user-secrets set[ \t]{{1,4}}(?:-{{1,2}}\w{{1,12}}[ \t]{{1,4}}{_ANY}){{0,2}}{_ANY}",
    "--secret": rf"(?<=set )--secret[ \t]{{1,4}}{_ANY}",  # pulumi config
    "ftp> user": r"ftp> user[ \t]{1,4}[\w.@-]{1,64}[ \t]{1,4}",
}  # fmt: skip


def _build_option_rule(command: str, option: str, kind: str = "password") -> Rule:
    """Return the rule of a command with options that take a password, in its line."""

    def find(text: str, at: int) -> Iterator[Secret]:
        begin = regex(command, re.ASCII).match(text, at)
        if begin is None:
            return
        line = regex(_COMMAND_LINE).match(text, begin.end(), begin.end() + _ARGUMENTS)
        for match in regex(option).finditer(text, begin.end(), line.end()) if line else ():
            if is_password(match[match.lastindex or 0]):
                yield Secret(*match.span(match.lastindex or 0), kind, FORM)

    return find


_USER_OPTION: Final = r"[ \t](?:-[uUDl]|--user(?:name)?|--login)(?:[ \t]{1,4}|=)?[\w.@\\/\"'-]{1,80}[ \t]"
_PASSWORD_OPTION: Final = rf"-(?:p|P|w|pw|pass)[ \t]{{1,4}}{WORD}"
_USER_WITHIN: Final = 200  # characters before the password


def _find_user_and_password(text: str, at: int) -> Iterator[Secret]:
    """Find `-u NAME -p PASSWORD` of any command."""
    match = regex(_PASSWORD_OPTION).match(text, at + 1)
    if match is None or not _is_secret_word(match[match.lastindex or 0]):
        return
    begin = max(0, at - _USER_WITHIN)
    begin = max(begin, text.rfind("\n", begin, at), text.rfind("\\n", begin, at))
    if regex(_USER_OPTION).search(text, begin, at + 1):
        yield Secret(*match.span(match.lastindex or 0), "password", FORM)


def _is_secret_word(value: str) -> bool:
    """Return whether a word of a command looks like a password: no host, file, port or name."""
    return (
        is_password(value)
        and is_secret_like(value)
        and regex(r"[a-z\d-]+(?:\.[a-z\d-]+)+(?::\d+)?|[\d:]+").fullmatch(value) is None
    )


_GENERATED: Final = r"is generated for [\w@.%-]{1,80}:[ \t]{1,4}([^\s\"'`\\]{6,64}+)"  # mysqld, for root
_SERVICES: Final = (
    "snyk|wandb|vault|cargo|ngrok|huggingface-cli|hf|netlify|railway|surge|heroku|fly|flyctl|supabase|sentry-cli|stripe"
    "|doctl|hcloud|scw|glab|jf|circleci|travis|pulumi|terraform|tailscale|cloudflared|modal|replicate|render|turso"
    "|neonctl|wrangler|vercel|firebase|expo|eas|buildkite|semaphore|drone|argocd|oc|gem|hex|mix|npm|pnpm|yarn|gh|kaggle"
    "|dvc|clearml|comet|neptune|rsconnect|infisical|doppler|akeyless|teleport|tsh|fossa|sonar|checkov|bridgecrew"
)
_ENROL: Final = (
    r"(?:auth|login|authtoken|add-authtoken|unseal|setup|init|configure|set-token)[ \t]{1,4}"
    rf"(?:-{{1,2}}[\w-]{{1,20}}(?:[ \t]{{1,4}}|=)){{0,3}}{WORD}"
)
_SERVICE: Final = rf"{LEFT}(?:{_SERVICES})[ \t]{{1,4}}(?:[\w:-]{{1,20}}[ \t]{{1,4}}){{0,2}}(?:add-)?\Z"


def _is_enrolment_token(value: str) -> bool:
    """Return whether a value is a login token: long, without words."""
    if len(value) < 16 or not regex(r"[\w+/=.~-]+", re.ASCII).fullmatch(value):
        return False
    return is_uuid(value) or regex(r"[0-9a-f]{32,}").fullmatch(value) is not None or is_random(value)


_FROM_LITERAL: Final = rf"from-literal[= ](?:{OPEN})?[\w.-]{{1,100}}="
_PIPED: Final = (
    rf"(?:echo|printf)[ \t]{{1,4}}(?:-n[ \t]{{1,4}})?(?:{OPEN})?(?:[\w.-]{{1,32}}:)?([^\s\"'`\\|<>$]{{4,256}}+)"
    rf"{QUOTE}?[ \t]{{0,4}}\|[ \t]{{0,4}}"
    r"(?:sudo[ \t]{1,4}(?:-\w{1,8}[ \t]{1,4}){0,4}-S\b|(?:sudo[ \t]{1,4})?chpasswd\b|kinit\b"
    r"|(?:sudo[ \t]{1,4})?passwd[ \t]{1,4}--stdin|[^\n|\\]{1,120}--(?:password-stdin|passphrase-fd|with-token))"
)
_READS_SECRET: Final = r"(?i)passw|secret|token|login|keepass|sudo|-S\b|stdin|cryptsetup|gpg|kinit|unlock"
_HERE: Final = rf"<<<[ \t]?(?:(?:{OPEN})[\w.-]{{1,32}}:(?P<after>[^\s\"'`\\<>]{{4,256}}+)|{WORD})"


def _find_here_string(text: str, at: int) -> Iterator[Secret]:
    """Find the here-string of a command that reads secrets: `chpasswd <<< 'ana:PASSWORD'`."""
    match = regex(_HERE).match(text, at)
    if match is None or not (is_password(value := match[match.lastindex or 0]) and is_secret_like(value)):
        return
    begin = max(0, at - _USER_WITHIN)
    if regex(_READS_SECRET).search(text, max(begin, text.rfind("\n", begin, at)), at):
        yield Secret(*match.span(match.lastindex or 0), "password", FORM)


_SENT: Final = r"send(?:_user)?[ \t]{1,4}(?:--[ \t]{1,4})?\\{0,16}\"([^\s\"\\$]{4,128})\\{1,16}[rn]\\{0,16}\""
_PROMPT: Final = r"(?i)assword|assphrase|PIN\b"

_ARGUMENT: Final = rf"{OPEN}[^\s\"'`\\]{{1,64}}{QUOTE},[ \t]?"
_PAIR: Final = (
    rf"(?:(?<![a-z])auth ?= ?|(?<=basic)auth|(?<=digest)auth)\({_ARGUMENT}{OPEN}([^\s\"'`\\]{{4,256}}+){QUOTE}"
)
# creds for staging: ana / …
_BOTH: Final = (
    r"(?i:cred(?:ential)?s?|login|user(?:name)?/pass(?:word)?)(?: for [\w.-]{1,30}){0,2}:[ \t]{0,4}[\w.@+-]{1,64}"
    r"[ \t]{1,4}/[ \t]{1,4}([^\s\"'`\\<>]{6,256}+)"
)
_STORAGE_KEY: Final = (
    rf"keyName{QUOTE}?:[^{{}}\n]{{1,60}}?value{QUOTE}?:[ \t]{{0,4}}{QUOTE}([A-Za-z0-9+/]{{86}}==)"  # Azure
)


def list_triggers() -> Iterator[Trigger]:
    """Yield the rules with their keywords."""
    yield Trigger("curl", _build_option_rule(rf"{LEFT}curl\b", _CURL, "curl-auth-user"))
    for keywords, command, option in _COMMANDS:
        yield Trigger(keywords, _build_option_rule(command, option))
    for keywords, before in _BEFORE.items():
        yield Trigger(keywords, make_rule(before + WORD, "password", is_password))
    yield Trigger("is generated for", make_rule(_GENERATED, "password", is_password))
    yield Trigger(" -p | -w | -pw | -pass ", _find_user_and_password, r"[^\s]{4}")
    enrolment = make_rule(_ENROL, "token", _is_enrolment_token, flags=re.ASCII, context=(_SERVICE, 64, 0))
    yield Trigger("auth |login |authtoken |unseal |setup |init |configure |set-token ", enrolment, r"[^\s]")
    yield Trigger("http |https ", make_rule(_HTTPIE, "curl-auth-user", is_password))
    yield Trigger("cred|login|user/pass|username/pass", make_rule(_BOTH, "password", is_secret_like))
    yield Trigger("keyname", make_rule(_STORAGE_KEY, "key", accept_any))
    yield Trigger("from-literal", make_rule(_FROM_LITERAL + WORD, "kubernetes-secret-yaml", is_password))
    yield Trigger("echo|printf", make_rule(_PIPED, "password", is_password))
    yield Trigger("auth", make_rule(_PAIR, "password", is_password, flags=re.IGNORECASE))
    yield Trigger("<<<", _find_here_string, r"[ \\\"'a-z0-9]")
    yield Trigger("send", make_rule(_SENT, "password", is_password, context=(_PROMPT, _USER_WITHIN, 0)))
