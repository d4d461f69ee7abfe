"""No pattern depends on a fault of Python before 3.11.4.

There a possessive repeat of more than one character, as in (?:ab?c)++, matches more than the atomic group
(?>(?:ab?c)+) (python/cpython issue 106052). Names were missed, and secrets with them.
"""

from __future__ import annotations

import subprocess
import sys

from tests.support.paths import ROOT

_PROGRAM = """
import importlib, pkgutil, re, sys
from re import _parser

patterns = {}
compile = re.compile


def record(pattern, flags=0):
    patterns[pattern] = flags, sys._getframe(1).f_globals["__name__"]
    return compile(pattern, flags)


def find_long_repeats(tree):
    for op, value in tree:
        if str(op) == "POSSESSIVE_REPEAT":
            inner = list(value[2])
            yield len(inner) != 1 or str(inner[0][0]) not in ("IN", "LITERAL", "NOT_LITERAL", "ANY")
        for part in value if isinstance(value, (tuple, list)) else (value,):
            for each in part if isinstance(part, list) else (part,):
                if isinstance(each, _parser.SubPattern):
                    yield from find_long_repeats(each)


re.compile = record
import helix.redact.redact
print("numpy" in sys.modules, "tomllib" in sys.modules, *(name for _, name in patterns.values() if "helix" in name))

for module in pkgutil.walk_packages(helix.__path__, "helix."):
    # Adapters and engines import the patterns of the packages they use.
    elsewhere = ("helix.adapters.", "helix.engines.")
    if not module.name.endswith(("__main__", "._kernels")) and not module.name.startswith(elsewhere):
        importlib.import_module(module.name)
from helix.redact import kinds
from helix.redact.redact import redact
from helix.redact.values import regex
from helix.text.dates import find_moments
from tests.support.planted.corpus import build_corpus

find_moments("in May")  # compiles its patterns on first use, as redact does
for log in build_corpus(5):
    redact(log.text)
for kind in kinds.read_token_kinds():
    regex(kinds.build_token_pattern(kind))
repeats = {p: [*find_long_repeats(_parser.parse(p, flags))] for p, (flags, _) in patterns.items() if isinstance(p, str)}
print(*(sum("helix." + part in patterns[p][1] for p in repeats) for part in ("redact", "")), end=" ")
print(sum(map(len, repeats.values())), [*find_long_repeats(_parser.parse("(x(?:y|(?:ab?c)++))"))])
print(*(pattern for pattern, found in repeats.items() if any(found)), sep="\\n")
"""


def test_import_of_redaction_compiles_nothing_and_possessive_repeats_are_of_one_character() -> None:
    done = subprocess.run([sys.executable, "-c", _PROGRAM], capture_output=True, text=True, check=True, cwd=ROOT)
    imported, counts, *broken = done.stdout.splitlines()
    assert imported == "False False"
    redacting, patterns, repeats, control = counts.split()
    assert int(redacting) > 150
    assert int(patterns) > 250
    assert int(repeats) > 170
    assert control == "[True]"
    assert [pattern for pattern in broken if pattern] == []
