"""The language of texts: identified where it is certain, of the session where it is not, never from code."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from helix.text import language_words, languages
from helix.text.asks import WIDE
from helix.text.cues import ASKS, DECIDES, FIRST_PERSON, PREFERS, STANDING, read_cues
from helix.text.language_words import find_pattern, is_courtesy, list_stop_words, read_words
from helix.text.languages import CODES, find_languages, identify
from helix.text.reading import HINTS, read_hints, read_kind
from helix.text.tokenize import STEMMERS, is_stop_word, tokenise

SENTENCES = {
    "en": "We moved the nightly backup to the second server because the first one was full.",
    "de": "Wir haben die nächtliche Sicherung auf den zweiten Server verschoben, weil der erste voll war.",
    "fr": "Nous avons déplacé la sauvegarde vers le second serveur, car le premier était plein.",
    "es": "Movimos la copia de seguridad al segundo servidor porque el primero estaba lleno.",
    "pt": "Movemos a cópia de segurança para o segundo servidor porque o primeiro estava cheio.",
    "it": "Abbiamo spostato la copia di sicurezza sul secondo server perché il primo era pieno.",
    "nl": "We hebben de nachtelijke reservekopie naar de tweede server verplaatst omdat de eerste vol was.",
    "ja": "最初のサーバーがいっぱいだったので、夜間バックアップを二台目のサーバーに移しました。",
    "zh": "因为第一台服务器满了，我们把夜间备份移到了第二台服务器。",
    "ru": "Мы перенесли ночную резервную копию на второй сервер, потому что первый был заполнен.",
    "ar": "نقلنا النسخة الاحتياطية الليلية إلى الخادم الثاني لأن الأول كان ممتلئا.",
    "pl": "Przenieśliśmy nocną kopię zapasową na drugi serwer, ponieważ pierwszy był pełny.",
    "ko": "첫 번째 서버가 가득 차서 야간 백업을 두 번째 서버로 옮겼습니다.",
}


@pytest.mark.parametrize("code", SENTENCES)
def test_a_sentence_is_identified(code: str) -> None:
    found, chance = identify(SENTENCES[code])
    assert (found, chance > 0.5) == (code, True)
    assert identify(SENTENCES[code], ("en", code)) == (code, pytest.approx(1.0, abs=0.05))


def test_plain_english_needs_no_model(monkeypatch: pytest.MonkeyPatch) -> None:
    def load() -> None:
        raise AssertionError("loaded")

    monkeypatch.setattr(languages, "_load", load)
    english = (SENTENCES["en"], "Where did they put the café's key?", "what's the plan", "it doesn't work")
    for text in (*english, "Billing keeps its state behind a pool"):
        assert identify(text) == ("en", 1.0)
    for text in ("", "ok", "42", "src/main.py", "`SELECT * FROM t`", "fooBarBaz()", "http://example.org/a/b/c"):
        assert identify(text) == ("", 0.0)
    with pytest.raises(AssertionError, match="loaded"):
        identify(SENTENCES["de"])


def test_a_short_text_has_the_language_of_its_session() -> None:
    session = [SENTENCES["de"], "ok", "Datenbank!", SENTENCES["de"], "def f(x):\n    return x", SENTENCES["en"]]
    assert find_languages(session) == ["de", "de", "de", "de", "de", "en"]
    assert find_languages(["ok", "yes", "42"]) == ["en", "en", "en"]
    assert find_languages([]) == []


def test_codes_keep_their_numbers() -> None:
    """A store has numbers: the list is only ever extended."""
    assert CODES[:12] == ("", "other", "en", "de", "fr", "es", "pt", "it", "nl", "ja", "zh", "ko")
    assert len(set(CODES)) == len(CODES) < 256
    assert set(language_words.CODES) <= set(CODES)
    assert set(STEMMERS) <= set(CODES)


def test_every_file_of_words_is_complete_and_compiles() -> None:
    folder = Path(language_words.__file__).parent / "data" / "languages"
    assert sorted(path.stem for path in folder.glob("*.toml")) == sorted(language_words.CODES)
    known = {
        "": {
            "stop",
            "first_person",
            "asker",
            "courtesy",
            "recent",
            "spaced",
            "dates",
            "cues",
            "questions",
            "asks",
            "claims",
            "denies",
        },
        "asks": {*WIDE, "advice", "past"},
        "cues": {"standing", "prefers", "decides"},
        "questions": {"why", "past", "present", *HINTS} - {"yes", "first", "before", "after", "second"},
        "claims": {"change", "end", "now", "plan", "reason", "agree", "hypo"},
    }
    for code in language_words.CODES:
        words = read_words(code)
        assert set(words) - {"former", "spaced", "stop"} == known[""] - {"spaced", "stop"}, code
        assert ("stop" in words) == words.get("spaced", True), code
        assert set(words["denies"]) <= {"before", "after"}, code
        for group in ("cues", "questions", "asks", "claims", "denies"):
            assert group == "denies" or set(words[group]) == known[group], (code, group)
            assert all(find_pattern(code, group, name) for name in words[group])
        for name in ("first_person", "asker", "recent"):
            assert isinstance(find_pattern(code, name), re.Pattern)
        assert [len(words["dates"][name]) for name in ("months", "weekdays")] == [12, 7], code
        assert set(words["dates"]["units"]) == {"day", "week", "month", "year"}
        for word in list_stop_words(code):
            assert is_stop_word(word, code)
            assert tokenise(word, code) == [], (code, word)


SAID = {
    "de": ("Antworte ab jetzt immer auf Deutsch.", "Wir haben uns für PostgreSQL entschieden.", "Ich bevorzuge Tabs."),
    "fr": ("Désormais, réponds en français.", "Nous avons décidé de garder Redis.", "Je préfère les réponses courtes."),
    "es": ("Nunca uses npm aquí.", "Hemos decidido usar PostgreSQL.", "Prefiero respuestas cortas."),
    "pt": ("Nunca use npm aqui.", "Decidimos usar PostgreSQL.", "Prefiro respostas curtas."),
    "it": ("D'ora in poi usa sempre pnpm.", "Abbiamo deciso di usare PostgreSQL.", "Preferisco risposte brevi."),
    "nl": (
        "Gebruik nooit npm in dit project.",
        "We hebben voor PostgreSQL gekozen.",
        "Ik heb liever korte antwoorden.",
    ),
    "ja": ("npmは使わないでください。", "PostgreSQLを使うことに決めました。", "短い回答の方が好きです。"),
    "zh": ("不要在这里使用 npm。", "我们决定使用 PostgreSQL。", "我更喜欢简短的回答。"),
    "ru": ("Никогда не используй npm.", "Мы решили использовать PostgreSQL.", "Я предпочитаю короткие ответы."),
}


@pytest.mark.parametrize("code", SAID)
def test_cues_of_a_language(code: str) -> None:
    standing, decides, prefers = SAID[code]
    assert read_cues(standing, "user", code) & STANDING
    assert read_cues(decides, "user", code) & DECIDES
    assert read_cues(prefers, "user", code) & PREFERS
    assert not read_cues(SENTENCES[code], "user", code) & (STANDING | PREFERS)
    for text in SAID[code]:
        assert not read_cues(text, "assistant", code) & (STANDING | DECIDES | PREFERS)
        assert not read_cues(text, "user") & (STANDING | DECIDES | PREFERS)  # by the English rules
    spoken = {"de": "Ich habe Hunger", "zh": "我饿了", "ja": "私はお腹が空いた", "fr": "Je mange", "nl": "Ik eet"}
    if code in spoken:
        assert read_cues(spoken[code], "user", code) & FIRST_PERSON
    assert read_cues("…？", "user", code) & ASKS


ASKED = {
    "de": ("Warum haben wir gewechselt?", "Welche Datenbank nutzen wir jetzt?", "Was war damals der Port?", "Wann?"),
    "fr": (
        "Pourquoi avons-nous changé ?",
        "Quelle base utilisons-nous maintenant ?",
        "Quel était le port avant ?",
        "Quand ?",
    ),
    "es": ("¿Por qué cambiamos?", "¿Qué base de datos usamos ahora?", "¿Cuál era el puerto antes?", "¿Cuándo?"),
    "pt": ("Por que mudamos?", "Que banco de dados usamos agora?", "Qual era a porta antes?", "Quando?"),
    "it": ("Perché abbiamo cambiato?", "Quale database usiamo ora?", "Qual era la porta prima?", "Quando?"),
    "nl": ("Waarom zijn we overgestapt?", "Welke database gebruiken we nu?", "Wat was de poort vroeger?", "Wanneer?"),
    "ja": ("なぜ変更したのですか", "今どのデータベースを使っていますか", "以前のポートは何でしたか", "いつ"),
    "zh": ("为什么换了？", "现在用的是哪个数据库？", "之前的端口", "什么时候"),
    "ru": ("Почему мы перешли?", "Какую базу используем сейчас?", "Какой был порт раньше?", "Когда?"),
}


@pytest.mark.parametrize("code", ASKED)
def test_questions_of_a_language(code: str) -> None:
    why, now, then, when = ASKED[code]
    assert [read_kind(text, code) for text in (why, now, then)] == ["why", "now", "then"]
    assert read_hints(when, code)[HINTS.index("when")] == 1
    assert read_hints(now, code)[HINTS.index("now")] == 1


def test_courtesies_say_nothing() -> None:
    for code, text in (
        ("de", "Danke, super!"),
        ("fr", "Merci beaucoup !"),
        ("es", "Vale, gracias."),
        ("pt", "Obrigado, tchau!"),
        ("it", "Grazie mille!"),
        ("nl", "Dank je wel!"),
        ("ja", "ありがとうございます。"),
        ("zh", "好的，谢谢！"),
        ("ru", "Спасибо большое!"),
    ):
        assert is_courtesy(code, text), text
        assert not is_courtesy(code, SENTENCES[code])
        assert not is_courtesy(code, "")
    assert not is_courtesy("pl", "dziękuję")  # a language without words: statistics alone


def test_stems_are_those_of_the_language_and_identifiers_stay_english() -> None:
    assert tokenise("Die Datenbanken der Häuser", "de") == tokenise("Datenbank Haus", "de") == ["datenbank", "haus"]
    assert tokenise("les décisions", "fr") == tokenise("la décision", "fr") == tokenise("DECISION", "fr")
    assert tokenise("las reuniones", "es") == tokenise("reunion", "es")
    assert tokenise("новые серверы", "ru") == tokenise("новых серверов", "ru")
    assert tokenise("running databases the", "other") == ["running", "databases", "the"]
    assert tokenise("running databases the", "vi") == ["running", "databases", "the"]
    for code in ("en", "de", "ru", "zh", "other"):
        assert "error" in tokenise("VisibilityTimeoutErrors", code)
        assert tokenise("snake_cases", code)[0] == "snake_cases"
    assert tokenise("我们决定", "zh") == tokenise("我们决定") == ["我们", "们决", "决定"]
