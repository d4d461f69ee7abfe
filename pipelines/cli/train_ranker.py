"""`helix train ranker`: the network that reads question and item together, from data to checked weights."""

from __future__ import annotations

import tempfile
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path

from helix.cli.parser import build_parser
from helix.cli.terminal import print_note, print_result
from helix.encoders.registry import find_trainable
from helix.errors import EncoderError
from helix.settings import load

ENCODER = "all-MiniLM-L6-v2"
"""What the ranker begins from."""


def train_ranker(argv: Sequence[str]) -> int:
    """Train the ranker on the packaged chats, worlds and histories and on sets of 'helix eval', and export it."""
    from pipelines.eval.document import check_matplotlib
    from pipelines.eval.ranker.card import write_log
    from pipelines.eval.ranker.train import SHARES, LearntSet, Sizes, list_own
    from pipelines.eval.ranker.train import train_ranker as run
    from pipelines.eval.report import parse_set

    new = build_parser(
        "train ranker",
        train_ranker.__doc__ or "",
        "  helix train ranker --out ranker\n"
        "  helix train ranker --out ranker --work work squad_pairs=squad/ qmsum=qmsum/train --apart xquad=xquad/\n"
        "  HELIX_CROSS_ENCODER=ranker helix recall --quality best 'why sqlite'\n\n"
        "It needs the workers' packages (helix-recall[workers]) and some hours on two cores; a run that was cut\n"
        "goes on where it ended, if it has the same --work.",
    )
    new.add_argument("sets", nargs="*", metavar="SET=PATH", help=f"more to learn from: {', '.join(SHARES)}")
    new.add_argument(
        "--apart", action="append", default=[], metavar="SET=PATH", help="a measured set, not learned from"
    )
    new.add_argument("--out", required=True, metavar="DIR", help="a new folder for the ranker")
    new.add_argument("--work", metavar="DIR", help="retains stores, checkpoints and logs (removed at the end)")
    new.add_argument("--docs", metavar="DIR", help="a folder for the log and the curves (helix-recall[report])")
    sizes = Sizes()
    new.add_argument("--steps", type=int, default=sizes.steps, metavar="N", help=f"of six layers ({sizes.steps})")
    new.add_argument(
        "--layers", type=int, default=sizes.layers, metavar="N", help=f"that are exported ({sizes.layers})"
    )
    text = f"of a network of fewer layers, from the first ({sizes.small_steps})"
    new.add_argument("--small-steps", type=int, default=sizes.small_steps, metavar="N", help=text)
    new.add_argument("--seed", type=int, default=sizes.seed, metavar="N", help=f"of all draws ({sizes.seed})")
    options = new.parse_args(argv)
    if options.docs:
        check_matplotlib()
    settings = load()
    encoder = find_trainable(ENCODER, settings)
    if encoder is None:
        raise EncoderError(f"no {ENCODER} to begin from", "install helix-recall[workers], or set HELIX_MODELS")
    learnt, apart = (
        [LearntSet(one.set, one.path) for one in map(parse_set, given)] for given in (options.sets, options.apart)
    )
    with ExitStack() as stack:
        work = Path(options.work or stack.enter_context(tempfile.TemporaryDirectory())).expanduser()
        card = run(
            [*list_own(), *learnt],
            apart,
            encoder,
            Path(options.out).expanduser(),
            work,
            settings,
            Sizes(options.steps, options.small_steps, options.layers, options.seed),
            print_note,
        )
        if options.docs:
            write_log(work, card["plans"], Path(options.docs).expanduser())
    print_result(options.json, card, f"wrote {options.out}: {card['export']['bytes'] / 1e6:.1f} MB")
    return 0
