"""Questions that many turns answer, and questions for advice."""

from __future__ import annotations

import pytest

from helix.text.asks import asks_advice, read_extent

ENGLISH = [
    ("Can you summarise what we said about the parser?", "summary"),
    ("give me an overview of the migration", "summary"),
    ("What did the team discuss on Monday?", "summary"),
    ("How has the billing service evolved since spring?", "summary"),
    ("In which order did I bring up the three bugs?", "order"),
    ("Walk me through how we came to use DuckDB", "order"),
    ("How many times did the deploy fail?", "count"),
    ("how often do we release", "count"),
    ("What is the difference between the two loaders?", "comparison"),
    ("list all hosts we moved", "list"),
    ("everything we know of the outage", "list"),
    ("what do you know about Priya", "about"),
    ("What did the designer think about the colours?", "about"),
    ("which port does the gateway use", ""),
    ("When is the review?", ""),
    ("who is on call", ""),
    ("what did we decide", ""),
    ("What kind of dog does Ana have?", ""),
]

FOREIGN = [
    ("de", "Fasse zusammen, was wir zur Datenbank beschlossen haben", "summary"),
    ("de", "Wie oft schlug der Test fehl?", "count"),
    ("de", "Welche Datenbank nutzen wir?", ""),
    ("es", "¿En qué orden hablamos de los errores?", "order"),
    ("es", "¿Qué base de datos usamos?", ""),
    ("fr", "Compare les deux serveurs", "comparison"),
    ("fr", "Quelle base utilisons-nous ?", ""),
    ("it", "Elenca tutti i server", "list"),
    ("it", "Quale database usiamo?", ""),
    ("ja", "データベースについての議論を要約して", "summary"),
    ("ja", "どのデータベースを使っていますか", ""),
    ("nl", "Wat weet je over Priya?", "about"),
    ("nl", "Welke database gebruiken we?", ""),
    ("pt", "Quantas vezes falhou?", "count"),
    ("pt", "Qual banco de dados usamos?", ""),
    ("ru", "Подведи итог обсуждения", "summary"),
    ("ru", "Какую базу мы используем?", ""),
    ("zh", "总结我们的讨论", "summary"),
    ("zh", "我们用什么数据库？", ""),
]


@pytest.mark.parametrize(("text", "extent"), ENGLISH)
def test_the_extent_of_a_question(text: str, extent: str) -> None:
    assert read_extent(text) == extent


@pytest.mark.parametrize(("language", "text", "extent"), FOREIGN)
def test_the_extent_of_a_question_in_its_language(language: str, text: str, extent: str) -> None:
    assert read_extent(text, language) == extent


@pytest.mark.parametrize(
    ("language", "text", "advice"),
    [
        ("en", "How should I structure the tests?", True),
        ("en", "Can you walk me through how to write a migration?", True),
        ("en", "Which tools would you recommend for tracing?", True),
        ("en", "I'm planning the release. Which steps would you take?", True),
        ("en", "What are the different ways to compare two files?", True),
        ("en", "How did you recommend to split the module?", False),
        ("en", "Can you help me summarise what we decided?", False),
        ("en", "which port does the gateway use", False),
        ("de", "Wie sollte ich die Tests aufbauen?", True),
        ("de", "Wie haben wir die Tests aufgebaut?", False),
        ("es", "¿Cómo debo escribir las pruebas?", True),
        ("fr", "Comment dois-je structurer mon CV ?", True),
        ("it", "Come posso scrivere i test?", True),
        ("ja", "テストはどのように書くべきですか", True),
        ("nl", "Hoe moet ik de tests schrijven?", True),
        ("pt", "Como devo escrever os testes?", True),
        ("ru", "Как мне написать тесты?", True),
        ("zh", "如何写测试？", True),
        ("zh", "我们用什么数据库？", False),
    ],
)
def test_a_question_for_advice(language: str, text: str, advice: bool) -> None:
    assert asks_advice(text, language) is advice
