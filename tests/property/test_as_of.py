"""What was known and valid at a moment: a store asked as of then answers as one that never heard of anything later.

Bi-temporal (Snodgrass 1999, "Developing time-oriented database applications in SQL"): t_valid ≤ moment, t_invalid
null or later, t_ingested ≤ moment. And what an item says counts for less once it no longer holds.
"""

from __future__ import annotations

import json
import random
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from helix.recipes.load_profile import names
from helix.sdk.memory import Memory
from helix.settings import Settings
from tests.property.test_acl import One, Parts, build, opened, placed, questions, recalled, world
from tests.support.tiny import BASE

pytestmark = pytest.mark.usefixtures("stores")  # for its mark

ZERO = datetime.fromtimestamp(BASE, UTC)
SPAN = 1_000  # seconds over which things are said, come in and end


def at(seconds: float) -> datetime:
    return ZERO + timedelta(seconds=seconds)


def timed(rng: random.Random, parts: Parts) -> list[list[One]]:
    """The items with times of their own: half of them come in later than what they say begins to hold."""

    def times() -> dict[str, Any]:
        valid = rng.randint(0, SPAN)
        accepted = (BASE + rng.choice([valid, rng.randint(0, SPAN)])) * 1_000_000 + rng.choice([0, 400_000, 600_000])
        until = BASE + rng.randint(valid, 2 * SPAN) if rng.random() < 0.3 else None
        times = {"time": BASE + valid, "t_valid": BASE + valid, "t_invalid": until, "accepted": accepted}
        return {**times, "acl": [], "session": f"s{rng.randint(0, 4)}", "project": rng.choice("pqr")}

    return [[one._replace(given={**one.given, **times()}) for one in part] for part in parts]


def known(one: One, moment: datetime) -> bool:
    """The three conditions, said again."""
    given = one.given
    if given["t_invalid"] is not None and datetime.fromtimestamp(given["t_invalid"], UTC) <= moment:
        return False
    came = datetime.fromtimestamp(given["accepted"] // 1_000_000, UTC) + timedelta(
        microseconds=given["accepted"] % 1_000_000
    )
    return datetime.fromtimestamp(given["t_valid"], UTC) <= moment and came <= moment


@pytest.mark.parametrize("seed", range(6))
def test_as_of_is_a_store_that_heard_of_nothing_later(tmp_path: Path, seed: int) -> None:
    rng = random.Random(100 + seed)
    parts = timed(rng, world(rng))
    moment = at(rng.randint(SPAN // 3, SPAN) + rng.choice([0.0, 0.5]))
    then = [[one for one in part if known(one, moment)] for part in parts]
    assert 5 < sum(map(len, then)) < sum(map(len, parts)) - 5
    knows, knew = opened(build(tmp_path / "a", parts)), opened(build(tmp_path / "b", then))
    kept = [one.id for part in then for one in part]
    telling = 0
    for profile in names():
        for _ in range(3):
            asked = {**questions(rng), "profile": profile, "as_of": moment, "why_not": rng.choice(kept)}
            said, expected = recalled(knows, **asked), recalled(knew, **asked)
            if expected.startswith("refused: "):  # a project or speaker of later is known today, and holds nothing yet
                assert said == expected or json.loads(said)["items"] == []
                continue
            assert said == expected, (profile, asked)
            telling += said != recalled(knows, **{**asked, "as_of": None})
            today = {**asked, "now": moment}
            if profile == "memoria":
                continue  # as of a moment it leaves out the facts that were over then; else it demotes them
            # Then it was now: the answer is the one that was given then.
            assert recalled(knows, **today) == recalled(knew, **{**today, "as_of": None}), (profile, asked)
    assert telling


@pytest.mark.parametrize(
    ("given", "moment", "there"),
    [
        ({"t_valid": BASE + 10}, 10, True),
        ({"t_valid": BASE + 11}, 10, False),
        ({"t_valid": BASE + 11}, 10.9, False),
        ({"t_invalid": BASE + 10}, 10, False),
        ({"t_invalid": BASE + 11}, 10, True),
        ({"t_invalid": BASE + 11}, 10.9, True),
        ({"accepted": (BASE + 10) * 1_000_000}, 10, True),
        ({"accepted": (BASE + 10) * 1_000_000 + 1}, 10, False),
        ({"accepted": (BASE + 10) * 1_000_000 + 500_000}, 10.5, True),
    ],
)
def test_the_borders_of_a_moment(tmp_path: Path, given: Mapping[str, Any], moment: float, there: bool) -> None:
    one = One("walnut", {"t_valid": BASE, "accepted": BASE * 1_000_000, **given})
    memory = opened(build(tmp_path / "s", [placed([one])]))
    for profile in ("helix", "helix-paper"):
        found = memory.recall("walnut", now=at(SPAN), as_of=at(moment), profile=profile)
        assert bool(found.items) == there


# ---------------------------------------------------------------- what no longer holds

ROME = {"subject": "ana", "relation": "lives_in", "object_": "rome"}
LATER = {"time": BASE + 600, "t_ingested": BASE + 600, "session": "t"}
SAID = (
    One("ana harbour rome", {"time": BASE}, [("person", "ana", "Ana")], facts=[ROME]),
    One("harbour walnut", {"time": BASE}),
    One(
        "ana harbour figs",
        {"time": BASE, "session": "u"},
        facts=[ROME, {"subject": "ana", "relation": "likes", "object_": "figs", "functional": False}],
    ),
)
ENDINGS = {
    "another object": One("ana orchid", LATER, facts=[{**ROME, "object_": "oslo"}]),
    "a closing": One("ana granite", LATER, facts=[{**ROME, "closes": True}]),
    "a closing of any object": One("ana granite", LATER, facts=[{**ROME, "object_": "", "closes": True}]),
}
OVER, PARTLY = (one.id for one in placed(SAID)[::2])


def scores(memory: Memory, profile: str, **more: Any) -> dict[str, float]:
    found = memory.recall("where is the harbour of ana", now=at(5 * SPAN), profile=profile, k=50, **more)
    return {item.id: item.score for item in found.items}


@pytest.fixture(params=ENDINGS)
def lived(request: pytest.FixtureRequest, tmp_path: Path) -> Memory:
    """Ana lives in Rome, until she does not; profiles without a demotion beside the packaged ones."""
    folder = tmp_path / "profiles"
    folder.mkdir()
    for name in ("helix", "helix-paper"):
        (folder / f"even-{name}.toml").write_text(f'base = "{name}"\n[rank]\nsuperseded = 0.0\n', "utf-8")
    root = build(tmp_path / "s", [placed([*SAID, ENDINGS[request.param]])])
    return opened(root, Settings(profiles=str(folder)))


def test_what_no_longer_holds_is_demoted(lived: Memory) -> None:
    for profile in ("helix", "helix-paper"):
        demoted, even = scores(lived, profile), scores(lived, f"even-{profile}")
        assert even[OVER] > demoted[OVER] > 0
        changed = {name for name in even if even[name] != demoted[name]}
        rome = {name for name in changed if demoted[name] < even[name]}
        assert rome == {OVER}  # one fact that holds is enough
        assert len(changed) <= 2  # and what holds instead is lifted
        before = {"as_of": at(599)}
        assert scores(lived, profile, **before)[OVER] == scores(lived, f"even-{profile}", **before)[OVER] > 0
        assert scores(lived, profile, as_of=at(600))[OVER] < scores(lived, f"even-{profile}", as_of=at(600))[OVER]


def test_with_current_only_what_no_longer_holds_is_not_there(lived: Memory) -> None:
    for profile in names():
        assert OVER in scores(lived, profile), profile
        now, then = (scores(lived, profile, current_only=True, **more) for more in ({}, {"as_of": at(599)}))
        assert OVER not in now, profile
        assert PARTLY in now, profile
        assert OVER in then, profile
        found = lived.recall("harbour ana", now=at(SPAN), profile=profile, current_only=True, why_not=OVER)
        assert found.trace is not None
        assert "what it says no longer holds (current_only)" in found.trace["why_not"]
        assert OVER not in [item.id for item in found.packed]


def test_what_ended_later_still_holds_now(tmp_path: Path) -> None:
    """The moment of asking decides, not the clock: at a `now` before the ending nothing is over yet."""
    root = build(tmp_path / "s", [placed([*SAID, ENDINGS["another object"]])])
    memory = opened(root)
    for now, there in ((at(599), True), (at(600), False)):
        found = memory.recall("where is the harbour of ana", now=now, current_only=True, k=50)
        assert (OVER in [item.id for item in found.items]) == there


def test_an_end_that_was_said_at_once_comes_when_it_comes(tmp_path: Path) -> None:
    """The fact knows its own end: as of a moment before, it still held."""
    folder = tmp_path / "profiles"
    folder.mkdir()
    (folder / "even.toml").write_text('base = "helix"\n[rank]\nsuperseded = 0.0\n', "utf-8")
    ending = [SAID[0]._replace(facts=[{**ROME, "until": BASE + 600}]), *SAID[1:]]
    memory = opened(build(tmp_path / "s", [placed(ending)]), Settings(profiles=str(folder)))
    for seconds, holds in ((599, True), (600, False)):
        demoted, even = (scores(memory, profile, as_of=at(seconds)) for profile in ("helix", "even"))
        assert (demoted[OVER] == even[OVER]) == holds
        assert (OVER in scores(memory, "helix", as_of=at(seconds), current_only=True)) == holds
