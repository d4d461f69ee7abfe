"""Answers in which nothing is relevant: how the command line and MCP tell them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any


def is_irrelevant(answer: Mapping[str, Any]) -> bool:
    """Return whether nothing in an answer, as `render_bundle` returns it, is likely to help."""
    return not answer["packed"] and not answer["relevant"]


def explain_irrelevant(answer: Mapping[str, Any]) -> str | None:
    """Return a line for an answer in which nothing is relevant; None for any other."""
    if not answer["items"] or not is_irrelevant(answer):
        return None
    return f"nothing relevant: {answer['answered']:.0%} likely to help; the items are only the nearest"
