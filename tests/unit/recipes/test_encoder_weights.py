"""Constants of a profile by the encoders of a store."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from helix.errors import UsageError
from helix.recipes.encoder_weights import adapt, name_encoders
from helix.recipes.load_profile import load, parse
from helix.stages.constants import HelixProfile
from tests.support.tiny import make_store

TABLES = """
base = "helix"
[encoders."tiny"]
"sim.dense" = 0.5
[encoders."tiny + a"]
"sim.dense" = 0.6
"link.walk" = 0.2
[encoders."other"]
"""


def test_the_table_of_the_stores_encoders_counts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    snap = make_store(tmp_path, ["walnut bread"])
    profile: HelixProfile = parse("mine", TABLES)
    assert name_encoders(snap) == "tiny"
    named = {}
    for encoders in ("tiny", "tiny + a", "tiny + b", "other", "unknown", "unknown + a"):
        monkeypatch.setattr("helix.recipes.encoder_weights.name_encoders", lambda _, encoders=encoders: encoders)
        named[encoders] = adapt(profile, snap)
        assert adapt(profile, snap) is named[encoders] or adapt(profile, snap) == named[encoders]
    found = {name: (one.sim.dense, one.link.walk) for name, (one, _) in named.items()}
    base = (profile.sim.dense, profile.link.walk)
    assert found["tiny"] == found["tiny + b"] == (0.5, base[1])
    assert found["tiny + a"] == (0.6, 0.2)
    assert found["other"] == found["unknown"] == found["unknown + a"] == base
    said = {name: why for name, (_, why) in named.items()}
    assert {name for name, why in said.items() if why} == {"tiny + b", "unknown", "unknown + a"}
    assert said["tiny + b"] == "weights: those of the profile 'mine' are not fitted to the encoder b"
    assert said["unknown"] == "weights: those of the profile 'mine' are not fitted to the encoder unknown"


def test_a_profile_without_tables_fits_every_encoder(tmp_path: Path) -> None:
    snap = make_store(tmp_path, ["walnut bread"])
    paper: HelixProfile = load("helix-paper")
    assert adapt(paper, snap) == (paper, "")


def test_a_cut_encoder_has_the_weights_of_the_whole_one(tmp_path: Path) -> None:
    snap = make_store(tmp_path, ["walnut bread"])
    assert snap.manifest is not None
    lineage = replace(snap.manifest.lineage, name="tiny@128")
    snap.files.__dict__["manifest"] = replace(snap.manifest, lineage=lineage)
    assert name_encoders(snap) == "tiny"


@pytest.mark.parametrize(
    ("table", "message"),
    [
        ('"sim.colour" = 1.0', "has no weight 'sim.colour'"),
        ('"rank.narration" = 0.5', "has no weight 'rank.narration'"),
        ('"sim.dense" = "much"', "sim.dense is 'much'"),
        ('"sim.dense" = true', "sim.dense is True"),
        ("dense = 0.5", "has no weight 'dense'"),
    ],
)
def test_a_wrong_table_is_named(table: str, message: str) -> None:
    with pytest.raises(UsageError, match=message):
        parse("mine", f'base = "helix"\n[encoders."tiny"]\n{table}\n')
