"""Training the router, which recognises questions that need no memory, and the classifier of item types.

Both are trained once an encoder, and cached with the encoders.
"""

from __future__ import annotations

import io
from collections.abc import Callable
from importlib.resources import files
from pathlib import Path
from typing import Any, Final

import numpy as np
import orjson

from helix.encoders.dense import Encoder
from helix.enrich.classify import PRIORS, score_types
from helix.enrich.type_cues import CUES
from helix.enrich.type_model import DAMAGE, TypeModel, build_features, load_types
from helix.errors import StoreError
from helix.settings import Settings
from helix.snapshot import paths
from helix.snapshot.segment.batch import hash_parts
from helix.types import F32, TYPES, AnyArray

THRESHOLD = 0.975  # skipping a question that needs memory costs an answer; recalling needlessly costs milliseconds

ROUTER_STRENGTH = 50.0  # inverse regularisation
_PROMPTS = ("memory.txt", "no_memory.txt")

STRENGTHS = (1.0, 3.0, 10.0, 30.0)  # inverse regularisation, chosen by cross-validated log loss
FOLDS = 5
TEMPERATURES = tuple(round(0.5 + 0.05 * i, 2) for i in range(31))  # 0.5 … 2


def train_router(encoder: Encoder) -> bytes | str:
    """Fit a logistic regression over query vectors; return the bytes of router.npz, or why it cannot be trained."""
    try:
        from sklearn.linear_model import LogisticRegression
    except ImportError:
        return "scikit-learn is not installed (helix-recall[workers])"
    prompts = [(line, kind) for kind, name in enumerate(_PROMPTS) for line in _read_lines(name)]
    x = encoder.queries([text for text, _ in prompts])
    y = np.array([kind for _, kind in prompts])
    model = LogisticRegression(C=ROUTER_STRENGTH, max_iter=2000, class_weight="balanced").fit(x, y)
    return _dump(weights=model.coef_[0], bias=model.intercept_[0], threshold=THRESHOLD)


def _dump(**arrays: Any) -> bytes:
    buffer = io.BytesIO()
    np.savez(buffer, **{name: np.asarray(array, np.float32) for name, array in arrays.items()})  # type: ignore[arg-type]
    return buffer.getvalue()


def router_fingerprint() -> str:
    """Return sixteen hex digits of the router's prompts and constants."""
    return hash_parts(*(repr(_read_lines(name)) for name in _PROMPTS), repr((THRESHOLD, ROUTER_STRENGTH)))


def _read_lines(name: str) -> list[str]:
    text = (files("pipelines.training") / "data" / "router" / name).read_text("utf-8")
    return [line.strip() for line in text.splitlines() if line.strip()]


def train_types(encoder: Encoder) -> bytes | str:
    """Fit a softmax regression over `type_model.build_features`; return npz bytes, or why it cannot be trained.

    Its strength C and temperature have the least log loss on held-out folds.
    """
    try:
        from sklearn.linear_model import LogisticRegression
        from sklearn.model_selection import StratifiedKFold, cross_val_predict
        from threadpoolctl import threadpool_limits  # type: ignore[import-untyped]
    except ImportError:
        return "scikit-learn is not installed (helix-recall[workers])"
    rows = [orjson.loads(line) for line in _read_types().splitlines()]
    texts, roles, origins = ([row[name] for row in rows] for name in ("text", "role", "origin"))
    vectors = encoder.passages([_get_header(row) + row["text"] for row in rows])
    scores = [score_types(*item) for item in zip(texts, roles, origins, strict=True)]
    x = build_features(scores, roles, origins, vectors)
    y = np.array([TYPES.index(row["type"]) for row in rows])
    folds = StratifiedKFold(FOLDS, shuffle=True, random_state=0)
    with threadpool_limits(1):  # more threads slow matrices this small down
        held_out = {
            c: cross_val_predict(LogisticRegression(C=c, max_iter=2000), x, y, cv=folds, method="decision_function")
            for c in STRENGTHS
        }
    c, temperature = min(
        ((c, t) for c in STRENGTHS for t in TEMPERATURES), key=lambda pair: _log_loss(held_out[pair[0]] / pair[1], y)
    )
    with threadpool_limits(1):
        model = LogisticRegression(C=c, max_iter=2000).fit(x, y)
    return _dump(weights=model.coef_.T, bias=model.intercept_, temperature=temperature)


def types_fingerprint() -> str:
    """Return sixteen hex digits of the classifier's texts, cues and constants."""
    cues = [(*row[:3], row.pattern.pattern, *row[4:7], *sorted(row.words)) for row in CUES]
    return hash_parts(_read_types(), repr(cues), repr(PRIORS), repr((STRENGTHS, FOLDS, TEMPERATURES)))


def _read_types() -> str:
    return (files("pipelines.training") / "data" / "types" / "texts.jsonl").read_text("utf-8")


def _get_header(row: dict[str, str]) -> str:
    """Return the header of an item's indexed text."""
    return f"{row['speaker']}: " if "speaker" in row else ""


def _log_loss(logits: F32, y: AnyArray) -> float:
    """Return the mean negative log likelihood of classes y int[n] under softmax(logits float[n, k])."""
    shifted = logits - logits.max(axis=1, keepdims=True)
    chosen = shifted[np.arange(len(y)), y] - np.log(np.exp(shifted).sum(axis=1))
    return float(-chosen.mean())


_loaded: Final[dict[Path, TypeModel]] = {}


def load_router(encoder: Encoder, settings: Settings) -> bytes | str:
    """Return the bytes of router.npz for an encoder's vectors, or why there is no router.

    Raises:
        StoreError: the cache cannot be written, or holds a damaged file.
    """
    return _load_or_train(_locate(settings, encoder, "router", router_fingerprint()), lambda: train_router(encoder))


def load_type_model(encoder: Encoder, settings: Settings) -> TypeModel | str:
    """Return the classifier over an encoder's vectors, or the reason for its absence.

    Raises:
        StoreError: the cache cannot be written, or holds a damaged file.
    """
    path = _locate(settings, encoder, "types", types_fingerprint())
    if path not in _loaded:
        data = _load_or_train(path, lambda: train_types(encoder))
        if isinstance(data, str):
            return data
        _loaded[path] = load_types(data)
    return _loaded[path]


def _locate(settings: Settings, encoder: Encoder, kind: str, fingerprint: str) -> Path:
    return Path(settings.cache).expanduser() / "classifiers" / f"{kind}-{encoder.spec.fingerprint}-{fingerprint}.npz"


def _load_or_train(path: Path, train: Callable[[], bytes | str]) -> bytes | str:
    """Return the bytes of an npz file; train and write it first where it is missing."""
    if not path.is_file():
        trained = train()
        if not isinstance(trained, str):
            path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
            paths.write_file(path, trained)
        return trained
    data = path.read_bytes()
    try:
        with np.load(io.BytesIO(data), allow_pickle=False) as arrays:
            for name in arrays.files:
                arrays[name]  # each has its checksum
    except DAMAGE as error:
        raise StoreError(f"{path} is damaged: {error}", "delete it: Helix trains it again") from None
    return data
