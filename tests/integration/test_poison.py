"""Texts made to stall, crash or flood what reads them, on the real path: bounded, and their neighbours are found."""

from __future__ import annotations

import base64
import json
import random
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Final, NamedTuple

import numpy as np
import pytest

import pipelines.embedded.ingest
import pipelines.ingest.accept_all
from helix.encoders.dense import Encoder
from helix.enrich.facts.extract import MAX_FACTS
from helix.sdk.memory import Memory
from helix.sdk.open import open as open_store
from helix.settings import load
from helix.snapshot.segment.batch import RowBatch, load_rows
from helix.snapshot.verify import verify_store
from helix.text.entities import MAX_ENTITIES
from pipelines.embedded.ingest import ingest
from pipelines.ingest.accept import accept_source
from pipelines.ingest.accept_all import IngestReport
from pipelines.ingest.enrich import EnrichAttempt
from pipelines.ingest.source import Inbox

LARGE: Final = 250_000
MANY: Final = 25_000
START: Final = 5_000
"""Characters of a text that are given again in other places."""

SAID: Final = "2026-05-04T10:00:00Z"

SLOWER: Final = 15
"""Times the CPU, without the encoder's, of an ordinary log with as many bytes and turns."""

LONGEST_TEXT: Final = 7_200
"""Characters of one stored text: twice what 150 words may span."""
LONGEST_LABEL: Final = 200
MOST_LINKS: Final = 5
MOST_TERMS: Final = 4_000
FEWEST_CHARACTERS: Final = 250
"""Of a text, for each of its items: 150 words take 300, but for a tail."""

EMBEDDED_WHOLE: Final = 4
"""Texts of a log that are embedded whole; of the others, for speed, their first 80 characters."""

TALK: Final = (
    ("Ana", "The bakery on Linden Street opens at seven on Saturdays."),
    ("Ben", "Then we meet there before the train to Utrecht."),
    ("Ana", "I gave the spare key to our neighbour Hanneke."),
    ("Ben", "The dentist moved my appointment to the ninth of June."),
    ("Ana", "We decided to paint the kitchen pale green."),
    ("Ben", "The cellar floods whenever the pump loses power."),
    ("Ana", "My sister Noor plays the cello in a quartet."),
    ("Ben", "I ordered twelve metres of garden hose."),
    ("Ana", "The landlord promised new windows by autumn."),
    ("Ben", "Grandfather's stamp album lies in the blue suitcase."),
)
ASKED: Final = (
    ("When does the bakery on Linden Street open?", TALK[0][1]),
    ("Who has the spare key?", TALK[2][1]),
    ("Where is the stamp album?", TALK[9][1]),
)


def _name(number: int) -> str:
    """Return an unknown name: `number` in syllables."""
    return "".join("bcdfghjkmn"[int(digit)] + "aeiouaeiou"[int(digit)] for digit in str(number)).capitalize()


def _script(first: int, last: int, count: int, stop: str) -> str:
    """Prose by its looks: `count` characters of a script, now and then a stop."""
    rng = random.Random(first)
    return "".join(stop if at % 23 == 22 else chr(rng.randrange(first, last)) for at in range(count))


def _image() -> str:
    """A megabyte of base64: noise first, the rest of one colour. Equal pieces are embedded once."""
    noise, flat = random.Random(1).randbytes(15_000), bytes(range(250)) * 2_940
    return "data:image/png;base64," + base64.b64encode(noise + flat).decode()


_MENTIONS: Final[Mapping[str, Callable[[int], str]]] = {
    "names": _name,
    "paths": "a{0}/b{0}.py".format,
    "identifiers": "load_{0}".format,
    "urls": "https://a.io/{0}".format,
    "dates": lambda n: f"{1 + n % 28} May {1900 + n % 190}",
    "spans": lambda n: f"in {1 + n % 99} weeks",
    "commits": lambda n: f"a{n * 7919:08x}1",
}


def _mentions() -> str:
    """Mentions of all kinds in paragraphs, the first fifty of which come again and again."""
    makers = [*_MENTIONS.values()]
    paragraphs = [", ".join(make(n) for n in range(at, at + 12) for make in makers) for at in range(0, 600, 12)]
    return "\n\n".join(paragraphs * (MANY // (1_200 * len(makers)) + 1))


_REPEATED: Final = {
    **{"commas": ",", "quotes": '"', "apostrophes": "'", "brackets": "[", "hyphens": "-", "slashes": "/"},
    **{"backticks": "`", "hashes": "#", "ats": "@", "yes": "yes ", "ifs": "if "},
}
TEXTS: Final[Mapping[str, str]] = {
    **{name: mark * MANY for name, mark in _REPEATED.items()},
    "one-letter": "a" * LARGE,
    "identifiers-unspaced": "aB1_" * (LARGE // 4),
    "image": _image(),
    "mentions": _mentions(),
    "newlines": "a" + "\n" * MANY + "b",
    "blanks": "a" + " \t" * (MANY // 2) + "b",
    "fences": "```\n" * (MANY // 4),
    "dotted": "a." * (MANY // 2),
    "hyphenated": "a-" * (MANY // 2),
    "I-live-in": "I live in " * (MANY // 5),
    "in-weeks": "and in 9 weeks " * 3_000,
    "control": "".join(map(chr, range(32))) * (MANY // 32) + "a",
    "nul": "a\0" * (MANY // 2),
    "ansi": "\x1b[31mred\x1b[0m \x1b[2K" * 5_000,
    "overrides": "abc \u202e def \u202c " * 10_000,
    "zalgo": "".join(letter + "".join(map(chr, range(0x300, 0x332))) for letter in "helix" * 400),
    "one-tower": "e" + "\u0301\u0323" * (MANY // 2),
    "emoji": "😀👩\u200d👩\u200d👧🇩🇪👍🏽" * (MANY // 10),
    "arabic-hebrew": "ذهبت ليلى إلى السوق أمس with her sister وقالت שלום לכולם and deployed config.py. " * 700,
    "chinese": _script(0x4E00, 0x9FA0, 5_000, "。"),
    "japanese": _script(0x3041, 0x3097, 5_000, "、"),
    "thai": _script(0x0E01, 0x0E2F, 5_000, " "),
    "nested-json": '{"a":[' * 5_000 + "]}" * 5_000,
    "lone-surrogates": "half \ud83d an emoji \udc00 " * 5_000,
}


def _talk() -> list[dict[str, Any]]:
    return [{"session": "talk", "id": str(n), "speaker": who, "text": said} for n, (who, said) in enumerate(TALK)]


def _cases(text: str) -> list[dict[str, Any]]:
    """A text as a turn; the start of it as a document, a tool's output, and in the middle of ten ordinary turns."""
    talk, start = _talk(), text[:START]
    alone = [{"session": role, "role": role, "text": start} for role in ("document", "tool")]
    whole = {"session": "user", "text": text}
    return [whole, *alone, *talk[:5], {"session": "talk", "id": "poison", "text": start}, *talk[5:]]


def _short(turns: int) -> list[dict[str, Any]]:
    return [{"session": "short", "text": f"number {n % 300}, noted"} for n in range(turns)]


def _labels() -> list[dict[str, Any]]:
    """Names of 25 kB, one more than its like."""
    long = "n" * MANY
    turns = [
        {"session": long, "id": long + mark, "speaker": long + mark, "title": long, "project": "labels", "text": said}
        for mark, (_, said) in zip("abcdefghij", TALK, strict=True)
    ]
    document = {"session": "d", "role": "document", "title": long, "text": "Fine words. " * 500}
    return [*turns, document]


LOGS: Final[Mapping[str, list[dict[str, Any]]]] = {
    **{name: _cases(text) for name, text in TEXTS.items()},
    "short-turns": [*_short(2_500), *_talk()],
    "speakers": [
        *_talk(),
        *(
            {"session": "talk", "id": f"s{n}", "speaker": f"{_name(n % 100)} {_name(n)}", "text": "noted"}
            for n in range(800)
        ),
    ],
    "labels": _labels(),
}


def _ordinary(characters: int) -> str:
    """Prose with the usual names, dates, paths and marks, no sentence twice."""
    rng = random.Random(5)
    words = (
        "the", "a", "we", "they", "plan", "garden", "river", "signal", "window", "market", "quiet", "early", "runs",
    )  # fmt: skip
    out: list[str] = []
    while characters > 0:
        said = rng.choices(words, k=12)
        names = ["Ana", "Utrecht", "src/app.py", "2026-05-04", "`make test`", "load_all()"]
        said[rng.randrange(12)] = rng.choice(names)
        out.append(" ".join(said).capitalize() + rng.choice([". ", ", ", "?\n", ".\n\n"]))
        characters -= len(out[-1])
    return "".join(out)


class Taken(NamedTuple):
    """The cost of a log and its rows."""

    seconds: float  # of CPU from reading to the part, without the encoder's
    size: int  # bytes
    turns: int
    rows: RowBatch


class Store(NamedTuple):
    memory: Memory
    report: IngestReport
    taken: Mapping[str, Taken]


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory, cache: Path) -> Store:
    """Every log in one store, through `ingest`, each timed on its way."""
    folder = tmp_path_factory.mktemp("poison")
    logs = folder / "logs"
    logs.mkdir()
    made = {"ordinary-text": _cases(_ordinary(20_000)), "ordinary-turns": [*_short(500), *_talk()], **LOGS}
    for name, turns in made.items():
        own = ({**turn, "session": f"{name}/{turn['session']}"} for turn in turns)
        lines = (json.dumps({"project": name, "ts": SAID, **turn}) + "\n" for turn in own)
        (logs / f"{name}.jsonl").write_text("".join(lines))
    spent: dict[str, float] = {}
    rows: dict[str, RowBatch] = {}
    embedding: list[float] = []
    enrich, passages = pipelines.embedded.ingest.try_enrich, Encoder.passages

    def timed_take(inbox: Inbox, path: Path, *way: Any) -> Any:
        start = time.process_time()
        taken = accept_source(inbox, path, *way)
        spent[path.stem] = time.process_time() - start
        return taken

    def timed_enrich(*args: Any, **more: Any) -> EnrichAttempt:
        start = time.process_time()
        tried = enrich(*args, **more)
        if tried.part is not None:
            name = Path(tried.part.path).stem
            spent[name] += time.process_time() - start - sum(embedding)
            embedding.clear()
            rows[name] = load_rows(tried.part.folder)
        return tried

    def timed_passages(encoder: Encoder, texts: list[str], *rest: Any) -> Any:
        start = time.process_time()
        given = [*texts[:EMBEDDED_WHOLE], *(text[:80] for text in texts[EMBEDDED_WHOLE:])]
        vectors = passages(encoder, given, *rest)
        embedding.append(time.process_time() - start)
        return vectors

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Encoder, "passages", timed_passages)
        patch.setattr(pipelines.ingest.accept_all, "accept_source", timed_take)
        patch.setattr(pipelines.embedded.ingest, "try_enrich", timed_enrich)
        report = ingest(folder / "store", [logs], load())
    taken = {
        name: Taken(spent[name], (logs / f"{name}.jsonl").stat().st_size, len(turns), rows[name])
        for name, turns in made.items()
    }
    return Store(open_store(folder / "store"), report, taken)


def test_nothing_is_refused(store: Store) -> None:
    assert store.report.refused == []
    assert store.report.dead == 0
    assert verify_store(store.memory.root).problems == ()


@pytest.mark.parametrize("name", LOGS)
def test_no_log_takes_much_longer_than_an_ordinary_one(store: Store, name: str) -> None:
    text, turns, log = store.taken["ordinary-text"], store.taken["ordinary-turns"], store.taken[name]
    ordinary = log.size * text.seconds / text.size + log.turns * turns.seconds / turns.turns
    assert log.seconds < SLOWER * ordinary + 0.5, f"{log.seconds:.2f} s of CPU, an ordinary log {ordinary:.2f} s"


@pytest.mark.parametrize("name", LOGS)
def test_stored_text_is_bounded(store: Store, name: str) -> None:
    log = store.taken[name]
    rows, items = log.rows, log.rows.items.to_pydict()
    characters = sum(map(len, items["text"]))
    assert len(rows) <= log.turns + characters / FEWEST_CHARACTERS
    assert max(map(len, items["text"])) <= LONGEST_TEXT
    assert max(items["tokens"]) <= LONGEST_TEXT
    for label in ("session", "speaker", "title", "project"):
        assert max(len(value or "") for value in items[label]) <= LONGEST_LABEL, label
    assert max(len(turn) for turns in items["turns"] for turn in turns) <= LONGEST_LABEL
    for offsets, most in (
        (rows.mention_indptr, 2 * MAX_ENTITIES),  # each name may bring the full one along
        (rows.fact_indptr, MAX_FACTS),
        (rows.link_indptr, MOST_LINKS),
        (rows.term_indptr, MOST_TERMS),
    ):
        assert np.diff(offsets).max() <= most
    for table in (rows.entities, rows.facts):
        for column in table.schema.names:
            assert max((len(value) for value in table[column].to_pylist() if isinstance(value, str)), default=0) <= 600


@pytest.mark.parametrize("name", [name for name in LOGS if name != "labels"])
def test_the_turns_beside_it_are_found(store: Store, name: str) -> None:
    for question, answer in ASKED:
        found = store.memory.recall(question, k=5, project=name)
        assert answer in [item.text for item in found.items], question
        assert found.tokens <= found.budget


def test_turns_with_names_of_100_kB_are_told_apart(store: Store) -> None:
    found = store.memory.recall(ASKED[0][0], k=20, project="labels")
    assert ASKED[0][1] in [item.text for item in found.items]
    talk = [item for item in found.items if item.speaker]
    assert len({item.turns for item in talk}) == len({item.speaker for item in talk}) == len(TALK)


def test_json_nested_too_deep_is_refused_by_its_line(tmp_path: Path, cache: Path) -> None:
    """The one thing here that is no text: the parser takes no more than it can walk."""
    log = tmp_path / "nested.jsonl"
    deep = '{"text": "x", "more": ' + "[" * 10_000 + "]" * 10_000 + "}"
    log.write_text("".join(json.dumps(turn) + "\n" for turn in _talk()) + deep + "\n")
    report = ingest(tmp_path / "store", [log], load())
    assert [(problem["path"], problem["reason"].partition(" (")[0]) for problem in report.refused] == [
        (f"{log}:{len(TALK) + 1}", "not valid JSON")
    ]
    assert report.items == len(TALK)
