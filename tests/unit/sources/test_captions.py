from datetime import UTC, datetime

import pytest

from helix.errors import InputRefused
from helix.sources import captions
from helix.types import Document
from tests.support.turns import cases, list_texts

MTIME = datetime(2026, 1, 1, tzinfo=UTC)


def cue(start, end, text, number=None):
    """Return a cue. Times are in seconds below one hour."""
    timing = " --> ".join(f"00:{int(time // 60):02d}:{time % 60:06.3f}" for time in (start, end))
    return (f"{number}\n" if number is not None else "") + f"{timing}\n{text}\n"


def vtt(*blocks, header="WEBVTT"):
    return "\n".join([header + "\n", *blocks])


def srt(*blocks):
    return "\n".join(block.replace(".", ",", 2) for block in blocks)


def parse(text, path="meetings/sync.vtt", mtime=MTIME):
    return captions.parse(Document(path, text, mtime))


def list_turns(text, **more):
    (session,) = parse(text, **more).sessions
    return [(turn.speaker, turn.text) for turn in session.turns]


def test_cues_of_one_speaker_are_a_turn_up_to_a_pause_or_sixty_words():
    text = vtt(
        cue(192, 194, "<v Ana>We move"),
        cue(194, 196, "<v Ana>to DuckDB."),
        cue(196, 198, "<v Marco>Fine.", number="c9"),
    )
    (session,) = parse(text).sessions
    assert [(turn.id, turn.text) for turn in session.turns] == [("00:03:12.000", "We move to DuckDB."), ("c9", "Fine.")]
    text = vtt(cue(0, 1, "<v Ana>one"), cue(9, 10, "<v Ana>two"), cue(18.1, 19, "<v Ana>three"))
    assert list_turns(text) == [("Ana", "one two"), ("Ana", "three")]
    text = vtt(*(cue(n, n + 1, "<v Ana>" + f"w{n} " * 20) for n in range(4)))
    assert [len(words.split()) for _, words in list_turns(text)] == [60, 20]


def test_captions_that_roll_are_read_once_and_other_repetitions_stay():
    text = vtt(
        cue(0, 2, "so today\n "),
        cue(2, 2.01, "so today\n "),
        cue(2.01, 4, "so today\nwe<00:00:02.500><c> talk</c>"),
        cue(4, 4.01, "we talk\n "),
        cue(4.01, 6, "we talk\nabout <c.colorE5E5E5>queues</c>"),
    )
    assert list_turns(text) == [(None, "so today we talk about queues")]
    text = vtt(cue(0, 1, "hello"), cue(1, 2, "hello there"), cue(2, 3, "hello there friend"))
    assert list_turns(text) == [(None, "hello there friend")]
    text = vtt(cue(0, 1, "<v Ana>Yes."), cue(1, 2, "<v Marco>Yes."), cue(10, 11, "<v Marco>Yes."))
    assert [words for _, words in list_turns(text)] == ["Yes.", "Yes. Yes."]
    text = vtt(cue(0, 1, "I think that"), cue(1, 2, "that is right"))
    assert list_turns(text) == [(None, "I think that that is right")]


def test_voices_and_name_prefixes_become_speakers():
    text = vtt(cue(0, 2, "<v Ana>Hello <b>all</b></v>"), cue(2, 4, "<v.loud Priya Rao>Hi &amp; welcome"))
    assert list_turns(text) == [("Ana", "Hello all"), ("Priya Rao", "Hi & welcome")]
    text = vtt(cue(0, 2, "<v Ana>Ready?\n<v Marco>Yes", number="x"))
    (session,) = parse(text).sessions
    expected = [("x", "Ana", "Ready?"), ("x-2", "Marco", "Yes")]
    assert [(turn.id, turn.speaker, turn.text) for turn in session.turns] == expected
    assert list_turns(vtt(cue(0, 1, "<v Ana>Note: late"), cue(1, 2, "<v Marco>Note: ok")))[0] == ("Ana", "Note: late")
    text = srt(cue(1, 2, "Ana: Hello\nall", number=1), cue(3, 4, "Marco: Hi", number=2))
    (session,) = parse(text, path="sync.srt").sessions
    expected = [("1", "Ana", "Hello all"), ("2", "Marco", "Hi")]
    assert [(turn.id, turn.speaker, turn.text) for turn in session.turns] == expected
    text = vtt(
        cue(0, 1, "Priya Rao: We"), cue(1, 2, "should wait"), cue(2, 3, "Marco: Why?"), cue(3, 4, "Priya Rao: Tests")
    )
    assert list_turns(text) == [("Priya Rao", "We should wait"), ("Marco", "Why?"), ("Priya Rao", "Tests")]
    words = ["We saw", "Remember: no deploys", "on a Friday", "at 10:30", "or ever"]
    text = vtt(*(cue(n, n + 1, word) for n, word in enumerate(words)))
    assert list_turns(text) == [(None, "We saw Remember: no deploys on a Friday at 10:30 or ever")]


@cases(
    "header, path, time, quality",
    ("WEBVTT\n\nNOTE date: 2026-03-04T10:00:00Z", "a.vtt", datetime(2026, 3, 4, 10, 0, 5, tzinfo=UTC), "derived"),
    ("WEBVTT\n\nNOTE\ndate: 2026-03-04T10:00:00+02:00", "a.vtt", datetime(2026, 3, 4, 8, 0, 5, tzinfo=UTC), "derived"),
    ("WEBVTT\n\nNOTE 2026-03-04", "2020-01-01.vtt", datetime(2026, 3, 4, 0, 0, 5, tzinfo=UTC), "derived"),
    ("WEBVTT", "x/2026-03-04 sync.vtt", datetime(2026, 3, 4, 0, 0, 5, tzinfo=UTC), "derived"),
    ("WEBVTT", "2026-03-04_09-30-00Z-sync.vtt", datetime(2026, 3, 4, 9, 30, 5, tzinfo=UTC), "derived"),
    ("WEBVTT", "2026-13-99.vtt", datetime(2026, 1, 1, 0, 0, 5, tzinfo=UTC), "file"),
    ("WEBVTT", "2026-03-04/sync.vtt", datetime(2026, 1, 1, 0, 0, 5, tzinfo=UTC), "file"),
)
def test_the_meeting_date(header, path, time, quality):
    (session,) = parse(vtt(cue(5, 6, "hi"), header=header), path=path).sessions
    assert (session.turns[0].time, session.turns[0].time_quality) == (time, quality)


@cases("header, title", ("WEBVTT", "sync"), ("WEBVTT Weekly", "Weekly"), ("WEBVTT - Weekly\nKind: captions", "Weekly"))
def test_titles(header, title):
    (session,) = parse(vtt(cue(0, 1, "hi"), header=header)).sessions
    assert session.title == title


def test_cues_need_no_blank_lines_and_may_be_bad():
    text = vtt(
        cue(0, 1, "one"), "00:00:99.000 --> 00:01:00.000\nbad\n", cue(2, 3, "two"), "stray text\n", cue(4, 5, "three")
    )
    parsed = parse(text)
    assert list_texts(parsed) == ["one two three"]
    assert [problem.line for problem in parsed.problems] == [6, 12]
    text = "WEBVTT\n\n00:00.000 --> 00:01.000\none\n00:01.000 --> 00:02.000\ntwo\n"
    assert list_turns(text) == [(None, "one two")]
    text = "1\n00:00:00,000 --> 00:00:01,000\none\n2\n00:00:01,000 --> 00:00:02,000\ntwo\n"
    assert list_turns(text, path="a.srt") == [(None, "one two")]


def test_only_cues_are_text_and_without_a_date_they_have_no_time():
    text = vtt("STYLE\n::cue { color: red }\n", cue(0, 1, "one"), "NOTE to self\n", cue(1, 2, "two"))
    assert list_turns(text) == [(None, "one two")]
    assert not parse(text).problems
    assert list_turns(vtt(cue(0, 1, "<memory>old</memory>"), cue(20, 21, "new"))) == [(None, "new")]
    with pytest.raises(InputRefused, match="no caption"):
        parse("WEBVTT\n\njust text\n")
    (session,) = parse(vtt(cue(5, 6, "hi")), mtime=None).sessions
    assert (session.turns[0].time, session.turns[0].time_quality) == (None, "none")
