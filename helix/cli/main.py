"""The `helix` command. Subcommands are entry points (`helix.commands`), loaded only when called.

An agent's hook waits for this module: what only some commands need is imported where they need it.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence

from helix.cli.parser import JSON, STORE, Help, suggestion
from helix.cli.registry import COMMANDS, commands, find, summary
from helix.errors import HelixError, StoreError, UsageError

EXAMPLES = """\
  helix ingest ~/.claude/projects --store memory
  helix recall "why did we pick sqlite" --store memory
  helix status --store memory"""


def main(argv: Sequence[str] | None = None) -> int:
    """Run one subcommand; returns the exit status of CONTRACT: 0 done, 2 usage, 3 some inputs refused, 4 bad store."""
    if "_ARGCOMPLETE" in os.environ:  # a shell asks what may stand at the cursor
        from helix.cli.completion import complete

        complete()
    arguments = list(sys.argv[1:] if argv is None else argv)
    if arguments[:1] == ["help"]:
        arguments = [*arguments[1:], "--help"]
    name, rest = arguments[0] if arguments else "", arguments[1:]
    try:
        status = _run(name, rest)
        sys.stdout.flush()  # now, while a reader that went away is still ours to deal with
        return status
    except HelixError as error:
        return _fail(name, error)
    except ModuleNotFoundError as error:
        from helix.util.extras import install

        return _fail(name, install(error))
    except BrokenPipeError:
        # The reader of our output went away (`| head`): not an error, but stdout must not be flushed again.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    except OSError as error:
        where = f" ({error.filename})" if error.filename else ""
        return _fail(name, StoreError(f"{error.strerror or error}{where}", "check permissions and free space"))
    except KeyboardInterrupt:
        print(f"helix {name}: stopped", file=sys.stderr)
        return 130


def _run(name: str, rest: Sequence[str]) -> int:
    if name in ("", "-h", "--help"):
        _show_help(_overview())
        return 0 if name else 2
    if name == "--version":
        from helix import __version__

        print(f"helix {__version__}")
        return 0
    if command := find(name):
        try:
            return command(rest)
        except Help as asked:
            _show_help(asked.parser.format_help())
            return 0
    remedy = suggestion(name, [*commands(), "--version", "--help"])
    return _fail("", UsageError(f"no command {name!r}", remedy or "'helix --help' lists them"))


def _fail(name: str, error: HelixError) -> int:
    """Say on stderr what went wrong, in one line; returns the exit status."""
    from helix.cli.terminal import complain

    complain(f"helix {name}".rstrip(), str(error))
    return error.exit_status


def _show_help(text: str) -> None:
    from helix.cli.terminal import show_help

    show_help(text)


def _overview() -> str:
    """What `helix --help` says: every command that is installed, by what it is for."""
    found = commands()
    groups = {title: {name: said for name, said in group.items() if name in found} for title, group in COMMANDS.items()}
    ours = {name for group in groups.values() for name in group}
    groups["of other packages"] = {name: summary(found[name]) for name in sorted(found.keys() - ours)}
    lines = ["usage: helix COMMAND [OPTION …]", "", "Memory for coding agents and assistants.", ""]
    for title, group in groups.items():
        if group:
            lines += [f"{title}:", *(f"  {name:<11} {said}" for name, said in group.items()), ""]
    return "\n".join(
        [
            *lines,
            "options of every command:",
            f"  --store DIR  {STORE}",
            f"  --json       {JSON}",
            "  -h, --help   what the command does, its options, and examples",
            "",
            "helix --version says which one this is.",
            "",
            "examples:",
            EXAMPLES,
        ]
    )


if __name__ == "__main__":
    sys.exit(main())
