"""The constants of a profile that depend on the store's encoders: `[encoders."DENSE"]`, `[encoders."DENSE + SPARSE"]`.

The weights of a ranking are fitted to the errors of its encoder, so another one has a table of its own.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Final

from helix.errors import UsageError
from helix.snapshot.index.sparse import find_encoder

if TYPE_CHECKING:
    from helix.snapshot.reader.snapshot import Snapshot
    from helix.stages.constants import HelixProfile

JOIN: Final = " + "

UNFITTED: Final = "weights: "
"""How a reason in `degraded` begins that stays as long as store and profile do."""

_SECTIONS: Final = ("sim", "link")

_adapted: dict[tuple[int, str], tuple[HelixProfile, HelixProfile, str]] = {}
"""(the profile, as adapted, why not) by the profile's identity and the encoders; the profile is held, so that its
identity stays its own."""


def name_encoders(snap: Snapshot) -> str:
    """Return how a profile names the encoders of a store, without the `@DIMS` of a cut one."""
    sparse = find_encoder(snap.files.indexes) if snap.lexical.impacts else None
    return JOIN.join([snap.files.encoder_name, *([str(sparse.params["model"])] if sparse else [])])


def adapt(profile: HelixProfile, snap: Snapshot) -> tuple[HelixProfile, str]:
    """Return a profile with the constants of a store's encoders, and why some are those of others; "" where none is."""
    key = (id(profile), name_encoders(snap))
    if key not in _adapted:
        _adapted[key] = (profile, *_adapt(profile, key[1]))
    return _adapted[key][1:]


def _adapt(profile: HelixProfile, encoders: str) -> tuple[HelixProfile, str]:
    if not profile.encoders:
        return profile, ""
    dense, _, sparse = encoders.partition(JOIN)
    known = next((name for name in (encoders, dense) if name in profile.encoders), "")
    adapted = set_constants(profile, profile.encoders.get(known, {}))
    if known == encoders:
        return adapted, ""
    what = sparse if known else dense
    return adapted, f"{UNFITTED}those of the profile {profile.name!r} are not fitted to the encoder {what}"


def get_constant(profile: HelixProfile, name: str) -> float:
    """Return a constant by its place: `sim.dense`."""
    section, _, field = name.partition(".")
    return float(getattr(getattr(profile, section), field))


def set_constants(profile: HelixProfile, constants: Mapping[str, float]) -> HelixProfile:
    """Return a profile with other constants, by their places."""
    for name, value in constants.items():
        section, _, field = name.partition(".")
        profile = replace(profile, **{section: replace(getattr(profile, section), **{field: value})})
    return profile


def check_encoders(profile: HelixProfile) -> None:
    """Check the tables of a profile.

    Raises:
        UsageError: a table names something that is no weight.
    """
    for encoders, table in profile.encoders.items():
        for name, value in table.items() if isinstance(table, dict) else [("", table)]:
            section, _, field = name.partition(".")
            where = f"profile {profile.name!r}: encoders.{encoders!r}"
            if section not in _SECTIONS or not hasattr(getattr(profile, section), field):
                raise UsageError(f"{where} has no weight {name!r}", 'write for instance "sim.dense" = 0.4')
            if isinstance(value, bool) or not isinstance(value, int | float):
                raise UsageError(f"{where}: {name} is {value!r}", "it is a number")
