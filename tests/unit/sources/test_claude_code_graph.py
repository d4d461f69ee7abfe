from helix.util.workspaces import Workspace
from tests.support.turns import cases
from tests.unit.sources.test_claude_code import answer, call, parse, read_texts, record, result, turns, user


def test_graphs_with_faults_keep_parents_before_children():
    records = [answer("a1", "u1", "two"), user("u2", "a1", "three"), user("u1", None, "one")]
    assert read_texts(*records) == ["one", "two", "three"]
    records = [
        user("u1", None, "one", timestamp="2026-05-04T10:00:09Z"),
        answer("a1", "u1", "two", timestamp="2026-05-04T10:00:01Z"),
    ]
    assert read_texts(*records) == ["one", "two"]
    assert read_texts(user("u1", None, "first"), user("u1", None, "second")) == ["first"]
    expected = ["one", "two", "three"]
    assert read_texts(user("u1", "gone", "one"), answer("a1", "u1", "two"), user("u2", "lost", "three")) == expected
    records = [
        user("u1", "a2", "one"), answer("a1", "u1", "two"), answer("a2", "a1", "three"), user("u2", "u2", "four"),
    ]  # fmt: skip
    assert read_texts(*records) == ["one", "two", "three", "four"]
    found = turns({"type": "user", "sessionId": "s1", "message": {"content": "Hi"}})
    assert [(turn.id, turn.unique) for turn in found] == [("line-1", False)]


REWOUND = (
    user("u1", None, "Start"), answer("a1", "u1", "Ready"), user("aaaaaaaa-1111", "a1", "First try"),
    answer("b1", "aaaaaaaa-1111", "First answer"), user("cccccccc-2222", "a1", "Second try"),
    answer("c1", "cccccccc-2222", "Second answer"))  # fmt: skip


def test_a_rewind_leaves_the_last_attempt_and_is_seen_through_noise():
    live, abandoned = parse(*REWOUND).sessions
    assert (live.id, live.branch_of) == ("s1", None)
    assert [turn.text for turn in live.turns] == ["Start", "Ready", "Second try", "Second answer"]
    assert (abandoned.id, abandoned.branch_of) == ("s1~aaaaaaaa", "s1")
    assert [turn.text for turn in abandoned.turns] == ["First try", "First answer"]
    assert abandoned.turns[0].parent == "a1"
    records = [
        user("u1", None, "Start"), record("progress", "p1", "u1"), user("x1", "p1", "First"),
        record("system", "p2", "u1"), record("progress", "p3", "p2"), user("x2", "p3", "Second")]  # fmt: skip
    assert [[turn.text for turn in s.turns] for s in parse(*records).sessions] == [["Start", "Second"], ["First"]]
    records = [
        record("progress", "p0", None), user("x1", "p0", "First"), answer("y1", "x1", "Re"), user("x2", "p0", "Second"),
    ]  # fmt: skip
    assert [[turn.text for turn in s.turns] for s in parse(*records).sessions] == [["Second"], ["First", "Re"]]


def test_only_prompts_branch_and_similar_branches_stay_separate():
    records = [
        user("u1", None, "Start"), user("x1", "u1", "A"), answer("x2", "x1", "a"), user("x3", "x2", "A1"),
        user("x4", "x2", "A2"), user("y1", "u1", "B"), user("z1", "u1", "C")]  # fmt: skip
    found = {s.id: [turn.text for turn in s.turns] for s in parse(*records).sessions}
    assert found == {"s1": ["Start", "C"], "s1~x1": ["A", "a", "A2"], "s1~x3": ["A1"], "s1~y1": ["B"]}
    records = [user("u1", None, "Start"), *(user(f"same-prefix-{n}", "u1", f"try {n}") for n in range(3))]
    sessions = parse(*records).sessions
    assert len({s.id for s in sessions}) == 3
    assert sum(len(s.turns) for s in sessions) == 4
    records = [
        user("u1", None, "Start"), answer("a1", "u1", [call("Read", file_path="/a")]), result("r1", "a1", "A"),
        result("r2", "a1", "B"), user("h1", "a1", "Stop hook feedback:\nx"),
        user("g1", "a1", "Look into it", isSidechain=True), user("u2", "a1", "Go on")]  # fmt: skip
    (session,) = parse(*records).sessions
    assert len(session.turns) == 6
    assert read_texts(user("u1", None, "one"), user("u2", None, "two")) == ["one", "two"]


def test_a_compaction_continues_its_own_branch():
    records = [
        *REWOUND, record("system", "cb", None, subtype="compact_boundary", logicalParentUuid="c1"),
        user("cs", "cb", "This session is being continued", isCompactSummary=True), user("u9", "cs", "Next"),
    ]  # fmt: skip
    live, abandoned = parse(*records).sessions
    assert [turn.origin for turn in live.turns[-2:]] == ["summary", "human"]
    assert live.turns[-2].parent == "c1"
    assert len(abandoned.turns) == 2
    records = [
        *REWOUND[:4], record("system", "cb", None, subtype="compact_boundary", logicalParentUuid="b1"),
        user("cs", "cb", "Summary of the first try", isCompactSummary=True), *REWOUND[4:]]  # fmt: skip
    live, abandoned = parse(*records).sessions
    assert [turn.id for turn in live.turns] == ["u1", "a1", "cccccccc-2222", "c1"]
    assert [turn.id for turn in abandoned.turns] == ["aaaaaaaa-1111", "b1", "cs"]


def test_a_file_may_hold_several_sessions_and_forks():
    records = [
        user("u1", None, "one", session="s1"), user("v1", None, "two", session="s2"),
        user("u2", "u1", "three", session="s1")]  # fmt: skip
    found = {s.id: [turn.text for turn in s.turns] for s in parse(*records).sessions}
    assert found == {"s1": ["one", "three"], "s2": ["two"]}
    records = [user("u1", None, "one"), user("u2", "u1", "old way"), user("v2", "u1", "new way", session="s2")]
    assert [(s.id, s.branch_of) for s in parse(*records).sessions] == [("s1", None), ("s2", None)]
    records = [*REWOUND, user("v1", "b1", "On from the first try", session="s2")]
    expected = [("s1", None), ("s1~aaaaaaaa", "s1"), ("s2", None)]
    assert [(s.id, s.branch_of) for s in parse(*records).sessions] == expected
    (session,) = parse({"type": "user", "uuid": "u1", "message": {"content": "Hi"}}, path="x/0f3a.jsonl").sessions
    assert session.id == "0f3a"


def test_warmup_sessions_and_subagents_are_dropped_and_the_topic_stays():
    records = [
        user("u1", None, "Warmup", session="w"), answer("a1", "u1", "Ready", session="w"), user("u2", None, "Hi"),
    ]  # fmt: skip
    assert [s.id for s in parse(*records).sessions] == ["s1"]
    records = [
        user("u1", None, "Hi"), user("g1", None, "Warmup", isSidechain=True),
        answer("g2", "g1", "Ready", isSidechain=True)]  # fmt: skip
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


@cases("folder, place, tracked",
    ("-home-ana-api", "/home/ana/api", "main"), ("-home-ana-api-src", "/home/ana/api/src", "main"),
    ("elsewhere", "/home/ana/api/src", "main"), ("elsewhere", "/home/ana/api/src", ""),
    ("elsewhere", "/home/ana/api/src", "HEAD"))  # fmt: skip
def test_the_folder_of_a_log_is_that_of_its_session(folder, place, tracked):
    first = user("u1", None, "Hi", cwd="/home/ana/api/src", gitBranch=tracked)
    (session,) = parse(first, path=f"/home/ana/.claude/projects/{folder}/s1.jsonl").sessions
    assert session.workspace == Workspace(place, tracked=tracked == "main")


@cases(
    "worktree, project",
    ("/home/ana/api/.claude/worktrees/bold-fox", "api"),
    ("/home/ana/bold-fox", "src"),
    ("/home/ana/other", "bold-fox"),
)
def test_a_log_names_the_folder_that_its_worktree_was_made_from(worktree, project):
    state = {"originalCwd": "/home/ana/api/src", "worktreePath": worktree}
    folder = worktree.replace("other", "bold-fox")
    records = [
        user("u1", None, "Hi", cwd=folder),
        {"type": "worktree-state", "sessionId": "s1", "worktreeSession": state},
    ]
    (session,) = parse(*records).sessions
    assert session.project == project


def test_the_first_folder_counts_and_a_title_has_80_characters():
    records = [user("u1", None, "Hi"), user("u2", "u1", "a", cwd="/x/one"), user("u3", "u2", "b", cwd="/x/two")]
    assert parse(*records).sessions[0].project == "one"
    (session,) = parse(user("u1", None, "word " * 50)).sessions
    assert len(session.title) <= 80
    assert session.title.endswith("…")
