"""Meanings of variable names: `DB_PASSWORD` and `client.apiKey` hold a secret, `token_count` does not.

The head noun decides, in English the last: `password` is one, `password_hint` is none. For `key`, the word before it
decides (`api_key`, `primary_key`). Unknown names (`ACME_KEY`, `TOKEN_GITHUB`) hold a secret if the value is random.
"""

from __future__ import annotations

from typing import Final, NamedTuple

from helix.redact.values import read_words, regex


class NameMeaning(NamedTuple):
    """The kind of secret that a name announces; not `is_sure` if the value must confirm it."""

    kind: str
    is_sure: bool
    is_label: bool = False  # may be the heading of a form field (`forgot_password`)


_WORD: Final = r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+"
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


def classify_name(name: str) -> NameMeaning | None:
    """Return the meaning of a name, or None if it names no secret."""
    words = [word.lower() for word in regex(_WORD).findall(name.replace("ñ", "n"))]
    for last in range(len(words) - 1, max(-1, len(words) - 5), -1):
        meaning = _classify_head(words, last)
        if meaning is None:
            continue
        rest = words[last + 1 :]
        same, is_other = read_words("same_after"), not read_words("other_after").isdisjoint(rest)
        if is_other or (meaning.kind == "credentials" and not same.issuperset(rest)):
            return None
        is_sure = meaning.is_sure and all(word in same or len(word) == 1 for word in rest)
        return meaning._replace(is_sure=is_sure)
    return None


def _classify_head(words: list[str], at: int) -> NameMeaning | None:
    """Return the meaning of the word at a place, by the word before it."""
    word, before = words[at], words[at - 1] if at else ""
    if regex(_PASSWORD).fullmatch(word):
        if word == "pass" and before in read_words("before_other_pass"):
            return None
        return NameMeaning("password", True, not read_words("label").isdisjoint(words[:at]))
    if word == "phrase" and before in ("seed", "recovery", "backup", "secret", "pass", "mnemonic"):
        return NameMeaning("password", True)
    if regex(_SECRET).fullmatch(word):
        return None if before in read_words("before_other_secret") else NameMeaning("secret", True)
    if word == "pat" and before not in read_words("before_pat"):
        return None
    if regex(_TOKEN).fullmatch(word):
        other = before in read_words("before_other_token") or word.startswith(("csrf", "xsrf"))
        return None if other else NameMeaning("token", before not in read_words("before_unsure_token"))
    if word == "key" and before and before not in read_words("before_other_key"):
        return NameMeaning("key", before in read_words("before_secret_key"))
    if regex(_KEY).fullmatch(word):
        return NameMeaning("key", True)
    if word in read_words("credentials"):
        return NameMeaning("credentials", False)
    return None
