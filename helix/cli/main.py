"""The `helix` command. It imports only the called subcommand, by its entry point (`helix.commands`).

Agent hooks wait for this module, so rare needs are imported inside functions.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence

from helix.cli.parser import JSON, STORE, HelpRequest, suggest_name
from helix.cli.registry import COMMANDS, find_command, list_commands, read_summary
from helix.errors import HelixError, StoreError, UsageError

FIRST_STEPS = """\
first steps:
  helix init             find the agents' logs, ingest them, connect the agents
  helix recall QUESTION  find what was said, decided or fixed
  helix status           see what is searchable, what waits, what is wrong"""

EXAMPLES = """\
  helix ingest ~/.claude/projects --store memory
  helix recall "why did we pick sqlite" --store memory
  helix status --store memory"""


def main(argv: Sequence[str] | None = None) -> int:
    """Run one subcommand.

    Returns:
        The exit status of CONTRACT: 0 done, 2 wrong usage, 3 some inputs refused, 4 unusable store.
    """
    if "_ARGCOMPLETE" in os.environ:  # a shell asks for completions
        from helix.cli.completion import answer_shell

        answer_shell()
    arguments = list(sys.argv[1:] if argv is None else argv)
    if arguments[:1] == ["help"]:
        arguments = [*arguments[1:], "--help"]
    name, rest = arguments[0] if arguments else "", arguments[1:]
    try:
        status = _run(name, rest)
        sys.stdout.flush()  # here, so that a closed pipe raises inside this `try`
        return status
    except HelixError as error:
        return _report(name, error)
    except ModuleNotFoundError as error:
        from helix.sdk.extras import explain_missing_package

        return _report(name, explain_missing_package(error))
    except BrokenPipeError:
        # The reader of stdout ended (`| head`): no error, but Python must not flush stdout again.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    except OSError as error:
        where = f" ({error.filename})" if error.filename else ""
        return _report(name, StoreError(f"{error.strerror or error}{where}", "check permissions and free space"))
    except KeyboardInterrupt:
        print(f"helix {name}: stopped", file=sys.stderr)
        return 130


def _run(name: str, rest: Sequence[str]) -> int:
    if name in ("", "-h", "--help"):
        _show_help(_format_overview())
        return 0 if name else 2
    if name == "--version":
        from helix.util.version import VERSION

        print(f"helix {VERSION}")
        return 0
    if command := find_command(name):
        try:
            return command(rest)
        except HelpRequest as request:
            _show_help(request.parser.format_help())
            return 0
    remedy = suggest_name(name, [*list_commands(), "--version", "--help"])
    return _report("", UsageError(f"no command {name!r}", remedy or "'helix --help' lists them"))


def _report(name: str, error: HelixError) -> int:
    """Print an error as one line on stderr; return its exit status."""
    from helix.cli.terminal import print_error

    print_error(f"helix {name}".rstrip(), str(error))
    return error.exit_status


def _show_help(text: str) -> None:
    from helix.cli.terminal import show_help

    show_help(text)


def _format_overview() -> str:
    """Return the text of `helix --help`: every installed command, in groups."""
    present = list_commands()
    groups = {
        title: {name: about for name, about in group.items() if name in present} for title, group in COMMANDS.items()
    }
    own = {name for group in groups.values() for name in group}
    groups["of other packages"] = {name: read_summary(present[name]) for name in sorted(present.keys() - own)}
    lines = ["usage: helix COMMAND [OPTION …]", "", "Memory for coding agents and assistants.", "", FIRST_STEPS, ""]
    for title, group in groups.items():
        if group:
            lines += [f"{title}:", *(f"  {name:<11} {about}" for name, about in group.items()), ""]
    return "\n".join(lines) + (
        f"""
options of every command:
  --store DIR  {STORE}
  --json       {JSON}
  -h, --help   what the command does, its options, and examples

helix --version prints the version.

examples:
{EXAMPLES}"""
    )


if __name__ == "__main__":
    sys.exit(main())
