"""The installed size of Helix and each package that it needs, printed by `python -m pipelines.cli.weigh`.

Sizes are those of the files that an installation lists, as they are on disk: run it where only Helix is installed, and
nothing was imported yet, to see what an installation brings.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator, Mapping, Sequence
from importlib.metadata import Distribution, PackageNotFoundError, distribution
from pathlib import Path

DISTRIBUTION = "helix-recall"

_REQUIREMENT = re.compile(r"(?P<name>[\w.-]+)\s*(?:\[(?P<extras>[^\]]*)\])?")
_EXTRA = re.compile(r"""extra\s*==\s*["']([\w.-]+)["']""")


def main(argv: Sequence[str]) -> int:
    """Print a table of the packages from a least size on (default 1 MB), the number of smaller ones, and the total."""
    least = float(argv[0]) if argv else 1.0
    sizes = {name: measure_files(one) / 1e6 for name, one in list_needed(DISTRIBUTION).items()}
    shown = [(name, size) for name, size in sorted(sizes.items(), key=lambda one: -one[1]) if size >= least]
    print("| package | MB |\n|---|---|")
    for name, size in shown:
        print(f"| {name} | {size:.1f} |")
    print(f"| {len(sizes) - len(shown)} smaller ones | {sum(sizes.values()) - sum(size for _, size in shown):.1f} |")
    print(f"| **{len(sizes)} packages** | **{sum(sizes.values()):.0f}** |")
    return 0


def list_needed(name: str) -> Mapping[str, Distribution]:
    """Return a distribution and all it needs, by normalised name; requirements that are not installed are left out."""
    found: dict[str, Distribution] = {}
    seen: set[tuple[str, str]] = set()
    waiting = [(name, "")]
    while waiting:
        name, extra = waiting.pop()
        name = re.sub(r"[-_.]+", "-", name).lower()
        if (name, extra) in seen:
            continue
        seen.add((name, extra))
        try:
            found[name] = distribution(name)
        except PackageNotFoundError:  # of another platform or version of Python
            continue
        waiting += list(_read_requirements(found[name], extra))
    return found


def _read_requirements(one: Distribution, extra: str) -> Iterator[tuple[str, str]]:
    """Yield the name and each extra of the requirements that an extra adds; "" for those without one."""
    for line in one.requires or []:
        requirement, _, marker = line.partition(";")
        named = _EXTRA.search(marker)
        match = _REQUIREMENT.match(requirement.strip())
        if match and (named[1] if named else "") == extra:
            yield match["name"], ""
            yield from ((match["name"], one.strip()) for one in (match["extras"] or "").split(",") if one.strip())


def measure_files(one: Distribution) -> int:
    """Return the bytes of the files that an installation lists."""
    places = {Path(str(file.locate())).resolve() for file in one.files or []}
    return sum(place.stat().st_size for place in places if place.is_file())


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
