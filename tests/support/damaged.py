"""Stores with one changed array each, and matching digests, under the real reader.

`python -m tests.support.damaged STORE WORK SEED [quick]` opens and questions them one by one. Each call must end in an
answer or a HelixError. The name of each file goes to stderr first, for processes that a signal or a sanitiser ends.
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
KERNEL_ARRAYS = ("vectors.", "terms.", "order.", "mention", "sessions.", "link", "ids.", "facts.", "titles.", "tokens.")
Array = np.ndarray[Any, Any]


def change_kind(array: Array) -> Iterator[tuple[str, Array]]:
    """Yield the same numbers in another dtype, number or shape."""
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


def change_values(array: Array, rng: random.Random, rounds: int) -> Iterator[tuple[str, Array]]:
    """Yield arrays of the same kind with extreme numbers, or in another order."""
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
        flat[where] = value if flat.dtype.kind == "f" else _clip(value, flat.dtype)
        yield f"{value} at {where}", changed


def _clip(value: float, dtype: np.dtype[Any]) -> int:
    info = np.iinfo(dtype)
    return min(max(int(value), int(info.min)), int(info.max))


def copy_store(store: Path, work: Path) -> Path:
    """Copy a store; files are links until they are replaced."""
    shutil.rmtree(work, ignore_errors=True)
    shutil.copytree(store, work, copy_function=os.link, ignore=shutil.ignore_patterns("encoders", "inbox", "pins"))
    (work / "encoders").symlink_to(store / "encoders")
    for name in ("inbox", "pins"):
        (work / name).mkdir()
    return work


def replace_file(root: Path, path: str, data: bytes) -> None:
    """Replace a file, and the manifest with its digest."""
    name = manifests.read_current(root)
    assert name is not None
    raw = orjson.loads((root / "manifests" / name).read_bytes())
    for file in _list_files(raw):
        if file["path"] == path:
            file |= {"bytes": len(data), "sha256": hashlib.sha256(data).hexdigest()}
    whole = orjson.dumps(raw, option=orjson.OPT_APPEND_NEWLINE)
    new_name = f"{name.partition('-')[0]}-{hashlib.sha256(whole).hexdigest()[:16]}.json"
    for target, content in ((path, data), (f"manifests/{new_name}", whole), ("CURRENT", f"{new_name}\n".encode())):
        (root / target).unlink(missing_ok=True)
        (root / target).write_bytes(content)


def _list_files(raw: Any) -> Iterator[dict[str, Any]]:
    if isinstance(raw, dict):
        if "path" in raw:
            yield raw
        for value in raw.values():
            yield from _list_files(value)
    elif isinstance(raw, list):
        for value in raw:
            yield from _list_files(value)


def question_store(root: Path, whole: Snapshot, ids: list[str], *, quick: bool) -> list[tuple[str, str]]:
    """Return (call, its error, "" for a HelixError) of each call on a store that ends in an error."""
    failed: list[tuple[str, str]] = []

    def ask(name: str, call: Callable[..., Any], *given: Any, **more: Any) -> Any:
        try:
            return call(*given, **more)
        except Exception as error:  # noqa: BLE001  every class is reported
            frame = traceback.extract_tb(error.__traceback__)[-1]
            place = "" if isinstance(error, HelixError) else f", {Path(frame.filename).name}:{frame.lineno}"
            failed.append((name, f"{type(error).__name__}{place}: {str(error)[:100]}" if place else ""))
            return None

    memory = ask("open", Memory, root, load({"HELIX_ANSWERS": "0", "HELIX_THREADS": "1"}), warm=False)
    if memory is None:
        return failed
    memory.snapshot.files.__dict__ |= {"encoder": whole.encoder, "counter": whole.counter}
    for question in QUESTIONS:
        ask(question, memory.recall, question)
    ask("late", memory.recall, QUESTIONS[0], rerank="late")
    if quick:
        return failed
    ask("warm", memory.snapshot.warm)
    for profile in PROFILES:
        ask(profile, memory.recall, QUESTIONS[0], profile=profile)
    ask("filtered", memory.recall, QUESTIONS[1], project="ledgerline", since="2020-01-01", until="2030-01-01")
    ask("as of", memory.recall, QUESTIONS[1], as_of="2026-03-01")
    ask("explained", memory.recall, QUESTIONS[1], explain=True)
    ask("principal", memory.recall, QUESTIONS[1], principal="ana")
    for identity in ids:
        for browse in (memory.item, memory.around, memory.neighbours):
            ask(browse.__name__, browse, identity)
    ask("timeline", memory.timeline)
    ask("facts", memory.facts, "Priya")
    ask("decisions", memory.decisions)
    ask("choices", memory.choices)
    return failed


def read_file(path: Path) -> pa.Buffer:
    """Read a file to the heap, where a sanitiser sees its end; in a mapping it does not."""
    return pa.py_buffer(bytearray(path.read_bytes()))


def list_changes(store: Path, rng: random.Random, *, quick: bool) -> Iterator[tuple[str, str, bytes]]:
    """Yield (path in the store, description, new content) of every array and column."""
    rounds = 3 if quick else 8
    for path in sorted(str(path.relative_to(store)) for path in store.glob("[si]*s/**/*.npy")):
        if quick and not path.rpartition("/")[2].startswith(KERNEL_ARRAYS):
            continue
        array = np.load(store / path)
        for how, other in (*(() if quick else change_kind(array)), *change_values(array, rng, rounds)):
            data = io.BytesIO()
            np.save(data, other)
            yield path, how, data.getvalue()
    for path in () if quick else sorted(str(path.relative_to(store)) for path in store.glob("segments/*/*.arrow")):
        table = pa.ipc.open_file(store / path).read_all().combine_chunks()
        for i, field in enumerate(table.schema):
            if (pa.types.is_integer(field.type) or pa.types.is_floating(field.type)) and not table[i].null_count:
                for how, other in change_values(np.array(table[i].to_numpy()), rng, rounds):
                    column = pa.array(other).cast(field.type, safe=False)
                    yield path, f"{field.name} {how}", _encode_table(table.set_column(i, field, column))


def _encode_table(table: pa.Table) -> bytes:
    sink = pa.BufferOutputStream()
    with pa.ipc.new_file(sink, table.schema) as writer:
        writer.write_table(table)
    return bytes(sink.getvalue())


def main(store: Path, work: Path, seed: int, *, quick: bool) -> int:
    """Question all changed stores; print foreign errors, one a line, then the counts."""
    if "asan" in os.environ.get("LD_PRELOAD", ""):
        helix.snapshot.checked_arrays.map_file = read_file
    done, memory = Counter[str](), Memory(store)
    ids = [item.id for item in memory.recall(QUESTIONS[0], k=3).items]
    for path, how, data in list_changes(store, random.Random(seed), quick=quick):
        sys.stderr.write(f"{path} {how}\n")
        sys.stderr.flush()
        replace_file(copy_store(store, work), path, data)
        failed = dict(question_store(work, memory.snapshot, ids, quick=quick))
        foreign = {name: error for name, error in failed.items() if error}
        done["foreign" if foreign else "refused" if failed else "answered"] += 1
        if foreign:
            sys.stdout.write(json.dumps({"file": path, "how": how, **foreign}) + "\n")
    sys.stdout.write(json.dumps(done) + "\n")
    return 1 if done["foreign"] else 0


if __name__ == "__main__":
    np.seterr(all="ignore")
    sys.exit(main(Path(sys.argv[1]), Path(sys.argv[2]), int(sys.argv[3]), quick=sys.argv[4:] == ["quick"]))
