"""Sequence-to-sequence models for doc2query: finding their weights, running their exports.

Needs onnxruntime and tokenizers only; `helix.encoders.seq2seq_export` makes the folders.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import numpy as np
import numpy.typing as npt
import orjson

from helix.encoders.folders import ModelFolder, is_model, list_places
from helix.encoders.session import TOKEN_CHARS, open_session, open_tokenizer, pad_tokens
from helix.encoders.spec import check_files, read_spec, shorten
from helix.errors import EncoderError
from helix.settings import Settings
from helix.types import F32, I64, AnyArray

DEFAULT: Final = "doc2query/msmarco-t5-small-v1"
"""The default model, trained on MS MARCO's question–passage pairs."""

LICENCES: Final = {DEFAULT: "Apache-2.0", "doc2query/msmarco-t5-base-v1": "Apache-2.0"}

FORMAT: Final = 1
"""Format of an exported folder; another number makes every model be exported again."""

SPEC: Final = "model.json"

FILES: Final = ("encoder_model.onnx", "decoder_model_merged.onnx", "tokenizer.json", "config.json")

TOP_K: Final = 10
"""Likeliest next tokens of a step: doc2query samples among ten (Nogueira & Lin 2019, "docTTTTTquery")."""

INPUT_TOKENS: Final = 256
"""Longest input in tokens."""

_MOST_LIVE: Final = 0.5
"""Largest share of live rows at which the ended ones leave the batch: leaving copies the past of the others."""

_REMEDY: Final = "delete the folder: it is made again from the weights"

Choose = Callable[[int, I64, F32, I64], I64]
"""(step, rows int64[r], logits float32[r, k], tokens int64[r, k]), best first → the token of each row, int64[r]."""


@dataclass(frozen=True, slots=True)
class Seq2SeqSpec:
    """Content of model.json. `fingerprint` covers every file."""

    format: int
    name: str
    licence: str
    precision: str  # int8 | fp32
    measured: Mapping[str, float]  # agreement of int8 with fp32; seconds of each on the probes, one thread
    weights_sha256: str
    start: int  # the decoder's first input
    eos: Sequence[int]
    pad: int
    forced: int | None  # the first output, if the model needs a certain one (BART)
    files: Mapping[str, str]  # name → sha256
    fingerprint: str


def find_seq2seq(wanted: str, settings: Settings) -> ModelFolder | str:
    """Return available weights, or the reason why doc2query is off. Nothing downloads.

    `wanted` is "" (the default model if available), "off", a hub name, or a folder.
    """
    if wanted == "off":
        return "doc2query is off by its setting"
    name = wanted or DEFAULT
    refused = ""
    for folder, origin in list_places(name, name, settings)[0 if wanted else 1 :]:
        if not is_model(folder):
            continue
        if _is_encoder_decoder(folder):
            title = folder.resolve().name if origin == "path" else name
            return ModelFolder(title, folder, origin, LICENCES.get(name, ""))
        refused = refused or f"{folder} is not a sequence-to-sequence model (config.json: is_encoder_decoder)"
    places = "the models folder (HELIX_MODELS) and the hub cache"
    if not settings.models:
        places = "the hub cache; HELIX_MODELS is not set"
    return f"no weights found for {name}: " + (refused or f"neither a model's folder nor in {places}")


def _is_encoder_decoder(folder: Path) -> bool:
    try:
        config = orjson.loads((folder / "config.json").read_bytes())
    except (OSError, orjson.JSONDecodeError):
        return False
    return isinstance(config, dict) and config.get("is_encoder_decoder") is True


def load_spec(folder: Path) -> Seq2SeqSpec:
    """Read and check an exported folder.

    Raises:
        EncoderError: a file is missing, changed, or of another format; the message names it.
    """
    path = folder / SPEC
    spec = read_spec(Seq2SeqSpec, path, "model", _REMEDY, FORMAT)
    check_files(folder, FILES, spec.files, "model", _REMEDY)
    if fingerprint_files(spec.files) != spec.fingerprint:
        raise EncoderError(f"model changed: the fingerprint in {path} is not that of its files", _REMEDY)
    return spec


def fingerprint_files(files: Mapping[str, str]) -> str:
    """Return sixteen hex digits over the files' digests."""
    return shorten("".join(f"{name}:{files[name]}\n" for name in sorted(files)).encode())


class Network:
    """An exported encoder and decoder in ONNX Runtime, with their tokenizer. Safe to share between threads."""

    def __init__(self, folder: Path, threads: int = 0, spec: Seq2SeqSpec | None = None) -> None:
        """Open an exported folder; its files are checked unless `spec` is given.

        Raises:
            EncoderError: a file is missing, changed or unreadable.
        """
        self.spec = spec or load_spec(folder)
        self._tokenizer = open_tokenizer(folder / "tokenizer.json", INPUT_TOKENS)
        self._encoder, self._decoder = (
            open_session(folder / name, threads, "model", "delete the folder: it is made again") for name in FILES[:2]
        )
        self._encoder_inputs = {entry.name for entry in self._encoder.get_inputs()}
        # A past is [batch, heads, tokens, width]; here its heads and width.
        self._past = {
            entry.name: (int(entry.shape[1]), int(entry.shape[3]))
            for entry in self._decoder.get_inputs()
            if entry.name.startswith("past_key_values.")
        }
        self._outputs = ["best_logits", "best_tokens", *(_present(name) for name in self._past if ".decoder." in name)]

    def tokens(self, texts: Sequence[str]) -> list[list[int]]:
        """Return the tokens of each text with its end mark, at most 256; a blank text has no tokens."""
        clean = [" ".join(text[: TOKEN_CHARS * INPUT_TOKENS].split()) for text in texts]
        tokens = [list(entry.ids) for entry in self._tokenizer.encode_batch(clean)]
        return [ids if text else [] for ids, text in zip(tokens, clean, strict=True)]

    def text(self, tokens: Sequence[Sequence[int]]) -> list[str]:
        """Turn tokens into texts, without special tokens."""
        return [str(text) for text in self._tokenizer.decode_batch([list(ids) for ids in tokens])]

    def decode(
        self, inputs: Sequence[Sequence[int]], copies: int, steps: int, choose: Choose, stop: bool = True
    ) -> list[list[int]]:
        """Decode every input `copies` times, without the end mark; each is encoded once, and its first step is shared.

        Args:
            inputs: tokens of each text, none empty.
            copies: outputs a text; row r of the batch and of the result belongs to text r // copies.
            steps: longest output in tokens.
            choose: picks a row's next token; ended rows that are still in the batch are included.
            stop: an end mark ends a row.
        """
        import onnxruntime as ort

        value = ort.OrtValue.ortvalue_from_numpy
        feed = pad_tokens([np.array(ids, np.int32) for ids in inputs], self.spec.pad)
        mask = feed["attention_mask"]
        hidden = self._encoder.run(["last_hidden_state"], {name: feed[name] for name in self._encoder_inputs})[0]
        out = self._run_first_step(hidden, mask)
        rows = np.arange(len(inputs) * copies)
        taken = [list[int]() for _ in rows]
        live = np.ones(len(rows), bool)
        past = {name: value(_take(out[_present(name)], rows // copies)) for name in self._past}
        # With a past the decoder reads the encoder's keys and values from it, and nothing of `hidden`.
        fixed = {"encoder_hidden_states": value(hidden[:1]), "use_cache_branch": value(np.array([True]))}
        logits, best = (out[name][rows // copies, -1] for name in ("best_logits", "best_tokens"))
        for step in range(steps):
            token = choose(step, rows, logits, best)
            if step == 0 and self.spec.forced is not None:
                token = np.full(len(rows), self.spec.forced, np.int64)
            if stop:
                live &= ~np.isin(token, self.spec.eos)
            for i in np.flatnonzero(live):
                taken[rows[i]].append(int(token[i]))
            if step + 1 == steps or not live.any():
                break
            if live.sum() <= _MOST_LIVE * len(live):
                chosen = np.flatnonzero(live)
                past = {name: value(_take(entry.numpy(), chosen)) for name, entry in past.items()}
                rows, token, live = rows[chosen], token[chosen], live[chosen]
            given = {"input_ids": value(np.ascontiguousarray(token[:, None], dtype=np.int64)), **fixed, **past}
            given["encoder_attention_mask"] = value(mask[rows // copies])
            done = dict(zip(self._outputs, self._decoder.run_with_ort_values(self._outputs, given), strict=True))
            past |= {name: done[_present(name)] for name in past if ".decoder." in name}
            logits, best = (done[name].numpy()[:, -1] for name in ("best_logits", "best_tokens"))
        return taken

    def _run_first_step(self, hidden: F32, mask: I64) -> dict[str, AnyArray]:
        """Run the step without a past, one row a text."""
        count = len(hidden)
        feed = {
            "encoder_hidden_states": hidden,
            "encoder_attention_mask": mask,
            "input_ids": np.full((count, 1), self.spec.start, np.int64),
            "use_cache_branch": np.array([False]),
            **{name: np.zeros((count, heads, 1, width), np.float32) for name, (heads, width) in self._past.items()},
        }
        names = ["best_logits", "best_tokens", *map(_present, self._past)]
        return dict(zip(names, self._decoder.run(names, feed), strict=True))


def _present(past: str) -> str:
    return past.replace("past_key_values", "present", 1)


def _take(values: AnyArray, rows: npt.NDArray[np.intp]) -> AnyArray:
    return np.ascontiguousarray(values.take(rows, axis=0))
