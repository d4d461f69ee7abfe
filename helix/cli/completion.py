"""`helix completion`: completion at TAB in bash, zsh and fish.

At TAB the shell runs `helix` with `_ARGCOMPLETE` set. argcomplete then answers from the command's own parser. A person
waits, so this module imports neither numpy nor DuckDB. An error prints nothing and completes nothing.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any, NoReturn

from helix.cli.parser import HelpRequest, Parser, build_parser, print_json
from helix.cli.registry import COMMANDS, find_command

SHELLS = ("bash", "zsh", "fish")


def completion(argv: Sequence[str]) -> int:
    """Print a script that lets a shell complete commands, options, files and names of the store.

    Names are the projects, speakers and generations of --store, else of HELIX_STORE.
    """
    new = build_parser(
        "completion",
        completion.__doc__ or "",
        "  helix completion bash > ~/.local/share/bash-completion/completions/helix    # with bash-completion\n"
        "  helix completion bash >> ~/.bashrc                                          # without\n"
        '  helix completion zsh > "${fpath[1]}/_helix"                                 # compinit in ~/.zshrc\n'
        "  helix completion fish > ~/.config/fish/completions/helix.fish\n\n"
        "New shells complete; open ones need a restart.",
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


def answer_shell() -> NoReturn:
    """Print the completions at the cursor, and end this process."""
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
        parser, consumed = find_parser(words[first + 1 :])
        os.environ["_ARGCOMPLETE"] = str(first + consumed + 1)  # index of the parser's first word
        autocomplete(parser, always_complete_options=False, default_completer=SuppressCompleter())
    except Exception:  # noqa: BLE001 — an error must not disturb the command line
        pass
    os._exit(1)


def find_parser(words: Sequence[str]) -> tuple[Parser, int]:
    """Return the parser of a line, and the number of words that select it: 2 for ["bench", "recall"].

    Args:
        words: the words after `helix`.
    """
    command = find_command(words[0]) if words else None
    if command is None:
        return _build_overview(), 0
    kind = [word for word in words[1:2] if not word.startswith("-")]
    try:
        command([*kind, "--help"])
    except HelpRequest as request:
        _add_completers(request.parser)
        return request.parser, len(request.parser.prog.split()) - 1
    raise RuntimeError(f"'helix {words[0]} --help' shows no help")


def _build_overview() -> Parser:
    """Return the parser of a line that has no command yet."""
    new = Parser(prog="helix")
    new.add_argument("--version", action="store_true", help="print the version")
    summaries = {name: about for group in COMMANDS.values() for name, about in group.items()}
    _set_completer(new.add_argument("command"), lambda **_: summaries)
    return new


def _add_completers(parser: Parser) -> None:
    """Set the completer of each argument, by the argument's name or metavar."""
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            for subparser in action.choices.values():
                _add_completers(subparser)
        elif action.choices is None and action.dest in VALUES:
            _set_completer(action, VALUES[action.dest])
        elif action.choices is None and action.metavar in FILES:
            _set_completer(action, _list_folders if action.metavar == "DIR" else _list_files)


def _set_completer(action: argparse.Action, values: Callable[..., Iterable[str]]) -> None:
    """Set the attribute that argcomplete reads."""
    action.completer = values  # type: ignore[attr-defined]


# ---------------------------------------------------------------- files

FILES = ("PATH", "FILE", "DIR", "URL")
"""Metavars of arguments that name files."""


def _list_files(prefix: str, **_: Any) -> list[str]:
    head, slash, tail = prefix.rpartition("/")
    with os.scandir(Path(head + slash or ".").expanduser()) as entries:
        return [
            f"{head}{slash}{entry.name}{'/' if entry.is_dir() else ''}"
            for entry in entries
            if entry.name.startswith(tail) and (tail or entry.name[0] != ".")
        ]


def _list_folders(prefix: str, **_: Any) -> list[str]:
    return [path for path in _list_files(prefix) if path.endswith("/")]


# ---------------------------------------------------------------- names


def _resolve_store(parsed_args: argparse.Namespace) -> Path:
    """Return the store's path, as `parser.resolve_store` does, without loading settings."""
    from helix.util.store_place import find_store

    return Path(find_store(getattr(parsed_args, "store", None)))


def _list_generations(parsed_args: argparse.Namespace, **_: Any) -> list[str]:
    return [str(int(path.name[:8])) for path in (_resolve_store(parsed_args) / "manifests").glob("[0-9]*.json")]


def _read_column(parsed_args: argparse.Namespace, name: str) -> set[str]:
    """Return the distinct values of a dictionary column in the newest generation."""
    sys.modules["numpy"] = None  # type: ignore[assignment]  # pyarrow imports twice as fast without it
    import pyarrow as pa

    from helix.snapshot.paths import read_regular

    root = _resolve_store(parsed_args)
    current = read_regular(root / "CURRENT", 256).decode().strip()  # does not block on a pipe
    manifest = json.loads((root / "manifests" / current).read_bytes())
    values: set[str] = set()
    for segment in manifest["segments"]:
        with pa.memory_map(str(root / "segments" / segment["id"] / "columns.arrow")) as file:
            table = pa.ipc.open_file(file).read_all()
            for batch in table.column(name).chunks if name in table.column_names else ():
                values.update(filter(None, batch.dictionary.to_pylist()))
    return {value for value in values if value.isprintable()}  # a shell prints them unescaped


def _list_speakers(parsed_args: argparse.Namespace, **_: Any) -> set[str]:
    return _read_column(parsed_args, "speaker")


def _list_projects(parsed_args: argparse.Namespace, **_: Any) -> set[str]:
    """Return the projects as they are shown."""
    from helix.util.workspaces import decode_workspace, name_workspace, name_workspaces

    shown = name_workspaces([decode_workspace(text) for text in _read_column(parsed_args, "workspace")])
    replaced = {name_workspace(workspace) for workspace, name in shown.items()} - set(shown.values())
    names = {*shown.values(), *_read_column(parsed_args, "project")} - replaced
    return {name for name in names if name and name.isprintable()}


def _list_profiles(**_: Any) -> list[str]:
    own = os.environ.get("HELIX_PROFILES")
    folders = [Path(__file__).parents[1] / "recipes" / "profiles", *([Path(own).expanduser()] if own else [])]
    return [path.stem for folder in folders for path in folder.glob("*.toml")]


def _list_dead(parsed_args: argparse.Namespace, **_: Any) -> list[str]:
    return [path.stem for path in (_resolve_store(parsed_args) / "dead").glob("[0-9a-f]*.json")]


def _list_models(parsed_args: argparse.Namespace, **_: Any) -> list[str]:
    from helix.encoders.registry import MODELS

    return [] if getattr(parsed_args, "action", "") == "list" else [*MODELS]


def _list_formats(**_: Any) -> list[str]:
    from helix.sources.registry import FORMATS

    return ["auto", *FORMATS]


TYPES = ("episodic", "semantic", "procedural", "decision", "code")
"""The same as `helix.types.TYPES`, whose module needs numpy."""

VALUES: dict[str, Callable[..., Iterable[str]]] = {
    "project": _list_projects,
    "speaker": _list_speakers,
    "snapshot": _list_generations,
    "generation": _list_generations,
    "documents": _list_dead,
    "profile": _list_profiles,
    "type": lambda **_: TYPES,
    "rerank": lambda **_: ("late", "cross"),
    "tier": lambda **_: ("fast", "deep"),
    "format": _list_formats,
    "encoder": _list_models,
    "model": _list_models,
}
"""Completers by the name of the argument."""
