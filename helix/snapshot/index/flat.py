"""The vectors of a segment on a GPU: all of them are compared with many questions at once.

A flat index of FAISS, in half precision: 2 · d bytes a row. Its scores are only approximate, within a known bound, so
it gives candidates; `helix.stages.dense` scores them again and proves by the bound that none is missing.

Johnson, Douze & Jégou 2017, "Billion-scale similarity search with GPUs".
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Final

import numpy as np

from helix.errors import StoreError, UsageError
from helix.snapshot.index.dense import dequantise, load_faiss
from helix.types import F32, I8, I64

MOST: Final = 2_048
"""Rows that FAISS returns for one question on a GPU, at most."""

PRECISION: Final = 2.0**-9
"""Bound of a score's error, for vectors and questions of length one.

Rounding a vector and a question to 11 bits is an error of 2⁻¹¹ each; sums in single precision add less than 2⁻¹³. The
bound is about twice that. It also covers matrix products in TF32, which have 11 bits.
"""

_BATCH: Final = 65_536  # rows copied at a time
_CPU: Final = "or set HELIX_DENSE=cpu"


@dataclass(frozen=True, slots=True)
class Gpu:
    """An open GPU. FAISS allows one call at a time on it."""

    make_index: Callable[[int], Any]  # an empty flat index of so many dimensions, by inner product
    lock: threading.Lock = field(default_factory=threading.Lock)


@dataclass(frozen=True, slots=True)
class FlatIndex:
    """The vectors of one segment on a GPU. Ids are row numbers."""

    index: Any
    gpu: Gpu
    longest: float  # length of the longest vector

    def search(self, questions: F32, k: int) -> tuple[I64, F32]:
        """Return the k nearest rows of each question, best first, with approximate scores: two arrays [q, k].

        Args:
            questions: float32[q, d].
            k: at most MOST, and at most the segment's rows.

        Raises:
            StoreError: the GPU failed.
        """
        try:
            with self.gpu.lock:
                scores, rows = self.index.search(np.ascontiguousarray(questions, np.float32), k)
        except RuntimeError as error:
            raise StoreError(f"the GPU failed: {_first_line(error)}", f"restart this process, {_CPU}") from None
        return np.asarray(rows, np.int64), np.asarray(scores, np.float32)

    def bound_error(self, question: F32) -> float:
        """Return how far a score of this index may be from the exact one."""
        return float(PRECISION * self.longest * np.linalg.norm(question.astype(np.float64)))


def open_processor(name: str) -> Gpu | None:
    """Return the GPU for `gpu`, None for `cpu`: values of HELIX_DENSE.

    Raises:
        UsageError: no such value; or this FAISS or this machine has no GPU.
    """
    if name == "cpu":
        return None
    if name != "gpu":
        raise UsageError(f"HELIX_DENSE={name!r} is no processor", "there are cpu and gpu")
    return open_gpu()


def open_gpu() -> Gpu:
    """Open the first GPU that FAISS sees.

    Raises:
        UsageError: no GPU can be used; says what is missing.
    """
    try:
        faiss = load_faiss()
        if not hasattr(faiss, "GpuIndexFlatIP"):
            raise UsageError(
                f"HELIX_DENSE=gpu: the installed FAISS {faiss.__version__} was built without GPUs",
                f"replace it (pip uninstall faiss-cpu; pip install faiss-gpu), {_CPU}",
            )
        if faiss.get_num_gpus() < 1:
            raise UsageError(
                "HELIX_DENSE=gpu: FAISS finds no GPU", f"see that nvidia-smi lists one in this environment, {_CPU}"
            )
        resources, config = faiss.StandardGpuResources(), faiss.GpuIndexFlatConfig()
    except (RuntimeError, ImportError, OSError) as error:  # a library of CUDA is missing, or the driver is too old
        raise UsageError(
            f"HELIX_DENSE=gpu: FAISS cannot use the GPU: {_first_line(error)}",
            f"check the driver and the libraries of CUDA, {_CPU}",
        ) from None
    config.useFloat16 = True
    return Gpu(lambda d: faiss.GpuIndexFlatIP(resources, d, config))


def build_flat(gpu: Gpu, codes: I8, scale: F32) -> FlatIndex:
    """Copy the vectors of a segment to the GPU.

    Args:
        codes: int8[n, d].
        scale: float32[n].

    Raises:
        UsageError: they do not fit.
    """
    (n, d), longest = codes.shape, 0.0
    try:
        with gpu.lock:
            index = gpu.make_index(d)
        for start in range(0, n, _BATCH):
            rows = dequantise(codes, scale, slice(start, start + _BATCH))
            longest = max(longest, float(np.linalg.norm(rows, axis=1).max()))
            with gpu.lock:
                index.add(rows)
    except RuntimeError as error:
        size = f"{2 * n * d / 1e9:.1f} GB"
        raise UsageError(
            f"HELIX_DENSE=gpu: {n} vectors do not fit the GPU ({size}): {_first_line(error)}",
            f"end other programs on it, {_CPU}",
        ) from None
    return FlatIndex(index, gpu, longest)


def _first_line(error: Exception) -> str:
    return (str(error).strip().splitlines() or [type(error).__name__])[0][:200]
