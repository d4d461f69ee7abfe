"""Questions for identifiers with a typing error, to the items of a store.

python -m tests.support.bench.identifiers --store STORE [--questions 300]

Identifiers of one to five items are asked for, as they are and with an error in one of their parts
(`pipelines.eval.typing_errors`), with corrections and without. The items that have the identifier are the gold.
"""

from __future__ import annotations

import argparse
import random
import re
from collections import defaultdict
from dataclasses import replace
from pathlib import Path
from typing import Final
from unittest import mock

import numpy as np

from helix.sdk.memory import Memory
from helix.settings import load
from helix.text.spelling import IDENTIFIER
from pipelines.eval.typing_errors import misspell_word

K: Final = 10
MOST_ITEMS: Final = 5
WORDINGS: Final = ("where do we use {}", "why does {} fail", "{}")
_PART: Final = re.compile("[A-Z]?[a-z]{3,}")


def list_identifiers(texts: list[str]) -> dict[str, frozenset[str]]:
    """Return the items' texts by identifier, for identifiers of a few items."""
    found: defaultdict[str, set[str]] = defaultdict(set)
    for text in texts:
        for match in IDENTIFIER.finditer(text):
            found[match.group()].add(text)
    return {name: frozenset(found[name]) for name in sorted(found) if len(found[name]) <= MOST_ITEMS}


def misspell(identifier: str, rng: random.Random) -> str:
    """Return an identifier with an error in one of its parts."""
    start, end = rng.choice([match.span() for match in _PART.finditer(identifier)])
    return identifier[:start] + misspell_word(identifier[start:end], rng) + identifier[end:]


def measure_recall(memory: Memory, question: str, gold: frozenset[str]) -> float:
    """Return the share of the gold among the first ten."""
    return len({item.text for item in memory.recall(question, k=K).items} & gold) / len(gold)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--store", type=Path, required=True)
    parser.add_argument("--questions", type=int, default=300)
    given = parser.parse_args()
    memory, rng = Memory(given.store, replace(load(), answers=0)), random.Random(0)
    snap = memory.snapshot
    where = list_identifiers([entry["text"] for entry in snap.text(np.arange(snap.rows))])
    names = [name for name in where if _PART.search(name)]
    chosen = rng.sample(names, min(len(names), given.questions))
    recalls: defaultdict[str, list[float]] = defaultdict(list)
    for i, name in enumerate(chosen):
        wording, wrong = WORDINGS[i % len(WORDINGS)], misspell(name, rng)
        recalls["as it is"].append(measure_recall(memory, wording.format(name), where[name]))
        recalls["misspelled"].append(measure_recall(memory, wording.format(wrong), where[name]))
        with mock.patch("helix.recipes.default.find_corrections", return_value=()):
            recalls["… without corrections"].append(measure_recall(memory, wording.format(wrong), where[name]))
    whole = float(np.mean(recalls["as it is"]))
    print(f"{len(chosen)} identifiers of 1 to {MOST_ITEMS} items")
    for row, values in recalls.items():
        print(f"{row:24} recall@{K} {np.mean(values):.3f}   of that as it is {np.mean(values) / whole:.3f}")


if __name__ == "__main__":
    main()
