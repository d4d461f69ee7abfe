"""What a name says of the value it is given: `DB_PASSWORD`, `client.apiKey`, `token_count`.

The head noun decides, as in English the last: a `password` is one, a `password_hint` is none, and of a `key` its
neighbour tells which (`api_key`, `primary_key`). What nothing is known of (`ACME_KEY`, `TOKEN_GITHUB`) may hold a
secret, and does where the value is random.
"""

from __future__ import annotations

from typing import Final, NamedTuple

from helix.redact.values import regex


class Meaning(NamedTuple):
    """What a name promises. Not `sure`: only if the value bears it out."""

    kind: str
    sure: bool
    label: bool = False  # it may be the heading of a field (`forgot_password`)


_WORD: Final = r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+"


def _set(words: str) -> frozenset[str]:
    return frozenset(words.split())


_PASSWORD: Final = (
    r".*(?:passwords?|passwd|passphrase|passwort|passcode|kennwort|contrasena|motdepasse)|psk|mnemonic"
    r"|(?:\w{0,8}(?:admin|db|ftp|key|keystore|login|mail|my|pg|require|root|smtp|ssh|store|sudo|truststore|user))?"
    r"(?:pass|pwd|pw|psw)"
)
_SECRET: Final = r".*secret"
_TOKEN: Final = r".*token|jwt|pat|bearer"
_KEY: Final = (
    r".*(?:api|access|secret|private|auth|encryption|signing|master|account|app|service|license|subscription)key"
)
_CREDENTIALS: Final = _set("auth basicauth cred credential credentials creds userpass")

# Before `key`: a secret; before `key`: none.
_SECRET_KEY: Final = _set(
    "access account activation admin aes api app application auth cipher crypto decryption deploy deployment encrypt "
    "encryption function functions hmac host ingest ingestion integration jwt licence license master preshared "
    "presharedkey private product recovery role root rsa sas secret service session shared sign signature signing "
    "subscription user webhook write"
)
_OTHER_KEY: Final = _set(
    "anon asset bucket business cache checkpoint child cluster column component composite config content cursor data "
    "dedup dedupe dict entity event feature field file flag foreign group hash header hot i18n idempotency idempotent "
    "image index issue item job join json key label lang layout list locale lock lookup map menu merge message meta "
    "metadata model msg natural nav node object option order parent partition primary project prop pub public "
    "publishable query queue range react record registry resume route routing row s s3 schema section setting shard "
    "sharding shortcut snapshot sort span state storage stream string surrogate tab table tag task template test text "
    "theme ticket title topic trace translation tree unique view socket websocket"
)
# Before `token`: no secret, but a place in a list, a count, a piece of text.
_OTHER_TOKEN: Final = _set(
    "abort action antiforgery backward bos budget cached cancel cancellation change cls color completion context "
    "continuation csrf current cursor design end eos first forward idempotency input key keyword last lexer lock "
    "lookahead mask max min next nextpage num operator output pad page pagination parse parsed peek per prev previous "
    "prompt reasoning request resume sep special start starting stop style sub sync syntax text thinking total unk "
    "word xsrf"
)
_MAYBE_TOKEN: Final = _set("client confirmation copy export import unit update verification work")
_HAS_PAT: Final = _set("access ado azure bitbucket bot ci databricks devops gh git github gitlab gl my personal user")
_OTHER_PASS: Final = _set("by did final first last multi must one post pre render second single third two")
_OTHER_SECRET: Final = _set("docker existing external image ingress kube mount no open pull sealed the tls top")
_LABEL: Final = _set(
    "bad change choose confirm empty enter forgot forgotten help hide hint incorrect invalid label mismatch missing no "
    "placeholder repeat required reset short show strong the title update verify weak wrong your"
)
# Behind the head noun: the same thing; something else.
_SAME: Final = _set(
    "again b64 base base64 cleartext confirm confirmation current default dev development encoded env live local main "
    "new old override plain plaintext prev previous primary prod production qa raw repeat sandbox secondary stage "
    "staging stg str string test testing val value"
)
_OTHER: Final = _set(
    "age alg algorithm alias allowed arn array at attempts audience bits budget bytes callback change changed char "
    "chars client cookie cost count counts created data date desc description digest dir disabled display doc docs "
    "email enabled endpoint endpoints error errors exp expiration expired expires expiry field fields file filename "
    "filepath files for form format generator group handler hash hashed hashes header headers hint hook id ids idx in "
    "index info input issuer key keys kind label len length level limit limits link list manager map max message "
    "method min mode msg name names page param params path paths pattern per placeholder policy prefix price prompt "
    "provider rate ref reference refs regex required reset ring role rotated rotation scope scopes sec selector "
    "service set size source state stats status storage store strength suffix target time timeout total ttl type "
    "types updated uri url urls usage used user username validator var variable version window"
)


def meaning(name: str) -> Meaning | None:
    """Whether `name` names a secret; None: it does not."""
    words = [word.lower() for word in regex(_WORD).findall(name.replace("ñ", "n"))]
    for last in range(len(words) - 1, max(-1, len(words) - 5), -1):
        found = _head(words, last)
        if found is None:
            continue
        rest = words[last + 1 :]
        if any(word in _OTHER for word in rest) or (found.kind == "credentials" and not _SAME.issuperset(rest)):
            return None
        sure = found.sure and all(word in _SAME or len(word) == 1 for word in rest)
        return found._replace(sure=sure)
    return None


def _head(words: list[str], at: int) -> Meaning | None:
    word, before = words[at], words[at - 1] if at else ""
    if regex(_PASSWORD).fullmatch(word):
        if word == "pass" and before in _OTHER_PASS:
            return None
        return Meaning("password", True, any(each in _LABEL for each in words[:at]))
    if word == "phrase" and before in ("seed", "recovery", "backup", "secret", "pass", "mnemonic"):
        return Meaning("password", True)
    if regex(_SECRET).fullmatch(word):
        return None if before in _OTHER_SECRET else Meaning("secret", True)
    if word == "pat" and before not in _HAS_PAT:
        return None
    if regex(_TOKEN).fullmatch(word):
        other = before in _OTHER_TOKEN or word.startswith(("csrf", "xsrf"))
        return None if other else Meaning("token", before not in _MAYBE_TOKEN)
    if word == "key" and before and before not in _OTHER_KEY:
        return Meaning("key", before in _SECRET_KEY)
    if regex(_KEY).fullmatch(word):
        return Meaning("key", True)
    if word in _CREDENTIALS:
        return Meaning("credentials", False)
    return None
