"""The weight of an installation, of small packages made for it."""

from __future__ import annotations

from pathlib import Path

import pytest

from pipelines.cli.weigh import list_needed, main, measure_files


def install(folder: Path, name: str, size: int, *requires: str) -> None:
    """Write a package of one file, as pip does."""
    info = folder / f"{name.replace('-', '_')}-1.0.dist-info"
    info.mkdir()
    (folder / f"{name}.py").write_bytes(b"#" * size)
    lines = [f"Name: {name}", "Version: 1.0", *(f"Requires-Dist: {one}" for one in requires)]
    (info / "METADATA").write_text("Metadata-Version: 2.1\n" + "\n".join(lines) + "\n")
    (info / "RECORD").write_text(f"{name}.py,,\n{name}.py,,\ngone.py,,\n")


@pytest.fixture
def site(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    install(
        tmp_path,
        "helix-recall",
        3_000_000,
        "Small.Part>=1",
        "part[fast]; python_version > '3'",
        "heavy; extra == 'all'",
    )
    install(tmp_path, "small-part", 400_000, "absent-one", "helix_recall")
    install(tmp_path, "part", 1_500_000, "fast-part ; extra == 'fast'")
    install(tmp_path, "fast-part", 100_000)
    install(tmp_path, "heavy", 9_000_000)
    monkeypatch.setattr("sys.path", [str(tmp_path)])
    return tmp_path


def test_a_requirement_counts_once_and_an_extra_only_on_request(site: Path) -> None:
    """Break: leave out the extras of a requirement, or the check of an extra's marker."""
    found = list_needed("helix-recall")
    assert sorted(found) == ["fast-part", "helix-recall", "part", "small-part"]
    assert {name: measure_files(one) for name, one in found.items()} == {
        "fast-part": 100_000, "helix-recall": 3_000_000, "part": 1_500_000, "small-part": 400_000,
    }  # fmt: skip


def test_the_table_adds_up(site: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([]) == 0
    assert capsys.readouterr().out.splitlines()[2:] == [
        "| helix-recall | 3.0 |", "| part | 1.5 |", "| 2 smaller ones | 0.5 |", "| **4 packages** | **5** |",
    ]  # fmt: skip
