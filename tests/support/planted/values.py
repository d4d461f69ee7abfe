"""Random values in the shapes of people, generators and providers, and the rendering of templates with them."""

from __future__ import annotations

import base64
import json
import random
import re
import string
from pathlib import Path

from tests.support.planted.template import END, LIKE, Sequence, mark_secret, parse_template, read_sections

_SYMBOLS = "!@#%^&*-_+=?."
_SALT = string.ascii_letters + string.digits + "!@#%^&*()-_=+[]|:,./?~ "
_DATA = Path(__file__).parent
PROVIDERS = dict(line.split(" ", 1) for line in (_DATA / "providers.txt").read_text().splitlines())
"""Provider → the template of its tokens. Their prefixes tell them anywhere."""

_LISTS = {name: text.split() for name, text in read_sections("words.txt")}
_LAZY = {"pick", "chance", "tokens", "name_rows"}  # render their arguments themselves
_RAW = {"let", "env", "json", "encode", "one", "shuffle", "first", "last", "skip", "whole_words"}  # keep spaces


class Values:
    """A seeded source of values. The public methods are the calls of the template language."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self._names: dict[str, str] = {}

    # --- rendering

    def render(self, template: str, **names: str) -> str:
        """Render a template with variables."""
        self._names = names
        return self._join(parse_template(template))

    def _join(self, sequence: Sequence, **names: str) -> str:
        self._names.update(names)
        return "".join(node if isinstance(node, str) else self._resolve(*node) for node in sequence)

    def _resolve(self, bracket: str, sequences: tuple[Sequence, ...]) -> str:
        if bracket == "⟪":
            return mark_secret(*map(self._join, sequences))
        if bracket == "⟨":
            return f"{LIKE}{self._join(sequences[0])}{END}"
        if not sequences[0]:
            return ""  # ‹› parts a text that scanners would report
        name, space, rest = sequences[0][0].partition(" ")
        if not space and name in self._names:
            return self._names[name]
        sequences = ((rest, *sequences[0][1:]), *sequences[1:])
        if name in _LAZY:
            return str(getattr(self, name)(*sequences))
        values = [self._join(sequence) for sequence in sequences]
        if len(values) > 1 or name in _RAW:
            return str(getattr(self, name)(*values))
        return str(getattr(self, name)(*(int(word) if word.isdigit() else word for word in values[0].split())))

    # --- forms

    def let(self, pair: str) -> str:
        name, value = pair.split(" ", 1)
        self._names[name] = value
        return ""

    def one(self, *values: str) -> str:
        return self.random.choice(values).removeprefix("\n")

    def pick(self, *sequences: Sequence) -> str:
        return self._join(self.random.choice(sequences))

    def chance(self, share: Sequence, likely: Sequence, other: Sequence) -> str:
        return self._join(likely if self.random.random() < float(share[0]) else other)

    def shuffle(self, *lines: str) -> str:
        shuffled = [line.removeprefix("\n") for line in lines]
        self.random.shuffle(shuffled)
        return "\n".join(shuffled)

    def sample(self, count: str, *lines: str) -> str:
        return "\n".join(line.removeprefix("\n") for line in self.random.sample(lines, int(count)))

    def tokens(self, count: Sequence, form: Sequence) -> str:
        """Tokens of some providers, each in one line of a form."""
        names = self.random.sample(sorted(PROVIDERS), int(count[0]))
        return "\n".join(
            self._join(form, name=name, under=name.replace("-", "_"), value=self.token(name)) for name in names
        )

    def name_rows(self, count: Sequence, form: Sequence, *rows: Sequence) -> str:
        """Some of the rows `NAME value`, each in one line of a form."""
        pairs = [self._join(row).removeprefix("\n").split(" ", 1) for row in rows]
        lines = []
        for name, value in self.random.sample(pairs, int(count[0])):
            camel = re.sub(r"_(\w)", lambda match: match[1].upper(), name.lower())
            secret = mark_secret(f"named-{name.lower()}", value)
            line = self._join(form, name=name, lower_name=name.lower(), camel=camel, value=secret)
            lines.append(line.removeprefix("\n"))
        return "\n".join(lines)

    def env(self, pair: str) -> str:
        name, value = pair.split(" ", 1)
        return self.one(f"{name}={value}", f'{name}="{value}"', f"export {name}={value}", f"{name}='{value}'")

    def json(self, text: str) -> str:
        return json.dumps(text, ensure_ascii=False)[1:-1]

    def encode(self, text: str) -> str:
        return base64.b64encode(text.encode()).decode()

    def number(self, mark: str, text: str) -> str:
        return "\n".join(f"{n:6d}{mark}{line}" for n, line in enumerate(text.split("\n"), 1))

    def first(self, pair: str) -> str:
        count, text = pair.split(" ", 1)
        return text[: int(count)]

    def last(self, pair: str) -> str:
        count, text = pair.split(" ", 1)
        return text[-int(count) :]

    def skip(self, pair: str) -> str:
        count, text = pair.split(" ", 1)
        return text[int(count) :]

    def whole_words(self, pair: str) -> str:
        return self.first(pair).rpartition(" ")[0] + " "

    # --- characters

    def char(self, code: str | int) -> str:
        return chr(int(str(code), 16))

    def integer(self, low: int, high: int) -> str:
        return str(self.random.randint(low, high))

    def draw(self, alphabet: str, length: int) -> str:
        return "".join(self.random.choices(alphabet, k=length))

    def hex(self, length: int) -> str:
        return self.draw("0123456789abcdef", length)

    def upper_hex(self, length: int) -> str:
        return self.hex(length).upper()

    def alnum(self, length: int) -> str:
        while True:  # keys without two digits are rare, and rules require digits
            value = self.draw(string.ascii_letters + string.digits, length)
            if length < 8 or sum(c.isdigit() for c in value) > 1:
                return value

    def letters(self, length: int) -> str:
        return self.draw(string.ascii_letters, length)

    def lower(self, length: int) -> str:
        return self.draw(string.ascii_lowercase + string.digits, length)

    def upper(self, length: int) -> str:
        return self.draw(string.ascii_uppercase + "234567", length)

    def digits(self, length: int) -> str:
        return self.draw("123456789", 1) + self.draw(string.digits, length - 1)

    def url64(self, length: int) -> str:
        return self.alnum(1) + self.draw(string.ascii_letters + string.digits + "-_", length - 2) + self.alnum(1)

    def b64(self, size: int) -> str:
        return base64.b64encode(self.random.randbytes(size)).decode()

    def bare_b64(self, size: int) -> str:
        return self.b64(size).rstrip("=")

    def percent_b64(self, size: int) -> str:
        return self.b64(size).replace("+", "%2B").replace("/", "%2F").replace("=", "%3D")

    def uuid(self) -> str:
        return "-".join(map(self.hex, (8, 4, 4, 4, 12)))

    def fingerprint(self) -> str:
        return ":".join(self.hex(2) for _ in range(16))

    def svg_path(self) -> str:
        uniform = self.random.uniform
        return " ".join(f"{self.one(*'MLCcl')}{uniform(0, 99):.3f} {uniform(0, 99):.3f}" for _ in range(20))

    def salt(self) -> str:
        value = self.alnum(1) + "".join(self.random.choice(_SALT) for _ in range(62)) + self.alnum(1)
        return value.replace("'", "x")

    # --- words

    def word(self) -> str:
        return self.random.choice(_LISTS["words"])

    def short_word(self) -> str:
        return self.word()[:3]

    def Word(self) -> str:
        return self.word().capitalize()

    def words(self, count: int) -> str:
        return " ".join(self.word() for _ in range(count))

    def app(self) -> str:
        return self.random.choice(_LISTS["apps"])

    def person(self) -> str:
        return self.random.choice(_LISTS["people"])

    def time(self) -> str:
        r = self.random.randint
        return f"2026-0{r(1, 9)}-{r(10, 28)}T{r(10, 23)}:{r(10, 59)}:{r(10, 59)}"

    # --- passwords

    def strong(self, symbols: str = _SYMBOLS) -> str:
        """A generator's: letters, digits, signs."""
        body = [*self.alnum(self.random.randint(10, 22)), *self.draw(symbols, self.random.randint(1, 3))]
        self.random.shuffle(body)
        return self.draw(string.ascii_letters, 1) + "".join(body) + self.alnum(1)

    def strong_alnum(self) -> str:
        body = [*self.alnum(18)]
        self.random.shuffle(body)
        return self.draw(string.ascii_letters, 1) + "".join(body) + self.alnum(1)

    def human(self) -> str:
        """A person's: words, digits, a sign."""
        r, first, second = self.random, self.word(), self.word()
        leet = first.replace("e", "3").replace("o", "0").replace("a", "4").capitalize()
        forms = (
            f"{first.capitalize()}{second.capitalize()}{r.randint(10, 9999)}",
            f"{first}{r.randint(10, 999)}{r.choice('!@#')}",
            f"{first[:3]}{r.randint(1, 9)}{second[2:]}_{r.randint(10, 99)}", f"{first}-{second}-{r.randint(10, 99)}",
            f"{leet}!{r.randint(1, 99)}{second[:2]}",
        )  # fmt: skip
        return r.choice(forms)

    def tame_human(self) -> str:
        return self.human().replace("#", "!")

    def plain(self) -> str:
        return self.word() + self.word()

    def phrase(self) -> str:
        return self.words(self.random.randint(4, 6))

    def password(self, kind: str) -> str:
        return mark_secret(kind, self.one(self.strong("!@#%^*-_+=?."), self.human(), self.alnum(16)))

    def tame_password(self, kind: str) -> str:
        return self.password(kind).replace("#", "!")

    def simple(self, kind: str) -> str:
        """A password that needs no quotes."""
        return mark_secret(kind, self.one(self.strong("-_."), self.tame_human(), self.alnum(20)))

    def login(self) -> str:
        return self.encode(f"{self.person()}:{self.strong()}")

    # --- tokens and keys

    def raw(self, provider: str) -> str:
        return self._join(parse_template(PROVIDERS[provider]))

    def token(self, provider: str) -> str:
        return mark_secret(provider, self.raw(provider))

    def any_token(self) -> str:
        return self.token(self.random.choice(sorted(PROVIDERS)))

    def cut(self, provider: str) -> str:
        """A token without its last characters, as screens cut it."""
        value = self.raw(provider)
        return mark_secret(f"cut-{provider}", value[: -self.random.randint(2, 7)])

    def break_token(self, provider_width: str, before: str) -> str:
        """A token that a terminal of some columns breaks across lines."""
        provider, width = provider_width.split(" ")
        value, columns, end = self.raw(provider), int(width), int(width) - len(before)
        rest = [value[i : i + columns] for i in range(end, len(value), columns)]
        return before + mark_secret(f"broken-{provider}", "\n".join([value[:end], *rest]))

    def jwt(self, kind: str = "jwt") -> str:
        def encode(value: object) -> str:
            return base64.urlsafe_b64encode(json.dumps(value, separators=(",", ":")).encode()).decode().rstrip("=")

        header = {"alg": self.one("HS256", "RS256"), "typ": "JWT"}
        payload = {"sub": self.uuid(), "name": self.person(), "iat": 1700000000 + self.random.randint(0, 9**7)}
        return mark_secret(kind, f"{encode(header)}.{encode(payload)}.{self.url64(43)}")

    def armour(self, sort: str, lines: str, newline: str) -> str:
        end = f"-----END {sort}PRIVATE " + "KEY-----"
        return newline.join([self.cut_armour(sort, lines, newline), self.b64(21), end])

    def cut_armour(self, sort: str, lines: str, newline: str) -> str:
        begin = f"-----BEGIN {sort}PRIVATE " + "KEY-----"
        return newline.join([begin, *(self.b64(48) for _ in range(int(lines)))])
