from __future__ import annotations

import json

from hypothesis import given
from hypothesis import strategies as st

from helix.enrich.redact import redact

LETTERS = "A1b2C3d4E5f6G7h8I9j0K1l2M3n4O5p6Q7r8S9t0"
PART = st.one_of(
    st.sampled_from(
        [
            "gh" + "p_" + LETTERS[:36],
            "s" + "k-" + LETTERS,
            "AK" + "IA" + "ABCDEFGH12345678",
            "ey" + "JhbGciOiJI.eyJzdWIiOi.abcdef",
            "AI" + "za" + LETTERS[:35],
            "-----BEGIN " + "PRIVATE KEY-----",
            "-----END " + "PRIVATE KEY-----",
            "MIIEpAIBAAKCAQEA7MIIE",
            "password",
            "_TOKEN",
            "secret_key",
            "api-key",
            "Authorization: Bearer ",
            "--token ",
            "://user:",
            "hunter2x",
            "[REDACTED:token]",
            "[REDACTED:",
            "=",
            ": ",
            "@",
            '"',
            "'",
            "\\",
            "\\n",
            "\n",
            "{",
            "}",
            ",",
            "]",
        ]
    ),
    st.text(max_size=8),
)
TEXT = st.lists(PART, max_size=25).map("".join)


@given(TEXT)
def test_idempotent(text: str) -> None:
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


@given(TEXT)
def test_json_in_json_stays_json(text: str) -> None:
    line = json.dumps({"arguments": json.dumps({"text": text, "token": text}, ensure_ascii=False)})
    outer = json.loads(redact(line)[0])
    assert set(json.loads(outer["arguments"])) == {"text", "token"}
