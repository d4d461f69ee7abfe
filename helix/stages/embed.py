"""Stage 1: the question as a vector."""

from __future__ import annotations

from helix.encoders.dense import Encoder
from helix.types import F32


def embed(text: str, encoder: Encoder) -> F32:
    """Embed a question: float32[d], unit length. The encoder adds its model's query prefix."""
    return encoder.query(text)
