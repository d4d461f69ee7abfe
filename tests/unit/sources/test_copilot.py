import json

import pytest

from helix.errors import InputRefused
from helix.sources import copilot
from helix.types import Document
from tests.support.paths import DATA
from tests.support.turns import CUT_AT, LONG, cases, check_cpu_time, check_cut, check_wrong_types, list_texts

LOGS = DATA / "logs"
CHAT = LOGS / "copilot_chat.json"
LOG = LOGS / "copilot_log.jsonl"


def parse(value, path="chatSessions/s1.json", **options):
    text = value if isinstance(value, str) else json.dumps(value)
    return copilot.parse(Document(path, text), **options)


def chat(*requests, **more):
    return {"sessionId": "s1", "creationDate": 1, "responderUsername": "GitHub Copilot", "requests": requests, **more}


def request(*response, id="r1", text="Hi", **more):
    return {"requestId": id, "timestamp": 1779976800000, "message": {"text": text}, "response": response, **more}


def md(value):
    return {"value": value, "isTrusted": False}


def call(message="Ran it", tool="run", **more):
    return {"kind": "toolInvocationSerialized", "toolId": tool, "pastTenseMessage": message, **more}


def log(*operations, **options):
    return parse("".join(json.dumps(operation) + "\n" for operation in operations), "chatSessions/s1.jsonl", **options)


def snapshot(*requests, **more):
    return {"kind": 0, "v": chat(*requests, **more)}


def list_turns(parsed):
    return [(turn.id, turn.role, turn.text, turn.parent) for turn in parsed.sessions[0].turns]


def read_answer(*response, **more):
    return list_texts(parse(chat(request(*response, **more))))[1:]


@cases("operations, texts",
    (({"kind": 1, "k": ["requests", 0, "message", "text"], "v": "Ho"},), ["Ho", "one"]),
    (({"kind": 1, "k": ["requests", 0], "v": request(id="r9", text="New")},), ["New"]),
    (({"kind": 1, "k": ["requests", 1], "v": request(id="r2", text="Next")},), ["Hi", "one", "Next"]),
    (({"kind": 2, "k": ["requests", 0, "response"], "v": [md(" two")]},), ["Hi", "one two"]),
    (({"kind": 2, "k": ["requests", 0, "response"], "v": [md("two")], "i": 0},), ["Hi", "two"]),
    (({"kind": 2, "k": ["requests", 0, "response"], "i": 0},), ["Hi"]),
    (({"kind": 2, "k": ["requests", 0, "response"], "i": 5, "v": [md("!")]},), ["Hi", "one!"]),
    (({"kind": 2, "k": ["requests"], "v": [request(id="r2", text="Next")]},), ["Hi", "one", "Next"]),
    (({"kind": 2, "k": ["more"], "v": [1]}, {"kind": 2, "k": ["more"], "v": [2]}), ["Hi", "one"]),
    (({"kind": 3, "k": ["requests", 0, "response"]},), ["Hi"]), (({"kind": 3, "k": ["nothing"]},), ["Hi", "one"]),
    (({"kind": 1, "k": ["requests", 0, "response"]},), ["Hi"]), ((snapshot(request(id="r7", text="Anew")),), ["Anew"]),
)  # fmt: skip
def test_operations(operations, texts):
    parsed = log(snapshot(request(md("one"))), *operations)
    assert list_texts(parsed) == texts
    assert parsed.problems == ()


@cases(
    "operation, reason",
    ({"kind": 1, "k": ["requests", 4, "message"], "v": 1}, "an operation on what is not there"),
    ({"kind": 1, "k": ["requests", 2], "v": 1}, "an operation on what is not there"),
    ({"kind": 1, "k": ["requests", -1], "v": 1}, "an operation on what is not there"),
    ({"kind": 1, "k": ["requests", True], "v": 1}, "an operation on what is not there"),
    ({"kind": 1, "k": ["requests", "0"], "v": 1}, "an operation on what is not there"),
    ({"kind": 1, "k": ["requests", 0, "timestamp", "x"], "v": 1}, "an operation on what is not there"),
    ({"kind": 1, "k": [["requests"]], "v": 1}, "an operation on what is not there"),
    ({"kind": 2, "k": ["sessionId"], "v": [1]}, "an addition to what is no list"),
    ({"kind": 1, "k": [], "v": 1}, "an operation without a path"),
    ({"kind": 1, "k": ["a"] * 33, "v": 1}, "an operation without a path"),
    ({"kind": 1, "k": "requests", "v": 1}, "an operation without a path"),
    ({"kind": 4, "k": ["requests"]}, "no operation of a known kind"),
    ({"kind": True, "k": ["requests"], "v": 1}, "no operation of a known kind"),
    ({"kind": [1], "k": ["requests"]}, "no operation of a known kind"),
    ({"role": "user"}, "no operation of a known kind"),
)
def test_an_operation_that_cannot_be_carried_out_is_reported_and_alone(operation, reason):
    title = {"kind": 1, "k": ["customTitle"], "v": "T"}
    parsed = log(snapshot(request(md("one"))), operation, title)
    assert list_texts(parsed) == ["Hi", "one"]
    assert parsed.sessions[0].title == "T"
    ((line, why),) = parsed.problems
    assert (line, why.startswith(reason)) == (2, True)


def test_a_log_without_its_beginning_or_with_a_broken_line_gives_its_rest():
    parsed = log({"kind": 2, "k": ["requests"], "v": [request(md("one"))]}, {"kind": 1, "k": ["customTitle"], "v": "T"})
    assert list_texts(parsed) == ["Hi", "one"]
    assert parsed.sessions[0].id.startswith("s1-")
    ((line, why),) = parsed.problems
    assert (line, "the log was cut" in why) == (1, True)
    text = (
        json.dumps(snapshot(request(md("one")))) + "\n{half\n" + json.dumps({"kind": 1, "k": ["customTitle"], "v": "T"})
    )
    parsed = parse(text)
    assert parsed.sessions[0].title == "T"
    assert [problem.line for problem in parsed.problems] == [2]


@cases("parts, text",
    ([md("a "), md("b")], "a b"), (["a ", "b"], "a b"),
    ([{"kind": "markdownContent", "content": md("a")}, {"kind": "markdownVuln", "content": md("b")}], "ab"),
    ([{"kind": "markdownContent", "content": "a"}, {"kind": "markdownContent", "value": md("b")}], "ab"),
    ([md("see "), {"kind": "inlineReference", "inlineReference": {"path": "/home/a/b.py"}}, md(".")], "see b.py."),
    ([{"kind": "inlineReference", "inlineReference": {"uri": {"fsPath": "C:\\a\\b.py"}, "range": {}}}], "b.py"),
    ([{"kind": "inlineReference", "name": "run()", "inlineReference": {"path": "/b.py"}}], "run()"),
    ([{"kind": "inlineReference",
           "inlineReference": {"name": "", "location": {"uri": {"path": "/c/d.py"}}, "kind": 11}}], "d.py"),
    ([md("a"), call(), md("b"), call(), call(), md(" "), md("c")], "a\n[run] Ran it\nb\n[run] Ran it\n[run] Ran it\nc"),
    ([call(None, invocationMessage=md("Running it"))], "[run] Running it"),
    ([call(md("Read [](file:///a/b.py#1-2), [the docs](https://x.org/y)"))], "[run] Read b.py, the docs"),
    ([call(toolSpecificData={"kind": "terminal", "command": "ls -l"})], "[run] ls -l"),
    ([call(toolSpecificData={"kind": "terminal", "commandLine": {"original": "ls", "userEdited": "ls -a"}})],
     "[run] ls -a"),
    ([call(toolSpecificData={"kind": "subagent", "description": "Find uses"})], "[run] Find uses"),
    ([call(tool=None)], "[tool] Ran it"),
    ([{"kind": "treeData", "treeData": {}}, {"label": "src", "uri": {}}, md("a")], "a"),
    ([md("a"), {"kind": "textEditGroup", "edits": [[{"text": "x = 1"}]]}, md(" b")], "a b"))  # fmt: skip
def test_the_parts_of_an_answer(parts, text):
    parsed = parse(chat(request(*parts)))
    assert list_texts(parsed) == ["Hi", text]
    assert parsed.unknown == {}


def test_calls_outside_of_the_answer_are_read_and_edits_left_out():
    rounds = [{"toolCalls": [{"id": "t1", "name": "grep", "arguments": '{"pattern":"tide"}'}, {"name": 7}, 7]}, 7]
    metadata = {"toolCallRounds": rounds, "toolCallResults": {"t1": {"content": [{"value": "3 hits"}]}}}
    parsed = parse(chat(request(md("a"), result={"metadata": metadata})))
    expected = [("r1:response", "assistant", "a\n[grep] tide\n[tool]", "r1"), ("t1", "tool", "3 hits", "r1:response")]
    assert list_turns(parsed)[1:] == expected
    uri = {"kind": "codeblockUri", "uri": {"path": "/a.py"}}
    edit = {"kind": "textEditGroup", "edits": []}
    assert read_answer(
        md("First:\n```py\n"), uri, edit, md("```\nThen:\n```py\nx = 1\n```\n\n```py\n"), uri, md("y = 2\n```")
    ) == ["First:\nThen:\n```py\nx = 1\n```\n\n```py\ny = 2\n```"]


@cases(
    "part, text",
    (call(toolCallId="t1", resultDetails={"input": "{}", "output": [{"value": "one"}, {"value": "two"}]}), "one\ntwo"),
    (call(resultDetails={"output": [{"value": "no"}], "isError": True}), "error: no"),
    (call(toolSpecificData={"kind": "terminal", "command": "ls", "terminalCommandOutput": {"text": "a.py"}}), "a.py"),
    (
        call(
            toolSpecificData={
                "terminalCommandOutput": {"text": "no such file"},
                "terminalCommandState": {"exitCode": 2},
            }
        ),
        "error: no such file",
    ),
)
def test_results_that_stand_only_in_the_answer(part, text):
    assert read_answer(part)[1:] == [text]


def test_results_of_helix_are_no_turns():
    calls = [{"id": "t1", "name": "mcp_helix_recall", "arguments": '{"query":"a"}'}, {"id": "t2", "name": "grep"}]
    results = {"t1": {"content": [{"value": "We took DuckDB"}]}, "t2": {"content": [{"value": "a.py"}]}}
    metadata = {"toolCallRounds": [{"toolCalls": calls}], "toolCallResults": results}
    both = [md("a"), call("Asked", tool="mcp_helix_recall"), call("Searched", tool="grep"), md("b")]
    for parts, texts in ((both, ["a\n[grep] Searched\nb", "a.py"]), ([md("a")], ["a\n[grep]", "a.py"])):
        parsed = parse(chat(request(*parts, result={"metadata": metadata})))
        assert list_texts(parsed)[1:] == texts
        assert parsed.junk == {"memory": len("We took DuckDB")}
    details = {"toolCallId": "c1", "resultDetails": {"output": [{"value": "We took DuckDB"}]}}
    command = {"kind": "terminal", "command": "helix recall a"}
    parsed = parse(chat(request(md("a"), call("Ran", toolSpecificData=command, **details))))
    assert list_texts(parsed)[1:] == ["a"]
    assert parsed.junk == {"memory": len("We took DuckDB")}


@cases("more, texts",
    ({"shouldBeRemovedOnSend": {"requestId": "r1"}}, []), ({"isHidden": True}, []),
    ({"shouldBeRemovedOnSend": {"requestId": "r1", "afterUndoStop": "s2"}}, ["Hi", "one two"]),
    ({"shouldBeRemovedOnSend": {"requestId": "r1", "afterUndoStop": "gone"}}, ["Hi", "one two three"]),
    ({"shouldBeRemovedOnSend": None, "isHidden": False, "isCanceled": True}, ["Hi", "one two three"]))  # fmt: skip
def test_undone_requests_are_left_out(more, texts):
    stops = [{"kind": "undoStop", "id": "s1"}, md(" two"), {"kind": "undoStop", "id": "s2"}, md(" three")]
    assert list_texts(parse(chat(request(md("one"), *stops, **more)))) == texts


@cases("message, text",
    ("as text", "as text"), ({"text": "", "parts": [{"text": "in "}, {"text": "parts"}, 7]}, "in parts"),
    ({"text": "both", "parts": [{"text": "both"}]}, "both"),
    ({"text": "<system-reminder>\nx\n</system-reminder>\nmine"}, "mine"))  # fmt: skip
def test_the_prompt_of_a_request(message, text):
    assert list_texts(parse(chat(request(message=message)))) == [text]


@cases("more", {"isSystemInitiated": True}, {"confirmation": "Continue"})
def test_requests_of_the_editor_are_no_turns(more):
    parsed = parse(chat(request(md("a"), **more)))
    assert list_turns(parsed) == [("r1:response", "assistant", "a", None)]
    assert parsed.junk == {"host": 2}


def render_prompt(text):
    return request(result={"metadata": {"renderedUserMessage": [{"type": 1, "text": text}]}})


@cases("value, project",
    (chat(request(), workingDirectory="file:///home/ines/a%20beacon"), "a beacon"),
    (chat(request(), workingDirectory={"path": "/home/ines/beacon"}), "beacon"),
    (chat(request(), repoData={"remoteUrl": "https://example.org/ines/beacon.git"}), "beacon"),
    (chat(render_prompt("I am working in a workspace with the following folders:\n- C:\\work\\beacon \n- /b")),
     "beacon"),
    (chat(render_prompt("workspace with the following folder:\n- /srv/beacon")), "beacon"),
    (chat(render_prompt("a list with the following folders:\n- /srv/x")), None),
    (chat(request(), workingDirectory=7, repoData=[]), None))  # fmt: skip
def test_the_folder_that_was_open(value, project):
    assert parse(value).sessions[0].project == project


@cases("more, title",
    ({"customTitle": "Mine", "computedTitle": "Theirs"}, "Mine"), ({"computedTitle": "Theirs"}, "Theirs"),
    ({"customTitle": ""}, "Hi"), ({"customTitle": "x" * 99}, "x" * 79 + "…"))  # fmt: skip
def test_the_title(more, title):
    assert parse(chat(request(), **more)).sessions[0].title == title


def test_ids_are_unique_and_stay_while_a_log_grows():
    parsed = parse(chat(request(md("a")), request(md("b")), request(md("c"), id=None)))
    expected = ["r1", "r1:response", "r1-2", "r1:response-2", "2", "2:response"]
    assert [turn.id for turn in parsed.sessions[0].turns] == expected
    assert parse(chat()).sessions == ()
    lines = LOG.read_text().splitlines(keepends=True)
    whole = {turn.id for turn in parse("".join(lines)).sessions[0].turns}
    for number in range(4, len(lines)):
        (found,) = parse("".join(lines[:number])).sessions
        assert {turn.id for turn in found.turns} - {"request_c", "request_c:response"} <= whole


@cases("given", CHAT.read_text()[:5000], "[]", "{}", "", '{"requests":{}}', '{"kind":0,"v":7}', "7")
def test_other_json_is_refused(given):
    with pytest.raises(InputRefused) as refused:
        parse(given)
    assert refused.value.remedy


def test_values_of_wrong_types_cost_no_other_turn():
    terminal = {"kind": "terminal", "commandLine": {"original": "ls"}, "terminalCommandOutput": {"text": "a"},
                "terminalCommandState": {"exitCode": 2}}  # fmt: skip
    details = {"input": "{}", "output": [{"value": "x"}], "isError": True}
    calls = [{"toolCalls": [{"id": "t1", "name": "grep", "arguments": '{"pattern":"tide"}'}]}]
    metadata = {"toolCallRounds": calls, "toolCallResults": {"t1": {"content": [{"value": "x"}]}}}
    first, last = request(text="Hi"), request(id="r9", text="Bye")
    values = (
        request(md("a"), {"kind": "inlineReference", "name": "n", "inlineReference": {"uri": {"path": "/b"}}}, id="x"),
        request({"kind": "markdownContent", "content": md("a")}, {"kind": "thinking", "value": ["hm"]}, isHidden=False),
        request({"kind": "warning", "content": md("w")}, call(md("a"), toolCallId="t", resultDetails=details)),
        request(call("a", toolSpecificData=terminal), result={"metadata": metadata, "errorDetails": {"message": "x"}}),
        request(message={"text": "", "parts": [{"text": "x"}]}, shouldBeRemovedOnSend=None),
    )
    check_wrong_types(lambda odd: parse(chat(first, odd, last)), *values)
    more = {"kind": 2, "k": ["requests"]}
    check_wrong_types(lambda odd: log(snapshot(first), {**more, "v": [odd]}, {**more, "v": [last]}), *values)
    for name, value in {"customTitle": "T", "sessionId": "s", "repoData": {"remoteUrl": "x"}}.items():
        check_wrong_types(lambda odd, name=name: parse(chat(first, last, **{name: odd})), value)


def test_results_are_read_once_from_trees_of_any_depth_and_cut():
    shown_too = call("Ran it", toolCallId="c1x", resultDetails={"output": [{"value": "3 hits, shown"}]})
    metadata = {"toolCallResults": {"t1": {"content": [{"value": "3 hits"}]}}}
    assert read_answer(shown_too, result={"metadata": metadata}) == ["[run] Ran it", "3 hits"]
    leaf = {"type": 2, "text": "b", "lineBreakBefore": True}
    tree = {"node": {"children": [{"children": [{"text": "a"}, leaf, 7]}, {"text": "c"}]}}
    results = {"t1": {"content": [{"value": tree}, {"value": "d"}, {"text": "e"}, 7]}, "t2": 7, "t3": {"content": "f"}}
    assert read_answer(md("x"), result={"metadata": {"toolCallResults": results}}) == ["x", "a\nbc\nd\ne", "f"]
    tree = {"text": "deep"}
    for _ in range(90):
        tree = {"children": [tree]}
    results = {"t1": {"content": [{"value": {"node": tree}}]}}
    assert read_answer(result={"metadata": {"toolCallResults": results}}) == ["deep"]
    results = {"t1": {"content": [{"value": LONG}]}}
    parsed = parse(chat(request(result={"metadata": {"toolCallResults": results}})), tool_chars=CUT_AT)
    check_cut(parsed)


def test_time_is_linear():
    def read(text):
        parse(chat(request(md(text), call(text), text=text)))

    check_cpu_time(
        read, "```\n" * 60_000, "```\n" + " \n" * 200_000, "[" * 200_000, "[a](" * 60_000, "[](x" * 60_000,
        "\0" * 200_000)  # fmt: skip
