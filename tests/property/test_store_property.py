"""Random sequences of growing, changing and repeated logs against a dictionary: the store holds the same items."""

from __future__ import annotations

import json
import tempfile
from pathlib import Path

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from helix.memory import open as open_store
from helix.settings import load
from helix.snapshot.verify import verify
from pipelines.ingest import ingest

TURN = st.tuples(st.integers(0, 3), st.integers(0, 5), st.sampled_from(["walnut", "parsley", "saffron", "thyme"]))
LOG = st.lists(TURN, min_size=1, max_size=6, unique_by=lambda turn: turn[:2])


@settings(max_examples=12, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(logs=st.lists(LOG, min_size=1, max_size=4))
def test_the_store_is_the_newest_version_of_every_turn(cache: Path, logs: list[list[tuple[int, int, str]]]) -> None:
    with tempfile.TemporaryDirectory() as work:
        root, model, seen = Path(work) / "store", {}, set()
        for i, log in enumerate(logs):
            path = Path(work) / f"{i}.jsonl"
            lines = [
                {"session": f"s{s}", "id": f"t{t}", "text": f"{word} in turn {t}", "ts": "2026-01-01T00:00:00Z"}
                for s, t, word in log
            ]
            path.write_text("".join(json.dumps(line) + "\n" for line in lines))
            report = ingest(root, [path], load())
            content = path.read_text()
            assert (report.accepted, report.duplicates) == ((0, 1) if content in seen else (1, 0))
            if content not in seen:  # the same bytes again change nothing, not even back
                model |= {(f"s{s}", f"t{t}"): f"{word} in turn {t}" for s, t, word in log}
            seen.add(content)
        snapshot = open_store(root).snapshot
        rows = [row for row in range(snapshot.rows) if snapshot.alive[row]]
        entries = snapshot.text(rows)
        assert len(entries) == len(model)
        assert {(entry["session"], entry["turns"][0]): entry["text"] for entry in entries} == model
        assert verify(root).problems == ()
