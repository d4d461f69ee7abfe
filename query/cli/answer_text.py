"""The answer of `helix recall` for a person: styled on a terminal, one line per part in a pipe."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

from helix.cli.terminal import Cell, is_drawn, open_console, print_error, print_table, print_text
from helix.text.said_at import mark_time
from helix.util.ages import format_age
from helix.util.sanitise import printable, sanitise_name
from query.cli.marks import find_marks
from query.schema.nothing_relevant import is_irrelevant

NEAREST = 3
"""Items shown where nothing is relevant."""

SHOWN = 30
"""Candidates that --explain lists; --json has all."""

ID_DIGITS = 8
"""Digits of a short id, which 'helix show' takes."""

SHOWN_CHARS = 300
"""Characters of an item's text that are shown."""

TITLE_CHARS = 60

_LEAD = 60  # characters shown before a passage's first mark

_NOTES = ("dropped", "replaced")  # fields of a candidate that are words


def print_answer(
    answer: dict[str, Any], question: str = "", with_context: bool = False, voices: Mapping[str, str] = {}
) -> None:
    """Print an answer; on a terminal, with the question's words marked.

    Args:
        with_context: print the context for a prompt as well.
        voices: who said each item, by its id.
    """
    for line in answer["degraded"]:
        print_error("degraded", line)
    if answer["notice"]:
        print_error("notice", answer["notice"])
    if answer["skipped"]:
        print_text("skipped: this question needs no memory (a filter such as --project forces a search)")
        return
    if not answer["items"]:
        print_text("nothing found")
    irrelevant, is_explained = is_irrelevant(answer), "stages" in (answer.get("trace") or {})
    if irrelevant and answer["items"]:
        print_text(f"nothing relevant ({_format_share(answer['answered'])} likely to help); the nearest:")
    if counted := answer.get("coverage"):
        print_text(_format_coverage(counted))
    for rank, item in enumerate(answer["items"][:NEAREST] if irrelevant and not is_explained else answer["items"], 1):
        who = voices.get(item["id"], sanitise_name(item["speaker"] or ""))
        _print_item(rank, item, who, question, is_explained, dim=irrelevant)
    if answer["context"] and with_context:
        size = f", {answer['tokens']} of {answer['budget']} tokens ({answer['counter']}):"
        print_line("\n", ("context", "bold"), size)
        print_line(answer["context"])
    _print_summary(answer, is_explained)


def _format_coverage(counted: dict[str, Any]) -> str:
    """Return how many turns a question bears on, in one line."""
    turns, sessions = counted["turns"], counted["sessions"]
    return (
        f"{turns} turn{'s' * (turns != 1)} in {sessions} session{'s' * (sessions != 1)}; "
        f"{counted['shown']} in the context, in order of time"
    )


def _format_share(share: float) -> str:
    """Format a probability; a small one is not 0."""
    return f"{share:.0%}" if share >= 0.005 else "<1%"


def _print_item(
    rank: int, item: dict[str, Any], who: str, question: str, is_explained: bool, dim: bool = False
) -> None:
    """Print an item: its head line with title, who said it, time and short id; below it the text."""
    title = sanitise_name(item["title"] or item["session"])
    head = [printable(part) for part in (who, format_when(item)) if part]
    kind = [item["type"]] if item["type"] != "episodic" else []
    print_line(
        (f"{rank:2}", "dim" if dim else "bold"),
        "  ",
        (f"{_format_share(item['relevance']):>4}", "dim" if dim else "cyan"),
        "  ",
        (printable(_shorten_title(title)), "dim" if dim else "bold"),
        (f" · {' · '.join([*head, *kind])}  " if head or kind else "  ", "dim" if dim else ""),
        (item["id"][:ID_DIGITS], "dim"),
    )
    if rule := item["why"].get("rule"):
        print_block(f"the user's {rule}", "dim")
    _print_passage(printable(" ".join(item["text"].split())), question, "dim" if dim else "")
    if later := item["replaced_by"]:
        print_block(format_replacement(later), "dim")
    if not is_explained:
        return
    print_block(f"score {item['score']:.3f} · {_format_signals(item['why'])}", "dim")
    if parts := _format_parts(item["why"]):
        print_block(parts, "dim")


def _shorten_title(title: str) -> str:
    return title if len(title) <= TITLE_CHARS else title[: TITLE_CHARS - 1].rstrip() + "…"


def format_when(item: dict[str, Any]) -> str:
    """Return an item's time; on a terminal, how long ago that was, with its day."""
    if not item["time"]:
        return ""
    moment = datetime.fromisoformat(item["time"])
    day = f"{moment:%Y-%m-%d}"
    exact = f"{moment:%Y-%m-%d %H:%M}"
    shown = f"{format_age(moment, datetime.now(UTC))} ({day})" if is_drawn() else exact
    return mark_time(shown, item["time_quality"])


def _print_passage(text: str, question: str, style: str) -> None:
    """Print the part of a text around its first matching word; on a terminal, with the matching words bold."""
    marks = list(find_marks(text, question))
    begin, end = _choose_passage(len(text), marks)
    shown = ("…" if begin else "") + text[begin:end].strip() + ("…" if end < len(text) else "")
    if not is_drawn():
        print(f"    {shown}")
        return
    from rich.padding import Padding
    from rich.text import Text

    passage = Text(shown, style)
    for span in find_marks(shown, question):
        passage.stylize("bold underline", *span)
    open_console().print(Padding(passage, (0, 0, 0, 4)))


def _choose_passage(length: int, marks: Sequence[tuple[int, int]]) -> tuple[int, int]:
    """Return begin and end of the passage of SHOWN_CHARS with the most marks, the first of equals."""
    if length <= SHOWN_CHARS or not marks or marks[-1][1] <= SHOWN_CHARS:
        return 0, min(length, SHOWN_CHARS)
    starts = [max(0, begin - _LEAD) for begin, _ in marks]
    counts = [sum(start <= begin and end <= start + SHOWN_CHARS for begin, end in marks) for start in starts]
    begin = starts[counts.index(max(counts))]
    return begin, min(length, begin + SHOWN_CHARS)


def format_replacement(later: dict[str, Any]) -> str:
    """Return an item's successor in one line."""
    day = f" {later['time'][:10]}" if later["time"] else ""
    return printable(f"replaced{day} by {later['id'][:ID_DIGITS]}: {later['text']}")


def _print_summary(answer: dict[str, Any], is_explained: bool) -> None:
    """Print how to go on, and with --explain the generation and times; then the deep tier's and the trace's part."""
    ms = answer["ms"]
    helps = f"{_format_share(answer['answered'])} likely to help"
    if is_explained:
        stages = ", ".join(f"{name} {value:.1f}" for name, value in ms.items() if name != "total")
        made = f"generation {answer['snapshot']} · profile {answer['profile']} · {ms['total']:.1f} ms ({stages})"
    else:
        made = f"{ms['total']:.0f} ms · 'helix show ID' reads on"
    print_line("\n", (f"{helps} · {made}", "dim"))
    if deep := answer.get("deep"):
        print_line((_format_deep(deep), "dim"))
    if "stages" in (trace := answer.get("trace") or {}):
        print_table(_list_stages(trace), ("stage", "in → out", "ms", "details"), (2,), (0, 1, 2))
        columns = ("rank", "item", "score", "why [the stage that left it out] [what superseded it]")
        print_table(_list_candidates(trace), columns, (0,), (0, 1, 2))
        if (more := len(trace.get("candidates", ())) - SHOWN) > 0:
            print_text(f"and {more} more candidates: --json lists them")
        if "why_not" in trace:
            print_text(f"why not: {trace['why_not']}")


def _format_deep(deep: dict[str, Any]) -> str:
    """Return the models, their price, and what was left out."""
    rerank = deep.get("rerank", {})
    models = " + ".join(filter(None, (deep["model"], rerank.get("model"))))
    price = "cached" if deep["cached"] else f"{deep['calls']} requests, {deep['seconds']:.1f} s"
    left = "".join(f" · {name} left out: {why}" for name, why in deep["left_out"].items())
    billed = "".join(
        f" · {amount:g} {unit.replace('_', ' ')} billed" for unit, amount in rerank.get("billed", {}).items()
    )
    return printable(f"deep · {models} · {price} · {deep['sent']} memories sent{billed}{left}")


def print_line(*parts: Cell) -> None:
    """Print one line; a terminal shows the styles and folds it."""
    if is_drawn():
        from rich.text import Text

        open_console().print(Text.assemble(*parts), soft_wrap=True)
    else:
        print("".join(part if isinstance(part, str) else part[0] for part in parts))


def print_block(text: str, style: str = "") -> None:
    """Print an indented paragraph, folded on a terminal."""
    if is_drawn():
        from rich.padding import Padding
        from rich.text import Text

        open_console().print(Padding(Text(text, style), (0, 0, 0, 4)))
    else:
        print(f"    {text}")


def _format_signals(why: dict[str, Any]) -> str:
    """Return ranks (whole numbers) and signals (fractions) in one line."""
    ranks = [f"{name} #{value}" for name, value in why.items() if isinstance(value, int)]
    # A fused score of ranks is about a hundredth, and needs more places.
    signals = [
        f"{name} {value:.4f}" if 0 < abs(value) < 0.1 else f"{name} {value:.2f}"
        for name, value in why.items()
        if isinstance(value, float)
    ]
    return " · ".join([*ranks, *signals])


def _list_stages(trace: dict[str, Any]) -> Iterator[tuple[str, ...]]:
    """Yield each stage's name, rows in and out, milliseconds and other fields."""
    for stage in trace.get("stages", ()):
        fields = dict(stage)
        name, ms = fields.pop("stage"), fields.pop("ms", None)
        rows = [fields.pop(key, "") for key in ("rows_in", "rows_out")]
        rows = ["+".join(map(str, one.values())) if isinstance(one, dict) else str(one) for one in rows]
        details = (f"{key} {_shorten(value)}" for key, value in fields.items() if value not in ("", None, {}, [], ()))
        passed = f"{rows[0]:>7} → {rows[1]}" if any(rows) else ""
        yield name, passed, "" if ms is None else f"{ms:.1f} ms", ", ".join(details)


def _list_candidates(trace: dict[str, Any]) -> Iterator[tuple[str, ...]]:
    """Yield the best candidates with ranks and signals, the stage that dropped one, and what superseded it."""
    for one in trace.get("candidates", ())[:SHOWN]:
        signals = {key: value for key, value in one.items() if key not in ("rank", "id", "score", *_NOTES)}
        notes = "".join(f"  [{one[key]}]" for key in _NOTES if one[key])
        yield str(one["rank"]), one["id"], f"{one['score']:.3f}", f"{_format_signals(signals)}{notes}"


def _shorten(value: Any) -> str:
    if isinstance(value, dict):
        return " ".join(f"{key} {_shorten(part)}" for key, part in value.items())
    if isinstance(value, list | tuple):
        return " ".join(map(_shorten, value))
    return f"{value:.3g}" if isinstance(value, float) else str(value)


def _format_parts(why: dict[str, Any]) -> str:
    """Return the parts of salience and confidence, and the questions that a model wrote for an item."""
    parts = []
    if why["salience_parts"]:
        signs = ", ".join(f"{sign} {weight:+.2f}" for sign, weight in why["salience_parts"].items())
        parts.append(f"salience: {signs}")
    if why["vouched"]:
        parts.append(f"confidence: {why['vouched']}")
    if why.get("queries"):
        parts.append("questions: " + " / ".join(map(printable, why["queries"])))
    return " · ".join(parts)
