"""Training the router, which recognises questions that need no memory, and the classifier of item types.

Both are trained once an encoder, and cached with the encoders. Those of the packaged encoders are recorded.
"""

from __future__ import annotations

import io
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache
from importlib.resources import files
from pathlib import Path
from typing import Any, Final

import numpy as np
import orjson

from helix.encoders.dense import Encoder
from helix.enrich.classify import PRIORS, score_types
from helix.enrich.type_cues import CUES
from helix.enrich.type_model import DAMAGE, TERM_SCALE, TypeModel, build_features, find_terms, load_types
from helix.enrich.type_terms import list_terms
from helix.errors import StoreError
from helix.settings import Settings
from helix.snapshot import paths
from helix.snapshot.segment.batch import hash_parts
from helix.stages.skip_rules import PROMPT_FEATURES, describe_prompt
from helix.types import F32, TYPES, AnyArray
from pipelines.training.recorded import read_recorded

THRESHOLD = 0.975  # skipping a question that needs memory costs an answer; recalling needlessly costs milliseconds

ROUTER_STRENGTH = 50.0  # inverse regularisation
_PROMPTS = ("memory.txt", "no_memory.txt")
_MORE = ("project_questions.txt", "chores.txt")  # for the classifier of prompts alone
_PROMPT_STRENGTH = 1.0  # inverse regularisation
_PAIRS = 20_000  # of unrelated prompts, whose cosines are the background

STRENGTH = 20.0  # inverse regularisation
FOLDS = 5
TEMPERATURES = tuple(round(0.5 + 0.05 * i, 2) for i in range(31))  # 0.5 … 2
LEAST_TEXTS = 2
"""Training texts that have a term the classifier knows."""

SHARES: Final = {
    "said": {"episodic": 0.58, "semantic": 0.12, "procedural": 0.08, "decision": 0.17, "code": 0.05},
    "agent": {"episodic": 0.38, "semantic": 0.27, "procedural": 0.13, "decision": 0.08, "code": 0.14},
    "tool": {"episodic": 0.05, "semantic": 0.06, "procedural": 0.02, "decision": 0.02, "code": 0.85},
    "document": {"episodic": 0.10, "semantic": 0.45, "procedural": 0.25, "decision": 0.10, "code": 0.10},
}
"""Kind of origin → the types' shares of its items, estimated from logs, chats and meetings."""

_KINDS: Final = {"assistant": "agent", "subagent": "agent", "tool": "tool", "document": "document"}
"""Origin → kind; the others are `said`."""

_PROBE: Final = "{laughs} Well, I do n't know: let's use `fsync()` with --all from src/a_b.py 2.5 times? (No.)"
"""A text whose terms change with what counts as a term."""

_TEMPER: Final = 0.6
"""Exponent of the weights that bring the training texts to SHARES: 0 leaves the texts' own shares."""


def train_router(encoder: Encoder) -> bytes | str:
    """Fit logistic regressions over query vectors; return the bytes of router.npz, or why it cannot be trained.

    The first skips questions; the second, of the wording as well, is a signal of relevance and knows chores, too.
    """
    try:
        from sklearn.linear_model import LogisticRegression
    except ImportError:
        return "scikit-learn is not installed (helix-recall[workers])"
    prompts = [(line, kind) for kind, name in enumerate(_PROMPTS) for line in _read_lines(name)]
    x = encoder.queries([text for text, _ in prompts])
    y = np.array([kind for _, kind in prompts])

    general = LogisticRegression(C=ROUTER_STRENGTH, max_iter=2000, class_weight="balanced").fit(x, y)
    needless = _make_prompt_classifier().fit(*describe_prompts(encoder, x)[1:])
    return _dump(
        weights=general.coef_[0],
        bias=general.intercept_[0],
        threshold=THRESHOLD,
        prompt_weights=needless.coef_[0],
        prompt_bias=needless.intercept_[0],
        background=_measure_background(x),
    )


def _make_prompt_classifier() -> Any:
    from sklearn.linear_model import LogisticRegression

    return LogisticRegression(C=_PROMPT_STRENGTH, max_iter=2000, class_weight="balanced")


def describe_prompts(encoder: Encoder, known: F32 | None = None) -> tuple[list[str], F32, AnyArray]:
    """Return the prompts that `needless` is trained on, their vectors and wordings, and 1 for those without need.

    Args:
        known: vectors of the first of them, of `_PROMPTS`.
    """
    lines = [
        (line, kind) for names in (_PROMPTS, _MORE) for kind, name in enumerate(names) for line in _read_lines(name)
    ]
    texts = [line for line, _ in lines]
    first = 0 if known is None else len(known)
    vectors = np.vstack([*([] if known is None else [known]), encoder.queries(texts[first:])])
    marks = np.stack([describe_prompt(text) for text in texts])
    return texts, np.hstack([vectors, marks]), np.array([kind for _, kind in lines])


def predict_left_out(encoder: Encoder) -> dict[str, float]:
    """Return the log-odds of each prompt by classifiers that were trained without it, by text."""
    from sklearn.model_selection import StratifiedKFold, cross_val_predict

    texts, x, y = describe_prompts(encoder)
    folds = StratifiedKFold(FOLDS, shuffle=True, random_state=0)
    scores = cross_val_predict(_make_prompt_classifier(), x, y, cv=folds, method="decision_function")
    return dict(zip(texts, scores.tolist(), strict=True))


def _measure_background(x: F32) -> tuple[float, float]:
    """Return mean and deviation of the cosines of random pairs of prompts, most of which have nothing in common."""
    left, right = np.random.default_rng(0).integers(0, len(x), (2, _PAIRS))
    cosines = np.einsum("nd,nd->n", x[left], x[right])[left != right]
    return float(cosines.mean()), float(cosines.std())


def _dump(**arrays: Any) -> bytes:
    """Return an npz file of the arrays: bytes as uint8, the others as float32."""
    buffer = io.BytesIO()
    np.savez(buffer, **{name: _to_array(value) for name, value in arrays.items()})  # type: ignore[arg-type]
    return buffer.getvalue()


def _to_array(value: Any) -> AnyArray:
    return np.frombuffer(value, np.uint8) if isinstance(value, bytes) else np.asarray(value, np.float32)


def router_fingerprint() -> str:
    """Return sixteen hex digits of the router's prompts and constants."""
    constants = (THRESHOLD, ROUTER_STRENGTH, _PROMPT_STRENGTH, _PAIRS, PROMPT_FEATURES)
    return hash_parts(*(repr(_read_lines(name)) for name in (*_PROMPTS, *_MORE)), repr(constants))


def _read_lines(name: str) -> list[str]:
    text = (files("pipelines.training") / "data" / "router" / name).read_text("utf-8")
    return [line.strip() for line in text.splitlines() if line.strip()]


def train_types(encoder: Encoder) -> bytes | str:
    """Fit a softmax regression over `type_model.build_features` and terms; return npz bytes, or why it cannot be.

    The temperature has the least log loss on held-out folds.
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
    features = build_features(scores, roles, origins, vectors)
    terms = list_known_terms(texts)
    x = _join_terms(features, texts, {term: i for i, term in enumerate(terms)})
    y, weights = np.array([TYPES.index(row["type"]) for row in rows]), weigh_rows(rows)
    regression = LogisticRegression(C=STRENGTH, max_iter=2000)
    folds = StratifiedKFold(FOLDS, shuffle=True, random_state=0)
    with threadpool_limits(1):  # more threads slow matrices this small down
        held_out = cross_val_predict(
            regression, x, y, cv=folds, method="decision_function", params={"sample_weight": weights}
        )
        model = regression.fit(x, y, sample_weight=weights)
    width = features.shape[1]
    return _dump(
        weights=model.coef_.T[:width],
        bias=model.intercept_,
        temperature=min(TEMPERATURES, key=lambda t: _log_loss(held_out / t, y, weights)),
        terms="\n".join(terms).encode(),
        term_weights=model.coef_.T[width:],
    )


def list_known_terms(texts: Sequence[str]) -> list[str]:
    """List the terms that at least LEAST_TEXTS of the texts have, sorted."""
    count = Counter(term for text in texts for term in list_terms(text))
    return sorted(term for term, number in count.items() if number >= LEAST_TEXTS)


def _join_terms(features: F32, texts: Sequence[str], known: Mapping[str, int]) -> Any:
    """Return a sparse float32[n, f + t]: the features, and each text's known terms with a length of TERM_SCALE."""
    from scipy.sparse import csr_array, hstack

    found = [find_terms(text, known) for text in texts]
    lengths = [len(rows) for rows in found]
    columns = np.array([row for rows in found for row in rows], np.int32)
    values = np.repeat(TERM_SCALE / np.sqrt(np.maximum(lengths, 1)), lengths).astype(np.float32)
    counts = csr_array((values, columns, np.cumsum([0, *lengths])), shape=(len(texts), len(known)))
    return hstack([csr_array(features), counts], format="csr")


def weigh_rows(rows: Sequence[Mapping[str, str]]) -> F32:
    """Return the weight of each training row, float32[n], mean 1: rare types of an origin in SHARES count less."""
    kinds = [_KINDS.get(row["origin"], "said") for row in rows]
    count, total = Counter(zip(kinds, (row["type"] for row in rows), strict=True)), Counter(kinds)
    ratios = [
        SHARES[kind][row["type"]] * total[kind] / count[kind, row["type"]]
        for kind, row in zip(kinds, rows, strict=True)
    ]
    weights = np.asarray(ratios, np.float32) ** _TEMPER
    return np.asarray(weights / weights.mean(), np.float32)


def types_fingerprint() -> str:
    """Return sixteen hex digits of the classifier's texts, cues and constants."""
    cues = [(*row[:3], row.pattern, *row[4:7], *sorted(row.words)) for row in CUES]
    constants = (STRENGTH, FOLDS, TEMPERATURES, LEAST_TEXTS, SHARES, _KINDS, _TEMPER, TERM_SCALE)
    return hash_parts(
        _hash_text(_read_types()), repr(cues), repr(PRIORS), repr(constants), repr(sorted(list_terms(_PROBE)))
    )


@lru_cache(maxsize=2)
def _hash_text(text: str) -> str:
    return hash_parts(text)


@lru_cache(maxsize=1)  # asked for with every document
def _read_types() -> str:
    return (files("pipelines.training") / "data" / "types" / "texts.jsonl").read_text("utf-8")


def _get_header(row: dict[str, str]) -> str:
    """Return the header of an item's indexed text."""
    return f"{row['speaker']}: " if "speaker" in row else ""


def _log_loss(logits: F32, y: AnyArray, weights: F32) -> float:
    """Return the mean negative log likelihood of classes y int[n], weighted, under softmax(logits float[n, k])."""
    shifted = logits - logits.max(axis=1, keepdims=True)
    chosen = shifted[np.arange(len(y)), y] - np.log(np.exp(shifted).sum(axis=1))
    return float(-np.average(chosen, weights=weights))


_loaded: Final[dict[Path, TypeModel]] = {}


def load_router(encoder: Encoder, settings: Settings) -> bytes | str:
    """Return the bytes of router.npz for an encoder's vectors, or why there is no router.

    Raises:
        StoreError: the cache cannot be written, or holds a damaged file.
    """
    fingerprint = router_fingerprint()
    if recorded := read_recorded(encoder.spec, "router", fingerprint):
        return recorded
    return _load_or_train(_locate(settings, encoder, "router", fingerprint), lambda: train_router(encoder))


def read_router(encoder: Encoder, settings: Settings) -> dict[str, F32] | None:
    """Return the arrays of the router as a store has them; None if it cannot be trained."""
    data = load_router(encoder, settings)
    if isinstance(data, str):
        return None
    with np.load(io.BytesIO(data), allow_pickle=False) as arrays:
        return {name: arrays[name] for name in arrays.files}


def read_training_prompts() -> dict[str, list[str]]:
    """Return the prompts that the router is trained on, by the name of their file."""
    return {name.removesuffix(".txt"): _read_lines(name) for name in (*_PROMPTS, *_MORE)}


def load_type_model(encoder: Encoder, settings: Settings) -> TypeModel | str:
    """Return the classifier over an encoder's vectors, or the reason for its absence.

    Raises:
        StoreError: the cache cannot be written, or holds a damaged file.
    """
    fingerprint = types_fingerprint()
    path = _locate(settings, encoder, "types", fingerprint)
    if path not in _loaded:
        recorded = read_recorded(encoder.spec, "types", fingerprint)
        data = recorded or _load_or_train(path, lambda: train_types(encoder))
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
