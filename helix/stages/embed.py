"""Stage 1: the question as a vector."""

from __future__ import annotations

from helix.encoders.dense import Encoder
from helix.types import F32


def embed(text: str, encoder: Encoder) -> F32:
    """Embed once, in full precision: float32[d], unit length.

    The query prefix of the model (bge and its kin want one) is the encoder's business.
    """
    return encoder.query(text)
