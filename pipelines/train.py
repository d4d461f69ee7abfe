"""Training the router: a classifier that knows questions which need no memory."""

from __future__ import annotations

import io
from importlib.resources import files

import numpy as np

from helix.encoders.onnx import Encoder

THRESHOLD = 0.97  # skipping a question that needed memory costs an answer; answering one that did not costs a few ms


def train_router(encoder: Encoder) -> bytes | str:
    """A logistic regression over query vectors, as the bytes of router.npz; or why it cannot be trained here."""
    try:
        from sklearn.linear_model import LogisticRegression
    except ImportError:
        return "scikit-learn is not installed (helix-recall[workers])"
    prompts = [(line, kind) for kind in (0, 1) for line in _lines("no_memory.txt" if kind else "memory.txt")]
    x = encoder.queries([text for text, _ in prompts])
    y = np.array([kind for _, kind in prompts])
    model = LogisticRegression(C=30.0, max_iter=2000, class_weight="balanced").fit(x, y)
    buffer = io.BytesIO()
    np.savez(
        buffer,
        weights=model.coef_[0].astype(np.float32),
        bias=np.float32(model.intercept_[0]),
        threshold=np.float32(THRESHOLD),
    )
    return buffer.getvalue()


def _lines(name: str) -> list[str]:
    text = (files("pipelines") / "router" / name).read_text("utf-8")
    return [line.strip() for line in text.splitlines() if line.strip()]
