from datetime import datetime

import pytest

from tests.unit.sources.test_codex import event, meta, parse, record, says, user


def uuid7(ts, tail="7e42-8b11-5c7d90e1f203"):
    """Return a UUIDv7 of a time."""
    stamp = f"{int(datetime.fromisoformat(ts).timestamp() * 1000):012x}"
    return f"{stamp[:8]}-{stamp[8:]}-{tail}"


FORKED_AT = "2026-02-11T11:30:00.000Z"
COPIED_AT = "2026-02-11T11:30:00.200Z"
LATER = "2026-02-11T11:30:20.000Z"
OLD_TURN, OWN_TURN = uuid7("2026-02-11T09:00:00Z"), uuid7(LATER)


def fork_meta(**more):
    return record("session_meta", {"id": "child", "timestamp": FORKED_AT, "cwd": "/w/child", **more}, FORKED_AT)


def copied(*records):
    return [{**raw, "timestamp": COPIED_AT} for raw in (meta("parent"), *records)]


def forked(*records, **more):
    return parse(fork_meta(**more), *records).sessions


def own(session):
    return [turn.text for turn in session.turns]


@pytest.mark.parametrize("more", [{"forked_from_id": "parent"}, {}])
def test_a_copy_ends_at_the_first_turn_of_the_fork(more):
    copy = copied(event("task_started", turn_id=OLD_TURN), user("Old"), says("Old answer"), event("task_complete"))
    (session,) = forked(*copy, event("task_started", LATER, turn_id=OWN_TURN), user("New", ts=LATER), **more)
    assert (session.id, session.project, own(session)) == ("child", "child", ["New"])


def test_a_copy_without_the_parents_first_line_is_a_copy():
    copy = copied(event("task_started", turn_id=OLD_TURN), user("Old"))[1:]
    (session,) = forked(*copy, event("task_started", turn_id=OWN_TURN), user("New"), forked_from_id="parent")
    assert own(session) == ["New"]


def test_turns_of_the_copy_do_not_end_it_however_slowly_it_was_written():
    copy = [*copied(event("task_started", turn_id=OLD_TURN), user("Old")), user("Old, too", ts=LATER)]
    (session,) = forked(*copy, event("task_started", LATER, turn_id=OWN_TURN), user("New", ts=LATER))
    assert own(session) == ["New"]


def test_a_copy_ends_at_the_forks_own_first_line_again():
    (session,) = forked(*copied(user("Old")), fork_meta(), user("New", ts=COPIED_AT))
    assert own(session) == ["New"]


def test_a_copy_ends_at_a_turn_that_started_after_the_fork():
    seconds = int(datetime.fromisoformat(FORKED_AT).timestamp())
    copy = copied(event("task_started", turn_id="7", started_at=seconds - 600), user("Old"))
    (session,) = forked(*copy, event("task_started", turn_id="1", started_at=seconds), user("New"))
    assert own(session) == ["New"]


def test_a_copy_without_turn_ids_ends_at_a_gap_in_time():
    (session,) = forked(*copied(user("Old"), says("Old answer")), user("New", ts=LATER), says("Answer", ts=LATER))
    assert own(session) == ["New", "Answer"]


def test_a_context_of_a_later_turn_ends_a_copy_too():
    (session,) = forked(*copied(user("Old")), record("turn_context", {"turn_id": OWN_TURN}, COPIED_AT), user("New"))
    assert own(session) == ["New"]


def test_a_turn_id_without_time_does_not_end_a_copy():
    (session,) = forked(
        *copied(
            user("Old"), record("turn_context", {"turn_id": "0f9c4bed-c6e4-4c31-9d55-3f0b8a6d1e01"}), user("Old, too")
        ),
        user("New", ts=LATER),
    )
    assert own(session) == ["New"]


def test_forks_of_forks_and_empty_forks():
    assert forked(*copied(user("Old")), *copied(user("Older"))) == ()
    nested = [*copied(user("Old")), *copied(user("Older"))]
    assert own(forked(*nested, fork_meta(), user("New"))[0]) == ["New"]


def test_a_fork_that_copies_nothing_loses_nothing():
    start = event("task_started", FORKED_AT, turn_id=uuid7(FORKED_AT))
    (session,) = forked(start, user("New", ts=FORKED_AT), forked_from_id="parent")
    assert own(session) == ["New"]


def test_a_rollback_inside_a_copy_is_the_parents():
    copy = copied(user("Old"), event("thread_rolled_back", num_turns=1))
    (session,) = forked(*copy, event("task_started", turn_id=OWN_TURN), user("New"))
    assert own(session) == ["New"]


def test_the_first_line_decides_and_a_later_one_of_another_session_starts_no_copy():
    (session,) = parse(meta("s1"), user("One"), meta("s2", cwd="/w/other"), user("Two")).sessions
    assert (session.id, session.project, own(session)) == ("s1", "tidewatch", ["One", "Two"])
