"""From turns to items: links, facts, salience and confidence, and the residue after a deletion."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from helix.enrich.classify import PRIORS
from helix.enrich.type_model import TypeModel
from helix.settings import Settings
from helix.snapshot.ledger.inbox import Envelope
from helix.snapshot.segment.batch import LINKS, hash_parts
from helix.types import ROLES, TYPES, Parsed, Session, Turn
from helix.util.undated import place_undated
from pipelines.ingest.enrich import read_item_records
from pipelines.ingest.items import NO_PROJECT, ItemBatch, Record, batch_records, judge_items, make_items
from pipelines.ingest.versions import DocumentReading, read_document
from pipelines.maintain.deletion_steps import dump_records

NOON = datetime(2026, 3, 2, 12, tzinfo=UTC)
ACCEPTED = NOON + timedelta(days=30)
ENVELOPE = Envelope("0" * 64, "log.jsonl", "", "jsonl", None, (), None, ACCEPTED, {}, ())


def turn(i: int, text: str, speaker: str | None = "Ana", **given: Any) -> Turn:
    return Turn(f"t{i}", text, speaker=speaker, **{"time": NOON + timedelta(minutes=i), **given})


def make_turns(*turns: tuple[str, str]) -> tuple[Turn, ...]:
    """Return turns of (speaker, text)."""
    return tuple(turn(i, text, speaker) for i, (speaker, text) in enumerate(turns))


def found_in(*sessions: Iterable[Turn], **envelope: Any) -> ItemBatch:
    parsed = Parsed(tuple(Session("test", f"s{i}", tuple(turns)) for i, turns in enumerate(sessions)))
    return make_items(DocumentReading(parsed), replace(ENVELOPE, **envelope), Settings(), Counter())


def list_links(found: ItemBatch, kind: str) -> list[tuple[int, int]]:
    """Return (item, earlier linked item) as places."""
    place = {int(record["id"], 16): i for i, record in enumerate(found.records)}
    return [(i, place[key]) for i, row in enumerate(found.links) for key, code in row if LINKS[code] == kind]


def test_an_answer_is_linked_with_the_question_before_it() -> None:
    talk = make_turns(
        ("Ana", "Where is it?"), ("Bo", "In the shed."), ("Ana", "Thanks."), ("Bo", "Why? "), ("Ana", "So.")
    )
    assert list_links(found_in(talk), "reply") == [(1, 0), (4, 3)]


def test_a_question_is_answered_by_the_next_turn_of_another_speaker_in_its_session() -> None:
    assert list_links(found_in(make_turns(("Ana", "Where is it?"), ("Ana", "Ah, in the shed."))), "reply") == []
    nameless = [turn(0, "Where is it?", None, role="user"), turn(1, "In the shed.", None, role="assistant")]
    assert list_links(found_in(nameless), "reply") == [(1, 0)]
    late = make_turns(("Ana", "Where is it?"), ("Bo", "Hm."), ("Cy", "In the shed."))
    assert list_links(found_in(late), "reply") == [(1, 0)]
    assert list_links(found_in(make_turns(("Ana", "Where is it?")), make_turns(("Bo", "In the shed."))), "reply") == []


def test_a_long_question_asks_with_its_last_piece_and_is_answered_by_the_first() -> None:
    long = " ".join(f"The thing number {i} is somewhere in the house." for i in range(40))
    found = found_in(make_turns(("Ana", f"{long} Where is it?"), ("Bo", f"It is where the others are. {long}")))
    pieces = Counter(record["turns"][0] for record in found.records)
    assert min(pieces.values()) > 1
    assert list_links(found, "reply") == [(pieces["t0"], pieces["t0"] - 1)]


@pytest.mark.parametrize(
    ("parent", "expected"),
    [
        ("t0", [(2, 0)]),  # named by the source, a question or not
        ("t1", []),  # the turn before, and no question
        ("elsewhere", []),
        (None, []),
    ],
)
def test_a_turn_answers_the_parent_its_source_names(parent: str | None, expected: list[tuple[int, int]]) -> None:
    talk = make_turns(("Ana", "The shed is locked."), ("Bo", "It rains."))
    assert list_links(found_in([*talk, turn(2, "I have the key.", "Cy", parent=parent)]), "reply") == expected


def test_only_a_known_parent_of_the_session_precedes_the_question() -> None:
    talk = make_turns(("Ana", "The shed is locked."), ("Bo", "Does it rain?"))
    assert list_links(found_in([*talk, turn(2, "I have the key.", "Cy", parent="t0")]), "reply") == [(2, 0)]
    for parent in ("t1", "elsewhere", None):
        assert list_links(found_in([*talk, turn(2, "It does.", "Cy", parent=parent)]), "reply") == [(2, 1)]
    other = [Turn("u0", "It rains.", speaker="Ana"), Turn("u1", "It does.", speaker="Bo", parent="t0")]
    assert list_links(found_in(make_turns(("Ana", "The shed is locked."), ("Bo", "Yes.")), other), "reply") == []


def test_parallel_tools_of_a_claude_code_log_are_linked_with_their_call() -> None:
    def line(kind: str, uuid: str, parent: str | None, content: Any, **more: str) -> str:
        message = {"role": kind, "content": content, **more}
        return json.dumps({"type": kind, "uuid": uuid, "parentUuid": parent, "sessionId": "s", "message": message})

    def call(name: str) -> dict[str, Any]:
        return {"type": "tool_use", "id": name, "name": "Read", "input": {"file_path": name}}

    def result(name: str) -> list[dict[str, Any]]:
        return [{"type": "tool_result", "tool_use_id": name, "content": f"what stands in {name}"}]

    log = [
        line("user", "u", None, "Look at both."),
        line("assistant", "a", "u", [call("one.py")], id="m"),
        line("assistant", "b", "a", [call("two.py")], id="m"),
        line("user", "r", "a", result("one.py")),
        line("user", "q", "b", result("two.py")),
    ]
    envelope = replace(ENVELOPE, text="\n".join(log) + "\n", format="claude-code")
    found = make_items(read_document(Path(), envelope, Settings()), envelope, Settings(), Counter())
    ids = [record["turns"][0] for record in found.records]
    second = ids.index("q")
    assert ids[second - 1] == "r"
    assert list_links(found, "reply") == [(second, ids.index("a"))]


def test_items_are_linked_with_the_last_one_of_the_session_that_named_the_same_file_or_error() -> None:
    talk = make_turns(
        ("Ana", "See src/app/main.py."),
        ("Bo", "There is nothing."),
        ("Ana", "It raised OperationalError in src/app/main.py."),
        ("Bo", "OperationalError again."),
        ("Bo", "And src/app/main.py as it was."),
    )
    assert list_links(found_in(talk), "same") == [(2, 0), (3, 2), (4, 2)]
    assert list_links(found_in(make_turns(("Ana", "Priya is in Lisbon."), ("Bo", "Lisbon suits Priya."))), "same") == []
    named = make_turns(("Ana", "See src/app/main.py."))
    assert list_links(found_in(named, named), "same") == []


def test_two_files_of_one_item_are_one_link_and_at_most_four_go_out() -> None:
    both = "See src/a.py and src/b.py."
    assert list_links(found_in(make_turns(("Ana", both), ("Bo", both))), "same") == [(1, 0)]
    files = [f"src/part{i}.py" for i in range(6)]
    talk = make_turns(*(("Ana", f"See {name}.") for name in files), ("Bo", f"All of {' '.join(files)} are gone."))
    assert list_links(found_in(talk), "same") == [(6, i) for i in range(4)]


def test_an_entity_of_more_than_fifty_items_links_nothing() -> None:
    def talk(n: int) -> list[Turn]:
        return [turn(i, f"Case {i} of src/hub.py.") for i in range(n)] + [turn(n, "See src/rare.py.")] * 2

    assert list_links(found_in(talk(50)), "same")[:49] == [(i + 1, i) for i in range(49)]
    apart = [turn(i, f"Case {i} of src/hub.py.") for i in range(51)]
    rare = [turn(51, "See src/rare.py."), turn(52, "Again src/rare.py.")]
    assert list_links(found_in([*apart, *rare]), "same") == [(52, 51)]


def take_only(found: ItemBatch) -> Record:
    (fact,) = [fact for facts in found.facts for fact in facts]
    return fact


def states(text: str, **envelope: Any) -> Record:
    """Return the one fact of a text by Ana."""
    return take_only(found_in([turn(0, text)], **envelope))


def test_groups_and_families_of_facts() -> None:
    first, later = states("We use Postgres."), states("We use Sqlite.")
    assert (first["subject_key"], first["relation"], first["object_key"]) == ("we", "uses", "postgres")
    assert (first["group"], first["family"]) == (later["group"], later["family"])
    others = [
        states("We use Postgres.", project="other"), states("We use Postgres.", acl=("ana",)),
        states("We use Postgres.", acl=("bo",)), states("I use Postgres."),
    ]  # fmt: skip
    for name in ("group", "family"):
        assert len({fact[name] for fact in (first, *others)}) == 5
    assert states("We decided to use Postgres.")["group"] == first["group"]
    named = found_in([turn(0, "We use Postgres.", project="other")])
    assert take_only(named)["group"] == others[0]["group"]
    plain, queue, ledger = (states(f"We use Plonk{what}.") for what in ("", " for the queue", " for the ledger"))
    assert [fact["qualifier"] for fact in (plain, queue, ledger)] == ["", "the queue", "the ledger"]
    assert len({fact["group"] for fact in (plain, queue, ledger)}) == 3
    assert len({fact["family"] for fact in (plain, queue, ledger)}) == 1
    assert plain["group"] == plain["family"]


def test_a_later_turn_answers_the_one_before() -> None:
    talk = [turn(0, "The read timeout is 30 s, should we raise it?"), turn(1, "ok, let's make it 45 then")]
    facts = take_facts(talk)
    assert [fact["object"] for fact in facts] == ["30 s", "45 s"]
    assert len({fact["group"] for fact in facts}) == 1
    assert facts[0]["confidence"] > facts[1]["confidence"]
    assert not take_facts(talk[1:])


def take_facts(talk: list[Turn]) -> list[Record]:
    return [fact for facts in found_in(talk).facts for fact in facts]


def test_a_fact_holds_from_what_its_sentence_says_else_its_turn_else_before_every_dated_one() -> None:
    def seconds(*day: int) -> int:
        return int(datetime(*day, tzinfo=UTC).timestamp())

    assert states("I moved to Lisbon on 5 May 2024.")["t_valid"] == seconds(2024, 5, 5)
    assert states("I live in Lisbon.")["t_valid"] == seconds(2026, 3, 2, 12)
    undated = take_only(found_in([turn(0, "I live in Lisbon.", time=None)]))
    assert undated["t_valid"] == place_undated(int(ACCEPTED.timestamp()))
    filed = take_only(found_in([turn(0, "I live in Lisbon.", time=ACCEPTED, time_quality="file")]))
    assert filed["t_valid"] == undated["t_valid"]
    assert undated["t_ingested"] == ACCEPTED
    assert undated["until"] is None


def test_facts_belong_to_their_item_and_name_its_entities() -> None:
    found = found_in(make_turns(("Ana", "I live in Lisbon.")))
    hashes = {entity.key: int(hash_parts(entity.kind, entity.key), 16) for entity in found.mentions[0]}
    fact = take_only(found)
    assert (fact["subject_entity"], fact["object_entity"]) == (hashes["ana"], hashes["lisbon"])
    assert hashes["lisbon"] == int(hash_parts("place", "lisbon"), 16)  # not the hash of an unnamed entity
    likes = states("I like baking bread.")
    assert likes["object_entity"] == int(hash_parts("name", likes["object_key"]), 16)
    gone = states("I quit my job.")
    assert (gone["closes"], gone["object_entity"]) == (True, 0)
    found = found_in(make_turns(("Ana", "We use Postgres."), ("Bo", "Fine."), ("Bo", "We use Postgres.")))
    assert [[fact["item"] for fact in facts] for facts in found.facts] == [
        [found.records[0]["id"]],
        [],
        [found.records[2]["id"]],
    ]
    assert found.facts[0][0]["id"] != found.facts[2][0]["id"]
    assert found.facts[0][0]["group"] == found.facts[2][0]["group"]


def test_one_person_of_a_session_is_named_alike_in_all_its_items() -> None:
    talk = make_turns(("Bo", "Priya Sharma joined."), ("Bo", "Ask Priya."))
    found = found_in(talk, talk[1:])
    keys = [{entity.key for entity in mentions if entity.kind == "person"} for mentions in found.mentions]
    assert keys[0] == {"bo", "priya sharma"}
    assert keys[1] == {"bo", "priya sharma", "priya"}
    assert keys[2] == {"bo", "priya"}  # this session has no full name


def test_the_indexed_text_names_the_speaker_or_the_heading() -> None:
    note = Turn("n", "Knead it.", role="document", origin="document", title="Bread > Dough")
    found = found_in([turn(0, "Where is it?"), turn(1, "There.", None), note, replace(note, id="m", title=None)])
    assert found.texts == ["Ana: Where is it?", "There.", "Bread > Dough. Knead it.", "Knead it."]


def judge_turns(*sessions: Iterable[Turn], **envelope: Any) -> list[Record]:
    found = found_in(*sessions, **envelope)
    judge_items(found, None, None)
    return found.records


STATEMENT = "The shed is green and stands behind the house."


def test_salience_is_the_sum_of_its_parts() -> None:
    records = judge_turns(
        make_turns(
            ("Ana", STATEMENT), ("Bo", "Could you send it to src/app/main.py?"), ("Ana", "ok thanks"), ("Ana", "…")
        )
    )
    assert records[0]["salience"] > records[1]["salience"] > records[2]["salience"] > records[3]["salience"] == 0
    for record in records:
        assert 0 <= record["salience"] <= 1
        assert sum(amount for _, amount in record["salience_parts"]) == pytest.approx(record["salience"], abs=1e-4)


def test_values_given_by_the_input_win() -> None:
    (plain,) = judge_turns([turn(0, STATEMENT)])
    (pinned,) = judge_turns([turn(0, STATEMENT, pinned=True)])
    (half,) = judge_turns([turn(0, STATEMENT, priority=1.5)])
    (top,) = judge_turns([turn(0, STATEMENT, priority=2.0)])
    assert 0.1 < plain["salience"] < 0.9
    assert (pinned["salience"], top["salience"]) == (1, 1)
    assert half["salience"] == pytest.approx((1 + plain["salience"]) / 2, abs=1e-4)
    for record, name in ((pinned, "pinned"), (half, "priority"), (top, "priority")):
        assert record["salience_parts"][:-1] == plain["salience_parts"]
        assert record["salience_parts"][-1] == (name, pytest.approx(record["salience"] - plain["salience"]))
    (typed,) = judge_turns([turn(0, STATEMENT, type="code")])
    assert plain["type"] != "code"
    assert (typed["type"], typed["type_confidence"]) == ("code", 1.0)
    assert 0 < plain["type_confidence"] < 1


def test_confidence_names_its_source() -> None:
    answer = turn(1, "The walls are white.", "Helper", role="assistant", origin="assistant")
    person, machine = judge_turns([turn(0, STATEMENT), answer])
    assert (person["vouched"], machine["vouched"]) == ("statement", "claim")
    assert person["confidence"] > machine["confidence"]
    (given,) = judge_turns([turn(0, STATEMENT, confidence=0.15)])
    assert (given["confidence"], given["vouched"]) == (0.15, "given")


def test_a_rewound_branch_is_believed_half() -> None:
    turns = (turn(0, STATEMENT), turn(1, "The walls are white.", confidence=0.9))
    sessions = (Session("test", "s", turns), Session("test", "s~1", turns, branch_of="s"))
    found = make_items(DocumentReading(Parsed(sessions)), ENVELOPE, Settings(), Counter())
    judge_items(found, None, None)
    kept, given, rewound, given_there = found.records
    assert rewound["confidence"] == pytest.approx(kept["confidence"] / 2)
    assert rewound["vouched"] == kept["vouched"]
    assert given["confidence"] == given_there["confidence"] == 0.9  # given by the input
    assert rewound["salience"] == kept["salience"]


def test_a_session_is_judged_by_itself() -> None:
    proposal = turn(0, "Should we move the queue to Redis?", None, role="assistant", origin="assistant")
    yes = turn(1, "Yes, go ahead.")
    together, apart = judge_turns([proposal, yes]), judge_turns([proposal], [yes])
    assert [record["vouched"] for record in together] == ["confirmed", "confirmed"]
    assert [record["vouched"] for record in apart] == ["claim", "statement"]
    assert together[0]["salience"] > apart[0]["salience"]


def test_a_speaker_does_not_count_as_named_by_her_own_turns() -> None:
    def parts(text: str) -> set[str]:
        return {name for name, _ in judge_turns([turn(0, text)])[0]["salience_parts"]}

    assert "rarity" not in parts("It will rain all day, they say.")
    assert "rarity" in parts("It will rain all day in Lisbon, they say.")


def test_the_model_decides_about_types_where_there_are_vectors() -> None:
    width = 8 + len(TYPES) + len(ROLES) + len(PRIORS)
    bias = np.array([5.0 if kind == "procedural" else 0.0 for kind in TYPES], np.float32)
    zeros = np.zeros((width, len(TYPES)), np.float32)
    model = TypeModel(zeros, bias, np.float32(1), {}, zeros[:0])
    found = found_in([turn(0, STATEMENT), turn(1, STATEMENT, type="code")])
    judge_items(found, np.zeros((2, 8), np.float32), model)
    assert [record["type"] for record in found.records] == ["procedural", "code"]
    assert found.records[0]["type_confidence"] == pytest.approx(np.exp(5) / (np.exp(5) + 4), abs=1e-3)


def test_project_and_acl_come_from_option_turn_or_session() -> None:
    (bare,) = judge_turns([turn(0, STATEMENT)])
    assert (bare["project"], bare["acl"]) == (NO_PROJECT, [])
    (both,) = judge_turns([turn(0, STATEMENT, project="own", acl=("bo", "ana"))], acl=("cy",))
    assert (both["project"], both["acl"]) == ("own", ["ana", "bo", "cy"])
    (chosen,) = judge_turns([turn(0, STATEMENT, project="own")], project="chosen")
    assert chosen["project"] == "chosen"


def test_a_residue_has_its_entities_facts_and_links_and_keeps_its_salience() -> None:
    talk = make_turns(
        ("Ana", "Should we move src/app/main.py to Lisbon?"),
        ("Bo", "Yes, go ahead. I live in Lisbon, and Priya Sharma likes src/app/main.py."),
        ("Ana", "The secret of the house."),
        ("Bo", "Priya told me that OperationalError is in src/app/main.py since 2019."),
    )
    before = found_in(talk)
    judge_items(before, None, None)
    for record in before.records:
        record["tokens"] = 5
    kept = [record for record in before.records if "secret" not in record["text"]]
    envelope = replace(ENVELOPE, text=dump_records(kept), forgotten=True)
    after = batch_records(read_item_records(Path(), envelope, Settings()))
    assert [record["id"] for record in after.records] == [record["id"] for record in kept]
    assert after.texts == [before.texts[i] for i in (0, 1, 3)]
    assert after.mentions == [before.mentions[i] for i in (0, 1, 3)]
    assert any(before.facts)
    assert after.facts == [before.facts[i] for i in (0, 1, 3)]
    assert list_links(before, "reply") == list_links(after, "reply") == [(1, 0)]
    assert list_links(after, "same") == [(1, 0), (2, 1)]

    judge_items(after, None, None)
    for now, then in zip(after.records, kept, strict=True):
        for name in ("type", "vouched", "time", "t_valid", "t_ingested", "acl", "project"):
            assert now[name] == then[name]
        assert now["salience"] == pytest.approx(then["salience"])
        assert now["confidence"] == pytest.approx(then["confidence"])
        assert dict(now["salience_parts"]) == pytest.approx(dict(then["salience_parts"]))


def test_a_residue_keeps_salience_that_came_from_forgotten_items() -> None:
    talk = make_turns(
        ("Ana", "The blue ledger has 4711 pages."), ("Bo", "I counted the 4711 pages of the blue ledger too.")
    )
    before = judge_turns(talk)
    alone = judge_turns(talk[:1])
    assert before[0]["salience"] > alone[0]["salience"] + 0.04  # it was referred to
    for record in before:
        record["tokens"] = 5
    envelope = replace(ENVELOPE, text=dump_records(before[:1]), forgotten=True)
    after = batch_records(read_item_records(Path(), envelope, Settings()))
    judge_items(after, None, None)
    assert after.records[0]["salience"] == pytest.approx(before[0]["salience"])
