"""The line `helix: off` in a project's own file."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from helix.switches.project_line import FILES, find_line


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("HOME", str(tmp_path))
    (tmp_path / "acme" / ".git").mkdir(parents=True)
    (tmp_path / "acme" / "src" / "deep").mkdir(parents=True)
    return tmp_path / "acme"


@pytest.mark.parametrize(
    "text",
    [
        *(
            "helix: off",
            "# Rules\n\nhelix: off\n",
            "HELIX: Off\r\nmore",
            "- helix: off",
            "* helix:off",
            "  helix : off ",
        ),
        *("<!-- helix: off -->", "<!--helix: off-->", "- <!-- Helix: OFF -->", "\ufeffhelix: off"),
    ],
)
def test_the_line_is_found(project: Path, text: str) -> None:
    for name in FILES:
        (project / name).write_text(text)
        for folder in (project, project / "src" / "deep"):
            assert find_line(str(folder)) == str(project / name)
        (project / name).unlink()


@pytest.mark.parametrize(
    "text",
    [
        *("", "helix: on", "write helix: off here", "helix: offline", "helix off", "`helix: off`", "<!-- helix: off"),
        *("x" * (1 << 16) + "\nhelix: off", "\n" * ((1 << 16) - 10) + "helix: offline"),
    ],
)
def test_other_text_is_no_switch(project: Path, text: str) -> None:
    (project / "AGENTS.md").write_text(text)
    assert find_line(str(project)) == ""


def test_only_the_projects_own_regular_files_count(project: Path, tmp_path: Path) -> None:
    (tmp_path / "AGENTS.md").write_text("helix: off")  # above the repository's top
    (project / ".helix").mkdir()
    os.mkfifo(project / "CLAUDE.md")
    (project / "GEMINI.md").symlink_to("/dev/zero")
    (project / "AGENTS.md").symlink_to("AGENTS.md")
    assert find_line(str(project / "src")) == ""  # waits for no writer, and for no end of zeros
    for folder in ("", "acme", "/gone/acme", "/no\0where", str(project / "AGENTS.md")):
        assert find_line(folder) == ""
    plain = tmp_path / "plain" / "sub"
    plain.mkdir(parents=True)
    assert find_line(str(plain)) == str(tmp_path / "AGENTS.md")  # in no repository: up to the home folder
