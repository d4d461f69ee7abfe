"""Keys by which steps are found again: of commands, files, failures and commits.

A key is a kind and one or two texts. A file is known by the ends of its path, since a work tree may lie anywhere:
`/srv/app/src/queue.py` has the keys `queue.py`, `src/queue.py` and `app/src/queue.py`; the longest that meets counts.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

from helix.text.failures import Failure, find_failures
from helix.text.shell import find_main, is_reading, normalise_command
from helix.types import Fault, Step

Key = tuple[str, ...]

PATH_NAMES: Final = 4
"""Names of a path's end that are keys, at most."""

MIN_LETTERS: Final = 10
"""Letters that a message has at least: a shorter one names no failure."""

_LETTER: Final = re.compile(r"[a-z]")
_CLASS: Final = re.compile(r"\w*[a-z](?:error|exception|failure|fault|interrupt)|e[a-z]{3,14}|[a-z]{1,6}\d{2,6}")
_SHORT_DIGEST: Final = 7


def list_step_keys(step: Step) -> list[Key]:
    """Return the keys of a step, each once."""
    keys: list[Key] = []
    if step.action == "run" and step.target:
        keys += list_command_keys(step.target)
    elif step.action == "edit":
        keys += [("edit", end) for path in split_targets(step.target) for end in list_path_ends(path)]
    for fault in step.faults:
        keys += list_fault_keys(fault)
        keys += [("fails in", end) for end in list_path_ends(fault.place.partition(":")[0])]
    if step.action == "correct":
        keys.append(("corrects", step.target))
    keys += [("commit", digest[:_SHORT_DIGEST]) for digest in step.commits]
    return list(dict.fromkeys(keys))


def list_command_keys(line: str) -> list[Key]:
    """Return the keys of a command line: the whole, then each of its programs; none for one that only reads."""
    if is_reading(line):
        return []
    names = dict.fromkeys(program.name for program in find_main(line))
    tests = [("tests",)] if any(program.runs_tests for program in find_main(line)) else []
    return [("command", normalise_command(line)), *(("program", name) for name in names), *tests]


def list_path_ends(path: str) -> list[str]:
    """Return the ends of a path, the longest first; none for what is no path."""
    names = [name for name in path.strip().replace("\\", "/").split("/") if name not in ("", ".", "~")]
    if not names or len(path) > 400 or not re.search(r"\w", names[-1]):
        return []
    return ["/".join(names[-n:]) for n in range(min(len(names), PATH_NAMES), 0, -1)]


def split_targets(target: str) -> list[str]:
    """Return the files that a target names: a patch may name several."""
    return [path for path in target.split(", ") if path.strip()]


def list_fault_keys(fault: Fault) -> list[Key]:
    """Return the keys of a failure, the closest first."""
    keys: list[Key] = []
    if fault.place:
        keys.append(("failure in", fault.kind, f"{fault.place.rpartition('/')[2]}\n{fault.message}"))
    if fault.message or len(fault.kind) >= MIN_LETTERS:
        keys.append(("failure", fault.kind, fault.message))
    if len(_LETTER.findall(fault.message)) >= MIN_LETTERS and " " in fault.message:
        keys.append(("message", fault.message))
    if is_class(fault.kind):
        keys.append(("class", fault.kind))
    if len(_LETTER.findall(fault.loose)) >= MIN_LETTERS and fault.loose != fault.message:
        keys.append(("loose", fault.kind, fault.loose))
    return keys


def is_class(kind: str) -> bool:
    """Return whether a failure's kind says which: the class of an exception, a code of the system or a compiler."""
    return bool(_CLASS.fullmatch(kind))


def to_faults(found: list[Failure]) -> tuple[Fault, ...]:
    """Return failures as the fields of a step."""
    return tuple(
        Fault(one.line, one.kind, one.message.replace("\x00", ""), one.loose.replace("\x00", ""), one.place)
        for one in found
    )


def read_faults(text: str) -> tuple[Fault, ...]:
    """Return the failures that a text of any origin tells, such as a question that quotes one."""
    return to_faults(find_failures(text))


def iterate_levels(faults: tuple[Fault, ...]) -> Iterator[tuple[int, Key]]:
    """Yield (level, key) of failures: 0 for the closest keys, and more for looser ones."""
    order = {"failure in": 0, "failure": 1, "message": 2, "loose": 3, "class": 4}
    for fault in faults:
        for key in list_fault_keys(fault):
            yield order[key[0]], key
