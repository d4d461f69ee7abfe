"""Output on a terminal, and the same as plain lines in a pipe."""

from __future__ import annotations

import os
import pty
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from helix.cli import terminal
from helix.cli.main import main
from query import auth
from tests.support.terminals import reading, run_on_terminal
from tests.support.tiny import list_ids, make_store

STYLE = re.compile(r"\x1b\[[0-9;]*m")
COLOUR = re.compile(r"\x1b\[(?:[0-9;]*;)?(?:3[0-7]|38|4[0-7]|48|9[0-7])(?:;[0-9;]*)?m")
BOXES = re.compile("[\u2500-\u257f]")
HOSTILE = "\x1b]0;owned\x07\x1b[2J\u202egnp.exe [bold]markup[/] :bug:"

Draw = Callable[..., str]


@pytest.fixture
def draw(monkeypatch: pytest.MonkeyPatch) -> Draw:
    """Call a function with stdout and stderr on a terminal; return what it writes there."""

    def call_on_terminal(call: Callable[[], object], columns: int = 80, **environ: str) -> str:
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

    return call_on_terminal


def plain(text: str) -> str:
    return STYLE.sub("", text)


def test_the_command_draws_on_a_terminal(sample_store: Path) -> None:
    assert "\x1b[1msearchable" in run_on_terminal("status", "--store", sample_store)


def test_the_status_has_two_columns_within_the_width(sample_store: Path, draw: Draw) -> None:
    for columns in (80, 200):
        text = draw(lambda: main(["status", "--all", "--store", str(sample_store)]), columns)
        lines = plain(text).splitlines()
        assert STYLE.search(text)
        assert all(len(line) <= columns for line in lines)
        named = [line for line in lines if line[0] != " "]
        begin = named[0].index("129 items")
        assert {line[begin - 2 : begin] for line in lines} == {"  "}
        assert all(line[begin] != " " for line in lines)
        assert len(named) >= 10
        assert (len(lines) > len(named)) == (columns == 80)  # long values fold


PIPED = [
    ["status"], ["status", "--all"], ["verify"], ["gc"], ["rollback", "--list"], ["models"],
    ["sql", "SELECT * FROM items LIMIT 3"], ["recall", "What did I tell Priya about vacation?", "--explain"],
    ["--help"], ["recall", "--help"],
]  # fmt: skip


def test_a_pipe_gets_plain_lines(served_store: Path, call_helix) -> None:
    for call in PIPED:
        done = call_helix(*call, HELIX_STORE=str(served_store), COLUMNS="40" if call[0] != "--help" else "80")
        assert done.returncode == 0, done.stderr
        assert done.stdout.strip()
        for text in (done.stdout, done.stderr):
            assert "\x1b" not in text
            assert not BOXES.search(text)
            assert all(line == line.rstrip() or "\t" in line for line in text.splitlines())


def test_a_piped_line_is_not_folded(sample_store: Path, run_helix) -> None:
    text = run_helix("status", "--all", "--store", sample_store, COLUMNS="40").stdout
    assert re.search(r"^all items +have their embedding, .*, types$", text, re.M)
    assert re.search(r"^doc2query +off: .*HELIX_MODELS is not set$", text, re.M)
    models = run_helix("models", COLUMNS="40").stdout
    default = r"^all-MiniLM-L6-v2 +384 dimensions +Apache-2.0 +package: .*all-MiniLM-L6-v2.*← default$"
    assert re.search(default, models, re.M)


def test_no_color_removes_colours_and_keeps_words(draw: Draw) -> None:
    coloured, bare = draw(lambda: main(["models"])), draw(lambda: main(["models"]), NO_COLOR="1")
    assert COLOUR.search(coloured)
    assert not COLOUR.search(bare)
    assert plain(coloured) == plain(bare)


def test_a_dumb_terminal_gets_what_a_pipe_gets(sample_store: Path, draw: Draw, call_helix) -> None:
    call = ["status", "--all", "--store", str(sample_store)]
    piped, dumb = call_helix(*call).stdout, draw(lambda: main(call), TERM="dumb")
    assert "generation" in piped
    one, other = ([line for line in text.splitlines() if "throughput" not in line] for text in (piped, dumb))
    assert one == other


def test_keys_are_listed_and_no_name_is_markup(tmp_path: Path, draw: Draw) -> None:
    auth.create_key(tmp_path / auth.FILE, "ana", name=HOSTILE)
    ended, _ = auth.create_key(tmp_path / auth.FILE, "bob")
    auth.revoke_key(tmp_path / auth.FILE, ended.split("_")[1])
    text = draw(lambda: main(["keys", "list", "--store", str(tmp_path)]), 180)
    assert len(text.splitlines()) == 3  # no row folds
    assert re.search(r" \d{4}-\d\d-\d\d \d\d:\d\d +never", plain(text))
    assert "[bold]markup[/] :bug:" in plain(text)
    assert "\x1b]0" not in text
    assert re.search(r"\x1b\[2m" + ended.split("_")[1], text)  # a revoked key is dim


def test_an_answer_folds_and_styles_its_parts(sample_store: Path, draw: Draw) -> None:
    call = ["recall", "What did I tell Priya about vacation?", "--store", str(sample_store), "--explain", "--k", "3"]
    text = draw(lambda: main(call))
    before, _, after = plain(text).partition("likely to help")
    assert "\x1b[1m 1\x1b[0m  \x1b[36m" in text
    assert "I told Priya we can do March for vacation" in before
    assert all(len(line) <= 80 for line in before.splitlines())
    stages, _, candidates = after.partition("\nrank  item")
    assert re.search(r"^stage +in → out +ms +details", stages, re.M)
    assert re.search(r"^fuse +\d+\+\d+ → \d+ +[\d.]+ ms", stages, re.M)
    assert all(len(line) <= 80 for line in candidates.splitlines())


def test_a_replacement_is_dim_below_the_item(tmp_path: Path, draw: Draw, call_helix) -> None:
    make_store(tmp_path / "s", ["we use Jenkins", "we use Buildkite"], changes=[(0, 1, 1.0)])
    call = ["recall", "Jenkins", "--store", str(tmp_path / "s"), "--now", "2026-01-01"]
    line = f"replaced 2023-11-14 by {list_ids(tmp_path / 's')[1][:8]}: we use Buildkite"
    assert f"\x1b[2m{line}\x1b[0m" in draw(lambda: main(call), columns=120)
    lines = call_helix(*call).stdout.splitlines()
    assert lines[lines.index("    we use Jenkins") + 1] == f"    {line}"
    assert sum(one.strip().startswith("replaced") for one in lines) == 1


def test_recalled_text_is_not_markup(tmp_path: Path, cache: Path, draw: Draw, call_helix) -> None:
    from helix.settings import load
    from pipelines.embedded.ingest import ingest

    (tmp_path / "a.jsonl").write_text('{"id": "1", "text": "the :bug: in [bold]x[/bold] \\u001b[2J is a sign"}\n')
    ingest(tmp_path / "s", [tmp_path / "a.jsonl"], load())
    call = ["recall", "bug sign", "--store", str(tmp_path / "s")]
    for text in (plain(draw(lambda: main(call))), call_helix(*call).stdout):
        assert "the :bug: in [bold]x[/bold]" in text
        assert "\x1b" not in text


def test_no_text_can_steer_a_terminal(draw: Draw, capsys: pytest.CaptureFixture[str]) -> None:
    hostile = f"{HOSTILE}</memory>"

    def show() -> None:
        terminal.print_text(f"one {hostile}\ntwo")
        terminal.print_figures(f"title {hostile}\n  name  {hostile}")
        terminal.print_diff(f"+ {hostile}")
        terminal.print_table([("name", (hostile, "red"))], ("what", hostile))
        terminal.print_note(f"noted {hostile}\nthree")
        terminal.print_error("helix x", f"wrong {hostile}\nfour")

    show()
    piped = capsys.readouterr()
    for text in (plain(draw(show)), piped.out, piped.err):
        assert not re.search("[\x00-\x08\x0b-\x1f\x7f-\x9f\u202e]", text)
        assert "</memory>" not in text
        assert "[bold]markup[/] :bug:&lt;/memory>" in text
    assert piped.out.splitlines()[1] == "two"
    assert len(piped.err.splitlines()) == 2  # a note and an error are one line each


def test_a_table_is_aligned_on_a_terminal_and_in_a_pipe(draw: Draw, capsys: pytest.CaptureFixture[str]) -> None:
    def show() -> None:
        terminal.print_table([("a", "1", "x"), (("bcd", "green"), "1,000", "y")], ("name", "n", "what"), (1,))

    show()
    assert capsys.readouterr().out == "a        1  x\nbcd  1,000  y\n"
    drawn = draw(show)
    lines = [line.rstrip() for line in plain(drawn).splitlines()]
    assert lines == ["name      n  what", "a         1  x", "bcd   1,000  y"]
    assert "\x1b[32mbcd" in drawn
    terminal.print_table([])
    assert capsys.readouterr().out == ""


def test_figures_fold_in_their_column_and_one_is_singular(draw: Draw, capsys: pytest.CaptureFixture[str]) -> None:
    text = "3 items, 2 cores\n  commit          0.2 s\n    of its stages   " + ", ".join(["embed 3.88"] * 12)
    terminal.print_figures(text)
    assert capsys.readouterr().out == text + "\n"
    lines = plain(draw(lambda: terminal.print_figures(text))).splitlines()
    assert lines[0] == "3 items, 2 cores"
    assert all(len(line) <= 80 for line in lines)
    assert len(lines) > 3
    assert len({len(line) - len(line.lstrip()) for line in lines[3:]}) == 1  # folded lines are aligned
    counts = [terminal.format_count(n, "item") for n in (0, 1, 2, 2_000)]
    assert counts == ["0 items", "1 item", "2 items", "2,000 items"]


def test_help_has_the_same_words_with_colours(draw: Draw, call_helix) -> None:
    for call in (["--help"], ["recall", "--help"], ["bench", "--help"]):
        text = draw(lambda call=call: main(call))
        assert plain(text) == call_helix(*call, COLUMNS="80").stdout
        assert "\x1b[1mexamples:\x1b[0m" in text
        assert "\x1b[36m--json\x1b[0m" in text


def test_the_overview_begins_with_the_first_three_commands(call_helix) -> None:
    for call in ([], ["--help"]):
        done = call_helix(*call, COLUMNS="80")
        assert done.returncode == (0 if call else 2)
        blocks = done.stdout.split("\n\n")
        assert re.findall(r"^  helix (\w+)", blocks[2], re.M) == ["init", "recall", "status"]
        assert blocks[2].startswith("first steps:")
        assert all(len(line) <= 80 for line in done.stdout.splitlines())
        assert [block.partition(":")[0] for block in blocks[3:6]] == ["put in", "find", "connect agents and programs"]


def test_many_options_are_in_groups_and_the_shared_ones_are_last(call_helix) -> None:
    text = call_helix("recall", "--help", COLUMNS="80").stdout
    assert text.startswith("usage: helix recall [OPTION …] QUERY [QUERY ...]\n\n")
    titles = re.findall(r"^(\w[\w, ]*):$", text, re.M)
    assert titles[0] == "arguments"
    assert titles[-2:] == ["options of every command", "examples"]
    assert {"which items", "how they are ranked"} <= set(titles)
    assert "options" not in titles


def test_prose_below_examples_folds_and_commands_do_not(call_helix) -> None:
    end = call_helix("expand", "--help", COLUMNS="60").stdout.partition("examples:\n")[2]
    commands, _, prose = end.partition("\n\n")
    assert all(line.startswith("  ") for line in commands.splitlines())
    assert len(prose.splitlines()) > 2
    assert all(len(line) <= 60 for line in prose.splitlines())


def test_help_fits_the_terminal(draw: Draw) -> None:
    for columns in (80, 100):
        for name in ("recall", "worker", "models", "install", "completion"):
            text = plain(draw(lambda name=name: main([name, "--help"]), columns))
            described, _, _ = text.partition("examples:")
            assert all(len(line) <= columns for line in described.splitlines()), name


def test_a_diff_is_green_and_red(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, draw: Draw) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    call = ["install", "cursor", "--store", str(tmp_path / "s"), "--yes"]
    assert re.search(r"\x1b\[32m\+ [^\n]*helix", draw(lambda: main(call)))
    assert re.search(r"\x1b\[31m- [^\n]*helix", draw(lambda: main([*call, "--remove"])))


def test_errors_and_damage_are_red(tmp_path: Path, own_store: Path, draw: Draw) -> None:
    text = draw(lambda: main(["status", "--store", str(tmp_path / ("long" * 40))]))
    assert text.startswith("\x1b[1;31mhelix status:")
    assert len(text.splitlines()) == 1  # the terminal folds it, so a copy of it is one line
    assert "no Helix store at" in text
    next(own_store.glob("segments/*/text.arrow")).write_bytes(b"x")
    text = draw(lambda: main(["verify", "--store", str(own_store)]))
    assert re.search(r"\x1b\[31m[^\n]*text\.arrow", text)
    assert "problem" in text


def test_the_best_values_of_an_evaluation_are_bold(draw: Draw, capsys: pytest.CaptureFixture[str]) -> None:
    from pipelines.cli.eval_commands import _print_rows
    from pipelines.eval.score import METRICS

    one = {**dict.fromkeys(METRICS, 0.25), "low": 0.125, "high": 0.75, "skipped": 0, "short": 0, "p50": 2.0, "p95": 4.0}
    rows = {"dense": one, "helix": {**one, "rec@10": 0.875, "p50": 8.0}}
    report = {"set": "x", "questions": 2, "items": 3, "rows": rows, "kinds": {}, "left_out": {"no gold": 1}}
    report |= {"notes": ["a note"], "warnings": [], "sessions": {}, "sound": {}}
    text = draw(lambda: _print_rows(report))
    lines = plain(text).splitlines()
    assert all(len(line) <= 80 for line in lines)
    assert "\x1b[1;32m 0.875" in text
    assert "\x1b[1;32m2.0" in text  # milliseconds: the least
    assert "\x1b[1;32m0.125" not in text  # an interval has no best value
    assert lines[-2:] == ["1 questions are left out: no gold", "a note"]
    _print_rows(report)
    assert "rec@10" in capsys.readouterr().out.splitlines()[1]


def test_a_pipe_does_not_import_rich(sample_store: Path) -> None:
    code = (
        "import sys\nfrom helix.cli.main import main\n"
        f"for call in (['status', '--store', {str(sample_store)!r}], ['--help'], ['recall', '--help'], ['nope']):\n"
        "    main(call)\n"
        "import query.hooks.command\n"
        "sys.exit('rich' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
