"""`helix team`: a team's memory in a branch of the repository; this module has the kinds that read it and learn."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, replace
from typing import TYPE_CHECKING

from helix.cli.parser import build_parser, print_json, resolve_store
from helix.cli.terminal import print_error, print_note, print_text
from helix.errors import UsageError
from helix.settings import load
from helix.util.sanitise import printable_lines
from pipelines.cli import team_write

if TYPE_CHECKING:
    from pipelines.team.fold import TeamState
    from pipelines.team.log import LogReading
    from pipelines.team.place import TeamPlace


def team(argv: Sequence[str]) -> int:
    """Share decisions, rules and chosen notes with a team, as signed files in a branch of the repository."""
    if argv and argv[0] in KINDS:
        return KINDS[argv[0]](argv[1:])
    kinds = "\n".join(f"  {name:10}{(kind.__doc__ or '').splitlines()[0]}" for name, kind in KINDS.items())
    new = build_parser(
        "team",
        team.__doc__ or "",
        "  helix team init --as ana\n  helix team publish\n  helix team pull\n  helix team diff main..HEAD\n\n"
        f"kinds:\n{kinds}",
    )
    new.add_argument("kind", choices=tuple(KINDS), metavar="KIND", help="what to do")
    given = new.parse_args(argv)
    raise UsageError(f"{given.kind!r} has to be the first word", f"run 'helix team {given.kind}' …")


def _pull(argv: Sequence[str]) -> int:
    """Fetch the team's entries, and learn them: recall finds the new ones on return."""
    new = team_write.build_team_parser(
        "pull", _pull.__doc__ or "", "  helix team pull\n  helix team pull --store memory --root 5d1f…"
    )
    options = new.parse_args(argv)
    settings, root = load(), resolve_store(options)
    from pipelines.team.learn import learn_state
    from pipelines.team.log import fetch_log, read_log
    from pipelines.team.place import fold_log, trust_team

    began = time.perf_counter()
    place = team_write.open_options(options)
    commit = fetch_log(place.repository, place.remote, place.branch)
    fetched = time.perf_counter()
    log = read_log(place.repository, commit)
    is_new = not place.root
    place = trust_team(place, log)
    state = fold_log(place, log)
    checked = time.perf_counter()
    report = learn_state(root, place, state, commit or "", settings, print_note)
    report.seconds = {
        "fetch": round(fetched - began, 3),
        "check": round(checked - fetched, 3),
        "learn": round(time.perf_counter() - checked, 3),
    }
    if is_new:
        _tell_trust(place, state)
    problems = _report_problems("pull", log, state)
    for one in report.refused:
        print_error("helix team pull", f"{one['path']}: {one['reason']}")
    if options.json:
        counts = {"team": state.root, "commit": commit, "known": len(state.known_entries)}
        print_json({**counts, **asdict(report), "problems": problems})
    elif report.learned or report.dropped:
        parts = [f"{len(report.learned)} of {len(state.known_entries)} entries are new here"]
        parts += [f"{len(report.dropped)} are forgotten"] if report.dropped else []
        print_text(f"{', '.join(parts)}; generation {report.snapshot}")
    else:
        print_text(f"nothing new: {len(state.known_entries)} entries are known")
    return 3 if problems or report.refused else 0


def _tell_trust(place: TeamPlace, state: TeamState) -> None:
    """Say which team this clone trusts from now on."""
    from pipelines.team.keys import format_fingerprint

    root = state.entries[state.root]
    print_note(
        f"this clone trusts the team {root.name} from now on, key {format_fingerprint(root.key)}: "
        "compare it with what another member's 'helix team show' prints"
    )


def _report_problems(command: str, log: LogReading, state: TeamState) -> list[dict[str, str]]:
    """Name each file of a log that was not learned, with the reason, on stderr."""
    found = [*log.problems.items(), *((log.paths[key], one.reason) for key, one in state.refused.items())]
    for path, reason in found:
        print_error(f"helix team {command}", f"not learned: {path!r}: {reason}")
    return [{"path": path.encode("utf-8", "replace").decode(), "reason": reason} for path, reason in found]


def _show(argv: Sequence[str]) -> int:
    """Show the members, and the entries that hold."""
    new = team_write.build_team_parser("show", _show.__doc__ or "", "  helix team show\n  helix team show --json")
    new.add_argument("revision", nargs="?", metavar="REV", help="a commit of the branch (what was fetched last)")
    options = new.parse_args(argv)
    from pipelines.team.report import describe_state, write_state

    place = team_write.open_options(options)
    log = _read_revision(place, options.revision)
    state = _fold_trusted(place, log)
    if options.json:
        print_json(describe_state(state))
    else:
        print(write_state(state, place.branch))
    return 3 if _report_problems("show", log, state) else 0


def _check(argv: Sequence[str]) -> int:
    """Check a commit of the branch: form, signatures, members, secrets. Exit status 3 if anything is wrong."""
    examples = "  helix team check\n  helix team check HEAD --base origin/helix-team    # in a pull request"
    new = team_write.build_team_parser("check", _check.__doc__ or "", examples)
    new.add_argument("revision", nargs="?", metavar="REV", help="a commit of the branch (what was fetched last)")
    new.add_argument("--base", metavar="REV", help="check only what came since, and that nothing was removed")
    options = new.parse_args(argv)
    from pipelines.team.report import list_problems

    place = team_write.open_options(options)
    base = _read_revision(place, options.base) if options.base else None
    log = _read_revision(place, options.revision)
    state = _fold_trusted(place, log, base)
    problems = list_problems(log, state, base)
    for path, reason in problems:
        print_error("helix team check", f"{path!r}: {reason}")
    if options.json:
        shown = [{"path": path.encode("utf-8", "replace").decode(), "reason": reason} for path, reason in problems]
        print_json(
            {"team": state.root, "entries": len(log.entries), "accepted": len(state.accepted), "problems": shown}
        )
    else:
        print_text(f"{len(log.entries)} entries, {len(state.accepted)} accepted, {len(problems)} problems")
    return 3 if problems else 0


def _diff(argv: Sequence[str]) -> int:
    """Print what the team would learn by a pull request, as Markdown."""
    examples = (
        '  helix team diff origin/helix-team..HEAD\n  helix team diff origin/helix-team..HEAD >> "$GITHUB_STEP_SUMMARY"'
    )
    new = team_write.build_team_parser("diff", _diff.__doc__ or "", examples)
    new.add_argument("range", metavar="BASE..HEAD", help="two commits of the branch")
    options = new.parse_args(argv)
    first, dots, second = options.range.partition("..")
    if not dots or not first:
        raise UsageError(f"{options.range!r} is no range", "give BASE..HEAD")
    from pipelines.team.fold import fold_entries
    from pipelines.team.report import compare_states, list_problems, write_change

    place = team_write.open_options(options)
    base, log = _read_revision(place, first), _read_revision(place, second or "HEAD")
    after = _fold_trusted(place, log, base)
    before = fold_entries(base.entries, after.root)
    problems = list_problems(log, after, base)
    if options.json:
        change = asdict(compare_states(before, after))
        print_json({**change, "problems": [{"path": path, "reason": reason} for path, reason in problems]})
    else:
        print(printable_lines(write_change(before, after, problems)))
    return 3 if problems else 0


def _read_revision(place: TeamPlace, revision: str | None) -> LogReading:
    """Read the log at a commit; without one, as it was fetched last.

    Raises:
        UsageError: there is no such commit.
    """
    from pipelines.team.log import LOCAL, read_log

    commit = place.repository.find_commit(revision or LOCAL)
    if commit is None:
        named = revision or "the local copy of the log"
        raise UsageError(f"{named!r} is no commit here", "run 'helix team pull', or fetch the branch")
    return read_log(place.repository, commit)


def _fold_trusted(place: TeamPlace, log: LogReading, base: LogReading | None = None) -> TeamState:
    """Return the state of a log under the trusted team: that of the clone or of --root, else the only one of the base.

    Raises:
        UsageError: no team is trusted, or the log has another.
    """
    from pipelines.team.place import find_roots, fold_log

    if not place.root:
        roots = find_roots(base or log)
        if len(roots) != 1:
            raise UsageError(f"{len(roots) or 'no'} teams are in the log", "name yours with --root ID")
        print_note(f"no team is trusted here: this goes by {roots[0].id}; pin it with --root")
        place = replace(place, root=roots[0].id)
    return fold_log(place, log)


KINDS: dict[str, Callable[[Sequence[str]], int]] = {
    "init": team_write.init_team,
    "join": team_write.join_team,
    "add": team_write.add_to_team,
    "remove": team_write.remove_from_team,
    "publish": team_write.publish,
    "withdraw": team_write.withdraw,
    "pull": _pull,
    "show": _show,
    "check": _check,
    "diff": _diff,
}
"""Kinds of `helix team`."""
