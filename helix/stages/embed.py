"""Stage 1: the question as a vector."""

from __future__ import annotations

from collections.abc import Callable

from helix.encoders.dense import Encoder
from helix.types import F32


def start_embedding(text: str, encoder: Encoder) -> Callable[[], F32]:
    """Tokenise a question; return a function that embeds it: float32[d], unit length.

    The encoder adds its model's query prefix. Work for other threads is better started between both steps: it would
    delay the first, and runs while the network does.
    """
    return encoder.start_query(text)
