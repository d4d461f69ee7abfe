"""Texts with a secret, and texts without. Secrets are joined from parts, so that no scanner finds one here."""

from __future__ import annotations

LETTERS = "A1b2C3d4E5f6G7h8I9j0K1l2M3n4O5p6Q7r8S9t0"
HEX = "9f86d081884c7d659a2feaa0c55ad015"
BEGIN, END = "-----BEGIN RSA PRIVATE " + "KEY-----", "-----END RSA PRIVATE " + "KEY-----"
LINES = ["MIIEpAIBAAKCAQEA7qXb5vC0m", "q+/9dabcA7qXb5vC0mMIIEpAI", "Zm9vYmFyYmF6cXV4MTIzNDU2"]
JWT = "ey" + "JhbGciOiJIUzI1NiJ9." + "eyJzdWIiOiIxMjM0NTY3ODkwIn0." + LETTERS
TOKEN = "gh" + "p_" + LETTERS[:36]
# base64 of ana:Xk7tr4q9
BASIC = "YW5hOlhrN3RyNHE5"

SECRETS = [  # text before a secret, the secret, text after it
    # URLs
    ("postgres" + "://app:", "s3cr3t!", "@db/x"), ("postgres" + "://app:", "p%40ss%2Fw0rd", "@db:5432/x"),
    ("postgres" + "://app:", "p@ss/w0rd#1", "@db:5432/x"), ("redis" + "://:", "hunter2", "@localhost:6379"),
    ("http" + "://ana:", "hunter2@", "@proxy.example:3128"),
    ("git clone https" + "://oauth2:", LETTERS, "@git.example/a.git"),
    ("x.blob.core.windows.net/a?sv=1&sp=r&sig=", "aB3%2Fd9fK2mQx7%2BzT1vW8yR4uE6%3D", " ok"),
    ("?X-Amz-SignedHeaders=host&X-Amz-Signature=", HEX * 2, '"'),
    # headers
    ("Authorization: Bearer ", "xk29dLq7Zp", "\n"), ("'Authorization': 'Basic ", BASIC, "'"),
    ('req.Header.Set("Authorization", "token ', HEX, '")'), ("Authorization: ", HEX, "\n"),
    ("Proxy-Authorization: Basic ", BASIC, "\n"),
    ('Authorization: Digest username="ana", realm="x", response="', HEX, '"'),
    ("Authorization: AWS4-HMAC-SHA256 Credential=x/y, SignedHeaders=host, Signature=", HEX * 2, "\n"),
    ("got bearer ", LETTERS, ""), ("X-Api-Key: ", HEX, "\n"), ("Ocp-Apim-Subscription-Key: ", HEX, "\n"),
    ("PRIVATE-TOKEN: ", LETTERS[:20], "\n"), ("Set-Cookie: connect.sid=", "s%3Aq7Zp29dLx", "; Path=/; HttpOnly"),
    ("Cookie: theme=dark; sessionid=", "q7zp29dlxk4m", "; lang=de"), ("curl -b 'sessionid=", "q7zp29dlxk4m8h2v", "' x"),
    ('{"name": "Cookie", "value": "sid=', "q7zp29dlxk4m8h2v", '"}'),
    # assignments
    ("DB_PASSWORD=", "hunterhunter", "\n"), ("DB_PASSWORD=", "swordfish", "\n"),
    ('{"a": "x\\nDB_PASSWORD=', "swordfish", '\\n"}'), ('api_key = "', "kzq7rt1", '"'),
    ("export API_TOKEN=", "qwertzuiopas", "\n"), ("X_SECRET='", "abc$def!ghi", "'"),
    ('"password": "', "swordfish", '"'), ('"password": "', "correct horse battery staple", '"'),
    ('"password": "', "it's 1 o'clock", '"'), ('"password": "', 'a\\"b\\\\c9', '"'), ('["password=', "swordfish", '"]'),
    ('"password": "', "!@#%^&*", '"'), ('\\"api_key\\": \\"', "kzq7rt123", '\\"'),
    ('\\\\\\"api_key\\\\\\": \\\\\\"', "kzq7rt123", '\\\\\\"'), ("password: ", "hunter22", "\n"),
    ("  password: ", "swordfish", "\n  user: x"), ("db.password=", "swordfish", "\n"), ("my api key: ", HEX, " thanks"),
    ("the passphrase is ", "PURPLE-ELEPHANT-42", " ok"), ("apiKey: '", "kzq7rtwx1", "'"),
    ("os.environ['API_KEY'] = '", "kzq7rtwx1", "'"), ('os.environ.get("API_KEY", "', "kzq7rtwx1", '")'),
    ("process.env.JWT_SECRET || '", "kzq7rtwx1", "'"), ("${DB_PASSWORD:-", "hunter22", "}"),
    ('password: str = "', "hunter22", '"'), ('var apiKey string = "', "kzq7rtwx1", '"'),
    ('builder.setPassword("', "hunter22", '")'), ("define('DB_PASSWORD', '", "hunter22", "');"),
    ('#define API_KEY "', "kzq7rtwx1", '"'), ("{name: 'x', password => '", "hunter22", "'}"),
    ("- name: DB_PASSWORD\n  value: ", "swordfish", "\n"), ('{"name": "API_TOKEN", "value": "', "kzq7rtwx1", '"}'),
    ("<password>", "hun,ter;22", "</password>"), ('<add key="Password" value="', "hunter22", '"/>'),
    ("| DB_PASSWORD | ", "hunter22", " |"), ("**Password:** `", "hunter22", "`"),
    ("&quot;password&quot;:&quot;", "hunter22", "&quot;"), ("?client_secret=", "xk29dLq7Zp", "&x=1"),
    ("password\\u003d", "hunter22", " "), ("\x1b[32mTOKEN\x1b[0m=\x1b[33m", "qwertzui", "\x1b[0m\n"),
    ("\\u001b[32mTOKEN\\u001b[0m=", "qwertzui", "\\n"),
    ("AccountName=x;AccountKey=", "a1B2c3D4e5F6g7H8i9J0k1L2m3N4o5P6q7R8s9T0u1V2w3X4y5Z6a7B8==", ";Suffix=y"),
    ("Server=x;User ID=y;Pwd=", "hunter22", ";Encrypt=True"), ("SECRET_KEY_BASE=", HEX * 4, "\n"),
    ("STRIPE_KEY=", LETTERS[:24], "\n"),
    ("define('AUTH_KEY',   '", "k|}2 9f,Xq;Lw7@z T%mB0rN(4vE)8sH[1dJ]6cG{5aF", "');"), ('"auth": "', BASIC, '"'),
    ("//npm.example/:_auth=", BASIC, "\n"), ("//npm.example/:_authToken=", LETTERS[:30], "\n"),
    ("aws_secret_access_key = ", LETTERS, "\n"),
    ("PrivateKey = ", "aB3d9fK2mQx7zT1vW8yR4uE6aB3d9fK2mQx7zT1vW8y=", "\n"),
    # commands
    ("deploy --password ", "s3cr3tpw", " now"), ("deploy --password=", "swordfish", " now"),
    ("keytool -storepass ", "s3cr3tpw", " -list"), ("curl -s -u ana:", "s3cr3tpw", " https://x.example"),
    ('curl -s -u ":', "s3cr3tpw", '" https://x.example'),
    ("curl \\\\\\n  --user 'ana:", "s3cr3tpw", "' https://x.example"), ("http -a ana:", "s3cr3tpw", " x.example"),
    ("mysql -u root -p", "s3cr3tpw", " -e 'select 1'"), ("sshpass -p '", "s3cr3tpw", "' ssh x"),
    ("redis-cli -h x -a ", "s3cr3tpw", " ping"), ("docker login -u x -p ", "s3cr3tpw", " r.example"),
    ("PGPASSWORD=", "s3cr3tpw", " psql -h db"), ("openssl rsa -passin pass:", "swordfish", " -in k"),
    ("echo ", "s3cr3tpw", " | sudo -S id"), ("echo 'ana:", "s3cr3tpw", "' | sudo chpasswd"),
    ("htpasswd -bc .htpasswd ana ", "s3cr3tpw", "\n"),
    ("kubectl create secret generic x --from-literal=k=", "s3cr3tpw", "\n"),
    ("aws configure set aws_secret_access_key ", LETTERS, "\n"), ("set -gx API_KEY ", "kzq7rtwx1", "\n"),
    ('ConvertTo-SecureString "', "s3cr3tpw", '" -AsPlainText'), ("CREATE USER a IDENTIFIED BY '", "swordfish", "';"),
    ("ALTER ROLE a WITH PASSWORD '", "swordfish", "';"), ('requests.get(u, auth=("ana", "', "s3cr3tpw", '"))'),
    # files
    ("machine x login ana password ", "swordfish", "\n"), ("machine x\n  login ana\n  password ", "swordfish", "\n"),
    ("db.example:5432:app:ana:", "s3cr3tpw", "\n"), ("requirepass ", "s3cr3tpw", "\n"),
    ('storePassword "', "swordfish", '"\n'), ("sqlcmd -S db -U sa -P ", "s3cr3tpw", " -Q 'select 1'"),
    ("cqlsh -u ana -p ", "s3cr3tpw", " 10.0.0.4"), ("anything -u ana -p ", "s3cr3tpw", " host1"),
    ("SET PASSWORD FOR 'ana'@'%' = '", "swordfish", "';"),
    ("mc alias set store https://s.example ana ", "s3cr3tpw", "\n"), ("rabbitmqctl add_user ana ", "s3cr3tpw", "\n"),
    ("nmcli dev wifi connect Office password ", "s3cr3tpw", "\n"), ("net user ana ", "s3cr3tpw", " /add"),
    ("snyk auth ", "550e8400-e29b-41d4-a716-446655440000", "\n"),
    ("./codecov -t ", "550e8400-e29b-41d4-a716-446655440000", " -f x.xml"), ("chpasswd <<< 'ana:", "s3cr3tpw", "'"),
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
    ("use password ", "hunter22", " to log in"), ("log in as ana (password ", "amber394!", ") and restart it"),
    ("set the password to ", "amber394", " for now"), ("use ", "amber394", " as the password."),
    ("wifi password “", "amber394", "”"),
    # hidden
    ('{"user": 1, "\\u0070assword": "', "swordfish", '"}'), ('log: {\\"pass\\\\u0077ord\\": \\"', "swordfish", '\\"}'),
    ("pass\\u200bword: ", "hunter22", "\n"), ("key ", TOKEN[:20] + "\u200b" + TOKEN[20:], " ok"),
    ("key ", TOKEN[:20] + "\\u200b" + TOKEN[20:], "\\u200b ok"),
    # broken over the lines of a terminal
    ("x" * 66 + " ", TOKEN[:13] + "\n" + TOKEN[13:], "\nnext line"),
    ('{"text": "' + "x" * 66 + " ", TOKEN[:13] + "\\n" + TOKEN[13:], '\\nnext line"}'),
    ("token ", JWT[:74] + "\n" + JWT[74:], "\n"),
    # keys
    ("$ tail key.pem\n", "\n".join([*LINES, "Zm9v", END]), "\n"), ('{"out": "', "\\n".join([*LINES, END]), '\\n"}'),
    ("", "\n".join([BEGIN, *LINES, END]), " x"), ("", "\\n".join([BEGIN, *LINES, END]), "\\n"),
    ("", "\n".join([BEGIN, *LINES]), "\nrest of the log"), ("token ", JWT, " ok"),
    ("bot", "123456789:" + "AA" + LETTERS[:33], "/getMe"),
    ("client.login('", "MTAx" + LETTERS[:22] + "." + LETTERS[:6] + "." + LETTERS[:38], "')"),
    ('{"kty":"EC","x":"abc","d":"', LETTERS, '"}'),
]  # fmt: skip

NO_SECRETS = [
    # ids, digests and the like
    "commit a3f2b1c9d0e1f2a3b4c5d6e7f8a9b0c1d2e3f4a5", "550e8400-e29b-41d4-a716-446655440000", "sha256:" + "ab12" * 16,
    '"integrity": "sha512-' + LETTERS * 2 + '=="', "data:image/png;base64," + "iVBORw0KGgoAAAANSUhEUgAAAAUA" * 3,
    '"sessionId": "550e8400-e29b-41d4-a716-446655440000"',
    '"tool_use_id": "toolu_01' + LETTERS[:22] + '", "id": "msg_01' + LETTERS[:22] + '"', "next_page_token: 'abc12345'",
    '"idempotency_key": "550e8400-e29b-41d4-a716-446655440000"', 'cacheKey: "' + HEX + '"',
    "s3_key = 'my-app/22a0-stage-150819.war'", "ssh-rsa AAAAB3NzaC1yc2E" + LETTERS * 3 + " ana@box",
    "-----BEGIN CERTIFICATE-----\n" + LETTERS + "\n-----END CERTIFICATE-----",
    "-----BEGIN PUBLIC " + "KEY-----\n" + LETTERS + "\n-----END PUBLIC " + "KEY-----", BEGIN + "\n...\n" + END,
    'grep -l "' + BEGIN + '" /home/runner/work/projects/keys', '{"kty":"RSA","n":"' + LETTERS * 2 + '","e":"AQAB"}',
    '"arn:aws:secretsmanager:eu-west-1:123456789012:secret:prod-db-a1b2c3"',
    # references
    '"password": "${DB_PASSWORD}"', "DB_PASSWORD=$DB_PASSWORD", "PASSWORD=$(openssl rand -base64 32)",
    "password = os.environ['X1']", "password = form.password1.data", "password = random_password.db1.result",
    "token = get_token2()", "token=token", "token = self.token1", "api_key: ${{ secrets.API_KEY_2 }}",
    "password: {{ .Values.password1 }}", "set PASSWORD=%DB_PASS1%", 'password_env: "DB_PASSWORD"',
    "PASSWORD_FILE=/run/secrets/db1", "password=/run/secrets/db1", 'token: "https://x.example/token2"',
    "Authorization: Bearer ${TOKEN}", 'h.Set("Authorization", "Bearer "+cloudToken2)', 'password = f"{user1}-{host2}x"',
    'password = "vault:kv/billing/primary7"', '"password": "op://vault1/item/field"', 'token: "env:GH_TOKEN1"',
    '{"password": hunter22}', "mysql -u root -p$DB_PASS1", "sshpass -p --help1", "bearer /srv/data/releases/v1/x2",
    # types, documentation, counts
    "private_key: X448PrivateKey,", 'CHALLENGE_PASSWORD: "challengePassword"', '"password_hash": "q7zp29dlxk4m8h2v5t"',
    'acme_key = "kzq7rt1"', 'api_key = "billing-app-2"', 'password="ana@mail7.acme.org"',
    'password="https://x1.acme.io/a"', '<Input type="password">Label1</Input>', "if user.password > limit1:",
    "type <password> field22 here", "cat password | sha256sum22 -", "the password is sha256", "api_key: str",
    "private_key: ed25519.Ed25519PrivateKey,", "Ed25519PrivateKey | X448PrivateKey", "password: SecretStr",
    "password=None", '{"token": "string", "secret": true, "password": null, "api_key": 12345678}',
    '{"format": "password", "minLength9": 8}', '"secret": "V1SecretVolumeSource"',
    "max_tokens=4096, tokens: 1234567, token_count: 99", '"forgot_password": "Forgot your password?"',
    '"password": "must have at least 8 characters"', "the token is base64-encoded, the key is sha256",
    "identified by reference1.", "| `token` | string | the token of v2 |", "--- PASS: TestToken/valid_2 (0.00s)",
    "pass: 128 fail: 2", "Token: '#ddd0c0'", 'pattern_token = r"[a-z0-9]+(?:-[a-z0-9]+)*"',
    "publicKeyToken_id=1fc8b3b9a1e18e3b", '"csrf_token": "' + HEX + '"',
    # stand-ins and masks
    "API_KEY=your-api-key", "PASSWORD=changeme", "JWT_SECRET=your-256-bit-secret", "SECRET=********",
    "PASSWORD=<password>", 'api_key = "test-api-key-1"', 'password="password"', "OPENAI_API_KEY=sk-...",
    "postgres://user:password@localhost/db", "postgres://app:****@db/x", "postgres://{user}:{password}@{host}/db",
    # addresses without a password
    "git@github.com:user/repo and https://example.com:8080/x@y", "http://localhost:5173/@vite/client",
    "docker run -p 8080:80 mysql -p3306:3306", "curl -u $USER:$PASS https://x.example",
    "docker login -u ci -p $CI_JOB_TOKEN", "sqlcmd -S server1 -E -P 1433", "mc alias set ALIAS URL ACCESSKEY SECRETKEY",
    "nmcli dev wifi connect SSID password PASSWORD", "rabbitmqctl add_user USERNAME PASSWORD",
    "net user administrator /active:yes", "docker run -t ubuntu2204 bash -p host22", "ssh -l ana1 -p 2222 host22",
    # of a command
    "$ terraform output -raw bucket\nmy-app-bucket-prod-2\n", "$ op read op://a/b/c | pbcopy\nbuild-2026a\n",
    "export X=$(op read op://a/b/c)\nbuild-2026a\n", "$ op read op://a/b/c > key1\nbuild-2026a\n",
    "$ pass show nosuch/db1\nError: nosuch/db1 is not in the password store.\n", "$ gh auth token\nana@box2:~/src$ \n",
    "$ cat token_bucket.py\nimport2\n", "db_password = <sensitive>",
    '{"sensitive": false, "type": "string", "value": "eu-central-1b"}',
    "$ echo SGVsbG8gV29ybGQ= | base64 -d\nHello World\n",
    # sentences
    "password reset, password manager, password field2, password hashing with argon2id",
    "password is required, Password must have 12 characters, password-less login2",
    "the password column1, password page2, password OAuth2, password RFC6749", "sent the password to server01",
    "config2 is the password file",
    # of no key
    'the line "' + END + '" closes it', "x" * 70 + " commit a3f2b1c9\nd0e1f2a3b4c5d6e7",
    "caf\\u00e9 token2 \\u0064escription2 👨\u200d👩 x2",
    # words
    "task-abcdefghijklmnopqrstuvwxyz0123", "Token::Identifier2", "PWD=/srv/dir1", "The secret: never give up",
    "events, err := s.QueryUnmatchedFileEvents(ctx)", "",
]  # fmt: skip
