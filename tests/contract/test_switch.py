"""`helix off` and `helix on`: what they say and do, and what `helix ingest` and `helix status` say of it."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from helix.snapshot.sql import run_statement
from helix.switches.state import FILE
from tests.support.repositories import make_repository

Run = Callable[..., subprocess.CompletedProcess[str]]


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    top = make_repository(tmp_path / "acme", "git@github.com:ana/acme.git")
    monkeypatch.chdir(top / "src")
    return top


def test_off_and_on_name_the_project_of_the_folder(run_helix: Run, tmp_path: Path, project: Path) -> None:
    store = tmp_path / "store"
    done = run_helix("off", "--store", store)
    assert done.returncode == 0
    assert done.stdout.startswith("Helix is off for project acme: hooks add nothing")
    assert "'helix forget --project acme' removes it" in done.stdout
    assert "no store" in done.stderr
    again = json.loads(run_helix("off", "--store", store, "--json").stdout)
    assert (again["project"], again["folder"], again["remote"]) == ("acme", str(project), "github.com/ana/acme")
    assert (again["off"], again["changed"]) == (True, False)
    assert run_helix("on", "--store", store).stdout.startswith("Helix is on again for project acme")
    assert run_helix("on", "--store", store).stdout == "Helix was not off for project acme.\n"
    run_helix("off", "--store", store)
    by_name = json.loads(run_helix("on", "--project", "acme", "--store", store, "--json").stdout)
    assert by_name["changed"]
    (project / ".helix").write_text("helix: off\n")
    done = run_helix("on", "--store", store)
    assert "Helix stays off here" in done.stderr
    assert ".helix says 'helix: off'" in done.stderr


def test_a_wrong_call_is_refused(
    run_helix: Run, tmp_path: Path, project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for arguments in (["--project", "a", "--session", "b"], ["--project", " "], ["--session", ""], ["acme"]):
        done = run_helix("off", *arguments, "--store", tmp_path / "store")
        assert done.returncode == 2
    monkeypatch.chdir("/")
    done = run_helix("off", "--store", tmp_path / "store")
    assert (done.returncode, done.stderr) == (
        2,
        "helix off: / is no project; go to the project's folder, or name it with --project\n",
    )
    (tmp_path / "store").mkdir(exist_ok=True)
    (tmp_path / "store" / FILE).write_text("{")
    for name in ("off", "on"):
        done = run_helix(name, "--project", "acme", "--store", tmp_path / "store")
        assert done.returncode == 4
        assert f"{FILE} is damaged" in done.stderr
        assert "restore it from a backup" in done.stderr


def test_a_session_switched_off_stays_out_of_the_store(run_helix: Run, own_store: Path, tmp_path: Path) -> None:
    log = tmp_path / "s9.jsonl"

    def add(text: str, when: str) -> None:
        record = {"type": "user", "sessionId": "s9", "uuid": text, "parentUuid": None, "timestamp": when}
        with log.open("a") as file:
            file.write(json.dumps({**record, "message": {"role": "user", "content": text}}) + "\n")

    add("The walnut bread takes an hour.", "2026-05-04T10:00:00Z")
    run_helix("off", "--session", "s9", "--store", own_store)
    add("The quombledorf is in May.", "2999-05-04T10:00:00Z")  # later than any switch
    done = run_helix("ingest", log, "--store", own_store)
    assert f"helix ingest: {log}: 1 line left out: Helix is off for session s9" in done.stderr
    assert done.returncode == 0
    status = json.loads(run_helix("status", "--store", own_store, "--json").stdout)
    assert [off["session"] for off in status["off"]] == ["s9"]
    assert "session s9, since 2" in run_helix("status", "--store", own_store).stdout
    run_helix("on", "--session", "s9", "--store", own_store)
    assert json.loads(run_helix("status", "--store", own_store, "--json").stdout)["off"] == []
    add("Thyme is a herb.", "2999-05-04T10:00:01Z")
    report = json.loads(run_helix("ingest", log, "--store", own_store, "--json").stdout)
    assert (report["accepted"], report["off"]) == (1, [])
    with run_statement(own_store, "SELECT text FROM items WHERE session = 's9' ORDER BY time") as found:
        assert [text for (text,) in found.rows] == ["The walnut bread takes an hour.", "Thyme is a herb."]
    everything = b"".join(path.read_bytes() for path in own_store.rglob("*") if path.is_file())
    assert b"quombledorf" not in everything
    assert json.loads(run_helix("verify", "--store", own_store, "--json").stdout)["problems"] == []
