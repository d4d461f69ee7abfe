"""`helix train changes`: the models of what is true now, from changing histories."""

from __future__ import annotations

import tempfile
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path

from helix.cli.parser import build_parser
from helix.cli.terminal import print_note, print_result
from helix.settings import load


def train_changes(argv: Sequence[str]) -> int:
    """Train the models of claims, of links between items, and of questions about now, then and why."""
    from pipelines.eval.changes.history import PACKAGED, list_histories, parse_history
    from pipelines.eval.changes.train import train, write_models
    from pipelines.eval.report import parse_set

    new = build_parser(
        "train changes",
        train_changes.__doc__ or "",
        "  helix train changes --out helix\n"
        "  helix train changes --out helix locomo=locomo10.json beam=beam/\n"
        "  helix train changes --histories histories/ --out models --store work\n\n"
        "Sets are those of 'helix eval'. Nothing in them counts as a change; without any, too much does.\n"
        "The stores of histories and sets stay below --store, if it is given; later runs find them there.",
    )
    new.add_argument("sets", nargs="*", metavar="SET=PATH", help="SET:LABEL=PATH for several sets of one kind")
    new.add_argument("--out", required=True, metavar="DIR", help="the folder of the package helix, or one like it")
    new.add_argument("--histories", metavar="DIR", help="a folder of histories (the packaged ones that are no test)")
    options = new.parse_args(argv)
    if options.histories:
        found = list_histories(Path(options.histories).expanduser())
    else:
        found = [*list_histories(PACKAGED, "dev"), *list_histories(PACKAGED / "train")]
    histories = [parse_history(folder, half) for folder, half in found]
    others = {one.label: (one.set, one.path) for one in map(parse_set, options.sets)}
    with ExitStack() as stack:
        work = Path(options.store or stack.enter_context(tempfile.TemporaryDirectory())).expanduser()
        trained = train(histories, others, load(), work, print_note)
    files = write_models(trained, Path(options.out).expanduser())
    report = {"histories": len(histories), "figures": dict(trained.figures), "files": [str(file) for file in files]}
    print_result(options.json, report, "\n".join(f"wrote {file}" for file in files))
    return 0
