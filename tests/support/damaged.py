"""Arrays of a store with other values, dtypes and lengths, whose digests are right again, under the real reader.

`python -m tests.support.damaged STORE WORK SEED [quick]` tries them one by one. Each store is opened and asked: what
comes is an answer or a HelixError. A process that is ended by a signal or a sanitiser has said which file it was at.
"""

from __future__ import annotations

import hashlib
import io
import json
import os
import random
import shutil
import sys
import traceback
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import orjson
import pyarrow as pa

import helix.snapshot.checked_arrays
from helix.errors import HelixError
from helix.sdk.memory import Memory
from helix.settings import load
from helix.snapshot import manifest as manifests
from helix.snapshot.reader.snapshot import Snapshot
from tests.support.kernels import EXTREME, ODD

QUESTIONS = ("What did I tell Priya about vacation?", "why sqlite and not postgres", "who works with Marco")
PROFILES = ("helix-paper", "engram", "memoria", "annie", "cems")
OF_KERNELS = ("vectors.", "terms.", "order.", "mention", "sessions.", "link", "ids.", "facts.", "titles.")
Array = np.ndarray[Any, Any]


def other_kinds(array: Array) -> Iterator[tuple[str, Array]]:
    """The same numbers in another dtype, or fewer, more, or otherwise arranged ones."""
    for dtype in ("uint8", "int32", "int64", "uint64", "float32", "float64", array.dtype.newbyteorder()):
        if array.dtype != dtype:
            with np.errstate(all="ignore"):
                yield f"as {dtype}", array.astype(dtype)
    yield "no numbers", array[:0]
    yield "half", array[: len(array) // 2]
    yield "twice", np.concatenate([array, array])
    yield "one axis", array.reshape(-1)[: array.size // 2] if array.ndim > 1 else array[:, None]
    if array.ndim > 1:
        yield "one dimension", np.ascontiguousarray(array[:, :1])


def other_values(array: Array, rng: random.Random, rounds: int) -> Iterator[tuple[str, Array]]:
    """The same kind of array with numbers that lead anywhere: some, all, or in another order."""
    for i in range(rounds):
        changed = array.copy()
        flat = changed.reshape(-1)
        if not len(flat):
            return
        if i == 0:
            np.random.default_rng(rng.randrange(1 << 30)).shuffle(flat)
            yield "shuffled", changed
            continue
        value = rng.choice(ODD if flat.dtype.kind == "f" else [*EXTREME, len(flat), len(flat) + 1])
        where = slice(None) if i == 1 else rng.choice([0, len(flat) - 1, rng.randrange(len(flat)), slice(1, -1)])
        flat[where] = value if flat.dtype.kind == "f" else _within(value, flat.dtype)
        yield f"{value} at {where}", changed


def _within(value: float, dtype: np.dtype[Any]) -> int:
    info = np.iinfo(dtype)
    return min(max(int(value), int(info.min)), int(info.max))


def copied(store: Path, work: Path) -> Path:
    """A copy to break: files are links until they are written anew."""
    shutil.rmtree(work, ignore_errors=True)
    shutil.copytree(store, work, copy_function=os.link, ignore=shutil.ignore_patterns("encoders", "inbox", "pins"))
    (work / "encoders").symlink_to(store / "encoders")
    for name in ("inbox", "pins"):
        (work / name).mkdir()
    return work


def written(root: Path, path: str, data: bytes) -> None:
    """Write a file, and a manifest that says so."""
    name = manifests.current_name(root)
    assert name is not None
    raw = orjson.loads((root / "manifests" / name).read_bytes())
    for file in _files(raw):
        if file["path"] == path:
            file |= {"bytes": len(data), "sha256": hashlib.sha256(data).hexdigest()}
    whole = orjson.dumps(raw, option=orjson.OPT_APPEND_NEWLINE)
    new = f"{name.partition('-')[0]}-{hashlib.sha256(whole).hexdigest()[:16]}.json"
    for target, content in ((path, data), (f"manifests/{new}", whole), ("CURRENT", f"{new}\n".encode())):
        (root / target).unlink(missing_ok=True)
        (root / target).write_bytes(content)


def _files(raw: Any) -> Iterator[dict[str, Any]]:
    if isinstance(raw, dict):
        if "path" in raw:
            yield raw
        for value in raw.values():
            yield from _files(value)
    elif isinstance(raw, list):
        for value in raw:
            yield from _files(value)


def asked(root: Path, whole: Snapshot, ids: list[str], *, quick: bool) -> list[tuple[str, str]]:
    """(what was asked, its error where it is no HelixError) of all that a store is asked and that ends in an error."""
    failed: list[tuple[str, str]] = []

    def ask(name: str, call: Callable[..., Any], *given: Any, **more: Any) -> Any:
        try:
            return call(*given, **more)
        except Exception as error:  # noqa: BLE001  every class is told
            frame = traceback.extract_tb(error.__traceback__)[-1]
            told = "" if isinstance(error, HelixError) else f", {Path(frame.filename).name}:{frame.lineno}"
            failed.append((name, f"{type(error).__name__}{told}: {str(error)[:100]}" if told else ""))
            return None

    memory = ask("open", Memory, root, load({"HELIX_ANSWERS": "0", "HELIX_THREADS": "1"}), warm=False)
    if memory is None:
        return failed
    memory.snapshot.__dict__ |= {"encoder": whole.encoder, "counter": whole.counter}
    for question in QUESTIONS:
        ask(question, memory.recall, question)
    if quick:
        return failed
    ask("warm", memory.snapshot.warm)
    for profile in PROFILES:
        ask(profile, memory.recall, QUESTIONS[0], profile=profile)
    ask("filtered", memory.recall, QUESTIONS[1], project="ledgerline", since="2020-01-01", until="2030-01-01")
    ask("as of", memory.recall, QUESTIONS[1], as_of="2026-03-01")
    ask("explained", memory.recall, QUESTIONS[1], explain=True)
    ask("asker", memory.recall, QUESTIONS[1], principal="ana")
    for identity in ids:
        for browse in (memory.item, memory.around, memory.neighbours):
            ask(browse.__name__, browse, identity)
    ask("timeline", memory.timeline)
    ask("facts", memory.facts, "Priya")
    ask("choices", memory.choices)
    return failed


def in_heap(path: Path) -> pa.Buffer:
    """A file as a piece of the heap: a sanitiser sees where that ends, of a mapping it does not."""
    return pa.py_buffer(bytearray(path.read_bytes()))


def cases(store: Path, rng: random.Random, *, quick: bool) -> Iterator[tuple[str, str, bytes]]:
    """(path in the store, what is other about it, the file that takes its place), of every array and column."""
    rounds = 3 if quick else 8
    for path in sorted(str(path.relative_to(store)) for path in store.glob("[si]*s/**/*.npy")):
        if quick and not path.rpartition("/")[2].startswith(OF_KERNELS):
            continue
        array = np.load(store / path)
        for how, other in (*(() if quick else other_kinds(array)), *other_values(array, rng, rounds)):
            data = io.BytesIO()
            np.save(data, other)
            yield path, how, data.getvalue()
    for path in () if quick else sorted(str(path.relative_to(store)) for path in store.glob("segments/*/*.arrow")):
        table = pa.ipc.open_file(store / path).read_all().combine_chunks()
        for i, field in enumerate(table.schema):
            if (pa.types.is_integer(field.type) or pa.types.is_floating(field.type)) and not table[i].null_count:
                for how, other in other_values(np.array(table[i].to_numpy()), rng, rounds):
                    column = pa.array(other).cast(field.type, safe=False)
                    yield path, f"{field.name} {how}", _ipc(table.set_column(i, field, column))


def _ipc(table: pa.Table) -> bytes:
    sink = pa.BufferOutputStream()
    with pa.ipc.new_file(sink, table.schema) as writer:
        writer.write_table(table)
    return bytes(sink.getvalue())


def main(store: Path, work: Path, seed: int, *, quick: bool) -> int:
    """Try them all; foreign errors go to stdout, one a line, then what was done."""
    if "asan" in os.environ.get("LD_PRELOAD", ""):
        helix.snapshot.checked_arrays.map_file = in_heap
    done, memory = Counter[str](), Memory(store)
    ids = [item.id for item in memory.recall(QUESTIONS[0], k=3).items]
    for path, how, data in cases(store, random.Random(seed), quick=quick):
        sys.stderr.write(f"{path} {how}\n")
        sys.stderr.flush()
        written(copied(store, work), path, data)
        failed = dict(asked(work, memory.snapshot, ids, quick=quick))
        foreign = {name: error for name, error in failed.items() if error}
        done["foreign" if foreign else "refused" if failed else "answered"] += 1
        if foreign:
            sys.stdout.write(json.dumps({"file": path, "how": how, **foreign}) + "\n")
    sys.stdout.write(json.dumps(done) + "\n")
    return 1 if done["foreign"] else 0


if __name__ == "__main__":
    np.seterr(all="ignore")
    sys.exit(main(Path(sys.argv[1]), Path(sys.argv[2]), int(sys.argv[3]), quick=sys.argv[4:] == ["quick"]))
