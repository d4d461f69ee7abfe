"""The `helix` command in this process, and a chat endpoint for the tests of the deep tier."""

from __future__ import annotations

import io
import subprocess
from collections.abc import Callable, Iterator
from contextlib import redirect_stderr, redirect_stdout
from pathlib import Path

import pytest

from helix.cli.main import main
from tests.support.chat_server import Chat, chatting


@pytest.fixture(scope="module")
def chat() -> Iterator[Chat]:
    with chatting() as server:
        yield server


@pytest.fixture
def call_helix(cache: Path) -> Callable[..., subprocess.CompletedProcess[str]]:
    """The `helix` command in this process, with its output in a pipe."""

    def call(*arguments: object, **environ: str) -> subprocess.CompletedProcess[str]:
        words, out, err = [*map(str, arguments)], io.StringIO(), io.StringIO()
        with pytest.MonkeyPatch.context() as patch, redirect_stdout(out), redirect_stderr(err):
            for name, value in environ.items():
                patch.setenv(name, value)
            status = main(words)
        return subprocess.CompletedProcess(words, status, out.getvalue(), err.getvalue())

    return call
