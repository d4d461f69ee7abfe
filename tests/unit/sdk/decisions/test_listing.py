"""Decisions by topic: from facts, from links between items, and from plain words."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from helix.sdk.decisions.lines import format_decision, format_past, format_rejection
from helix.sdk.decisions.listing import SHORT, answer_decisions, list_decisions
from helix.snapshot.reader.snapshot import Snapshot
from tests.support.tiny import make_store, memory_of
from tests.support.tiny_decisions import find_seconds, link_rows, make_said_store

LATE = find_seconds("2026-12-01")
CI = (
    ("2026-01-12", "We use Jenkins for CI."),
    ("2026-02-01", "The Jenkins box was slow today."),
    ("2026-04-02", "We switched from Jenkins to Buildkite for CI.", {"speaker": "Priya"}),
    ("2026-05-02", "As before, we use Buildkite for CI."),
)
DECIDED: dict[str, Any] = {"type": "decision"}


def read_lines(snap: Snapshot, at: int = LATE, **options: Any) -> list[str]:
    """Return the decisions as lines, without their places."""
    return [format_decision(entry) for entry in list_decisions(snap, at, **options)["decisions"]]


def read_rejected(snap: Snapshot) -> list[str]:
    return [format_rejection(entry) for entry in list_decisions(snap, LATE)["rejected"]]


def test_a_topic_has_what_holds_and_what_it_replaced(tmp_path: Path) -> None:
    snap = make_said_store(tmp_path, CI)
    (entry,) = list_decisions(snap, LATE)["decisions"]
    assert format_decision(entry) == "CI: Buildkite, since 2026-04-02, Priya (replaced Jenkins, 2026-01-12)"
    assert (entry["text"], entry["session"], entry["type"]) == (CI[2][1], "s2", "episodic")
    assert entry["item"] == f"{int(snap.columns.key[2]):016x}"
    assert [format_past(one) for one in entry["replaced"]] == [
        "2026-01-12 to 2026-04-02: Jenkins “We use Jenkins for CI”, Ana [s0#1]"
    ]


def test_as_of_is_what_was_said_by_then(tmp_path: Path) -> None:
    snap = make_said_store(tmp_path, [*CI, ("2026-06-01", "Since January we use Argo for deploys. I live in Oslo.")])
    assert read_lines(snap, find_seconds("2026-04-01")) == ["CI: Jenkins, since 2026-01-12, Ana"]
    assert len(read_lines(snap, find_seconds("2026-05-31"))) == 1  # Argo held already, but it was not yet said
    assert [line[:13] for line in read_lines(snap)] == ["CI: Buildkite", "deploys: Argo"]


def test_re_adoption_keeps_every_step(tmp_path: Path) -> None:
    months = ["Jenkins", "Buildkite", "Jenkins", "Drone", "Buildkite"]
    said = [(f"2026-0{month}-01", f"We use {tool} for CI.") for month, tool in enumerate(months, 1)]
    snap = make_said_store(tmp_path, said)
    (entry,) = list_decisions(snap, LATE, history=True)["decisions"]
    assert entry["value"] == "Buildkite"
    assert [one["value"] for one in entry["replaced"]] == ["Drone", "Jenkins", "Buildkite", "Jenkins"]
    (entry,) = list_decisions(snap, LATE)["decisions"]
    assert len(entry["replaced"]) == SHORT


def test_a_tool_without_a_purpose_replaces_what_its_sentence_ends(tmp_path: Path) -> None:
    snap = make_said_store(tmp_path, [("2026-01-01", "We use npm."), ("2026-02-01", "We switched from npm to pnpm.")])
    assert read_lines(snap) == ["We switched from npm to pnpm, since 2026-02-01, Ana (replaced npm, 2026-01-01)"]
    snap = make_said_store(tmp_path / "never said", [("2026-02-01", "We switched from npm to pnpm.")])
    assert read_lines(snap) == ["We switched from npm to pnpm, since 2026-02-01, Ana (replaced npm)"]


CAP = (
    ("2026-01-10", "the beeper lies with Mei now"),
    ("2026-02-10", "from April the beeper is mine to carry"),
    ("2026-03-10", "Good news first. The beeper is mine again"),
)


def test_a_chain_of_links_is_one_topic(tmp_path: Path) -> None:
    make_said_store(tmp_path, CAP)
    snap = link_rows(tmp_path, [(0, 1), (0, 2), (1, 2)])
    (line,) = read_lines(snap)
    assert line == (
        "Good news first. The beeper is mine again, since 2026-03-10, Ana "
        "(replaced “from April the beeper is mine to carry”, 2026-02-10; “the beeper lies with Mei now”, 2026-01-10)"
    )
    assert read_lines(snap, find_seconds("2026-02-01")) == [f"{CAP[0][1]}, since 2026-01-10, Ana"]
    doubtful = make_said_store(tmp_path / "doubtful", CAP)
    assert read_lines(link_rows(doubtful.root, [(0, 2)], 0.5)) == []


def test_an_item_that_a_fact_names_is_replaced_once(tmp_path: Path) -> None:
    said = [("2026-01-10", "pager: Mei carries primary"), ("2026-02-10", "from April the primary is me"), CAP[2]]
    make_said_store(tmp_path, said)
    assert read_lines(link_rows(tmp_path, [(0, 1), (0, 2), (1, 2)])) == [
        "on-call duty: Good news first. The beeper is mine again, since 2026-03-10, Ana "
        "(replaced Ana, 2026-04-01; Mei, 2026-01-10)"
    ]


def test_an_item_without_a_fact_replaces_only_the_topic_it_is_about(tmp_path: Path) -> None:
    make_said_store(
        tmp_path,
        [
            ("2026-01-10", "We use Jenkins for CI. We use Postgres for storage."),
            ("2026-03-10", "the CI builds moved over to the new company cluster last night"),
        ],
    )
    assert read_lines(link_rows(tmp_path, [(0, 1)])) == [
        "CI: the CI builds moved over to the new company cluster last night, since 2026-03-10, Ana "
        "(replaced Jenkins, 2026-01-10)",
        "storage: Postgres, since 2026-01-10, Ana",
    ]


def test_a_link_that_a_fact_explains_changes_no_other_topic(tmp_path: Path) -> None:
    make_said_store(tmp_path, [("2026-01-10", "We use Jenkins for CI. We use Postgres for storage."), CI[2]])
    assert read_lines(link_rows(tmp_path, [(0, 1)])) == [
        "CI: Buildkite, since 2026-04-02, Priya (replaced Jenkins, 2026-01-10)",
        "storage: Postgres, since 2026-01-10, Ana",
    ]


def test_a_link_replaces_a_topic_with_its_history(tmp_path: Path) -> None:
    make_said_store(tmp_path, [*CI, ("2026-08-01", "the builds moved to the company's runners")])
    (line,) = read_lines(link_rows(tmp_path, [(2, 4), (3, 4)]))
    assert line == (
        "CI: the builds moved to the company's runners, since 2026-08-01, Ana "
        "(replaced Buildkite, 2026-04-02; Jenkins, 2026-01-12)"
    )


def test_a_link_to_a_restatement_is_of_the_same_topic(tmp_path: Path) -> None:
    said = [*CI, ("2026-09-02", "Still true: we use Buildkite for CI."), ("2026-01-02", "builds run on my laptop")]
    make_said_store(tmp_path, said)
    (line,) = read_lines(link_rows(tmp_path, [(5, 3)]))
    assert line.endswith("Priya (replaced Jenkins, 2026-01-12; “builds run on my laptop”, 2026-01-02)")


def test_a_chain_goes_on_where_a_fact_ends_another(tmp_path: Path) -> None:
    """The link ends at Jenkins, which the last fact replaced."""
    make_said_store(tmp_path, [("2026-01-01", "builds run on my laptop"), *CI[::2]])
    assert read_lines(link_rows(tmp_path, [(0, 1)])) == [
        "CI: Buildkite, since 2026-04-02, Priya (replaced Jenkins, 2026-01-12; “builds run on my laptop”, 2026-01-01)"
    ]


def test_a_short_answer_comes_after_its_question(tmp_path: Path) -> None:
    said = [
        ("2026-01-10", "the floor is three pods"),
        ("2026-03-10", "six pods do nothing at night. four would do", {"session": "q"}),
        ("2026-03-10", "agreed, do it", {"session": "q", "turn": "2", "speaker": "Fatou"}),
    ]
    make_said_store(tmp_path, said)
    assert read_lines(link_rows(tmp_path, [(0, 2)])) == [
        "floor: “six pods do nothing at night. four would do” → agreed, do it, since 2026-03-10, Fatou "
        "(replaced three pods, 2026-01-10)"
    ]


def test_decisions_in_other_languages_are_listed(tmp_path: Path) -> None:
    said = [
        (
            "2026-01-10",
            "Ich habe mir beides angesehen. Wir haben uns für wöchentliche Freigaben entschieden.",
            {"type": "decision", "language": "de"},
        ),
        ("2026-01-11", "Haben wir im Mai wöchentliche Freigaben beschlossen?", {"type": "decision", "language": "de"}),
        (
            "2026-01-12",
            "Nous avons choisi le second serveur pour la sauvegarde de nuit.",
            {"type": "decision", "language": "fr"},
        ),
        (
            "2026-01-13",
            "夜間バックアップは二台目のサーバーに移すことに決めました。",
            {"type": "decision", "language": "ja"},
        ),
    ]
    snap = make_said_store(tmp_path, said)
    assert [line.partition(", since")[0] for line in read_lines(snap)] == [
        said[3][1],
        said[2][1].rstrip("."),
        "Ich habe mir beides angesehen. Wir haben uns für wöchentliche Freigaben entschieden",
    ]


def test_plain_words_decide(tmp_path: Path) -> None:
    said = [
        ("2026-01-10", "I looked at both. We agreed on weekly releases.", DECIDED),
        ("2026-01-11", "Was it in May that we agreed on weekly releases?", DECIDED),
        ("2026-01-12", "If we decided on a freeze, Lena would object.", DECIDED),
        ("2026-01-13", "bless you", DECIDED),
        ("2026-01-14", "We agreed on tea."),
        ("2026-01-15", "I'll go with the second regex then.", DECIDED | {"role": "assistant", "speaker": None}),
    ]
    assert read_lines(make_said_store(tmp_path, said)) == [
        "I looked at both. We agreed on weekly releases, since 2026-01-10, Ana"
    ]


def test_reports_of_an_assistant_decide_nothing(tmp_path: Path) -> None:
    report = "`syncProvider` calls `ForceFlush` at the end."
    by_role = [("2026-01-01", report, {"role": role, "speaker": role}) for role in ("assistant", "user")]
    assert read_lines(make_said_store(tmp_path / "report", by_role[:1])) == []
    (line,) = read_lines(make_said_store(tmp_path / "statement", by_role[1:]))
    assert line.startswith("syncProvider: ")
    told = ("2026-02-01", "`POOL_SIZE` is now 12.", {"role": "assistant", "speaker": "assistant"})
    (line,) = read_lines(make_said_store(tmp_path / "value", [*by_role[:1], told]))
    assert "12" in line


def test_rejections_have_their_reasons(tmp_path: Path) -> None:
    said = [
        ("2026-04-02", "We decided against Kafka: too much to run."),
        ("2026-04-03", "GraphQL was rejected."),
        ("2026-04-04", "The request was rejected by the proxy, and we decided against it."),
        ("2026-04-05", "Did we reject Redis? We'd have decided against Redis if it were slow."),
        ("2026-04-06", "We won't use Vue because the team knows React."),
        ("2026-04-07", "We ruled out Nomad."),
        ("2026-06-01", "We use Nomad for batch jobs."),
        ("2026-01-07", "Kafka is off the table."),
        ("2026-07-01", "Again: we decided against Kafka, and that is that."),
    ]
    snap = make_said_store(tmp_path, said)
    assert read_rejected(snap) == [
        "Vue, 2026-04-06, Ana: the team knows React",
        "GraphQL, 2026-04-03, Ana",
        "Kafka, 2026-04-02, Ana: too much to run",
    ]
    assert read_lines(snap) == ["batch jobs: Nomad, since 2026-06-01, Ana"]


def test_a_fact_rejects(tmp_path: Path) -> None:
    text = "Kafka did not make it because it is too much to run."
    fact = {"subject": "we", "relation": "rejected", "object_": "Kafka", "functional": False}
    snap = make_store(tmp_path, [text], given=[{"speaker": "Ana"}], facts=[[fact]])
    assert read_rejected(snap) == ["Kafka, 2023-11-14, Ana: it is too much to run"]
    assert read_lines(snap) == []


def test_a_link_takes_a_rejection_back(tmp_path: Path) -> None:
    make_said_store(
        tmp_path, [("2026-04-02", "We decided against Kafka."), ("2026-05-02", "ok, the streams need it after all")]
    )
    snap = link_rows(tmp_path, [(0, 1)])
    assert read_rejected(snap) == []
    assert len(read_lines(snap)) == 1


def test_a_change_to_a_rejection_is_a_rejection(tmp_path: Path) -> None:
    make_said_store(
        tmp_path, [("2026-04-02", "events go through the new broker"), ("2026-05-02", "We decided against a broker.")]
    )
    snap = link_rows(tmp_path, [(0, 1)])
    assert (read_lines(snap), read_rejected(snap)) == ([], ["broker, 2026-05-02, Ana"])


def test_hidden_items_and_other_projects_change_nothing(tmp_path: Path) -> None:
    said = [*CI[:1], ("2026-03-01", *CI[2][1:2], {"acl": ["boss"]}), (*CI[2][:2], {"project": "other"})]
    make_said_store(tmp_path, said)
    memory = memory_of(tmp_path)
    assert [one["value"] for one in memory.decisions("shop", as_of="2026-12-01")["decisions"]] == ["Jenkins"]
    assert {one["project"] for one in memory.decisions(as_of="2026-12-01")["decisions"]} == {"shop", "other"}
    assert [one["project"] for one in memory.decisions(projects=["other"])["decisions"]] == ["other"]


def test_a_limit_says_that_there_are_more(tmp_path: Path) -> None:
    tools = ["Ruff", "Mypy", "Pytest"]
    snap = make_said_store(tmp_path, [(f"2026-0{i}-01", f"We use {tool} for t{i}.") for i, tool in enumerate(tools, 1)])
    found = list_decisions(snap, LATE, limit=2)
    assert ([one["value"] for one in found["decisions"]], found["more"]) == (["Pytest", "Mypy"], True)
    assert list_decisions(snap, LATE, limit=3)["more"] is False


def test_nothing_is_explained(tmp_path: Path) -> None:
    snap = make_said_store(tmp_path, [("2026-02-01", "The box was slow.")])
    now = answer_decisions(snap, "shop", None, history=False, limit=5)
    assert now["note"] == (
        "no decision is stated in 1 items of shop: 'helix recall --type decision' searches for others"
    )
    then = answer_decisions(snap, "shop", datetime(2026, 1, 1, tzinfo=UTC), history=False, limit=5)
    assert then["note"] == "nothing of shop was said by 2026-01-01 00:00: give a later as_of, or leave it out"
