from collections import Counter
from datetime import timedelta

from tests.support.turns import cases
from tests.unit.sources.test_chatgpt import EDITED, START, T0, conversation, node, parse, read_sessions


@cases("current", None, "gone", "")
def test_without_a_current_node_the_newest_leaf_ends_the_conversation(current):
    assert list(read_sessions(EDITED, current)) == ["c1", "c1~x2"]


def test_regenerated_answers_are_branches_only_with_later_prompts():
    nodes = {
        "u1": node(None, "user", "Q", 1),
        "a1": node("u1", "assistant", "bad answer", 2),
        "a2": node("u1", "assistant", "good answer", 3),
        "b2": node("u1", "assistant", "other answer", 2),
        "b3": node("b2", "user", "and then?", 3),
    }
    parsed = parse(conversation(nodes, "a2"))
    assert [[turn.text for turn in s.turns] for s in parsed.sessions] == [
        ["Q", "good answer"],
        ["other answer", "and then?"],
    ]
    assert [s.branch_of for s in parsed.sessions] == [None, "c1"]
    assert parsed.sessions[1].id == "c1~b2"
    assert parsed.junk == Counter({"abandoned": len("bad answer")})
    nodes = {
        "u1": node(None, "user", "Q", 1),
        "a1": node("u1", "assistant", "half", 2),
        "u2": node("a1", "user", "go on", 3),
        "a3": node("u2", "assistant", "and on", 4),
        "a2": node("a1", "assistant", "the other half", 9),
        "z": node("u1", "assistant", "kept", 5),
    }
    assert read_sessions(nodes, "z") == {"c1": ["Q", "kept"], "c1~a1": ["half", "go on", "and on"]}


def test_the_path_to_the_current_node_is_the_conversation_in_any_order():
    assert read_sessions(EDITED, "y2") == {
        "c1": ["Start", "Ready", "Second try", "Second answer"],
        "c1~x1": ["First try", "First answer"],
    }
    assert read_sessions(EDITED, "y1") == {
        "c1": ["Start", "Ready", "First try", "First answer"],
        "c1~x2": ["Second try", "Second answer"],
    }
    backwards = {id: {**EDITED[id]} for id in reversed(EDITED)}
    for id, value in backwards.items():
        if value["message"]:
            value["message"] = {**value["message"], "create_time": T0 + 1 if id == "u1" else None}
    found = parse(conversation(backwards)).sessions
    assert [[turn.text for turn in s.turns] for s in found] == [
        ["Start", "Ready", "First try", "First answer"],
        ["Second try", "Second answer"],
    ]
    assert [turn.parent for turn in found[0].turns] == [None, "u1", "a1", "x1"]
    assert {turn.time for s in found for turn in s.turns} == {START + timedelta(seconds=1)}


def test_the_newest_leaf_ends_and_edited_prompts_are_branches():
    nodes = {**EDITED, "y1": node("x1", "assistant", "First answer"), "y2": node("x2", "assistant", "Second answer")}
    assert list(read_sessions(nodes)) == ["c1", "c1~x1"]
    nodes = {"u": node(None, "user", "Q"), "a": node("u", "assistant", "one"), "b": node("u", "assistant", "two")}
    assert read_sessions(nodes) == {"c1": ["Q", "two"]}
    nodes = {**EDITED, "z1": node("y1", "user", "deeper", 10), "z2": node("y1", "user", "deeper again", 11)}
    found = read_sessions(nodes, "y2")
    assert found == {
        "c1": ["Start", "Ready", "Second try", "Second answer"],
        "c1~x1": ["First try", "First answer", "deeper again"],
        "c1~z1": ["deeper"],
    }
    nodes = {"r": node(None), "x": node("r", "user", "one", 1), "y": node("r", "user", "two", 2)}
    assert read_sessions(nodes, "y") == {"c1": ["two"], "c1~x": ["one"]}
    nodes = {
        "u": node(None, "user", "Q", 0),
        **{f"same-prefix-{n}": node("u", "user", f"try {n}", n) for n in range(1, 4)},
    }
    found = read_sessions(nodes, "same-prefix-3")
    assert found == {"c1": ["Q", "try 3"], "c1~same-pre": ["try 1"], "c1~same-prefix-2": ["try 2"]}


def test_cycles_and_missing_parents_lose_nothing_and_end():
    nodes = {
        "a": node("c", "user", "A", 1),
        "b": node("a", "assistant", "B", 2),
        "c": node("b", "user", "C", 3),
        "s": node("s", "user", "itself", 4),
        "d": node("gone", "user", "D", 5),
    }
    for current in (*nodes, None):
        found = read_sessions(nodes, current)
        assert sorted(text for texts in found.values() for text in texts) == ["A", "B", "C", "D", "itself"]
    assert read_sessions(nodes, "c")["c1"] == ["A", "B", "C"]


def test_parents_and_times_are_those_of_turns_on_the_own_path():
    nodes = {
        "u": node(None, "user", "Q"),
        "t": node("u", "assistant", {"content_type": "thoughts", "thoughts": []}),
        "e": node("t", "assistant", ""),
        "a": node("e", "assistant", "A"),
    }
    (session,) = parse(conversation(nodes, "a")).sessions
    assert [(turn.id, turn.parent) for turn in session.turns] == [("u", None), ("a", "u")]
    nodes = {
        "u": node(None, "user", "Q", 100),
        "x": node("u", "assistant", "left", 900),
        "a": node("u", "assistant", "A"),
        "b": node("a", "user", "B", 300.5),
    }
    (session,) = parse(conversation(nodes, "b")).sessions
    assert [(turn.time - START, turn.time_quality) for turn in session.turns] == [
        (timedelta(seconds=100), "exact"),
        (timedelta(seconds=100), "derived"),
        (timedelta(seconds=300.5), "exact"),
    ]


@cases("time", None, 0, -5, True, 1e300, 10**30, "soon", [])
def test_turns_without_any_time_have_none(time):
    (session,) = parse(conversation({"u": node(None, "user", "Q", time)}, create_time=time)).sessions
    assert (session.turns[0].time, session.turns[0].time_quality) == (None, "none")
