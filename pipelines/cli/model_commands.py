"""`helix expand`, `helix models` and `helix train`."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

from helix.cli.parser import build_parser, print_json, resolve_store
from helix.cli.terminal import Cell, format_count, print_result, print_table, print_text
from helix.errors import EncoderError, UsageError
from helix.settings import load
from pipelines.cli.ingest import progress_bar


def expand(argv: Sequence[str]) -> int:
    """Have models add questions and learned-sparse weights to items, so that recall finds them by other words."""
    new = build_parser(
        "expand",
        expand.__doc__ or "",
        "  helix expand --store memory\n  HELIX_DOC2QUERY=~/models/my-t5 helix expand --limit 1000\n"
        "  HELIX_SPARSE_ENCODER=~/models/my-splade helix expand\n\n"
        "Each pass runs if its model is available. Items are recallable before, during and after. A stopped run\n"
        "continues at the next call.",
    )
    new.add_argument("--limit", type=int, metavar="N", help="at most N items in each pass")
    options = new.parse_args(argv)
    if options.limit is not None and options.limit < 1:
        raise UsageError(f"--limit is {options.limit}", "give at least 1")
    from pipelines.ingest.lineage import open_encoder
    from pipelines.passes.doc2query import Expanded, open_generator
    from pipelines.passes.doc2query import expand as run
    from pipelines.passes.sparse import encode, open_document_encoder

    settings, root = load(), resolve_store(options)
    generator, encoder = open_generator(settings), open_document_encoder(settings)
    if isinstance(generator, str) and isinstance(encoder, str):
        raise EncoderError(
            f"nothing to expand with: {generator}; {encoder}",
            "set HELIX_DOC2QUERY to a folder with a seq2seq model, or HELIX_SPARSE_ENCODER to one with a SPLADE model",
        )
    began = time.perf_counter()
    with progress_bar(not options.json) as progress:
        encoded = None
        if not isinstance(encoder, str):
            say = (lambda done, total: progress("weigh", done, total)) if progress else None
            encoded = encode(root, encoder, settings, limit=options.limit, say=say)
        half = time.perf_counter()
        if isinstance(generator, str):
            done = Expanded(encoded.generation if encoded else 0, 0, 0, 0, generator)
        else:
            say = (lambda done, total: progress("expand", done, total)) if progress else None
            done = run(root, generator, open_encoder(root, settings), settings, limit=options.limit, say=say)
    end = time.perf_counter()
    if options.json:
        sparse = {"items": encoded.items, "waiting": encoded.waiting} if encoded else {"off": encoder}
        print_json({**asdict(done), "sparse": sparse, "seconds": round(end - began, 3)})
        return 0
    if encoded and not isinstance(encoder, str):
        rate = encoded.items / max(half - began, 1e-9)
        print_text(
            f"{format_count(encoded.items, 'item')} weighed by {encoder.spec.name}, {rate:.1f} items/s; "
            f"{encoded.waiting:,} wait; generation {encoded.generation}"
        )
    if not isinstance(generator, str):
        print_text(
            f"{format_count(done.items, 'item')} expanded by {format_count(done.queries, 'question')} of "
            f"{generator.name}, {done.items / max(end - half, 1e-9):.1f} items/s; {done.waiting:,} wait; "
            f"generation {done.generation}"
        )
    return 0


def models(argv: Sequence[str]) -> int:
    """List the models.

    `models pull NAME` downloads one, `models export NAME` makes a reranker or a sparse encoder usable.
    """
    new = build_parser(
        "models",
        models.__doc__ or "",
        "  helix models\n  helix models pull bge-small-en-v1.5\n"
        "  helix models export ~/models/ms-marco-MiniLM-L-6-v2    # a cross-encoder, a ColBERT or a SPLADE",
    )
    new.add_argument(
        "action",
        nargs="?",
        choices=("list", "pull", "export"),
        default="list",
        metavar="ACTION",
        help="list, pull or export (list)",
    )
    new.add_argument("model", nargs="?", metavar="NAME", help="for pull and export; export also accepts a folder")
    options = new.parse_args(argv)
    if options.action != "list" and not options.model:
        raise UsageError(f"no model to {options.action}", "name one; 'helix models' lists them")
    from pipelines.training.models import export_model, list_models, pull_model

    settings = load()
    if options.action == "export":
        made = export_model(options.model, settings)
        text = f"{made['name']} is exported to {made['folder']}; set {made['setting']} to use it"
        print_result(options.json, made, text)
    elif options.action == "pull":
        folder = pull_model(options.model, settings)
        value = {"name": options.model, "folder": str(folder)}
        print_result(options.json, value, f"{options.model} is in {folder}")
    elif options.json:
        print_json(list_models(settings))
    else:
        rows = [_format_model(row) for row in list_models(settings)]
        print_table(rows, ("model", "what it is", "licence", "where"), whole=(0, 1, 2))
    return 0


def _format_model(row: dict[str, Any]) -> tuple[Cell, ...]:
    """Return the table row of a model: dim if it is not available, bold if it is the default."""
    where = f"{row['origin']}: {row['folder']}" if row["folder"] else "not available"
    if row["folder"] and row.get("exported", row["folder"]) is None:
        where += " (not exported)"
    what = f"{row['dim']} dimensions" if row["use"] == "encoder" else row["use"]
    style = "" if row["folder"] else "dim"
    name = (row["name"], "bold green" if row["default"] else style)
    return name, (what, style), (row["licence"], style), (where + ("  ← default" if row["default"] else ""), style)


def train(argv: Sequence[str]) -> int:
    """Fit the retention model of the profile engram to the items that access events name as useful."""
    options = build_parser("train", train.__doc__ or "", "  helix train --store memory").parse_args(argv)
    from pipelines.training.retention import train as run

    settings = load()
    done = run(resolve_store(options, settings), settings)
    text = f"trained on {format_count(done.positives, 'useful item')}; generation {done.generation}"
    off = f"nothing was trained: {done.off}; generation {done.generation}"
    print_result(options.json, asdict(done), off if done.off else text)
    return 0
