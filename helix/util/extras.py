"""A package that is not installed: which extra of Helix brings it, by what Helix's own metadata requires."""

from __future__ import annotations

import re
from importlib.metadata import requires

from helix.errors import HelixError

DISTRIBUTION = "helix-recall"
OURS = ("helix", "pipelines", "query", "workers")
_REQUIREMENT = re.compile(r"""([\w.-]+)(?:.*extra == ['"]([\w-]+)['"])?""")


class MissingPackage(HelixError):
    """A package of one of Helix's extras is not there."""

    exit_status = 4


def install(error: ModuleNotFoundError) -> MissingPackage:
    """What to install, for an import that failed.

    Raises:
        ModuleNotFoundError: the same error, where a module of Helix itself is missing.
    """
    package = (error.name or "").partition(".")[0]
    if package in OURS:
        raise error
    extra = extra_of(package, requires(DISTRIBUTION) or ())
    wanted = f"{DISTRIBUTION}[{extra}]" if extra else DISTRIBUTION
    return MissingPackage(f"the package {package} is not installed", f"pip install '{wanted}'")


def extra_of(package: str, required: list[str] | tuple[str, ...]) -> str:
    """The smallest extra that brings a package; "" where the core does.

    What no line names comes with a package of another name (sklearn with scikit-learn), as only `workers` has them.

    Args:
        package: the name it is imported by.
        required: the lines `Requires-Dist` of the metadata.
    """
    extras: dict[str, list[str]] = {}
    for line in required:
        if found := _REQUIREMENT.match(line):
            extras.setdefault(found[2] or "", []).append(re.sub(r"[-_.]+", "-", found[1]).lower())
    name = re.sub(r"[-_.]+", "-", package).lower()
    bring = [extra for extra, brought in extras.items() if any(f"{one}-".startswith(f"{name}-") for one in brought)]
    return "" if "" in bring else min(bring, key=lambda extra: (len(extras[extra]), extra), default="workers")
