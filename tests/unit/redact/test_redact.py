"""Redaction by example."""

from __future__ import annotations

import json
import random
import string

import pytest

from helix.redact import assignments
from helix.redact import redact as engine
from helix.redact.redact import redact
from helix.text import keyword_scan as keywords
from tests.support.planted.corpus import build_corpus
from tests.support.turns import check_units
from tests.unit.redact.cases import BASIC, BEGIN, END, HEX, LETTERS, LINES, NO_SECRETS, SECRETS, TOKEN


def test_a_token_in_raw_json_at_any_depth() -> None:
    line = json.dumps({"text": f"env\n{TOKEN}\nend", "n": 1})
    text, _ = redact(line)
    assert json.loads(text) == {"text": "env\n[REDACTED:github-pat]\nend", "n": 1}
    text, _ = redact(json.dumps({"arguments": line}))
    assert json.loads(json.loads(text)["arguments"])["text"] == "env\n[REDACTED:github-pat]\nend"


def test_only_the_secret_is_replaced() -> None:
    failed = []
    for before, secret, after in SECRETS:
        text, counts = redact(before + secret + after)
        is_replaced = text.startswith(before + "[REDACTED:") and text.endswith("]" + after)
        if counts.total() != 1 or not is_replaced or text.count("]") != (before + after).count("]") + 1:
            failed.append((before, secret, after, text))
    assert failed == []


def test_a_text_without_secrets_stays() -> None:
    lines = [text for plain in NO_SECRETS for text in (plain, json.dumps({"text": plain}))]
    assert [(text, redact(text)[0]) for text in lines if redact(text) != (text, {})] == []


def test_of_a_key_in_pieces_only_its_lines_are_replaced() -> None:
    code = f'key = "{BEGIN}\\n" +\n  "{LINES[0]}\\n" +\n  "{LINES[1]}\\n"\nprint(1)'
    text, counts = redact(code)
    assert counts == {"private-key": 2}
    assert text == f'key = "{BEGIN}\\n" +\n  "[REDACTED:private-key]\\n" +\n  "[REDACTED:private-key]\\n"\nprint(1)'
    numbered = "\n".join(f"{n:6d}→{line}" for n, line in enumerate([BEGIN, *LINES, END], 1))
    text, _ = redact(numbered)
    assert text == "     1→[REDACTED:private-key]"
    cut, _ = redact(numbered.removesuffix(END))
    assert not any(line in cut for line in LINES)


def test_only_the_values_of_a_kubernetes_secret_are_replaced() -> None:
    secret = f"kind: Secret\nmetadata:\n  name: db\ndata:\n  a: {BASIC}\n  b: {BASIC}\n"
    manifest = f"{secret}---\nkind: ConfigMap\ndata:\n  c: {BASIC}\n"
    text, counts = redact(manifest)
    assert counts == {"kubernetes-secret-yaml": 2}
    assert text.endswith(f"data:\n  c: {BASIC}\n")
    before = f"data:\n  a: {BASIC}\nkind: Secret\nmetadata:\n  name: db1\n"
    assert redact(before)[1] == {"kubernetes-secret-yaml": 1}
    assert redact(json.dumps({"out": manifest}))[1] == {"kubernetes-secret-yaml": 2}
    flat = json.dumps({"kind": "Secret", "data": {"a": BASIC, "b": BASIC}})
    assert json.loads(redact(flat)[0])["data"] == dict.fromkeys("ab", "[REDACTED:kubernetes-secret-yaml]")
    cert = "client-certificate-data: LS0tLS1CRUdJTiBDRVJUSUZJQ0FURS0tLS0t" + LETTERS
    assert redact(cert) == (cert, {})


def test_the_output_of_a_tool_is_found_by_the_id_of_its_call() -> None:
    """Command and output are two records, with other calls between them."""
    calls = [{"type": "tool_use", "id": f"toolu_0{n}ABCDEFGH", "name": "Bash", "input": {"command": command}}
             for n, command in enumerate(["op read op://a/b/c", "git log -1"])]  # fmt: skip
    results = [{"tool_use_id": f"toolu_0{n}ABCDEFGH", "type": "tool_result", "content": printed}
               for n, printed in enumerate(["Xk7tr4q9", "a3f2b1c9"])]  # fmt: skip
    given = {"content": results[:1], "toolUseResult": {"stdout": "Xk7tr4q9"}}
    lines = [json.dumps({"content": calls}), json.dumps(given), json.dumps({"content": results[1:]})]
    text, counts = redact("\n".join(lines))
    assert counts == {"secret": 2}
    first, second = (json.loads(line) for line in text.split("\n")[1:])
    assert first["content"][0]["content"] == first["toolUseResult"]["stdout"] == "[REDACTED:secret]"
    assert second["content"][0]["content"] == "a3f2b1c9"
    arguments = json.dumps({"command": ["bash", "-lc", "vault kv get -field=password secret/app"]})
    output = json.dumps({"output": "Xk7tr4q9\n", "metadata": {"exit_code": 0}})
    lines = [json.dumps({"type": "function_call", "arguments": arguments, "call_id": "call_ABCDEFGH"}),
             json.dumps({"type": "function_call_output", "call_id": "call_ABCDEFGH", "output": output})]  # fmt: skip
    text, counts = redact("\n".join(lines))
    assert counts == {"secret": 1}
    assert json.loads(json.loads(text.split("\n")[1])["output"])["output"] == "[REDACTED:secret]\n"


def test_json_stays_json() -> None:
    values: list[object] = [
        ["token=", 12345678, "x"], ["password=", 123456789, "x"], ["password=\\", 12345678], {"mysql -p": []},
        {"curl -u": 12345678}, {"authorization:": 1.2345678901234567e20}, ["echo ", 123456, " | sudo -S"],
        {"kind: Secret\ndata:\n  a": -100}, {"kind: Secret\ndata:\n  a:": 12345678}, {BEGIN: 10**15},
        {TOKEN: None, END: None}, {"password ": 12e20, END: True}, {"api_keys = [": 12e20}, {"": 10**15, END: None},
        {"--token value": 1.2345678901234567e20}, "-----BEGIN PRIVATE " + "KEY-----\x1fAKIAABCDEFGH12345678",
        "\x19" + "123456789:" + "AA" + LETTERS[:33]]  # fmt: skip
    for value in values:
        line = json.dumps(value, separators=(",", ":"))
        json.loads(redact(line)[0])
        json.loads(json.loads(redact(json.dumps(line))[0]))


UUID = f"{HEX[:8]}-{HEX[:4]}-{HEX[:4]}-{HEX[:4]}-{HEX[:12]}"
REDACTED = {
    # each kind is counted; all session cookies are replaced; the more specific placeholder wins
    f"{TOKEN} {TOKEN} PASSWORD=hunterhunter":
        ("[REDACTED:github-pat] [REDACTED:github-pat] PASSWORD=[REDACTED:password]", {"github-pat": 2, "password": 1}),
    "Cookie: sid=q7zp29dlxk4m; lang=de; auth_token=q7zp29dlxk4m; csrftoken=q7zp29dlxk4m":
        ("Cookie: sid=[REDACTED:cookie]; lang=de; auth_token=[REDACTED:cookie]; csrftoken=q7zp29dlxk4m", {"cookie": 2}),
    f"GITHUB_TOKEN={TOKEN}": ("GITHUB_TOKEN=[REDACTED:github-pat]", {"github-pat": 1}),
    f'HEROKU_API_KEY="{UUID}"': ('HEROKU_API_KEY="[REDACTED:heroku-api-key]"', {"heroku-api-key": 1}),
    # The key seems to continue in digits, until the token that they begin is replaced.
    "AI" + "za" + LETTERS[:35] + "123456789:" + "AA" + LETTERS[:33]:
        ("[REDACTED:gcp-api-key][REDACTED:telegram-bot-api-token]", {"gcp-api-key": 1, "telegram-bot-api-token": 1}),
}  # fmt: skip


def test_placeholders_and_their_counts() -> None:
    assert {text: redact(text) for text in REDACTED} == REDACTED


def test_overlapping_secrets_become_one_and_neighbours_are_both_found() -> None:
    text, counts = redact(f'"password": "{TOKEN}zz;{TOKEN}"')
    assert counts.total() == 1
    assert text.startswith('"password": "[REDACTED:')
    assert text.endswith(']"')
    text, _ = redact(f"PASSWORD=hunter2secret;TOKEN={TOKEN}")
    assert "hunter2" not in text
    assert TOKEN not in text


def test_placeholders_stay() -> None:
    for text in (
        "[REDACTED:token], 'abc12345xyz'", f"authorization [REDACTED:authorization], x={LETTERS}", "[REDACTED:",
    ):  # fmt: skip
        assert redact(text) == (text, {})


def test_a_secret_longer_than_published_is_replaced_whole() -> None:
    long = TOKEN + LETTERS * 3
    assert redact(f"use {long}.") == ("use [REDACTED:github-pat].", {"github-pat": 1})
    session = "".join(random.Random(1).choices(string.ascii_letters + string.digits, k=1500))
    assert redact(f"SESSION_TOKEN={session}\n") == ("SESSION_TOKEN=[REDACTED:token]\n", {"token": 1})


def test_a_name_inside_a_value_is_skipped(monkeypatch: pytest.MonkeyPatch) -> None:
    read_assignment, calls = assignments._read_assignment, []

    def count(*arguments):  # type: ignore[no-untyped-def]
        calls.append(1)
        return read_assignment(*arguments)

    monkeypatch.setattr(assignments, "_read_assignment", count)
    text, counts = redact("SECRET=Ab1" + "token=Ab1" * 200)
    assert text == "SECRET=[REDACTED:secret]"
    assert counts == {"secret": 1}
    assert len(calls) < 5


def test_the_rules_of_a_shorter_keyword_run_too() -> None:
    rules, known = engine.build_rules()
    assert assignments.find_assignment in rules[b"authorization"]
    text = "xx AUTHORIZATION auth, author"
    found = list(keywords.find_keywords(text, 0, len(text), known))
    assert found == [(3, b"authorization"), (17, b"auth"), (23, b"auth")]


def test_a_keyword_matches_only_with_its_following_pattern() -> None:
    known = keywords.build_keywords({"ab": "", "abc": "[0-9]", "-x": "", "d.e": "(?:f|$)"})
    text = "abc1 ABC Ab a-b -x d.ef d.eg dxef é-X d.e"
    expected = [(0, b"abc"), (5, b"ab"), (9, b"ab"), (16, b"-x"), (19, b"d.e"), (35, b"-x"), (38, b"d.e")]
    assert list(keywords.find_keywords(text, 0, len(text), known)) == expected
    assert list(keywords.find_keywords(text, 5, 17, known)) == [(5, b"ab"), (9, b"ab"), (16, b"-x")]


def test_the_step_of_the_scan_changes_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    texts = [log.text[:3000] for log in build_corpus(3)[::6]] + ["é" * 30 + TOKEN + "𝒜" * 30 + "TOKEN=qwertzui"]
    expected = [redact(text) for text in texts]
    for step in (1, 7, 64):
        monkeypatch.setattr(keywords, "_STEP", step)
        assert [redact(text) for text in texts] == expected


def test_only_the_surroundings_are_searched_again(monkeypatch: pytest.MonkeyPatch) -> None:
    filler = "nothing here\n" * 20_000
    text = filler + f"PASSWORD=hunter22 {TOKEN}\n" + filler
    sizes: list[int] = []
    scan = keywords.find_keywords

    def find(text: str, begin: int, end: int, known: keywords.Keywords):  # type: ignore[no-untyped-def]
        sizes.append(end - begin)
        return scan(text, begin, end, known)

    monkeypatch.setattr(engine.keywords, "find_keywords", find)
    _, counts = redact(text)
    assert counts.total() == 2
    assert sizes[0] == len(text)
    assert 0 < sum(sizes[1:]) < len(text) / 4


def test_no_pattern_backtracks() -> None:
    units = [
        "token=", 'token="', "token='", "token=Ab1", "token=a.b.", "://a:", "://a:b@", "postgres://a:b/", "eyJ", "eyJ_",
        "eyJaaaaaaaa.", BEGIN, BEGIN + "\n", "secret ", "--token ", "pypi-AgEI", "bearer ", "a", "sk-", "sk-proj-",
        "key.", "sk-ant-api03-", "password=abc123 ", "token=" + "aAbB" * 50 + "9- ", "\\", '\\"token\\": ',
        "kind: Secret\n", "curl -u ", "mysql ", "echo a|", "cookie: a=b; ", "Authorization: Digest ", '"kty":"d":"',
        "password\\\\\\\\", "machine a login b ", "keyName:", "pass(", "[REDACTED:", "[REDACTED:token] ",
        "1" * 10 + ":AA", "kind: kind:", "pul-" + "0123456789abcdef" * 2 + "01234567", END,
        LINES[0] + "\n" + END + "\n", "op read x ", "pass a/", "terraform output ", "kubectl get secret ",
        '"sensitive": true, "value": {', "password is ", "\\u0070", "\u200b a", "echo QUJDREVGR0hJSktM | base64 -d ",
        TOKEN[:16] + "\n", "x" * 60 + TOKEN[:16] + "\n", " -u a -p b1c2d3"]  # fmt: skip
    check_units(redact, *units, size=15_000)  # quadratic behaviour takes five seconds
