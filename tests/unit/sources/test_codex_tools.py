import json

from tests.support.turns import CUT_AT, LONG, cases, check_cut, list_texts, load_texts
from tests.unit.sources.test_codex import answer, call, item, message, meta, parse, read_texts, result, turns, user


@cases("made, line",
    (call(arguments='{"command":["bash","-lc","pytest -q"],"workdir":"/x"}'), "[shell] pytest -q"),
    (call(arguments='{"command":["ls","-la"]}'), "[shell] ls -la"),
    (call(arguments='{"command":["powershell.exe","-NoProfile","-Command","dir"]}'), "[shell] dir"),
    (call(name="exec_command", arguments='{"cmd":"git log"}'), "[exec_command] git log"),
    (call(name="apply_patch", arguments='{"input":"*** Begin Patch\\n*** Delete File: a.py\\n"}'),
     "[apply_patch] a.py"),
    (call(name="say", arguments="not json"), "[say] not json"),
    (call(name="say", arguments="{broken"), "[say] {broken"), (call(name="wait", arguments=None), "[wait]"),
    (item("custom_tool_call", call_id="c", name="exec", input="await tools.run()"), "[exec] await tools.run()"),
    (item("local_shell_call", action={"type": "exec", "command": ["sh", "-c", "df"]}), "[local_shell] df"),
    (item("web_search_call", action={"type": "search", "query": "tides"}), "[web_search] tides"),
    (item("web_search_call", action={"type": "open_page", "url": "https://tides.example.org/"}),
     "[web_search] https://tides.example.org/"),
    (item("web_search_call", action={"type": "of_tomorrow", "where": "harbour"}), "[web_search] harbour"),
    (item("tool_search_call", call_id="c", arguments={"query": "calendar"}), "[tool_search] calendar"),
    (item("image_generation_call", revised_prompt="a gauge", result="iVBOR"), "[image_generation] a gauge"),
    (item("tool_call", function={"name": "translate"}, arguments={"text": "hello"}), "[translate] hello"),
    (item("of_tomorrow_call", arguments={"query": "q"}), "[of_tomorrow] q"))  # fmt: skip
def test_a_tool_call_is_one_telling_line(made, line):
    assert read_texts(made) == [line]


HEAD = "Wall time: 0.1 seconds\nOutput:\n"


@cases("given, text",
    ("plain", "plain"), ('{"output":"done\\n","metadata":{"exit_code":0}}', "done"),
    ('{"output":"no such file","metadata":{"exit_code":2}}', "error: no such file"),
    ('{"output":"dist","name":"package"}', '{"output":"dist","name":"package"}'),
    ("Exit code: 0\n" + HEAD + "fine", "fine"), ("Exit code: 127\n" + HEAD + "not found", "error: not found"),
    ("Chunk ID: 1f\nWall time: 0.1 seconds\nProcess exited with code 1\nOriginal token count: 2\nOutput:\nno",
     "error: no"),
    ("Wall time: 9 seconds\nProcess running with session ID 4\nOutput:\nstill going", "still going"),
    ("The Exit code: 1 is\nOutput:\nquoted", "The Exit code: 1 is\nOutput:\nquoted"),
    ('[{"type":"text","text":"one"},{"type":"text","text":"two"}]', "one\ntwo"),
    (HEAD + '[{"type":"text","text":"from a server"}]', "from a server"),
    ('{"content":[{"type":"text","text":"denied"}],"isError":true}', "error: denied"),
    ('{"content":[{"type":"text","text":"a"}],"title":"b"}', '{"content":[{"type":"text","text":"a"}],"title":"b"}'),
    ({"output": "Exit code: 1\n" + HEAD + "no", "metadata": {}}, "error: no"), ("[1, 2]", "[1, 2]"),
    ([{"type": "input_text", "text": "a"}, {"type": "input_image", "image_url": "data:"}], "a"),
    ({"type": "input_text", "text": "a"}, "a"), ({"content": "refused", "success": False}, "error: refused"),
    ({"stdout": "out\n", "stderr": "err\n", "exitCode": 3}, "error: out\nerr"),
    ("<system-reminder>\nbe careful\n</system-reminder>\nfile", "file"))  # fmt: skip
def test_tool_results_come_in_many_wrappings(given, text):
    assert read_texts(call(), result(given)) == ["[shell] ls", text]


@cases("given", "", None, 7, {}, [], [7], "Exit code: 1\n" + HEAD, [{"type": "input_image"}])
def test_an_empty_tool_result_is_no_turn(given):
    assert read_texts(call(), result(given)) == ["[shell] ls"]


def test_results_may_lack_a_call_or_be_wrapped_without_end():
    assert read_texts(answer("One."), call("c1"), result("", "c1"), call("c2")) == ["One.\n[shell] ls", "[shell] ls"]
    (turn,) = turns(result("found", "gone"))
    assert (turn.id, turn.parent, turn.text) == ("gone:output", None, "found")
    parsed = parse(meta(), result(LONG), tool_chars=CUT_AT)
    check_cut(parsed)
    deep = "end"
    for _ in range(40):
        deep = json.dumps({"output": deep, "metadata": {}}) if len(deep) < 5_000 else deep
    parse(meta(), result(deep))
    nested = {"output": "end"}
    for _ in range(500):
        nested = {"output": nested}
    assert parse(meta(), result(nested), user("Hi")).sessions[0].turns[-1].text == "Hi"


@cases("noise", *load_texts("codex_prompts", "host_texts_as_the_user_are_no_turns"))
def test_host_texts_as_the_user_are_no_turns(noise):
    parsed = parse(meta(), user("Hi"), user(noise), answer("Hello"))
    assert list_texts(parsed) == ["Hi", "Hello"]
    assert sum(parsed.junk.values()) == len(noise)


@cases("role", "developer", "system")
def test_instructions_are_no_turn(role):
    parsed = parse(meta(), message(role, "Answer briefly."), user("Hi"))
    assert list_texts(parsed) == ["Hi"]
    assert parsed.junk["host"] == len("Answer briefly.")


@cases(
    "sent, typed",
    ("<environment_context>x</environment_context>\nWhy?", "Why?"),
    ("What does <skill> mean in the log?", "What does <skill> mean in the log?"),
    ("<skill> is unclosed here", "<skill> is unclosed here"),
    ("# Plan\nShip it", "# Plan\nShip it"),
    ("# Files mentioned by the user:\n\n## a.png: /tmp/a.png\n\n## My request for Codex:\nFix it", "Fix it"),
)
def test_typed_text_around_host_texts_stays(sent, typed):
    assert read_texts(user(sent)) == [typed]


def test_prompts_have_parts_and_answers_lose_what_is_no_answer():
    picture = {"type": "input_image", "image_url": "data:image/png;base64,AAAA"}
    assert read_texts(user("<image name=[Image #1]>", picture, "</image>", "What is this?")) == ["What is this?"]
    ran = "<command>\nls\n</command>\n<result>\nExit code: 0\nOutput:\na\n</result>"
    (turn,) = turns(user(f"<user_shell_command>\n{ran}\n</user_shell_command>"))
    assert (turn.text, turn.origin) == ("$ ls", "human")
    assert parse(meta(), user("<user_shell_command>\n</user_shell_command>")).sessions == ()
    thought = item(
        "reasoning",
        summary=[{"type": "summary_text", "text": "12345"}],
        content=[{"type": "reasoning_text", "text": "678"}],
        encrypted_content="gAAAA",
    )
    parsed = parse(meta(), thought, user("Hi"))
    assert len(parsed.sessions[0].turns) == 1
    assert parsed.junk["reasoning"] == 8
    assert read_texts(answer("<memory>\nold\n</memory>\nNew.")) == ["New."]
    assert read_texts(answer("Sixty.<oai-mem-citation>n:1</oai-mem-citation>")) == ["Sixty."]
    assert read_texts(answer("Sixty.<oai-mem-citation>")) == ["Sixty.<oai-mem-citation>"]
