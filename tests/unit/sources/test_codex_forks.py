from datetime import datetime

from tests.support.turns import cases
from tests.unit.sources.test_codex import answer, event, meta, parse, record, user


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


def copy_records(*records):
    return [{**raw, "timestamp": COPIED_AT} for raw in (meta("parent"), *records)]


def parse_fork(*records, **more):
    return parse(fork_meta(**more), *records).sessions


def read_texts(session):
    return [turn.text for turn in session.turns]


@cases("more", {"forked_from_id": "parent"}, {})
def test_a_copy_ends_at_the_first_turn_of_the_fork(more):
    copy = copy_records(
        event("task_started", turn_id=OLD_TURN), user("Old"), answer("Old answer"), event("task_complete")
    )
    (session,) = parse_fork(*copy, event("task_started", LATER, turn_id=OWN_TURN), user("New", ts=LATER), **more)
    assert (session.id, session.project, read_texts(session)) == ("child", "child", ["New"])


def test_copies_end_at_the_forks_own_turns():
    copy = [*copy_records(event("task_started", turn_id=OLD_TURN), user("Old")), user("Old, too", ts=LATER)]
    (session,) = parse_fork(*copy, event("task_started", LATER, turn_id=OWN_TURN), user("New", ts=LATER))
    assert read_texts(session) == ["New"]
    (session,) = parse_fork(
        *copy_records(
            user("Old"), record("turn_context", {"turn_id": "0f9c4bed-c6e4-4c31-9d55-3f0b8a6d1e01"}), user("Old, too")
        ),
        user("New", ts=LATER),
    )
    assert read_texts(session) == ["New"]
    copy = copy_records(user("Old"), event("thread_rolled_back", num_turns=1))
    (session,) = parse_fork(*copy, event("task_started", turn_id=OWN_TURN), user("New"))
    assert read_texts(session) == ["New"]
    (session,) = parse_fork(*copy_records(user("Old")), fork_meta(), user("New", ts=COPIED_AT))
    assert read_texts(session) == ["New"]
    seconds = int(datetime.fromisoformat(FORKED_AT).timestamp())
    copy = copy_records(event("task_started", turn_id="7", started_at=seconds - 600), user("Old"))
    (session,) = parse_fork(*copy, event("task_started", turn_id="1", started_at=seconds), user("New"))
    assert read_texts(session) == ["New"]
    (session,) = parse_fork(
        *copy_records(user("Old"), answer("Old answer")), user("New", ts=LATER), answer("Answer", ts=LATER)
    )
    assert read_texts(session) == ["New", "Answer"]
    (session,) = parse_fork(
        *copy_records(user("Old")), record("turn_context", {"turn_id": OWN_TURN}, COPIED_AT), user("New")
    )
    assert read_texts(session) == ["New"]


def test_copies_may_lack_a_first_line_be_nested_or_empty():
    copy = copy_records(event("task_started", turn_id=OLD_TURN), user("Old"))[1:]
    (session,) = parse_fork(*copy, event("task_started", turn_id=OWN_TURN), user("New"), forked_from_id="parent")
    assert read_texts(session) == ["New"]
    (session,) = parse(meta("s1"), user("One"), meta("s2", cwd="/w/other"), user("Two")).sessions
    assert (session.id, session.project, read_texts(session)) == ("s1", "tidewatch", ["One", "Two"])
    assert parse_fork(*copy_records(user("Old")), *copy_records(user("Older"))) == ()
    nested = [*copy_records(user("Old")), *copy_records(user("Older"))]
    assert read_texts(parse_fork(*nested, fork_meta(), user("New"))[0]) == ["New"]
    start = event("task_started", FORKED_AT, turn_id=uuid7(FORKED_AT))
    (session,) = parse_fork(start, user("New", ts=FORKED_AT), forked_from_id="parent")
    assert read_texts(session) == ["New"]
