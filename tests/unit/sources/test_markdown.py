from datetime import UTC, datetime

from helix.sources import markdown
from helix.types import Document
from tests.support.turns import cases

MTIME = datetime(2026, 1, 1, tzinfo=UTC)


def parse(text, path="docs/notes.md", mtime=MTIME):
    return markdown.parse(Document(path, text, mtime))


def turns(text, **more):
    (session,) = parse(text, **more).sessions
    return session.turns


def sections(text):
    return [(turn.id, turn.title, turn.text) for turn in turns(text)]


@cases("text, left",
    ("a<!-- x -->b", "ab"), ("a\n<!-- x\n# y\n-->\nb", "a\n\n\n\nb"), ("a <!-- x --> b <!-- y --> c", "a  b  c"),
    ("a\n<!-- never closed\nb", "a\n<!-- never closed\nb"), ("```\n<!-- code -->\n```", "```\n<!-- code -->\n```"),
)  # fmt: skip
def test_comments_are_dropped_outside_code(text, left):
    found = sections("# A\n" + text)
    assert [title for _, title, _ in found] == ["A"]
    assert found[0][2] == left


def test_sections_have_paths_and_only_headings_open_them():
    text = "# Top\nintro\n\n## Sub *one* `x`\na\n\n### Deep ###\nb\n\n## Sub two\nc\n# Next\nd"
    assert sections(text) == [
        ("top", "Top", "intro"), ("top/sub-one-x", "Top > Sub one x", "a"),
        ("top/sub-one-x/deep", "Top > Sub one x > Deep", "b"), ("top/sub-two", "Top > Sub two", "c"),
        ("next", "Next", "d")]  # fmt: skip
    (turn,) = turns("# A\ntext")
    assert (turn.role, turn.origin, turn.speaker, turn.unique) == ("document", "document", None, False)
    assert sections("Top\n===\nintro\n\nSub\n---\nbody") == [("top", "Top", "intro"), ("top/sub", "Top > Sub", "body")]
    assert sections("hello\n\n# A\nx") == [("start", None, "hello"), ("a", "A", "x")]
    assert [title for _, title, _ in sections("### C\nx\n# A\ny\n### B\nz")] == ["C", "A", "A > B"]
    assert sections("# See [the docs](https://x.org/a_b) for snake_case\nx")[0][1] == "See the docs for snake_case"
    assert sections("# A\nx\n<memory>\n# old\ny\n</memory>\nz") == [("a", "A", "x\n\nz")]
    text = "# A\n- item\n---\nline one\nline two\n---\n| a |\n---\n#hashtag\n####### seven"
    ((_, _, body),) = sections(text)
    assert body == text.removeprefix("# A\n")
    text = "# A\n```sh\n# not a heading\n```\n~~~\n# nor this\n```\n# nor that\n~~~\n    # indented\n## B\nx"
    assert [title for _, title, _ in sections(text)] == ["A", "A > B"]


def test_empty_sections_vanish_and_plain_text_is_grouped():
    text = "# Log\n## Fix\na\n## Fix\nb\n## Empty\n## Fix\nc\n## Fix 2\nd\n## !!\ne"
    expected = ["log/fix", "log/fix-2", "log/fix-3", "log/fix-2-2", "log/section"]
    assert [name for name, _, _ in sections(text)] == expected
    paragraphs = ["a " * 80, "b " * 70, "c " * 10, "d " * 200, "e"]
    found = turns("\n\n".join(paragraphs), path="notes.txt")
    expected = [("p1", 150, None), ("p3", 10, None), ("p4", 200, None), ("p5", 1, None)]
    assert [(turn.id, len(turn.text.split()), turn.title) for turn in found] == expected


FRONT = '---\ntitle: "My notes"\ndate: 2026-05-13\nproject: ledgerline\ntags:\n  - a\n---\n# Top\ntext\n'


@cases("text",
    "---\nnot a pair of words\n---\nx", "---\nkey: never closed\nx", "---\n\n---\nx", "a\n---\ntitle: no\n---\nx",
)  # fmt: skip
def test_a_rule_is_no_front_matter(text):
    (session,) = parse(text).sessions
    assert "x" in session.turns[-1].text
    assert session.title != "no"


@cases("path, mtime, time, quality",
    ("x/2026-02-03-standup.md", MTIME, datetime(2026, 2, 3, tzinfo=UTC), "derived"),
    ("2026-02-03_14-15-16Z-x.md", MTIME, datetime(2026, 2, 3, 14, 15, 16, tzinfo=UTC), "derived"),
    ("2026-02-30.md", MTIME, MTIME, "file"), ("12026-02-033.md", MTIME, MTIME, "file"), ("x.md", None, None, "none"),
)  # fmt: skip
def test_dates_from_the_name_then_the_file(path, mtime, time, quality):
    (turn,) = turns("text", path=path, mtime=mtime)
    assert (turn.time, turn.time_quality) == (time, quality)


@cases("text, title", ("# Top\nx", "Top"), ("x", "notes"), ("## Sub\nx\n# Top\ny", "Sub"))
def test_the_title_is_the_first_heading_or_the_name(text, title):
    assert parse(text).sessions[0].title == title


def test_sections_front_matter_and_sessions_have_names():
    (session,) = parse(FRONT, path="2020-01-01.md").sessions
    assert (session.title, session.project) == ("My notes", "ledgerline")
    (turn,) = session.turns
    assert (turn.title, turn.text) == ("Top", "text")
    assert (turn.time, turn.time_quality) == (datetime(2026, 5, 13, tzinfo=UTC), "derived")
    parsed = parse("---\ntitle: x\ndate: last week\n---\ntext", path="2026-02-03-x.md")
    ((line, reason),) = parsed.problems
    assert line == 3
    assert "'last week'" in reason
    assert parsed.sessions[0].turns[0].time == datetime(2026, 2, 3, tzinfo=UTC)
    assert parse("x").sessions[0].id == "notes-327ffd98"
    assert parse("x", path="C:\\docs\\notes.md").sessions[0].id.startswith("notes-")
    assert parse("# Only\n## Headings\n<!-- and a comment -->\n").sessions == ()
