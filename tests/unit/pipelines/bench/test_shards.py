"""`helix bench shards`: every number of stores is asked, and the report can be printed."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import orjson
import pytest

from helix.settings import load
from pipelines.bench.shards import format_report, list_roots, measure


@pytest.mark.usefixtures("cache", "stores", "processes")
def test_one_store_and_both_are_asked(tmp_path: Path) -> None:
    settings = replace(load(), cache=str(tmp_path))
    roots = list_roots(2, 300, settings)
    assert len({*roots}) == 2
    report = measure(roots, 300, 10, load(), lambda text: None)
    assert orjson.loads(orjson.dumps(report)) == report
    assert [*report["shards"]] == ["1", "2"]
    for one in report["shards"].values():
        assert 0 < one["slowest"]["p50"] <= one["slowest"]["p95"]
        assert one["at_once"]["p50"] > 0
    assert report["shards"]["2"]["memory_mb"] > report["shards"]["1"]["memory_mb"]
    assert format_report(report).count("stores: all at once") == 2
