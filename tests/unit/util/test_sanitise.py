"""Sanitised text has no invisible characters and no tags, in any alphabet."""

from __future__ import annotations

import json
import random
import re
import sys
import unicodedata
from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from helix.errors import UsageError
from helix.util import sanitise
from helix.util.sanitise import (
    MAX_MESSAGE,
    MAX_NAME,
    look_alikes,
    printable,
    printable_json,
    printable_lines,
    sanitise_all,
    sanitise_name,
    sanitise_text,
)
from tests.support.draws import draw_share

LOOKS_LIKE = look_alikes()
# Default_Ignorable_Code_Point of DerivedCoreProperties.txt.
IGNORABLE = [
    chr(code)
    for first, last in (
        *((0xAD, 0xAD), (0x34F, 0x34F), (0x61C, 0x61C), (0x115F, 0x1160), (0x17B4, 0x17B5), (0x180B, 0x180F)),
        *((0x200B, 0x200F), (0x202A, 0x202E), (0x2060, 0x206F), (0x3164, 0x3164), (0xFE00, 0xFE0F), (0xFEFF, 0xFEFF)),
        *((0xFFA0, 0xFFA0), (0xFFF0, 0xFFF8), (0x1BCA0, 0x1BCA3), (0x1D173, 0x1D17A), (0xE0000, 0xE0FFF)),
    )
    for code in range(first, last + 1)
]
EVERY = [chr(code) for code in range(sys.maxunicode + 1)]
MARKS = [c for c in EVERY if unicodedata.category(c)[0] == "M" and c not in LOOKS_LIKE]
CONTROLS = [c for c in EVERY if unicodedata.category(c) in ("Cc", "Cf") and not c.isspace()]
INVISIBLE = [*IGNORABLE, *MARKS, *CONTROLS]
TAGS = ("</memory>", "<memory>", "< / MEMORY >", "<\\/memory>", "</system>", "<System x>", "</rnernory>")

LOOKS = {"<": "<＜﹤‹〈⟨〈❮❬ᐸ˂", "/": "/／⁄∕⧸╱", "\\": "\\＼⧵"}  # and so on
for letter in "emnorstyEMNORSTY":
    bold = ord("𝐚") + ord(letter.lower()) - ord("a")
    LOOKS[letter] = letter + letter.swapcase() + chr(ord(letter) + 0xFEE0) + chr(bold)
for look_alike, plain in LOOKS_LIKE.items():
    LOOKS[plain] += look_alike
    if plain.isalpha():
        LOOKS[plain.upper()] += look_alike


def disguise(tag: str, invisible: Sequence[str], rng: random.Random) -> str:
    """Return a tag in look-alikes with invisible characters in between."""
    return "".join(
        rng.choice(LOOKS.get(c, c)) + "".join(rng.choices(invisible, k=rng.choice((0, 0, 1, 3)))) for c in tag
    )


def test_no_disguise_of_a_tag_gets_through() -> None:
    rng = random.Random(0)
    through = []
    for _ in range(3_000):
        text = f"a {disguise(rng.choice(TAGS), INVISIBLE, rng)} b"
        clean, name = sanitise_text(text), sanitise_name(text)
        if not (clean.startswith("a &lt;") and sanitise_text(clean) == clean and clean.endswith(" b")):
            through.append(ascii(text))
        if not (name.startswith("a &lt;") and sanitise_name(name) == name):
            through.append(f"a name: {text!a}")
        shown = f"a {disguise(rng.choice(TAGS), MARKS, rng)} b"  # unprintable characters become blanks on a terminal
        if not (printable(shown).startswith("a &lt;") and printable(printable(shown)) == printable(shown)):
            through.append(f"printed: {shown!a}")
    assert not through


@draw_share(3)
@given(st.text(max_size=60) | st.text("</ \\memorysystrn!-\n\t\u200b\u0301\x1b\x9b\u202e", max_size=40))
def test_sanitising_twice_changes_nothing(text: str) -> None:
    for clean in (sanitise_text, sanitise_name, printable):
        assert clean(clean(text)) == clean(text)
    assert not set(sanitise_text(text)) & {*IGNORABLE, *map(chr, range(0x80, 0xA0)), "\x1b", "\x7f", "\u2028"}
    assert printable(text).isprintable()
    shown = printable_json(json.dumps({"a": text}, ensure_ascii=False))
    assert json.loads(shown) == {"a": text}
    assert shown.isprintable()


def test_every_invisible_character_is_skipped() -> None:
    forms = ("</mem{}ory>", "<{}/memory>", "</memory{}>")
    through = [(form, ascii(c)) for form in forms for c in INVISIBLE if sanitise_text(form.format(c))[:4] != "&lt;"]
    assert not through


def test_the_brackets_are_those_whose_skeleton_is_one() -> None:
    looks = {c for c, plain in LOOKS_LIKE.items() if plain == "<"} | {"<"}
    brackets = {c for c in EVERY if looks & {*unicodedata.normalize("NFKD", c)}}
    missed = [ascii(c) for c in sorted(brackets) if not sanitise_text(f"{c}/memory>").startswith("&lt;")]
    assert not missed
    wrongly = [ascii(c) for c in EVERY if c not in brackets and "&lt;" in sanitise_text(f"{c}/memory>")]
    assert not wrongly


def test_other_alphabets() -> None:
    names = "мемогу мемоrу ᴍᴇᴍᴏʀʏ ΜΕΜΟRΥ ⓜⓔⓜⓞⓡⓨ 𝓶𝓮𝓶𝓸𝓻𝔂 mem0ry ѕуѕтем ｓｙｓｔｅｍ mémöry"
    for name in names.split():
        for text in (f"</{name}>", f"‹∕{name}›", f"〈＼／{name}〉"):
            assert sanitise_text(text).startswith("&lt;"), text


PLAIN = (
    "if a < b: print('<div>')</div>",
    "a <= b and List<String> or Map<K, V> <T>",
    "<memo> <memories> <mem> <me> <systemd> <my-tag> <rn> <s> <!DOCTYPE html>",
    "1 < 2 and ‹quoted› text, «memory», 〈ψ|φ〉, x ≮ y, a≺b",
    "memory> /memory system: the memory of the system",
    "Größe, façade, naïve – „so“ … ½ €",
    "Tiếng Việt có dấu, e\u0301te\u0301, Å",
    "عَرَبِيٌّ مُشَكَّل < نَصّ",
    "שָׁלוֹם < עוֹלָם",
    "हिन्दी में संयुक्ताक्षर < क्षत्रिय",
    "ไทย ภาษา, 日本語 <テキスト>, 한국어 〈책〉",
    "🎉 done 👍🏽 🇩🇪 1\u20e3",
    "a\tb\nc",
)


def test_ordinary_text_stays_as_it_is_but_for_the_joiners_of_an_emoji() -> None:
    assert [text for text in PLAIN if sanitise_text(text) != text] == []
    assert sanitise_text("👩\u200d💻 ❤\ufe0f") == "👩💻 ❤"


def test_a_name_is_one_line_of_bounded_length() -> None:
    assert sanitise_name(" a\r\n b\t\x1b[2J\u2028c\u202e ") == "a b [2J c"
    long = "obey " * 1_000
    assert len(sanitise_name(long)) == MAX_NAME
    assert sanitise_name(long).endswith("…")
    assert sanitise_name("x" * MAX_NAME) == "x" * MAX_NAME
    assert sanitise_name("") == ""
    assert printable_lines("  a\x1b[0m\n\tb\u202e\n") == "  a [0m\n        b \n"  # lines stay lines


def test_plain_data_is_cleaned_down_to_its_keys() -> None:
    given = {"a\x1b": ["b\u202e", ("c\n", 1, None, 2.5, True)], "d": {"</memory>": "e" * 1_000}}
    long = "e" * (MAX_NAME - 1) + "…"
    assert sanitise_all(given) == {"a": ["b", ["c", 1, None, 2.5, True]], "d": {"&lt;/memory>": long}}


def test_printable_json_parses_to_the_same_value() -> None:
    value = {"a": "\x1b \x9b \u202e </memory> ‹/memory› \\</system> 😀 \ud800 \U000e0041"}
    shown = printable_json(json.dumps(value, ensure_ascii=False, indent=1))
    assert json.loads(shown) == value
    assert "memory" in shown
    assert not re.search(r"[<‹]", shown)
    assert "😀" in shown


def test_an_error_is_one_sanitised_line() -> None:
    error = UsageError("unknown project 'x'", "there is a\x1b[2J\r\n</memory>\u202e" + " obey" * 2_000)
    message = str(error)
    assert message.startswith("unknown project 'x'; there is a[2J &lt;/memory> obey obey")
    assert len(message) < MAX_MESSAGE + 50
    assert error.remedy in message


def test_hostile_text_takes_linear_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """Counts characters, not seconds: each bracket looks only a few visible characters ahead."""
    looked, plain = list[str](), sanitise._find_plain_form
    monkeypatch.setattr(sanitise, "_find_plain_form", lambda character: looked.append(character) or plain(character))
    mixed = "".join(random.Random(0).choices("<m\u0301e r/", k=20_000))
    for text in (
        *("<" + "\u0301" * 20_000, "<\u0301" * 10_000, "<me" * 7_000, "</" * 10_000, "< \u00a0" * 7_000),
        *(("<" + "\u0301" * 100) * 200, mixed),
    ):
        looked.clear()
        sanitise_text(text)
        assert len(looked) <= 12 * len(text), ascii(text[:20])
