"""The README is true: its recall is the sample's, every profile has its figures, make knows the targets."""

from __future__ import annotations

import os
import re
from pathlib import Path

from helix.recipes.load_profile import names
from tests.support.pages import ROOT, blocks

README = (ROOT / "README.md").read_text("utf-8")


def test_the_recall_it_shows_is_the_samples(sample_store: Path, run_helix) -> None:
    (shown,) = [block.text for block in blocks("README.md") if block.language == "console"]
    asked = re.findall(r'^\$ helix recall "(.*)"$', shown, re.M)
    found = run_helix("recall", *asked, "--store", str(sample_store)).stdout
    # Scores differ by a thousandth from processor to processor: what is found is compared, and what is found first.
    texts = re.findall(r"^    (?!dense|bm25)(\S.*)$", shown, re.M)
    assert len(texts) == 3
    assert found.splitlines()[1].strip() == texts[0]
    assert all(f"    {text}\n" in found for text in texts)


def test_every_profile_has_its_figures() -> None:
    for name in names():
        assert re.search(rf"^\| `{name}`", README, re.M), name


def test_the_targets_of_make_exist() -> None:
    makefile = (ROOT / "Makefile").read_text("utf-8")
    for target in re.findall(r"make ([a-z]+)", README):
        assert re.search(rf"^{target}:", makefile, re.M), target
    assert os.access(ROOT / ".ci" / "run", os.X_OK)
