"""The patterns of redaction are compiled when they are first wanted, so that importing is cheap; here all are, and
looked at as test_patterns looks at those that are compiled at once."""

from __future__ import annotations

import subprocess
import sys
import tomllib
from pathlib import Path

import helix.redact.kinds

_LOOK = """
import re, sys
from re import _parser

seen = {}
really = re.compile


def keep(pattern, flags=0):
    if sys._getframe(1).f_globals["__name__"].startswith("helix"):
        seen[pattern] = flags
    return really(pattern, flags)


def lasting(tree):
    for op, value in tree:
        if str(op) == "POSSESSIVE_REPEAT":
            inner = list(value[2])
            yield len(inner) != 1 or str(inner[0][0]) not in ("IN", "LITERAL", "NOT_LITERAL", "ANY")
        for part in value if isinstance(value, (tuple, list)) else (value,):
            for each in part if isinstance(part, list) else (part,):
                if isinstance(each, _parser.SubPattern):
                    yield from lasting(each)


re.compile = keep
import helix.enrich.redact
print("numpy" in sys.modules, "tomllib" in sys.modules, len(seen))
from helix.enrich import secret_kinds
from helix.enrich.redact import redact
from helix.enrich.secret_values import regex
from tests.planted import corpus

seen.clear()
for log in corpus(5):
    redact(log.text)
for kind in secret_kinds.tokens():
    regex(secret_kinds._token_pattern(kind))
found = [(pattern, [*lasting(_parser.parse(pattern, flags))]) for pattern, flags in seen.items()
         if isinstance(pattern, str)]
print(len(found), sum(len(repeats) for _, repeats in found))
print(*(pattern for pattern, repeats in found if any(repeats)), sep="\\n")
"""


def test_importing_compiles_nothing_and_all_patterns_are_right_for_older_pythons() -> None:
    done = subprocess.run([sys.executable, "-c", _LOOK], capture_output=True, text=True, check=True)
    imported, counted, *broken = done.stdout.splitlines()
    assert imported == "False False 0"
    patterns, repeats = map(int, counted.split())
    assert patterns > 150
    assert repeats > 150
    assert [pattern for pattern in broken if pattern] == []


def test_the_table_says_whose_it_is() -> None:
    folder = Path(helix.redact.kinds.__file__).parent
    table = (folder / "secrets.toml").read_text(encoding="utf-8")
    assert tomllib.loads(table).keys() == {"alphabet", "token", "assigned", "own"}
    notice = (folder / "SECRETS-NOTICE.md").read_text(encoding="utf-8")
    for text in (table, notice):
        assert "Copyright (c) 2019 Zachary Rice" in text
    assert "Permission is hereby granted, free of charge" in notice
    assert "THE SOFTWARE IS PROVIDED" in notice
