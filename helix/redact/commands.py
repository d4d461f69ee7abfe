"""Secrets on command lines: known commands (`mysql -p…`), and options common to many (`-u NAME -p …`)."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

from helix.redact.rules import FORM, LEFT, OPEN, QUOTE, WORD, Rule, Secret, Trigger, accept_any, is_password, make_rule
from helix.redact.values import is_random, is_secret_like, is_uuid, regex
from helix.util.wordlists import read_toml

_ARGUMENTS: Final = 600  # characters of a command
# A backslash continues a shell's line; JSON doubles it and writes the line end with another.
_COMMAND_LINE: Final = r"(?>(?:[^\n\\]{1,100}+|\\+[^nr\\\n]|\\+\n|\\{3,}n){0,100})"
_USER_AND: Final = (
    rf"(?:(?:{OPEN})?[^\s:\"'`\\]{{0,128}}:([^\s\"'`\\]{{3,256}}+)"
    rf"|(?P<quote>{QUOTE}):([^\s,\"'`\\]{{3,256}}+)(?=(?P=quote)))"
)
_CURL: Final = rf"[ \t](?:-u|--user|-U|--proxy-user)(?:[ \t]{{0,4}}|=){_USER_AND}"
_HTTPIE: Final = rf"{LEFT}https? {{1,4}}(?:--?[\w-]{{1,20}} {{1,4}}){{0,3}}(?:-a|--auth)(?: {{1,4}}|=){_USER_AND}"
_PARTS: Final = {
    "left": LEFT,
    "word": WORD,
    "user_and": _USER_AND,
    "user_percent": rf"[ \t](?:-U|--user)(?:[ \t]{{0,4}}|=)(?:{OPEN})?[\w./\\-]{{1,64}}%{WORD}",
    "any": r"(?:\\{0,16}\"[^\"\\]{1,128}\\{0,16}\"|[^\s\\]{1,200})[ \t]{1,4}",  # a skipped argument
    "name": r"(?:\\{0,4}\"[^\"\\]{1,64}\\{0,4}\"|[\w.\\@-]{1,64})",
    "tight": rf"(?![ \t-]){WORD}",  # `-pPASSWORD`; with a space the option means something else
    "loose": rf"(?:[ \t]{{0,4}}|=){WORD}",
    "apart": rf"[ \t]{{1,4}}{WORD}",
    "set": r"(?:[ \t]{1,4}|=)",
    "http_basic": r"http-basic\.[\w.-]{1,64}[ \t]{1,4}[\w.@-]{1,64}",
    "host_token": r"(?:github-oauth|gitlab-oauth|gitlab-token|bitbucket-oauth|bearer)\.[\w.-]{1,64}",
}
"""The parts of patterns in `data/commands.toml`."""


def _expand(pattern: str) -> str:
    return regex("«(\\w+)»").sub(lambda part: _PARTS[part[1]], pattern)


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
    commands = read_toml("helix.redact", "commands")
    for keywords, (command, option) in commands["options"].items():
        yield Trigger(keywords, _build_option_rule(_expand(command), _expand(option)))
    for keywords, before in commands["before"].items():
        yield Trigger(keywords, make_rule(_expand(before) + WORD, "password", is_password))
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
