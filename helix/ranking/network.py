"""Small networks that score the items of a list, as plain arrays: their mean over several trainings.

Each is a perceptron with one hidden layer, plus a linear path (Cheng et al. 2016, Wide & Deep Learning).
"""

from __future__ import annotations

import io
from functools import cache
from typing import Final, NamedTuple

import numpy as np

from helix.types import F32

FARTHEST: Final = np.float32(4)
"""Standard deviations from the mean at which a feature is cut off."""


class ListNetwork(NamedTuple):
    """s networks over f features, with h hidden units each."""

    mean: F32  # float32[f], of the training
    deviation: F32  # float32[f]
    hidden: F32  # float32[s, f, h]
    bias: F32  # float32[s, h]
    out: F32  # float32[s, h]
    linear: F32  # float32[f], mean of the linear paths


def score_rows(network: ListNetwork, rows: F32) -> F32:
    """Return a score for each row, of meaning within its list only: float32[n].

    Args:
        rows: float32[n, f].
    """
    x = np.clip((rows - network.mean) / network.deviation, -FARTHEST, FARTHEST)
    active = np.maximum(x @ network.hidden + network.bias[:, None, :], np.float32(0))
    deep = np.einsum("snh,sh->n", active, network.out) / np.float32(len(network.out))
    return np.asarray(deep + x @ network.linear, np.float32)


@cache
def load_network(package: str, name: str) -> ListNetwork:
    """Load the network of `data/<name>.npz` in a package."""
    from importlib.resources import files  # slow to import

    data = files(package).joinpath("data", f"{name}.npz").read_bytes()
    with np.load(io.BytesIO(data), allow_pickle=False) as arrays:
        return ListNetwork(*(arrays[key].astype(np.float32) for key in ListNetwork._fields))
