"""No pattern hangs on what Python 3.11 took until 3.11.4 for another thing than it is.

There a possessive repeat of more than one character, as in (?:ab?c)++, matched what an atomic group, (?>(?:ab?c)+),
rightly does not (python/cpython issue 106052): names were missed, and secrets with them.
"""

from __future__ import annotations

import subprocess
import sys

from tests.support.paths import ROOT

_LOOK = """
import importlib, pkgutil, re
from re import _parser

seen = []
really = re.compile


def keep(pattern, flags=0):
    seen.append((pattern, flags))
    return really(pattern, flags)


def lasting(tree):
    for op, value in tree:
        name = str(op)
        if name == "POSSESSIVE_REPEAT":
            inner = list(value[2])
            yield len(inner) != 1 or str(inner[0][0]) not in ("IN", "LITERAL", "NOT_LITERAL", "ANY")
        for part in value if isinstance(value, (tuple, list)) else (value,):
            for each in part if isinstance(part, list) else (part,):
                if isinstance(each, _parser.SubPattern):
                    yield from lasting(each)


re.compile = keep
import helix

for module in pkgutil.walk_packages(helix.__path__, "helix."):
    # The adapters bring the patterns of the packages they are for.
    if not module.name.endswith(("__main__", "._kernels")) and not module.name.startswith("helix.adapters."):
        importlib.import_module(module.name)
from helix.enrich.moments import moments

moments("in May")  # its patterns are compiled when they are first wanted
from helix.enrich.redact import redact
from tests.planted import corpus

for log in corpus(1):  # likewise
    redact(log.text)
found = [(pattern, [*lasting(_parser.parse(pattern, flags))]) for pattern, flags in seen if isinstance(pattern, str)]
print(sum(len(repeats) for _, repeats in found))
print(*(pattern for pattern, repeats in found if any(repeats)), sep="\\n")
print([*lasting(_parser.parse("(x(?:y|(?:ab?c)++))"))])
"""


def test_possessive_repeats_are_of_one_character() -> None:
    root = ROOT
    done = subprocess.run([sys.executable, "-c", _LOOK], capture_output=True, text=True, check=True, cwd=root)
    many, *broken, shown = done.stdout.splitlines()
    assert int(many) > 20  # it has seen some
    assert [pattern for pattern in broken if pattern] == []
    assert shown == "[True]"  # and knows one that would not do
