import json
from collections import Counter
from datetime import UTC, datetime, timedelta

import pytest

from helix.errors import InputRefused
from helix.sources import chatgpt
from helix.sources.common.sample import take_sample
from helix.types import Document
from tests.support.paths import DATA
from tests.support.turns import CUT_AT, LONG, cases, check_any_types, check_cut, list_texts

LOG = DATA / "logs" / "chatgpt.json"
START = datetime(2026, 5, 4, 10, tzinfo=UTC)
T0 = START.timestamp()


def node(parent, role=None, content="", time=None, *, name=None, recipient="all", **metadata):
    """Return a short node of an export. `time`: seconds after START, or any other value."""
    if isinstance(time, int | float) and not isinstance(time, bool) and 0 < time < 1e6:
        time += T0
    if role is None:
        return {"parent": parent, "children": [], "message": None}
    if isinstance(content, str):
        content = {"content_type": "text", "parts": [content]}
    author = {"role": role, "name": name, "metadata": {}}
    message = {"author": author, "content": content, "create_time": time, "recipient": recipient, "metadata": metadata}
    return {"parent": parent, "children": [], "message": message}


def conversation(nodes, current=None, **more):
    mapping = {id: {"id": id, **value} for id, value in nodes.items()}
    for id, value in mapping.items():
        if value["parent"] in mapping:
            mapping[value["parent"]]["children"].append(id)
    return {"conversation_id": "c1", "title": "T", "current_node": current, "mapping": mapping, **more}


def parse(*conversations, path="export/conversations.json", **options):
    return chatgpt.parse(Document(path, json.dumps(list(conversations))), **options)


def read_sessions(nodes, current=None):
    return {
        session.id: [turn.text for turn in session.turns] for session in parse(conversation(nodes, current)).sessions
    }


def uid(number):
    return f"{number:08x}-5a1e-4c0d-9b00-0000000000{number:02x}"


EDITED = {
    "r": node(None), "u1": node("r", "user", "Start", 1), "a1": node("u1", "assistant", "Ready", 2),
    "x1": node("a1", "user", "First try", 3), "y1": node("x1", "assistant", "First answer", 9),
    "x2": node("a1", "user", "Second try", 5), "y2": node("x2", "assistant", "Second answer", 6)}  # fmt: skip


def one(role, content, **more):
    """Return the parsed conversation of one message."""
    return parse(conversation({"n": node(None, role, content, **more)}))


def text_of(role, content, **more):
    (session,) = one(role, content, **more).sessions
    return session.turns[0].text


@cases("title, found",
    ("Named", "Named"), ("New chat", "Fix the webhook"), ("", "Fix the webhook"), (None, "Fix the webhook"),
    (7, "Fix the webhook"))  # fmt: skip
def test_titles(title, found):
    nodes = {"a": node(None, "assistant", "Hello!"), "u": node("a", "user", "Fix the\nwebhook")}
    (session,) = parse(conversation(nodes, title=title)).sessions
    assert session.title == found


AUDIO = {"content_type": "audio_transcription", "text": "spoken", "direction": "in"}
IMAGE = {"content_type": "image_asset_pointer", "asset_pointer": "sediment://x"}


@cases(
    "content, text",
    ({"content_type": "text", "parts": ["one", "", None, "two"]}, "one\ntwo"),
    ({"content_type": "multimodal_text", "parts": [IMAGE, "seen", AUDIO]}, "seen\nspoken"),
    ({"content_type": "code", "language": "python", "text": "print(1)"}, "print(1)"),
    ({"parts": ["no type"]}, "no type"),
)
@cases("role", "user", "assistant", "tool")
def test_every_content_type_is_read(role, content, text):
    assert text_of(role, content) == text


@cases("content, text",
    ({"content_type": "execution_output", "text": "42"}, "42"),
    ({"content_type": "tether_browsing_display", "result": "L0: page", "summary": None}, "L0: page"),
    ({"content_type": "tether_quote", "title": "T", "url": "https://x.org", "text": "quoted"},
     "T\nhttps://x.org\nquoted"),
    ({"content_type": "sonic_webpage", "title": "T", "url": "u", "text": "page", "snippet": "p"}, "T\nu\npage"),
    ({"content_type": "system_error", "name": "Timeout", "text": "took too long"}, "error: Timeout\ntook too long"),
    ({"content_type": "text", "parts": ["<memory>\nold\n</memory>\nnew"]}, "new"))  # fmt: skip
def test_content_types_of_tools(content, text):
    parsed = one("tool", content, name="python")
    (turn,) = parsed.sessions[0].turns
    assert (turn.role, turn.origin, turn.text, turn.speaker) == ("tool", "tool", text, None)
    assert not parsed.unknown


@cases("recipient, content, line",
    ("browser", 'search("tide tables")', '[browser] search("tide tables")'),
    ("web.run", '{"search_query":[{"q":"tide"}],"response_length":"short"}', "[web.run] tide"),
    ("dalle.text2im", '{"prompt":"a ferry","size":"1024x1024"}', "[dalle.text2im] a ferry"),
    ("python", "a = 1\nprint(a)", "[python] a = 1 print(a)"), ("python", "[1, 2]", "[python] [1, 2]"),
    ("python", "", "[python]"), ("python", "x" * 900, "[python] " + "x" * 190 + "…"))  # fmt: skip
def test_a_message_to_a_tool_is_one_telling_line(recipient, content, line):
    assert text_of("assistant", content, recipient=recipient) == line


@cases("marked, text",
    ("Prices fell. \ue200cite\ue202turn0search1\ue202turn0news2\ue201", "Prices fell."),
    ("Prices\ue200filecite\ue202turn0file0\ue201 fell.", "Prices fell."),
    ('In \ue200entity\ue202["city","Marle","ferry town"]\ue201 now', "In Marle now"),
    ("In \ue200entity\ue202Marle\ue201 now", "In Marle now"), ('In \ue200entity\ue202["city"]\ue201 now', "In now"),
    ('In \ue200entity\ue202{"a": 1}\ue201 now', "In now"),
    ("See \ue200url\ue202the page\ue202https://x.org\ue201.", "See the page."),
    ("Cut off \ue200cite\ue202turn0sea", "Cut off"), ("A \ue200\ue201B \ue203marked\ue204 word", "A B marked word"),
    ("Old【57†L18-L22】 and older【4:0†source】.", "Old and older."),
    ("† footnote 【kept】 \ue0a0", "† footnote 【kept】 \ue0a0"))  # fmt: skip
@cases("role", "assistant", "tool")
def test_marks_are_replaced_by_their_visible_text(role, marked, text):
    parsed = one(role, marked)
    assert parsed.sessions[0].turns[0].text == text
    assert parsed.junk == Counter({"host": len(marked) - len(text)})


def test_results_are_cut_and_a_persons_marks_stay():
    parsed = parse(
        conversation({"n": node(None, "tool", {"content_type": "execution_output", "text": LONG})}), tool_chars=CUT_AT
    )
    check_cut(parsed)
    content = {"content_type": "execution_output", "text": "Traceback"}
    assert (
        text_of("tool", content, aggregate_result={"status": "failed_with_in_kernel_exception"}) == "error: Traceback"
    )
    assert text_of("tool", content, aggregate_result={"status": "success"}) == "Traceback"
    assert text_of("user", "what does \ue200cite\ue202x\ue201 mean") == "what does \ue200cite\ue202x\ue201 mean"
    assert text_of("user", "Look", attachments=[{"name": "a b.pdf"}, {"name": ""}, 7]) == "Look\n[file] a b.pdf"
    assert (
        text_of("user", {"content_type": "multimodal_text", "parts": [IMAGE]}, attachments=[{"name": "a.png"}])
        == "[file] a.png"
    )


def test_ids_and_speakers():
    nodes = {"u": node(None, "user", "Q")}
    named = [conversation(nodes), conversation(nodes, conversation_id=None, id="c2"), conversation(nodes)]
    nameless = [conversation(nodes, conversation_id=7), conversation(nodes, conversation_id=None)]
    ids = [session.id for session in parse(*named, *nameless, path="a/x.json").sessions]
    assert ids[:3] == ["c1", "c2", "c1-2"]
    # printf 'a/x.json' | sha256sum
    assert ids[3:] == ["x-711af773-3", "x-711af773-4"]
    (session,) = parse(conversation({"n": node(None, "user", "Q"), uid(1): node("n", "assistant", "A")})).sessions
    assert [turn.unique for turn in session.turns] == [False, True]
    (session,) = one("user", "Hi", name="Ilse").sessions
    assert session.turns[0].speaker == "Ilse"


@cases("role, content, more, rule",
    ("assistant", {"content_type": "thoughts", "thoughts": [{"summary": "s", "content": "1234567"}]}, {}, "reasoning"),
    ("assistant", {"content_type": "thoughts", "parts": ["1234567"]}, {}, "reasoning"),
    ("assistant", {"content_type": "reasoning_recap", "content": "1234567"}, {}, "reasoning"),
    ("user", {"content_type": "user_editable_context", "user_profile": "123", "user_instructions": "567"}, {}, "host"),
    ("assistant", {"content_type": "model_editable_context", "model_set_context": "1234567"}, {}, "host"),
    ("system", "1234567", {}, "host"), ("user", "1234567", {"is_user_system_message": True}, "host"),
    ("user", "1234567", {"is_visually_hidden_from_conversation": True}, "host"),
    ("tool", "1234567", {"is_visually_hidden_from_conversation": True}, "host"),
    ("user", "<system-reminder>\n1\n</system-reminder>", {}, "host"), ("user", "<memory>\n1\n</memory>", {}, "memory"),
    ("assistant", "<memory>\n1\n</memory>", {}, "memory"))  # fmt: skip
def test_messages_that_are_no_turns_are_counted(role, content, more, rule):
    parsed = one(role, content, **more)
    assert parsed.sessions == ()
    assert not parsed.unknown
    assert parsed.junk == Counter({rule: len(content) if isinstance(content, str) and "<" in content else 7})


@cases("content", {"content_type": "multimodal_text", "parts": [IMAGE]}, {"content_type": "computer_output"}, "")
def test_empty_messages_are_no_turns_and_not_unknown(content):
    parsed = one("tool", content)
    assert (parsed.sessions, +parsed.unknown, +parsed.junk) == ((), Counter(), Counter())


def test_unknown_types_and_the_analysis_channel_are_counted():
    nodes = {
        "a": node(None, "assistant", {"content_type": "telepathy", "text": "hm"}),
        "b": node("a", "assistant", {"content_type": "multimodal_text", "parts": [{"content_type": "smell"}, "b"]}),
        "c": node("b", "critic", "c"), "d": {"parent": "c", "message": {"content": {"parts": ["d"]}}}}  # fmt: skip
    parsed = parse(conversation(nodes), {"no": "mapping"}, 7)
    assert list_texts(parsed) == ["b"]
    assert parsed.unknown == Counter(
        {"(no conversation)": 2, "telepathy": 1, "smell": 1, "(role critic)": 1, "(no role)": 1}
    )
    assert one("user", {"content_type": "x" * 5_000}).unknown == Counter({"x" * 60: 1})
    said = conversation({"n": node(None, "assistant", "1234567"), "m": node("n", "assistant", "look", recipient="web")})
    for value in said["mapping"].values():
        value["message"]["channel"] = "analysis"
    parsed = parse(said)
    assert list_texts(parsed) == ["[web] look"]
    assert parsed.junk == Counter({"reasoning": 7})


def test_exports_may_be_lists_lines_empty_or_cut():
    first, second = conversation(EDITED, "y2"), conversation(EDITED, "y1", conversation_id="c2")
    for text, ids in (
        (json.dumps(first), ["c1", "c1~x1"]), (json.dumps(first, indent=2), ["c1", "c1~x1"]),
        (f"{json.dumps(first)}\n{json.dumps(second)}\n", ["c1", "c1~x1", "c2", "c2~x2"])):  # fmt: skip
        assert chatgpt.detect(take_sample(text, "x"))
        assert [s.id for s in chatgpt.parse(Document("x", text)).sessions] == ids
    for text in ("[]", json.dumps([conversation({})]), json.dumps([conversation({"r": node(None)})])):
        assert chatgpt.parse(Document("x", text)).sessions == ()
    text = LOG.read_text()[:9_000]
    assert chatgpt.detect(take_sample(text, "x"))
    with pytest.raises(InputRefused, match=r"not valid JSON.*export it again"):
        chatgpt.parse(Document("x", text))


def test_values_may_be_of_any_type_and_trees_long():
    nodes = {
        "u": node(
            None, "user", {"content_type": "multimodal_text", "parts": [AUDIO, "Q"]}, 1, attachments=[{"name": "f"}]
        ),
        "a": node("u", "assistant", '{"q":"x"}', 2, recipient="web"),
        "t": node(
            "a", "tool", {"content_type": "execution_output", "text": "R"}, 3, aggregate_result={"status": "failed"}
        ),
        "b": node("t", "assistant", 'In \ue200entity\ue202["city","Marle"]\ue201', None),
    }
    check_any_types(chatgpt, [conversation(nodes, "b", create_time=1)])
    nodes = {f"n{n}": node(f"n{n - 1}", "user", "x", n + 1) for n in range(5_000)}
    (session,) = parse(conversation(nodes)).sessions
    assert len(session.turns) == 5_000


@cases("current", None, "gone", "")
def test_without_a_current_node_the_newest_leaf_ends_the_conversation(current):
    assert list(read_sessions(EDITED, current)) == ["c1", "c1~x2"]


def test_regenerated_answers_are_branches_only_with_later_prompts():
    nodes = {
        "u1": node(None, "user", "Q", 1), "a1": node("u1", "assistant", "bad answer", 2),
        "a2": node("u1", "assistant", "good answer", 3), "b2": node("u1", "assistant", "other answer", 2),
        "b3": node("b2", "user", "and then?", 3)}  # fmt: skip
    parsed = parse(conversation(nodes, "a2"))
    expected = [["Q", "good answer"], ["other answer", "and then?"]]
    assert [[turn.text for turn in s.turns] for s in parsed.sessions] == expected
    assert [s.branch_of for s in parsed.sessions] == [None, "c1"]
    assert parsed.sessions[1].id == "c1~b2"
    assert parsed.junk == Counter({"abandoned": len("bad answer")})
    nodes = {
        "u1": node(None, "user", "Q", 1), "a1": node("u1", "assistant", "half", 2),
        "u2": node("a1", "user", "go on", 3), "a3": node("u2", "assistant", "and on", 4),
        "a2": node("a1", "assistant", "the other half", 9), "z": node("u1", "assistant", "kept", 5)}  # fmt: skip
    assert read_sessions(nodes, "z") == {"c1": ["Q", "kept"], "c1~a1": ["half", "go on", "and on"]}


def test_the_path_to_the_current_node_is_the_conversation_in_any_order():
    expected = {"c1": ["Start", "Ready", "Second try", "Second answer"], "c1~x1": ["First try", "First answer"]}
    assert read_sessions(EDITED, "y2") == expected
    expected = {"c1": ["Start", "Ready", "First try", "First answer"], "c1~x2": ["Second try", "Second answer"]}
    assert read_sessions(EDITED, "y1") == expected
    backwards = {id: {**EDITED[id]} for id in reversed(EDITED)}
    for id, value in backwards.items():
        if value["message"]:
            value["message"] = {**value["message"], "create_time": T0 + 1 if id == "u1" else None}
    found = parse(conversation(backwards)).sessions
    expected = [["Start", "Ready", "First try", "First answer"], ["Second try", "Second answer"]]
    assert [[turn.text for turn in s.turns] for s in found] == expected
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
        "c1": ["Start", "Ready", "Second try", "Second answer"], "c1~x1": ["First try", "First answer", "deeper again"],
        "c1~z1": ["deeper"]}  # fmt: skip
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
        "a": node("c", "user", "A", 1), "b": node("a", "assistant", "B", 2), "c": node("b", "user", "C", 3),
        "s": node("s", "user", "itself", 4), "d": node("gone", "user", "D", 5)}  # fmt: skip
    for current in (*nodes, None):
        found = read_sessions(nodes, current)
        assert sorted(text for texts in found.values() for text in texts) == ["A", "B", "C", "D", "itself"]
    assert read_sessions(nodes, "c")["c1"] == ["A", "B", "C"]


def test_parents_and_times_are_those_of_turns_on_the_own_path():
    nodes = {
        "u": node(None, "user", "Q"), "t": node("u", "assistant", {"content_type": "thoughts", "thoughts": []}),
        "e": node("t", "assistant", ""), "a": node("e", "assistant", "A")}  # fmt: skip
    (session,) = parse(conversation(nodes, "a")).sessions
    assert [(turn.id, turn.parent) for turn in session.turns] == [("u", None), ("a", "u")]
    nodes = {
        "u": node(None, "user", "Q", 100), "x": node("u", "assistant", "left", 900), "a": node("u", "assistant", "A"),
        "b": node("a", "user", "B", 300.5)}  # fmt: skip
    (session,) = parse(conversation(nodes, "b")).sessions
    assert [(turn.time - START, turn.time_quality) for turn in session.turns] == [
        (timedelta(seconds=100), "exact"), (timedelta(seconds=100), "derived"), (timedelta(seconds=300.5), "exact"),
    ]  # fmt: skip


@cases("time", None, 0, -5, True, 1e300, 10**30, "soon", [])
def test_turns_without_any_time_have_none(time):
    (session,) = parse(conversation({"u": node(None, "user", "Q", time)}, create_time=time)).sessions
    assert (session.turns[0].time, session.turns[0].time_quality) == (None, "none")
