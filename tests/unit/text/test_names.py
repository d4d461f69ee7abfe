"""Which names of a session are one person."""

from __future__ import annotations

import time

from helix.text.aliases import join_names
from helix.text.entities import find_entities
from helix.types import Entity


def _pairs(items: list[list[Entity]]) -> list[list[tuple[str, str]]]:
    return [[(entity.kind, entity.key) for entity in item] for item in items]


def _entity(kind: str, key: str) -> Entity:
    return Entity(kind, key, key.title())


def _joined(turns: list[tuple[str | None, str]]) -> list[list[tuple[str, str]]]:
    return _pairs(
        join_names([find_entities(text, speaker) for speaker, text in turns], [speaker for speaker, _ in turns])
    )


def test_a_nickname_of_a_speaker() -> None:
    found = _joined([("Caroline", "Thanks, Mel!"), ("Melanie", "Any time.")])
    assert found[0] == [("person", "caroline"), ("person", "melanie"), ("person", "mel")]
    assert found[1] == [("person", "melanie")]


def test_the_start_of_a_speakers_name() -> None:
    assert _joined([("Caroline", "hi"), ("Bo", "Thanks, Caro!")])[1][1:] == [("person", "caroline"), ("person", "caro")]


def test_first_name_surname_and_title_of_one_person() -> None:
    found = _joined([("Bo", "Priya Sharma joined."), ("Bo", "Ask Priya."), ("Bo", "Dr. Sharma said no.")])
    assert [item[1:] for item in found] == [
        [("person", "priya sharma")],
        [("person", "priya sharma"), ("person", "priya")],
        [("person", "priya sharma"), ("person", "sharma")],
    ]


def test_a_chain_of_forms_ends_at_the_fullest() -> None:
    found = join_names([[_entity("person", "mel")], [_entity("person", "melanie park")]], ["Melanie", None])
    assert ("person", "melanie park") in _pairs(found)[0]


def test_a_form_of_two_people_stays_as_it_is() -> None:
    items = [[_entity("person", key)] for key in ("priya sharma", "priya nair", "priya")]
    assert _pairs(join_names(items, [None] * 3)) == [[("person", item[0].key)] for item in items]
    assert _joined([("Melanie", "hi"), ("Melissa", "hi"), ("Bo", "Hey Mel!")])[2][1:] == [("person", "mel")]


def test_a_name_of_no_kind_takes_the_one_it_has_elsewhere() -> None:
    items = [[_entity("name", "jarmila"), _entity("name", "turku"), _entity("name", "odd")]]
    items += [[_entity("person", "jarmila"), _entity("place", "turku")]]
    assert _pairs(join_names(items, [None, None]))[0] == [("person", "jarmila"), ("place", "turku"), ("name", "odd")]


def test_who_speaks_is_a_person_whatever_the_name() -> None:
    found = join_names([[_entity("place", "jordan")], [_entity("place", "oslo")]], ["Jordan", "Bo"])
    assert _pairs(found) == [[("person", "jordan")], [("place", "oslo")]]


def test_kin_of_whoever_the_short_form_means() -> None:
    found = join_names([[_entity("relationship", "sister of mel")], []], ["Melanie", None])
    assert _pairs(found)[0] == [("relationship", "sister of melanie"), ("relationship", "sister of mel")]


def test_other_kinds_pass_untouched() -> None:
    item = [_entity("path", "mel"), _entity("error", "melanie"), _entity("project", "priya")]
    assert join_names([item], ["Melanie"]) == [item]


def test_the_order_of_items_does_not_matter_and_nothing_is_said_twice() -> None:
    items = [[_entity("person", key)] for key in ("mel", "melanie", "priya", "priya sharma", "sharma")]
    speakers = ["Melanie", None, None, None, None]
    forth = join_names(items, speakers)
    back = join_names(items[::-1], speakers[::-1])
    assert forth == back[::-1]
    assert all(len(set(_pairs([item])[0])) == len(item) for item in forth)


def test_many_names_in_linear_time() -> None:
    items = [
        [_entity("person", f"anna x{i}"), _entity("person", f"x{i}"), _entity("name", "anna")] for i in range(20_000)
    ]
    start = time.perf_counter()
    found = join_names(items, [f"Speaker{i}" for i in range(20_000)])
    assert time.perf_counter() - start < 5
    assert _pairs(found)[7] == [("person", "anna x7"), ("person", "x7"), ("name", "anna")]
