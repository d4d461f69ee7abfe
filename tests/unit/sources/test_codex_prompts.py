from tests.support.turns import cases, list_texts
from tests.unit.sources.test_codex import answer, item, message, meta, parse, read_texts, turns, user


@cases(
    "noise",
    "# AGENTS.md instructions for /x\n\n<INSTRUCTIONS>\nUse uv.\n</INSTRUCTIONS>",
    "# AGENTS.md instructions, cut off",
    "<user_instructions>\nBe brief.\n</user_instructions>",
    "<environment_context>\n<cwd>/x</cwd>\n</environment_context>",
    "<ENVIRONMENT_CONTEXT>cwd=/x</ENVIRONMENT_CONTEXT>",
    "<skill>\n<name>x</name>\nWrite </skill> at the end.\n</skill>",
    "<turn_aborted>\nThe user interrupted.\n</turn_aborted>",
    '<subagent_notification>\n{"status":"done"}\n</subagent_notification>',
    '<codex_internal_context source="goal">\nGo on.\n</codex_internal_context>',
    '<hook_prompt hook_run_id="1">Commit first.</hook_prompt>',
    "<user_action>\n<action>review</action>\n</user_action>",
    "<environment_context>a</environment_context>\n<user_instructions>b</user_instructions>",
    "# Context from my IDE setup:\n\n## Open tabs:\n- a.py",
    "Warning: apply_patch was requested via exec_command. Use the apply_patch tool instead.",
    "<image name=[Image #1]>",
    "</image>",
    "<memory>\nold\n</memory>",
)
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


def test_parts_of_one_prompt_are_one_turn():
    picture = {"type": "input_image", "image_url": "data:image/png;base64,AAAA"}
    assert read_texts(user("<image name=[Image #1]>", picture, "</image>", "What is this?")) == ["What is this?"]


def test_a_shell_command_of_a_person_stays_without_its_output():
    ran = "<command>\nls\n</command>\n<result>\nExit code: 0\nOutput:\na\n</result>"
    (turn,) = turns(user(f"<user_shell_command>\n{ran}\n</user_shell_command>"))
    assert (turn.text, turn.origin) == ("$ ls", "human")
    assert parse(meta(), user("<user_shell_command>\n</user_shell_command>")).sessions == ()


def test_reasoning_is_counted_and_no_turn():
    thought = item(
        "reasoning",
        summary=[{"type": "summary_text", "text": "12345"}],
        content=[{"type": "reasoning_text", "text": "678"}],
        encrypted_content="gAAAA",
    )
    parsed = parse(meta(), thought, user("Hi"))
    assert len(parsed.sessions[0].turns) == 1
    assert parsed.junk["reasoning"] == 8


def test_our_own_memory_is_cut_from_answers():
    assert read_texts(answer("<memory>\nold\n</memory>\nNew.")) == ["New."]


def test_citations_are_cut_and_an_unclosed_one_stays():
    assert read_texts(answer("Sixty.<oai-mem-citation>n:1</oai-mem-citation>")) == ["Sixty."]
    assert read_texts(answer("Sixty.<oai-mem-citation>")) == ["Sixty.<oai-mem-citation>"]
