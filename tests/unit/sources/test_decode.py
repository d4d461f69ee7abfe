import json

import pytest

from helix.errors import InputRefused
from helix.sources.common.decode import decode, unescape_ascii
from tests.support.turns import cases

LIMIT = 1_000


@cases("data, text",
    ("grüße\n".encode(), "grüße\n"), ("grüße\n".encode("utf-8-sig"), "grüße\n"),
    ("grüße\n".encode("utf-16"), "grüße\n"), (b"\xfe\xff" + "grüße\n".encode("utf-16-be"), "grüße\n"),
    ("grüße\n".encode("utf-32"), "grüße\n"), (b"\x00\x00\xfe\xff" + "grüße\n".encode("utf-32-be"), "grüße\n"),
    (b"one\r\ntwo\r\n", "one\ntwo\n"), (b"a lone \r stays", "a lone \r stays"))  # fmt: skip
def test_encodings_and_line_ends(data, text):
    assert decode(data, LIMIT) == (text, [])


@cases("data", b"", b" \n\t\r\n ", b"\xef\xbb\xbf", b"\xff\xfe", "\u00a0\u2003\n".encode())
def test_empty_is_refused(data):
    with pytest.raises(InputRefused, match=r"^empty"):
        decode(data, LIMIT)


@cases("spare", 0, 1)
def test_the_longest_line_allowed_has_exactly_the_limit(spare):
    line = b'{"text": "' + b"x" * (LIMIT - 12 + spare) + b'"}'
    assert len(line) == LIMIT + spare
    _, problems = decode(b"{}\n" + line + b"\r\n{}\n", LIMIT)
    assert [problem.line for problem in problems] == [2] * spare


def test_encodings_and_lines_over_the_limit_are_refused_by_place():
    with pytest.raises(InputRefused, match=r"^binary.*offset 2"):
        decode(b"PK\x00\x03", LIMIT)
    with pytest.raises(InputRefused, match="byte order mark"):
        decode("hello".encode("utf-16-le"), LIMIT)
    with pytest.raises(InputRefused, match=r"not UTF-16.*offset"):
        decode(b"\xff\xfeh\x00\x00\xd8", LIMIT)
    with pytest.raises(InputRefused, match=r"byte offset 6.*iconv"):
        decode(b"ab\r\ngr\xfc\xdfe", LIMIT)
    with pytest.raises(InputRefused, match="byte offset 5"):
        decode(b"\xef\xbb\xbfgr\xfc\xdfe", LIMIT)
    with pytest.raises(InputRefused, match=r"no usable line.*longer than"):
        decode(b'{"text": "' + b"x" * LIMIT + b'"}\n', LIMIT)
    with pytest.raises(InputRefused, match=r"^line 3 .*HELIX_MAX_LINE_BYTES"):
        decode(b"# short\n\n" + b"y" * (LIMIT + 1) + b"\nshort\n", LIMIT)
    text = "short\n" + "y" * LIMIT + "\nshort\n"
    assert decode(text.encode(), LIMIT) == (text, [])
    data = b'{"text": "a"}\r\n{"text": "\xfc"}\r\n{"text": "' + b"x" * LIMIT + b'"}\r\n{"text": "b"}\r\n'
    text, problems = decode(data, LIMIT)
    assert text.split("\n") == ['{"text": "a"}', "", "", '{"text": "b"}', ""]
    assert [problem.line for problem in problems] == [2, 3]
    assert "UTF-8" in problems[0].reason
    assert "longer than 1000 bytes" in problems[1].reason


@cases(
    "written, plain",
    (r'{"a": "\u0067hp"}', '{"a": "ghp"}'),
    (r'{"a": "x\u0026y\/z"}', '{"a": "x&y/z"}'),
    (r'{"a": "\\u0067"}', r'{"a": "\\u0067"}'),  # a backslash and then u0067
    (r'{"a": "\\\u0067"}', r'{"a": "\\g"}'),
    (r'{"a": "\u0022 \u005c \u007f \u0007 \u00e9"}', r'{"a": "\u0022 \u005c \u007f \u0007 \u00e9"}'),
)
def test_escapes_of_printable_ascii_are_resolved(written: str, plain: str) -> None:
    assert unescape_ascii(written) == plain
    assert json.loads(written) == json.loads(plain)
