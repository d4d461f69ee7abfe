"""Logs with secrets planted in them, and with what looks like one and is none; the place of each is known.

Written from what terminals, configuration and agents' transcripts look like, not from the rules that are to find them.
Values are random in the shapes of their providers and put together here, so that no scanner finds one in this file.
A log is deterministic by its seed; every seed has other values, quotes, escapes, names and frames.

While a log is put together, its values stand between marks from Unicode's private use area, which JSON leaves alone;
in the end they are taken out and become spans.
"""

# ruff: noqa: E501
from __future__ import annotations

import base64
import json
import random
import re
import string
import sys
from collections.abc import Callable
from dataclasses import dataclass

_OPEN, _NAMED, _CLOSE, _LIKE, _END = "\ue000", "\ue001", "\ue002", "\ue003", "\ue004"
_MARKED = re.compile("\ue000([^\ue001]*)\ue001([^\ue002]*)\ue002|\ue003([^\ue004]*)\ue004", re.DOTALL)
_LIST = """
amber anchor autumn badger bamboo beacon birch breeze canyon cedar cinder cobalt comet copper coral cricket delta
dragon ember falcon fern forest fossil galaxy garnet glacier granite harbor hazel heron indigo iris island ivory
jasper juniper kestrel lagoon lantern lemon linden lotus lunar magnet maple marble meadow meteor mosaic nebula nectar
nickel oasis ocean olive onyx opal orchid osprey otter oyster panda pebble pepper phoenix pigeon planet plasma pollen
poplar prairie quartz quiver raven ribbon river rocket saffron salmon sapphire shadow sierra silver sparrow spruce
summit sunset thistle thunder tiger timber topaz tundra velvet violet walnut willow winter zephyr
"""
_WORDS = _LIST.split()
_PEOPLE = (
    "ana",
    "ben",
    "chidi",
    "dana",
    "emre",
    "farid",
    "greta",
    "hugo",
    "ines",
    "jonas",
    "kira",
    "luca",
    "mina",
    "nadia",
    "omar",
)
_APPS = (
    "atlas",
    "billing",
    "catalog",
    "courier",
    "ferry",
    "gatehouse",
    "harvest",
    "inkwell",
    "ledger",
    "mailroom",
    "orchard",
)
_SYMBOLS = "!@#%^&*-_+=?."


@dataclass(frozen=True, slots=True)
class Planted:
    """A value at [start, stop) of a log. `kind` says what it is; "" for what only looks like a secret."""

    kind: str
    value: str
    start: int
    stop: int


@dataclass(frozen=True, slots=True)
class Log:
    name: str
    text: str
    secrets: tuple[Planted, ...]
    likes: tuple[Planted, ...]


class Maker:
    """Random values in the shapes of providers, marked."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)

    # --- marks

    def secret(self, kind: str, value: str) -> str:
        return f"{_OPEN}{kind}{_NAMED}{value}{_CLOSE}"

    def like(self, value: str) -> str:
        return f"{_LIKE}{value}{_END}"

    # --- characters

    def of(self, alphabet: str, length: int) -> str:
        return "".join(self.random.choices(alphabet, k=length))

    def hex(self, length: int) -> str:
        return self.of("0123456789abcdef", length)

    def alnum(self, length: int) -> str:
        # A key without any figure in it is rare, and is no test of a rule that asks for one.
        while True:
            value = self.of(string.ascii_letters + string.digits, length)
            if length < 8 or sum(c.isdigit() for c in value) > 1:
                return value

    def lower(self, length: int) -> str:
        return self.of(string.ascii_lowercase + string.digits, length)

    def upper(self, length: int) -> str:
        return self.of(string.ascii_uppercase + "234567", length)

    def digits(self, length: int) -> str:
        return self.of("123456789", 1) + self.of(string.digits, length - 1)

    def url64(self, length: int) -> str:
        return self.alnum(1) + self.of(string.ascii_letters + string.digits + "-_", length - 2) + self.alnum(1)

    def b64(self, size: int) -> str:
        return base64.b64encode(self.random.randbytes(size)).decode()

    def uuid(self) -> str:
        return "-".join(self.hex(n) for n in (8, 4, 4, 4, 12))

    def word(self) -> str:
        return self.random.choice(_WORDS)

    def one(self, *given: str) -> str:
        return self.random.choice(given)

    def app(self) -> str:
        return self.random.choice(_APPS)

    def person(self) -> str:
        return self.random.choice(_PEOPLE)

    def time(self) -> str:
        r = self.random
        return (
            f"2026-0{r.randint(1, 9)}-{r.randint(10, 28)}T{r.randint(10, 23)}:{r.randint(10, 59)}:{r.randint(10, 59)}"
        )

    # --- passwords as people and generators make them

    def strong(self, symbols: str = _SYMBOLS) -> str:
        """Of a generator: letters, figures, signs."""
        r = self.random
        body = [*self.alnum(r.randint(10, 22)), *self.of(symbols, r.randint(1, 3))] if symbols else [*self.alnum(18)]
        r.shuffle(body)
        return self.of(string.ascii_letters, 1) + "".join(body) + self.alnum(1)

    def human(self) -> str:
        """Of a person: words, figures, a sign."""
        r = self.random
        first, second = self.word(), self.word()
        return r.choice(
            (
                f"{first.capitalize()}{second.capitalize()}{r.randint(10, 9999)}",
                f"{first}{r.randint(10, 999)}{r.choice('!@#')}",
                f"{first[:3]}{r.randint(1, 9)}{second[2:]}_{r.randint(10, 99)}",
                f"{first}-{second}-{r.randint(10, 99)}",
                f"{first.replace('e', '3').replace('o', '0').replace('a', '4').capitalize()}!{r.randint(1, 99)}{second[:2]}",
            )
        )

    def plain(self) -> str:
        """Two words in one, nothing else."""
        return self.word() + self.word()

    def phrase(self) -> str:
        return " ".join(self.word() for _ in range(self.random.randint(4, 6)))

    def password(self, kind: str = "password") -> str:
        return self.secret(kind, self.random.choice((self.strong("!@#%^*-_+=?."), self.human(), self.alnum(16))))

    def simple(self, kind: str = "password") -> str:
        """One that needs no quotes anywhere."""
        return self.secret(
            kind, self.random.choice((self.strong("-_."), self.human().replace("#", "!"), self.alnum(20)))
        )

    # --- tokens

    def token(self, provider: str) -> str:
        return self.secret(provider, PROVIDERS[provider](self))

    def any_token(self) -> str:
        return self.token(self.random.choice(sorted(PROVIDERS)))

    def jwt(self, kind: str = "jwt") -> str:
        def part(value: object) -> str:
            return base64.urlsafe_b64encode(json.dumps(value, separators=(",", ":")).encode()).decode().rstrip("=")

        header = {"alg": self.one("HS256", "RS256"), "typ": "JWT"}
        payload = {"sub": self.uuid(), "name": self.person(), "iat": 1700000000 + self.random.randint(0, 9**7)}
        return self.secret(kind, f"{part(header)}.{part(payload)}.{self.url64(43)}")

    def armour(self, sort: str = "RSA ", lines: int = 6, end: bool = True, newline: str = "\n") -> str:
        begin, stop = f"-----BEGIN {sort}PRIVATE " + "KEY-----", f"-----END {sort}PRIVATE " + "KEY-----"
        body = [self.b64(48) for _ in range(lines)]
        return newline.join([begin, *body, *([self.b64(21), stop] if end else [])])

    # --- ways to write an assignment

    def env(self, name: str, value: str) -> str:
        return self.one(f"{name}={value}", f'{name}="{value}"', f"export {name}={value}", f"{name}='{value}'")

    def pair(self, name: str, value: str) -> str:
        return self.one(f'"{name}": "{value}"', f'"{name}":"{value}"', f'"{name}" : "{value}"')


PROVIDERS: dict[str, Callable[[Maker], str]] = {
    "github-pat": lambda m: "gh" + "p_" + m.alnum(36),
    "github-oauth": lambda m: "gh" + "o_" + m.alnum(36),
    "github-app": lambda m: "gh" + "s_" + m.alnum(36),
    "github-fine-grained": lambda m: "github" + "_pat_" + m.alnum(22) + "_" + m.alnum(59),
    "gitlab-pat": lambda m: "gl" + "pat-" + m.url64(20),
    "gitlab-deploy": lambda m: "gl" + "dt-" + m.url64(20),
    "gitlab-runner": lambda m: "gl" + "rt-" + m.url64(20),
    "aws-key-id": lambda m: m.one("AK", "AS") + "IA" + m.upper(16),
    "anthropic": lambda m: "sk-" + "ant-api03-" + m.url64(93) + "AA",
    "anthropic-oauth": lambda m: "sk-" + "ant-oat01-" + m.url64(93) + "AA",
    "openai-project": lambda m: "sk-" + "proj-" + m.url64(74) + "T3Blbk" + "FJ" + m.url64(74),
    "openai-old": lambda m: "s" + "k-" + m.alnum(20) + "T3Blbk" + "FJ" + m.alnum(20),
    "openrouter": lambda m: "sk-" + "or-v1-" + m.hex(64),
    "deepseek": lambda m: "s" + "k-" + m.hex(32),
    "groq": lambda m: "gs" + "k_" + m.alnum(52),
    "xai": lambda m: "xa" + "i-" + m.alnum(80),
    "perplexity": lambda m: "ppl" + "x-" + m.alnum(48),
    "huggingface": lambda m: "h" + "f_" + m.of(string.ascii_letters, 34),
    "replicate": lambda m: "r" + "8_" + m.alnum(37),
    "google-key": lambda m: "AI" + "zaSy" + m.url64(33),
    "google-oauth": lambda m: "ya" + "29." + m.url64(120),
    "google-client-secret": lambda m: "GOC" + "SPX-" + m.url64(28),
    "stripe": lambda m: m.one("sk", "rk") + "_" + m.one("live", "test") + "_" + m.alnum(m.random.choice((24, 99))),
    "stripe-webhook": lambda m: "whs" + "ec_" + m.alnum(32),
    "slack-bot": lambda m: "xo" + "xb-" + m.digits(12) + "-" + m.digits(13) + "-" + m.alnum(24),
    "slack-user": lambda m: "xo" + "xp-" + "-".join(m.digits(12) for _ in range(3)) + "-" + m.hex(32),
    "slack-app": lambda m: "xa" + "pp-1-A" + m.upper(10) + "-" + m.digits(13) + "-" + m.hex(64),
    "npm": lambda m: "np" + "m_" + m.alnum(36),
    "pypi": lambda m: "py" + "pi-AgEIcHlwaS5vcmc" + m.url64(120),
    "rubygems": lambda m: "ruby" + "gems_" + m.hex(48),
    "dockerhub": lambda m: "dck" + "r_pat_" + m.url64(27),
    "digitalocean": lambda m: "do" + "p_v1_" + m.hex(64),
    "sendgrid": lambda m: "S" + "G." + m.url64(22) + "." + m.url64(43),
    "twilio": lambda m: "S" + "K" + m.hex(32),
    "linear": lambda m: "lin" + "_api_" + m.alnum(40),
    "notion": lambda m: "nt" + "n_" + m.digits(11) + m.alnum(35),
    "figma": lambda m: "fig" + "d_" + m.url64(40),
    "shopify": lambda m: "shp" + "at_" + m.hex(32),
    "square": lambda m: "sq0" + "atp-" + m.url64(22),
    "vault": lambda m: "hv" + "s." + m.url64(95),
    "terraform-cloud": lambda m: m.alnum(14) + ".atlas" + "v1." + m.url64(67),
    "databricks": lambda m: "dap" + "i" + m.hex(32),
    "doppler": lambda m: "dp" + ".pt." + m.alnum(43),
    "grafana": lambda m: "gls" + "a_" + m.alnum(32) + "_" + m.hex(8),
    "planetscale": lambda m: "pscale" + "_tkn_" + m.url64(43),
    "postman": lambda m: "PMA" + "K-" + m.hex(24) + "-" + m.hex(34),
    "prefect": lambda m: "pn" + "u_" + m.alnum(36),
    "pulumi": lambda m: "pu" + "l-" + m.hex(40),
    "sentry": lambda m: "sntry" + "u_" + m.hex(64),
    "atlassian": lambda m: "ATA" + "TT3xFfGF0" + m.url64(178) + "=" + m.upper(8),
    "azure-client-secret": lambda m: m.alnum(3) + "8" + "Q~" + m.url64(34),
    "age": lambda m: "AGE-" + "SECRET-KEY-1" + m.of("QPZRY9X8GF2TVDW0S3JN54KHCE6MUA7L", 58),
    "1password": lambda m: (
        "A" + "3-" + "-".join((m.upper(6), m.upper(6), m.upper(5), m.upper(5), m.upper(5), m.upper(5)))
    ),
    "tailscale": lambda m: "ts" + "key-auth-" + m.alnum(12) + "-" + m.alnum(32),
    "telegram": lambda m: m.digits(10) + ":" + "AA" + m.url64(33),
    "supabase": lambda m: "sb" + "p_" + m.hex(40),
    "crates": lambda m: "ci" + "o" + m.alnum(32),
    "circleci": lambda m: "CCI" + "PAT_" + m.alnum(22) + "_" + m.hex(40),
    "sonarqube": lambda m: "sq" + "p_" + m.hex(40),
    "easypost": lambda m: "EZ" + "AK" + m.alnum(54),
    "dynatrace": lambda m: "dt0" + "c01." + m.upper(24) + "." + m.upper(64),
    "new-relic": lambda m: "NR" + "AK-" + m.upper(27),
    "heroku": lambda m: "HRK" + "U-AA" + m.url64(58),
    "flyio": lambda m: "fm" + "2_" + m.b64(180),
}
"""Provider → a token of its shape. Any place will do for one: its prefix tells it."""


def corpus(seed: int) -> list[Log]:
    """All scenes once, each in a frame of its own."""
    make = Maker(seed)
    return [_log(make, scene, number) for number, scene in enumerate(SCENES)]


def _log(make: Maker, scene: Callable[[Maker], str], number: int) -> Log:
    frame = FRAMES[make.random.randrange(len(FRAMES))]
    marked = frame(make, scene(make))
    out: list[str] = []
    secrets: list[Planted] = []
    likes: list[Planted] = []
    length = end = 0
    for match in _MARKED.finditer(marked):
        value = match[2] if match[2] is not None else match[3]
        before = marked[end : match.start()]
        start = length + len(before)
        if match[2] is not None:
            secrets.append(Planted(match[1], value, start, start + len(value)))
        else:
            likes.append(Planted("", value, start, start + len(value)))
        out += (before, value)
        length, end = start + len(value), match.end()
    out.append(marked[end:])
    return Log(
        f"{number}-{scene.__name__.strip('_')}-{frame.__name__.strip('_')}", "".join(out), tuple(secrets), tuple(likes)
    )


# --- frames: what a log has around a piece of terminal, file or talk --------------------------------------------------


def _plain(m: Maker, text: str) -> str:
    return text


def _session(m: Maker, text: str) -> str:
    return f"{m.person()}@{m.app()}:~/{m.app()}$ {m.one('cat notes.txt', 'make run', './run.sh')}\n{text}\n{m.person()}@{m.app()}:~$ "


def _markdown(m: Maker, text: str) -> str:
    return (
        f"_**User ({m.time()}Z)**_\n\n{m.one('what is wrong here?', 'please set this up', 'see below')}\n\n```\n{text}\n```\n\n"
        f"---\n\n_**Agent (claude-{m.word()} {m.time()}Z)**_\n\nI will look at `src/{m.word()}.py` first.\n"
    )


def _numbered(m: Maker, text: str) -> str:
    mark = m.one("→", "\t")
    return "\n".join(f"{n:6d}{mark}{line}" for n, line in enumerate(text.split("\n"), 1))


def _claude(m: Maker, text: str) -> str:
    """A record of the user and one of a tool, as Claude Code writes them."""
    session, first, second = m.uuid(), m.uuid(), m.uuid()
    call = m.like("toolu_01" + m.alnum(22))
    common = {
        "sessionId": m.like(session),
        "cwd": f"/home/{m.person()}/{m.app()}",
        "version": "2.1.17",
        "gitBranch": "main",
    }
    command = {"command": f"cat {m.word()}.txt", "description": "Read the file"}
    records = [
        {**common, "type": "user", "uuid": m.like(first), "parentUuid": None, "timestamp": m.time() + ".123Z",
         "message": {"role": "user", "content": "please have a look at the file"}},
        {**common, "type": "assistant", "uuid": m.like(second), "parentUuid": first, "timestamp": m.time() + ".456Z",
         "requestId": m.like("req_011C" + m.alnum(20)),
         "message": {"id": m.like("msg_01" + m.alnum(22)), "role": "assistant", "model": "claude-opus-4-5",
                     "content": [{"type": "tool_use", "id": call, "name": "Bash", "input": command}],
                     "usage": {"input_tokens": 4, "cache_read_input_tokens": 18231, "output_tokens": 311}}},
        {**common, "type": "user", "uuid": m.uuid(), "parentUuid": second, "timestamp": m.time() + ".789Z",
         "message": {"role": "user", "content": [{"type": "tool_result", "tool_use_id": call,
                     "content": m.random.choice((text, [{"type": "text", "text": text}]))}]}},
    ]  # fmt: skip
    return "".join(json.dumps(record, ensure_ascii=False) + "\n" for record in records)


def _prompt(m: Maker, text: str) -> str:
    record = {"type": "user", "sessionId": m.uuid(), "uuid": m.uuid(), "timestamp": m.time() + ".001Z",
              "message": {"role": "user", "content": f"{m.one('I get this:', 'here is the output', 'use that')}\n{text}"}}  # fmt: skip
    return json.dumps(record, ensure_ascii=False, separators=(",", ":")) + "\n"


def _codex(m: Maker, text: str) -> str:
    """A call whose arguments, and an output whose whole, are JSON in a string."""
    call = m.like("call_" + m.alnum(24))
    arguments = json.dumps({"command": ["bash", "-lc", text], "workdir": f"/srv/{m.app()}"}, ensure_ascii=False)
    output = json.dumps({"output": "done\n", "metadata": {"exit_code": 0, "duration_seconds": 0.4}})
    records = [
        {"timestamp": m.time() + "Z", "type": "response_item",
         "payload": {"type": "function_call", "name": "shell", "arguments": arguments, "call_id": call}},
        {"timestamp": m.time() + "Z", "type": "response_item",
         "payload": {"type": "function_call_output", "call_id": call, "output": output}},
        {"timestamp": m.time() + "Z", "type": "event_msg", "payload": {"type": "token_count", "info": {
            "total_token_usage": {"input_tokens": 12043, "cached_input_tokens": 11008, "output_tokens": 841}}}},
    ]  # fmt: skip
    return "".join(json.dumps(record, ensure_ascii=False) + "\n" for record in records)


def _codex_output(m: Maker, text: str) -> str:
    output = json.dumps({"output": text, "metadata": {"exit_code": 0}}, ensure_ascii=False)
    record = {"timestamp": m.time() + "Z", "type": "response_item",
              "payload": {"type": "function_call_output", "call_id": m.like("call_" + m.alnum(24)), "output": output}}  # fmt: skip
    return json.dumps(record, ensure_ascii=False) + "\n"


FRAMES = (_plain, _session, _markdown, _numbered, _claude, _claude, _prompt, _codex, _codex_output)


# --- scenes: pieces of terminals, files and talk ----------------------------------------------------------------------


def _environment(m: Maker) -> str:
    lines = [
        "SHELL=/bin/bash", f"SSH_AUTH_SOCK={m.like('/tmp/ssh-' + m.alnum(10) + '/agent.' + m.digits(4))}",
        f"AWS_ACCESS_KEY_ID={m.token('aws-key-id')}", f"AWS_SECRET_ACCESS_KEY={m.secret('aws-secret', m.b64(30))}",
        f"GITHUB_TOKEN={m.token('github-pat')}", f"PWD={m.like(f'/home/{m.person()}/{m.app()}2')}",
        f"DATABASE_URL=postgres://{m.app()}:{m.simple('url-password')}@db.internal:5432/{m.app()}",
        f"INVOCATION_ID={m.like(m.hex(32))}", f"TERM_SESSION_ID={m.like(m.uuid())}", "LANG=en_GB.UTF-8",
        f"OPENAI_API_KEY={m.token('openai-project')}", f"NPM_TOKEN={m.token('npm')}", "COLORTERM=truecolor",
        f"GIT_COMMIT={m.like(m.hex(40))}", f"SLACK_BOT_TOKEN={m.token('slack-bot')}", f"HOSTNAME={m.app()}-{m.hex(10)}-{m.lower(5)}",
        f"SESSION_MANAGER=local/{m.app()}:@/tmp/.ICE-unix/2211,unix/{m.app()}:/tmp/.ICE-unix/2211",
        f"MAIL_PASSWORD={m.secret('env-password', m.plain())}", f"PATH={m.like('/usr/local/sbin:/usr/local/bin:/usr/bin2:/opt/x1/bin')}",
    ]  # fmt: skip
    m.random.shuffle(lines)
    return "$ env\n" + "\n".join(lines)


def _dotenv(m: Maker) -> str:
    return "\n".join(
        [
            "# generated by setup.sh",
            m.env("APP_ENV", "production"),
            m.env("DB_PASSWORD", m.simple("env-password")),
            m.env("DB_HOST", m.like(f"{m.app()}-1.{m.lower(12)}.eu-west-1.rds.amazonaws.com")),
            m.env("JWT_SECRET", m.secret("jwt-secret", m.hex(64))),
            m.env("SESSION_SECRET", m.secret("session-secret", m.alnum(40))),
            m.env("STRIPE_SECRET_KEY", m.token("stripe")),
            m.env("STRIPE_PUBLISHABLE_KEY", m.like("pk_live_" + m.alnum(24))),
            m.env("SENTRY_DSN", m.like(f"https://{m.hex(32)}@o{m.digits(6)}.ingest.sentry.io/{m.digits(7)}")),
            m.env("SMTP_PASS", m.simple("smtp-password")),
            m.env("REDIS_URL", f"redis://:{m.simple('url-password')}@cache:6379/0"),
            m.env("ENCRYPTION_KEY", m.secret("encryption-key", m.one(m.hex(64), m.b64(32)))),
            m.env("LOG_LEVEL", "debug"),
            m.env("FEATURE_TOKEN_LIMIT", m.like("200000")),
            m.env("ADMIN_EMAIL", m.like(f"{m.person()}7@{m.app()}.example")),
            m.env("MAILGUN_API_KEY", m.secret("mailgun", m.hex(32) + "-" + m.hex(8) + "-" + m.hex(8))),
            m.env("ACME_LICENSE_KEY", m.secret("license-key", "-".join(m.upper(5) for _ in range(5)))),
        ]
    )


def _dotenv_example(m: Maker) -> str:
    return "\n".join(
        [
            "# copy to .env and fill in",
            f"DB_PASSWORD={m.like(m.one('changeme', 'your-password-here', '<password>', 'xxxxxxxx', 'secret'))}",
            f"JWT_SECRET={m.like(m.one('your-256-bit-secret', 'change-me-in-production', 'replace_me', '********'))}",
            f"OPENAI_API_KEY={m.like(m.one('sk-...', 'sk-your-key-here', 'sk-xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx', 'YOUR_API_KEY'))}",
            f"GITHUB_TOKEN={m.like(m.one('ghp_xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx', 'ghp_...', '<your token>'))}",
            f'STRIPE_KEY="{m.like(m.one("sk_test_...", "sk_live_xxx", "your_stripe_key"))}"',
            f"AWS_ACCESS_KEY_ID={m.like('AKIA' + 'IOSFODNN7EXAMPLE')}",
            f"AWS_SECRET_ACCESS_KEY={m.like('wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY')}",
            f"DATABASE_URL={m.like('postgres://user:password@localhost:5432/mydb')}",
            f"ADMIN_TOKEN={m.like('${ADMIN_TOKEN}')}",
            f"SLACK_WEBHOOK={m.like('https://hooks.slack.com/services/...')}",
        ]
    )


def _compose(m: Maker) -> str:
    return f"""services:
  db:
    image: {m.like("postgres@sha256:" + m.hex(64))}
    environment:
      POSTGRES_USER: {m.app()}
      POSTGRES_PASSWORD: {m.one(m.simple("yaml-password"), m.secret("yaml-password", m.plain()))}
      POSTGRES_INITDB_ARGS: "{m.like("--auth-host=scram-sha-256")}"
    healthcheck:
      test: ["CMD-SHELL", "{m.like("PGPASSWORD=$$POSTGRES_PASSWORD pg_isready")}"]
  queue:
    image: rabbitmq:3.13-management
    environment:
      - RABBITMQ_DEFAULT_USER={m.person()}
      - RABBITMQ_DEFAULT_PASS={m.simple("env-password")}
      - RABBITMQ_ERLANG_COOKIE={m.like("${ERLANG_COOKIE}")}
  store:
    command: server /data --console-address ":9001"
    environment:
      MINIO_ROOT_USER: {m.app()}
      MINIO_ROOT_PASSWORD: "{m.password("yaml-password")}"
    secrets:
      - {m.like("source: db_password1")}
secrets:
  db_password1:
    file: {m.like("./secrets/db_password1.txt")}
"""


def _terraform(m: Maker) -> str:
    return f"""provider "aws" {{
  region     = "eu-central-1"
  access_key = "{m.token("aws-key-id")}"
  secret_key = "{m.secret("aws-secret", m.b64(30))}"
}}

variable "db_password" {{
  type      = string
  sensitive = true
  default   = {m.like("null")}
}}

resource "aws_db_instance" "main" {{
  engine              = "postgres"
  password            = {m.like(m.one("var.db_password", "random_password.db1.result", "local.creds1.password"))}
  snapshot_identifier = "{m.like("rds-" + m.hex(16))}"
  kms_key_id          = "{m.like("arn:aws:kms:eu-central-1:" + m.digits(12) + ":key/" + m.uuid())}"
}}

resource "azurerm_mssql_server" "sql" {{
  administrator_login          = "{m.person()}"
  administrator_login_password = "{m.password("tf-password")}"
}}

resource "cloudflare_record" "www" {{
  zone_id = "{m.like(m.hex(32))}"
}}

data "aws_ami" "base" {{
  filter {{ values = ["{m.like("ami-0" + m.hex(16))}"] }}
}}
"""


def _ansible(m: Maker) -> str:
    vault = "\n".join("          " + m.digits(60) for _ in range(3))
    return f"""- hosts: {m.app()}
  vars:
    ansible_user: deploy
    ansible_become_password: {m.password("ansible-password").replace("#", "!")}
    grafana_admin_password: "{m.password("ansible-password")}"
    db_pass: "{m.like("{{ vault_db_pass }}")}"
    vault_token: !vault |
          $ANSIBLE_VAULT;1.1;AES256
{m.like(vault)}
  tasks:
    - name: create user
      mysql_user:
        name: {m.app()}
        password: "{m.like(m.one("{{ lookup('env', 'DB_PASS') }}", "{{ mysql_password1 }}", "{{ hostvars[h]['pw1'] }}"))}"
        login_password: {m.simple("ansible-password")}
      no_log: true
"""


def _kubernetes_secret(m: Maker) -> str:
    def encoded(kind: str, value: str) -> str:
        return m.secret(kind, base64.b64encode(value.encode()).decode())

    head = f"apiVersion: v1\nkind: Secret\nmetadata:\n  name: {m.app()}-credentials\n  uid: {m.like(m.uuid())}\ntype: Opaque\n"
    dsn = encoded("k8s-data", f"postgres://a:{m.strong('')}@db/x")
    user = encoded("k8s-data", f"{m.person()}-{m.app()}")
    data = f"data:\n  username: {user}\n  password: {encoded('k8s-data', m.strong())}\n  dsn: {dsn}\n"
    text = f"stringData:\n  smtp: {m.simple('k8s-string-data')}\n"
    body = data if m.random.random() < 0.6 else text
    if m.random.random() < 0.4:
        body, head = head.split("metadata")[0].split("kind")[0] + body, head[head.index("kind") :]
        return f"$ kubectl get secret {m.app()} -o yaml\n{body}{head}"
    return f"$ kubectl get secret {m.app()}-credentials -o yaml\n{head}{body}"


def _kubernetes_deployment(m: Maker) -> str:
    return f"""apiVersion: apps/v1
kind: Deployment
spec:
  template:
    spec:
      containers:
        - name: {m.app()}
          image: registry.example.com/{m.app()}:{m.like(m.hex(12))}
          env:
            - name: DB_PASSWORD
              valueFrom:
                secretKeyRef:
                  name: {m.like(m.app() + "-db-1")}
                  key: {m.like("password1")}
            - name: API_TOKEN
              value: {m.one(m.secret("k8s-env", m.alnum(32)), '"' + m.secret("k8s-env", m.alnum(32)) + '"')}
            - name: SMTP_PASSWORD
              value: "{m.password("k8s-env")}"
      imagePullSecrets:
        - name: {m.like("regcred2")}
$ kubectl get pods
{m.like(m.app() + "-" + m.hex(10) + "-" + m.lower(5))}   1/1   Running   0   4d
"""


def _kubeconfig(m: Maker) -> str:
    key = base64.b64encode(m.armour().encode()).decode()
    certificate = base64.b64encode(("-----BEGIN " + "CERTIFICATE-----\n" + m.b64(300)).encode()).decode()
    return f"""apiVersion: v1
clusters:
- cluster:
    certificate-authority-data: {m.like(certificate)}
    server: https://10.0.{m.random.randint(1, 9)}.4:6443
users:
- name: {m.person()}
  user:
    client-certificate-data: {m.like(certificate[:60] + certificate[-300:])}
    client-key-data: {m.secret("kubeconfig-key", key)}
- name: ci
  user:
    token: {m.jwt("kubeconfig-token")}
"""


def _curl(m: Maker) -> str:
    r = m.random
    bearer = m.secret("bearer", m.alnum(r.choice((24, 40, 64))))
    return "\n".join(
        [
            f"$ curl -s -H {m.one(chr(39), chr(34))}Authorization: Bearer {bearer}{m.one(chr(39), chr(34))} https://api.{m.app()}.example/v1/me",
            f"$ curl -H 'X-Api-Key: {m.secret('x-api-key', m.alnum(32))}' https://api.{m.app()}.example/v2/items?limit=50",
            f"$ curl -u {m.person()}:{m.simple('curl-user')} https://{m.app()}.example/private",
            f'$ curl -X POST https://{m.app()}.example/login -d \'{{"user": "{m.person()}", "password": "{m.simple("json-password")}"}}\'',
            f'$ curl -H "Authorization: Bearer {m.like("$TOKEN")}" https://{m.app()}.example/v1/jobs/{m.like(m.uuid())}',
            f"$ curl --user '{m.person()}:{m.simple('curl-user')}' -o out.json https://{m.app()}.example/x",
            f"$ curl -b 'sessionid={m.secret('cookie', m.lower(32))}' https://{m.app()}.example/account",
            f"$ curl -u '{m.like('$USER:$PASS')}' https://{m.app()}.example/private",
            f"$ curl -fsSL https://get.{m.app()}.example/install-{m.like('v1.22.3')}.sh | sh",
            f'$ curl "https://maps.{m.app()}.example/geocode?q=berlin&key={m.token("google-key")}"',
            f"$ curl 'https://{m.app()}.example/hook?token={m.secret('query-token', m.alnum(24))}&page=2'",
        ]
    )


def _trace(m: Maker) -> str:
    basic = base64.b64encode(f"{m.person()}:{m.strong()}".encode()).decode()
    return f"""> GET /v1/{m.word()} HTTP/2
> Host: {m.app()}.example
> authorization: {m.one("Basic", "basic")} {m.secret("basic-auth", basic)}
> user-agent: curl/8.5.0
> cookie: theme=dark; _ga=GA1.2.{m.like(m.digits(9) + "." + m.digits(10))}; session={m.secret("cookie", m.url64(43))}
< HTTP/2 200
< etag: {m.like('W/"' + m.hex(32) + '"').replace('"', "'")}
< x-request-id: {m.like(m.uuid())}
< cf-ray: {m.like(m.hex(16) + "-FRA")}
< x-amz-cf-id: {m.like(m.url64(54) + "==")}
< set-cookie: {m.one("connect.sid", "sid", "JSESSIONID", "laravel_session", "auth_token")}={m.secret("set-cookie", m.url64(40))}; Path=/; HttpOnly; SameSite=Lax
< set-cookie: csrftoken={m.like("deleted")}; Max-Age=0
< strict-transport-security: max-age=31536000
< x-ratelimit-remaining: {m.like("4999")}
< traceparent: {m.like("00-" + m.hex(32) + "-" + m.hex(16) + "-01")}
"""


def _python(m: Maker) -> str:
    return f"""import os
import boto3, psycopg2, requests
from openai import OpenAI

client = OpenAI(api_key="{m.token("openai-old")}")
s3 = boto3.client("s3", aws_access_key_id="{m.token("aws-key-id")}", aws_secret_access_key="{m.secret("aws-secret", m.b64(30))}")
conn = psycopg2.connect(host="db", dbname="{m.app()}", user="{m.person()}", password="{m.password("code-password")}")
token = {m.like('os.environ["ACME_TOKEN2"]')}
secret = {m.like('os.getenv("APP_SECRET_1")')}
SECRET_KEY = os.environ.get("SECRET_KEY", "{m.secret("default-value", m.alnum(32))}")
headers = {{"Authorization": f"Bearer {m.like("{token}")}", "X-Auth-Token": "{m.secret("header-in-code", m.hex(40))}"}}
resp = requests.get(url, auth=("{m.person()}", "{m.password("auth-pair")}"))
access_token = {m.like('resp.json()["access_token"]')}
password = {m.like(m.one("getpass.getpass()", "input('Password: ')", "generate_password(16)", "form.password1.data"))}
api_key: {m.like("str | None")} = None
hashed = {m.like("bcrypt.hashpw(password.encode(), bcrypt.gensalt(12))")}
max_tokens = {m.like("4096")}
tokenizer = AutoTokenizer.from_pretrained("{m.like("bert-base-uncased")}", token={m.like("True")})
for token2 in {m.like("tokens[1:]")}:
    key = {m.like("token2.lower()")}
assert token == {m.like('"test-token-1"')}
logger.info("password for %s: %s", user, {m.like("mask(password1)")})
"""


def _javascript(m: Maker) -> str:
    return f"""const stripe = require('stripe')('{m.token("stripe")}');
const firebaseConfig = {{
  apiKey: "{m.token("google-key")}",
  authDomain: "{m.like(m.app() + "-1234.firebaseapp.com")}",
  appId: "{m.like("1:" + m.digits(12) + ":web:" + m.hex(22))}",
}};
const secret = process.env.JWT_SECRET || '{m.secret("default-value", m.alnum(24))}';
const pool = new Pool({{ user: '{m.person()}', password: '{m.password("code-password")}', port: 5432 }});
const token = {m.like(m.one("localStorage.getItem('token1')", "await getToken({ template: 'v2' })", "req.headers['x-token-2']"))};
const {{ accessToken }} = {m.like("useSession2()")};
export const API_KEY = {m.like("import.meta.env.VITE_API_KEY_2")};
fetch(url, {{ headers: {{ Authorization: `Bearer {m.like("${accessToken}")}`, 'api-key': '{m.secret("header-in-code", m.alnum(40))}' }} }});
mongoose.connect('mongodb+srv://{m.app()}:{m.simple("url-password")}@cluster0.{m.lower(5)}.mongodb.net/?retryWrites=true');
const key = `user:${{{m.like("userId1")}}}:profile`;
<input type="password" name="password" placeholder="{m.like("Password1")}" autoComplete="{m.like("current-password")}" />
<Token key="{m.like("main-content-2")}" token={{{m.like("props.token1")}}} />
"""


def _go_and_java(m: Maker) -> str:
    return f"""func main() {{
	cfg := Config{{Password: "{m.password("code-password")}", Token: {m.like('os.Getenv("TOKEN2")')}}}
	apiKey := "{m.secret("code-api-key", m.alnum(40))}"
	var clientSecret string = "{m.secret("code-secret", m.alnum(32))}"
	secret, err := {m.like("vault.Read(ctx, path1)")}
	key := {m.like("sha256.Sum256(data)")}
	req.SetBasicAuth("{m.person()}", {m.like("password2")})
}}
// application.properties
spring.datasource.url=jdbc:postgresql://db:5432/{m.app()}
spring.datasource.password={m.simple("properties-password")}
spring.mail.password=${{{m.like("MAIL_PASSWORD_1")}}}
server.ssl.key-store-password={m.simple("properties-password")}
jwt.secret={m.secret("properties-secret", m.b64(33))}
management.endpoint.health.show-details={m.like("when-authorized")}
class Login {{
    private static final String API_TOKEN = "{m.secret("code-token", m.hex(40))}";
    private String password;
    builder.setPassword("{m.password("setter-password")}");
    assertEquals({m.like('"invalid_token_1"')}, e.getMessage());
}}
"""


def _connection_strings(m: Maker) -> str:
    return f"""{{
  "ConnectionStrings": {{
    "Default": "Server=tcp:{m.app()}.database.windows.net,1433;Initial Catalog={m.app()};User ID={m.person()};{m.one("Password", "Pwd")}={m.simple("connection-string")};Encrypt=True;",
    "Storage": "DefaultEndpointsProtocol=https;AccountName={m.app()}store;AccountKey={m.secret("azure-account-key", m.b64(64))};EndpointSuffix=core.windows.net",
    "Bus": "Endpoint=sb://{m.app()}.servicebus.windows.net/;SharedAccessKeyName=RootManageSharedAccessKey;SharedAccessKey={m.secret("shared-access-key", m.b64(32))}"
  }},
  "AzureAd": {{ "TenantId": "{m.like(m.uuid())}", "ClientId": "{m.like(m.uuid())}", "ClientSecret": "{m.token("azure-client-secret")}" }},
  "ApplicationInsights": {{ "InstrumentationKey": "{m.like(m.uuid())}" }}
}}
https://{m.app()}.blob.core.windows.net/backups/x.tar?sv=2023-11-03&se=2026-01-01T00%3A00Z&sr=b&sp=r&sig={m.secret("sas-signature", m.b64(32).replace("+", "%2B").replace("/", "%2F").replace("=", "%3D"))}
"""


def _frameworks(m: Maker) -> str:
    symbols = "!@#%^&*()-_=+[]|:,./?~ "
    salt = (
        m.alnum(1)
        + "".join(m.random.choice(string.ascii_letters + string.digits + symbols) for _ in range(62))
        + m.alnum(1)
    )
    return f"""# settings.py
SECRET_KEY = 'django-insecure-{m.secret("django", m.of(string.ascii_lowercase + string.digits + "!@#%^&*-_=+", 50))}'
DATABASES = {{'default': {{'ENGINE': 'django.db.backends.postgresql', 'PASSWORD': '{m.password("code-password")}'}}}}
AUTH_PASSWORD_VALIDATORS = [{{'NAME': '{m.like("django.contrib.auth.password_validation.MinimumLengthValidator")}'}}]
# .env of Laravel
APP_KEY=base64:{m.secret("laravel", m.b64(32))}
# config/secrets.yml
production:
  secret_key_base: {m.secret("rails", m.hex(128))}
// wp-config.php
define( 'DB_PASSWORD', '{m.password("wp-password")}' );
define( 'AUTH_KEY',         '{m.secret("wp-salt", salt.replace("'", "x"))}' );
define( 'WP_DEBUG', {m.like("false")} );
# application.yml
  password: {m.like("ENC(" + m.b64(24) + ")")}
  keystore: {m.like("classpath:keystore1.p12")}
"""


def _home_files(m: Maker) -> str:
    return f"""$ cat ~/.netrc
machine api.heroku.com
  login {m.person()}@{m.app()}.example
  password {m.secret("netrc", m.uuid())}
machine github.com login {m.person()} password {m.token("github-pat")}
$ cat ~/.pgpass
db.{m.app()}.example:5432:{m.app()}:{m.person()}:{m.secret("pgpass", m.strong("!@%^*-_"))}
$ cat ~/.npmrc
registry=https://registry.npmjs.org/
//registry.npmjs.org/:_authToken={m.token("npm")}
//npm.{m.app()}.example/:_auth={m.secret("npmrc-auth", base64.b64encode(f"{m.person()}:{m.strong()}".encode()).decode())}
//npm.pkg.github.com/:_authToken={m.like("${NODE_AUTH_TOKEN}")}
$ cat ~/.pypirc
[pypi]
username = __token__
password = {m.token("pypi")}
[internal]
username = {m.person()}
password = {m.simple("pypirc")}
$ cat ~/.git-credentials
https://{m.person()}:{m.token("gitlab-pat")}@gitlab.com
https://{m.person()}:{m.secret("git-credentials", m.alnum(20))}@git.{m.app()}.example
"""


def _cloud_files(m: Maker) -> str:
    return f"""$ cat ~/.aws/credentials
[default]
aws_access_key_id = {m.token("aws-key-id")}
aws_secret_access_key = {m.secret("aws-secret", m.b64(30))}
aws_session_token = {m.secret("aws-session", "IQoJ" + "b3JpZ2luX2VjE" + m.b64(300))}
region = eu-west-1
[audit]
role_arn = {m.like("arn:aws:iam::" + m.digits(12) + ":role/audit1")}
$ cat ~/.docker/config.json
{{ "auths": {{ "ghcr.io": {{ "auth": "{m.secret("docker-auth", base64.b64encode(f"{m.person()}:{m.strong()}".encode()).decode())}" }} }}, "credsStore": "{m.like("osxkeychain")}" }}
$ cat ~/.config/gh/hosts.yml
github.com:
    user: {m.person()}
    oauth_token: {m.token("github-oauth")}
    git_protocol: ssh
$ cat ~/.terraform.d/credentials.tfrc.json
{{"credentials": {{"app.terraform.io": {{"token": "{m.token("terraform-cloud")}"}}}}}}
$ cat ~/.cargo/credentials.toml
[registry]
token = "{m.token("crates")}"
$ cat ~/.gem/credentials
:rubygems_api_key: {m.token("rubygems")}
$ cat ~/.s3cfg
access_key = {m.token("aws-key-id")}
secret_key = {m.secret("aws-secret", m.b64(30))}
gpg_passphrase = {m.like("")}
use_https = {m.like("True")}
"""


def _service_account(m: Maker) -> str:
    key = m.armour("", lines=m.random.randint(4, 12), newline="\\n")
    return json.dumps(
        {
            "type": "service_account",
            "project_id": f"{m.app()}-{m.digits(6)}",
            "private_key_id": m.like(m.hex(40)),
            "private_key": "KEY",
            "client_email": m.like(f"ci@{m.app()}-1.iam.gserviceaccount.com"),
            "client_id": m.like(m.digits(21)),
        },
        indent=2,
        ensure_ascii=False,
    ).replace("KEY", m.secret("service-account", key), 1)


def _application_default(m: Maker) -> str:
    return f"""{{
  "client_id": "{m.like(m.digits(12) + "-" + m.lower(32) + ".apps.googleusercontent.com")}",
  "client_secret": "{m.token("google-client-secret")}",
  "quota_project_id": "{m.like(m.app() + "-42")}",
  "refresh_token": "{m.secret("google-refresh", "1//" + "0" + m.url64(60))}",
  "type": "authorized_user"
}}
"""


def _commands(m: Maker) -> str:
    r = m.random
    name, user = m.app(), m.person()
    return "\n".join(
        [
            f"$ mysql -h db -u root -p{m.simple('mysql-option')} {name} -e 'select 1'",
            f"$ PGPASSWORD={m.one(m.simple('pgpassword'), chr(39) + m.password('pgpassword') + chr(39))} psql -h db -U {user} {name}",
            f"$ sshpass -p {m.one(m.simple('sshpass'), chr(39) + m.password('sshpass') + chr(39))} ssh {user}@10.2.0.{r.randint(2, 250)}",
            f"$ redis-cli -h cache -a {m.simple('redis-option')} ping",
            f"$ mongodump --host db -u {user} -p {m.simple('mongo-option')} --out dump",
            f"$ docker login -u {user} -p {m.simple('docker-login')} registry.{name}.example",
            f"$ docker run -d -p {m.like('8080:80')} -e POSTGRES_PASSWORD={m.simple('docker-env')} postgres:16",
            f"$ echo {m.one(chr(39) + m.simple('sudo-pipe') + chr(39), m.simple('sudo-pipe'))} | sudo -S systemctl restart {name}",
            f"$ ldapsearch -x -D cn=admin,dc={name} -w {m.simple('ldap-option')} -b dc={name}",
            f"$ openssl rsa -in key.pem -passin pass:{m.simple('openssl-pass')} -out plain.pem",
            f"$ kubectl create secret generic {name} --from-literal=password={m.simple('from-literal')}",
            f"$ helm upgrade {name} ./chart --set postgresql.auth.password={m.simple('helm-set')} --set image.tag={m.like(m.hex(7))}",
            f"$ aws configure set aws_secret_access_key {m.secret('aws-secret', m.b64(30))}",
            f"$ heroku config:set SECRET_TOKEN={m.secret('heroku-config', m.alnum(32))} -a {name}",
            f"$ git remote set-url origin https://oauth2:{m.secret('git-url', m.alnum(22))}@git.{name}.example/{user}/{name}.git",
            f"$ az login --service-principal -u {m.like(m.uuid())} -p {m.secret('az-login', m.alnum(3) + '8' + 'Q~' + m.url64(34))} --tenant {m.like(m.uuid())}",
            f"$ ./deploy.sh --password {m.simple('option-password')} --region eu-west-{r.randint(1, 3)}",
            f"$ gpg --batch --passphrase '{m.password('gpg-passphrase')}' -d backup.gpg",
            f"$ htpasswd -bc .htpasswd {user} {m.simple('htpasswd')}",
            f"$ npm publish --otp={m.like(m.digits(6))}",
            f"$ ssh -i {m.like('~/.ssh/id_ed25519_2')} -p {m.like('2222')} {user}@{name}.example",
            f"$ tar -xzf {m.like(name + '-1.4.2.tar.gz')} && make -j8 TOKEN_FILE={m.like('/run/secrets/token1')}",
            f"$ vault login {m.token('vault')}",
            f"$ export HISTCONTROL={m.like('ignoredups')} {m.env('ACME_TOKEN', m.secret('export-token', m.alnum(36)))}".replace(
                "export export", "export"
            ),
        ]
    )


def _pull_url(m: Maker) -> str:
    odd = m.one(
        "p%40ss" + m.alnum(8),
        m.alnum(6) + "%23" + m.alnum(4),
        m.alnum(5) + "!" + m.alnum(6),
        m.alnum(6) + "#" + m.alnum(5),
    )
    slash = m.alnum(6) + "/" + m.alnum(8)
    return f"""could not connect to {m.one("postgresql", "mysql")}://{m.app()}:{m.secret("url-password", odd)}@10.0.0.7:5432/{m.app()}: timeout
amqp://{m.person()}:{m.secret("url-password", m.strong("!._-"))}@queue:5672/%2F unreachable
DATABASE_URL=postgres://{m.app()}:{m.secret("url-password", slash)}@db.internal/{m.app()}?sslmode=require
--index-url https://{m.person()}:{m.secret("url-password", m.alnum(26))}@pypi.{m.app()}.example/simple
SQLALCHEMY_DATABASE_URI = 'mysql+pymysql://{m.app()}:{m.secret("url-password", m.human())}@localhost/{m.app()}'
see {m.like("https://example.com:8080/@scope/pkg1")} and {m.like("git@github.com:" + m.person() + "/" + m.app() + ".git")}
{m.like("http://localhost:5173/@vite/client1")} {m.like("https://user:pass@host/path")} {m.like("redis://localhost:6379/1")}
{m.like("postgres://$DB_USER:$DB_PASS@$DB_HOST/x1")} {m.like("postgres://{user}:{password}@{host}:5432/db1")}
{m.like("ssh://git@bitbucket.org:7999/x/y1.git")} {m.like("postgres://app:****@db:5432/x1")} {m.like("mailto:" + m.person() + "1@x.example")}
{m.like("file:///home/" + m.person() + "/a:b@c1")} {m.like("https://" + m.app() + ".example/u/" + m.person() + "@" + m.app() + "2")}
"""


def _talk(m: Maker) -> str:
    return m.random.choice(
        (
            f"here is my key: {m.any_token()} - please use it for the tests and do not commit it",
            f"the password is {m.secret('prose-password', m.word().capitalize() + m.digits(3) + '!' + m.word()[:3])} if you need to log in",
            f"my api key is {m.secret('prose-key', m.hex(40))}, the account id is {m.like(m.digits(12))}",
            f"Login with user {m.person()}\npassword: {m.secret('prose-password', m.human())}\nand tell me what you see",
            f"secret: `{m.secret('prose-secret', m.alnum(20))}` works, the old one does not",
            f"**Password:** `{m.secret('prose-password', m.human())}`\n**User:** {m.person()}",
            f"use API key: {m.secret('prose-key', m.alnum(32))} and region eu-west-1",
            f"Token: {m.secret('prose-token', m.alnum(40))}\nplease rotate after the demo",
            f'passphrase: "{m.secret("prose-phrase", m.phrase())}"\nthat should unlock it',
        )
    )


def _tokens_bare(m: Maker) -> str:
    """Tokens in any place: their prefix tells them."""
    names = m.random.sample(sorted(PROVIDERS), 16)
    lines = []
    for name in names:
        token = m.token(name)
        lines.append(
            m.one(
                f"rotated {name}: {token}",
                f"  {name.replace('-', '_')} = {token}",
                f"[{m.time()}] INFO using {token} for {m.app()}",
                f"login --with {token} --quiet",
                f"(deprecated) {token}, revoke it",
                f"<{name}>{token}</{name}>",
                f"| {name} | {token} | active |",
                f"url: https://{m.app()}.example/?t={token}&x=1",
                f"'{token}',",
                f'"{token}"',
                f"- `{token}`",
                f"{m.app()}:{token}",
                f"\x1b[33m{token}\x1b[0m",
            )
        )
    return "\n".join(lines)


def _tokens_more(m: Maker) -> str:
    return _tokens_bare(m)


def _tokens_named(m: Maker) -> str:
    """Runs of letters and figures that only their name tells."""
    rows = (
        ("DATADOG_API_KEY", m.hex(32)), ("CLOUDFLARE_API_TOKEN", m.url64(40)), ("TWITTER_API_SECRET", m.alnum(50)),
        ("ALGOLIA_ADMIN_KEY", m.hex(32)), ("HEROKU_API_KEY", m.uuid()), ("CIRCLE_TOKEN", m.hex(40)), ("WANDB_API_KEY", m.hex(40)),
        ("mailchimp_api_key", m.hex(32) + "-us12"), ("TWILIO_AUTH_TOKEN", m.hex(32)), ("codecov_token", m.uuid()),
        ("SNYK_TOKEN", m.uuid()), ("COHERE_API_KEY", m.alnum(40)), ("LINKEDIN_CLIENT_SECRET", m.alnum(16)),
        ("discord_bot_token", "MT" + m.alnum(22) + "." + m.alnum(6) + "." + m.url64(38)), ("OKTA_API_TOKEN", "00" + m.url64(40)),
        ("PINECONE_API_KEY", m.uuid()), ("ELASTIC_PASSWORD", m.alnum(20)), ("NEXTAUTH_SECRET", m.b64(32)),
        ("SUPABASE_SERVICE_ROLE_KEY", "eyJ" + m.url64(30) + "." + "eyJ" + m.url64(120) + "." + m.url64(43)), ("VAPID_PRIVATE_KEY", m.url64(43)),
    )  # fmt: skip
    chosen = m.random.sample(rows, 9)
    out = []
    for name, value in chosen:
        secret = m.secret("named-" + name.lower(), value)
        camel = re.sub(r"_(\w)", lambda match: match[1].upper(), name.lower())
        out.append(
            m.one(
                f"{name}={secret}",
                f'{name}="{secret}"',
                f"export {name}='{secret}'",
                f"{name.lower()}: {secret}",
                f'"{camel}": "{secret}",',
                f"{camel}: '{secret}',",
                f'$env:{name} = "{secret}"',
                f"set -gx {name} {secret}",
                f"ENV {name}={secret}",
                f"- name: {name}\n  value: {secret}",
                f'{{"name": "{name}", "value": "{secret}"}}',
                f"{name} = {secret}",
            )
        )
    return "\n".join(out)


def _keys(m: Maker) -> str:
    sort = m.one("RSA ", "", "EC ", "OPENSSH ", "ENCRYPTED ", "DSA ")
    lines = m.random.randint(3, 14)
    public = "ssh-" + m.one("rsa", "ed25519") + " AAAA" + m.b64(150) + f" {m.person()}@{m.app()}"
    certificate = (
        "-----BEGIN "
        + "CERTIFICATE-----\n"
        + "\n".join(m.b64(48) for _ in range(4))
        + "\n-----END "
        + "CERTIFICATE-----"
    )
    return f"""$ cat ~/.ssh/id_rsa
{m.secret("pem", m.armour(sort, lines))}
$ cat ~/.ssh/id_rsa.pub
{m.like(public)}
$ cat server.crt
{m.like(certificate)}
$ ssh-keygen -lf ~/.ssh/id_rsa.pub
4096 {m.like("SHA256:" + m.b64(32).rstrip("="))} {m.person()}@{m.app()} (RSA)
"""


def _keys_odd(m: Maker) -> str:
    one_line = m.armour("", m.random.randint(3, 8), newline="\\n")
    cut = m.armour("RSA ", m.random.randint(3, 8), end=False)
    armour = (
        "-----BEGIN PGP PRIVATE "
        + "KEY BLOCK-----\n\n"
        + "\n".join(m.b64(48) for _ in range(5))
        + "\n="
        + m.b64(3)
        + "\n-----END PGP PRIVATE "
        + "KEY BLOCK-----"
    )
    return f"""GITHUB_APP_PRIVATE_KEY="{m.secret("pem-one-line", one_line)}"
tls:
  key: |
    {m.secret("pem-indented", m.armour("EC ", 3).replace(chr(10), chr(10) + "    "))}
{m.secret("pgp", armour)}
{m.secret("pem-cut-off", cut)}
"""


def _oauth(m: Maker) -> str:
    token = m.one("opaque", "jwt")
    access = m.secret("access-token", m.url64(60)) if token == "opaque" else m.jwt("access-token")
    return f"""{{"{m.one("access_token", "accessToken")}": "{access}", "token_type": "{m.like("Bearer")}", "expires_in": {m.like("3600")}, "scope": "{m.like("read:user write:org2")}", "{m.one("refresh_token", "refreshToken")}": "{m.secret("refresh-token", m.alnum(48))}", "id_token": "{m.jwt("id-token")}", "session_state": "{m.like(m.uuid())}"}}
localStorage.setItem('sb-{m.lower(20)}-auth-token', '{m.jwt("stored-jwt")}')
https://{m.app()}.example/cb#access_token={m.secret("url-token", m.url64(50))}&token_type=bearer&state={m.like(m.hex(16))}
https://auth.{m.app()}.example/authorize?client_id={m.like(m.alnum(20))}&code_challenge={m.like(m.url64(43))}&response_type=code&nonce={m.like(m.hex(16))}
grant_type=client_credentials&client_id={m.like(m.uuid())}&client_secret={m.secret("form-secret", m.alnum(40))}
"""


def _presigned(m: Maker) -> str:
    date = "20260114"
    return f"""https://{m.app()}-uploads.s3.amazonaws.com/{m.like(m.hex(40))}.png?X-Amz-Algorithm=AWS4-HMAC-SHA256&X-Amz-Credential={m.token("aws-key-id")}%2F{date}%2Feu-west-1%2Fs3%2Faws4_request&X-Amz-Date={m.like(date + "T101500Z")}&X-Amz-Expires=3600&X-Amz-SignedHeaders=host&X-Amz-Signature={m.secret("presigned", m.hex(64))}
Authorization: AWS4-HMAC-SHA256 Credential={m.token("aws-key-id")}/{date}/eu-west-1/s3/aws4_request, SignedHeaders=host;x-amz-date, Signature={m.secret("aws4-signature", m.hex(64))}
x-amz-content-sha256: {m.like(m.hex(64))}
x-hub-signature-256: {m.like("sha256=" + m.hex(64))}
"""


def _webhooks(m: Maker) -> str:
    slack = "T" + m.upper(8) + "/B" + m.upper(10) + "/" + m.alnum(24)
    discord = m.digits(18) + "/" + m.url64(68)
    return f"""SLACK_WEBHOOK_URL=https://hooks.slack{".com"}/services/{m.secret("slack-webhook", slack)}
curl -X POST https://discord{".com"}/api/webhooks/{m.secret("discord-webhook", discord)} -d '{{"content":"done"}}'
TELEGRAM_BOT_TOKEN={m.token("telegram")}
curl https://api.telegram.org/bot{m.token("telegram")}/getMe
channel {m.like("C0" + m.upper(9))} guild {m.like(m.digits(18))} message {m.like(m.digits(19))} user {m.like("U0" + m.upper(9))}
client.login("{m.secret("discord-bot", "MT" + m.alnum(22) + "." + m.alnum(6) + "." + m.url64(38))}");
"""


def _errors(m: Maker) -> str:
    return f"""Traceback (most recent call last):
  File "/srv/{m.app()}/db.py", line {m.random.randint(10, 400)}, in connect
    raise OperationalError(f"connection to {m.one("postgresql", "postgres")}://{m.app()}:{m.simple("url-password")}@db:5432/{m.app()} failed")
sqlalchemy.exc.OperationalError: (psycopg2.OperationalError) FATAL: password authentication failed for user "{m.like(m.person() + "2")}"
openai.AuthenticationError: Error code: 401 - {{'error': {{'message': 'Incorrect API key provided: {m.like("sk-proj-********************************AbC9")}. You can find your API key at https://platform.openai.com/account/api-keys.'}}}}
KeyError: {m.like("'API_KEY_2'")}
jwt.exceptions.InvalidSignatureError: Signature verification failed for token {m.jwt("jwt-in-error")}
invalid login: Config(host='db', user='{m.person()}', password='{m.password("repr-password")}', timeout=30)
{{"level":"error","msg":"auth failed","api_key":"{m.secret("log-api-key", m.alnum(32))}","trace_id":"{m.like(m.hex(32))}","span_id":"{m.like(m.hex(16))}"}}
Error: Invalid token: {m.like("unexpected end of input at 1:14")}
  at Token.verify ({m.like("/app/node_modules/jsonwebtoken/verify.js:89:12")})
error[E0425]: cannot find value `{m.like("token_v2")}` in this scope
SyntaxError: Unexpected token: {m.like("'}'")}
"""


def _locks(m: Maker) -> str:
    return f"""    "node_modules/{m.word()}": {{
      "version": "{m.like("4.17.21")}",
      "resolved": "{m.like("https://registry.npmjs.org/x/-/x-4.17.21.tgz")}",
      "integrity": "{m.like("sha512-" + m.b64(64))}"
    }},
{m.word()}@^1.0.0:
  resolved "https://registry.yarnpkg.com/x/-/x-1.0.0.tgz#{m.like(m.hex(40))}"
  integrity {m.like("sha1-" + m.b64(20))}
{m.word()}==2.31.0 --hash={m.like("sha256:" + m.hex(64))}
checksum = "{m.like(m.hex(64))}"
github.com/{m.person()}/{m.word()} v1.2.3 {m.like("h1:" + m.b64(32))}
github.com/{m.person()}/{m.word()} v0.0.0-20260114101500-{m.like(m.hex(12))}/go.mod {m.like("h1:" + m.b64(32))}
"cache-key": "{m.like("linux-node-" + m.hex(64))}"
<script src="x.js" integrity="{m.like("sha384-" + m.b64(48))}" crossorigin="anonymous" nonce="{m.like(m.b64(16))}"></script>
"""


def _git_and_docker(m: Maker) -> str:
    return f"""commit {m.like(m.hex(40))} (HEAD -> main, tag: v1.4.2)
Author: {m.person()} <{m.person()}@{m.app()}.example>
index {m.like(m.hex(7) + ".." + m.hex(7))} 100644
$ git rev-parse HEAD
{m.like(m.hex(40))}
$ docker ps
{m.like(m.hex(12))}   {m.app()}:latest   "docker-entrypoint.s…"   0.0.0.0:5432->5432/tcp
Status: Downloaded newer image, Digest: {m.like("sha256:" + m.hex(64))}
 => => naming to docker.io/library/{m.app()}:{m.like(m.hex(8))}
layer {m.like(m.hex(64))}: Pull complete
run id {m.like(m.digits(11))} job {m.like(m.digits(11))} artifact {m.like(m.uuid())}
ulid {m.like("01J" + m.of("0123456789ABCDEFGHJKMNPQRSTVWXYZ", 23))} snowflake {m.like(m.digits(19))} nanoid {m.like(m.url64(21))}
md5 {m.like(m.hex(32))}  {m.word()}.tar.gz
sha256sum: {m.like(m.hex(64))}
build key: {m.like("2026.01.14-3")}
Merge branch 'fix/token-refresh-{m.like("1234")}' into main
"""


def _web(m: Maker) -> str:
    path = " ".join(
        f"{m.one('M', 'L', 'C', 'c', 'l')}{m.random.uniform(0, 99):.3f} {m.random.uniform(0, 99):.3f}"
        for _ in range(20)
    )
    return f"""body{{color:#{m.like(m.hex(6))};background:url(data:image/png;base64,{m.like("iVBORw0KGgo" + m.b64(240))})}}
!function(e,t){{"object"==typeof exports?module.exports=t():e.{m.like("Token=t()")}}}(this,(function(){{var e="{m.like(m.hex(16))}",t={m.like("n(3412).createTokenizer1")};}}));
//# sourceMappingURL=data:application/json;base64,{m.like(m.b64(180))}
<svg viewBox="0 0 24 24"><path d="{m.like(path)}"/></svg>
@font-face{{src:url(data:font/woff2;base64,{m.like("d09GMgABAAAAA" + m.b64(200))})}}
.token.keyword{{color:{m.like("#0077aa")}}} .token.string{{color:{m.like("#669900")}}}
<div class="{m.like("css-" + m.lower(7) + " makeStyles-root-" + m.digits(3))}" data-testid="{m.like("password-input-2")}"></div>
<input type="hidden" name="{m.like("csrf_token")}" id="{m.like("csrf_token_1")}">
chunk {m.like("vendors~main." + m.hex(20) + ".js")} 1.2 MiB
"""


def _documentation(m: Maker) -> str:
    return f"""## Authentication

Send your token in the header: `Authorization: Bearer {m.like("<token>")}` or `X-API-Key: {m.like("YOUR_API_KEY")}`.

| Parameter | Type | Description |
|---|---|---|
| `token` | {m.like("string")} | The token of the session, 32 characters |
| `password` | {m.like("string")} | At least 8 characters |
| `api_key` | {m.like("string (required)")} | see {m.like("section 4.2")} |

```json
{{"username": "alice", "password": "{m.like("string")}", "token": "{m.like(m.one("string", "your-token", "<token>", "abc..."))}", "secret": {m.like("true")}}}
```

password: {m.like("str")}
token: {m.like("Optional[str]")} = None
api_key: {m.like("SecretStr")}
passwordHash: {m.like("string;")}
"password": {{"type": "{m.like("string")}", "format": "{m.like("password")}", "minLength": {m.like("8")}}}
"forgot_password": "{m.like("Forgot your password?")}", "password_label": "{m.like("Password")}"
- **password**: {m.like("the password of the user, hashed with argon2id before it is stored")}
The secret: {m.like("never give up")}. The token is {m.like("base64-encoded")} and the key is {m.like("sha256-hashed")}.
`--password` {m.like("reads1")} from stdin. Tokens expire after {m.like("30d")}.
CREATE TABLE users (id uuid, {m.like("password_hash varchar(255)")}, token {m.like("text")} NOT NULL);
type Credentials = {{ token: {m.like("AccessToken2")}; secret: {m.like("Buffer;")} }}
GET /v1/users/{m.like(":user_id1")}?{m.like("api_key=<key>")}&{m.like("next_token=abc123")}
PASSWORD={m.like("$(openssl rand -base64 32)")}
TOKEN={m.like("$(cat /run/secrets/token1)")} ./{m.word()}.sh
"""


def _ci(m: Maker) -> str:
    return f"""name: release
env:
  NPM_TOKEN: {m.like("${{ secrets.NPM_TOKEN_2 }}")}
  PASSWORD: {m.like("$CI_REGISTRY_PASSWORD_1")}
steps:
  - uses: actions/checkout@{m.like(m.hex(40))} # v4.1.1
  - run: docker login -u ci -p {m.like("$CI_JOB_TOKEN2")} registry.example.com
  - run: helm install x --set auth.password={m.like("{{ .Values.auth.password1 }}")}
  - run: curl -H "PRIVATE-TOKEN: {m.like("$GITLAB_TOKEN_1")}" https://gitlab.example.com/api/v4/projects/{m.like(m.digits(8))}
  - with: {{ token: "{m.like("${{ github.token }}")}", key: "{m.like("cache-v2-${{ hashFiles('**/lock') }}")}" }}
Run echo "::add-mask::***"
  token: {m.like("***")}
  ssh-key: {m.like("***")}
  DB_PASSWORD: {m.like("[MASKED]")}
##[group]Run actions/cache@v4 key: {m.like("Linux-pnpm-store-" + m.hex(64))}
Uploaded bytes 18231, digest {m.like(m.hex(64))}
GITLAB_DEPLOY_TOKEN: {m.token("gitlab-deploy")}
SONAR_TOKEN: {m.token("sonarqube")}
PYPI_PASSWORD: "{m.token("pypi")}"
set PASSWORD={m.like("%DB_PASS1%")}
"""


def _tests(m: Maker) -> str:
    return f"""=== RUN   TestToken/{m.like("valid_token_1")}
--- PASS: {m.like("TestToken/expired_token_v2")} (0.00s)
--- PASS: {m.like("TestPassword/hash_bcrypt_12")} (0.12s)
tests/test_auth.py::test_password_{m.like("reset_token_2")} PASSED [ 33%]
tests/test_auth.py::TestKeys::{m.like("test_key_rotation_90d")} PASSED
def test_login(client):
    r = client.post("/login", data={{"username": "alice", "password": "{m.like(m.one("wrong-password", "testpassword", "password"))}"}})
    assert r.json["token"] == {m.like("expected_token1")}
    monkeypatch.setenv("API_KEY", "{m.like(m.one("test-key", "dummy-api-key", "fake-key-1"))}")
    mock_token = "{m.like(m.one("mock-token", "test-token-123", "dummy_token"))}"
expect(screen.getByLabelText('{m.like("Password2")}')).toBeVisible()
PASS {m.like("src/auth/token2.test.ts")} (5.2 s)
usage: {{"input_tokens": {m.like("18231")}, "output_tokens": {m.like("512")}, "token_count": {m.like("99120")}}}
tokens=[{m.like("'hello', '##ing2', '[SEP]'")}] eos_token="{m.like("<|endoftext|>")}" pad_token_id={m.like("50256")}
{{"key": "{m.like("eb9c-5483-e950-6f83/2026-05-18.md#5")}", "sort_key": "{m.like("user#" + m.uuid())}", "cacheKey": "{m.like(m.hex(40))}"}}
{{"next_page_token": "{m.like(m.b64(18))}", "idempotency_key": "{m.like(m.uuid())}", "primary_key": "{m.like("user_id2")}"}}
"""


def _numbers(m: Maker) -> str:
    return f"""call {m.like("+49 30 901820 1234")} or {m.like("555-0123-4567")}, ISBN {m.like("978-3-16-148410-0")}, IBAN {m.like("DE89370400440532013000")}
total {m.like("$1,299.00")} on {m.like("2026-01-14T10:15:00.123Z")}, mac {m.like("52:54:00:ab:cd:ef")}, ip {m.like("2001:db8::8a2e:370:7334")}
version {m.like("v22.11.0-rc.2+build.5114f85")} serial {m.like("SN-2026-000123")} order {m.like("ORD-8812-XK")}
lat {m.like("52.520008,13.404954")} port {m.like("0.0.0.0:8443")} pid {m.like("1234567")}
bench: {m.like("1200000 ns/op  384 B/op")} key space {m.like("0x7ffe4c2a1b30")}
pass: {m.like("128 fail: 2 skip: 4")}
tx {m.like("0x" + m.hex(64))} block {m.like("0x" + m.hex(40))}
"""


def _more_files(m: Maker) -> str:
    return f"""$ cat sonar-project.properties
sonar.projectKey={m.like(m.app() + "_" + m.app() + "2")}
sonar.login={m.secret("sonar-login", m.hex(40))}
$ cat wg0.conf
[Interface]
PrivateKey = {m.secret("wireguard", m.b64(32))}
Address = 10.8.0.2/24
[Peer]
PublicKey = {m.like(m.b64(32))}
PresharedKey = {m.secret("wireguard-psk", m.b64(32))}
$ cat rclone.conf
[s3]
type = s3
access_key_id = {m.token("aws-key-id")}
secret_access_key = {m.secret("aws-secret", m.b64(30))}
$ cat nuget.config
<add key="ClearTextPassword" value="{m.secret("nuget", m.strong("!@%^*-_"))}" />
<add key="nuget.org" value="{m.like("https://api.nuget.org/v3/index.json")}" />
$ cat settings.xml
<server><id>central</id><username>{m.person()}</username><password>{m.secret("xml-password", m.strong("!@%^*-_"))}</password></server>
$ cat wpa_supplicant.conf
network={{ ssid="{m.like(m.app() + "-5G2")}" psk="{m.secret("wifi", m.human())}" }}
$ cat my.cnf
[client]
user={m.person()}
password={m.one(m.simple("my-cnf"), chr(34) + m.password("my-cnf") + chr(34))}
$ cat appsettings.json
{{"Jwt": {{"Key": "{m.secret("jwt-key", m.alnum(48))}", "Issuer": "{m.like(m.app() + ".example")}", "ExpiryMinutes": {m.like("60")}}}}}
""".replace('"Jwt": {"Key"', '"Jwt": {"SigningKey"')


def _sql(m: Maker) -> str:
    return f"""CREATE USER {m.app()} WITH PASSWORD '{m.secret("sql-password", m.strong("!@%^*-_"))}';
ALTER ROLE {m.person()} WITH ENCRYPTED PASSWORD '{m.secret("sql-password", m.human())}';
CREATE USER '{m.person()}'@'%' IDENTIFIED BY '{m.secret("sql-identified", m.strong("!@%^*-_"))}';
INSERT INTO users (email, password_hash) VALUES ('{m.like(m.person() + "3@x.example")}', '{m.like("argon2id-v19-m65536")}');
SELECT token, {m.like("password_hash2")} FROM sessions WHERE token = {m.like("$1")} AND key = {m.like(":key1")};
SET PASSWORD = {m.like("DEFAULT")};
"""


def _powershell(m: Maker) -> str:
    return f"""PS> $env:ACME_API_KEY = "{m.secret("ps-env", m.alnum(32))}"
PS> $pw = ConvertTo-SecureString "{m.secret("secure-string", m.strong("!@%^*-_"))}" -AsPlainText -Force
PS> Invoke-RestMethod -Headers @{{ Authorization = "Bearer {m.secret("ps-bearer", m.alnum(40))}" }} -Uri {m.like("https://x1.example/api/v2")}
PS> Get-Content {m.like("C:/Users/ana/token2.txt")}
PS> $cred = Get-Credential -UserName {m.like("deploy1")}
"""


def _diff(m: Maker) -> str:
    return f"""--- a/.env
+++ b/.env
@@ -1,4 +1,4 @@
-API_TOKEN={m.secret("diff-token", m.alnum(32))}
+API_TOKEN={m.secret("diff-token", m.alnum(32))}
 LOG_LEVEL=info
-DB_PASSWORD={m.simple("diff-password")}
+DB_PASSWORD={m.like("${DB_PASSWORD}")}
+  password: {m.like("process.env.DB_PASSWORD_2")},
+  apiKey: '{m.secret("diff-api-key", m.alnum(36))}',
index {m.like(m.hex(7) + ".." + m.hex(7))}
"""


def _escaped_body(m: Maker) -> str:
    """JSON in a string of JSON, whatever the frame adds."""
    inner = json.dumps(
        {
            "user": m.person(),
            "password": m.password("nested-password"),
            "api_key": m.secret("nested-key", m.alnum(32)),
            "request_id": m.like(m.uuid()),
            "note": f"export TOKEN={m.secret('nested-token', m.alnum(28))}\nrun it",
        },
        ensure_ascii=False,
    )
    return json.dumps({"method": "POST", "body": inner, "status": 200, "etag": m.like(m.hex(32))}, ensure_ascii=False)


def _seeds(m: Maker) -> str:
    return f"""mnemonic: "{m.secret("seed-phrase", " ".join(m.word() for _ in range(12)))}"
{{"passphrase": "{m.secret("json-phrase", m.phrase())}", "rounds": {m.like("16")}}}
PRIVATE_KEY=0x{m.secret("chain-key", m.hex(64))}
address {m.like("0x" + m.hex(40))}
age: {m.token("age")}
password = '{m.secret("ini-phrase", m.phrase())}'
"""


def _colours(m: Maker) -> str:
    return (
        f"\x1b[32mDB_PASSWORD\x1b[0m={m.simple('colour-password')}\n"
        f'\x1b[1;36mexport\x1b[0m \x1b[33mAPI_KEY\x1b[0m=\x1b[32m"{m.secret("colour-key", m.alnum(32))}"\x1b[0m\n'
        f"\x1b[90m{m.time()}\x1b[0m \x1b[32mINFO\x1b[0m token {m.token('github-pat')}\n"
        f"\x1b[31m✗\x1b[0m commit {m.like(m.hex(40))}\n"
    )


def _browser(m: Maker) -> str:
    return f"""document.cookie
'theme=dark; _gid=GA1.2.{m.like(m.digits(9))}; lang=de'
Cookie: __Secure-next-auth.session-token={m.secret("next-cookie", m.url64(60))}; cookie_consent={m.like("accepted_2026")}
Set-Cookie: remember_token={m.secret("remember-cookie", m.url64(32))}; Expires={m.like("Wed, 14 Jan 2027 10:15:00 GMT")}
Set-Cookie: sessionid={m.secret("django-cookie", m.lower(32))}; HttpOnly; Path=/
PHPSESSID={m.secret("php-cookie", m.lower(26))}
"sessionId":"{m.like(m.uuid())}","session_id":"{m.like("ses_" + m.alnum(26))}","request_id":"{m.like("req_" + m.alnum(24))}"
Authorization: Digest username="{m.person()}", realm="x", nonce="{m.like(m.hex(32))}", uri="/", response="{m.secret("digest", m.hex(32))}"
"Authorization": "{m.one("Token", "token", "ApiKey")} {m.secret("auth-scheme", m.hex(40))}"
proxy-authorization: Basic {m.secret("proxy-auth", base64.b64encode(f"{m.person()}:{m.strong()}".encode()).decode())}
"""


def _cut_tokens(m: Maker) -> str:
    """Cut off at the end of a line, as screens and limits do."""

    def cut(name: str) -> str:
        value = PROVIDERS[name](m)
        return m.secret("cut-" + name, value[: -m.random.randint(2, 7)])

    return f"""token: {cut("github-pat")}
using key {cut("anthropic")}
{cut("gitlab-pat")} | {cut("npm")}
last line {cut("github-fine-grained")}"""


def _shells(m: Maker) -> str:
    return f"""C:\\build> set DEPLOY_TOKEN={m.secret("cmd-set", m.alnum(32))}
C:\\build> setx NUGET_API_KEY {m.secret("setx", "oy2" + m.lower(43))}
ana@box ~> set -gx MAPS_API_KEY {m.secret("fish-set", m.alnum(39))}
% setenv CVS_PASSWORD {m.simple("setenv")}
$ declare -p | grep -i pass
declare -x REPO_PASSWORD="{m.password("declare")}"
$ history | tail -4
  501  export REGISTRY_PASSWORD={m.simple("history")}
  502  docker login registry.{m.app()}.example -u ci --password {m.simple("docker-login-long")}
  503  git push origin {m.like("feature/token-cache-2")}
  504  unset {m.like("REGISTRY_PASSWORD")}
$ ps aux | grep worker
root  {m.like(m.digits(5))}  0.0  /usr/bin/java -Dserver.port=8443 -Djavax.net.ssl.keyStorePassword={m.simple("java-property")} -jar {m.like(m.app() + "-2.3.1.jar")}
$ systemctl show {m.app()} -p Environment
Environment=APP_MODE=prod API_SECRET={m.secret("systemd", m.alnum(30))} HOME={m.like("/var/lib/" + m.app() + "2")}
$ echo "{m.person()}:{m.simple("chpasswd")}" | sudo chpasswd
$ TOKEN={m.secret("inline-env", m.alnum(24))} ./run.sh && echo {m.like("done1")}
$ read -s PASSWORD; export {m.like("PASSWORD")}
$ pass show {m.like("work/" + m.app() + "/db1")}
$ wget --user={m.person()} --password={m.simple("wget-password")} https://files.{m.app()}.example/a.zip
$ http -a {m.person()}:{m.simple("httpie")} GET https://{m.app()}.example/api
"""


def _representations(m: Maker) -> str:
    return f"""Settings(db_url={m.like("PostgresDsn('postgres://db1/x')")}, db_password={m.like("SecretStr('**********')")}, api_token='{m.secret("repr-token", m.alnum(32))}')
{{'user': '{m.person()}', 'passwd': '{m.password("dict-password")}', 'retries': {m.like("3")}, 'token': {m.like("None")}}}
request headers: {{'Accept': '*/*', 'Authorization': 'Bearer {m.secret("dict-bearer", m.url64(40))}', 'X-Request-Id': '{m.like(m.uuid())}'}}
AxiosError: Request failed with status code 403
  config: {{
    headers: Object [AxiosHeaders] {{
      Accept: '{m.like("application/json, text/plain, */*")}',
      Authorization: 'Bearer {m.secret("axios-bearer", m.url64(48))}',
      'X-Api-Key': '{m.secret("axios-key", m.hex(32))}',
      'User-Agent': '{m.like("axios/1.6.2")}'
    }},
    auth: {{ username: '{m.person()}', password: '{m.password("axios-auth")}' }},
DEBUG:urllib3.connectionpool:https://api.{m.app()}.example:443 "GET /v1/x?api_key={m.secret("log-query", m.alnum(32))} HTTP/1.1" 200 {m.like("1832")}
map[password:{m.simple("go-map")} retries:3 user:{m.person()}]
&{{Host:db Port:5432 User:{m.person()} Password:{m.simple("go-struct")} SSLMode:{m.like("verify-full")}}}
Credentials {{ username: "{m.person()}", password: "{m.password("rust-debug")}", expires: {m.like("1767225600")} }}
b'{{"access_token":"{m.secret("bytes-token", m.url64(44))}","token_type":"{m.like("bearer")}"}}'
"""


def _php_and_ruby(m: Maker) -> str:
    return f"""$config['db']['password'] = '{m.password("php-array")}';
'redis' => ['host' => '127.0.0.1', 'password' => '{m.password("php-arrow")}', 'port' => {m.like("6379")}],
'key' => env('APP_KEY'), 'secret' => env('PUSHER_APP_SECRET', '{m.secret("php-env-default", m.hex(20))}'),
putenv("SENDINBLUE_KEY={m.secret("putenv", "xkey" + "sib-" + m.hex(64) + "-" + m.alnum(16))}");
define('{m.like("DB_CHARSET1")}', 'utf8mb4');
$token = {m.like("bin2hex(random_bytes(32))")};
$password = {m.like("$request->input('password1')")};
ENV['TWILIO_AUTH_TOKEN'] = '{m.secret("ruby-env", m.hex(32))}'
  config.secret_key = '{m.secret("devise", m.hex(128))}'
  :password => "{m.password("ruby-arrow")}",
  password: <%= {m.like('ENV["DATABASE_PASSWORD1"]')} %>
  config.api_token = {m.like("Rails.application.credentials.api_token1")}
client = Acme::Client.new(api_key: "{m.secret("ruby-key", m.alnum(36))}", timeout: {m.like("30")})
smtp_settings = {{ user_name: '{m.person()}', password: '{m.password("ruby-smtp")}', authentication: '{m.like("plain1")}' }}
"""


def _builds(m: Maker) -> str:
    return f"""signingConfigs {{
    release {{
        storeFile file("{m.like("../keystore2.jks")}")
        storePassword "{m.password("gradle-store")}"
        keyAlias "{m.like("upload1")}"
        keyPassword '{m.password("gradle-key")}'
    }}
}}
# gradle.properties
RELEASE_STORE_PASSWORD={m.simple("gradle-properties")}
systemProp.https.proxyPassword={m.simple("proxy-password")}
org.gradle.jvmargs={m.like("-Xmx4g -XX:+UseG1GC1")}
<server>
  <id>{m.like("nexus-releases1")}</id>
  <password>{m.secret("maven", m.strong("!@%^*-_"))}</password>
  <passphrase>{m.secret("maven-passphrase", m.strong("!@%^*-_"))}</passphrase>
</server>
<property name="hibernate.connection.password" value="{m.secret("hibernate", m.strong("!@%^*-_"))}"/>
<string name="google_maps_key" translatable="false">{m.token("google-key")}</string>
<artifactId>{m.like("spring-security-oauth2-token2")}</artifactId>
ENV SECRET_KEY_BASE={m.secret("docker-env-secret", m.hex(64))}
ARG NPM_TOKEN
RUN --mount=type=secret,id={m.like("npmrc1")} npm ci
COPY --from={m.like("sha256:" + m.hex(64))} /x /x
ENV GPG_KEY {m.like(m.hex(40).upper())}
ENV PYTHON_SHA256 {m.like(m.hex(64))}
"""


def _inspect(m: Maker) -> str:
    return f"""[
    {{
        "Id": "{m.like(m.hex(64))}",
        "Image": "{m.like("sha256:" + m.hex(64))}",
        "Config": {{
            "Env": [
                "POSTGRES_PASSWORD={m.secret("inspect-env", m.alnum(22))}",
                "KEYCLOAK_ADMIN_PASSWORD={m.secret("inspect-env", m.human().replace("#", "!"))}",
                "PGDATA={m.like("/var/lib/postgresql/data2")}",
                "GOSU_VERSION={m.like("1.17")}"
            ],
            "Labels": {{ "com.docker.compose.config-hash": "{m.like(m.hex(64))}" }}
        }},
        "MacAddress": "{m.like("02:42:ac:11:00:02")}"
    }}
]
$ aws sts assume-role --role-arn {m.like("arn:aws:iam::" + m.digits(12) + ":role/deploy2")} --role-session-name x
{{ "Credentials": {{ "AccessKeyId": "{m.token("aws-key-id")}", "SecretAccessKey": "{m.secret("aws-secret", m.b64(30))}", "SessionToken": "{m.secret("aws-session", "Fwo" + "GZXIvYXdzE" + m.b64(240))}", "Expiration": "{m.like("2026-01-14T11:15:00+00:00")}" }}, "AssumedRoleUser": {{ "AssumedRoleId": "{m.like("AROA" + m.upper(17) + ":x1")}" }} }}
$ aws secretsmanager get-secret-value --secret-id {m.like("prod/" + m.app() + "/db2")}
{{ "ARN": "{m.like("arn:aws:secretsmanager:eu-west-1:" + m.digits(12) + ":secret:prod-db-" + m.alnum(6))}", "VersionId": "{m.like(m.uuid())}", "SecretString": "{{\\\\"username\\\\":\\\\"{m.person()}\\\\",\\\\"password\\\\":\\\\"{m.secret("secret-string", m.alnum(24))}\\\\"}}" }}
$ az ad sp create-for-rbac
{{ "appId": "{m.like(m.uuid())}", "displayName": "{m.like("azure-cli-2026-01-14-10-15-00")}", "password": "{m.secret("az-sp", m.alnum(3) + "8" + "Q~" + m.url64(34))}", "tenant": "{m.like(m.uuid())}" }}
$ az storage account keys list -n {m.app()}
[{{ "keyName": "{m.like("key1")}", "permissions": "FULL", "value": "{m.secret("azure-key-list", m.b64(64))}" }}]
$ vault kv get secret/{m.app()}
====== Data ======
Key         Value
---         -----
password    {m.simple("vault-table")}
username    {m.like(m.person() + "1")}
$ vault kv put secret/{m.app()} password={m.simple("vault-put")} ttl={m.like("30d")}
$ gh secret set NPM_TOKEN --body "{m.token("npm")}"
"""


def _collections(m: Maker) -> str:
    return f"""{{"info": {{"_postman_id": "{m.like(m.uuid())}"}}, "auth": {{"type": "bearer", "bearer": [{{"key": "token", "value": "{m.secret("postman-bearer", m.alnum(40))}", "type": "string"}}]}},
 "variable": [{{"key": "api_key", "value": "{m.secret("postman-variable", m.alnum(32))}"}}, {{"key": "base_url", "value": "{m.like("https://api." + m.app() + ".example/v1")}"}}]}}
{{"request": {{"headers": [{{"name": "Authorization", "value": "Bearer {m.secret("har-bearer", m.alnum(44))}"}}, {{"name": "Cookie", "value": "sid={m.secret("har-cookie", m.url64(40))}; theme=dark"}}, {{"name": "If-None-Match", "value": "{m.like(m.hex(32))}"}}, {{"name": "X-Csrf-Token", "value": "{m.like("undefined")}"}}]}}}}
{{"cells": [{{"cell_type": "code", "id": "{m.like(m.hex(8))}", "source": ["import os\\\\n", "os.environ[\\\\"WEATHER_API_KEY\\\\"] = \\\\"{m.secret("notebook", m.alnum(32))}\\\\"\\\\n", "key = {m.like("df.columns[1]")}\\\\n"]}}]}}
query GetUser {{ user(id: "{m.like("VXNlcjox" + m.digits(4))}") {{ token password {m.like("resetToken1")} }} }}
{{"node_id": "{m.like("MDQ6VXNlcj" + m.digits(6))}", "gravatar_id": "", "url": "{m.like("https://api.github.com/users/" + m.person() + "1")}"}}
"""


def _servers(m: Maker) -> str:
    return f"""# redis.conf
requirepass {m.simple("requirepass")}
masterauth {m.simple("masterauth")}
maxmemory-policy {m.like("allkeys-lru2")}
# nginx.conf
proxy_set_header Authorization "Basic {m.secret("nginx-basic", base64.b64encode(f"{m.person()}:{m.strong()}".encode()).decode())}";
ssl_certificate_key {m.like("/etc/ssl/private/site2.key")};
# .htpasswd
{m.person()}:{m.like("$apr1$" + m.alnum(8) + "$" + m.alnum(22))}
# grafana.ini
admin_password = {m.simple("grafana-ini")}
secret_key = {m.secret("grafana-secret", m.alnum(20))}
# prometheus.yml
    basic_auth:
      username: {m.person()}
      password: {m.simple("prometheus")}
    bearer_token: {m.secret("prometheus-bearer", m.alnum(40))}
# logstash.conf
    password => "{m.password("logstash")}"
# rabbitmq.conf
default_pass = {m.simple("rabbitmq")}
# msmtprc
password       {m.simple("msmtprc")}
tls_trust_file {m.like("/etc/ssl/certs/ca-certificates2.crt")}
# odbc.ini
PWD={m.simple("odbc")}
# ppp chap-secrets and friends are not read by agents
# systemd
Environment="BACKUP_KEY={m.secret("systemd-unit", m.alnum(32))}" "TZ=UTC"
EnvironmentFile={m.like("/etc/default/" + m.app() + "2")}
0 3 * * * RESTIC_PASSWORD={m.simple("crontab")} restic backup /srv
"""


def _databases(m: Maker) -> str:
    return f"""mysql> GRANT ALL ON {m.app()}.* TO '{m.person()}'@'localhost' IDENTIFIED BY '{m.secret("grant", m.strong("!@%^*-_"))}';
mysql> SET PASSWORD FOR '{m.person()}'@'%' = PASSWORD('{m.secret("set-password", m.strong("!@%^*-_"))}');
> db.createUser({{ user: "{m.person()}", pwd: "{m.password("mongo-user")}", roles: ["{m.like("readWrite1")}"] }})
CREATE LOGIN {m.person()} WITH PASSWORD = '{m.secret("mssql-login", m.strong("!@%^*-_"))}';
127.0.0.1:6379> AUTH {m.simple("redis-auth")}
snowflake.connector.connect(user='{m.person()}', password='{m.password("snowflake")}', account='{m.like("xy12345.eu-central-1")}')
conn = MySQLdb.connect("db", "{m.person()}", passwd="{m.password("mysqldb")}")
psql "host=db user={m.person()} password={m.simple("libpq")} dbname={m.app()} sslmode={m.like("require1")}"
SELECT * FROM api_tokens WHERE {m.like("token_hash = $1")};
ALTER TABLE users ADD COLUMN {m.like("password_reset_token varchar(64)")};
 id | name | {m.like("token_expires_at")}
"""


def _chatter(m: Maker) -> str:
    return m.random.choice(
        (
            f"creds for staging: {m.person()} / {m.secret('slash-password', m.human())}\npw: {m.secret('pw-prose', m.strong('!@%^*-_'))}",
            f"temporary password: {m.secret('temporary-password', m.strong('!@%^*-_'))} (change it on first login)",
            f"The new token is {m.secret('token-prose', m.alnum(40))}. Restart {m.app()} after setting it.",
            f"admin password = {m.secret('password-equals', m.human().replace('#', '!'))}",
            f"please use this bearer token: {m.secret('bearer-prose', m.url64(44))}",
            f"Username: {m.person()}\nPassword: {m.secret('password-line', m.strong('!@%^*-_'))}\nURL: {m.like('https://' + m.app() + '.example/login2')}",
            f"client id: {m.like(m.uuid())}, client secret: {m.secret('client-secret-prose', m.alnum(40))}",
            f"I forgot: the encryption key is {m.secret('key-prose', m.hex(64))}",
        )
    )  # fmt: skip


def _bodies(m: Maker) -> str:
    return f"""{{"consumer_key":"{m.secret("consumer-key", m.alnum(25))}","consumer_secret":"{m.secret("consumer-secret", m.alnum(50))}","access_token_secret":"{m.secret("token-secret", m.alnum(45))}"}}
{{"auth":{{"clientId":"{m.like(m.uuid())}","clientSecret":"{m.secret("client-secret", m.alnum(40))}"}},"webhook_secret":"{m.secret("webhook-secret", m.hex(40))}","signing_secret":"{m.secret("signing-secret", m.hex(32))}","bot_token":"{m.secret("bot-token", m.alnum(36))}"}}
{{"app_secret":"{m.secret("app-secret", m.hex(32))}","verify_token":"{m.secret("verify-token", m.alnum(20))}","page_id":"{m.like(m.digits(15))}"}}
{{"privateKey":"0x{m.secret("eth-key", m.hex(64))}","address":"0x{m.like(m.hex(40))}","chainId":{m.like("1")}}}
{{"kty":"EC","crv":"P-256","x":"{m.like(m.url64(43))}","y":"{m.like(m.url64(43))}","d":"{m.secret("jwk", m.url64(43))}","kid":"{m.like(m.uuid())}"}}
{{"kty":"RSA","n":"{m.like(m.url64(86))}","e":"{m.like("AQAB")}","kid":"{m.like(m.hex(40))}","use":"sig"}}
{{"id":"chatcmpl-{m.like(m.alnum(29))}","system_fingerprint":"{m.like("fp_" + m.hex(10))}","usage":{{"prompt_tokens":{m.like("9")},"total_tokens":{m.like("21")}}}}}
{{"id":"{m.like("pi_" + m.alnum(24))}","customer":"{m.like("cus_" + m.alnum(14))}","payment_method":"{m.like("pm_" + m.alnum(24))}","client_secret":"{m.secret("stripe-client-secret", "pi_" + m.alnum(24) + "_secret_" + m.alnum(25))}"}}
{{"thread_id":"{m.like("thread_" + m.alnum(24))}","assistant_id":"{m.like("asst_" + m.alnum(24))}","file":"{m.like("file-" + m.alnum(24))}"}}
client_id={m.like(m.alnum(20))}&client_secret={m.secret("form-secret", m.alnum(40))}&code={m.like("4f2")}&redirect_uri={m.like("https%3A%2F%2Fx.example%2Fcb1")}
username={m.person()}&password={m.secret("form-password", m.alnum(14))}&remember={m.like("1")}
{{"query":"{{\\\\"password\\\\": \\\\"{m.secret("double-escaped", m.alnum(18))}\\\\"}}"}}
"""


def _unlike(m: Maker) -> str:
    """Nothing in it is a secret."""
    return f"""message LoginRequest {{ string username = 1; string password = {m.like("2")}; bytes token = {m.like("3")}; }}
interface Props {{ token: {m.like("string")}; secret?: {m.like("string | null")}; password: {m.like("Password2")}; onToken: {m.like("(token: string) => void")} }}
def login(user: str, password: {m.like("SecretStr")} = {m.like("Field(..., min_length=8)")}) -> {m.like("Token2")}: ...
const PASSWORD_REGEX = {m.like("/^(?=.*[A-Z])(?=.*[0-9]).{8,64}$/")};
{{items.map((item) => <Row key={{{m.like("item.id1")}}} token={{{m.like("item.token1")}}} />)}}
if (event.key === '{m.like("ArrowDown1")}' || event.key === "{m.like("Enter")}") return;
redis-cli GET "{m.like("user:42:refresh_token")}"
kafka: partition key={m.like("order-2026-000123")} offset {m.like("182731")}
"password": "{m.like("Passwort")}", "passwordHint": "{m.like("Mindestens 8 Zeichen")}", "wrongPassword": "{m.like("Falsches Passwort, bitte erneut versuchen")}"
tokens used: {m.like("18231")}, tokens/s: {m.like("83.12")}, max_new_tokens={m.like("4096")}, token_type_ids={m.like("tensor([[0,1]])")}
tokenizer: {{"bos_token": "{m.like("<s>")}", "unk_token": "{m.like("[UNK]")}", "vocab_size": {m.like("32000")}}}
oid sha256:{m.like(m.hex(64))} size {m.like("132735")}
lineage "{m.like(m.uuid())}" serial {m.like("42")} terraform_version "{m.like("1.9.5")}"
subscription {m.like(m.uuid())} resource group {m.like("rg-prod-weu-01")} vault {m.like("kv-" + m.app() + "-01")}
keyVaultName: {m.like("kv-prod-weu-01")}, secretName: {m.like("db-password-v2")}, secretVersion: {m.like(m.hex(32))}
<label for="password">{m.like("Password:")}</label> <a href="{m.like("/reset-password?step=2")}">{m.like("Forgot password?")}</a>
- [ ] rotate the API key ({m.like("TICKET-1234")}), see {m.like("docs/secrets-2.md")}
secret scanning found {m.like("0")} secrets in {m.like("1832")} files; token budget {m.like("200k")}
Access token validity: {m.like("15m")}; refresh token validity: {m.like("30d")}; key size: {m.like("4096-bit")}; password policy: {m.like("min12-mixed")}
public key: {m.like("04" + m.hex(128))}
fingerprint {m.like(":".join(m.hex(2) for _ in range(16)))} key id {m.like("0x" + m.hex(16).upper())}
the token {m.like("expired2")} yesterday; the password {m.like("field1")} is empty; secret {m.like("santa2")} party at 7
password={m.like("<redacted>")} token={m.like("[FILTERED]")} secret={m.like("(hidden)")} api_key={m.like("•••••••••")} key={m.like("...")}
token = {m.like("tokens.pop()")}; secret = {m.like("await getSecret('db1')")}; password := {m.like("r.FormValue(`pw1`)")}
assert_eq!(token, {m.like("Token::Ident2")}); let key = {m.like("Key::from_slice(&bytes32)")};
{m.like("SECRET_KEY_BASE")} is not set; run {m.like("rails secret")} and export it
"""


def _logs(m: Maker) -> str:
    return f"""{m.time()}Z INFO  auth: issued token {m.like("tok_id=8812")} for user {m.like(m.uuid())} exp={m.like("1767225600")}
{m.time()}Z DEBUG http: request{{method=GET uri=/v1/me headers={{"authorization": "Bearer {m.secret("structured-bearer", m.url64(52))}", "accept": "*/*"}}}}
{m.time()}Z DEBUG config: database.password={m.simple("dotted-password")} database.pool={m.like("10")}
{m.time()}Z WARN  vault: lease {m.like("database/creds/app/" + m.alnum(24))} expires in {m.like("3600s")}
level=debug msg="connecting" dsn="host=db user={m.person()} password={m.simple("dsn-password")} port=5432" request_id={m.like(m.hex(16))}
[{m.time()}] WARN: Using a password on the command line interface can be insecure. {m.like("mysql: [Warning]")}
{{"ts": 1767225600.123, "caller": "{m.like("auth/token2.go:88")}", "msg": "refresh", "refresh_token": "{m.secret("log-refresh", m.alnum(48))}", "account": "{m.like(m.digits(10))}"}}
curl_trace: => Send header: PRIVATE-TOKEN: {m.secret("private-token", m.alnum(26))}
X-Vault-Token: {m.secret("vault-header", "hv" + "s." + m.url64(95))}
x-goog-api-key: {m.token("google-key")}
Ocp-Apim-Subscription-Key: {m.secret("apim-key", m.hex(32))}
api-key: {m.secret("azure-openai", m.hex(32))}
X-Amz-Security-Token: {m.secret("amz-token", "IQoJ" + "b3JpZ2luX2VjE" + m.b64(300))}
X-Amz-Date: {m.like("20260114T101500Z")}
sec-websocket-key: {m.like(m.b64(16))}
content-md5: {m.like(m.b64(16))}
"""


def _languages(m: Maker) -> str:
    return f"""config :{m.app()}, Repo, username: "{m.person()}", password: "{m.password("elixir")}", pool_size: {m.like("10")}
{{password, "{m.password("erlang")}"}}, {{port, {m.like("5432")}}}
{{:db-password "{m.password("clojure")}" :port {m.like("5432")}}}
local api_key = "{m.secret("lua", m.alnum(32))}" -- from the wiki
my %opts = (user => '{m.person()}', password => '{m.password("perl")}');
val dbPassword: String = "{m.password("scala")}"
Sys.setenv(WEATHER_API_KEY = "{m.secret("r", m.alnum(32))}")
ENV["MAPS_TOKEN"] = "{m.secret("julia", m.alnum(36))}"
const apiKey = '{m.secret("dart", m.alnum(39))}';
static const char *password = "{m.password("c")}";
Dim pwd As String = "{m.password("vb")}"
let secretKey = "{m.secret("swift", m.alnum(40))}"
final token = {m.like("await storage.read(key: 'token3')")};
password = {m.like("Rfc2898DeriveBytes(pw, salt, 10000)")}
let token = {m.like("lexer.next_token2()")}; match token.kind {{ {m.like("TokenKind::Ident3")} => x }}
key := {m.like("[]byte(os.Args[1])")}
"""


def _markup(m: Maker) -> str:
    return f"""<wsse:Password Type="PasswordText">{m.secret("soap", m.strong("!@%^*-_"))}</wsse:Password>
<Connection Server="db" User="{m.person()}" Password="{m.secret("xml-attribute", m.strong("!@%^*-_"))}"/>
<property name="password"><value>{m.secret("spring-xml", m.strong("!@%^*-_"))}</value></property>
<key>APIKey</key>
<string>{m.secret("plist", m.alnum(32))}</string>
<key>CFBundleIdentifier</key>
<string>{m.like("com.example." + m.app() + "2")}</string>
<meta-data android:name="com.google.android.geo.API_KEY" android:value="{m.token("google-key")}"/>
<input type="password" name="password" value="{m.like("")}" minlength="{m.like("12")}">
<secret name="{m.like("db-password-1")}"/> <token>{m.like("string")}</token>
<a href="/reset?token={m.secret("reset-link", m.url64(43))}">reset</a>
"""


def _helm(m: Maker) -> str:
    return f"""auth:
  rootPassword: {m.simple("helm-root")}
  replicationPassword: "{m.password("helm-replication")}"
  existingSecret: {m.like(m.app() + "-mysql-2")}
  secretKeys:
    adminPasswordKey: {m.like("postgres-password-2")}
redis:
  password: "{m.like("")}"
image:
  digest: {m.like("sha256:" + m.hex(64))}
data:
  password: {m.like("ENC[AES256_GCM,data:" + m.b64(12) + ",iv:" + m.b64(24) + ",type:str]")}
kind: SealedSecret
spec:
  encryptedData:
    password: {m.like("AgB" + m.b64(180))}
"""


def _jobs(m: Maker) -> str:
    return f"""withEnv(["DEPLOY_TOKEN={m.secret("jenkins-env", m.alnum(32))}"]) {{ sh 'make' }}
environment {{ SONAR_TOKEN = '{m.token("sonarqube")}' }}
withCredentials([string(credentialsId: '{m.like("npm-token-2")}', variable: '{m.like("NPM_TOKEN2")}')])
variables:
  DB_PASS: "{m.password("gitlab-ci")}"
  REGISTRY_TOKEN: {m.secret("gitlab-ci-token", m.alnum(40))}
sasl.jaas.config=org.apache.kafka.common.security.plain.PlainLoginModule required username="{m.person()}" password="{m.secret("kafka", m.strong("!@%^*-_"))}";
spark.hadoop.fs.s3a.secret.key {m.secret("spark", m.b64(30))}
spark.sql.shuffle.partitions {m.like("200")}
jdbc:mysql://db:3306/{m.app()}?user={m.person()}&password={m.simple("jdbc-parameter")}&useSSL={m.like("true")}
jdbc:sqlserver://db:1433;user={m.person()};password={m.simple("jdbc-semicolon")};encrypt={m.like("true1")}
TF_VAR_db_password={m.simple("tf-var")} terraform apply -var-file={m.like("prod2.tfvars")}
db_password = "{m.password("tfvars")}"
mongodb://{m.person()}:{m.simple("url-password")}@h1:27017,h2:27017/{m.app()}?replicaSet={m.like("rs0")}
CLOUDINARY_URL=cloudinary://{m.like(m.digits(15))}:{m.secret("cloudinary", m.alnum(27))}@{m.app()}
aws ssm put-parameter --name /{m.app()}/db_password --type SecureString --value {m.like("file://pw2.txt")}
{{"Parameter": {{"Name": "/{m.app()}/db_password", "Type": "SecureString", "Value": "{m.secret("ssm", m.alnum(20))}", "Version": {m.like("3")}}}}}
RUN curl -fsSL -H "Authorization: token {m.token("github-pat")}" https://api.github.com/repos/x/y/tarball/{m.like("v1.2.3")} | tar xz
"""


def _other_tongues(m: Maker) -> str:
    return m.random.choice(
        (
            f"Das Passwort lautet: {m.secret('german', m.human())}\nBitte nach der Demo ändern.",
            f"Passwort: {m.secret('german', m.human())}\nBenutzer: {m.person()}",
            f"contraseña: {m.secret('spanish', m.human())}\nusuario: {m.person()}",
            f"mot de passe : {m.secret('french', m.human())}\nidentifiant : {m.person()}",
            f"API key (prod): {m.secret('noted-key', m.alnum(36))}\nAPI key (dev): {m.like('see 1Password2')}",
            f"use {m.token('openai-project')} as OPENAI_API_KEY, and put {m.like('gpt-4o-2024-08-06')} as the model",
            f"- db: {m.person()} / {m.like('see vault2')}\n- wifi password: {m.secret('wifi-prose', m.human())}",
        )
    )


def _editors(m: Maker) -> str:
    return f"""{{
  "sqltools.connections": [{{ "name": "x", "username": "{m.person()}", "password": "{m.password("sqltools")}", "port": {m.like("5432")} }}],
  "cody.accessToken": "{m.secret("editor-token", "sgp_" + m.hex(40))}",
  "editor.tokenColorCustomizations": {{ "comments": "{m.like("#608b4e")}" }},
  "keybindings": [{{ "key": "{m.like("ctrl+k ctrl+1")}", "command": "{m.like("editor.action.token2")}" }}],
  "mcpServers": {{ "linear": {{ "command": "npx", "env": {{ "LINEAR_API_KEY": "{m.token("linear")}", "NODE_ENV": "{m.like("production1")}" }} }},
                  "db": {{ "args": ["-y", "server-postgres", "postgresql://{m.app()}:{m.simple("url-password")}@localhost/{m.app()}"] }} }},
  "apiKeyHelper": "{m.like("~/.claude/get-key2.sh")}",
  "http.proxy": "http://{m.person()}:{m.simple("url-password")}@proxy.example:3128",
  "telemetry.machineId": "{m.like(m.hex(64))}"
}}
// json5
apiKey: '{m.secret("json5", m.alnum(32))}', // production
export default defineConfig({{ token: '{m.secret("js-config", m.alnum(40))}', tokenPrefix: '{m.like("--tw-")}' }})
"""


def _printed(m: Maker) -> str:
    """Commands whose purpose is to print a secret, and others beside them."""
    many = [
        ("terraform output -raw db_password", m.simple("printed-terraform")),
        ("op read op://prod/db/door", m.simple("printed-op")),
        ("pass show work/" + m.app(), m.simple("printed-pass")),
        ("az keyvault secret show --vault-name kv --name x --query value -o tsv", m.simple("printed-az")),
        ("aws ecr get-login-password --region eu-west-1", m.secret("printed-ecr", "eyJ" + m.b64(300))),
        (
            "aws secretsmanager get-secret-value --secret-id x --query SecretString --output text",
            m.simple("printed-aws"),
        ),
        ("gcloud secrets versions access latest --secret=" + m.app(), m.simple("printed-gcloud")),
        ("vault kv get -field=door secret/app", m.simple("printed-vault")),
        ("kubectl get secret db -o jsonpath='{.data.door}' | base64 -d", m.simple("printed-kubectl")),
        ("bw get password " + m.app(), m.simple("printed-bw")),
        ("heroku auth:token", m.secret("printed-heroku", m.uuid())),
        ("cat /run/secrets/db_password", m.simple("printed-file")),
        ("printenv MAIL_PASSWORD", m.simple("printed-variable")),
        ("openssl rand -base64 32", m.secret("printed-random", m.b64(32))),
        ("terraform output -raw bucket", m.like(m.app() + "-bucket-prod-2")),
        ("terraform output -raw endpoint", m.like("db1." + m.lower(12) + ".eu-west-1.rds.amazonaws.com:5432")),
        ("op read op://prod/db/none", m.like("[ERROR] 2026/01/14 could not read secret op://prod/db/none")),
        ("gcloud auth print-access-token | wc -c", m.like("221")),
        ("export T=$(vault kv get -field=token secret/x)", m.like("build-2026-01-14.tar.gz")),
        ("git rev-parse HEAD", m.like(m.hex(40))),
        ("cat VERSION", m.like("2.14.3-rc1")),
    ]
    return "\n".join(f"$ {command}\n{said}" for command, said in m.random.sample(many, 12)) + "\n$ ls"


def _records(m: Maker) -> str:
    """Records that say themselves that they hold a secret."""
    return f"""{{"door": {{"sensitive": true, "type": "string", "value": "{m.password("tf-json")}"}}, "zone": {{"sensitive": false, "type": "string", "value": "{m.like("eu-central-1b")}"}}}}
{{"contentType": null, "id": "{m.like("https://kv1.vault.azure.net/secrets/door/" + m.hex(32))}", "tags": {{}}, "value": "{m.password("az-json")}"}}
{{"Parameter": {{"Name": "{m.like("/app/door1")}", "Type": "SecureString", "Value": "{m.password("ssm-secure")}", "Version": {m.like("3")}}}}}
{{"fields": [{{"type": "CONCEALED", "label": "door", "value": "{m.password("op-concealed")}"}}, {{"type": "STRING", "label": "host", "value": "{m.like("db1.internal")}"}}]}}
{{"unseal_keys_b64": ["{m.secret("unseal-list", m.b64(32))}", "{m.secret("unseal-list", m.b64(32))}"], "unseal_shares": {m.like("2")}}}
Unseal Key 1: {m.secret("unseal-key", m.b64(33))}
Unseal Progress {m.like("1/3")}, Unseal Nonce {m.like(m.uuid())}
"""


def _more_commands(m: Maker) -> str:
    user = m.person()
    return f"""$ sqlcmd -S db,{m.like("1433")} -U sa -P {m.simple("sqlcmd")} -Q 'select 1'
$ cqlsh -u {user} -p {m.simple("cqlsh")} 10.0.0.4 {m.like("9042")}
mysql> SET PASSWORD FOR '{user}'@'%' = '{m.secret("set-password", m.strong("!@%^*-_"))}';
$ mc alias set store https://minio.example {m.like(m.upper(20))} {m.secret("mc", m.alnum(40))}
$ rabbitmqctl add_user {user} {m.simple("rabbitmqctl")}
$ nmcli dev wifi connect {m.app()} password {m.simple("nmcli")}
C:\\> net user {user} {m.simple("net-user")} /add
$ snyk auth {m.secret("snyk", m.uuid())}
$ ./codecov -t {m.secret("codecov", m.uuid())} -f coverage.xml
$ vault operator unseal {m.secret("unseal", m.b64(33))}
$ ipmitool -H 10.0.0.9 -U ADMIN -P {m.simple("ipmitool")} power status
$ lftp -u {user},{m.simple("lftp")} sftp://files.example
$ whatever -u {user} -p {m.simple("any-command")} --port {m.like("8443")}
$ chpasswd <<< '{user}:{m.simple("here-string")}'
$ poetry config http-basic.internal {user} {m.simple("poetry")}
$ ngrok config add-authtoken {m.secret("ngrok", m.alnum(27) + "_" + m.alnum(21))}
$ net user administrator {m.like("/active:yes")}
$ mc alias set {m.like("ALIAS URL ACCESSKEY SECRETKEY")}
$ docker run -t {m.like("ubuntu2204")} bash
$ ssh -l {user} -p {m.like("2222")} {m.like("host22")}
"""


def _sentences(m: Maker) -> str:
    return f"""use password {m.secret("told-password", m.human().replace("#", "!"))} to log in
log in as deploy (password {m.secret("told-password", m.word() + m.digits(3))}) and restart it
set the password to {m.secret("told-password", m.word().capitalize() + m.digits(4) + "!")} for now
use {m.secret("told-password", m.word() + m.digits(3))} as the password
the wifi password is “{m.secret("told-password", m.plain() + m.digits(2))}” in the office
the password {m.like("field2")} is empty; the password {m.like("column1")} is {m.like("varchar2")}
password {m.like("reset")}, password {m.like("manager")}, password {m.like("is required")}, password {m.like("hashing with argon2id")}
sent the password to {m.like("server01")}; {m.like("config2")} is the password file
"""


def _broken_lines(m: Maker) -> str:
    """As a terminal of so many columns breaks them."""

    def broken(provider: str, before: str, width: int) -> str:
        value, first = PROVIDERS[provider](m), width - len(before)
        rest = [value[i : i + width] for i in range(first, len(value), width)]
        return before + m.secret("broken-" + provider, "\n".join([value[:first], *rest]))

    lead = f"the {m.app()} job of the night printed this while it was starting, rotate it: "
    return "\n".join(
        [
            broken("github-pat", lead[:72].rpartition(" ")[0] + " ", 80),
            broken("gitlab-pat", lead[-70:], 80),
            broken("anthropic", "ANTHROPIC_API_KEY=", 80),
            broken("openai-project", "export OPENAI_API_KEY=", 100),
            "last commit of a line that is as long as a terminal is wide, and of no secret " + m.like(m.hex(7)),
            m.like(m.hex(32)) + " and on",
        ]
    )


def _hidden(m: Maker) -> str:
    """Names in escapes, tokens with characters that nobody sees."""
    github = PROVIDERS["github-pat"](m)
    return f"""{{"user": "{m.person()}", "pass{chr(92)}u0077ord": "{m.secret("escaped-name", m.alnum(16))}"}}
api{chr(92)}u005fkey: {m.secret("escaped-name", m.alnum(32))}
copied: {m.secret("invisible", github[:12] + chr(0x200B) + github[12:])} from the page
{m.token("gitlab-pat")}{chr(92)}u200b and {m.token("npm")}{chr(0x2060)}
family {m.like(chr(0x1F468) + chr(0x200D) + chr(0x1F469))} and caf{m.like(chr(92) + "u00e9")} {chr(92)}u0064escription: {m.like("text2")}
"""


def _tails(m: Maker) -> str:
    end = "-----END " + m.one("RSA ", "", "EC ", "OPENSSH ") + "PRIVATE " + "KEY-----"
    return f"""$ tail -4 key.pem
{m.secret("pem-tail", chr(10).join([m.b64(48), m.b64(48), m.b64(21), end]))}
$ tail -3 server.crt
{m.like(m.b64(48))}
{m.like(m.b64(21))}
-----END CERTIFICATE-----
"""


SCENES: tuple[Callable[[Maker], str], ...] = (
    _environment, _dotenv, _dotenv_example, _compose, _terraform, _ansible, _kubernetes_secret, _kubernetes_deployment,
    _kubeconfig, _curl, _trace, _python, _javascript, _go_and_java, _connection_strings, _frameworks, _home_files,
    _cloud_files, _service_account, _application_default, _commands, _pull_url, _talk, _talk, _talk, _talk, _tokens_bare,
    _tokens_more, _tokens_named, _tokens_named, _keys, _keys_odd, _oauth, _presigned, _webhooks, _errors, _locks,
    _git_and_docker, _web, _documentation, _ci, _tests, _numbers, _more_files, _sql, _powershell, _diff, _escaped_body,
    _seeds, _colours, _browser, _cut_tokens, _shells, _representations, _php_and_ruby, _builds, _inspect, _collections,
    _servers, _databases, _chatter, _chatter, _chatter, _chatter, _bodies, _unlike, _unlike, _logs,
    _languages, _markup, _helm, _jobs, _other_tongues, _other_tongues, _other_tongues, _editors,
    _printed, _printed, _records, _more_commands, _sentences, _broken_lines, _hidden, _tails,
)  # fmt: skip


# --- how well they are found ------------------------------------------------------------------------------------------

_PIECE = re.compile(r"[^\s\"'`\\\\]{6,}")
_PLACEHOLDER = re.compile(r"\[REDACTED:([a-z0-9-]+)\]")


@dataclass(frozen=True, slots=True)
class Score:
    """What became of one log. A span is (start, stop, kind of the placeholder)."""

    missed: tuple[Planted, ...]
    wrong: tuple[tuple[int, int, str], ...]
    touched: tuple[Planted, ...]
    redactions: int


def score(log: Log, redacted: str) -> Score:
    """Compares a log with what is left of it.

    Missed is a secret of which a piece of six characters is still there to be found; wrong is a placeholder where no
    secret was, or one that took more than it with it, or a look-alike.
    """
    spans = _spans(log.text, redacted)
    missed = tuple(secret for secret in log.secrets if _left(log.text, spans, secret))
    touched = tuple(like for like in log.likes if any(a < like.stop and like.start < b for a, b, _ in spans))
    wrong = tuple(span for span in spans if not _right(span, log))
    return Score(missed, wrong, touched, len(spans))


def _left(text: str, spans: list[tuple[int, int, str]], secret: Planted) -> bool:
    gone = [(a, b) for a, b, _ in spans if a < secret.stop and secret.start < b]
    for piece in _PIECE.finditer(secret.value):
        start, stop = secret.start + piece.start(), secret.start + piece.end()
        if "KEY-----" in piece[0] or piece[0].isdigit() or "-----" in piece[0]:
            continue
        if not any(a <= start and stop <= b for a, b in gone):
            return True
    return not gone


def _right(span: tuple[int, int, str], log: Log) -> bool:
    start, stop, _ = span
    if any(like.start < stop and start < like.stop for like in log.likes):
        return False
    secret = sum(max(0, min(stop, each.stop) - max(start, each.start)) for each in log.secrets)
    return secret > 0 and stop - start - secret <= 16


def _spans(text: str, redacted: str) -> list[tuple[int, int, str]]:
    """Where the placeholders of `redacted` stood in `text`."""
    kept = _PLACEHOLDER.split(redacted)
    kinds = kept[1::2]
    pattern = "(.+?)".join(re.escape(each) for each in kept[::2])
    match = re.fullmatch(pattern, text, re.DOTALL)
    if match is None:
        raise AssertionError("what is left is no part of what was there")
    return [(*match.span(n + 1), kind) for n, kind in enumerate(kinds)]


def main(first: int, last: int) -> None:
    """Prints recall and precision over the corpora of some seeds."""
    from helix.redact.redact import redact

    logs = [log for seed in range(first, last) for log in corpus(seed)]
    scores = [score(log, redact(log.text)[0]) for log in logs]
    secrets = sum(len(log.secrets) for log in logs)
    missed = sum(len(each.missed) for each in scores)
    redactions = sum(each.redactions for each in scores)
    wrong = sum(len(each.wrong) for each in scores)
    touched = sum(len(each.touched) for each in scores)
    sys.stdout.write(
        f"{len(logs)} logs, {secrets} secrets: recall {1 - missed / secrets:.4f}; "
        f"{redactions} redactions: precision {1 - wrong / redactions:.4f}; "
        f"{sum(len(log.likes) for log in logs)} look-alikes: {touched} touched\n"
    )


if __name__ == "__main__":
    main(*map(int, sys.argv[1:3]))
