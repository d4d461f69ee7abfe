"""Changing histories: what is refused, the figures of answers given by hand, and the commands on real stores."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from helix.cli.main import main
from helix.errors import InputRefused
from helix.ranking.trees import predict
from helix.settings import load
from helix.text.claims import read_claims
from pipelines.eval.changes.figures import (
    Judgement,
    RecalledItems,
    group_rows,
    judge_marks,
    judge_now,
    judge_then,
    judge_why,
    list_misses,
    make_row,
)
from pipelines.eval.changes.fit_claims import fit_claims
from pipelines.eval.changes.fit_links import fit_links
from pipelines.eval.changes.history import (
    PACKAGED,
    Change,
    Control,
    count_parts,
    list_histories,
    list_shortfalls,
    read_history,
)
from pipelines.eval.changes.material import make_folds, read_material
from tests.support.benchmarks import write_json, write_json_lines

pytestmark = pytest.mark.usefixtures("no_router")

TURNS = [
    {"session": "s1", "id": f"a{i}", "role": "user", "text": text, "ts": f"2026-03-0{i}T09:00:00Z"}
    for i, text in enumerate(
        (
            "We use Jenkins for CI.",
            "The pool size is 5.",
            "What if we moved CI to Drone?",
            "We switched from Jenkins to Buildkite for CI. Jenkins was slow.",
            "Lunch was good.",
            "The pool size is 9.",
        ),
        1,
    )
]
QUESTIONS: dict[str, Any] = {
    "now": "2026-04-01T10:00:00Z",
    "pairs": [
        {
            "id": "p1", "category": "choice", "stale": ["a1"], "current": ["a4"], "now": ["Which CI do we run?"],
            "then": [{"q": "What did we use before?", "gold": ["a1"]}],
            "why": [{"q": "Why did we leave Jenkins?", "gold": ["a4"]}],
        },
        {"id": "p2", "category": "limit", "stale": ["a2"], "current": ["a6"], "now": ["How large is the pool?"]},
    ],
    "controls": [{"id": "c1", "kind": "hypothetical", "keep": ["a4"], "looks_like": ["a3"]}],
}  # fmt: skip


def write_history(folder: Path, change: Callable[[list[dict[str, Any]], dict[str, Any]], object] | None = None) -> Path:
    turns, questions = json.loads(json.dumps([TURNS, QUESTIONS]))
    if change:
        change(turns, questions)
    write_json_lines(folder / "turns.jsonl", *turns)
    write_json(folder / "questions.json", questions)
    return folder


def test_the_figures_of_given_answers(tmp_path: Path) -> None:
    history = read_history(write_history(tmp_path / "one"))
    first, second = history.pairs

    def answer(ranking: str, packed: str = "") -> RecalledItems:
        """Each word is an item, of turns joined by a plus."""
        return RecalledItems(*([word.split("+") for word in given.split()] for given in (ranking, packed)))

    def list_true(ranking: str, packed: str = "") -> str:
        return " ".join(name for name, value in judge_now(answer(ranking, packed), first).items() if value)

    assert list_true("a4 a1", "a5 a4 a1") == "above first top3 context context_above"
    assert list_true("a5 a2 a4 a1", "a1 a4") == "above top3 context"
    assert list_true("a5 a2 a3 a4", "a4") == "above context context_above"  # the stale turn is not found
    assert list_true("a1 a4", "a5") == "top3"
    assert list_true("a1+a4") == "first top3"  # one item has both: neither is above the other
    assert list_true("a1 a5", "a1") == ""  # the current turn is not found
    assert list_true("") == ""
    for judge, question in ((judge_then, first.then[0]), (judge_why, first.why[0])):
        (gold,) = question.gold
        name, other = ("then", "then3") if judge is judge_then else ("why1", "why")
        for ranking, expected in ((f"{gold} x", (True, True)), (f"x y {gold}", (False, True)), (f"x y z {gold}", ())):
            figures = judge(answer(ranking), question)
            assert (figures[name], figures[other]) == (expected or (False, False)), ranking

    ranking = answer("a5 a1 a3 a4").ranking
    judgements = [
        Judgement(history, first, judge_now(answer("a5 a1 a3 a4"), first), ("a4",), first.now[0], ranking),
        Judgement(history, second, judge_now(answer("a6 a2"), second), ("a6",), second.now[0], [["a6"], ["a2"]]),
        *judge_marks(history, {"a2", "a4", "a5"}),
    ]
    row = make_row(judgements)
    assert {name: row[name] for name in row if name not in ("n", "ci")} == {
        **{"above": 0.5, "first": 0.5, "top3": 0.5, "context": 0, "context_above": 0},
        **{"marked": 0.5, "false": 1, "false_all": 0.5},  # of a3, a4, a5, a6
    }
    assert (row["n"]["above"], row["n"]["marked"], row["n"]["false"], row["n"]["false_all"]) == (2, 2, 1, 4)
    assert (row["ci"]["above"], row["ci"]["false"]) == ([0, 1], [1, 1])
    categories = group_rows(judgements, Change)
    assert {name: (one["groups"], one["above"], one["marked"]) for name, one in categories.items()} == {
        "choice": (1, 0, 0),
        "limit": (1, 1, 1),
    }
    assert group_rows(judgements, Control) == {"hypothetical": {"groups": 1, "false": 1, "n": {"false": 1}}}

    question, mark, control = list_misses(judgements, ("above", "marked", "false"))
    assert (question["failed"], question["id"], question["missing"]) == (["above"], "p1", [])
    assert [(one["rank"], one["is"], one["turns"][0]["turn"]) for one in question["found"]] == [
        (1, "", "a5"), (2, "stale", "a1"), (3, "", "a3"), (4, "answer", "a4"),
    ]  # fmt: skip
    assert (mark["failed"], mark["turn"], [one["turn"] for one in mark["compare"]]) == (["marked"], "a1", ["a4"])
    assert (control["failed"], control["text"], control["compare"][0]["turn"]) == (["false"], TURNS[3]["text"], "a3")


WRONG: dict[str, Callable[[list[dict[str, Any]], dict[str, Any]], object]] = {
    "two turns are 'a1'": lambda turns, _: turns[1].update(id="a1"),
    "time goes back at 'a2'": lambda turns, _: turns[1].update(ts="2026-02-01T09:00:00Z"),
    "'2026-03-02T09:00:00' has no offset": lambda turns, _: turns[1].update(ts="2026-03-02T09:00:00"),
    "turns.jsonl:2: KeyError: 'text'": lambda turns, _: turns[1].pop("text"),
    "turns.jsonl:1: ValueError: no session": lambda turns, _: turns[0].update(session=""),
    "'a5' has no text": lambda turns, _: turns[4].update(text=" "),
    "'a5' has the role 'system'": lambda turns, _: turns[4].update(role="system"),
    "it has no turn": lambda turns, _: turns.clear(),
    "now is before the last turn": lambda _, asked: asked.update(now="2026-03-05T00:00:00Z"),
    "questions.json: controls: KeyError": lambda _, asked: asked.pop("controls"),
    "questions.json: pair 2: TypeError: 'a2' is no list": lambda _, asked: asked["pairs"][1].update(stale="a2"),
    "pair p1: no turn 'b9'": lambda _, asked: asked["pairs"][0]["then"][0].update(gold=["b9"]),
    "pair p1: no gold turn for 'Why": lambda _, asked: asked["pairs"][0]["why"][0].update(gold=[]),
    "pair p2: a stale and a current turn": lambda _, asked: asked["pairs"][1].update(stale=[]),
    "pair p2: a question has no text": lambda _, asked: asked["pairs"][1].update(now=[""]),
    "pair p1: 'a1' is both": lambda _, asked: asked["pairs"][0].update(current=["a1", "a4"]),
    "pair p1: a stale turn comes after": lambda _, asked: asked["pairs"][0].update(stale=["a1", "a6"]),
    "control c1: no turn 'b9'": lambda _, asked: asked["controls"][0].update(looks_like=["b9"]),
    "control c1: it keeps the stale turn 'a1'": lambda _, asked: asked["controls"][0].update(keep=["a1"]),
}


def test_an_invalid_history_is_refused_in_one_line(tmp_path: Path) -> None:
    for i, (message, change) in enumerate(WRONG.items()):
        folder = write_history(tmp_path / str(i), change)
        with pytest.raises(InputRefused) as refused:
            read_history(folder)
        assert message in str(refused.value), message
        assert str(folder) in str(refused.value), message
        assert "--check" in str(refused.value), message
        assert "\n" not in str(refused.value), message
    (tmp_path / "0" / "questions.json").unlink()
    with pytest.raises(InputRefused, match=r"0/questions\.json cannot be read"):
        read_history(tmp_path / "0")
    (tmp_path / "1" / "questions.json").write_text("{")
    with pytest.raises(InputRefused, match=r"questions\.json: JSONDecodeError"):
        read_history(tmp_path / "1")


def test_histories_are_found_alone_together_and_in_halves(tmp_path: Path) -> None:
    alone = write_history(tmp_path / "some" / "one")
    other = write_history(tmp_path / "some" / "two")
    assert list_histories(alone) == [(alone, "")]
    assert list_histories(tmp_path / "some") == [(alone, ""), (other, "")]
    dev, test = (write_history(tmp_path / "all" / half / "x") for half in ("dev", "test"))
    assert list_histories(tmp_path / "all") == [(dev, "dev"), (test, "test")]
    assert list_histories(tmp_path / "all", "dev") == [(dev, "dev")]
    for path, half in ((tmp_path, "all"), (tmp_path / "missing", "all"), (tmp_path / "some", "dev"), (alone, "test")):
        with pytest.raises(InputRefused, match="holds no changing history"):
            list_histories(path, half)


def test_the_packaged_histories_are_valid_and_large_enough() -> None:
    found = list_histories(PACKAGED)
    assert found
    short = {folder.name: list_shortfalls(read_history(folder, half)) for folder, half in found}
    assert not {name: lines for name, lines in short.items() if lines}


def test_the_command_on_a_packaged_history(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = PACKAGED / "dev" / "parcels"
    counts = count_parts(read_history(folder))
    assert main(["eval", "changes", str(folder), "--json", "--store", str(tmp_path)]) == 0
    report = json.loads(capsys.readouterr().out)
    asked = [counts[f"questions {name}"] for name in ("about now", "about then", "why")]
    assert (report["questions"], list(report["rows"]), "misses" in report) == (sum(asked), ["all"], False)
    row = report["rows"]["all"]
    assert [row["n"][name] for name in ("above", "then", "why")] == asked
    assert all(0 <= row["ci"][name][0] <= row[name] <= row["ci"][name][1] <= 1 for name in row["n"])
    assert row["above"] <= row["context"] + 0.5
    assert row["top3"] > 0.3  # recall finds something
    assert len(row["categories"]) == counts["categories"]
    assert len(row["kinds"]) == counts["kinds of controls"]
    assert [path.name for path in tmp_path.iterdir()] == ["parcels"]
    # The retained store gives the same, here in words and with misses.
    assert main(["eval", "changes", str(folder), "--store", str(tmp_path), "--misses", "first,marked"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].startswith(f"changes: {sum(asked)} questions, ")
    table = {words[0]: words[1:] for line in lines if (words := line.split())}
    assert table["above"][0] == f"{row['above']:.3f}"
    assert sum(line.startswith("first: parcels/p") for line in lines) == round((1 - row["first"]) * row["n"]["first"])


def test_a_change_that_the_facts_know_is_marked(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write_history(tmp_path / "dev" / "one")
    write_history(tmp_path / "test" / "two", lambda turns, _: turns[3].update(text="A walk in the woods."))
    assert main(["eval", "changes", str(tmp_path), "--json", "--misses", "marked"]) == 0
    report = json.loads(capsys.readouterr().out)
    dev, test, both = (report["rows"][name] for name in ("dev", "test", "all"))
    assert (dev["categories"]["choice"]["marked"], test["categories"]["choice"]["marked"]) == (1, 0)
    assert both["n"]["above"] == dev["n"]["above"] + test["n"]["above"] == 4
    assert ("test", "p1") in [(miss["half"], miss["id"]) for miss in report["misses"]]
    assert main(["eval", "changes", str(tmp_path), "--half", "test", "--json"]) == 0
    assert list(json.loads(capsys.readouterr().out)["rows"]) == ["test"]


def test_a_check_lists_all_faults(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write_history(tmp_path / "right")
    assert main(["eval", "changes", str(tmp_path), "--check"]) == 0  # a small one is valid
    assert "too few for a packaged history: 2 pairs, of at least 18" in capsys.readouterr().out
    write_history(tmp_path / "wrong", WRONG["two turns are 'a1'"])
    shutil.copytree(tmp_path / "right", tmp_path / "half")
    (tmp_path / "half" / "questions.json").unlink()
    assert main(["eval", "changes", str(tmp_path), "--check", "--json"]) == 3
    checked = json.loads(capsys.readouterr().out)["histories"]
    assert [(one["history"], len(one["faults"])) for one in checked] == [("half", 1), ("right", 0), ("wrong", 2)]


def test_wrong_use_of_the_command(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for arguments, status, message in (
        (["--misses", "abov"], 2, "no figure 'abov'; there are above, first"), (["--half", "best"], 2, "'best'"),
        (["--profile", "nope"], 2, "no profile 'nope'"), ([str(tmp_path)], 3, "holds no changing history"),
    ):  # fmt: skip
        assert main(["eval", "changes", *arguments]) == status, arguments
        output = capsys.readouterr()
        assert message in output.err, arguments
        assert (output.out, len(output.err.splitlines())) == ("", 1), arguments


def test_the_facts_of_logs(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    logs = tmp_path / "logs"
    tool = {"session": "s1", "id": "t", "role": "tool", "text": "We use Travis for CI.", "ts": "2026-03-07T09:00:00Z"}
    write_json_lines(logs / "a.jsonl", *TURNS, tool)
    (logs / "b.exe").write_bytes(b"\x00\x01")
    assert main(["eval", "facts", str(logs / "a.jsonl"), "--sample", "9", "--json"]) == 0
    report = json.loads(capsys.readouterr().out)
    assert (report["turns"], report["items"], report["marked"]) == (6, 7, 2)
    assert report["facts_per_1000"] == round(1000 * report["facts"] / 6, 2)
    assert len(report["sampled"]) == report["facts"] >= 2
    assert {"We use Jenkins for CI."} < {one["sentence"] for one in report["sampled"]}
    replaced = {one["text"]: [new["text"] for new in one["replaced_by"]] for one in report["replaced"]}
    assert replaced == {TURNS[old]["text"]: [TURNS[new]["text"]] for old, new in ((0, 3), (1, 5))}
    assert main(["eval", "facts", str(logs), "--sample", "1"]) == 3  # the other file is refused
    output = capsys.readouterr()
    assert "b.exe" in output.err
    assert output.out.splitlines()[0].startswith("6 turns of users and assistants: facts ")
    assert "superseded" in output.out


def test_claims_and_links_are_trained_on_histories(tmp_path: Path) -> None:
    histories = [read_history(write_history(tmp_path / name)) for name in ("one", "two")]
    materials = [read_material(history, load(), tmp_path / "work") for history in histories]
    folds = make_folds(len(materials))
    model, left_out = fit_claims(materials, folds)
    for one, predicted in zip(materials, left_out, strict=True):
        turns = [one.rows[f"a{i}"] for i in range(1, 7)]
        for column, (labels, expected) in enumerate(
            ((one.setting, [1, 1, 0, 1, 0, 1]), (one.altering, [0, 0, 0, 1, 0, 1]))
        ):
            assert labels[turns].tolist() == expected
            found = predicted[:, column]
            assert min(found[labels == 1]) >= max(found[labels == 0])  # the other has the same turns
            assert found[labels == 1].mean() > 1.5 * found[labels == 0].mean()
        one.claims, one.alters = read_claims(one.texts, one.roles, model)
    links = fit_links(materials, [], folds)
    for one in materials:
        (scope,) = one.pairs
        changed = [(one.rows["a1"], one.rows["a4"]), (one.rows["a2"], one.rows["a6"])]
        pairs = list(zip(scope[0].tolist(), scope[1].tolist(), strict=True))
        assert {pair for pair, label in zip(pairs, scope[3].tolist(), strict=True) if label} == {*changed}
        assert len(predict(links, scope[2])) == len(one.links[0]) == len(pairs)
