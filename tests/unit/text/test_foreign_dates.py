"""Dates in other languages than English."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from helix.question.time_ranges import find_days
from helix.text.dates import find_moments

AT = datetime(2026, 11, 28, 12, tzinfo=UTC)  # a Saturday

FOUND = {
    "de": {
        "am 3. Mai 2024 umgestellt": "2024-05-03", "letzte Woche war es": "2026-W47", "vor zwei Wochen": "2026-11-14",
        "gestern Abend": "2026-11-27", "seit März": "2026-03", "am 12.03.2025": "2025-03-12", "im Jahr 2019": "2019",
        "im Januar 2020": "2020-01", "vorgestern": "2026-11-26", "nächsten Monat": "2026-12",
    },
    "fr": {
        "le 1er mai 2024": "2024-05-01", "il y a deux semaines": "2026-11-14", "la semaine dernière": "2026-W47",
        "hier soir": "2026-11-27", "en juillet": "2026-07", "avant-hier": "2026-11-26", "l'année prochaine": "2027",
    },
    "es": {
        "el 3 de mayo de 2024": "2024-05-03", "hace dos semanas": "2026-11-14", "la semana pasada": "2026-W47",
        "ayer por la mañana": "2026-11-27", "el mes que viene": "2026-12", "pasado mañana": "2026-11-30",
    },
    "pt": {
        "em 3 de maio de 2024": "2024-05-03", "há duas semanas": "2026-11-14", "duas semanas atrás": "2026-11-14",
        "na semana passada": "2026-W47", "ontem": "2026-11-27", "depois de amanhã": "2026-11-30",
    },
    "it": {
        "il 3 maggio 2024": "2024-05-03", "due settimane fa": "2026-11-14", "la settimana scorsa": "2026-W47",
        "ieri": "2026-11-27", "l’altro ieri": "2026-11-26", "nel 2019": "2019",
    },
    "nl": {
        "op 3 mei 2024": "2024-05-03", "twee weken geleden": "2026-11-14", "vorige week": "2026-W47",
        "gisteren": "2026-11-27", "in maart": "2026-03",
    },
    "ja": {
        "2024年5月3日に決定": "2024-05-03", "11月3日": "2026-11-03", "昨日": "2026-11-27", "3日前": "2026-11-25",
        "先週": "2026-W47", "二年前": "2024", "2024年5月": "2024-05",
    },
    "zh": {
        "2024年5月3日": "2024-05-03", "上周": "2026-W47", "三天前": "2026-11-25", "昨天": "2026-11-27", "去年": "2025",
        "十一月": "2026-11", "下个月": "2026-12",
    },
    "ru": {
        "3 мая 2024 года": "2024-05-03", "две недели назад": "2026-11-14", "вчера": "2026-11-27",
        "на прошлой неделе": "2026-W47", "в марте": "2026-03",
    },
    "sv": {"2024-05-03 möte": "2024-05-03"},
}  # fmt: skip


@pytest.mark.parametrize("code", FOUND)
def test_a_date_is_found(code: str) -> None:
    for text, key in FOUND[code].items():
        (moment,) = find_moments(text, AT, code)
        assert moment.key == key, text
        assert text[slice(*moment.where)] == moment.text
        windows = find_days(text, AT, code)
        assert any(first <= moment.start.toordinal() * 86_400 for first, *_ in windows) or code == "sv", text


def test_no_date_where_there_is_none() -> None:
    for code, text in (
        ("de", "Guten Morgen, wir müssen mailen"),
        ("es", "por la mañana"),
        ("nl", "goede morgen"),
        ("en", "am 3. Mai 2024"),
        ("pl", "3 maja 2024"),
        ("zh", "第3天"),
    ):
        assert find_moments(text, AT, code) == [], text
    assert find_moments("letzte Woche", None, "de") == []  # relative to nothing
    assert [one.key for one in find_moments("am 3. Mai 2024", None, "de")] == ["2024-05-03"]


def test_a_question_means_the_past() -> None:
    """A statement's month is the nearest; a question's the last that has begun, and a weekday the last one."""
    december = find_days("Was war im Dezember?", AT, "de")
    assert december == (_window(datetime(2025, 12, 1, tzinfo=UTC), datetime(2026, 1, 1, tzinfo=UTC), 1.0),)
    (statement,) = find_moments("Wir ziehen im Dezember um", AT, "de")
    assert statement.key == "2026-12"
    assert find_moments("am Freitag", AT, "de") == []
    month, day = find_days("Was war am Freitag?", AT, "de")
    assert day == _window(datetime(2026, 11, 27, tzinfo=UTC), datetime(2026, 11, 28, tzinfo=UTC), 1.0)
    assert month[2] == 0.5


def _window(first: datetime, after: datetime, weight: float) -> tuple[int, int, float]:
    return int(first.timestamp()), int(after.timestamp()) - 1, weight
