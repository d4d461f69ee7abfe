from tests.support.turns import cases, list_texts, load_texts
from tests.unit.sources.test_codex import answer, item, message, meta, parse, read_texts, turns, user


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
