"""No planted secret remains anywhere: not in the store, on the queue, in output or in logs."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from helix.snapshot.ledger import inbox
from helix.snapshot.verify import verify_store
from tests.support.fleet import worker
from tests.support.planted.corpus import Log, build_corpus
from tests.support.processes import wait_until
from tests.support.walk import decode

SEED = 9_041  # not used for tuning
LONG = 8  # characters: a shorter one may be part of any hash


def encode_forms(value: str) -> set[bytes]:
    """Return a secret as files may hold it: bare, in JSON, in JSON inside JSON."""
    once = json.dumps(value)[1:-1]
    forms = (value, once, json.dumps(once)[1:-1], json.dumps(value, ensure_ascii=False)[1:-1])
    return {form.encode() for form in forms}


def find_leaks(folder: Path, logs: list[Log]) -> list[str]:
    """Return `kind in file` of every secret in any file below a folder."""
    secrets = [secret for log in logs for secret in log.secrets if len(secret.value) >= LONG]
    assert len(secrets) >= 200
    needles = {needle: secret.kind for secret in secrets for needle in encode_forms(secret.value)}
    leaks: list[str] = []
    for path in sorted(path for path in folder.rglob("*") if path.is_file() and "encoders" not in path.parts):
        data = decode(path, path.read_bytes())
        leaks += [f"{kind} in {path.relative_to(folder)}" for needle, kind in needles.items() if needle in data]
    return leaks


def write_logs(logs: list[Log], folder: Path) -> Iterator[Path]:
    folder.mkdir()
    for log in logs:
        path = folder / f"{log.name}.{'jsonl' if log.text.lstrip().startswith('{') else 'md'}"
        path.write_text(log.text)
        yield path


@pytest.fixture(scope="module")
def logs() -> list[Log]:
    corpus = build_corpus(SEED)
    assert len({secret.kind for log in corpus for secret in log.secrets}) >= 30
    return corpus


def test_a_leak_would_be_found(tmp_path: Path, logs: list[Log]) -> None:
    paths = list(write_logs(logs, tmp_path / "in"))
    assert len(find_leaks(tmp_path / "in", logs)) >= 200
    assert paths
    secret = next(secret for log in logs for secret in log.secrets if len(secret.value) >= 20)
    pq.write_table(pa.table({"text": [f"{i} words" for i in range(50)] + [secret.value] * 3}), tmp_path / "a.parquet")
    assert [line for line in find_leaks(tmp_path, logs) if "a.parquet" in line]


@pytest.mark.parametrize("step", [2, pytest.param(1, marks=pytest.mark.soak)])
def test_ingestion_leaves_no_secret(tmp_path: Path, logs: list[Log], step: int, run_helix) -> None:
    planted = logs[::step]
    paths = list(write_logs(planted, tmp_path / "in"))
    out = tmp_path / "out"
    done = run_helix("ingest", *paths, "--store", out / "store", "--json")
    (out / "stdout").write_text(done.stdout)
    (out / "stderr").write_text(done.stderr)
    report = json.loads(done.stdout)
    assert find_leaks(out, logs) == []
    refused = {Path(entry["path"].partition(":")[0]).stem for entry in report["refused"]}  # some are JSON, but no log
    ingested = [log for log in planted if log.name not in refused]
    assert len(ingested) > len(planted) * 0.8
    redacted = sum(report["redacted"].values())
    assert redacted >= sum(len(log.secrets) for log in ingested) * 0.98
    assert redacted == sum(n for counts in report["redacted_by_source"].values() for n in counts.values())
    assert verify_store(out / "store").problems == ()


def test_the_queue_and_workers_leave_no_secret(tmp_path: Path, logs: list[Log], redis_url: str, run_helix) -> None:
    import redis

    paths = list(write_logs(logs[1::8], tmp_path / "in"))
    out, store = tmp_path / "out", tmp_path / "out" / "store"
    log = out / "workers.log"
    done = run_helix("enqueue", *paths, "--store", store, "--json", HELIX_REDIS_URL=redis_url)
    (out / "stdout").write_text(done.stdout)
    (out / "stderr").write_text(done.stderr)
    client = redis.Redis.from_url(redis_url)
    messages = [message for queue in ("enrich", "bulk") for message in client.lrange(queue, 0, -1)]
    assert len(messages) == len(inbox.list_accepted(store))
    (out / "queue").write_bytes(b"\n".join(messages))
    with worker(store, redis_url, "enrich,bulk,commit", log):
        wait_until(240, lambda: not inbox.list_pending(store), log)
    for key in client.keys():  # noqa: SIM118  not a dict
        (out / f"redis-{len(list(out.iterdir()))}").write_bytes(client.dump(key) or b"")
    assert find_leaks(out, logs) == []
    client.flushdb()


def test_names_of_files_folders_and_sessions_hold_no_secret(tmp_path: Path, run_helix) -> None:
    letters = "A1b2C3d4E5f6G7h8I9j0K1l2M3n4O5p6Q7r8S9t0"
    tokens = ["gh" + "p_" + letters[:36], "gh" + "p_" + letters[4:]]
    out, store = tmp_path / "out", tmp_path / "out" / "store"
    paths = []
    for token in tokens:
        message = {"role": "user", "content": f"the gateway of {token[4:7]} restarts each night"}
        head = {"type": "user", "sessionId": f"s-{token}", "cwd": f"/srv/{token}", "timestamp": "2026-01-14T10:15:00Z"}
        path = tmp_path / "in" / token / f"{token}.jsonl"
        path.parent.mkdir(parents=True)
        path.write_text(json.dumps({**head, "uuid": f"u-{token[-3:]}", "message": message}) + "\n")
        paths.append(path)
    done = run_helix("ingest", *paths, "--store", store, "--json")
    again = run_helix("ingest", *paths, tmp_path / "in" / f"{tokens[0]}.none", "--store", store, "--json")
    sessions = run_helix("sql", "SELECT session, project, path FROM items", "--store", store, "--json")
    (out / "printed").write_text(done.stdout + done.stderr + again.stdout + again.stderr + sessions.stdout)
    assert (json.loads(done.stdout)["accepted"], json.loads(again.stdout)["duplicates"]) == (2, 2)
    for path in (path for path in out.rglob("*") if path.is_file() and "encoders" not in path.parts):
        data = decode(path, path.read_bytes()) + path.name.encode()
        assert not [token for token in tokens if token.encode() in data], path
    rows = json.loads(sessions.stdout)
    for name in ("session", "project", "path"):
        assert len({row[name] for row in rows}) == 2, rows
    # By the original name, then by the redacted one.
    run_helix("forget", "--session", f"s-{tokens[0]}", "--store", store)
    left = json.loads(run_helix("sql", "SELECT session FROM items", "--store", store, "--json").stdout)
    assert len(left) == 1
    run_helix("forget", "--session", left[0]["session"], "--store", store)
    assert json.loads(run_helix("sql", "SELECT session FROM items", "--store", store, "--json").stdout) == []
