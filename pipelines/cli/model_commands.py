"""`helix expand`, `helix models` and `helix train`."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import asdict
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

from helix.cli.parser import build_parser, print_json, resolve_store
from helix.cli.terminal import Cell, format_count, print_result, print_table, print_text
from helix.errors import EncoderError, UsageError
from helix.settings import load
from pipelines.cli.ingest import progress_bar

if TYPE_CHECKING:
    from pathlib import Path

    from helix.encoders.rerank import LateEncoder
    from helix.encoders.sparse import DocumentEncoder
    from helix.enrich.doc2query import Generator
    from helix.settings import Settings
    from pipelines.ingest.accept_all import Progress


def expand(argv: Sequence[str]) -> int:
    """Have models add questions, learned-sparse weights and token vectors to items.

    Recall finds items by the first two in other words. Token vectors make `--rerank late` fast.
    """
    new = build_parser(
        "expand",
        expand.__doc__ or "",
        "  helix expand --store memory\n  HELIX_DOC2QUERY=~/models/my-t5 helix expand --limit 1000\n"
        "  HELIX_SPARSE_ENCODER=~/models/my-splade helix expand\n  HELIX_TOKEN_VECTORS=on helix expand\n\n"
        "Each pass runs if its model is available. Items are recallable before, during and after. A stopped run\n"
        "continues at the next call.",
    )
    new.add_argument("--limit", type=int, metavar="N", help="at most N items in each pass")
    options = new.parse_args(argv)
    if options.limit is not None and options.limit < 1:
        raise UsageError(f"--limit is {options.limit}", "give at least 1")
    settings, root = load(), resolve_store(options)
    models = _open_models(root, settings)
    began = time.perf_counter()
    with progress_bar(not options.json) as progress:
        weighed, kept, expanded = _run_passes(root, models, settings, options.limit, progress)
    seconds = round(time.perf_counter() - began, 3)
    latest = expanded or kept or weighed
    if options.json:
        questions = expanded.result if expanded else {"items": 0, "queries": 0, "waiting": 0, "off": models.generator}
        fields = {"generation": latest.result["generation"] if latest else 0, **questions}
        sparse, tokens = (
            {name: done.result[name] for name in ("items", "waiting")} if done else {"off": model}
            for done, model in ((weighed, models.weigher), (kept, models.embedder))
        )
        print_json({**fields, "sparse": sparse, "tokens": tokens, "seconds": seconds})
        return 0
    for done in (weighed, kept, expanded):
        if done:
            rate = done.result["items"] / max(done.seconds, 1e-9)
            print_text(
                f"{format_count(done.result['items'], 'item')} {done.what}, {rate:.1f} items/s; "
                f"{done.result['waiting']:,} wait; generation {done.result['generation']}"
            )
    return 0


class _Models(NamedTuple):
    """The model of each pass, or the reason why it cannot run."""

    weigher: DocumentEncoder | str
    embedder: LateEncoder | str
    generator: Generator | str


class _Done(NamedTuple):
    """The outcome of a pass: generation, items, waiting and more; its time; and what happened to the items."""

    result: dict[str, Any]
    seconds: float
    what: str


def _open_models(root: Path, settings: Settings) -> _Models:
    from pipelines.passes.doc2query import open_generator
    from pipelines.passes.sparse import open_document_encoder
    from pipelines.passes.tokens import open_token_encoder

    models = _Models(open_document_encoder(settings), open_token_encoder(root, settings), open_generator(settings))
    if all(isinstance(model, str) for model in models):
        raise EncoderError(
            f"nothing to expand with: {models.generator}; {models.weigher}; {models.embedder}",
            "set HELIX_DOC2QUERY to a folder with a seq2seq model, HELIX_SPARSE_ENCODER to one with a SPLADE model, or "
            "HELIX_TOKEN_VECTORS to on",
        )
    return models


def _run_passes(
    root: Path, models: _Models, settings: Settings, limit: int | None, progress: Progress | None
) -> list[_Done | None]:
    """Run the passes of `models` in their order; None where one cannot run."""
    from pipelines.ingest.lineage import open_encoder
    from pipelines.passes.doc2query import expand
    from pipelines.passes.sparse import encode
    from pipelines.passes.tokens import keep_tokens

    def say(what: str) -> Callable[[int, int], None] | None:
        return partial(progress, what) if progress else None

    out: list[_Done | None] = [None, None, None]
    if not isinstance(weigher := models.weigher, str):
        began = time.perf_counter()
        done = encode(root, weigher, settings, limit=limit, say=say("weigh"))
        out[0] = _Done(done._asdict(), time.perf_counter() - began, f"weighed by {weigher.spec.name}")
    if not isinstance(embedder := models.embedder, str):
        began = time.perf_counter()
        done = keep_tokens(root, embedder, settings, limit=limit, say=say("embed"))
        out[1] = _Done(done._asdict(), time.perf_counter() - began, f"got token vectors of {embedder.name}")
    if not isinstance(generator := models.generator, str):
        began = time.perf_counter()
        asked = expand(root, generator, open_encoder(root, settings), settings, limit=limit, say=say("expand"))
        what = f"expanded by {format_count(asked.queries, 'question')} of {generator.name}"
        out[2] = _Done(asdict(asked), time.perf_counter() - began, what)
    return out


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
    if argv[:1] == ["changes"]:
        from pipelines.cli.train_changes import train_changes

        return train_changes(argv[1:])
    if argv[:1] == ["relevance"]:
        from pipelines.cli.relevance import train_relevance

        return train_relevance(argv[1:])
    if argv[:1] == ["ranker"]:
        from pipelines.cli.train_ranker import train_ranker

        return train_ranker(argv[1:])
    examples = (
        "  helix train --store memory\n\nThese have a --help of their own:\n"
        "  changes    models of what is true now\n  ranker     the network that reads question and item together\n"
        "  relevance  models of what helps with a question"
    )
    options = build_parser("train", train.__doc__ or "", examples).parse_args(argv)
    from pipelines.training.retention import train as run

    settings = load()
    done = run(resolve_store(options, settings), settings)
    text = f"trained on {format_count(done.positives, 'useful item')}; generation {done.generation}"
    off = f"nothing was trained: {done.off}; generation {done.generation}"
    print_result(options.json, asdict(done), off if done.off else text)
    return 0
