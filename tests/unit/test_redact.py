"""Secrets are put together here, so that no scanner finds one in this file."""

from __future__ import annotations

import json
import time

import pytest

from helix.enrich.redact import redact

LETTERS = "A1b2C3d4E5f6G7h8I9j0K1l2M3n4O5p6Q7r8S9t0"
PEM = "-----BEGIN RSA " + "PRIVATE KEY-----\nMIIEpAIBAAKCAQEA7\nq+/=abc\n-----END RSA " + "PRIVATE KEY-----"

TOKENS = {
    "github-pat": ["gh" + "p_" + LETTERS[:36], "github_" + "pat_" + LETTERS + "_" + LETTERS],
    "github-token": [f"gh{kind}_" + LETTERS[:36] for kind in "ousr"],
    "gitlab-pat": ["glp" + "at-" + LETTERS[:20]],
    "aws-access-key-id": ["AK" + "IA" + "ABCDEFGH12345678", "AS" + "IA" + "ABCDEFGH12345678"],
    "slack-token": ["xo" + "xb-123456789012-" + "abcdefABCDEF", "xa" + "pp-1-A012-" + "abcdef"],
    "openai-key": ["s" + "k-" + LETTERS, "s" + "k-proj-" + LETTERS + "_-" + LETTERS],
    "anthropic-key": ["s" + "k-ant-api03-" + LETTERS],
    "google-key": ["AI" + "za" + LETTERS[:35]],
    "stripe-key": ["sk_" + "live_" + LETTERS[:24], "rk_" + "live_" + LETTERS[:24]],
    "npm-token": ["np" + "m_" + LETTERS[:36]],
    "huggingface-token": ["h" + "f_" + LETTERS[:34]],
    "pypi-token": ["py" + "pi-AgEI" + LETTERS + LETTERS],
    "sendgrid-key": ["S" + "G." + LETTERS[:22] + "." + LETTERS],
    "twilio-key": ["S" + "K" + "0123456789abcdef" * 2],
    "jwt": ["ey" + "JhbGciOiJIUzI1NiJ9." + "eyJzdWIiOiIxMjM0NTY3ODkwIn0." + LETTERS],
    "private-key": [PEM],
}
CASES = [(kind, token) for kind, tokens in TOKENS.items() for token in tokens]


@pytest.mark.parametrize(("kind", "token"), CASES)
def test_a_token_becomes_its_placeholder(kind: str, token: str) -> None:
    text, counts = redact(f"before {token} after")
    assert text == f"before [REDACTED:{kind}] after"
    assert counts == {kind: 1}


@pytest.mark.parametrize(("kind", "token"), CASES)
def test_in_raw_json_behind_an_escape(kind: str, token: str) -> None:
    line = json.dumps({"text": f"env\n{token}\nend", "n": 1})
    text, _ = redact(line)
    assert json.loads(text) == {"text": f"env\n[REDACTED:{kind}]\nend", "n": 1}
    # Once more escaped, as a tool call within a log.
    text, _ = redact(json.dumps({"arguments": line}))
    assert json.loads(json.loads(text)["arguments"])["text"] == f"env\n[REDACTED:{kind}]\nend"


@pytest.mark.parametrize(
    ("before", "secret", "after"),
    [
        ("postgres" + "://app:", "s3cr3t!", "@db/x"),
        ("redis" + "://:", "hunter2", "@localhost:6379"),
        ("https://hooks.slack" + ".com/services/", "T000/B000/" + LETTERS[:24], " ok"),
        ("aws_secret_access_key = ", LETTERS, "\n"),
        ("Authorization: Bearer ", "abc123def456", "\n"),
        ("'Authorization': 'Basic ", "dXNlcjpwYXNz", "'"),
        ("got bearer ", LETTERS, ""),
        ("DB_PASSWORD=", "hunterhunter", "\n"),
        ("export API_TOKEN=", "abcdefgh", "\n"),
        ("X_SECRET='", "abc$def!ghi", "'"),
        ("MY_API_KEY=", "abcdefgh", " "),
        ('"password": "', "swordfish", '"'),
        ('\\"api_key\\": \\"', "abcdef123", '\\"'),
        ('\\\\\\"api_key\\\\\\": \\\\\\"', "abcdef123", '\\\\\\"'),
        ("password: ", "hunter22", "\n"),
        ("apiKey: '", "abcdefgh1", "'"),
        ("os.environ['API_KEY'] = '", "abcdef1", "'"),
        ("deploy --password ", "s3cr3tpw", " now"),
        ("?client_secret=", "abc123def456", "&x=1"),
        ("password\\u003d", "hunter22", " "),
        ("\x1b[32mTOKEN=", "abcdefgh", "\n"),
    ],
)
def test_only_the_secret_of_an_assignment_goes(before: str, secret: str, after: str) -> None:
    text, counts = redact(before + secret + after)
    assert counts.total() == 1
    assert text.startswith(before + "[REDACTED:")
    assert text.endswith("]" + after)
    assert secret not in text


@pytest.mark.parametrize(
    "text",
    [
        "commit a3f2b1c9d0e1f2a3b4c5d6e7f8a9b0c1d2e3f4a5",
        "550e8400-e29b-41d4-a716-446655440000",
        "sha256:" + "ab12" * 16,
        "data:image/png;base64," + "iVBORw0KGgoAAAANSUhEUgAAAAUA" * 3,
        '"password": "${DB_PASSWORD}"',
        "DB_PASSWORD=$DB_PASSWORD",
        "password = os.environ['X1']",
        "token = get_token2()",
        "token=token",
        "token = self.token1",
        "api_key: str",
        "password=None",
        '{"token": "string", "secret": true, "password": null, "api_key": 12345678}',
        "max_tokens=4096, tokens: 1234567",
        "API_KEY=your-api-key",
        "PASSWORD=changeme",
        "SECRET=********",
        "PASSWORD=<password>",
        "Authorization: Bearer ${TOKEN}",
        "task-abcdefghijklmnopqrstuvwxyz0123",
        "git@github.com:user/repo and https://example.com:8080/x@y",
        "Token::Identifier2",
        "next_page_token: 'abc12345'",
        "PWD=/srv/dir1",
        "The secret: never give up",
        "",
    ],
)
def test_what_is_no_secret_stays(text: str) -> None:
    assert redact(text) == (text, {})


def test_every_kind_is_counted() -> None:
    token = "gh" + "p_" + LETTERS[:36]
    _, counts = redact(f"{token} {token} DB_PASSWORD=hunterhunter")
    assert counts == {"github-pat": 2, "password": 1}


def test_the_more_specific_placeholder_wins() -> None:
    text, _ = redact("OPENAI_API_KEY=" + "s" + "k-proj-" + LETTERS)
    assert text == "OPENAI_API_KEY=[REDACTED:openai-key]"


def test_neighbours_are_both_found() -> None:
    text, _ = redact("PASSWORD=hunter2secret;TOKEN=" + "gh" + "p_" + LETTERS[:36])
    assert "hunter2" not in text
    assert LETTERS[:36] not in text


def test_a_key_that_is_cut_off_goes_too() -> None:
    text, _ = redact(PEM.split("\n")[0] + f"\n{LETTERS}\n{LETTERS[:20]}\nrest of the log")
    assert text == "[REDACTED:private-key]\nrest of the log"


@pytest.mark.parametrize(
    "unit",
    ["token=", 'token="', "://a:", "-----BEGIN " + "PRIVATE KEY-----", "eyJ", "eyJaaaaaaaa.", "secret ", "--token ",
     "pypi-", "bearer ", "a", "sk-", "password=abc123 ", "token=" + "aAbB" * 50 + "9- ", "\\", '\\"token\\": '],
)  # fmt: skip
def test_nothing_backtracks(unit: str) -> None:
    start = time.perf_counter()
    redact(unit * (300_000 // len(unit)))
    # Measured: under .2 s; quadratic behaviour takes minutes.
    assert time.perf_counter() - start < 5
