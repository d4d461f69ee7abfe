"""`helix eval replay`: what hooks would have added to prompts and tool calls, replayed over logs."""

from __future__ import annotations

import tempfile
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from helix.cli.parser import build_parser, print_json
from helix.cli.terminal import print_note, print_table, print_text
from helix.settings import load

if TYPE_CHECKING:
    from helix.settings import Settings
    from pipelines.eval.replay.logs import Logs


def evaluate_replay(argv: Sequence[str]) -> int:
    """Replay the sessions of agents' logs: what hooks add to prompts and tool calls, and how much of it is used."""
    new = build_parser(
        "eval replay",
        evaluate_replay.__doc__ or "",
        "  helix eval replay ~/.claude/projects --store work\n  helix eval replay logs/ --sweep --json\n\n"
        "The store stays below --store, if it is given; later runs find it there.",
    )
    new.add_argument("logs", metavar="DIR", help="folder of agents' logs, as for 'helix ingest'")
    new.add_argument("--sweep", action="store_true", help="other thresholds and budgets as well")
    new.add_argument(
        "--actions", action="store_true", help="only fixes, tool calls and briefings; a prompt takes longer"
    )
    options = new.parse_args(argv)
    from pipelines.eval.replay.hook import BEFORE, PLAIN, HookCaller, list_settings
    from pipelines.eval.replay.logs import open_logs
    from pipelines.eval.replay.measure import replay, summarise

    def measure_prompts(logs: Logs) -> dict[str, Any]:
        rows = list_settings(settings.hook_answered, options.sweep)
        report = summarise(replay(logs, rows, HookCaller(), print_note), rows, BEFORE.name)
        return {**report, "untimed": sum(prompt.at is None for prompt in logs.prompts)}

    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        (folder / "plain.toml").write_text(PLAIN, "utf-8")
        # Never HELIX_STORE: a measurement is no memory.
        work = Path(options.store).expanduser() if options.store else folder
        settings = replace(load(), profiles=str(folder))
        logs = open_logs(Path(options.logs).expanduser(), settings, work)
        print_note(f"{len(logs.items)} items, {len(logs.prompts)} prompts")
        report = {**_measure_actions(logs, settings), **({} if options.actions else measure_prompts(logs))}
    if options.json:
        print_json(report)
        return 0
    _print_actions(report)
    if not options.actions:
        _print_report(report)
    return 0


def _measure_actions(logs: Logs, settings: Settings) -> dict[str, Any]:
    """Return the figures of known failures, tool calls and the begins of sessions."""
    from pipelines.eval.replay.fires import measure_fires, replay_actions
    from pipelines.eval.replay.fixes import measure_fixes
    from pipelines.eval.replay.named import measure_named
    from pipelines.eval.replay.sessions import list_sessions

    sessions = list(list_sessions(logs))
    print_note(f"{len(sessions)} sessions after another one of their project")
    return {
        "fixes": measure_fixes(logs, sessions, settings),
        "actions": measure_fires([replay_actions(logs, session) for session in sessions]),
        "named": measure_named(logs, sessions, settings),
    }


def _print_actions(report: dict[str, Any]) -> None:
    fixes, actions, named = (report[name] for name in ("fixes", "actions", "named"))
    print_text(f"fixes of known failures: {fixes['pairs']} failures that an earlier session had and fixed", "bold")
    rows = [(name, *(_format(shares[f"in {n}"]) for n in (1, 3))) for name, shares in fixes["ways"].items()]
    print_table([("", "first", "in 3"), *rows], (), (1, 2))
    print_text(f"tool calls: {actions['calls']:,} of {actions['sessions']} sessions", "bold")
    print_text(
        f"{actions['fires']} times a hook speaks ({actions['before']} before a call, {actions['after']} after a "
        f"failure); {actions['right']} are right: precision {_format(actions['precision'])}"
    )
    print_text(
        f"{actions['false_fires']:.2%} of calls get something wrong; {actions['tokens_a_session']} tokens a session"
    )
    print_text(f"what a session then works with: named at its begin, with {named['tokens']} tokens", "bold")
    rows = [(name, _format(one["files"]), _format(one["commands"])) for name, one in named["ways"].items()]
    print_table([("", "files", "commands"), *rows], (), (1, 2))


_SHARES: Final = ("given", "evidence", "random", "alone", "random_alone")
_HEAD: Final = ("", "tokens", "given", "evidence", "random", "alone", "random", "tokens ×", "evidence ×", "95 %")


def _print_report(report: dict[str, Any]) -> None:
    for name, title in (("all", "all prompts"), ("with_earlier", "prompts with an earlier item")):
        count, sessions = report["prompts"][name], report["sessions"][name]
        print_text(f"{title}: {count:,} of {sessions} sessions", "bold")
        print_table([_HEAD, *map(_format_row, report[name])], (), range(1, len(_HEAD)))
    print_text(
        f"{report['with_needed']:,} prompts have needed terms; 'evidence' is the mean share of them given so far"
    )
    print_text("in the session, 'alone' at the prompt; 'random' is that of as many tokens of random earlier items")
    print_text(f"× compares with '{report['base']}', with the 95 % interval of the evidence over sessions")
    print_text(f"{report['untimed']:,} prompts have no time and are left out")


def _format_row(row: dict[str, Any]) -> list[str]:
    interval = row["evidence_interval"]
    return [
        row["name"],
        "" if row["tokens_a_prompt"] is None else f"{row['tokens_a_prompt']:.0f}",
        *(_format(row[name]) for name in (*_SHARES, "tokens_ratio", "evidence_ratio")),
        "" if interval is None else f"{interval[0]:.2f}–{interval[1]:.2f}",
    ]


def _format(value: float | None) -> str:
    return "" if value is None else f"{value:.3f}"
