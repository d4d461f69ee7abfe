"""`helix completion`: what a TAB completes in bash, zsh and fish.

At a TAB the shell runs `helix` with `_ARGCOMPLETE` set, and argcomplete answers from the parser of the command on the
line: nothing of it is written down twice. Somebody waits, so this imports next to nothing, and reads of a store only
what it needs: no numpy, no DuckDB. Whatever goes wrong, nothing is completed, and nothing is said.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any, NoReturn

from helix.cli.parser import Help, Parser, parser, print_json
from helix.cli.registry import COMMANDS, find

SHELLS = ("bash", "zsh", "fish")


def completion(argv: Sequence[str]) -> int:
    """Print what has a shell complete commands, options, files, and the names a store knows, at TAB.

    Of a store (--store on the line, else HELIX_STORE) these are projects, speakers and generations.
    """
    new = parser(
        "completion",
        completion.__doc__ or "",
        "  helix completion bash > ~/.local/share/bash-completion/completions/helix    # with bash-completion\n"
        "  helix completion bash >> ~/.bashrc                                          # without\n"
        '  helix completion zsh > "${fpath[1]}/_helix"                                 # compinit in ~/.zshrc\n'
        "  helix completion fish > ~/.config/fish/completions/helix.fish\n\n"
        "Each shell that is begun after that completes.",
    )
    new.add_argument("shell", choices=SHELLS, metavar="SHELL", help=", ".join(SHELLS))
    options = new.parse_args(argv)
    from argcomplete.shell_integration import shellcode

    script = shellcode(["helix"], use_defaults=False, shell=options.shell)
    if options.json:
        print_json({"shell": options.shell, "script": script})
    else:
        sys.stdout.write(script)
    return 0


def complete() -> NoReturn:
    """Answer a shell that asks what may stand at the cursor, and end this process."""
    try:
        from argcomplete import autocomplete
        from argcomplete.completers import SuppressCompleter
        from argcomplete.lexers import split_line

        words = split_line(os.environ["COMP_LINE"], int(os.environ["COMP_POINT"]))[3]
        first = next((i for i, word in enumerate(words) if word.rpartition("/")[2] == "helix"), 0)
        for word in words[:first]:  # HELIX_STORE=memory helix …
            name, _, value = word.partition("=")
            if name.startswith("HELIX_"):
                os.environ[name] = value
        asked, taken = parser_of(words[first + 1 :])
        os.environ["_ARGCOMPLETE"] = str(first + taken + 1)  # where the words of this parser begin
        autocomplete(asked, always_complete_options=False, default_completer=SuppressCompleter())
    except Exception:  # noqa: BLE001 — whoever types must not be disturbed
        pass
    os._exit(1)


def parser_of(words: Sequence[str]) -> tuple[Parser, int]:
    """The parser that reads a line, and how many of its words say which one that is: ["bench", "recall"] for two.

    Args:
        words: what stands after `helix`.
    """
    command = find(words[0]) if words else None
    if command is None:
        return _overview(), 0
    kind = [word for word in words[1:2] if not word.startswith("-")]
    try:
        command([*kind, "--help"])
    except Help as asked:
        return _completed(asked.parser), len(asked.parser.prog.split()) - 1
    raise RuntimeError(f"'helix {words[0]} --help' shows no help")


def _overview() -> Parser:
    """What stands where a command is to be named."""
    new = Parser(prog="helix")
    new.add_argument("--version", action="store_true", help="which Helix this is")
    told = {name: said for group in COMMANDS.values() for name, said in group.items()}
    _complete_by(new.add_argument("command"), lambda **_: told)
    return new


def _completed(new: Parser) -> Parser:
    """The parser, with what its arguments may be: by their names, and what is a file by the name of the value."""
    for action in new._actions:
        if isinstance(action, argparse._SubParsersAction):
            for below in action.choices.values():
                _completed(below)
        elif action.choices is None and action.dest in VALUES:
            _complete_by(action, VALUES[action.dest])
        elif action.choices is None and action.metavar in FILES:
            _complete_by(action, _folders if action.metavar == "DIR" else _files)
    return new


def _complete_by(action: argparse.Action, values: Callable[..., Iterable[str]]) -> None:
    """Have argcomplete take an argument's values from a function: it looks for an attribute of this name."""
    action.completer = values  # type: ignore[attr-defined]


# ---------------------------------------------------------------- files

FILES = ("PATH", "FILE", "DIR", "URL")
"""Names of values that are looked for on the disk."""


def _files(prefix: str, **_: Any) -> list[str]:
    head, slash, tail = prefix.rpartition("/")
    with os.scandir(Path(head + slash or ".").expanduser()) as found:
        return [
            f"{head}{slash}{entry.name}{'/' if entry.is_dir() else ''}"
            for entry in found
            if entry.name.startswith(tail) and (tail or entry.name[0] != ".")
        ]


def _folders(prefix: str, **_: Any) -> list[str]:
    return [path for path in _files(prefix) if path.endswith("/")]


# ---------------------------------------------------------------- names


def _store(given: argparse.Namespace) -> Path:
    """The store that is meant, as far as the line says: as `store_of`, without the settings of everything else."""
    return Path(getattr(given, "store", None) or os.environ.get("HELIX_STORE") or "helix-store").expanduser()


def _generations(parsed_args: argparse.Namespace, **_: Any) -> list[str]:
    return [str(int(path.name[:8])) for path in (_store(parsed_args) / "manifests").glob("[0-9]*.json")]


def _in_column(name: str) -> Callable[..., set[str]]:
    """The different values of a dictionary column over the segments of the newest generation."""

    def values(parsed_args: argparse.Namespace, **_: Any) -> set[str]:
        sys.modules["numpy"] = None  # type: ignore[assignment]  # pyarrow begins twice as fast without it
        import pyarrow as pa

        from helix.snapshot.paths import read_regular

        root = _store(parsed_args)
        current = read_regular(root / "CURRENT", 256).decode().strip()  # a pipe in its place holds nobody up
        manifest = json.loads((root / "manifests" / current).read_bytes())
        found: set[str] = set()
        for segment in manifest["segments"]:
            with pa.memory_map(str(root / "segments" / segment["id"] / "columns.arrow")) as file:
                for batch in pa.ipc.open_file(file).read_all().column(name).chunks:
                    found.update(filter(None, batch.dictionary.to_pylist()))
        return {name for name in found if name.isprintable()}  # a shell shows them as they are

    return values


def _profiles(**_: Any) -> list[str]:
    own = os.environ.get("HELIX_PROFILES")
    folders = [Path(__file__).parents[1] / "recipes" / "profiles", *([Path(own).expanduser()] if own else [])]
    return [path.stem for folder in folders for path in folder.glob("*.toml")]


def _dead(parsed_args: argparse.Namespace, **_: Any) -> list[str]:
    return [path.stem for path in (_store(parsed_args) / "dead").glob("[0-9a-f]*.json")]


def _models(parsed_args: argparse.Namespace, **_: Any) -> list[str]:
    from helix.encoders.registry import MODELS

    return [] if getattr(parsed_args, "action", "") == "list" else [*MODELS]


def _formats(**_: Any) -> list[str]:
    from helix.sources.registry import FORMATS

    return ["auto", *FORMATS]


TYPES = ("episodic", "semantic", "procedural", "decision", "code")
"""As `helix.types` has them, which needs numpy."""

VALUES: dict[str, Callable[..., Iterable[str]]] = {
    "project": _in_column("project"),
    "speaker": _in_column("speaker"),
    "snapshot": _generations,
    "generation": _generations,
    "documents": _dead,
    "profile": _profiles,
    "type": lambda **_: TYPES,
    "rerank": lambda **_: ("late", "cross"),
    "tier": lambda **_: ("fast", "deep"),
    "format": _formats,
    "encoder": _models,
    "model": _models,
}
"""What an argument may be, by its name."""
