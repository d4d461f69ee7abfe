"""Any input is parsed or refused, without another error."""

import json

from hypothesis import example, given
from hypothesis import strategies as st

from helix.errors import InputRefused
from helix.sources import registry as sources
from helix.sources.common.decode import decode
from helix.types import ROLES, TYPES, Document
from tests.support.draws import draw_share

ORIGINS = {"human", "assistant", "tool", "runtime_context", "summary", "subagent", "document", "note"}
QUALITIES = {"exact", "derived", "file", "none"}


def check(parsed):
    """Assert the invariants that all later stages need."""
    assert len({session.id for session in parsed.sessions}) == len(parsed.sessions)
    for session in parsed.sessions:
        assert session.turns
        assert len({turn.id for turn in session.turns}) == len(session.turns)
        assert session.title is None or (len(session.title) <= 80 and "\n" not in session.title)
        for turn in session.turns:
            assert turn.text.strip()
            assert turn.role in ROLES
            assert turn.origin in ORIGINS
            assert turn.time_quality in QUALITIES
            assert (turn.time is None) == (turn.time_quality == "none")
            assert turn.time is None or turn.time.utcoffset().total_seconds() == 0
            assert turn.type is None or turn.type in TYPES
    assert all(problem.line >= 0 and problem.reason for problem in parsed.problems)


def take(text, path="notes 2026-05-04.md", format="auto"):
    try:
        parsed = sources.parse(Document(path, text), format)
    except InputRefused:
        return
    check(parsed)


@given(st.binary(max_size=400) | st.text(max_size=300).map(lambda text: text.encode("utf-16")), st.integers(1, 100))
@example(b"{}\xff", 10)
@example(b'{"text":"a"}\n\xff', 100)
@example(b"[[", 1)
def test_any_bytes(data, limit):
    try:
        text, problems = decode(data, limit)
    except InputRefused:
        return
    assert "\r\n" not in text
    if not text.lstrip().startswith("["):  # a JSON list is one value, in which lines mean nothing
        assert all(len(line.encode()) <= limit for line in text.split("\n"))
    assert all(1 <= problem.line <= text.count("\n") + 1 for problem in problems)
    take(text)


SCRAPS = (
    "WEBVTT", "00:00:01.000 --> 00:00:02.000", "1", "00:00:01,000 --> 00:99:02,000", "<v Ana>Hi", "Ana: Hi",
    "NOTE date: 2026-05-04", "# A", "## ", "---", "===", "```", "<!--", "-->", "<memory>", "</memory>",
    "<system-reminder>", "</system-reminder>", "date: 2026-05-04", "title: 'x", '{"text":"a"}',
    '{"text":"a","id":"1"}', "{", "[", "\u2028", "\x85", "\x0c", "\x00", "\ufeff",
    '{"type":"user","uuid":"u","sessionId":"s","message":{"content":"Hi"}}',
    "999999999:00:00.000 --> 9999999999:00:00.000",
)  # fmt: skip
LINES = st.lists(st.sampled_from(SCRAPS) | st.text(max_size=20) | st.just(""), max_size=25).map("\n".join)


@given(LINES, st.sampled_from(["auto", *sources.FORMATS]))
@draw_share(3)
def test_any_lines_in_any_format(text, format):
    take(text, format=format)


VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8) | st.just("2026-05-04T10:00:00Z"),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(["type", "text", "content"]), inner),
    max_leaves=6,
)
KEYS = ("session", "id", "speaker", "role", "text", "content", "ts", "project", "title", "type", "acl", "pinned")
GENERIC = st.dictionaries(st.sampled_from([*KEYS, "priority", "confidence"]), VALUES)


@given(st.lists(GENERIC, min_size=1, max_size=6))
def test_any_values_in_a_generic_transcript(records):
    parsed = sources.parse(Document("a", "\n".join(map(json.dumps, records))), "jsonl")
    check(parsed)
    turns = sum(len(session.turns) for session in parsed.sessions)
    assert turns + len(parsed.problems) == len(records)


UUIDS = st.sampled_from([f"u{n}" for n in range(1, 7)])
BLOCKS = [
    {"type": "text", "text": "words"},
    {"type": "tool_use", "name": "Bash", "input": {"command": "ls"}},
    {"type": "tool_result", "content": "file"},
    {"type": "thinking", "thinking": "hm"},
]
CONTENT = st.sampled_from(["Hi", "Warmup"]) | st.lists(st.sampled_from(BLOCKS), max_size=3) | VALUES
CLAUDE = st.fixed_dictionaries(
    {
        "type": st.sampled_from(["user", "assistant", "system", "progress", "summary", "telepathy"]),
        "message": st.fixed_dictionaries({"content": CONTENT}, optional={"id": st.sampled_from(["m1", "m2"])}),
    },
    optional={
        **{"uuid": UUIDS, "parentUuid": UUIDS | st.none(), "logicalParentUuid": UUIDS},
        **{"sessionId": st.sampled_from(["s1", "s2"]), "cwd": st.sampled_from(["/", "/a/b"]) | VALUES},
        **{name: st.booleans() for name in ("isSidechain", "isMeta", "isCompactSummary")},
        "timestamp": st.sampled_from(["2026-05-04T10:00:00Z", "x"]) | VALUES,
    },
)


def parse_claude(records):
    parsed = sources.parse(Document("a", "\n".join(map(json.dumps, records))), "claude-code")
    check(parsed)
    return parsed


@given(st.lists(CLAUDE, max_size=12))
@draw_share(1.5)
def test_any_graph_of_claude_code_records(records):
    parse_claude(records)


@given(st.permutations(range(8)), st.lists(st.integers(0, 7), min_size=8, max_size=8))
def test_no_turn_of_a_graph_is_lost_with_any_edges(order, parents):
    user = {"type": "user", "sessionId": "s"}
    parsed = parse_claude(
        {**user, "uuid": f"u{n}", "parentUuid": f"u{parents[n]}", "message": {"content": f"t{n}"}} for n in order
    )
    texts = sorted(turn.text for session in parsed.sessions for turn in session.turns)
    assert texts == [f"t{n}" for n in range(8)]
