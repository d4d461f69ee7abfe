"""Matrices in int8: each row has a scale of its own, symmetric around 0."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, NamedTuple

import numpy as np

from helix.types import F32, I8, AnyArray

_WIDEST: Final = 127
_NARROW: Final = 63
"""Largest number of seven bits: without VNNI, products of wider ones saturate (Intel, "Lower Numerical Precision
Deep Learning Inference and Training", 2018)."""

_SCALE: Final = ".scale"


class Int8Rows(NamedTuple):
    """A matrix whose row i is codes[i] · scale[i]."""

    codes: I8  # int8[n, d]
    scale: F32  # float32[n]


Matrix = F32 | Int8Rows


def quantise_rows(matrix: F32) -> Int8Rows:
    """Round the rows of float32[n, d] to eight bits, the largest number of a row to ±127."""
    scale = np.abs(matrix).max(1) / np.float32(_WIDEST)
    scale[scale == 0] = 1
    codes = np.rint(matrix / scale[:, None]).astype(np.int8)
    return Int8Rows(codes, np.asarray(scale, np.float32))


def narrow_rows(matrix: Int8Rows) -> Int8Rows:
    """Round the codes of a matrix to seven bits."""
    factor = np.float32(_NARROW / _WIDEST)
    return Int8Rows(np.rint(matrix.codes * factor).astype(np.int8), np.asarray(matrix.scale / factor, np.float32))


def join_rows(matrices: list[Matrix]) -> Matrix:
    """Return matrices of one kind and width below each other."""
    if isinstance(matrices[0], Int8Rows):
        quantised = [each for each in matrices if isinstance(each, Int8Rows)]
        return Int8Rows(*(np.concatenate(parts) for parts in zip(*quantised, strict=True)))
    return np.concatenate([np.asarray(each, np.float32) for each in matrices])


def to_float(matrix: Matrix) -> F32:
    """Return the numbers of a matrix as float32[n, d]."""
    return matrix.codes * matrix.scale[:, None] if isinstance(matrix, Int8Rows) else matrix


def name_arrays(tensors: Mapping[str, Matrix]) -> dict[str, AnyArray]:
    """Return the arrays of a file; a matrix in int8 has its scales as `<name>.scale`."""
    arrays: dict[str, AnyArray] = {}
    for name, tensor in tensors.items():
        if isinstance(tensor, Int8Rows):
            arrays |= {name: tensor.codes, name + _SCALE: tensor.scale}
        else:
            arrays[name] = tensor
    return arrays


def pair_arrays(arrays: Mapping[str, AnyArray]) -> dict[str, Matrix]:
    """Return the tensors whose arrays `name_arrays` gave, or those of a file in floats as they are."""
    return {
        name: Int8Rows(array, arrays[name + _SCALE]) if name + _SCALE in arrays else array
        for name, array in arrays.items()
        if not name.endswith(_SCALE)
    }
