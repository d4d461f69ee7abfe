"""Profiles: strict files, and a user's own ones."""

from __future__ import annotations

from importlib.resources import files
from pathlib import Path

import pytest

import helix
from helix.errors import UsageError
from helix.recipes.load_profile import load, names, parse
from helix.sdk.memory import Memory
from helix.settings import Settings

HELIX = (files("helix.recipes") / "profiles" / "helix.toml").read_text("utf-8")


def test_every_packaged_profile_is_whole() -> None:
    assert [load(name).name for name in names()] == list(names())


def test_an_unknown_or_missing_key_and_a_value_of_another_type_are_refused() -> None:
    for before, after, said in (
        ("seeds =", "seedz =", r"graph\.seedz"),
        ("code = { sim", "code = { simm", r"weights\.code\.simm"),
        ("[diversify]", "[extra_section]\na = 1\n[diversify]", "extra_section"),
        ("lean =", "# lean =", r"lacks the key sim\.lean"),
        ("code = { sim", "# code = { sim", r"lacks the key weights\.code"),
        ('recipe = "helix"', 'recipe = "soup"', "recipe is 'soup'; there are: helix"),
        ("k1 = 0.9", 'k1 = "0.9"', r"retrieve\.k1 is '0\.9'; it is a number"),
        ("dense = 100 ", "dense = 1.5 ", r"retrieve\.dense is 1\.5; it is a whole number"),
        ("dense = 100 ", "dense = true ", r"retrieve\.dense is True"),
        ('recency = "asked"', 'recency = "never"', "always or asked"),
        ("[diversify]", "diversify = 3\n[other]", "diversify is 3; it is a table|unknown key: other"),
    ):
        assert before in HELIX
        with pytest.raises(UsageError, match=said):
            parse("x", HELIX.replace(before, after))
    assert parse("x", HELIX.replace("k = 60 ", "k = 61 ")).fuse.k == 61
    for text, said in (("= 3", "not TOML"), ("[fuse]\nk = 3\n", "recipe is None"), (f'name = "y"\n{HELIX}', "name")):
        with pytest.raises(UsageError, match=said):
            parse("x", text)
    with pytest.raises(UsageError, match=r"there are: .*helix, helix-paper"):
        load("nope")


def test_a_profile_of_ones_own_says_only_what_it_changes(tmp_path: Path) -> None:
    text = 'base = "helix"\n[weights.code]\nsim = 0.5\n[fuse]\nweights = { dense = 2.0 }\n'
    (tmp_path / "mine.toml").write_text(text)
    mine, base = load("mine", str(tmp_path)), load("helix")
    assert (mine.name, mine.recipe) == ("mine", "helix")
    assert mine.weights["code"] == {**base.weights["code"], "sim": 0.5}
    assert mine.weights["decision"] == base.weights["decision"]
    assert mine.fuse.weights == {**base.fuse.weights, "dense": 2.0}
    assert "mine" in names(str(tmp_path))
    assert "mine" not in names()
    for text, said in (('base = "nope"\n', "builds on 'nope'"), ('base = "helix"\n[sim]\nmoon = 1\n', r"sim\.moon")):
        (tmp_path / "bad.toml").write_text(text)
        with pytest.raises(UsageError, match=said):
            load("bad", str(tmp_path))
        load.cache_clear()


def test_ones_own_profile_answers(tmp_path: Path, sample_store: Path) -> None:
    """A default of one's own goes before the packaged one; what it changes shows in the answer."""
    (tmp_path / "helix.toml").write_text('base = "helix"\n[retrieve]\ndense = 3\nbm25 = 2\n[graph]\nextra = 0\n')
    asked = "Priya vacation in March"
    own = Memory(sample_store, Settings(profiles=str(tmp_path))).recall(asked, explain=True).trace
    rows = {stage["stage"]: stage["rows_out"] for stage in own["stages"]}
    assert (rows["dense"], rows["lexical"]) == (3, 2)
    assert len(helix.open(sample_store).recall(asked, explain=True).trace["candidates"]) > 5
