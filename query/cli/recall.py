"""`helix recall`: one question to a store."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from helix.cli.parser import JoinWords, build_parser, print_json, resolve_store
from helix.settings import load

if TYPE_CHECKING:
    from helix.cli.parser import Parser


def recall(argv: Sequence[str]) -> int:
    """Find items that answer a question, ranked and explained."""
    options = _make_parser().parse_args(argv)
    from helix.sdk.open import open_memory
    from query.schema.answers import run_recall
    from query.schema.requests import RecallRequest

    memory = open_memory(resolve_store(options), load(), snapshot=options.snapshot, warm=False)
    request = RecallRequest(**{name: getattr(options, name) for name in RecallRequest.model_fields})
    answer = run_recall(memory, request, tier=options.tier)
    if options.json:
        print_json(answer)
    else:
        from query.cli.answer_text import print_answer
        from query.cli.voices import find_voices

        print_answer(answer, request.query, options.context, find_voices(memory.snapshot, answer["items"]))
    return 0


def _make_parser() -> Parser:
    """Return the parser. Its destinations are the fields of `RecallRequest`, with `snapshot` and `tier`."""
    parser = build_parser(
        "recall",
        recall.__doc__ or "",
        "  helix recall what did I tell Priya about vacation    # no quotes needed\n"
        '  helix recall "database is locked" --project ledgerline --since 30d --json\n'
        '  helix recall "why sqlite" --type decision --k 3 --explain',
    )
    parser.add_argument(
        "query", metavar="QUERY", nargs="+", action=JoinWords, help="the question, an error, a path, a name"
    )
    _add_filters(parser.add_argument_group("which items").add_argument)
    add = parser.add_argument_group("how many, and what is shown").add_argument
    add("-k", "--k", type=int, metavar="N", help="items to return (10; with the profiles annie and cems 5)")
    add("--budget", type=int, default=2000, metavar="N", help="tokens the context may take (2000)")
    text = "least relevance of an item in the context, 0 to 1; 0: every item (as measured)"
    add("--min-relevance", type=float, metavar="X", help=text)
    add("--context", action="store_true", help="print the context for a prompt, too")
    text = "with --json: add the question's hints, and the places of its words in each text"
    add("--marks", action="store_true", help=text)
    add("--explain", action="store_true", help="report every stage")
    add("--why-not", metavar="ITEM", help="name the stage that left this item out")
    _add_ranking(parser.add_argument_group("how they are ranked").add_argument)
    return parser


def _add_filters(add: Callable[..., Any]) -> None:
    add("--project", metavar="P", help="only this project")
    add("--session", metavar="S", help="only this session")
    add("--speaker", metavar="NAME", help="only this speaker")
    add("--type", metavar="T", help="episodic, semantic, procedural, decision or code")
    add("--since", metavar="T", help="ISO 8601, an age like 7d, or words like 'last week'")
    add("--until", metavar="T", help="the same")
    add("--current-only", action="store_true", help="leave out what is superseded or no longer holds")
    add("--as-of", metavar="T", help="what was said by then and held then, whenever it was ingested")
    add("--ingested-as-of", metavar="T", help="what this store had ingested by then")
    add("--snapshot", metavar="N", type=int, help="a retained generation (the newest)")
    add("--as", metavar="PRINCIPAL", dest="principal", help="the caller, as ACLs name it")


def _add_ranking(add: Callable[..., Any]) -> None:
    add("--quality", metavar="Q", help="best: read question and items together, in some 50 ms more (fast)")
    add("--tier", metavar="TIER", default="fast", help="deep: a language model helps, for seconds (fast)")
    add("--rerank", metavar="TIER", help="late or cross: score the best items again, whatever the quality")
    add("--rerank-top", metavar="N", type=int, default=20, help="items to score again, at most 30 (20)")
    text = "start the graph walk from this name; may be repeated"
    add("--entity", metavar="E", action="append", default=[], dest="entities", help=text)
    text = "words of the question that set no project, days or person; repeatable"
    add("--ignore", metavar="WORDS", action="append", default=[], dest="ignored", help=text)
    add("--now", metavar="T", help="the time of the question (the clock)")
    add("--profile", metavar="NAME", default="helix", help="the set of constants (helix)")
    add("--mode", metavar="MODE", help="of the profile cems: auto, hybrid or vector")
    text = "of the profile annie: hours of its BM25 list, such as 168 (all)"
    add("--look-back", metavar="HOURS", type=float, help=text)
