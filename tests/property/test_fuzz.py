"""Damaged logs of every format: parsed or refused, in time and memory linear in their length."""

from __future__ import annotations

import contextlib
import functools
import importlib.util
import json
import random
import subprocess
import sys
import time
import tracemalloc
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given
from hypothesis import strategies as st

import helix
from helix.errors import InputRefused
from helix.redact.redact import redact
from helix.sources import registry as sources
from helix.sources.common.decode import unescape_ascii
from helix.types import Document
from tests.property.test_sources import check
from tests.support.draws import draw_share
from tests.support.paths import DATA

FOLDERS = (Path(helix.__file__).parent / "sample", DATA / "logs")
FUZZING_S = 30
"""Seconds of coverage-guided fuzzing of each adapter: `make soak`."""

NOTE = (
    '{"id": "n1", "text": "Never edit queue.py by hand: make codegen writes it.", "by": "agent", "author": "claude", '
    '"project": "ledgerline", "ts": "2026-05-04T09:00:00Z", "type": "procedural", "pinned": true, "corrects": "s1#2"}'
)

ENTRIES = (
    '{"entries": [{"id": "e1", "kind": "decision", "text": "We chose Buildkite because of the queue times.", '
    '"author": "ana", "ts": "2026-05-04T09:00:00Z", "title": "CI", "project": "ledgerline", "replaces": ["3f9a#1"]}]}'
)


def _seeds() -> dict[str, list[str]]:
    """Return texts by format; of databases and exports those of their collectors."""
    found: dict[str, list[str]] = {name: [] for name in sources.FORMATS}
    for path in (path for folder in FOLDERS for path in sorted(folder.rglob("*")) if path.is_file()):
        collected = sources.collect(path)
        if collected is None and sources.is_companion(path):
            continue
        texts = [path.read_text()] if collected is None else [part.text for part in collected]
        for text in texts:
            with contextlib.suppress(InputRefused):  # what a database is made of
                found[sources.detect(Document(str(path), text)).NAME].append(text)
    found["note"].append(NOTE)  # no file is one
    found["team"].append(ENTRIES)  # nor of these
    return found


SEEDS = _seeds()


def test_the_logs_cover_every_format() -> None:
    assert [name for name, texts in SEEDS.items() if not texts] == []


def take(text: str, name: str) -> None:
    """Parse a text as a format, and as the detected format."""
    for format in (name, "auto"):
        try:
            check(sources.parse(Document("logs/fuzz 2026-05-04.log", text), format))
        except InputRefused:
            continue


@pytest.mark.parametrize("name", SEEDS)
@given(st.data())
@draw_share(0.12, HealthCheck.data_too_large, HealthCheck.too_slow)
def test_damaged_text(name: str, data: st.DataObject) -> None:
    text = data.draw(st.sampled_from(SEEDS[name]))
    for _ in range(data.draw(st.integers(1, 6))):
        start = data.draw(st.integers(0, len(text)))
        end = min(start + data.draw(st.sampled_from([0, 1, 2, 40, 1_000])), len(text))
        other = data.draw(st.integers(0, len(text)))
        new = data.draw(st.sampled_from(["", "\n", '"', "{", "}", "\\", "\x00", "\ud800", "9" * 40, "\u2028", "null"]))
        piece = data.draw(st.sampled_from([new, text[other : other + end - start], text[start:end] * 3]))
        text = text[:start] + piece + text[end:]
    take(text, name)


def _swap(value: object, random: random.Random, depth: int = 0) -> object:
    """Return the JSON with some values missing or of another type."""
    if random.random() < 0.04:
        odd: list[object] = [None, True, -1, 1e308, 10**30, "", "x", [], {}, [[]], {"type": "text"}, ["a", 1, None]]
        return random.choice(odd)
    if isinstance(value, dict):
        items = [(key, _swap(each, random, depth + 1)) for key, each in value.items() if random.random() > 0.03]
        return dict(items)
    if isinstance(value, list):
        swapped = [_swap(each, random, depth + 1) for each in value if random.random() > 0.03]
        if swapped and random.random() < 0.05:
            swapped += random.choices(swapped, k=2)
        return swapped
    return value


JSONS = [name for name in SEEDS if sources.FORMATS[name].JSON]


@pytest.mark.parametrize("name", JSONS)
@given(st.integers(0, 2**32))
@draw_share(0.2)
def test_values_of_other_types(name: str, seed: int) -> None:
    chance = random.Random(seed)
    text = chance.choice(SEEDS[name])
    try:
        text = json.dumps(_swap(json.loads(text), chance))
    except ValueError:
        lines = [json.dumps(_swap(json.loads(line), chance)) for line in text.split("\n") if line.strip()]
        if chance.random() < 0.3:
            chance.shuffle(lines)
        text = "\n".join(lines)
    take(text, name)


_SCRAPS = (
    *("{", "[", '{"a":', "[[", '{"type":"user","message":', '"', "\\", "\\u00", "(", "<", "</", "<memory>"),
    *("</memory>", "<system-reminder>", "#### ", "> ", "# ", "```\n", "<<<<<<< SEARCH\n", "=======\n", "Ana: "),
    *("[00:01] ", "1\n", "00:00:01.000 --> 00:00:02.000\n", "_**User**_\n", "<details>", "</details>\n"),
    *("<tool-use>", "---\n", "\r", "\n", "\x1b[", " ", "\t", "a", "9", "-", "😀", "\u202e", "=", "eyJ", "://a:b"),
    *("password=", "-----BEGIN "),
)


@functools.cache
def _ordinary(size: int) -> float:
    """Return the CPU seconds of an ordinary text of this length."""
    text = "".join(json.dumps({"text": f"The loom was oiled for the {i}th time."}) + "\n" for i in range(size // 50))
    return min(_seconds(text, "jsonl") for _ in range(3))


def _seconds(text: str, name: str) -> float:
    began = time.thread_time()
    take(text, name)
    return time.thread_time() - began


@pytest.mark.parametrize("size", [20_000, pytest.param(120_000, marks=pytest.mark.soak)])
@pytest.mark.parametrize("name", SEEDS)
def test_reading_needs_linear_time(name: str, size: int) -> None:
    """One scrap over and over, bare and inside a log. Quadratic time would be hundreds of times more."""
    seed = min(SEEDS[name], key=len)
    for scrap in _SCRAPS:
        row = scrap * (size // len(scrap))
        middle = seed.find(" ", len(seed) // 2)
        inside = json.dumps(row)[1:-1] if sources.FORMATS[name].JSON else row
        for text in (row, seed[:middle] + inside + seed[middle:]):
            limit = 40 * _ordinary(size) + 0.2
            assert any(_seconds(text, name) < limit for _ in range(3)), (scrap, limit)


@pytest.mark.parametrize("name", SEEDS)
def test_memory_follows_the_length(name: str) -> None:
    """A longer log needs no more memory per byte."""

    def peak(times: int) -> float:
        text = "\n".join(SEEDS[name] * times)
        tracemalloc.start()
        try:
            take(text, name)
            return tracemalloc.get_traced_memory()[1] / len(text)
        finally:
            tracemalloc.stop()

    peak(1)
    assert peak(8) < 2 * peak(2) + 1


@given(st.sampled_from(sorted(SEEDS)), st.data())
@draw_share(0.3)
def test_redaction_leaves_readable_documents(name: str, data: st.DataObject) -> None:
    """A redacted log has the same format and as many turns."""
    text = data.draw(st.sampled_from(SEEDS[name]))
    clean, _ = redact(unescape_ascii(text) if sources.FORMATS[name].JSON else text)
    before, after = (sources.parse(Document("a/b.log", each), name) for each in (text, clean))
    assert [len(session.turns) for session in before.sessions] == [len(session.turns) for session in after.sessions]
    assert before.unknown == after.unknown


@pytest.mark.soak
@pytest.mark.skipif(importlib.util.find_spec("atheris") is None, reason="atheris is not installed: make soak tries to")
@pytest.mark.parametrize("name", SEEDS)
def test_no_crash_no_hang_no_unbounded_memory(name: str, tmp_path: Path) -> None:
    corpus = tmp_path / "corpus"
    corpus.mkdir()
    for i, text in enumerate(SEEDS[name]):
        (corpus / f"seed-{i}").write_text(text)
    limits = [f"-max_total_time={FUZZING_S}", "-timeout=10", "-rss_limit_mb=2048", "-max_len=40000"]
    limits += [f"-artifact_prefix={tmp_path}/"]
    command = [sys.executable, "-m", "tests.support.fuzz_adapter", name, str(corpus), *limits]
    done = subprocess.run(command, capture_output=True, text=True, timeout=FUZZING_S * 10, check=False)
    assert done.returncode == 0, done.stderr[-4_000:]
    runs = [line for line in done.stderr.splitlines() if line.startswith("Done ")]
    assert runs, done.stderr[-1_000:]  # it did fuzz
    assert int(runs[0].split()[1]) > 50
