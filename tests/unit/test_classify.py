from __future__ import annotations

import pytest

from helix.enrich.classify import CUES, PRECEDENCE, PRIORS, classify
from helix.types import TYPES


@pytest.mark.parametrize(
    ("text", "origin", "kind"),
    [
        ("We decided to use DuckDB instead of SQLite because it reads Parquet.", "human", "decision"),
        ("uhhh we decided on utils, not schema for GetIntFromMap, wth?", "human", "decision"),
        ("Let's go with Redis streams.", "human", "decision"),
        ("We'll use 3600 s as the visibility timeout.", "human", "decision"),
        ("To deploy, run the following:\n1. Build the image\n2. Push it", "assistant", "procedural"),
        ("Step 1: install uv. Step 2: create the environment.", "assistant", "procedural"),
        ("How to rebuild: first stop the workers, then delete the index, finally reindex.", "human", "procedural"),
        ("- Run `pip install helix`\n- Set HELIX_STORE\n- Restart the worker", "assistant", "procedural"),
        ("```python\ndef recall(query):\n    return search(query)\n```", "assistant", "code"),
        ('Traceback (most recent call last):\n  File "a.py", line 3, in f\nValueError: no', "human", "code"),
        ("diff --git a/x.py b/x.py\n@@ -1,2 +1,3 @@\n+import os", "human", "code"),
        ("/repo/src/main.rs\n/repo/src/lib.rs", "tool", "code"),
        ("I prefer tabs over spaces.", "human", "semantic"),
        ("My wife is a doctor and I'm allergic to nuts.", "human", "semantic"),
        ("The inbox is the ledger of accepted documents.", "document", "semantic"),
        ("I went to the park with Max yesterday, it was lovely.", "human", "episodic"),
        ("Let me check how analytics events are used.", "assistant", "episodic"),
        ("", "human", "episodic"),
        (";)", "human", "episodic"),
    ],
)
def test_types(text: str, origin: str, kind: str) -> None:
    role = {"human": "user", "assistant": "assistant", "tool": "tool", "document": "document"}[origin]
    found, sure = classify(text, role, origin)
    assert found == kind
    assert 0 <= sure < 1


def test_more_evidence_is_surer() -> None:
    _, one = classify("We decided to keep it.", "user", "human")
    _, two = classify("We decided to keep it instead of the other, because it is smaller.", "user", "human")
    assert two > one


def test_the_table_names_known_types_only() -> None:
    assert {row.name for row in CUES} == set(TYPES) == set(PRECEDENCE)
    assert {kind for kind, _ in PRIORS.values()} <= set(TYPES)
    assert all(0 < row.weight < 1 for row in CUES)


def test_an_unknown_origin_falls_back_to_the_role() -> None:
    assert classify("plain words", "tool", "robot") == classify("plain words", "tool", "tool")
    assert classify("plain words", "nobody", "robot") == classify("plain words", "user", "human")
