import contextlib
from datetime import UTC, datetime

import pytest

from helix.errors import InputRefused
from helix.sources import meeting
from helix.sources.common.sample import take_sample
from helix.types import Document
from tests.support.turns import cases, check_cpu_time, list_texts, load_texts

MTIME = datetime(2026, 1, 1, 17, 45, tzinfo=UTC)


def parse(text, path="meetings/review.txt", mtime=MTIME, **options):
    return meeting.parse(Document(path, text, mtime), **options)


def list_turns(text, **options):
    (session,) = parse(text, **options).sessions
    return [(turn.id, turn.speaker, turn.text) for turn in session.turns]


def times(text, **options):
    (session,) = parse(text, **options).sessions
    return [turn.time for turn in session.turns]


def detect(text):
    return meeting.detect(take_sample(text, "notes.txt"))


def make_time(*when):
    return datetime(*when, tzinfo=UTC)


SHAPES = {
    "zoom": ("[{name}] {stamp}\n{text}\n\n", ("10:02:11", "10:02:19", "10:02:31")),
    "otter": ("{name}  {stamp}  \n{text}\n\n", ("0:12", "0:19", "1:00:31")),
    "otter, one space": ("{name} {stamp}\n{text}\n\n", ("0:12", "0:19", "1:00:31")),
    "teams": ("{name}   {stamp}\n{text}\n", ("0:12", "0:19", "0:31")),
    "two lines": ("{name}\n{stamp}\n{text}\n", ("0:12", "0:19", "0:31")),
    "stamp before": ("[{stamp}] {name}: {text}\n", ("00:12", "00:19", "00:31")),
    "long stamp before": ("[{stamp}] {name}: {text}\n\n", ("00:00:12", "00:00:19", "01:00:31")),
    "round brackets": ("({stamp}) {name}: {text}\n", ("00:12", "00:19", "00:31")),
    "stamp behind": ("{name} ({stamp}): {text}\n\n", ("00:12", "00:19", "00:31")),
    "stamp behind, no colon": ("{name} [{stamp}]\n{text}\n\n", ("00:12", "00:19", "00:31")),
    "chat, one line": ("{stamp} From {name} : {text}\n", ("10:02:11", "10:02:19", "10:02:31")),
    "chat to everyone": ("{stamp}\t From {name} to Everyone:\n\t{text}\n", ("10:02:11", "10:02:19", "10:02:31")),
}
TALK = (
    ("Ana Ruiz", "We take the early ferry then."), ("Ben", "The early one, at 6:15 sharp."),
    ("Ana Ruiz", "Note: it does not run on Sundays."))  # fmt: skip


@pytest.mark.parametrize("shape", SHAPES)
def test_every_shape_is_found_and_read(shape):
    line, stamps = SHAPES[shape]
    text = "".join(
        line.format(name=name, stamp=stamp, text=words) for (name, words), stamp in zip(TALK, stamps, strict=True)
    )
    assert detect(text)
    assert list_turns(text) == [(stamp, *turn) for stamp, turn in zip(stamps, TALK, strict=True)]
    assert detect("Weekly\nMay 4, 2026\n\n" + text)


@cases("gap", "\n", "\n\n")
@cases("line", "{0}: {1}", "**{0}:** {1}", "{0} : {1}")
def test_names_without_stamps(line, gap):
    text = gap.join(line.format(*turn) for turn in TALK)
    assert detect(text)
    step = len(gap)
    assert list_turns(text) == [(str(1 + n * step), *turn) for n, turn in enumerate(TALK)]


@cases("name", *load_texts("meeting", "names"))
def test_names(name):
    text = f"{name}: Good morning to all of you.\nBen: Good morning, let us begin.\n{name}: Yes, let us do that."
    assert detect(text)
    assert [speaker for _, speaker, _ in list_turns(text)] == [name, "Ben", name]


def test_only_names_at_the_start_of_a_block_speak():
    talk = "Ana: We need to decide today.\nYou see\nRemote: nobody is there.\n\nBen: I agree with all of it.\n\n"
    assert list_turns(
        talk + "Cleo: So do I, for once.\n\nAna: Then it is decided, thank you.\nGood bye, everyone out there."
    ) == [
        ("1", "Ana", "We need to decide today. You see Remote: nobody is there."),
        ("5", "Ben", "I agree with all of it."), ("7", "Cleo", "So do I, for once."),
        ("9", "Ana", "Then it is decided, thank you. Good bye, everyone out there.")]  # fmt: skip
    text = (
        "Ana 0:01\nWe meet again, all of us.\nHarwich at 10:30\n\nBen 0:09\nYes, there.\n\nAna 0:12\nBring your lamps."
    )
    expected = [("0:01", "Ana", "We meet again, all of us. Harwich at 10:30"), ("0:09", "Ben", "Yes, there.")]
    assert list_turns(text)[:2] == expected
    talk = "Ana: We need to decide today.\nBen: Do we, so soon?\nAna: Yes, we do indeed.\n"
    assert list_turns("Moderator: Welcome to all of you.\n" + talk)[0] == ("1", "Moderator", "Welcome to all of you.")
    assert list_turns("Room: Pier 4\n" + talk)[0] == ("2", "Ana", "We need to decide today.")
    expected = ("2", "Ana", "We need to decide today.")
    assert list_turns("Attendees: Ana, Ben and some more people\n" + talk)[0] == expected


def test_turns_have_stamps_sixty_words_and_no_footer():
    lines = [f"[00:{n:02d}] Ana: " + f"w{n} " * 20 for n in range(4)] + ["[00:09] Ben: So be it, all of it."]
    found = list_turns("\n".join(lines))
    expected = [("00:00", "Ana", 60), ("00:03", "Ana", 20), ("00:09", "Ben", 6)]
    assert [(name, speaker, len(text.split())) for name, speaker, text in found] == expected
    text = "[00:01] Ana: one two three four\n[00:01] Ben: one two three four\n[00:01] Ana: one two three four"
    assert [name for name, _, _ in list_turns(text)] == ["00:01", "00:01-2", "00:01-3"]
    text = (
        "Ana  0:01\nWe go.\n<memory>\nold\n</memory>\n\nBen  0:05\nYes, we go home now.\n\nAna  0:09\nGood bye to you."
    )
    parsed = parse(text)
    assert list_texts(parsed) == ["We go.", "Yes, we go home now.", "Good bye to you."]
    assert parsed.junk["memory"] >= len("<memory>old</memory>")
    ends = "Meeting ended after 00:42:10 👋\nTranscribed by https://otter.ai\nBen Okafor stopped transcription\n"
    text = "Ana  0:01\nWe go home now.\n\nBen  0:05\nYes, all of us.\n\nAna  0:09\nGood bye to you.\n" + ends
    assert list_turns(text)[-1] == ("0:09", "Ana", "Good bye to you.")


OFFSETS = (
    "[{0}] Ana: We go home now, all of us.\n[{1}] Ben: Yes, that is what we do.\n[{0}] Ana: Good bye to all of you.\n"
)
TWO = "[00:05] Ana: We go home now, all of us.\n[00:09] Ben: Yes, that is it.\n[01:00:00] Ana: Good bye to you.\n"


@cases("header, path, start, quality",
    ("Meeting date: 2026-03-04", "a.txt", make_time(2026, 3, 4), "derived"),
    ("Date: 2026-03-04T09:30:00Z", "a.txt", make_time(2026, 3, 4, 9, 30), "derived"),
    ("Date: 2026-03-04 09:30 +02:00", "a.txt", make_time(2026, 3, 4, 7, 30), "derived"),
    ("2026/03/04 09:30 GMT-5", "a.txt", make_time(2026, 3, 4, 14, 30), "derived"),
    ("Mon, March 4, 2026 9:30 AM", "a.txt", make_time(2026, 3, 4, 9, 30), "derived"),
    ("Mar 4th, 2026 at 12:05 am", "a.txt", make_time(2026, 3, 4, 0, 5), "derived"),
    ("4 March 2026, 21:30", "a.txt", make_time(2026, 3, 4, 21, 30), "derived"),
    ("4. Sept. 2026", "a.txt", make_time(2026, 9, 4), "derived"),
    ("Weekly (2026-03-04 9:30PM)", "a.txt", make_time(2026, 3, 4, 21, 30), "derived"),
    ("Weekly", "x/2026-03-04 weekly.txt", make_time(2026, 3, 4), "derived"),
    ("Weekly", "2026-03-04_09-30-00-weekly.txt", make_time(2026, 3, 4, 9, 30), "derived"),
    ("Ticket 2026-31-04, of 2026-03-04", "a.txt", make_time(2026, 3, 4), "derived"),
    ("Ticket 2026-31-04", "a.txt", MTIME, "file"), ("Meeting of May", "a.txt", MTIME, "file"))  # fmt: skip
def test_the_date_of_the_meeting(header, path, start, quality):
    (session,) = parse(f"{header}\n\n{TWO}", path=path).sessions
    assert [(turn.time - start).total_seconds() for turn in session.turns] == [5, 9, 3600]
    assert {turn.time_quality for turn in session.turns} == {quality}


@cases("stamps, clock",
    (("10:02:11", "10:02:19"), (10, 2, 11)), (("9:05 AM", "9:06 AM"), (9, 5, 0)),
    (("1:05:09 p.m.", "1:05:10 p.m."), (13, 5, 9)), (("12:00 am", "12:01 am"), (0, 0, 0)))  # fmt: skip
def test_a_time_of_day_replaces_that_of_the_meeting(stamps, clock):
    found = times(OFFSETS.format(*stamps), path="2026-03-04_08-00-00.txt")
    assert found[0] == make_time(2026, 3, 4, *clock)


def test_times_are_offsets_marks_or_missing():
    assert times(OFFSETS.format("00:01:02", "00:01:03"), path="2026-03-04_08-00-00.txt")[0] == make_time(
        2026, 3, 4, 8, 1, 2
    )
    (session,) = parse(TWO, mtime=None).sessions
    assert {(turn.time, turn.time_quality) for turn in session.turns} == {(None, "none")}
    turns = ("Ana: We go home now.", "Ben: Yes, all of us.", "Ana: Good bye to you.")
    text = "".join(f"00:{10 * n:02d}:00\n\n{turn}\n\n" for n, turn in enumerate(turns, 1))
    text += "Transcription ended after 00:42:10\n"
    assert detect(text)
    assert times(text, path="2026-03-04.txt") == [make_time(2026, 3, 4, 0, 10 * n) for n in (1, 2, 3)]
    (session,) = parse("9999-12-31\n\n" + TWO.replace("01:00:00", "99:00:00")).sessions
    assert (session.turns[-1].time, session.turns[-1].time_quality) == (None, "none")


@cases("header, title",
    ("", "review"), ("Weekly sync", "Weekly sync"), ("May 4, 2026 9:30 AM\nWeekly sync", "Weekly sync"),
    ("Mon, 4 May 2026 9:30 CEST\n", "review"), ("Attendees\nAna, Ben\n", "Ana, Ben"),
    ("Topic: Weekly sync\nDate: 2026-05-04", "Weekly sync"),
    ("Weekly sync [2026-05-04 09:30] - Transcript", "Weekly sync"))  # fmt: skip
def test_titles(header, title):
    (session,) = parse(f"{header}\n\n{TWO}").sessions
    assert session.title == title


TALKS = "Ana: We go home now, all of us.\n\nBen: Yes, that is what we do.\n\nAna: Good bye to all of you.\n"


def test_most_blocks_must_begin_a_turn_unless_the_format_is_named():
    prose = "It was a long day at the pier, and nobody said much.\n\n"
    assert detect(TALKS + "\n" + prose * 2)
    assert not detect(TALKS + "\n" + prose * 3)
    assert list_turns("Ana: hello\nBen: hi") == [("1", "Ana", "hello"), ("2", "Ben", "hi")]
    with pytest.raises(InputRefused, match=r"no speaker in it.*Name: text"):
        parse("just some prose\nof two lines\n")


def test_hostile_text_needs_linear_time():
    def read(text):
        meeting.detect(take_sample(text, "x"))
        with contextlib.suppress(InputRefused):
            parse(text)

    check_cpu_time(
        read, "Ana: " * 25_000, "Ana: hello there.\n" * 12_500, "A" * 250_000, "Ana " * 62_500,
        "10:02:11 From " + "a " * 50_000, "10:02:11 From " + " to" * 50_000 + ":", "[00:01] " * 25_000,
        "0:01\n" * 25_000, "Ana\n" * 25_000, "(" * 125_000, "Ana: x\nBen: y\nAna: z\n" + "((((" * 25_000,
        "2026-05-04 " * 12_500 + "\n" + TWO, TWO + " \n" * 50_000)  # fmt: skip
