"""The rules of words, names, sizes and imports, over the whole tree; tests/support/style.toml lists them."""

from __future__ import annotations

import pytest

from tests.support.style import CHECKS, find_all


@pytest.mark.parametrize("rule", CHECKS)
def test_the_tree_keeps_the_rules(rule: str) -> None:
    findings = find_all()[rule]
    assert not findings, "\n".join([f"{len(findings)} findings", *map(str, findings)])
