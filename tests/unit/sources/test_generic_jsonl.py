import json
from datetime import UTC, datetime

from helix.sources import generic_jsonl
from helix.types import Document
from tests.support.turns import cases, list_texts


def parse(*lines, path="chats/team.jsonl"):
    texts = [line if isinstance(line, str) else json.dumps(line) for line in lines]
    return generic_jsonl.parse(Document(path, "\n".join(texts) + "\n"))


def one(**line):
    parsed = parse(line)
    assert not parsed.problems
    return parsed.sessions[0].turns[0]


def test_every_field():
    fields = {
        "project": "p", "title": "Storage", "type": "decision", "pinned": True, "priority": 1.5, "confidence": 0.9,
    }  # fmt: skip
    said = {"id": "D1:3", "speaker": "Priya", "role": "assistant", "text": "We take DuckDB"}
    parsed = parse(
        {"session": "s1", **said, **fields, "ts": "2026-05-04T10:00:00+02:00", "acl": ["ana", "priya"], "x": 1}
    )
    (session,) = parsed.sessions
    assert (session.source, session.id, session.project, session.title) == ("jsonl", "s1", "p", "Storage")
    (turn,) = session.turns
    assert {name: getattr(turn, name) for name in (*said, *fields)} == said | fields
    assert (turn.origin, turn.acl, turn.unique) == ("assistant", ("ana", "priya"), False)
    assert (turn.time, turn.time_quality) == (datetime(2026, 5, 4, 8, tzinfo=UTC), "exact")


@cases("fields", {"timestamp": "2026-05-04T10:00:00Z"}, {"ts": None, "timestamp": 1_777_888_800},
    {"ts": "2026-05-04T10:00:00Z", "timestamp": "2020-01-01T00:00:00Z"})  # fmt: skip
def test_a_time_may_be_called_timestamp(fields):
    assert one(text="x", **fields).time == datetime(2026, 5, 4, 10, tzinfo=UTC)


@cases("content, text",
    ([{"type": "text", "text": "a"}, {"type": "text", "text": "b"}], "a\nb"), (["a", {"text": "b"}], "a\nb"),
    ([{"type": "image", "url": "x"}, {"type": "text", "text": "b"}], "b"), ("  spaced  ", "spaced"),
    ("mine\n<memory>\nold\n</memory>", "mine"))  # fmt: skip
def test_content_as_text_or_blocks(content, text):
    assert one(content=content).text == text


@cases("who, role, origin, speaker",
    ({"role": "assistant"}, "assistant", "assistant", None), ({"role": "Tool"}, "tool", "tool", None),
    ({"role": "system"}, "system", "runtime_context", None), ({"speaker": "Priya"}, "user", "human", "Priya"),
    ({"role": "moderator"}, "user", "human", "moderator"), ({"type": "assistant"}, "assistant", "assistant", None),
    ({"type": "human"}, "user", "human", None), ({"role": "ai"}, "assistant", "assistant", None),
    ({"type": "Tool", "role": "user"}, "user", "human", None),
    ({"type": "user", "speaker": "Ana"}, "user", "human", "Ana"),
    ({"role": "moderator", "speaker": "Priya"}, "user", "human", "Priya"))  # fmt: skip
def test_roles_and_speakers(who, role, origin, speaker):
    turn = one(text="hi", **who)
    assert (turn.role, turn.origin, turn.speaker) == (role, origin, speaker)


@cases(
    "ts, time, quality",
    ("2026-05-04T10:00:00Z", datetime(2026, 5, 4, 10, tzinfo=UTC), "exact"),
    ("2026-05-04 10:00", datetime(2026, 5, 4, 10, tzinfo=UTC), "exact"),
    ("2026-05-04", datetime(2026, 5, 4, tzinfo=UTC), "derived"),
    (1_777_888_800, datetime(2026, 5, 4, 10, tzinfo=UTC), "exact"),
    (1_777_888_800_500, datetime(2026, 5, 4, 10, 0, 0, 500_000, tzinfo=UTC), "exact"),
    (0, datetime(1970, 1, 1, tzinfo=UTC), "exact"),
)
def test_times(ts, time, quality):
    turn = one(text="hi", ts=ts)
    assert (turn.time, turn.time_quality) == (time, quality)
    assert turn.time.tzinfo is UTC


@cases("line, reason",
    ({"text": "x", "ts": "tomorrow"}, "ts 'tomorrow'"), ({"text": "x", "ts": True}, "ts True"),
    ({"text": "x", "timestamp": "soon"}, "timestamp 'soon'"),
    ({"text": "x", "ts": 1e300}, "ts 1e+300"), ({"text": "x", "ts": "2026-W01-1"}, "ts "),
    ({"text": "x", "ts": "0001-01-01T00:00:00+10:00"}, "ts "),
    ({"text": "x", "type": "poem"}, "type 'poem' is none of episodic"),
    ({"text": "x", "confidence": 1.01}, "confidence 1.01 is not a number from 0 to 1"),
    ({"text": "x", "confidence": "high"}, "confidence 'high'"),
    ({"text": "x", "priority": 0.9}, "priority 0.9 is not a number from 1 to 2"),
    ({"text": "x", "priority": True}, "priority True"), ({"text": "x", "acl": "ana"}, "acl 'ana' is not a list"),
    ({"text": "x", "acl": ["ana", 3]}, "acl "), ({"text": "x", "acl": [""]}, "acl "),
    ({"text": "x", "pinned": "yes"}, "pinned 'yes'"), ({"text": "x", "project": ["p"]}, "project "),
    ({"text": "x", "session": {}}, "session "), ({"text": 7}, "text is not text"), ({"text": ""}, "the text is empty"),
    ({"content": [{"type": "image"}]}, "the text is empty"), ({"content": [3]}, "a block of content holds no text"),
    ({"content": [{"type": "text", "text": 3}]}, "a block of content holds no text"),
    ({"role": "user"}, "neither text nor content"), ('{"text": "half', "not valid JSON"),
    ('"just a string"', "not a JSON object"))  # fmt: skip
def test_a_bad_line_is_reported_left_out_and_alone(line, reason):
    parsed = parse({"text": "before"}, line, {"text": "after"})
    assert list_texts(parsed) == ["before", "after"]
    ((number, why),) = parsed.problems
    assert number == 2
    assert why.startswith(reason)


def test_text_alone_is_enough_and_null_is_absent():
    parsed = parse({"text": "hi"}, "", {"content": "there"})
    (session,) = parsed.sessions
    expected = [("1", "hi", "user", "human"), ("3", "there", "user", "human")]
    assert [(turn.id, turn.text, turn.role, turn.origin) for turn in session.turns] == expected
    assert session.turns[0].time is None
    assert session.turns[0].time_quality == "none"
    assert not parsed.problems
    turn = one(text="hi", id=None, session=None, role=None, ts=None, acl=None, pinned=None, confidence=None, type=None)
    assert (turn.id, turn.role, turn.acl, turn.pinned, turn.type) == ("1", "user", (), False, None)
    turn = one(text="x", confidence=0, priority=2)
    assert (turn.confidence, turn.priority) == (0.0, 2.0)
    turn = one(text="x", confidence=1, priority=1)
    assert (turn.confidence, turn.priority) == (1.0, 1.0)
    parsed = parse({"text": "<memory>\nold\n</memory>"})
    assert parsed.sessions == ()
    assert not parsed.problems


def test_ids_are_unique_in_sessions_of_stable_order():
    parsed = parse(
        {"session": "a", "id": "1", "text": "x"},
        {"session": "a", "id": 1, "text": "y"},
        {"session": "b", "id": "1", "text": "z"},
    )
    assert [[t.text for t in s.turns] for s in parsed.sessions] == [["x"], ["z"]]
    ((line, why),) = parsed.problems
    assert (line, "already that of line 1" in why) == (2, True)
    parsed = parse({"text": "x"}, {"id": "1", "text": "y"})
    assert [(t.id, t.text) for t in parsed.sessions[0].turns] == [("1-2", "x"), ("1", "y")]
    parsed = parse({"text": "a"}, {"id": "1", "text": "b"}, {"id": "1-2", "text": "c"})
    assert len({t.id for t in parsed.sessions[0].turns}) == 3
    parsed = parse(
        {"session": "b", "text": "1", "project": "p"},
        {"session": "a", "text": "2"},
        {"session": "b", "text": "3", "project": "q"},
    )
    expected = [("b", "p", [("1", "p"), ("3", "q")]), ("a", None, [("2", None)])]
    assert [(s.id, s.project, [(t.text, t.project) for t in s.turns]) for s in parsed.sessions] == expected
    first, again, other = (
        parse({"text": "hi"}, path=path).sessions[0].id for path in ("a/team.jsonl", "a/team.jsonl", "b/team.jsonl")
    )
    assert first == again != other
    # printf 'a/team.jsonl' | sha256sum
    assert first == "team-d71ad5c5"
