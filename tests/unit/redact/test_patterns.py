"""The patterns of redaction, which are compiled at their first use."""

from __future__ import annotations

import subprocess
import sys
import tomllib
from pathlib import Path

import helix.redact.kinds

_PROGRAM = """
import re, sys
from re import _parser

seen = {}
compile_pattern = re.compile


def record(pattern, flags=0):
    if sys._getframe(1).f_globals["__name__"].startswith("helix"):
        seen[pattern] = flags
    return compile_pattern(pattern, flags)


def list_possessive(tree):
    for op, value in tree:
        if str(op) == "POSSESSIVE_REPEAT":
            inner = list(value[2])
            yield len(inner) != 1 or str(inner[0][0]) not in ("IN", "LITERAL", "NOT_LITERAL", "ANY")
        for part in value if isinstance(value, (tuple, list)) else (value,):
            for each in part if isinstance(part, list) else (part,):
                if isinstance(each, _parser.SubPattern):
                    yield from list_possessive(each)


re.compile = record
import helix.redact.redact
print("numpy" in sys.modules, "tomllib" in sys.modules, len(seen))
from helix.redact import kinds
from helix.redact.redact import redact
from helix.redact.values import regex
from tests.support.planted.corpus import build_corpus

seen.clear()
for log in build_corpus(5):
    redact(log.text)
for kind in kinds.read_token_kinds():
    regex(kinds.build_token_pattern(kind))
found = [(pattern, [*list_possessive(_parser.parse(pattern, flags))]) for pattern, flags in seen.items()
         if isinstance(pattern, str)]
print(len(found), sum(len(repeats) for _, repeats in found))
print(*(pattern for pattern, repeats in found if any(repeats)), sep="\\n")
"""


def test_importing_compiles_nothing_and_possessive_repeats_are_of_single_characters() -> None:
    done = subprocess.run([sys.executable, "-c", _PROGRAM], capture_output=True, text=True, check=True)
    imported, counted, *broken = done.stdout.splitlines()
    assert imported == "False False 0"
    patterns, repeats = map(int, counted.split())
    assert patterns > 150
    assert repeats > 150
    assert [pattern for pattern in broken if pattern] == []


def test_the_table_names_its_licence() -> None:
    folder = Path(helix.redact.kinds.__file__).parent
    table = (folder / "data" / "secrets.toml").read_text(encoding="utf-8")
    assert tomllib.loads(table).keys() == {"alphabet", "token", "assigned", "own"}
    notice = (folder / "SECRETS-NOTICE.md").read_text(encoding="utf-8")
    for text in (table, notice):
        assert "Copyright (c) 2019 Zachary Rice" in text
    assert "Permission is hereby granted, free of charge" in notice
    assert "THE SOFTWARE IS PROVIDED" in notice
