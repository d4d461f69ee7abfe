"""Steps that every export shares: transformers → ONNX, int8, the tokenizer, the choice of a precision, the cache.

Needs torch and optimum. Exports run as their own processes, which return several hundred megabytes when they end.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Final, NamedTuple

from helix.encoders.folders import WEIGHTS, read_json
from helix.errors import EncoderError

PRECISIONS: Final = {
    "int8": "dynamic int8, per channel",
    "mixed": "dynamic int8, per channel; products that narrow in float32",
    "fp32": "none, float32",
}

PROBES: Final = (
    "The nightly backup failed because the disk was full, so we moved it to the larger volume and kept seven days.",
    "To restart the queue, stop the worker, wait until running tasks have finished, then start it with two processes.",
    "She said the flight to Lisbon leaves at nine on Friday and that the hotel near the station is already paid.",
    "def retry(call, times=3): tries the call again after a timeout and raises the last error when none succeeded.",
    "We chose a single file database over a server, since one writer is enough and nobody has to run it.",
    "The report is due on the last working day of the month; finance needs the figures two days before.",
)
"""Texts on which the int8 form of a model is compared with its float form."""

_TIMED_ROUNDS: Final = 3


def export_graph(source: Path, target: Path, task: str = "feature-extraction") -> None:
    """Write the float32 model to `target/model.onnx`, with its config.json.

    An architecture that no library has is copied from the ONNX file in the model's folder. Code that comes with a
    model never runs.

    Raises:
        EncoderError: the architecture is not supported.
    """
    from optimum.onnxruntime import ORTModelForFeatureExtraction, ORTModelForMaskedLM, ORTModelForSequenceClassification

    exporters = {"text-classification": ORTModelForSequenceClassification, "fill-mask": ORTModelForMaskedLM}
    exporter = exporters.get(task, ORTModelForFeatureExtraction)
    ready = source / "onnx" / "model.onnx"
    if can_trace(source, task):
        exporter.from_pretrained(source, export=True, local_files_only=True).save_pretrained(target)
    elif ready.is_file():
        target.mkdir()
        for file in (source / "config.json", *ready.parent.glob("model.onnx*")):  # a large graph has weights apart
            shutil.copyfile(file, target / file.name)
    else:
        raise EncoderError(
            f"the architecture {_read_architecture(source)} is in no library here, Helix runs no code that comes with "
            f"a model, and {ready} does not exist",
            "fetch that file, or take another encoder",
        )


def can_trace(source: Path, task: str = "feature-extraction") -> bool:
    """Return whether a folder has weights of an architecture that the libraries here know."""
    import optimum.exporters.onnx.model_configs  # noqa: F401 — registers the architectures
    from optimum.exporters.tasks import TasksManager
    from transformers import CONFIG_MAPPING

    architecture = _read_architecture(source)
    has_weights = any((source / name).is_file() for name in WEIGHTS if not name.endswith(".onnx"))
    supported = TasksManager.get_supported_model_type_for_task(task, "onnx")
    return has_weights and architecture in CONFIG_MAPPING and architecture in supported


def _read_architecture(source: Path) -> str:
    return str(read_json(source / "config.json").get("model_type"))


def write_graph(plain: Path, target: Path, precision: str) -> None:
    """Copy `plain/model.onnx` to `target/model.onnx`, quantised for int8 and mixed."""
    with tempfile.TemporaryDirectory() as work:
        if precision != "fp32":
            quantise_graph(plain, Path(work), list_narrowing(plain) if precision == "mixed" else ())
            plain = Path(work)
        shutil.copyfile(plain / "model.onnx", target / "model.onnx")


def list_narrowing(plain: Path) -> list[str]:
    """Return the nodes of a graph that multiply by a matrix with more rows than columns.

    In a transformer's feed-forward layers these come after the activation, whose outliers take up the range of int8
    (Dettmers et al. 2022, "LLM.int8()").
    """
    import onnx

    graph = onnx.load(plain / "model.onnx").graph
    narrow = {each.name for each in graph.initializer if len(each.dims) == 2 and each.dims[0] > each.dims[1]}
    return [node.name for node in graph.node if node.op_type == "MatMul" and node.input[1] in narrow]


def quantise_graph(plain: Path, target: Path, spared: Sequence[str] = (), *, portable: bool = False) -> None:
    """Write the int8 form of `plain/model.onnx` to `target/model.onnx`, without the `spared` nodes.

    Args:
        portable: signed weights of seven bits, right on every processor and fast; else as suits this one.
    """
    from optimum.onnxruntime import ORTQuantizer
    from optimum.onnxruntime.configuration import AutoQuantizationConfig

    configure = AutoQuantizationConfig.avx512_vnni if portable or has_vnni() else AutoQuantizationConfig.avx2
    config = configure(is_static=False, per_channel=True, nodes_to_exclude=list(spared))
    config.reduce_range |= portable
    ORTQuantizer.from_pretrained(plain, file_name="model.onnx").quantize(
        save_dir=target,
        quantization_config=config,
    )
    (target / "model_quantized.onnx").rename(target / "model.onnx")


def has_vnni() -> bool:
    """Return whether the processor has AVX512-VNNI.

    Without it products of int8 saturate unless weights are seven bits, as the avx2 configuration has them.
    """
    info = Path("/proc/cpuinfo")
    return info.is_file() and "avx512_vnni" in info.read_text()


def save_tokenizer(source: Path, target: Path) -> None:
    """Write `target/tokenizer.json`."""
    from transformers import AutoTokenizer

    if (source / "tokenizer.json").is_file():
        shutil.copyfile(source / "tokenizer.json", target / "tokenizer.json")
    else:
        tokenizer = AutoTokenizer.from_pretrained(source, local_files_only=True, trust_remote_code=False)
        tokenizer.backend_tokenizer.save(str(target / "tokenizer.json"))


def read_opset(model: Any) -> int:
    """Return the version of ONNX's own operators in a model."""
    return max((entry.version for entry in model.opset_import if entry.domain in ("", "ai.onnx")), default=0)


def time_in_turns(runs: Mapping[str, Callable[[], Any]]) -> dict[str, float]:
    """Return the best seconds of each run by name; runs alternate, so that other work slows all of them."""
    seconds = dict.fromkeys(runs, float("inf"))
    for _ in range(_TIMED_ROUNDS):
        for name, run in runs.items():
            start = time.perf_counter()
            run()
            seconds[name] = min(seconds[name], time.perf_counter() - start)
    return {name: round(best, 5) for name, best in seconds.items()}


def choose_precision(figures: Mapping[str, float], least_agreement: float) -> str:
    """Return `int8` if it is faster and agrees with fp32, else `fp32`.

    Args:
        figures: agreement, fp32_seconds and int8_seconds.
    """
    good = figures["agreement"] >= least_agreement and figures["int8_seconds"] < figures["fp32_seconds"]
    return "int8" if good else "fp32"


class ExportJob(NamedTuple):
    """An export to make."""

    module: str  # its main program takes the source, the target and options
    source: Path
    options: Sequence[str]
    name: str  # of the model, for messages
    remedy: str


def export_once(
    export: ExportJob,
    target: Path,
    mark: str,
    check: Callable[[Path], Any],
    finish: Callable[[Path], None] | None = None,
) -> Path:
    """Fill a folder by an export, or check a complete one; two processes may do so at once.

    Args:
        target: its name includes a digest of the source.
        mark: the file that the export writes last.
        check: raises EncoderError for a complete folder that is damaged.
        finish: completes the folder in this process, `mark` included.

    Raises:
        EncoderError: the folder cannot be written, or the export failed.
    """
    if (target / mark).is_file():
        check(target)
        return target
    folder: Path | None = None
    try:
        target.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        folder = Path(tempfile.mkdtemp(dir=target.parent, prefix=".export-"))
        _run_export(export, folder)
        if finish:
            finish(folder)
        with contextlib.suppress(FileExistsError):  # another process was first
            folder.rename(target)
    except OSError as error:
        if not (target / mark).is_file():  # ENOTEMPTY: another process was first
            raise EncoderError(f"cannot write the exported model to {target}: {error}", "set HELIX_CACHE") from None
    finally:
        if folder is not None:
            shutil.rmtree(folder, ignore_errors=True)
    return target


def _run_export(export: ExportJob, target: Path) -> None:
    """Export in a process of its own, which frees the memory of torch when it ends; an error has its last line.

    Raises:
        EncoderError: with the remedy of the export's own EncoderError, else with that of the job.
    """
    done = subprocess.run(
        [sys.executable, "-m", export.module, str(export.source), str(target), *export.options],
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, "HF_HUB_OFFLINE": "1", "TOKENIZERS_PARALLELISM": "false"},
    )
    if done.returncode:
        lines = done.stderr.strip().splitlines() or ["no output"]
        own = f"{EncoderError.__module__}.{EncoderError.__name__}: "
        remedy = "" if lines[-1].startswith(own) else export.remedy
        raise EncoderError(
            f"exporting {export.name} from {export.source} failed: {lines[-1].removeprefix(own)}", remedy
        )
