"""What the README shows is so: its Python runs, its commands exist, its figures' table is complete."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from importlib.metadata import entry_points
from pathlib import Path

import pytest

from helix.profiles import names

ROOT = Path(__file__).resolve().parents[2]
README = (ROOT / "README.md").read_text("utf-8")
BLOCKS = re.findall(r"```(\w*)\n(.*?)```", README, re.DOTALL)
COMMANDS = sorted(
    {line for _, block in BLOCKS for line in re.findall(r"^\$? ?(helix [a-z].*?)(?: +#.*|;.*)?$", block, re.M)}
)


def test_the_python_runs(sample_store: Path, tmp_path: Path) -> None:
    shutil.copytree(sample_store, tmp_path / "memory")
    for language, block in BLOCKS:
        if language == "python":
            done = subprocess.run(
                [sys.executable, "-c", block], cwd=tmp_path, capture_output=True, text=True, check=False
            )
            assert done.returncode == 0, done.stderr
            assert "<memory>" in done.stdout


def test_the_recall_it_shows_is_the_samples(sample_store: Path, run_helix) -> None:
    shown = next(block for _, block in BLOCKS if block.startswith("$ helix recall"))
    asked = re.findall(r'^\$ helix recall "(.*)"$', shown, re.M)
    found = run_helix("recall", *asked, "--store", str(sample_store)).stdout
    # Scores differ by a thousandth from processor to processor: what is found is compared, and what is found first.
    texts = re.findall(r"^    (?!dense|bm25)(\S.*)$", shown, re.M)
    assert len(texts) == 3
    assert found.splitlines()[1].strip() == texts[0]
    assert all(f"    {text}\n" in found for text in texts)


@pytest.mark.parametrize("command", COMMANDS)
def test_a_command_and_its_options_exist(command: str, run_helix) -> None:
    words = command.split()
    name = words[1]
    assert name in {entry.name for entry in entry_points(group="helix.commands")}
    described = run_helix(name, "--help").stdout
    for option in re.findall(r"--[a-z-]+", command):
        assert option in described


def test_every_profile_has_its_figures() -> None:
    for name in names():
        assert f"| `{name}` |" in README


def test_the_targets_of_make_exist() -> None:
    makefile = (ROOT / "Makefile").read_text("utf-8")
    for target in re.findall(r"make ([a-z]+)", README):
        assert re.search(rf"^{target}:", makefile, re.M), target
    assert os.access(ROOT / ".ci" / "run", os.X_OK)
