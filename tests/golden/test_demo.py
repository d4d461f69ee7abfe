"""`make demo`, without make: the bundled sample and a folder of one's own."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from pipelines.cli import demo
from tests.support.pages import ROOT


def test_the_sample(
    cache: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys, "argv", ["demo", "--store", str(tmp_path / "s")])
    assert demo.main() == 0
    printed = capsys.readouterr().out
    assert printed.count("$ helix recall") == printed.count("likely to help") == 3
    answers = printed.split("$ helix recall")[1:]
    assert "I told Priya we can do March for vacation" in answers[0].split(" 2  ")[0]
    assert "Looking at flights to Goa for next month" in answers[0]
    assert "database is locked" in answers[1].split(" 2  ")[0]
    assert "3600" in answers[2]
    assert demo.main() == 0
    assert "0 documents accepted, 4 duplicates; 0 turns" in capsys.readouterr().out


def test_logs_of_ones_own(cache: Path, tmp_path: Path) -> None:
    (tmp_path / "logs").mkdir()
    (tmp_path / "logs" / "talk.jsonl").write_text(
        '{"speaker": "Bo", "text": "we decided to use RabbitParser in src/parse.py because it is fast"}\n'
        '{"speaker": "Cy", "text": "RabbitParser in src/parse.py fails on empty input"}\n'
    )
    command = [sys.executable, "-m", "pipelines.cli.demo", "--store", tmp_path / "s", tmp_path / "logs"]
    done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=ROOT)
    assert done.returncode == 0, done.stderr
    assert done.stdout.count("$ helix recall") == 3
    assert "RabbitParser" in done.stdout
    assert "src/parse.py" in done.stdout
