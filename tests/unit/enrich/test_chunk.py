"""Cuts of long turns into pieces."""

from __future__ import annotations

from helix.enrich.chunk import MAX_WORD, TAIL_ROOM, chunk
from tests.support.turns import check_units


def _words(count: int, mark: str = "w") -> str:
    return " ".join([mark] * count)


def test_a_short_text_is_one_piece_and_white_space_none() -> None:
    assert chunk("  One.\n\nTwo. ") == ["One.\n\nTwo."]
    assert [chunk(text) for text in ("", " \n\t ", "\u3000")] == [[], [], []]


def test_paragraphs_stay_together_before_lines() -> None:
    first, second = _words(60, "a") + "\n" + _words(30, "a"), _words(80, "b")
    assert chunk(f"{first}\n\n{second}", 100) == [first, second]


def test_lines_stay_together_before_sentences() -> None:
    lines = [_words(60, "a"), _words(60, "b")]
    assert chunk("\n".join(lines), 100) == lines
    sentences = [_words(59, "a") + " end.", _words(59, "b") + ' end!"']
    assert chunk(" ".join(sentences), 100) == sentences


def test_a_long_sentence_is_cut_between_words() -> None:
    assert [len(piece.split()) for piece in chunk(_words(250), 100)] == [100, 100, 50]


def test_a_fence_stays_whole_where_it_fits() -> None:
    fence = "```py\n" + _words(40, "x") + "\n\n" + _words(40, "y") + "\n```"
    assert chunk(f"{_words(50)}\n\n{fence}\n\n{_words(50)}", 100) == [_words(50), fence, _words(50)]
    pieces = chunk("```\n" + "\n".join([_words(30)] * 10) + "\n```", 100)
    assert len(pieces) > 1
    assert all(len(piece.split()) <= 100 * TAIL_ROOM for piece in pieces)
    assert chunk("text\n```\ncode") == ["text\n```\ncode"]  # unclosed
    nested = "````\n```\n" + _words(30) + "\n```\n````"
    assert chunk(f"{_words(90)}\n{nested}", 100)[1] == nested


def test_a_small_tail_joins_the_piece_before() -> None:
    assert [len(piece.split()) for piece in chunk(_words(110), 100)] == [110]
    assert [len(piece.split()) for piece in chunk(_words(125), 100)] == [100, 25]


def test_an_endless_word_is_cut() -> None:
    pieces = chunk("x" * 10_100)
    assert "".join(pieces) == "x" * 10_100
    # One word of 2,000 characters counts as 84 words: two do not fit together, a short rest does.
    assert [len(piece) for piece in pieces] == [MAX_WORD] * 4 + [MAX_WORD + 100]


def test_unspaced_scripts_are_cut_at_their_sentences() -> None:
    sentence = "猫" * 99 + "。"
    assert chunk(sentence * 4, 100) == [sentence * 2, sentence * 2]
    assert max(map(len, chunk("猫" * 5_000, 100))) <= 2 * 100


def test_much_of_anything_is_linear() -> None:
    def read(text: str) -> None:
        assert "".join("".join(chunk(text)).split()) == "".join(text.split())

    check_units(read, "a ", "\n", ". ", "```\n", "a\n \n", '."', "漢", " \n", size=200_000)
