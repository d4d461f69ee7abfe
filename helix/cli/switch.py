"""`helix off` and `helix on`: keep a project or a session out of the store, and end that."""

from __future__ import annotations

import os
from collections.abc import Sequence

from helix.cli.parser import Parser, build_parser, print_json, resolve_store
from helix.cli.terminal import print_note, print_text
from helix.errors import UsageError
from helix.switches import state
from helix.switches.project_line import find_line
from helix.switches.scope import get_last_part, make_scope, matches
from helix.switches.words import describe_off, describe_on, name_option
from helix.util.repositories import find_repository
from helix.util.sanitise import sanitise_name

TYPE_CHECKING = False  # `typing` imports slowly
if TYPE_CHECKING:
    import argparse

    from helix.switches.state import Switch


def run_off(argv: Sequence[str]) -> int:
    """Keep a project or a session out of the store from now on; by default the project of the current folder.

    Hooks add nothing to it, and nothing said in it is stored, also by a later ingest of the same logs. Earlier items
    stay. A line `helix: off` in the project's AGENTS.md, CLAUDE.md, GEMINI.md or .helix does the same,
    and so does the prompt `helix off` for its session.
    """
    options = _parse("off", run_off.__doc__ or "", argv)
    root, target = resolve_store(options), _find_target(options)
    changed = state.switch_off(root, target)
    text = describe_off(target, changed, _name_return(options, target))
    _print_result(options, target, {"off": True, "changed": changed}, text)
    return 0


def run_on(argv: Sequence[str]) -> int:
    """Switch Helix on again for a project or a session; by default the project of the current folder.

    What was said while it was off stays out.
    """
    options = _parse("on", run_on.__doc__ or "", argv)
    root, target = resolve_store(options), _find_target(options)
    folders = [target["folder"]] if target["folder"] else []
    named = [] if folders else [target["project"]]
    scope = make_scope(folders, [target["session"]], named, [target["remote"]])
    closed = state.switch_on(root, lambda switch: matches(switch, scope))
    text = describe_on(target, closed)
    line = find_line(os.getcwd()) if folders else ""  # noqa: PTH109
    _print_result(options, target, {"off": bool(line), "changed": bool(closed), "line": line or None}, text)
    if line:
        print_note(f"Helix stays off here: {sanitise_name(line)} says 'helix: off'; remove that line")
    return 0


def _parse(name: str, describe: str, argv: Sequence[str]) -> argparse.Namespace:
    examples = (
        f"  helix {name}                      # the project of this folder\n"
        f"  helix {name} --project ledgerline\n"
        f"  helix {name} --session 5f0c2b7e-3d41-4c86-9a17-6e2f8d90b3a4"
    )
    new: Parser = build_parser(name, describe, examples)
    new.add_argument("--project", metavar="P", help="a project by its name")
    new.add_argument("--session", metavar="S", help="a session by its id")
    options: argparse.Namespace = new.parse_args(argv)
    if options.project and options.session:
        raise UsageError("--project and --session are two switches", f"run 'helix {name}' once for each")
    for option in ("project", "session"):
        if getattr(options, option) is not None and not getattr(options, option).strip():
            raise UsageError(f"--{option} is empty", f"name the {option}, or leave the option out")
    return options


def _find_target(options: argparse.Namespace) -> Switch:
    """Return the switch that the options name, else that of the current folder's project.

    Raises:
        UsageError: the current folder is no project.
    """
    if options.session or options.project:
        return state.make_target(session=(options.session or "").strip(), project=(options.project or "").strip())
    here = os.getcwd()  # noqa: PTH109
    top, remote = find_repository(here)
    folder = top or here
    if folder in ("/", os.path.realpath(os.path.expanduser("~"))):  # noqa: PTH111
        raise UsageError(f"{folder} is no project", "go to the project's folder, or name it with --project")
    return state.make_target(project=get_last_part(remote or folder), folder=folder, remote=remote)


def _name_return(options: argparse.Namespace, target: Switch) -> str:
    return f"helix on {name_option(target)}" if options.project or options.session else "helix on"


def _print_result(options: argparse.Namespace, target: Switch, found: dict[str, object], text: str) -> None:
    if options.json:
        named = {part: target[part] or None for part in ("project", "session", "folder", "remote")}
        print_json({"store": str(resolve_store(options)), **named, **found, "message": text})
        return
    print_text(text)
    if not (resolve_store(options) / "manifests").is_dir():
        print_note(f"there is no store at {resolve_store(options)} yet; the switch waits there")
