"""Optional extras: the one that brings a missing package, by Helix's own metadata."""

from __future__ import annotations

import re
from importlib.metadata import requires

from helix.errors import HelixError

DISTRIBUTION = "helix-recall"
OURS = ("helix", "pipelines", "query", "workers")
_REQUIREMENT = re.compile(r"""([\w.-]+)(?:.*extra == ['"]([\w-]+)['"])?""")


class MissingPackage(HelixError):
    """A package of an optional extra is not installed."""

    exit_status = 4


def explain_missing_package(error: ModuleNotFoundError) -> MissingPackage:
    """Return the error that names the package to install.

    Raises:
        ModuleNotFoundError: the same error, for a missing module of Helix itself.
    """
    package = (error.name or "").partition(".")[0]
    if package in OURS:
        raise error
    extra = find_extra(package, requires(DISTRIBUTION) or ())
    wanted = f"{DISTRIBUTION}[{extra}]" if extra else DISTRIBUTION
    return MissingPackage(f"the package {package} is not installed", f"pip install '{wanted}'")


def find_extra(package: str, required: list[str] | tuple[str, ...]) -> str:
    """Return the smallest extra that brings a package, or "" if the core does.

    A package that no line names comes with one of another name (sklearn with scikit-learn). Only `workers` has such.

    Args:
        package: the name it is imported by.
        required: the lines `Requires-Dist` of the metadata.
    """
    extras: dict[str, list[str]] = {}
    for line in required:
        if match := _REQUIREMENT.match(line):
            extras.setdefault(match[2] or "", []).append(_normalise(match[1]))
    prefix = f"{_normalise(package)}-"
    bring = [extra for extra, names in extras.items() if any(f"{name}-".startswith(prefix) for name in names)]
    return "" if "" in bring else min(bring, key=lambda extra: (len(extras[extra]), extra), default="workers")


def _normalise(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()
