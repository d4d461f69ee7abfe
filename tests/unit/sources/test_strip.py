import pytest

from helix.sources.common.injected import strip_host, strip_memory
from tests.support.turns import cases


@cases(
    "text, left",
    ("before\n<memory>\nold\n</memory>\nafter", "before\n\nafter"),
    ("<memory>old</memory> after", "after"),
    ('  <memory items="3">\nold\n</memory>\n\nafter', "after"),
    ("UserPromptSubmit hook additional context: <memory>\nold\n</memory>\nreal question", "real question"),
    ("a\n<memory>\n1\n</memory>\nb\n<memory>\n2\n</memory>\nc", "a\n\nb\n\nc"),
    ("<memory>\nouter\n<memory>\ninner\n</memory>\ntail\n</memory>\nafter", "after"),
    # A stray opening tag takes nothing with it but the block that follows.
    ("<memory>\nis our tag\n\n<memory>\nold\n</memory>\nafter", "<memory>\nis our tag\n\nafter"),
)
def test_our_own_memory_is_cut(text, left):
    assert strip_memory(text) == left


@cases("text",
    "we wrap it in <memory> and close with </memory>, always", "<memory>\nnever closed", "</memory>\nnever opened",
    "<domain>\n  <memory unit='KiB'>1048576</memory>\n</domain>")  # fmt: skip
def test_text_about_memory_stays(text):
    assert strip_memory(text) == text


TAGS = (
    "system-reminder command-name command-message local-command-stdout local-command-caveat task-notification"
    " bash-stdout bash-stderr teammate-message"
)


@pytest.mark.parametrize("tag", TAGS.split())
def test_host_tags_go_with_their_content(tag):
    assert strip_host(f"before\n<{tag}>\nsecret <b>x</b>\n</{tag}>\nafter") == "before\n\nafter"


@cases("text",
    "the <system-reminder> tag closes with </system-reminder>", "<system-reminder>\nnot closed", "<div>\nx\n</div>",
)  # fmt: skip
def test_tags_in_a_sentence_unclosed_or_foreign_stay(text):
    assert strip_host(text) == text


def test_host_tags_go_and_typed_commands_stay():
    text = (
        '<teammate-message id="3">\nx\n</teammate-message>\n'
        "   <command-name>/a</command-name><command-message>a</command-message>"
    )
    assert strip_host(text) == ""
    assert strip_host(
        "<bash-input>git push</bash-input>\n<bash-stdout>ok</bash-stdout><bash-stderr></bash-stderr>"
    ) == ("$ git push")
    command = "<command-name>/review</command-name>\n<command-args>{}</command-args>"
    assert strip_host(command.format("only the webhook code")) == "only the webhook code"
    assert strip_host(command.format("opus")) == ""
    assert strip_host("stop\n[Request interrupted by user for tool use]") == "stop"
    assert strip_host("\x1b[1mFAILED\x1b[0m tests") == "FAILED tests"
