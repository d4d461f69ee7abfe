from __future__ import annotations

import json
import re
from collections import Counter

from hypothesis import example, given
from hypothesis import strategies as st

from helix.redact import assignments, hidden_characters
from helix.redact import redact as engine
from helix.redact.redact import redact
from helix.redact.rules import TOKEN, Rule, Secret
from tests.support.draws import draw_share

ESCAPE = re.compile(re.escape(hidden_characters.ESCAPE) + hidden_characters.ESCAPED, re.IGNORECASE | re.ASCII)
LETTERS = "A1b2C3d4E5f6G7h8I9j0K1l2M3n4O5p6Q7r8S9t0"
PARTS = [
    "gh" + "p_" + LETTERS[:36], "s" + "k-" + LETTERS, "AK" + "IA" + "ABCDEFGH12345678",
    "ey" + "JhbGciOiJI.eyJzdWIiOi.abcdef", "AI" + "za" + LETTERS[:35], "-----BEGIN " + "PRIVATE KEY-----",
    "-----END " + "PRIVATE KEY-----", "MIIEpAIBAAKCAQEA7MIIE", "123456789:" + "AA" + LETTERS[:33], "password",
    "_TOKEN", "secret_key", "api-key", "heroku_", "550e8400-e29b-41d4-a716-446655440000", "Authorization: Bearer ",
    "Cookie: sid=", "kind: Secret\ndata:\n  a", '"kty"', "curl -u a", "mysql -p", "--token ", "echo ", " | sudo -S",
    "auth=(", "kind: Secret\ndata:\n  a:", "htpasswd -b f u ", "authorization:", "keyName", "://user:", "postgres",
    "hunter2x", "use password ", "\\u0070", "\\u200b", "\u200b", "-----END " + "PRIVATE KEY-----", "op read x\n",
    '"tool_use_id": "toolu_12345678"', '", "output": "', "snyk auth ", "SET PASSWORD = ",
    '"sensitive": true, "value": ', "filled up to the end of a line of 40 columns ", "swordfish",
    "correct horse battery staple", "[REDACTED:token]", "[REDACTED:", "=", " = ", ": ", ",", "value", "@", "|", "<",
    ">", "(", ")", '"', "'", "`", "&quot;", "\\", "\\n", '\\"', "\n", "\x1b[32m", "\x1f", "é", "𝒜", "{", "}", "]",
]  # fmt: skip
PART = st.one_of(st.sampled_from(PARTS), st.text(max_size=8))
TEXT = st.lists(PART, max_size=25).map("".join)


@given(TEXT)
def test_redaction_is_idempotent(text: str) -> None:
    once, counts = redact(text)
    again, none = redact(once)
    assert again == once
    assert not none
    assert (once != text) == bool(counts)


@given(
    st.lists(st.dictionaries(TEXT, st.one_of(TEXT, st.integers(), st.none(), st.lists(TEXT, max_size=2)), max_size=3))
)
def test_json_stays_json(records: list[dict[str, object]]) -> None:
    lines = "\n".join(json.dumps(record) for record in records)
    text, _ = redact(lines)
    for line in filter(None, text.split("\n")):
        json.loads(line)
    assert text.count("\n") == lines.count("\n")


VALUE = st.recursive(
    st.one_of(TEXT, st.integers(), st.integers(min_value=10**7), st.floats(allow_nan=False), st.booleans(), st.none()),
    lambda inner: st.one_of(st.lists(inner, max_size=4), st.dictionaries(TEXT, inner, max_size=3)),
    max_leaves=8,
)


@given(VALUE)
def test_json_without_any_space_stays_json(value: object) -> None:
    line = json.dumps(value, separators=(",", ":"))
    inner = json.dumps([line], separators=(",", ":"))
    json.loads(redact(line)[0])
    json.loads(json.loads(redact(inner)[0])[0])


@given(TEXT, st.booleans())
@example('"sensitive": true, "value": [', False)  # no end within its own string
def test_json_in_json_stays_json(text: str, ascii: bool) -> None:
    inner = json.dumps({"text": text, "token": text}, ensure_ascii=ascii)
    line = json.dumps({"arguments": inner}, ensure_ascii=False)
    outer = json.loads(redact(line)[0])
    assert set(json.loads(outer["arguments"])) == {"text", "token"}
    third = json.dumps([line])
    innermost = json.loads(json.loads(json.loads(redact(third)[0])[0])["arguments"])
    assert set(innermost) == {"text", "token"}


def redact_everywhere(text: str, rules: list[Rule]) -> tuple[str, Counter[str]]:
    """Redact without keywords and windows: try every rule at every place until nothing changes."""
    counts: Counter[str] = Counter()
    while True:
        secrets = try_everywhere(text, rules)
        copy = hidden_characters.remove_hidden(text, [match.start() for match in ESCAPE.finditer(text)])
        if copy is not None:
            secrets += map(copy.map_back, try_everywhere(copy.text, rules))
        merged = engine._merge_spans(secrets)
        if not merged:
            return text, counts
        counts.update(secret.kind for secret in merged)
        text, _ = engine._insert_placeholders(text, merged)


def try_everywhere(text: str, rules: list[Rule]) -> list[Secret]:
    secrets: list[Secret] = []
    token = value = 0
    for at in range(len(text)):
        if at < token or engine._is_in_placeholder(text, at):
            continue
        for rule in rules:
            is_assignment = rule is assignments.find_assignment
            if is_assignment and at < value:
                continue
            for each in rule(text, at):
                each = engine._extend_span(text, each)
                value = each.stop if is_assignment else value
                token = each.stop if not is_assignment and each.rank <= TOKEN else token
                secrets.append(each)
    return secrets


@draw_share(0.3)
@given(st.lists(PART, max_size=12).map("".join))
@example("--token --token heroku_")  # no program is named
def test_keywords_miss_nothing(text: str) -> None:
    rules = list(dict.fromkeys(rule for rules in engine.build_rules()[0].values() for rule in rules))
    assert redact(text) == redact_everywhere(text, rules)
