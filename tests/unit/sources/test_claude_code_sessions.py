from tests.support.turns import cases
from tests.unit.sources.test_claude_code import answer, parse, read_texts, user
from tests.unit.sources.test_claude_code_graph import REWOUND


def test_a_file_may_hold_several_sessions_and_forks():
    records = [
        user("u1", None, "one", session="s1"),
        user("v1", None, "two", session="s2"),
        user("u2", "u1", "three", session="s1"),
    ]
    found = {s.id: [turn.text for turn in s.turns] for s in parse(*records).sessions}
    assert found == {"s1": ["one", "three"], "s2": ["two"]}
    records = [user("u1", None, "one"), user("u2", "u1", "old way"), user("v2", "u1", "new way", session="s2")]
    assert [(s.id, s.branch_of) for s in parse(*records).sessions] == [("s1", None), ("s2", None)]
    records = [*REWOUND, user("v1", "b1", "On from the first try", session="s2")]
    assert [(s.id, s.branch_of) for s in parse(*records).sessions] == [
        ("s1", None), ("s1~aaaaaaaa", "s1"), ("s2", None)]  # fmt: skip
    (session,) = parse({"type": "user", "uuid": "u1", "message": {"content": "Hi"}}, path="x/0f3a.jsonl").sessions
    assert session.id == "0f3a"


def test_warmup_sessions_and_subagents_are_dropped_and_the_topic_stays():
    records = [
        user("u1", None, "Warmup", session="w"),
        answer("a1", "u1", "Ready", session="w"),
        user("u2", None, "Hi"),
    ]
    assert [s.id for s in parse(*records).sessions] == ["s1"]
    records = [
        user("u1", None, "Hi"),
        user("g1", None, "Warmup", isSidechain=True),
        answer("g2", "g1", "Ready", isSidechain=True),
    ]
    assert read_texts(*records) == ["Hi"]
    assert read_texts(user("u1", None, "Warmup of the cache fails")) == ["Warmup of the cache fails"]


@cases("cwd, project",
    ("/home/ana/ledgerline", "ledgerline"), ("/home/ana/ledgerline/", "ledgerline"),
    ("C:\\Users\\ana\\ledgerline", "ledgerline"), ("/", None), ("C:\\", None), ("", None), (7, None))  # fmt: skip
def test_the_project_is_the_last_folder(cwd, project):
    (session,) = parse(user("u1", None, "Hi", cwd=cwd)).sessions
    assert session.project == project


CUSTOM = {"type": "custom-title", "customTitle": "Mine", "sessionId": "s1"}
AI = {"type": "ai-title", "aiTitle": "Guessed", "sessionId": "s1"}
SUMMARY = {"type": "summary", "summary": "Summed up", "leafUuid": "u1"}
FOREIGN = {"type": "summary", "summary": "Of another session", "leafUuid": "elsewhere"}
AGENT = {"type": "agent-name", "agentName": "Fixer", "sessionId": "s1"}


@cases("records, title",
    ((CUSTOM, AI, SUMMARY, AGENT), "Mine"), ((AGENT, AI), "Guessed"), ((SUMMARY, AGENT), "Summed up"),
    ((FOREIGN, AGENT), "Fixer"), ((FOREIGN,), "Fix the webhook"), ((AI, {**AI, "aiTitle": "Better"}), "Better"),
)  # fmt: skip
def test_titles_by_rank(records, title):
    (session,) = parse(*records, user("u1", None, "Fix the\nwebhook")).sessions
    assert session.title == title


def test_the_first_folder_counts_and_a_title_has_80_characters():
    records = [user("u1", None, "Hi"), user("u2", "u1", "a", cwd="/x/one"), user("u3", "u2", "b", cwd="/x/two")]
    assert parse(*records).sessions[0].project == "one"
    (session,) = parse(user("u1", None, "word " * 50)).sessions
    assert len(session.title) <= 80
    assert session.title.endswith("…")
