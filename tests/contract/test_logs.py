"""Logs of commands that keep running: lines for a person on a terminal, JSON for a machine."""

from __future__ import annotations

import io
import json
import logging
import re
import sys
import urllib.request
from pathlib import Path

import pytest

from helix.cli.logging import build_formatter, is_styled, is_text
from helix.errors import UsageError
from helix.settings import load
from tests.support.processes import pick_port, start_helix, wait_until
from tests.support.terminals import running_on_terminal

SOON = 60.0  # seconds: machines that test are busy
STYLE = re.compile(r"\x1b\[[0-9;]*m")
HOSTILE = "\x1b]0;owned\x07\x1b[2J\u202egnp.exe\nsecond line"


def format_record(level: int, message: str, styled: bool = False, name: str = "", **fields: object) -> str:
    record = logging.Logger("helix.test").makeRecord("helix.test", level, "x.py", 1, message, (), None, extra=fields)
    return build_formatter(json=False, styled=styled, name=name).format(record)


def test_a_line_has_the_time_the_message_and_its_fields() -> None:
    assert re.fullmatch(r"\d\d:\d\d:\d\d published  items=3", format_record(logging.INFO, "published", items=3))
    assert format_record(logging.WARNING, "late")[9:] == "warning: late"
    assert format_record(logging.ERROR, "gone", path="a b")[9:] == 'error: gone  path="a b"'
    assert format_record(logging.INFO, "begins", name="beat")[9:] == "beat    begins"


def test_only_our_styles_reach_a_terminal() -> None:
    for styled in (False, True):
        line = format_record(logging.WARNING, f"read {HOSTILE}", styled, HOSTILE, source=HOSTILE)
        assert bool(STYLE.search(line)) == styled
        assert not re.search("[\x00-\x1f\x7f-\x9f\u202e]", STYLE.sub("", line))


def test_an_error_is_below_its_line(monkeypatch: pytest.MonkeyPatch) -> None:
    try:
        raise ValueError(HOSTILE)
    except ValueError:
        record = logging.Logger("x").makeRecord(
            "x", logging.ERROR, "x.py", 1, "failed", (), sys.exc_info(), extra={"n": 1}
        )
    first, *rest = build_formatter(json=False).format(record).splitlines()
    assert first.endswith("error: failed  n=1")
    assert "ValueError" in rest[-2]
    assert "\x1b" not in "".join(rest)


@pytest.mark.parametrize(
    ("environ", "is_terminal", "styled"),
    [({}, True, True), ({}, False, False), ({"NO_COLOR": "1"}, True, False), ({"FORCE_COLOR": "1"}, False, True),
     ({"NO_COLOR": "1", "FORCE_COLOR": "1"}, True, False), ({"TERM": "dumb"}, True, False)],
)  # fmt: skip
def test_colours_follow_the_conventions(
    monkeypatch: pytest.MonkeyPatch, environ: dict[str, str], is_terminal: bool, styled: bool
) -> None:
    for name in ("NO_COLOR", "FORCE_COLOR"):
        monkeypatch.delenv(name, raising=False)
    for name, value in {"TERM": "xterm", **environ}.items():
        monkeypatch.setenv(name, value)
    stream = io.StringIO()
    monkeypatch.setattr(stream, "isatty", lambda: is_terminal)
    assert is_styled(stream) == styled


def test_the_setting_decides_before_the_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    for form, on_terminal, expected in (
        ("auto", True, True),
        ("auto", False, False),
        ("text", False, True),
        ("json", True, False),
    ):
        monkeypatch.setattr(sys.stderr, "isatty", lambda on=on_terminal: on, raising=False)
        assert is_text(load({"HELIX_LOG_FORMAT": form})) == expected
    with pytest.raises(UsageError, match="HELIX_LOG_FORMAT='yaml' is neither auto nor text nor json"):
        load({"HELIX_LOG_FORMAT": "yaml"})


def test_serve_says_first_where_it_answers_and_how_to_stop_it(sample_store: Path) -> None:
    port = pick_port()
    with running_on_terminal("serve", "--port", port, "--store", sample_store) as written:
        wait_until(SOON, lambda: b"serving generation" in written, lambda: written.decode())
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/v1/recall?query=parsley%1b%5b2J"):
            pass
        wait_until(SOON, lambda: b"GET /v1/recall" in written, lambda: written.decode())
    lines = written.decode().replace("\r\n", "\n").splitlines()
    assert f"http://127.0.0.1:{port}" in lines[0]
    assert f"{sample_store} (129 items of 8 sessions)" in lines[2]
    assert lines[3] == "Ctrl-C stops"
    (access,) = [STYLE.sub("", line) for line in lines if "/v1/recall" in line and "GET" in line]
    assert re.fullmatch(r"\d\d:\d\d:\d\d GET /v1/recall 200 \d+ ms", access)  # no question
    assert lines[-1] == "stopped"
    assert "startup" not in written.decode()


def test_a_machine_reads_json_only(sample_store: Path, tmp_path: Path) -> None:
    log = tmp_path / "log"
    process = start_helix(log, "serve", "--port", str(pick_port()), "--store", str(sample_store))
    try:
        wait_until(SOON, lambda: "serving generation" in log.read_text(), log)
    finally:
        process.terminate()
        process.wait(SOON)
    entries = [json.loads(line) for line in log.read_text().splitlines()]
    assert entries[0]["event"].startswith("listening on http://127.0.0.1:")


def test_watch_says_what_it_watches_and_what_became_searchable(tmp_path: Path, cache: Path) -> None:
    logs, store = tmp_path / "logs", tmp_path / "store"
    logs.mkdir()
    home = {"HOME": str(tmp_path / "home"), "HELIX_CACHE": str(cache)}
    with running_on_terminal("watch", logs, "--store", store, **home) as written:
        wait_until(SOON, lambda: b"Ctrl-C stops" in written, lambda: written.decode())
        (logs / "a.jsonl").write_text('{"session": "s", "text": "walnut"}\n{"session": "s", "text": "bread"}\n')
        wait_until(SOON, lambda: b"searchable" in written, lambda: written.decode())
        (logs / "c.bin").write_bytes(b"a\0b")
        wait_until(SOON, lambda: b"c.bin is not accepted: binary" in written, lambda: written.decode())
    lines = [STYLE.sub("", line) for line in written.decode().splitlines()]
    assert lines[0] == f"watching given  {logs}"
    assert lines[1] == f"store    {store}"
    (published,) = [line for line in lines if "searchable" in line]
    pattern = r"\d\d:\d\d:\d\d 2 new items of logs/a\.jsonl are searchable [\d.]+ s after they were read  generation=1"
    assert re.fullmatch(pattern, published)
    assert not any("accepted  " in line for line in lines)  # one line a batch
    assert lines[-1].endswith("stopped; the same command continues from here")


def test_mcp_by_hand_says_who_starts_it(sample_store: Path) -> None:
    with running_on_terminal("mcp", "--store", sample_store) as written:
        wait_until(SOON, lambda: b"serving generation" in written, lambda: written.decode())
    assert written.decode().startswith("an agent starts this command")
