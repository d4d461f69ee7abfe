"""The card of a trained ranker, and the log and curves of its training."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import orjson

from pipelines.eval.document import add_grid, add_legend, fill_template, format_table, make_panels, save_plots

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_SHOWN: Final = 12  # hex digits of a digest
_COLOURS: Final = ("#0072B2", "#E69F00", "#009E73", "#CC79A7", "#56B4E9", "#D55E00", "#999999")
_MARKERS: Final = ("o", "s", "^", "D", "v", "P", "X")


def format_card(card: Mapping[str, Any]) -> str:
    """Return the card of a ranker in Markdown.

    Args:
        card: content of its training.json.
    """
    held, figures = card["held_out"], card["figures"]
    questions: Mapping[str, Sequence[int]] = card["questions"]
    sets, named = [], set[str]()
    for one in card["sets"]:  # the questions of a set in several folders come once
        counts = ["", ""] if one["set"] in named else map(str, questions[one["set"]])
        sets.append([one["set"], one["licence"], one["files"], *counts, f"`{one['sha256'][:_SHOWN]}…`"])
        named.add(one["set"])
    rows = [
        [label, *(f"{one.get(label, 0):.2f}" for one in held.values())]
        + [f"{figures[label][way]:.3f}" if label in figures else "" for way in ("ranking", "ranker")]
        for label in questions
    ]
    return fill_template(
        "pipelines.eval",
        "ranker.md",
        version=version("helix-recall"),
        layers=str(card["layers"]),
        megabytes=f"{card['export']['bytes'] / 1e6:.1f}",
        tokens=str(card["tokens"]),
        ranking=f"{card['ranking']:g}",
        licence=card["licence"],
        digest=card["weights_sha256"],
        sets=format_table(["set", "licence", "files", "questions", "held out", "sha256 over its files"], sets),
        figures=format_table(
            ["set", *(f"first of eight ({name})" for name in held), "recall alone", "with the ranker"], rows
        ),
        command=_format_command(card),
        python=card["python"],
        torch=card["torch"],
    )


def _format_command(card: Mapping[str, Any]) -> str:
    given = dict.fromkeys(one["set"] for one in card["sets"] if "Helix" not in one["licence"])
    apart = "".join(f" --apart {name}=PATH" for name in card["apart"])
    return "helix train ranker --out ranker " + " ".join(f"{name}=PATH" for name in given) + apart


def read_log(path: Path) -> list[dict[str, Any]]:
    """Read the lines of a training log; of steps that a cut run did twice the later ones."""
    lines = [orjson.loads(line) for line in path.read_bytes().splitlines()]
    return list({line["step"]: line for line in lines}.values())


def write_log(work: Path, networks: Iterable[str], folder: Path) -> None:
    """Write the log of each trained network to `folder/NAME.jsonl`, and their curves to `folder/curves.svg`.

    Args:
        work: the folder of the training.
        networks: their names.
    """
    logs = {name: read_log(work / name / "log.jsonl") for name in networks}
    folder.mkdir(parents=True, exist_ok=True)
    for name, lines in logs.items():
        (folder / f"{name}.jsonl").write_bytes(b"".join(orjson.dumps(line) + b"\n" for line in lines))
    save_plots({"curves": lambda: draw_curves(logs)}, folder, "helix train ranker")


def draw_curves(logs: Mapping[str, Sequence[Mapping[str, Any]]]) -> Figure:
    """Draw the loss of each network, and the share of held-out lists whose right item comes first."""
    figure, panels = make_panels(2 * len(logs), 9.5, 3.0 * len(logs), across=2)
    sets = sorted({label for lines in logs.values() for line in lines for label in line.get("held_out", ())})
    for i, (name, lines) in enumerate(logs.items()):
        loss, held = panels[2 * i : 2 * i + 2]
        loss.plot([line["step"] for line in lines], [line["loss"] for line in lines], color="#333333")
        loss.set(title=f"the {name} network", xlabel="step", ylabel="loss, mean of 50 steps")
        measured = [line for line in lines if "held_out" in line]
        for label, colour, marker in zip(sets, _COLOURS, _MARKERS, strict=False):
            shown = [(line["step"], line["held_out"][label]) for line in measured if label in line["held_out"]]
            held.plot(*zip(*shown, strict=True), label=label, color=colour, marker=marker, markersize=4)
        held.set(xlabel="step", ylabel="right item first, held out", ylim=(0, 1), title=f"the {name} network")
        for axes in (loss, held):
            add_grid(axes)
            axes.set_xlim(left=0)
    add_legend(figure, panels[1])
    return figure
