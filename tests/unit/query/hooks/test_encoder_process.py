"""The encoder in its own process: the same vectors, and the same errors."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import textwrap
import time
from dataclasses import replace
from pathlib import Path

import pytest

from helix.encoders import dense_export, registry
from query.hooks import encoder_process
from tests.support.tiny_encoder import tiny_bert

TEXT = "why did we pick sqlite 🏺"


def run(store: Path, code: str) -> str:
    """Run code in a process without threads, like a hook."""
    start = f"from query.hooks.encoder_process import start_encoder\nencoder = start_encoder({str(store)!r})\n"
    program = start + textwrap.dedent(code)
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stderr == ""
    return done.stdout


pytestmark = pytest.mark.skipif(
    sys.platform != "linux" or len(os.sched_getaffinity(0)) < 2, reason="needs a second core"
)


def test_it_embeds_as_the_encoder_without_the_agents_streams_and_interrupts(sample_store: Path) -> None:
    output = run(
        sample_store,
        f"""
        import os, signal
        from helix.encoders.dense import Encoder
        texts = [{TEXT!r}, "a " * 4_000, "\\udcff"[:0] or "x"]
        own = Encoder(encoder.folder, 1)
        print([bool((encoder.query(text) == own.query(text)).all()) for text in texts], encoder.query("x").dtype)
        print([os.readlink(f"/proc/{{encoder._child}}/fd/{{stream}}") for stream in (0, 1, 2)])
        os.kill(encoder._child, signal.SIGINT)
        print(len(encoder.query("x")) > 0)
        """,
    )
    assert output.splitlines() == ["[True, True, True] float32", str(["/dev/null"] * 3), "True"]


@pytest.mark.parametrize("missing", ["", "model.onnx", "tokenizer.json"])
def test_a_missing_encoder_is_reported(own_store: Path, missing: str) -> None:
    folder = next((own_store / "encoders").iterdir())
    if missing:
        (folder / missing).unlink()
    else:
        folder.rename(own_store / "gone")
    output = run(
        own_store,
        """
        from helix.errors import EncoderError
        for _ in range(2):
            try:
                encoder.folder
            except EncoderError as error:
                print(error.what)
        """,
    ).splitlines()
    assert output[0].startswith("encoder missing: ")
    assert output[0].endswith(f"{missing or 'encoder.json'} does not exist")
    assert output[1].startswith("encoder gone")


def test_a_killed_encoder_is_reported(sample_store: Path) -> None:
    output = run(
        sample_store,
        """
        import os, signal
        from helix.errors import EncoderError
        os.kill(encoder._child, signal.SIGKILL)
        os.waitpid(encoder._child, 0)
        try:
            encoder.query("x")
        except EncoderError as error:
            print(error.what)
        """,
    )
    assert output.startswith("encoder gone")


def test_it_ends_with_its_parent(sample_store: Path) -> None:
    began = time.monotonic()
    child = int(run(sample_store, "import os\nprint(encoder._child, flush=True)\nos._exit(0)"))  # reads to the end
    assert time.monotonic() - began < 30
    while Path(f"/proc/{child}").exists() and Path(f"/proc/{child}/stat").read_text().split()[2] != "Z":
        assert time.monotonic() - began < 60
        time.sleep(0.05)


def test_one_question_imports_only_what_it_needs(sample_store: Path) -> None:
    output = run(
        sample_store,
        f"""
        import sys
        from query.hooks.context import answer_hook, open_memory
        memory = open_memory({str(sample_store)!r}, encoder)
        asked = {{"kind": "prompt", "prompt": {TEXT!r}, "folders": ["/x/ledgerline"], "session": "s"}}
        print(answer_hook(memory, asked)["said"], memory.snapshot.encoder is encoder)
        heavy = ("onnxruntime", "faiss", "pyarrow.compute", "pyarrow.parquet", "pydantic", "fastapi", "helix.sources")
        print([name for name in heavy if name in sys.modules])
        """,
    ).splitlines()
    assert "characters, project True" in output[0]
    assert output[1] == "[]"


def test_it_tells_whether_it_joins_languages(sample_store: Path, tmp_path: Path) -> None:
    weights = registry.Weights(registry.describe_model(tiny_bert(tmp_path / "tiny")), tmp_path / "tiny", "path")
    for multilingual in (False, True):
        folder = tmp_path / str(multilingual)
        folder.mkdir()
        model = replace(weights.model, multilingual=multilingual, anisotropic=multilingual)
        dense_export.export_encoder(replace(weights, model=model), folder, "fp32")
        output = run(
            sample_store,
            f"""
            from pathlib import Path
            from helix.encoders.dense import Encoder
            from query.hooks.encoder_process import EncoderProcess
            folder = Path({str(folder)!r})
            other = EncoderProcess(folder, 1, Encoder(folder).spec.fingerprint)
            print(encoder.joins_languages, other.joins_languages, other.folder == folder, len(other.query("x")) > 0)
            """,
        )
        assert output.split() == ["False", str(multilingual), "True", "True"]


def test_it_is_not_started_without_a_gain(sample_store: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "inbox").mkdir()
    assert encoder_process.start_encoder(str(tmp_path)) is None  # nothing is published yet
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: {0})
    assert encoder_process.start_encoder(str(sample_store)) is None
    assert signal.getsignal(signal.SIGINT) is not signal.SIG_IGN
