"""The network that reads a question and an item together, begun from a sentence encoder.

A cross-encoder's usual head, a matrix over the first token, has to learn from nothing what a sentence encoder knows
already. So the score is first how well the tokens of question and item agree after they have read each other: the mean
over the question's tokens of the best cosine with one of the item's, as in late interaction (Khattab & Zaharia 2020),
and the cosine of the two means. Before any training that ranks nearly as well as the encoder does; training then moves
the encoder's layers, the weights of the question's tokens, and a matrix over the first token.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Final, NamedTuple

import torch
from torch import Tensor, nn
from torch.nn import functional

FIRST_SCALE: Final = 10.0
"""Of both agreements at the start."""

_LAYER: Final = "encoder.encoder.layer."

CLS, SEP = 101, 102  # of BERT's vocabulary


class PairBatch(NamedTuple):
    """Tokens of n pairs, padded with 0: int64[n, t] each."""

    input_ids: Tensor
    attention_mask: Tensor
    token_type_ids: Tensor  # 0 for the question, 1 for the item


class PairNetwork(NamedTuple):
    """An encoder that gives `last_hidden_state`, and the tensors that read it."""

    encoder: nn.Module
    head: nn.ModuleDict  # first: of the first token; weigh: of the question's tokens; scales: of both agreements

    def score(self, batch: PairBatch) -> Tensor:
        """Score pairs; the higher, the better the item answers: float32[n]."""
        hidden = self.encoder(**batch._asdict()).last_hidden_state.float()
        with torch.autocast("cpu", enabled=False):
            return read_pairs(hidden, batch, self.head)

    def named_tensors(self) -> dict[str, Tensor]:
        """Return the tensors that training changes, by name."""
        parts = (("encoder", self.encoder), ("head", self.head))
        named = [(f"{part}.{name}", one) for part, of in parts for name, one in of.named_parameters()]
        return {name: one for name, one in named if one.requires_grad}

    def load_tensors(self, tensors: Mapping[str, Tensor]) -> None:
        """Take the values of tensors by name."""
        own = self.named_tensors()
        with torch.no_grad():
            for name, value in tensors.items():
                own[name].copy_(value)

    def set_training(self, on: bool) -> None:
        """Turn what only training does, such as dropout, on or off."""
        self.encoder.train(on)


def make_head(width: int) -> nn.ModuleDict:
    """Make a head that at first scores by how well question and item agree."""
    first, weigh, scales = nn.Linear(width, 1), nn.Linear(width, 1), nn.Linear(2, 1, bias=False)
    nn.init.normal_(first.weight, std=0.02)
    nn.init.constant_(scales.weight, FIRST_SCALE)
    for zero in (first.bias, weigh.weight, weigh.bias):
        nn.init.zeros_(zero)
    return nn.ModuleDict({"first": first, "weigh": weigh, "scales": scales})


def read_pairs(hidden: Tensor, batch: PairBatch, head: nn.ModuleDict) -> Tensor:
    """Score pairs by their tokens: float32[n].

    Args:
        hidden: float32[n, t, width].
    """
    words = (batch.attention_mask > 0) & (batch.input_ids != CLS) & (batch.input_ids != SEP)
    asked, given = words & (batch.token_type_ids == 0), words & (batch.token_type_ids == 1)
    unit = functional.normalize(hidden, dim=-1)
    alike = (unit @ unit.transpose(1, 2)).masked_fill(~given[:, None], -1.0).amax(2)
    weight = head["weigh"](hidden)[..., 0].masked_fill(~asked, -1e4).softmax(1)
    tokens = (weight * alike).sum(1)
    means = functional.cosine_similarity(_mean(hidden, asked), _mean(hidden, given))
    scores: Tensor = head["scales"](torch.stack([tokens, means], 1))[:, 0] + head["first"](hidden[:, 0])[:, 0]
    return scores


def _mean(hidden: Tensor, chosen: Tensor) -> Tensor:
    """Return the mean of the chosen tokens of each text: float32[n, width]."""
    share = chosen.float() / chosen.sum(1, keepdim=True).clamp(min=1)
    return (hidden * share[..., None]).sum(1)


def shrink_network(large: PairNetwork, folder: Path, layers: int) -> PairNetwork:
    """Begin a smaller network from a trained one: layers at equal distances, the first and the last among them.

    Args:
        folder: of the sentence encoder that the large one was begun from.
    """
    small = open_network(folder, layers)
    own = large.named_tensors()
    count = 1 + max(int(name.split(".")[3]) for name in own if name.startswith(_LAYER))
    taken = [round(i * (count - 1) / max(layers - 1, 1)) for i in range(layers)]
    tensors = {name: value for name, value in own.items() if not name.startswith(_LAYER)}
    for to, at in enumerate(taken):
        start = f"{_LAYER}{at}."
        tensors |= {f"{_LAYER}{to}.{name[len(start) :]}": own[name] for name in own if name.startswith(start)}
    small.load_tensors(tensors)
    return small


def open_network(folder: Path, layers: int) -> PairNetwork:
    """Begin a network from a sentence encoder's first layers; its embeddings are not trained.

    The encoder was trained with one kind of segment, so the item's begins as the question's.

    Args:
        folder: of a BERT in the form of transformers.
    """
    from transformers import BertConfig, BertModel

    config = BertConfig.from_pretrained(folder, local_files_only=True)
    config.num_hidden_layers = layers
    encoder = BertModel.from_pretrained(
        folder, config=config, add_pooling_layer=False, local_files_only=True, dtype=torch.float32
    )
    with torch.no_grad():
        segments = encoder.embeddings.token_type_embeddings.weight
        segments[1] = segments[0]
    for parameter in encoder.embeddings.parameters():
        parameter.requires_grad_(False)
    return PairNetwork(encoder, make_head(config.hidden_size))
