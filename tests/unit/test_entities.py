from __future__ import annotations

import time

import pytest

from helix.enrich.entities import MAX_ENTITIES, entities
from helix.types import Entity


def _found(text: str, speaker: str | None = None) -> list[tuple[str, str]]:
    return [(entity.kind, entity.key) for entity in entities(text, speaker)]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("see `./src/ledgerline/Webhooks.py:42`.", [("path", "src/ledgerline/webhooks.py")]),
        ("--- a/helix/x.py\n+++ b/helix/x.py", [("path", "helix/x.py")]),
        ("C:\\Users\\x\\file.txt", [("path", "c:/users/x/file.txt")]),
        ("main.go:120: undefined", [("path", "main.go")]),
        ("grep: pkg/watch.go-81-func", [("path", "pkg/watch.go")]),
        ("set visibility_timeout, MAX_RETRIES", [("identifier", "visibility_timeout"), ("identifier", "max_retries")]),
        ("call fetchAll() or foo::bar or `recall`", [("identifier", k) for k in ("fetchall", "foo::bar", "recall")]),
        ("os.environ.get('X') failed", [("identifier", "os.environ.get")]),
        ("sqlite3.OperationalError: locked", [("error", "operationalerror")]),
        ("failed with ENOENT, E0308", [("error", "enoent"), ("error", "e0308")]),
        ("HTTP 500, then HTTP/1.1 500", [("error", "http 500")]),
        ("at https://www.Example.com/A/b/?x=1#top.", [("url", "example.com/a/b")]),
        ("postgres://u:p@db:5432/x", [("url", "db:5432/x")]),
        ("fixes #123, ABC-42 and GH-12", [("ticket", "#123"), ("ticket", "abc-42"), ("ticket", "gh-12")]),
        ("now v1.2.3 with package==1.2", [("version", "v1.2.3"), ("version", "package==1.2")]),
        ("we met Priya Patel in New York", [("name", "priya patel"), ("name", "new york")]),
        ("works for the Bank of America, says Dr. Smith", [("name", "bank of america"), ("name", "smith")]),
        ("on GitHub in Zürich", [("name", "github"), ("name", "zürich")]),
    ],
)
def test_shapes(text: str, expected: list[tuple[str, str]]) -> None:
    assert _found(text) == expected


@pytest.mark.parametrize(
    "text",
    [
        "",
        "The test passed. Running it again. Yesterday too.",
        "UTF-8 and SHA-256 on 2024-05-07 at 10:30, e.g. yes/no",
        "color: #333; &#39; # heading",
        "<div class='a'></div>",
        "- **Structure**: short\n## Introduction\nOverview\n",
        "Hello! Thanks. Let's go on Monday in May",
        "node.js and process.env",
        "/help",
    ],
)
def test_no_entities(text: str) -> None:
    assert _found(text) == []


def test_what_opens_a_sentence_is_a_name_only_on_evidence() -> None:
    assert _found("Caroline went home.") == [("name", "caroline")]
    assert _found("Thanks Melanie!") == [("name", "melanie")]
    assert _found("Priya's laptop broke.") == [("name", "priya")]
    assert _found("Kubernetes! We run on Kubernetes.") == [("name", "kubernetes")]
    assert _found("Restructure the parser.") == []
    assert _found("Parser is slow; the parser again.") == []
    assert _found("Priya") == [("name", "priya")]


def test_the_speaker_comes_first_and_once() -> None:
    assert entities("Caroline and Bob", "Caroline") == [
        Entity("person", "caroline", "Caroline"),
        Entity("name", "bob", "Bob"),
    ]
    assert _found("hm", "  ") == []


def test_each_once_in_order_of_appearance() -> None:
    assert _found("b_b a_a B_B b_b c_c") == []  # too short for identifiers worth a node
    assert _found("beta_b alpha_a BETA_B") == [("identifier", "beta_b"), ("identifier", "alpha_a")]
    assert entities("BETA_B beta_b")[0].name == "BETA_B"


def test_a_listing_is_capped() -> None:
    assert len(entities(" ".join(f"name_{i}" for i in range(100_000)))) == MAX_ENTITIES


@pytest.mark.parametrize(
    "unit",
    ["a", "A", "a/", "aB", "a.", "a_", ".", "/", "a@", "x::", "`", "Foo. ", "Foo Bar. ", "-", "aBBBBBBBB_", "src/aa"],
)
def test_a_megabyte_is_bounded(unit: str) -> None:
    start = time.perf_counter()
    assert len(entities(unit * (1_000_000 // len(unit)))) <= MAX_ENTITIES
    assert time.perf_counter() - start < 2
