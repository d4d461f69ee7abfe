import json

from helix.sources import droid
from helix.sources import registry as sources
from helix.types import Document
from tests.support.turns import CUT_AT, LONG, cases, check_cut, check_wrong_types, list_texts

START = {"type": "session_start", "id": "s1", "title": "Yeast", "cwd": "/srv/bakery"}


def message(id, role, *content, parent=None):
    blocks = [{"type": "text", "text": part} if isinstance(part, str) else part for part in content]
    time = "2026-06-02T08:00:00.000Z"
    return {
        "type": "message",
        "id": id,
        "parentId": parent,
        "timestamp": time,
        "message": {"role": role, "content": blocks},
    }


def stream(kind, **fields):
    return {"type": kind, "session_id": "s2", "timestamp": "2026-06-03T09:00:00.000Z", **fields}


def parse(*records, **options):
    return droid.parse(Document("x.jsonl", "".join(json.dumps(record) + "\n" for record in records)), **options)


def call(id, **arguments):
    return {"type": "tool_use", "id": id, "name": "Execute", "input": arguments}


def returns(id, content, **fields):
    return {"type": "tool_result", "tool_use_id": id, "content": content, **fields}


def test_the_store_gives_title_folder_and_parents():
    parsed = parse(
        START,
        message("m1", "user", "Hi", parent="s1"),
        message("m2", "assistant", "I look.", call("t1", command="ls"), parent="m1"),
        message("m3", "user", returns("t1", [{"type": "text", "text": "gone"}], is_error=True), parent="m2"),
    )
    (session,) = parsed.sessions
    assert (session.id, session.title, session.project) == ("s1", "Yeast", "bakery")
    found = [(turn.id, turn.text, turn.role, turn.parent) for turn in session.turns]
    assert found == [
        ("m1", "Hi", "user", None),
        ("m2", "I look.\n[Execute] ls", "assistant", "m1"),
        ("m3", "error: gone", "tool", "m2"),
    ]


@cases("value, fields, text",
    ("3 loaves", {}, "3 loaves"), ("gone", {"isError": True}, "error: gone"),
    ({"stdout": "a\n", "stderr": "b\n", "exitCode": 0}, {}, "a\nb"), ({"stderr": "b", "exitCode": 2}, {}, "error: b"),
    ({"rows": 3}, {}, '{"rows":3}'), (LONG, {}, None))  # fmt: skip
def test_results_of_the_stream(value, fields, text):
    records = (
        stream("tool_call", toolCallId="c1", toolName="Execute", parameters={"command": "x"}),
        stream("tool_result", toolCallId="c1", value=value, **fields),
    )
    if text is None:
        check_cut(parse(*records, tool_chars=CUT_AT))
    else:
        assert list_texts(parse(*records)) == ["[Execute] x", text]


def test_the_last_answer_is_not_repeated():
    said = stream("message", role="assistant", text="Done.")
    assert list_texts(parse(said, stream("completion", finalText="Done."))) == ["Done."]
    assert list_texts(parse(said, stream("completion", finalText="All done."))) == ["Done.", "All done."]


def test_unknown_records_are_counted_and_errors_are_telemetry():
    parsed = parse(START, message("m1", "user", "Hi"), {"type": "oven"}, stream("error", message="no key"))
    assert (list_texts(parsed), dict(parsed.unknown), dict(parsed.junk)) == (["Hi"], {"oven": 1}, {"telemetry": 6})
    assert dict(parse(START, message("m1", "oven", "Hi")).unknown) == {"role oven": 1}


@cases("record", START, stream("message", role="user", text="Hi"), stream("completion", finalText="Hi"),
    stream("tool_result", value="x", id="c"))  # fmt: skip
def test_logs_are_detected(record):
    text = json.dumps(record) + "\n" + json.dumps(stream("system", subtype="init", tools=["Execute"])) + "\n"
    assert sources.detect(Document("x", text)).NAME == "droid"


def test_values_of_wrong_types_cost_no_other_turn():
    check_wrong_types(
        lambda odd: parse(message("u", "user", "Hi"), odd, message("v", "user", "Bye")),
        START,
        message("x", "assistant", "x", call("c", command="ls"), parent="u"),
        message("x", "user", returns("c", [{"type": "text", "text": "x"}], is_error=True)),
        stream("tool_call", toolCallId="c1", toolName="Execute", parameters={"command": "x"}),
        stream("tool_result", toolCallId="c1", value={"stdout": "x", "exitCode": 1}, isError=False),
        stream("completion", finalText="x"),
        stream("error", message="x"),
    )
