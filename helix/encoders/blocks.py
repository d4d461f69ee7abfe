"""multilingual-e5-small in blocks of four bits, as one package has it, to a model's folder.

The file: a header, the tokenizer's pieces with their scores and its normalisation by code point, a table of tensors,
and their data (little-endian). A matrix is Q4_0 blocks of 32 weights: one half-precision factor and 32 numbers of four
bits, of which the first sixteen are the low halves of the bytes; a weight is (number − 8) · factor. Needs numpy and
tokenizers.
"""

from __future__ import annotations

import json
import struct
from itertools import pairwise
from pathlib import Path
from typing import Any, Final

import numpy as np

from helix.encoders.safetensors_file import write_tensors
from helix.errors import EncoderError
from helix.types import F32

_MAGIC: Final = b"E5S1"
_BLOCK_BYTES: Final = 18
_MATRIX: Final = 1  # kind of a tensor in blocks; the others are float32

_OUTER: Final = {
    "emb.word": "embeddings.word_embeddings.weight",
    "emb.pos": "embeddings.position_embeddings.weight",
    "emb.type": "embeddings.token_type_embeddings.weight",
    "emb.ln.w": "embeddings.LayerNorm.weight",
    "emb.ln.b": "embeddings.LayerNorm.bias",
}
_INNER: Final = {
    "q": "attention.self.query",
    "k": "attention.self.key",
    "v": "attention.self.value",
    "ao": "attention.output.dense",
    "aln": "attention.output.LayerNorm",
    "fi": "intermediate.dense",
    "fo": "output.dense",
    "oln": "output.LayerNorm",
}
_FIELDS: Final = {"w": "weight", "b": "bias"}

# SentencePiece's nmt_nfkc: control characters vanish, others and invisible ones are spaces, then NFKC. The file's table
# has the same for every code point of the Unicode version it was made with.
_REMOVED: Final = "[\\x01-\\x08\\x0b\\x0e-\\x1f\\x7f\\x8f\\x9f]"
_SPACES: Final = "[\\t\\n\\x0c\\r\\u1680\\u200b-\\u200f\\u2028\\u2029\\u2581\\ufeff\\ufffd]"


class _Cursor:
    """A place in the bytes of the file."""

    def __init__(self, data: bytes) -> None:
        self.data, self.at = data, 0

    def take(self, form: str) -> tuple[Any, ...]:
        """Read values of `struct`'s form."""
        values = struct.unpack_from(f"<{form}", self.data, self.at)
        self.at += struct.calcsize(f"<{form}")
        return values

    def skip(self, size: int) -> bytes:
        """Read bytes."""
        self.at += size
        return self.data[self.at - size : self.at]


def unpack_blocks(path: Path, target: Path) -> None:
    """Write config.json, model.safetensors and the tokenizer's files into a new folder.

    Raises:
        EncoderError: the file is cut short or of another form.
    """
    try:
        reader = _Cursor(path.read_bytes())
        if reader.skip(4) != _MAGIC:
            raise EncoderError(f"{path} has no weights in blocks", "install the package again")
        _, width, layers, heads, inner, words, positions, kinds, _, _ = reader.take("I7ifi")
        tokenizer = _read_tokenizer(reader)
        tensors = _read_tensors(reader, width, inner)
    except (struct.error, ValueError, KeyError) as error:
        raise EncoderError(f"{path} is damaged: {error}", "install the package again") from None
    target.mkdir()
    write_tensors(target / "model.safetensors", tensors)
    tokenizer.save(str(target / "tokenizer.json"))
    config = {
        "model_type": "bert",
        "architectures": ["BertModel"],
        "vocab_size": words,
        "hidden_size": width,
        "num_hidden_layers": layers,
        "num_attention_heads": heads,
        "intermediate_size": inner,
        "max_position_embeddings": positions,
        "type_vocab_size": kinds,
        "layer_norm_eps": 1e-12,
        "hidden_act": "gelu",
        "pad_token_id": tokenizer.token_to_id("<pad>"),
    }
    (target / "config.json").write_text(json.dumps(config))
    names = {"bos": "<s>", "cls": "<s>", "eos": "</s>", "sep": "</s>", "unk": "<unk>", "pad": "<pad>", "mask": "<mask>"}
    described = {f"{name}_token": token for name, token in names.items()}
    described |= {"tokenizer_class": "PreTrainedTokenizerFast", "model_max_length": positions}
    (target / "tokenizer_config.json").write_text(json.dumps(described))


def _read_tokenizer(reader: _Cursor) -> Any:
    """Read the pieces and build their unigram tokenizer; the normalisation's table is skipped."""
    from tokenizers import AddedToken, Regex, Tokenizer, models, normalizers, pre_tokenizers, processors

    count, first, last, _, unknown = reader.take("5i")
    (size,) = reader.take("Q")
    offsets, scores = reader.take(f"{count + 1}I"), reader.take(f"{count}f")
    text = reader.skip(size)
    reader.skip(reader.take("iI")[1])
    pieces = [text[start:end].decode() for start, end in pairwise(offsets)]
    tokenizer = Tokenizer(models.Unigram(list(zip(pieces, scores, strict=True)), unknown, False))
    rules = [(_REMOVED, ""), (_SPACES, " "), (None, ""), (" {2,}", " ")]
    tokenizer.normalizer = normalizers.Sequence(
        [normalizers.Replace(Regex(rule), new) if rule else normalizers.NFKC() for rule, new in rules]
    )
    tokenizer.pre_tokenizer = pre_tokenizers.Metaspace("▁", "always", split=False)
    special = [(pieces[first], first), (pieces[last], last)]
    tokenizer.post_processor = processors.TemplateProcessing(
        single=f"{pieces[first]} $A {pieces[last]}", special_tokens=special
    )
    tokenizer.add_special_tokens(["<s>", "<pad>", "</s>", "<unk>", AddedToken("<mask>", lstrip=True)])
    return tokenizer


def _read_tensors(reader: _Cursor, width: int, inner: int) -> dict[str, F32]:
    """Read the tensors by the names that transformers has for them."""
    tensors = {}
    for _ in range(reader.take("i")[0]):
        name = reader.skip(reader.take("H")[0]).decode()
        kind, count, start, size = reader.take("BIQQ")
        data = np.frombuffer(reader.data, np.uint8, size, start)
        values = _read_blocks(data) if kind == _MATRIX else data.view("<f4").astype(np.float32)
        if len(values) != count:
            raise ValueError(f"{name} has {len(values)} numbers, not {count}")
        columns = inner if name.endswith(".fo.w") else width
        is_table = kind == _MATRIX or name in ("emb.pos", "emb.type")
        tensors[_translate(name)] = values.reshape(-1, columns) if is_table else values
    return tensors


def _read_blocks(data: np.ndarray[Any, np.dtype[np.uint8]]) -> F32:
    """Return the weights of Q4_0 blocks: float32[32 · blocks]."""
    blocks = data.reshape(-1, _BLOCK_BYTES)
    factor = np.ascontiguousarray(blocks[:, :2]).view("<f2").astype(np.float32)
    numbers = np.concatenate([blocks[:, 2:] & 15, blocks[:, 2:] >> 4], axis=1)
    return np.asarray((numbers.astype(np.float32) - 8) * factor, np.float32).reshape(-1)


def _translate(name: str) -> str:
    """Return the name of a tensor in transformers: `l3.fo.w` is `encoder.layer.3.output.dense.weight`."""
    if name in _OUTER:
        return _OUTER[name]
    layer, part, field = name.split(".")
    return f"encoder.layer.{int(layer[1:])}.{_INNER[part]}.{_FIELDS[field]}"
