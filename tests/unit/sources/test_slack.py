import json
from collections import Counter

import pytest

from helix.errors import InputRefused
from helix.sources import slack
from helix.types import Document
from tests.support.turns import CUT_AT, LONG, cases, check_any_types, list_texts, load_texts

T0 = 1_777_888_800  # 2026-05-04 10:00 UTC


def ts(seconds, micro=0):
    return f"{T0 + seconds}.{micro:06d}"


def say(seconds, text="", user="U01", **more):
    """Return a short message of an export."""
    return {"type": "message", "user": user, "ts": ts(seconds), "text": text, **more}


def day(*messages, channel="general", **users):
    return {"slack": 1, "channel": channel, "users": users, "messages": list(messages)}


def parse(value, path="export/general/2026-05-04.json", **options):
    return slack.parse(Document(path, json.dumps(value)), **options)


def sessions(*messages, **users):
    return {s.id: [turn.text for turn in s.turns] for s in parse(day(*messages, **users)).sessions}


def one(text, users=None, **more):
    (session,) = parse(day(say(0, text, **more), **(users or {}))).sessions
    (turn,) = session.turns
    return turn


@cases("more, answered",
    ({"reply_count": 2}, True), ({"replies": [{"user": "U", "ts": "1.0"}]}, True), ({"answered": True}, True),
    ({"reply_count": 0}, False), ({"reply_count": "2"}, False), ({"replies": []}, False), ({}, False))  # fmt: skip
def test_answered_messages_open_threads(more, answered):
    found = sessions(say(1, "root", thread_ts=ts(1), **more))
    assert list(found) == [f"general/{ts(1)}" if answered else "general/2026-05-04"]


def test_messages_are_sorted_into_threads_and_days():
    top, root, reply = say(0, "top"), say(1, "root", thread_ts=ts(1), reply_count=1), say(60, "reply", thread_ts=ts(1))
    assert sessions(top, root, reply) == {"general/2026-05-04": ["top"], f"general/{ts(1)}": ["root", "reply"]}
    (session,) = parse(day(say(86_400, "later", thread_ts=ts(1)))).sessions
    assert (session.id, session.turns[0].id, session.turns[0].parent) == (f"general/{ts(1)}", ts(86_400), ts(1))
    found = sessions(say(60, "c"), say(14 * 3600 - 1, "d"), say(14 * 3600, "e"), say(0, "a"), say(1, "b"))
    assert found == {"general/2026-05-04": ["a", "b", "c", "d"], "general/2026-05-05": ["e"]}
    late, soon = {**say(0, "2"), "ts": ts(0, 20)}, {**say(0, "1"), "ts": ts(0, 3)}
    assert sessions(late, soon) == {"general/2026-05-04": ["1", "2"]}
    assert sessions(say(0, "a"), say(0, "a")) == {"general/2026-05-04": ["a"]}


USERS = {"U01": "Noor", "W02": "Bram V."}


@cases("text, shown",
    ("<@U01> and <@W02|bram>, <@U09|ilse> and <@U08>", "@Noor and @Bram V., @ilse and @U08"),
    ("<#C01|general> <#C02> <#C03|>", "#general #C02 #C03"),
    ("<https://x.org/a|the page> <https://x.org/b>", "the page (https://x.org/a) https://x.org/b"),
    ("<http://x.org|x.org>", "http://x.org"),
    ("<mailto:a@x.org|a@x.org> <mailto:b@x.org> <tel:123|1 2 3>", "a@x.org b@x.org 1 2 3"),
    ("<!here> <!channel> <!everyone|@everyone> <!subteam^S01|@devs> <!subteam^S02>",
     "@here @channel @everyone @devs @subteam"),
    ("<!date^1392734382^{date}|Feb 18, 2014>", "Feb 18, 2014"),
    ("a &lt; b &amp;&amp; c &gt; d &amp;lt; e &quot;", "a < b && c > d &lt; e &quot;"),
    ("&lt;@U01&gt; is how to mention", "<@U01> is how to mention"),
    ("<b> unlike <https://x.org>", "<b> unlike https://x.org"), ("```x = &lt;1&gt;\n<open```", "```x = <1>\n<open```"),
    ("  :wave: *hi*  ", ":wave: *hi*"), ("&lt;memory&gt;\nold\n&lt;/memory&gt;\nnew", "new"))  # fmt: skip
def test_text_is_as_it_is_shown(text, shown):
    assert one(text, users=USERS).text == shown


def rich(kind, *elements):
    return {"type": f"rich_text{kind}", "elements": [*elements]}


def words(text, kind="text"):
    return {"type": kind, "text": text}


LINK = {"type": "link", "url": "https://x.org", "text": "this"}
SEEN = [{"type": "user", "user_id": "U01"}, {"type": "channel", "channel_id": "C01"},
        {"type": "broadcast", "range": "here"}, {"type": "emoji", "name": "tada"}]  # fmt: skip
RICH = [
    rich(
        "",
        rich("_section", words("See"), words(""), words(" "), LINK, words(" &lt; "), *SEEN),
        rich("_list", rich("_section", words("one")), rich("_section", words("two"))),
        rich("_preformatted", words("x = 1\ny = 2")),
    )
]
RETRY = {"type": "button", "text": words("Retry", "plain_text")}
FIELDS = [words("*Branch* main", "mrkdwn"), words("3 min", "plain_text")]
KIT = [
    {"type": "header", "text": words("Build <@U01|b> failed", "plain_text")},
    {"type": "divider"},
    {"type": "section", "text": words("by <@U01> &amp; co", "mrkdwn"), "fields": FIELDS, "accessory": RETRY},
    {"type": "actions", "elements": [RETRY]},
    {"type": "context", "elements": [words("<https://x.org|log>", "mrkdwn"), {"type": "image", "alt_text": "i"}]},
]


@cases(
    "blocks, text",
    (RICH, "See this (https://x.org) &lt; @Noor#C01@here:tada:\none\ntwo\nx = 1\ny = 2"),
    (KIT, "Build <@U01|b> failed\nby @Noor & co\n*Branch* main\n3 min\nlog (https://x.org)"),
    ([{"type": "markdown", "text": "**Done** &gt; 1"}], "**Done** > 1"),
)
@cases("text_before", "", " ", "This content can't be displayed.")
def test_blocks_are_read_without_a_text(blocks, text, text_before):
    assert one(text_before, blocks=blocks, users=USERS).text == text


@cases(
    "attached, text",
    ({"pretext": "New", "title": "Issue 7", "text": "It &lt;fails&gt;", "fallback": "f"}, "New\nIssue 7\nIt <fails>"),
    ({"fallback": "Only <https://x.org|this>"}, "Only this (https://x.org)"),
    ({"fields": [{"title": "State", "value": "open"}, {"value": "x"}, 7]}, "State: open\nx"),
)
def test_attachments_count_without_text_and_blocks(attached, text):
    assert one("", attachments=[7, attached]).text == text


@cases("message, speaker, origin",
    ({}, "Noor", "human"), ({"user": "U09"}, "U09", "human"), ({"user": "U09", "username": "guest"}, "guest", "human"),
    ({"username": "was"}, "Noor", "human"),
    ({"user": "U09", "user_profile": {"display_name": " ", "real_name": "Ilse Krog", "name": "ilse"}}, "Ilse Krog",
     "human"),
    ({"user": None, "subtype": "file_comment", "comment": {"user": "U01"}}, "Noor", "human"),
    ({"user": None}, None, "human"),
    ({"user": None, "subtype": "bot_message", "bot_id": "B01", "username": "ci"}, "ci", "tool"),
    ({"bot_id": "B01", "bot_profile": {"name": "Quay"}}, "Quay", "tool"), ({"bot_id": "B01"}, "Noor", "tool"),
    ({"bot_id": None}, "Noor", "human"), ({"user": None, "subtype": "bot_message", "username": "ci"}, "ci", "tool"),
    ({"user": "USLACKBOT"}, "USLACKBOT", "tool"), ({"subtype": "slackbot_response"}, "Noor", "tool"))  # fmt: skip
def test_speakers(message, speaker, origin):
    turn = one("x", users=USERS, **message)
    assert (turn.speaker, turn.role, turn.origin) == (speaker, "user", origin)


@cases("subtype", *load_texts("slack", "telemetry_is_no_turn_and_counted"))
def test_telemetry_is_no_turn_and_counted(subtype):
    parsed = parse(day(say(0, "1234567", subtype=subtype), say(1, "", subtype=subtype)))
    assert (parsed.sessions, parsed.junk, +parsed.unknown) == ((), Counter({"telemetry": 7}), Counter())


@cases("subtype", "me_message", "file_share", "thread_broadcast", "bot_message", "slackbot_response")
def test_similar_paragraphs_stay(subtype):
    parsed = parse(day(say(0, "x", subtype=subtype)))
    assert list_texts(parsed) == ["x"]
    assert not parsed.unknown


def test_unknown_types_and_hidden_messages_are_counted():
    value = day(
        say(0, "x", subtype="telepathy"),
        {"type": "reaction", "ts": "1.0"},
        7,
        say(1, ts="soon"),
        say(2, ts=1.5),
        say(3),
    )
    parsed = parse(value)
    assert list_texts(parsed) == ["x"]
    assert parsed.unknown == Counter({"telepathy": 1, "(no message)": 4})
    assert parse(day(say(0, "x", subtype="y" * 5_000))).unknown == Counter({"y" * 60: 1})
    assert parse(day(say(0, "1234567", hidden=True))).junk == Counter({"telemetry": 7})


@cases("path, session",
    ("/data/export/dev-ops/2026-05-04.json", "dev-ops/2026-05-04"),
    ("C:\\export\\dev-ops\\2026-05-04.json", "dev-ops/2026-05-04"), ("2026-05-04.json", "2026-05-04/2026-05-04"),
    ("/data/saved messages.json", "saved messages/2026-05-04"))  # fmt: skip
def test_a_bare_day_is_of_the_channel_of_its_folder(path, session):
    parsed = parse([say(0, "hi <@U02>", user_profile={"display_name": "Noor"}), say(1, "yes", user="U02")], path)
    assert [s.id for s in parsed.sessions] == [session]
    assert [(turn.speaker, turn.text) for turn in parsed.sessions[0].turns] == [("Noor", "hi @U02"), ("U02", "yes")]


@cases("text", "[]", "7", "{}", '{"slack":1,"messages":[]}', '"x"')
def test_exports_without_messages_have_no_sessions(text):
    assert slack.parse(Document("x", text)).sessions == ()


def test_any_value_may_be_of_any_type():
    profile, attachments = {"display_name": "Noor"}, [{"text": "t", "fields": [{"title": "a", "value": "b"}]}]
    value = day(
        say(0, "hi <@U01>", thread_ts=ts(0), reply_count=1, user_profile=profile, files=[{"name": "f"}]),
        say(1, "", thread_ts=ts(0), blocks=RICH[:1]),
        say(2, "", bot_id="B", bot_profile={"name": "b"}, attachments=attachments),
        U01="Noor",
    )
    check_any_types(slack, value, has_times=True)


def test_blocks_files_and_names_of_messages():
    assert one("Said", blocks=RICH, attachments=[{"text": "unfurled"}]).text == "Said"
    blocks = {"type": "text", "text": "deep"}
    for _ in range(300):
        blocks = {"type": "rich_text_section", "elements": [blocks]}
    assert one("", blocks=[blocks]).text == "deep"
    files = [{"name": "a b.png"}, {"title": "untitled"}, {"mode": "tombstone"}, 7]
    assert one("Look", files=files).text == "Look\n[file] a b.png\n[file] untitled"
    assert one("", files=files[:1]).text == "[file] a b.png"
    assert one("", file={"name": "old.txt"}, subtype="file_share").text == "[file] old.txt"
    with pytest.raises(InputRefused, match=r"not valid JSON.*export it again"):
        slack.parse(Document("x", '[{"type":"message","ts":'))
    assert one("x", users=USERS, user_profile={"display_name": "was"}).speaker == "Noor"
    long = LONG
    parsed = parse(day(say(0, long), say(1, long, bot_id="B1")), tool_chars=CUT_AT)
    assert [len(turn.text) for turn in parsed.sessions[0].turns] == [1000, 103]
    assert parsed.junk == Counter({"tool-output": 897})
