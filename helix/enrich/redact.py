"""Secrets out, typed placeholders in: `[REDACTED:github-pat]`. Runs on raw input, before anything is written.

Works on raw JSONL as well as on prose: what is replaced never holds a quote, a white space or half an escape, so valid
JSON stays valid. Token shapes follow the providers' published prefixes (as the gitleaks rule set, MIT, collects them);
URL passwords, bearer headers and assignments, which that set misses, are rules here.

Left alone: git hashes, digests, UUIDs, base64 images; references (`$X`, `${X}`, `os.environ`, `get_token()`), masks
(`****`, `<token>`, `...`), stand-ins (`your-key`, `changeme`) and values made of schema words (`"token": "string"`).
Known gaps: a passphrase with spaces, and a lower-case unquoted value without a digit (`password: swordfish`), which
cannot be told from a variable.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable
from typing import Final, NamedTuple

Check = Callable[[re.Match[str]], bool]


class Rule(NamedTuple):
    """One kind of secret. A text without any of `keywords` (lower-case) is never searched with `pattern`.

    The last group that takes part in a match is what is replaced; without groups, the whole match.
    """

    kind: str
    keywords: tuple[str, ...]
    pattern: re.Pattern[str]
    starts_word: bool = False  # the match may not continue a word
    check: Check | None = None


# A word begins after a non-word character, a JSON escape (\n, \u003d) or a terminal colour (ESC[32m).
_LEFT = re.compile(r"(?:[^A-Za-z0-9]|\\[bfnrt]|\\u[0-9A-Fa-f]{4}|\[[0-9;]{1,4}m)\Z")
_LEFT_WIDTH: Final = 6

# Words that describe a secret without being one; a value made only of these is documentation.
_SCHEMA_TEXT: Final = (
    "a access add an and any api apikey app auth authorization bearer boolean bot bytes change changeme client code "
    "config credential credentials csrf data default demo description disabled dummy empty enabled env environment "
    "eof error example expired fake false field file first forgot get goes header here hidden id input insert int "
    "integer invalid is jwt key keys last length limit literal login missing my name new next no none not null number "
    "object of old optional or page param parameter pass passphrase passwd password placeholder private provided "
    "public put random redacted refresh replace required reset sample scope secret secrets service session set some "
    "str string text the this to token tokens true type undefined unknown unset update usage use user username valid "
    "value value1 var variable vault was with wrong your"
)
_SCHEMA_WORDS: Final = frozenset(_SCHEMA_TEXT.split())
_STAND_IN = re.compile(r"(?i)(?:<?your[-_ ]|x{4,}|changeme|example|replace[-_]?me|redacted|\*{3}|\.{3}|…|#\{|%\(|%s)")
_REFERENCE = re.compile(
    r"(?i)(?:os\.|sys\.|self\.|this\.|process\.|import\.meta|settings\.|config\.|env[.:]|secrets\.|vault:|op://|ref\+|"
    r"none\b|null\b|true\b|false\b|undefined\b|nil\b|function\b|lambda\b|await\b|new\b|return\b)"
)
_SUBWORD = re.compile(r"[A-Z]?[a-z]+\d?|[A-Z]+")


def _literal(value: str) -> bool:
    """Whether `value` is a secret itself, not a reference to one, a mask or a description."""
    if _STAND_IN.search(value) or _REFERENCE.match(value):
        return False
    if len(set(value)) < 3:
        return False
    described = all(word.lower() in _SCHEMA_WORDS for word in _SUBWORD.findall(value))
    return not described or any(c.isalnum() for c in _SUBWORD.sub("", value))


def _assigned(match: re.Match[str]) -> bool:
    if not _literal(match[match.lastindex or 0]):
        return False
    if match["quoted"]:
        return True
    if match["closed"]:
        return False  # a quoted key with a bare value: JSON or code, so a number or a name
    if match["shell"]:
        return "(" not in match["shell"]
    return _told(match)


def _told(match: re.Match[str]) -> bool:
    """A bare value is a secret only with a digit: `token=token_value` and `password=hunter2` differ in nothing else."""
    value = match[match.lastindex or 0]
    return (
        _literal(value)
        and any(c.isdigit() for c in value)
        and any(c.isalpha() for c in value)
        and match.string[match.end() : match.end() + 1] not in ("(", "[")
    )


def _header(match: re.Match[str]) -> bool:
    return _literal(match[1])


def _coded(match: re.Match[str]) -> bool:
    return not match[0].islower() or any(c.isdigit() for c in match[0])


def _dotted(match: re.Match[str]) -> bool:
    # Checked afterwards, so that a long run of base64 is consumed once, not searched again from every `eyJ` in it.
    return "." in match[0]


_START: Final = r"[A-Za-z0-9/+_@!#^~.=-]"
# A value ends before a placeholder, so that a second run finds what the first found.
_IN: Final = r"(?:[^\s\"'`\\<>\[]|\[(?!REDACTED:))"
_BARE: Final = r"[^\s\"'`\\,;()\[\]{}<>&|$]"


def _assignment(key: str) -> re.Pattern[str]:
    """`key` and its value: in quotes of any escaping; bare behind NAME=; bare. No backtracking."""
    separator = r"\s{0,4}(?:=>|:=|={1,3}|:(?!:)|\\u003[aAdD])\s{0,4}"
    return re.compile(
        rf"(?i:{key})(?P<closed>\\{{0,16}}[\"'`]\]?)?{separator}"
        rf"(?:[bru]?\\{{0,16}}[\"'`](?P<quoted>{_START}(?>{_IN}{{5,4095}}))(?=\\|[\"'`]|\[REDACTED:)"
        rf"|(?<=[A-Z]=)(?P<shell>{_START}(?>{_IN}{{5,4095}}))"
        rf"|(?P<bare>{_START}{_BARE}{{5,4095}}+))"
    )


_PEM = re.compile(
    r"-----BEGIN [A-Z0-9 ]{0,40}PRIVATE KEY(?: BLOCK)?-----"
    # Whole: everything up to END. Cut off: the base64 lines that are there. Newlines are real or escaped (\n, \\n).
    r"(?:(?>(?:[^-\"'`\\<>{}]|-(?!----)|\\+[nrt/])*)-----END [A-Z0-9 ]{0,40}PRIVATE KEY(?: BLOCK)?-----"
    r"|(?:(?>(?:\s|\\+[nr])*)[A-Za-z0-9+/=]{16,}+)+)"
)

RULES: Final = (
    Rule("private-key", ("private key",), _PEM),
    Rule(
        "github-pat",
        ("ghp_", "github_pat_"),
        re.compile(r"(?:ghp_[A-Za-z0-9]{30,}+|github_pat_\w{30,}+)"),
        starts_word=True,
    ),
    Rule("github-token", ("gho_", "ghu_", "ghs_", "ghr_"), re.compile(r"gh[ousr]_[A-Za-z0-9]{30,}+"), starts_word=True),
    Rule("gitlab-pat", ("glpat-",), re.compile(r"glpat-[\w-]{20,}+", re.ASCII), starts_word=True),
    Rule(
        "aws-access-key-id",
        ("akia", "asia"),
        re.compile(r"A(?:KIA|SIA)[A-Z0-9]{16}(?![A-Za-z0-9+/=])"),
        starts_word=True,
    ),
    Rule(
        "aws-secret-access-key",
        ("secret",),
        re.compile(
            r"(?i:secret[_-]?(?:access[_-]?)?key)\\*[\"'`]?\s{0,4}(?:=>|[:=])\s{0,4}\\*[\"'`]?"
            r"([A-Za-z0-9/+]{40})(?![A-Za-z0-9/+=])"
        ),
    ),
    Rule(
        "slack-webhook",
        ("hooks.slack.com",),
        re.compile(r"hooks\.slack\.com/(?:services|workflows|triggers)/([\w+/-]{20,}+)", re.ASCII),
    ),
    Rule("slack-token", ("xox", "xapp-"), re.compile(r"(?:xox[abeoprs]|xapp)-[A-Za-z0-9-]{10,}+"), starts_word=True),
    Rule("anthropic-key", ("sk-ant-",), re.compile(r"sk-ant-[\w-]{20,}+", re.ASCII), starts_word=True),
    Rule(
        "openai-key",
        ("sk-",),
        re.compile(r"sk-(?:(?:proj|svcacct|admin|None|or-v1)-[\w-]{20,}+|[A-Za-z0-9]{20,}+)", re.ASCII),
        starts_word=True,
    ),
    Rule(
        "google-key",
        ("aiza", "gocspx-", "ya29."),
        re.compile(r"(?:AIza[\w-]{35}(?![\w-])|GOCSPX-[\w-]{20,}+|ya29\.[\w-]{20,}+)", re.ASCII),
        starts_word=True,
    ),
    Rule(
        "stripe-key",
        ("_live_", "_test_", "whsec_"),
        re.compile(r"(?:[sr]k_(?:live|test)_|whsec_)[A-Za-z0-9]{16,}+"),
        starts_word=True,
    ),
    Rule("npm-token", ("npm_",), re.compile(r"npm_[A-Za-z0-9]{30,}+"), starts_word=True),
    Rule("huggingface-token", ("hf_",), re.compile(r"hf_[A-Za-z0-9]{30,}+"), starts_word=True),
    Rule("pypi-token", ("pypi-",), re.compile(r"pypi-[\w-]{40,}+", re.ASCII), starts_word=True, check=_coded),
    Rule("sendgrid-key", ("sg.",), re.compile(r"SG\.[\w-]{16,}+\.[\w-]{16,}+", re.ASCII), starts_word=True),
    Rule("twilio-key", ("sk",), re.compile(r"SK[0-9a-f]{32}(?![A-Za-z0-9])"), starts_word=True),
    Rule(
        "jwt",
        ("eyj",),
        re.compile(r"eyJ[\w-]{8,}+(?:\.[\w-]{8,}+\.[\w-]{4,}+)?", re.ASCII),
        starts_word=True,
        check=_dotted,
    ),
    Rule(
        "url-password",
        ("://",),
        # The user's part and the password are one authority: no slash, no quote, no second @.
        re.compile(r"://[^\s/:@\"'`\\<>{}\[\]]{0,128}:([^\s/@\"'`\\<>{}\[\]$*][^\s/@\"'`\\<>{}\[\]]{0,255}+)@"),
    ),
    Rule(
        "authorization",
        ("authorization",),
        re.compile(
            r"(?i)authorization\\*[\"'`]?\]?\s{0,4}[:=]\s{0,4}\\*[\"'`]?(?:bearer|basic|token|digest|apikey)\s{1,4}"
            r"([A-Z0-9._~+/=-]{6,}+)"
        ),
        check=_header,
    ),
    Rule("bearer-token", ("bearer",), re.compile(r"(?i)bearer\s{1,4}([A-Z0-9._~+/=-]{16,}+)"), check=_told),
    Rule("password", ("passw", "passphrase"), _assignment("passw(?:or)?d|passphrase"), check=_assigned),
    Rule("password", ("pwd",), _assignment("(?<=[_-])pwd"), check=_assigned),
    Rule("secret", ("secret",), _assignment("secret(?:[_-]?(?:access[_-]?)?key)?"), check=_assigned),
    Rule("token", ("token",), _assignment("(?<!page)(?<!page[_-])token"), check=_assigned),
    Rule(
        "key",
        ("key",),
        _assignment("(?:api|access|account|auth|private|encryption|signing|master)[_-]?key"),
        check=_assigned,
    ),
    Rule(
        "password",
        ("--",),
        re.compile(
            rf"--(?:[a-z]{{1,20}}-){{0,3}}(?:password|passphrase|token|secret|api-key)\s({_START}{_BARE}{{5,4095}}+)"
        ),
        check=_told,
    ),
)
"""Searched in this order: the specific before the general, so that the placeholder says the most it can."""


def redact(text: str) -> tuple[str, Counter[str]]:
    """`text` with every secret replaced by `[REDACTED:<kind>]`, and how many of each kind.

    Idempotent. Linear in practice: rules whose keywords do not occur are not searched, and no pattern backtracks
    further than one value.
    """
    counts: Counter[str] = Counter()
    while True:
        before = counts.total()
        text = _pass(text, counts)
        # A replacement may free a neighbour that looked like part of a longer word: again, until nothing changes.
        if counts.total() == before:
            return text, counts


def _pass(text: str, counts: Counter[str]) -> str:
    lower = text.lower()
    for rule in RULES:
        if any(keyword in lower for keyword in rule.keywords):
            text = _apply(rule, text, counts)
    return text


def _apply(rule: Rule, text: str, counts: Counter[str]) -> str:
    kept: list[str] = []
    end = 0
    for match in rule.pattern.finditer(text):
        if rule.starts_word and not _starts_word(text, match.start()):
            continue
        if rule.check is not None and not rule.check(match):
            continue
        start, stop = match.span(match.lastindex or 0)
        kept += (text[end:start], "[REDACTED:", rule.kind, "]")
        end = stop
        counts[rule.kind] += 1
    return "".join(kept) + text[end:] if kept else text


def _starts_word(text: str, start: int) -> bool:
    return start == 0 or _LEFT.search(text[max(0, start - _LEFT_WIDTH) : start]) is not None
