"""Redaction by example. Secrets are joined from parts, so that no scanner finds one in this file."""

from __future__ import annotations

import json
import random
import string
import time

import pytest

from helix.redact import assignments
from helix.redact import redact as engine
from helix.redact.redact import redact
from helix.text import keyword_scan as keywords
from tests.support.planted.corpus import build_corpus

LETTERS = "A1b2C3d4E5f6G7h8I9j0K1l2M3n4O5p6Q7r8S9t0"
HEX = "9f86d081884c7d659a2feaa0c55ad015"
BEGIN, END = "-----BEGIN RSA PRIVATE " + "KEY-----", "-----END RSA PRIVATE " + "KEY-----"
LINES = ["MIIEpAIBAAKCAQEA7qXb5vC0m", "q+/9dabcA7qXb5vC0mMIIEpAI", "Zm9vYmFyYmF6cXV4MTIzNDU2"]
JWT = "ey" + "JhbGciOiJIUzI1NiJ9." + "eyJzdWIiOiIxMjM0NTY3ODkwIn0." + LETTERS
TOKEN = "gh" + "p_" + LETTERS[:36]
# base64 of ana:Xk7tr4q9
BASIC = "YW5hOlhrN3RyNHE5"


def test_a_token_in_raw_json_at_any_depth() -> None:
    line = json.dumps({"text": f"env\n{TOKEN}\nend", "n": 1})
    text, _ = redact(line)
    assert json.loads(text) == {"text": "env\n[REDACTED:github-pat]\nend", "n": 1}
    text, _ = redact(json.dumps({"arguments": line}))
    assert json.loads(json.loads(text)["arguments"])["text"] == "env\n[REDACTED:github-pat]\nend"


SECRETS = [  # text before a secret, the secret, text after it
    # URLs
    ("postgres" + "://app:", "s3cr3t!", "@db/x"),
    ("postgres" + "://app:", "p%40ss%2Fw0rd", "@db:5432/x"),
    ("postgres" + "://app:", "p@ss/w0rd#1", "@db:5432/x"),
    ("redis" + "://:", "hunter2", "@localhost:6379"),
    ("http" + "://ana:", "hunter2@", "@proxy.example:3128"),
    ("git clone https" + "://oauth2:", LETTERS, "@git.example/a.git"),
    ("x.blob.core.windows.net/a?sv=1&sp=r&sig=", "aB3%2Fd9fK2mQx7%2BzT1vW8yR4uE6%3D", " ok"),
    ("?X-Amz-SignedHeaders=host&X-Amz-Signature=", HEX * 2, '"'),
    # headers
    ("Authorization: Bearer ", "xk29dLq7Zp", "\n"),
    ("'Authorization': 'Basic ", BASIC, "'"),
    ('req.Header.Set("Authorization", "token ', HEX, '")'),
    ("Authorization: ", HEX, "\n"),
    ("Proxy-Authorization: Basic ", BASIC, "\n"),
    ('Authorization: Digest username="ana", realm="x", response="', HEX, '"'),
    ("Authorization: AWS4-HMAC-SHA256 Credential=x/y, SignedHeaders=host, Signature=", HEX * 2, "\n"),
    ("got bearer ", LETTERS, ""),
    ("X-Api-Key: ", HEX, "\n"),
    ("Ocp-Apim-Subscription-Key: ", HEX, "\n"),
    ("PRIVATE-TOKEN: ", LETTERS[:20], "\n"),
    ("Set-Cookie: connect.sid=", "s%3Aq7Zp29dLx", "; Path=/; HttpOnly"),
    ("Cookie: theme=dark; sessionid=", "q7zp29dlxk4m", "; lang=de"),
    ("curl -b 'sessionid=", "q7zp29dlxk4m8h2v", "' x"),
    ('{"name": "Cookie", "value": "sid=', "q7zp29dlxk4m8h2v", '"}'),
    # assignments
    ("DB_PASSWORD=", "hunterhunter", "\n"),
    ("DB_PASSWORD=", "swordfish", "\n"),
    ('{"a": "x\\nDB_PASSWORD=', "swordfish", '\\n"}'),
    ('api_key = "', "kzq7rt1", '"'),
    ("export API_TOKEN=", "qwertzuiopas", "\n"),
    ("X_SECRET='", "abc$def!ghi", "'"),
    ('"password": "', "swordfish", '"'),
    ('"password": "', "correct horse battery staple", '"'),
    ('"password": "', "it's 1 o'clock", '"'),
    ('"password": "', 'a\\"b\\\\c9', '"'),
    ('["password=', "swordfish", '"]'),
    ('"password": "', "!@#%^&*", '"'),
    ('\\"api_key\\": \\"', "kzq7rt123", '\\"'),
    ('\\\\\\"api_key\\\\\\": \\\\\\"', "kzq7rt123", '\\\\\\"'),
    ("password: ", "hunter22", "\n"),
    ("  password: ", "swordfish", "\n  user: x"),
    ("db.password=", "swordfish", "\n"),
    ("my api key: ", HEX, " thanks"),
    ("the passphrase is ", "PURPLE-ELEPHANT-42", " ok"),
    ("apiKey: '", "kzq7rtwx1", "'"),
    ("os.environ['API_KEY'] = '", "kzq7rtwx1", "'"),
    ('os.environ.get("API_KEY", "', "kzq7rtwx1", '")'),
    ("process.env.JWT_SECRET || '", "kzq7rtwx1", "'"),
    ("${DB_PASSWORD:-", "hunter22", "}"),
    ('password: str = "', "hunter22", '"'),
    ('var apiKey string = "', "kzq7rtwx1", '"'),
    ('builder.setPassword("', "hunter22", '")'),
    ("define('DB_PASSWORD', '", "hunter22", "');"),
    ('#define API_KEY "', "kzq7rtwx1", '"'),
    ("{name: 'x', password => '", "hunter22", "'}"),
    ("- name: DB_PASSWORD\n  value: ", "swordfish", "\n"),
    ('{"name": "API_TOKEN", "value": "', "kzq7rtwx1", '"}'),
    ("<password>", "hun,ter;22", "</password>"),
    ('<add key="Password" value="', "hunter22", '"/>'),
    ("| DB_PASSWORD | ", "hunter22", " |"),
    ("**Password:** `", "hunter22", "`"),
    ("&quot;password&quot;:&quot;", "hunter22", "&quot;"),
    ("?client_secret=", "xk29dLq7Zp", "&x=1"),
    ("password\\u003d", "hunter22", " "),
    ("\x1b[32mTOKEN\x1b[0m=\x1b[33m", "qwertzui", "\x1b[0m\n"),
    ("\\u001b[32mTOKEN\\u001b[0m=", "qwertzui", "\\n"),
    ("AccountName=x;AccountKey=", "a1B2c3D4e5F6g7H8i9J0k1L2m3N4o5P6q7R8s9T0u1V2w3X4y5Z6a7B8==", ";Suffix=y"),
    ("Server=x;User ID=y;Pwd=", "hunter22", ";Encrypt=True"),
    ("SECRET_KEY_BASE=", HEX * 4, "\n"),
    ("STRIPE_KEY=", LETTERS[:24], "\n"),
    ("define('AUTH_KEY',   '", "k|}2 9f,Xq;Lw7@z T%mB0rN(4vE)8sH[1dJ]6cG{5aF", "');"),
    ('"auth": "', BASIC, '"'),
    ("//npm.example/:_auth=", BASIC, "\n"),
    ("//npm.example/:_authToken=", LETTERS[:30], "\n"),
    ("aws_secret_access_key = ", LETTERS, "\n"),
    ("PrivateKey = ", "aB3d9fK2mQx7zT1vW8yR4uE6aB3d9fK2mQx7zT1vW8y=", "\n"),
    # commands
    ("deploy --password ", "s3cr3tpw", " now"),
    ("deploy --password=", "swordfish", " now"),
    ("keytool -storepass ", "s3cr3tpw", " -list"),
    ("curl -s -u ana:", "s3cr3tpw", " https://x.example"),
    ('curl -s -u ":', "s3cr3tpw", '" https://x.example'),
    ("curl \\\\\\n  --user 'ana:", "s3cr3tpw", "' https://x.example"),
    ("http -a ana:", "s3cr3tpw", " x.example"),
    ("mysql -u root -p", "s3cr3tpw", " -e 'select 1'"),
    ("sshpass -p '", "s3cr3tpw", "' ssh x"),
    ("redis-cli -h x -a ", "s3cr3tpw", " ping"),
    ("docker login -u x -p ", "s3cr3tpw", " r.example"),
    ("PGPASSWORD=", "s3cr3tpw", " psql -h db"),
    ("openssl rsa -passin pass:", "swordfish", " -in k"),
    ("echo ", "s3cr3tpw", " | sudo -S id"),
    ("echo 'ana:", "s3cr3tpw", "' | sudo chpasswd"),
    ("htpasswd -bc .htpasswd ana ", "s3cr3tpw", "\n"),
    ("kubectl create secret generic x --from-literal=k=", "s3cr3tpw", "\n"),
    ("aws configure set aws_secret_access_key ", LETTERS, "\n"),
    ("set -gx API_KEY ", "kzq7rtwx1", "\n"),
    ('ConvertTo-SecureString "', "s3cr3tpw", '" -AsPlainText'),
    ("CREATE USER a IDENTIFIED BY '", "swordfish", "';"),
    ("ALTER ROLE a WITH PASSWORD '", "swordfish", "';"),
    ('requests.get(u, auth=("ana", "', "s3cr3tpw", '"))'),
    # files
    ("machine x login ana password ", "swordfish", "\n"),
    ("machine x\n  login ana\n  password ", "swordfish", "\n"),
    ("db.example:5432:app:ana:", "s3cr3tpw", "\n"),
    ("requirepass ", "s3cr3tpw", "\n"),
    ('storePassword "', "swordfish", '"\n'),
    ("sqlcmd -S db -U sa -P ", "s3cr3tpw", " -Q 'select 1'"),
    ("cqlsh -u ana -p ", "s3cr3tpw", " 10.0.0.4"),
    ("anything -u ana -p ", "s3cr3tpw", " host1"),
    ("SET PASSWORD FOR 'ana'@'%' = '", "swordfish", "';"),
    ("mc alias set store https://s.example ana ", "s3cr3tpw", "\n"),
    ("rabbitmqctl add_user ana ", "s3cr3tpw", "\n"),
    ("nmcli dev wifi connect Office password ", "s3cr3tpw", "\n"),
    ("net user ana ", "s3cr3tpw", " /add"),
    ("snyk auth ", "550e8400-e29b-41d4-a716-446655440000", "\n"),
    ("./codecov -t ", "550e8400-e29b-41d4-a716-446655440000", " -f x.xml"),
    ("chpasswd <<< 'ana:", "s3cr3tpw", "'"),
    ('expect "assword:"\nsend "', "s3cr3tpw", '\\r"'),
    # what a command printed
    ("$ terraform output -raw db_password\n", "Xk7tr4q9", "\n$ ls"),
    ("$ az keyvault secret show --name x --query value -o tsv\n", "Xk7tr4q9", "\n"),
    ("```\n$ op read op://a/b/c\n", "amber-falcon-42", "\n```"),
    ("Tool use: `pass show work/db`\n\n```\n", "Xk7tr4q9", "\n```"),
    ("$ aws ecr get-login-password\n", "eyJwYXlsb2FkIjoi" + LETTERS * 3, "\n"),
    ("$ kubectl get secret db -o jsonpath='{.data.a}' | base64 -d\n", "Xk7tr4q9", "\n"),
    ('{"sensitive": true, "type": "string", "value": "', "swordfish", '"}'),
    ('{"id": "https://v.vault.azure.net/secrets/x/1", "tags": {}, "value": "', "swordfish", '"}'),
    ("Unseal Key 1: ", "kQ3d9fK2mQx7zT1vW8yR4uE6aB3d9fK2mQx7zT1vW8y=", "\n"),
    ('"unseal_keys_b64": ["', "kQ3d9fK2mQx7zT1vW8yR4uE6aB3d9fK2mQx7zT1vW8y=", '"]'),
    # sentences
    ("use password ", "hunter22", " to log in"),
    ("log in as ana (password ", "amber394!", ") and restart it"),
    ("set the password to ", "amber394", " for now"),
    ("use ", "amber394", " as the password."),
    ("wifi password “", "amber394", "”"),
    # hidden
    ('{"user": 1, "\\u0070assword": "', "swordfish", '"}'),
    ('log: {\\"pass\\\\u0077ord\\": \\"', "swordfish", '\\"}'),
    ("pass\\u200bword: ", "hunter22", "\n"),
    ("key ", TOKEN[:20] + "\u200b" + TOKEN[20:], " ok"),
    ("key ", TOKEN[:20] + "\\u200b" + TOKEN[20:], "\\u200b ok"),
    # broken over the lines of a terminal
    ("x" * 66 + " ", TOKEN[:13] + "\n" + TOKEN[13:], "\nnext line"),
    ('{"text": "' + "x" * 66 + " ", TOKEN[:13] + "\\n" + TOKEN[13:], '\\nnext line"}'),
    ("token ", JWT[:74] + "\n" + JWT[74:], "\n"),
    # keys
    ("$ tail key.pem\n", "\n".join([*LINES, "Zm9v", END]), "\n"),
    ('{"out": "', "\\n".join([*LINES, END]), '\\n"}'),
    ("", "\n".join([BEGIN, *LINES, END]), " x"),
    ("", "\\n".join([BEGIN, *LINES, END]), "\\n"),
    ("", "\n".join([BEGIN, *LINES]), "\nrest of the log"),
    ("token ", JWT, " ok"),
    ("bot", "123456789:" + "AA" + LETTERS[:33], "/getMe"),
    ("client.login('", "MTAx" + LETTERS[:22] + "." + LETTERS[:6] + "." + LETTERS[:38], "')"),
    ('{"kty":"EC","x":"abc","d":"', LETTERS, '"}'),
]  # fmt: skip


def test_only_the_secret_is_replaced() -> None:
    failed = []
    for before, secret, after in SECRETS:
        text, counts = redact(before + secret + after)
        is_replaced = text.startswith(before + "[REDACTED:") and text.endswith("]" + after)
        if counts.total() != 1 or not is_replaced or text.count("]") != (before + after).count("]") + 1:
            failed.append((before, secret, after, text))
    assert failed == []


NO_SECRETS = [
    # ids, digests and the like
    "commit a3f2b1c9d0e1f2a3b4c5d6e7f8a9b0c1d2e3f4a5",
    "550e8400-e29b-41d4-a716-446655440000",
    "sha256:" + "ab12" * 16,
    '"integrity": "sha512-' + LETTERS * 2 + '=="',
    "data:image/png;base64," + "iVBORw0KGgoAAAANSUhEUgAAAAUA" * 3,
    '"sessionId": "550e8400-e29b-41d4-a716-446655440000"',
    '"tool_use_id": "toolu_01' + LETTERS[:22] + '", "id": "msg_01' + LETTERS[:22] + '"',
    "next_page_token: 'abc12345'",
    '"idempotency_key": "550e8400-e29b-41d4-a716-446655440000"',
    'cacheKey: "' + HEX + '"',
    "s3_key = 'my-app/22a0-stage-150819.war'",
    "ssh-rsa AAAAB3NzaC1yc2E" + LETTERS * 3 + " ana@box",
    "-----BEGIN CERTIFICATE-----\n" + LETTERS + "\n-----END CERTIFICATE-----",
    "-----BEGIN PUBLIC " + "KEY-----\n" + LETTERS + "\n-----END PUBLIC " + "KEY-----",
    BEGIN + "\n...\n" + END,
    'grep -l "' + BEGIN + '" /home/runner/work/projects/keys',
    '{"kty":"RSA","n":"' + LETTERS * 2 + '","e":"AQAB"}',
    '"arn:aws:secretsmanager:eu-west-1:123456789012:secret:prod-db-a1b2c3"',
    # references
    '"password": "${DB_PASSWORD}"',
    "DB_PASSWORD=$DB_PASSWORD",
    "PASSWORD=$(openssl rand -base64 32)",
    "password = os.environ['X1']",
    "password = form.password1.data",
    "password = random_password.db1.result",
    "token = get_token2()",
    "token=token",
    "token = self.token1",
    "api_key: ${{ secrets.API_KEY_2 }}",
    "password: {{ .Values.password1 }}",
    "set PASSWORD=%DB_PASS1%",
    'password_env: "DB_PASSWORD"',
    "PASSWORD_FILE=/run/secrets/db1",
    "password=/run/secrets/db1",
    'token: "https://x.example/token2"',
    "Authorization: Bearer ${TOKEN}",
    'h.Set("Authorization", "Bearer "+cloudToken2)',
    'password = f"{user1}-{host2}x"',
    'password = "vault:kv/billing/primary7"',
    '"password": "op://vault1/item/field"',
    'token: "env:GH_TOKEN1"',
    '{"password": hunter22}',
    "mysql -u root -p$DB_PASS1",
    "sshpass -p --help1",
    "bearer /srv/data/releases/v1/x2",
    # types, documentation, counts
    "private_key: X448PrivateKey,",
    'CHALLENGE_PASSWORD: "challengePassword"',
    '"password_hash": "q7zp29dlxk4m8h2v5t"',
    'acme_key = "kzq7rt1"',
    'api_key = "billing-app-2"',
    'password="ana@mail7.acme.org"',
    'password="https://x1.acme.io/a"',
    '<Input type="password">Label1</Input>',
    "if user.password > limit1:",
    "type <password> field22 here",
    "cat password | sha256sum22 -",
    "the password is sha256",
    "api_key: str",
    "private_key: ed25519.Ed25519PrivateKey,",
    "Ed25519PrivateKey | X448PrivateKey",
    "password: SecretStr",
    "password=None",
    '{"token": "string", "secret": true, "password": null, "api_key": 12345678}',
    '{"format": "password", "minLength9": 8}',
    '"secret": "V1SecretVolumeSource"',
    "max_tokens=4096, tokens: 1234567, token_count: 99",
    '"forgot_password": "Forgot your password?"',
    '"password": "must have at least 8 characters"',
    "the token is base64-encoded, the key is sha256",
    "identified by reference1.",
    "| `token` | string | the token of v2 |",
    "--- PASS: TestToken/valid_2 (0.00s)",
    "pass: 128 fail: 2",
    "Token: '#ddd0c0'",
    'pattern_token = r"[a-z0-9]+(?:-[a-z0-9]+)*"',
    "publicKeyToken_id=1fc8b3b9a1e18e3b",
    '"csrf_token": "' + HEX + '"',
    # stand-ins and masks
    "API_KEY=your-api-key",
    "PASSWORD=changeme",
    "JWT_SECRET=your-256-bit-secret",
    "SECRET=********",
    "PASSWORD=<password>",
    'api_key = "test-api-key-1"',
    'password="password"',
    "OPENAI_API_KEY=sk-...",
    "postgres://user:password@localhost/db",
    "postgres://app:****@db/x",
    "postgres://{user}:{password}@{host}/db",
    # addresses without a password
    "git@github.com:user/repo and https://example.com:8080/x@y",
    "http://localhost:5173/@vite/client",
    "docker run -p 8080:80 mysql -p3306:3306",
    "curl -u $USER:$PASS https://x.example",
    "docker login -u ci -p $CI_JOB_TOKEN",
    "sqlcmd -S server1 -E -P 1433",
    "mc alias set ALIAS URL ACCESSKEY SECRETKEY",
    "nmcli dev wifi connect SSID password PASSWORD",
    "rabbitmqctl add_user USERNAME PASSWORD",
    "net user administrator /active:yes",
    "docker run -t ubuntu2204 bash -p host22",
    "ssh -l ana1 -p 2222 host22",
    # of a command
    "$ terraform output -raw bucket\nmy-app-bucket-prod-2\n",
    "$ op read op://a/b/c | pbcopy\nbuild-2026a\n",
    "export X=$(op read op://a/b/c)\nbuild-2026a\n",
    "$ op read op://a/b/c > key1\nbuild-2026a\n",
    "$ pass show nosuch/db1\nError: nosuch/db1 is not in the password store.\n",
    "$ gh auth token\nana@box2:~/src$ \n",
    "$ cat token_bucket.py\nimport2\n",
    "db_password = <sensitive>",
    '{"sensitive": false, "type": "string", "value": "eu-central-1b"}',
    "$ echo SGVsbG8gV29ybGQ= | base64 -d\nHello World\n",
    # sentences
    "password reset, password manager, password field2, password hashing with argon2id",
    "password is required, Password must have 12 characters, password-less login2",
    "the password column1, password page2, password OAuth2, password RFC6749",
    "sent the password to server01",
    "config2 is the password file",
    # of no key
    'the line "' + END + '" closes it',
    "x" * 70 + " commit a3f2b1c9\nd0e1f2a3b4c5d6e7",
    "caf\\u00e9 token2 \\u0064escription2 👨\u200d👩 x2",
    # words
    "task-abcdefghijklmnopqrstuvwxyz0123",
    "Token::Identifier2",
    "PWD=/srv/dir1",
    "The secret: never give up",
    "events, err := s.QueryUnmatchedFileEvents(ctx)",
    "",
]


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


def test_all_session_cookies_are_replaced() -> None:
    text, counts = redact("Cookie: sid=q7zp29dlxk4m; lang=de; auth_token=q7zp29dlxk4m; csrftoken=q7zp29dlxk4m")
    assert counts == {"cookie": 2}
    assert text == "Cookie: sid=[REDACTED:cookie]; lang=de; auth_token=[REDACTED:cookie]; csrftoken=q7zp29dlxk4m"


def test_json_stays_json() -> None:
    values: list[object] = [
        ["token=", 12345678, "x"], ["password=", 123456789, "x"], ["password=\\", 12345678], {"mysql -p": []},
        {"curl -u": 12345678}, {"authorization:": 1.2345678901234567e20}, ["echo ", 123456, " | sudo -S"],
        {"kind: Secret\ndata:\n  a": -100}, {"kind: Secret\ndata:\n  a:": 12345678}, {BEGIN: 10**15},
        {TOKEN: None, END: None}, {"password ": 12e20, END: True}, {"api_keys = [": 12e20},
        {"": 10**15, END: None}, {"--token value": 1.2345678901234567e20},
        "-----BEGIN PRIVATE " + "KEY-----\x1fAKIAABCDEFGH12345678", "\x19" + "123456789:" + "AA" + LETTERS[:33],
    ]  # fmt: skip
    for value in values:
        line = json.dumps(value, separators=(",", ":"))
        json.loads(redact(line)[0])
        json.loads(json.loads(redact(json.dumps(line))[0]))


def test_every_kind_is_counted() -> None:
    _, counts = redact(f"{TOKEN} {TOKEN} DB_PASSWORD=hunterhunter")
    assert counts == {"github-pat": 2, "password": 1}


def test_the_more_specific_placeholder_wins() -> None:
    text, counts = redact(f"GITHUB_TOKEN={TOKEN}")
    assert text == "GITHUB_TOKEN=[REDACTED:github-pat]"
    assert counts == {"github-pat": 1}
    text, _ = redact(f'HEROKU_API_KEY="{HEX[:8]}-{HEX[:4]}-{HEX[:4]}-{HEX[:4]}-{HEX[:12]}"')
    assert text == 'HEROKU_API_KEY="[REDACTED:heroku-api-key]"'


def test_overlapping_secrets_become_one() -> None:
    text, counts = redact(f'"password": "{TOKEN}zz;{TOKEN}"')
    assert counts.total() == 1
    assert text.startswith('"password": "[REDACTED:')
    assert text.endswith(']"')


def test_neighbours_are_both_found() -> None:
    text, _ = redact(f"PASSWORD=hunter2secret;TOKEN={TOKEN}")
    assert "hunter2" not in text
    assert TOKEN not in text


def test_a_replacement_reveals_its_neighbour() -> None:
    # The key seems to continue in digits, until the token that they begin is replaced.
    text, counts = redact("AI" + "za" + LETTERS[:35] + "123456789:" + "AA" + LETTERS[:33])
    assert text == "[REDACTED:gcp-api-key][REDACTED:telegram-bot-api-token]"
    assert counts == {"gcp-api-key": 1, "telegram-bot-api-token": 1}


def test_placeholders_stay() -> None:
    for text in (
        "[REDACTED:token], 'abc12345xyz'",
        "authorization [REDACTED:authorization], x=" + LETTERS,
        "[REDACTED:",
    ):
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
    assert list(keywords.find_keywords(text, 0, len(text), known)) == [
        (0, b"abc"), (5, b"ab"), (9, b"ab"), (16, b"-x"), (19, b"d.e"), (35, b"-x"), (38, b"d.e"),
    ]  # fmt: skip
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
        "token=", 'token="', "token='", "token=Ab1", "token=a.b.", "://a:", "://a:b@", "postgres://a:b/", "eyJ",
        "eyJ_", "eyJaaaaaaaa.", BEGIN, BEGIN + "\n", "secret ", "--token ", "pypi-AgEI", "bearer ", "a", "sk-",
        "sk-proj-", "key.", "sk-ant-api03-", "password=abc123 ", "token=" + "aAbB" * 50 + "9- ", "\\",
        '\\"token\\": ', "kind: Secret\n", "curl -u ", "mysql ", "echo a|", "cookie: a=b; ",
        "Authorization: Digest ", '"kty":"d":"', "password\\\\\\\\", "machine a login b ", "keyName:", "pass(",
        "[REDACTED:", "[REDACTED:token] ", "1" * 10 + ":AA", "kind: kind:",
        "pul-" + "0123456789abcdef" * 2 + "01234567", END, LINES[0] + "\n" + END + "\n", "op read x ", "pass a/",
        "terraform output ", "kubectl get secret ", '"sensitive": true, "value": {', "password is ", "\\u0070",
        "\u200b a", "echo QUJDREVGR0hJSktM | base64 -d ", TOKEN[:16] + "\n", "x" * 60 + TOKEN[:16] + "\n",
        " -u a -p b1c2d3",
    ]  # fmt: skip
    for unit in units:
        start = time.perf_counter()
        redact(unit * (50_000 // len(unit)))
        # Measured: under 0.4 s; quadratic behaviour takes a minute.
        assert time.perf_counter() - start < 5, unit
