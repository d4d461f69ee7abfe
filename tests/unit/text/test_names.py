"""Names of a session that mean one person."""

from __future__ import annotations

import time

from helix.text.aliases import join_names
from helix.text.entities import find_entities
from helix.types import Entity

Pairs = list[list[tuple[str, str]]]


def entity(kind: str, key: str) -> Entity:
    return Entity(kind, key, key.title())


def join(items: list[list[Entity]], *speakers: str | None) -> Pairs:
    speakers = speakers or (None,) * len(items)
    return [[(entity.kind, entity.key) for entity in item] for item in join_names(items, speakers)]


def join_texts(*turns: tuple[str, str]) -> Pairs:
    return join([find_entities(text, speaker) for speaker, text in turns], *(speaker for speaker, _ in turns))


def test_a_nickname_of_a_speaker() -> None:
    found = join_texts(("Caroline", "Thanks, Mel!"), ("Melanie", "Any time."))
    assert found[0] == [("person", "caroline"), ("person", "melanie"), ("person", "mel")]
    assert found[1] == [("person", "melanie")]


def test_the_start_of_a_speakers_name() -> None:
    expected = [("person", "caroline"), ("person", "caro")]
    assert join_texts(("Caroline", "hi"), ("Bo", "Thanks, Caro!"))[1][1:] == expected


def test_first_name_surname_and_title_of_one_person() -> None:
    found = join_texts(("Bo", "Priya Sharma joined."), ("Bo", "Ask Priya."), ("Bo", "Dr. Sharma said no."))
    assert [item[1:] for item in found] == [
        [("person", "priya sharma")], [("person", "priya sharma"), ("person", "priya")],
        [("person", "priya sharma"), ("person", "sharma")]]  # fmt: skip


def test_a_chain_of_forms_ends_at_the_fullest() -> None:
    found = join([[entity("person", "mel")], [entity("person", "melanie park")]], "Melanie", None)
    assert ("person", "melanie park") in found[0]


def test_a_form_of_two_people_stays_as_it_is() -> None:
    items = [[entity("person", key)] for key in ("priya sharma", "priya nair", "priya")]
    assert join(items) == [[("person", item[0].key)] for item in items]
    assert join_texts(("Melanie", "hi"), ("Melissa", "hi"), ("Bo", "Hey Mel!"))[2][1:] == [("person", "mel")]


def test_a_name_of_no_kind_takes_the_one_it_has_elsewhere() -> None:
    items = [[entity("name", "jarmila"), entity("name", "turku"), entity("name", "odd")]]
    items += [[entity("person", "jarmila"), entity("place", "turku")]]
    assert join(items)[0] == [("person", "jarmila"), ("place", "turku"), ("name", "odd")]


def test_a_speaker_is_a_person_whatever_the_name() -> None:
    found = join([[entity("place", "jordan")], [entity("place", "oslo")]], "Jordan", "Bo")
    assert found == [[("person", "jordan")], [("place", "oslo")]]


def test_a_relationship_gets_the_full_name_of_its_owner() -> None:
    found = join([[entity("relationship", "sister of mel")], []], "Melanie", None)
    assert found[0] == [("relationship", "sister of melanie"), ("relationship", "sister of mel")]


def test_other_kinds_pass_untouched() -> None:
    item = [entity("path", "mel"), entity("error", "melanie"), entity("project", "priya")]
    assert join_names([item], ["Melanie"]) == [item]


def test_the_order_of_items_does_not_matter_and_entities_are_distinct() -> None:
    items = [[entity("person", key)] for key in ("mel", "melanie", "priya", "priya sharma", "sharma")]
    speakers = ["Melanie", None, None, None, None]
    forth, back = join(items, *speakers), join(items[::-1], *speakers[::-1])
    assert forth == back[::-1]
    assert all(len(set(item)) == len(item) for item in forth)


def test_many_names_in_linear_time() -> None:
    items = [[entity("person", f"anna x{i}"), entity("person", f"x{i}"), entity("name", "anna")] for i in range(20_000)]
    start = time.thread_time()
    found = join(items, *(f"Speaker{i}" for i in range(20_000)))
    assert time.thread_time() - start < 8
    assert found[7] == [("person", "anna x7"), ("person", "x7"), ("name", "anna")]
