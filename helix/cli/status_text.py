"""The state of a store for a person: what is searchable, what waits, what is wrong, and all the rest on request."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Any, Final

from helix.cli.terminal import Cell, format_count, is_drawn, shorten_home
from helix.util.ages import format_age, format_seconds
from helix.util.sanitise import sanitise_name

BAD, PENDING, GOOD, DIM = "red", "yellow", "green", "dim"

MORE: Final = "'helix status --all' shows everything; 'helix doctor' checks hooks and disk"

_NAMES: Final = 5  # projects, sources or languages that are named; the others are counted
_NAME_CHARS: Final = 32
_ERRORS: Final = 2  # documents whose error is shown
_ERROR_CHARS: Final = 140
_MANY_FOREIGN: Final = 0.2
"""Share of items in other languages from which another encoder is worth a reindex."""

_SLOW_KERNELS: Final = "in NumPy, some ten times slower: install a wheel, or Helix again where there is a C compiler"
_UNITS: Final = ((1e9, "GB"), (1e6, "MB"), (1e3, "kB"))
_PASSES: Final = {"doc2query": "questions", "sparse": "weights", "tokens": "token vectors"}

Row = tuple[str, str, str]
"""The name of a line, its text, and the style of the text."""


def describe_briefly(state: Mapping[str, Any]) -> list[list[Cell]]:
    """Return the lines that matter, as (name, value) cells: at most a screen."""
    return _make_cells(
        [*_describe_searchable(state), *_list_waiting(state), *_list_wrong(state), *_describe_content(state)]
    )


def describe_fully(state: Mapping[str, Any]) -> list[list[Cell]]:
    """Return every line, as (name, value) cells."""
    rows = [
        *_describe_searchable(state),
        *_list_waiting(state),
        *_list_wrong(state, every=True),
        *_describe_content(state),
        *_describe_documents(state),
        *_describe_items(state),
    ]
    return _make_cells(rows)


def _make_cells(rows: Sequence[Row]) -> list[list[Cell]]:
    return [[(name, "bold"), (text, style)] for name, text, style in rows]


def _describe_searchable(state: Mapping[str, Any]) -> list[Row]:
    """Return how much can be found, and up to when."""
    if not state["items"]:
        return [("searchable", "nothing yet; 'helix init' or 'helix ingest PATH' adds logs", PENDING)]
    counts = f"{format_count(state['items'], 'item')} of {format_count(state['sessions'], 'session')}"
    projects = state.get("breakdown", {}).get("project", {})
    counts += f" in {format_count(len(projects), 'project')}" if projects else ""
    rows = [("searchable", counts, GOOD)]
    if newest := state.get("newest"):
        moment = datetime.fromisoformat(newest)
        age = f", {format_age(moment, datetime.now(UTC))}" if is_drawn() else ""
        rows.append(("up to", f"{moment:%Y-%m-%d %H:%M}{age}", ""))
    return rows


def _list_waiting(state: Mapping[str, Any]) -> list[Row]:
    """Return what is accepted and not searchable yet, and what publishes it."""
    rows = []
    if state["pending"]:
        size, age = _format_bytes(state["pending_bytes"]), format_seconds(state["lag"])
        text = f"{format_count(state['pending'], 'document')} of {size}, the oldest {age} old"
        rest = f"{len(state['running'])} in work" if state["running"] else "'helix ingest --pending' publishes them"
        rows.append(("waiting", f"{text}; {rest}", PENDING))
    else:
        rows.append(("waiting", "nothing", ""))
    if state["orders"]["waiting"]:
        remedy = "'helix worker --queues accept' or 'helix up' reads them"
        text = f"{format_count(state['orders']['waiting'], 'order')} for a worker; {remedy}"
        rows.append(("orders", text, PENDING))
    if state["reindex"]:
        text = "{encoder} in progress, {documents:,} of {of:,} documents, {items:,} items so far"
        rows.append(("reindex", text.format(**state["reindex"], of=state["done"]), PENDING))
    waiting = [f"{state['backlog'][name]:,} {what}" for name, what in _PASSES.items() if state["backlog"].get(name)]
    if waiting:
        rows.append(("expansion", f"items wait for {', '.join(waiting)}: 'helix expand'", ""))
    return rows


def _list_wrong(state: Mapping[str, Any], every: bool = False) -> list[Row]:
    """Return what is wrong, each with its remedy.

    Args:
        every: show every document, with its whole error.
    """
    from helix.snapshot.ledger.inbox import ROLLED_BACK

    back = {document: error for document, error in state["errors"].items() if error.startswith(ROLLED_BACK)}
    dead = {document: error for document, error in state["errors"].items() if document not in back}
    rows = []
    if dead:
        remedy = "'helix retry --all' tries again, 'helix drop --all' removes the text"
        rows += [("given up", f"{format_count(len(dead), 'document')}; {remedy}", BAD)]
        rows += _list_errors(dead, every)
    if back:
        text = f"{format_count(len(back), 'document')}, set aside by a rollback; 'helix ingest PATH' takes one back"
        rows += [("rolled back", text, PENDING), *(_list_errors(back, every) if every else ())]
    for document, record in list(state["failed"].items())[: None if every else _ERRORS]:
        error = record["error"] or "no error was recorded"
        text = f"{document[:12]}… {format_count(record['tries'], 'time')}, next at {record['next']}: {error}"
        rows.append(("failed", _shorten(text, every), BAD))
    if state.get("arriving"):
        rows.append(
            ("arriving", f"{format_count(state['arriving'], 'file')} of this replica; words answer until then", PENDING)
        )
    if state["purges"]:
        text = f"{format_count(state['purges'], 'deletion')} interrupted: 'helix compact' ends it"
        rows.append(("deletions", text, BAD))
    if state["kernels"] == "reference":
        rows.append(("kernels", _SLOW_KERNELS, PENDING))
    if advice := advise_encoder(state["encoder"], state.get("breakdown", {}).get("language", {})):
        rows.append(("advice", advice, PENDING))
    rows = rows or [("problems", "none found", "")]
    return rows + [("off", _describe_off(switch), PENDING) for switch in state["off"]]


def _list_errors(errors: Mapping[str, str], every: bool) -> list[Row]:
    shown = list(errors.items())[: None if every else _ERRORS]
    rows = [("", _shorten(f"{document[:12]}… {error}", every), "") for document, error in shown]
    left = len(errors) - len(shown)
    return [*rows, ("", f"and {left:,} more: 'helix status --all'", "")] if left else rows


def _shorten(text: str, whole: bool) -> str:
    return text if whole or len(text) <= _ERROR_CHARS else f"{text[: _ERROR_CHARS - 1]}…"


def _describe_content(state: Mapping[str, Any]) -> list[Row]:
    """Return what is inside, where it is, and how large it is."""
    found = state.get("breakdown", {})
    languages = found.get("language", {})
    rows = [
        ("projects", _format_counts(found.get("project", {})), ""),
        ("sources", _format_counts(found.get("source", {})), ""),
        ("languages", _format_counts(languages) if len(languages) > 1 else "", ""),
        ("store", f"{shorten_home(state['store'])}, {_format_bytes(state['bytes'])}, {_format_generation(state)}", ""),
        ("encoder", state["encoder"] or "none yet: the first ingest chooses it", ""),
    ]
    return [row for row in rows if row[1]]


def _format_counts(counts: Mapping[str, int]) -> str:
    """Return the largest counts by name, and how many more there are."""
    names = list(counts)
    shown = [f"{sanitise_name(name, _NAME_CHARS)} {counts[name]:,}" for name in names[:_NAMES]]
    return ", ".join(shown) + (f" and {len(names) - _NAMES:,} more" if len(names) > _NAMES else "")


def _format_bytes(count: int) -> str:
    size, unit = next(((size, unit) for size, unit in _UNITS if count >= size), _UNITS[-1])
    return f"{count / size:.1f} {unit}" if count else "0 kB"


def _format_generation(state: Mapping[str, Any]) -> str:
    if not state["published"]:
        return "nothing published yet"
    return f"generation {state['generation']} of {datetime.fromisoformat(state['published']):%Y-%m-%d %H:%M}"


def _describe_off(switch: Mapping[str, str]) -> str:
    what = f"session {switch['session']}" if "session" in switch else f"project {switch['project']}"
    folder = f" ({sanitise_name(switch['folder'])})" if "folder" in switch else ""
    return f"{sanitise_name(what)}{folder}, since {switch['since']}; 'helix on' ends it"


def _describe_documents(state: Mapping[str, Any]) -> list[Row]:
    running = f" ({len(state['running'])} running)" if state["running"] else ""
    waits = f" of {_format_bytes(state['pending_bytes'])}" if state["pending"] else ""
    counts = (
        f"{state['accepted']:,} accepted, {state['done']:,} done, {state['pending']:,} pending{waits}{running}, "
        f"{state['dead']:,} dead"
    )
    rows = [
        ("segments", f"{state['segments']:,}; {format_count(state['generations'], 'generation')} retained", ""),
        ("documents", counts, BAD if state["dead"] else PENDING if state["pending"] else ""),
    ]
    if state["throughput"]["documents"]:
        text = "{documents:,.0f} documents, {items:,.0f} items a minute (over {seconds:,.0f} s)"
        rows.append(("throughput", text.format(**state["throughput"]), ""))
    for order in state["orders"]["done"]:
        refused = "; ".join(f"{sanitise_name(entry['path'])}: {entry['reason']}" for entry in order["refused"][:3])
        counts = f"{order['accepted']} accepted, {order['duplicates']} duplicates, {len(order['refused'])} refused"
        rows.append(("order", f"{order['order'][:12]}… {counts}" + (f" ({refused})" if refused else ""), ""))
    return rows


def _describe_items(state: Mapping[str, Any]) -> list[Row]:
    rows = []
    for column, counts in state.get("breakdown", {}).items():
        if counts:
            rows.append((f"by {column}", ", ".join(f"{sanitise_name(name)} {n:,}" for name, n in counts.items()), ""))
    if old := state.get("old_projects"):
        shown = [f"{sanitise_name(name)} → {', '.join(map(sanitise_name, now))}" for name, now in old.items()]
        rows.append(("old names", "; ".join(shown), ""))
    complete = [name for name, counts in state["coverage"].items() if counts == {"items": state["items"]}]
    if complete:
        rows.append(("all items", f"have their {', '.join(complete)}", ""))
    for name, counts in state["coverage"].items():
        if name not in complete:
            rows.append((name, ", ".join(f"{key}: {value}" for key, value in counts.items()), ""))
    return rows


def advise_encoder(encoder: str | None, languages: Mapping[str, int]) -> str:
    """Return a note for a store with many items in other languages than its encoder knows; "" for none."""
    from helix.encoders.registry import MODELS
    from helix.text.languages import ENGLISH

    model = MODELS.get((encoder or "").partition("@")[0])
    total = sum(languages.values())
    foreign = total - languages.get(ENGLISH, 0)
    if model is None or model.multilingual or foreign < _MANY_FOREIGN * total or not total:
        return ""
    return (
        f"{foreign:,} of {total:,} items are in other languages than English, which {encoder} alone knows: "
        "'helix reindex --encoder multilingual-e5-small' finds them across languages"
    )
