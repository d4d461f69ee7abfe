"""SQLite: FTS5 for words, sqlite-vec for vectors, reciprocal rank fusion in SQL.

It uses APSW, as Python's own sqlite3 often lacks loadable extensions.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

import apsw
import sqlite_vec

from helix.types import F32
from pipelines.bench.peers.base import Corpus, list_content_words, make_peer, split_items

_FILE: Final = "items.db"
_MAPPED: Final = 8 << 30  # mapped bytes of the file at most; SQLite has a limit of its own
_SCHEMA: Final = """
create table items(id integer primary key, project text not null, bits blob not null);
create index items_project on items(project);
create table vectors(id integer primary key, vector blob not null);
create virtual table words using fts5(text, tokenize = 'porter unicode61');
"""

# The nearest by signs, then by cosine. Its functions over plain tables: a vec0 table of bits took 30 ms for 200
# candidates and 300 ms for 4,096 where this took 13 and 31, and 66 ms for the nearest 100 of float32 (10^5 items).
_NEAREST: Final = """
near as (
  select id from items {where}
  order by vec_distance_hamming(vec_bit(bits), vec_quantize_binary(:vector)) limit :candidates
),
dense as (
  select id, row_number() over (order by distance, id) as place from (
    select id, vec_distance_cosine(vector, :vector) as distance from near join vectors using (id)
    order by distance, id limit :k
  )
)"""
_DENSE: Final = f"with {_NEAREST.format(where='')} select id from dense order by place"
_HYBRID: Final = """
with {nearest},
lexical as (
  select id, row_number() over (order by score, id) as place from (
    select words.rowid as id, words.rank as score from words {join}
    where words match :words {where} order by words.rank limit :k
  )
)
select id from (select * from dense union all select * from lexical)
group by id order by sum(1.0 / (60 + place)) desc, id limit :k
"""
_ALL: Final = _HYBRID.format(nearest=_NEAREST.format(where=""), join="", where="")
_ONE: Final = _HYBRID.format(
    nearest=_NEAREST.format(where="where project = :project"),
    join="join items on items.id = words.rowid",
    where="and items.project = :project",
)


def _connect(folder: Path) -> Any:
    connection = apsw.Connection(str(folder / _FILE))
    connection.enable_load_extension(True)
    connection.load_extension(sqlite_vec.loadable_path())
    connection.enable_load_extension(False)
    connection.execute(f"pragma mmap_size = {_MAPPED}")
    return connection


def _build_index(corpus: Corpus, folder: Path, say: Callable[[str], None]) -> None:
    connection = _connect(folder)
    connection.execute(_SCHEMA)
    for start, stop in split_items(corpus.n):
        with connection:
            ids, vectors = range(start, stop), [vector.tobytes() for vector in corpus.vectors(start, stop)]
            rows = zip(ids, corpus.project(start, stop), vectors, strict=True)
            connection.executemany("insert into items values (?, ?, vec_quantize_binary(?))", rows)
            connection.executemany("insert into vectors values (?, ?)", zip(ids, vectors, strict=True))
            texts = zip(ids, corpus.texts(start, stop), strict=True)
            connection.executemany("insert into words(rowid, text) values (?, ?)", texts)
    connection.execute("insert into words(words) values ('optimize')")
    connection.execute("analyze")
    connection.close()


class _SqliteSearcher:
    def __init__(self, folder: Path) -> None:
        self.connection = _connect(folder)
        self.candidates = PEER.efforts[0]

    def hybrid(self, vector: F32, text: str, k: int, project: str | None = None) -> list[int]:
        # Operators are upper case, so no word is one; the empty phrase has no match.
        words = " OR ".join(dict.fromkeys(list_content_words(text))) or '""'
        values = {**self._bind(vector, k), "words": words}
        if project is None:
            return self._search(_ALL, values)
        return self._search(_ONE, {**values, "project": project})

    def dense(self, vector: F32, k: int) -> list[int]:
        return self._search(_DENSE, self._bind(vector, k))

    def _bind(self, vector: F32, k: int) -> dict[str, Any]:
        return {"vector": vector.tobytes(), "candidates": max(self.candidates, k), "k": k}

    def _search(self, query: str, values: dict[str, Any]) -> list[int]:
        return [row[0] for row in self.connection.execute(query, values)]

    def set_effort(self, effort: int) -> None:
        self.candidates = effort

    def close(self) -> None:
        self.connection.close()


PEER: Final = make_peer("sqlite", _build_index, _SqliteSearcher)
