"""Secrets in the names of files, folders, sessions and projects."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from helix.errors import InputRefused
from helix.redact.paths import redact_log, redact_name, redact_path
from helix.settings import load
from helix.snapshot.ledger import inbox
from helix.snapshot.paths import create_folders
from pipelines.ingest.accept import accept, accept_source
from pipelines.ingest.accept_all import IngestReport, accept_all
from pipelines.ingest.source import AcceptOptions, Inbox

LETTERS = "A1b2C3d4E5f6G7h8I9j0K1l2M3n4O5p6Q7r8S9t0"
FIRST, SECOND = "gh" + "p_" + LETTERS[:36], "gh" + "p_" + LETTERS[4:]


def record(session: str, cwd: str = "/srv/app") -> str:
    message = {"role": "user", "content": f"what is in {cwd}?"}
    head = {"type": "user", "sessionId": session, "cwd": cwd, "timestamp": "2026-01-14T10:15:00Z"}
    return json.dumps({**head, "uuid": f"u-{session[-3:]}", "message": message})


def test_each_name_of_a_path_is_redacted_and_the_suffix_stays() -> None:
    path = f"/home/ana/{FIRST}/2026 {SECOND}.jsonl"
    clean = redact_path(path)
    assert clean.startswith("/home/ana/[REDACTED:github-pat]~")
    assert clean.endswith(".jsonl")
    assert clean.count("/") == path.count("/")
    assert FIRST not in clean
    assert SECOND not in clean
    assert redact_path(clean) == clean
    secret = "password=" + "hunter2xyz"
    assert redact_path(f"/srv/{secret}/x.md").startswith("/srv/password=[REDACTED:password]~")
    for other in ("/home/ana/src/app/x.jsonl", "notes.md", "/a b/Ä ö.txt", "/x/2026-01-14_10-15Z-fix-the-token.md", ""):
        assert redact_path(other) == other


def test_names_stay_distinct_and_stable() -> None:
    assert redact_name(f"s-{FIRST}") != redact_name(f"s-{SECOND}")
    assert redact_name(f"s-{FIRST}") == redact_name(f"s-{FIRST}")
    assert redact_name("main") == "main"
    assert redact_name(redact_name(FIRST)) == redact_name(FIRST)


def test_ids_of_a_log_stay_distinct() -> None:
    lines = "\n".join(record(f"s-{token}", f"/srv/{token}/app") for token in (FIRST, SECOND, FIRST))
    clean, counts = redact_log(lines)
    records = [json.loads(line) for line in clean.split("\n")]
    assert records[0]["sessionId"] == records[2]["sessionId"] != records[1]["sessionId"]
    assert records[0]["cwd"] == records[2]["cwd"] != records[1]["cwd"]
    assert records[0]["cwd"].endswith("/app")
    assert "[REDACTED:github-pat]~" in records[0]["sessionId"]
    assert "~" not in records[0]["message"]["content"]
    assert counts["github-pat"] == 9
    assert FIRST not in clean
    assert SECOND not in clean


def test_a_store_holds_no_secret_of_a_file_name(tmp_path: Path) -> None:
    store, settings = tmp_path / "store", load()
    create_folders(store)
    for token in (FIRST, SECOND):
        (tmp_path / token).mkdir()
        (tmp_path / token / f"{token}.jsonl").write_text(record(f"s-{token}", f"/srv/{token}") + "\n")
    project = f"p-{FIRST}"
    paths = [tmp_path / token / f"{token}.jsonl" for token in (FIRST, SECOND)]
    documents = [accept(store, path, settings, project=project).documents for path in paths]
    assert all(len(each) == 1 for each in documents)
    assert documents[0] != documents[1]
    for path in paths:  # the cursor of each file is found again
        assert accept(store, path, settings, project=project).is_duplicate
    with paths[0].open("a") as file:
        file.write(record(f"s-{FIRST}", f"/srv/{FIRST}/more") + "\n")
    (more,) = accept_source(Inbox(store, settings), paths[0], AcceptOptions(project)).documents
    envelope = inbox.read_envelope(store, more)
    assert envelope.after == documents[0][0]
    assert envelope.path == inbox.read_envelope(store, documents[0][0]).path
    stored = b"".join(path.read_bytes() + path.name.encode() for path in store.rglob("*") if path.is_file())
    for token in (FIRST, SECOND):
        assert token.encode() not in stored


def test_a_refusal_names_no_secret(tmp_path: Path) -> None:
    store, settings = tmp_path / "store", load()
    create_folders(store)
    empty, missing = tmp_path / f"{FIRST}.jsonl", tmp_path / f"{SECOND}.jsonl"
    empty.write_text("")
    report = IngestReport()
    accept_all(store, [empty, missing], settings, report, project=None, format="auto", acl=())
    assert len(report.refused) == 2
    assert FIRST not in str(report.refused)
    assert SECOND not in str(report.refused)
    assert report.refused[1]["reason"].startswith("does not exist")
    with pytest.raises(InputRefused) as refused:
        accept(store, missing, settings)
    assert SECOND not in str(refused.value)
