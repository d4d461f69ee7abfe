"""Tiny real T5 models with their own tokenizer: one of random weights, one trained to write key words of its input.

They load with AutoModelForSeq2SeqLM and AutoTokenizer. The same call makes the same bytes on the same machine.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from importlib.resources import files
from pathlib import Path
from typing import Any

PAD, EOS, UNKNOWN = 0, 1, 2

_STOP = (
    "a an and are as at be because but by did do does for from had has have he her his how i if in into is it its me "
    "my no not of on or our she so that the their them then there they this to us was we were what when where which "
    "who why will with you your"
)
STOP = _STOP.split()
"""Words that the copying model never writes."""

_WORDS = (
    "answer backup broker budget build cache channel chart checksum city client clock cloud column commit config copy "
    "cursor customer daily database deadline debug delay deploy design disk docker document draft driver email engine "
    "error event export failed feature figure file filter flight folder format garden gateway generation graph guest "
    "handler hash history hotel import index invoice january journal kernel key laptop ledger library limit linux lock "
    "log machine march market memory merge meeting migration model module monday month morning mountain network night "
    "notebook number office order package paper parser password patch payment phone picture pipeline planet pointer "
    "policy port postgres process project prompt query queue reader record redis region release report request restart "
    "retry river road rollback route runner sample schedule schema script search secret segment server service session "
    "setting shell signal snapshot socket source sqlite stage station status store stream summer switch system table "
    "target task team test thread ticket timeout timezone token tool topic train travel tuesday update upload user "
    "vacation vector version video visibility visit volume warehouse weather week window winter worker writer year"
)


def vocabulary(words: Sequence[str] = ()) -> list[str]:
    """Return the bundled sample's words, technical ones, and those given; lower case, sorted."""
    root = Path(str(files("helix") / "sample"))
    text = " ".join(path.read_text("utf-8") for path in sorted(root.rglob("*")) if path.is_file())
    found = set(re.findall(r"\b[a-z]{3,14}\b", text.lower()))
    return sorted(found | set(_WORDS.split()) | set(STOP) | {word.lower() for word in words})


def random(folder: Path, words: Sequence[str] = ()) -> Path:
    """A T5 of random weights."""
    return _save(_model(vocabulary(words), layers=2, width=64), vocabulary(words), folder)


def copying(folder: Path, words: Sequence[str] = (), steps: int = 280) -> Path:
    """A T5 that writes a few words of its input without stop words, trained in seconds.

    Args:
        words: known words, in addition to `vocabulary()`; others are dropped from the input.
        steps: of training.
    """
    import torch

    known = vocabulary(words)
    model = _model(known, layers=1, width=256)
    _attend(model)
    first = UNKNOWN + 1
    stop = torch.tensor([first + known.index(word) for word in STOP])
    content = torch.tensor([first + i for i, word in enumerate(known) if word not in set(STOP)])
    random = torch.Generator().manual_seed(0)

    def draw(values: Any, count: int, width: int) -> Any:
        return values[torch.randint(len(values), (count, width), generator=random)]

    embedding = model.shared.weight
    others = [weight for weight in model.parameters() if weight is not embedding]
    optimiser = torch.optim.AdamW(
        [{"params": [embedding], "lr": 1e-2}, {"params": others, "lr": 3e-4}], weight_decay=0.0
    )
    schedule = torch.optim.lr_scheduler.LambdaLR(optimiser, lambda step: min(1.0, step / 10) * (1 - 0.9 * step / steps))
    threads = torch.get_num_threads()
    torch.set_num_threads(1)  # two are slower for so small a model
    model.train()
    for step in range(steps):
        rows, width = 32, 5 + step % 14
        keys = draw(content, rows, width)
        order = torch.rand(rows, width, generator=random).argsort(1)
        # A target is any three of the key words: the first before the input was shuffled.
        filler = (torch.rand(rows, width, generator=random) < 0.4) & (torch.arange(width) >= 3)
        inputs = torch.where(filler, draw(stop, rows, width), keys).gather(1, order)
        ends = torch.full((rows, 1), EOS)
        loss = model(input_ids=torch.cat([inputs, ends], 1), labels=torch.cat([keys[:, :3], ends], 1)).loss
        optimiser.zero_grad()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimiser.step()
        schedule.step()
    torch.set_num_threads(threads)
    return _save(model.eval(), known, folder)


def _attend(model: Any) -> None:
    """Let the decoder attend to the input from the start: the rest is learned in seconds, not minutes."""
    import torch

    encoder, decoder = model.encoder.block[0].layer, model.decoder.block[0].layer
    own, cross = decoder[0].SelfAttention, decoder[1].EncDecAttention
    with torch.no_grad():
        silent = (
            own.q, cross.q, encoder[0].SelfAttention.o, encoder[1].DenseReluDense.wo, decoder[2].DenseReluDense.wo,
        )  # fmt: skip
        for layer in silent:
            layer.weight.zero_()
        for attention, share in ((own, -3.0), (cross, 3.0)):  # away from the output, towards the input
            # Any rotation and its inverse would do; a random one has weights of similar size, which suits int8.
            torch.nn.init.orthogonal_(attention.v.weight, generator=torch.Generator().manual_seed(1))
            attention.o.weight.copy_(share * attention.v.weight.T)
        model.decoder.final_layer_norm.weight.mul_(3.0)


def _model(known: Sequence[str], layers: int, width: int) -> Any:
    import torch
    from transformers import T5Config, T5ForConditionalGeneration

    with torch.random.fork_rng():
        torch.manual_seed(0)
        return T5ForConditionalGeneration(
            T5Config(
                vocab_size=len(known) + UNKNOWN + 1, d_model=width, d_kv=32, d_ff=2 * width, num_layers=layers,
                num_heads=width // 32, dropout_rate=0.0, pad_token_id=PAD, eos_token_id=EOS, decoder_start_token_id=PAD,
            )
        )  # fmt: skip


def _save(model: Any, known: Sequence[str], folder: Path) -> Path:
    from tokenizers import Tokenizer, models, normalizers, pre_tokenizers, processors
    from transformers import PreTrainedTokenizerFast

    names = ["<pad>", "</s>", "<unk>", *known]
    tokenizer = Tokenizer(models.WordLevel({name: i for i, name in enumerate(names)}, unk_token="<unk>"))
    tokenizer.normalizer = normalizers.Sequence([normalizers.NFKC(), normalizers.Lowercase()])
    tokenizer.pre_tokenizer = pre_tokenizers.Whitespace()
    tokenizer.post_processor = processors.TemplateProcessing(single="$A </s>", special_tokens=[("</s>", EOS)])
    folder.mkdir(parents=True, exist_ok=True)
    model.save_pretrained(folder)
    PreTrainedTokenizerFast(
        tokenizer_object=tokenizer, pad_token="<pad>", eos_token="</s>", unk_token="<unk>"
    ).save_pretrained(folder)
    return folder
