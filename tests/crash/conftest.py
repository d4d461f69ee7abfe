"""Fixtures of the tests of crashes, which take long."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import pytest

from helix.cli.main import main
from helix.settings import Settings
from tests.conftest import ENCODER_SOURCES
from tests.support.caching import EXPORTING, cache_folder, exclusive
from tests.support.tiny_encoder import tiny_bert

TINY = (32, 48)
"""Dimensions of the tiny encoders."""


@pytest.fixture(autouse=True)
def processes() -> None:
    """The mark of tests that start processes, for all tests of this folder."""


@pytest.fixture(scope="session")
def tiny_encoders(cache: Path) -> list[str]:
    """Folders of two tiny encoders, of different dimensions, whose exports are in the cache."""

    def make(folder: Path) -> None:
        from helix.encoders.dense_export import cache_encoder
        from helix.encoders.registry import choose_encoder

        for hidden in TINY:
            weights = tiny_bert(folder / f"tiny-{hidden}", hidden)
            cache_encoder(choose_encoder(Settings(encoder=str(weights))), folder)

    folder = cache_folder("tiny-encoders", make, EXPORTING, (*ENCODER_SOURCES, "tests/support/tiny_encoder.py"))
    with exclusive(cache.with_suffix(".tiny")):
        for export in (folder / "encoders").iterdir():
            if not (target := cache / "encoders" / export.name).exists():
                shutil.copytree(export, target.with_name(f".{export.name}"))
                target.with_name(f".{export.name}").rename(target)
    return [str(folder / f"tiny-{hidden}") for hidden in TINY]


class Output(NamedTuple):
    """The output of a command."""

    status: int
    out: str
    err: str


Helix = Callable[..., Output]


@pytest.fixture
def helix(capsys: pytest.CaptureFixture[str], cache: Path) -> Helix:
    """Run a command in this process, so that an unexpected exception is not caught."""

    def run(*arguments: object) -> Output:
        capsys.readouterr()
        status = main([str(argument) for argument in arguments])
        return Output(status, *capsys.readouterr())

    return run
