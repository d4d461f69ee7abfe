"""As-of recalls: a store as of a moment answers as one that holds nothing later.

Bi-temporal (Snodgrass 1999, "Developing time-oriented database applications in SQL"). `as_of`: t_valid ≤ moment,
t_invalid null or later. `ingested_as_of`: t_ingested ≤ moment. And what an item says counts for less once it no longer
holds.
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
from tests.property.test_acl import Entry, Parts, build, draw_arguments, make_world, open_store, place_items, recall_all
from tests.support.tiny import BASE

pytestmark = pytest.mark.usefixtures("stores")  # for its mark

ZERO = datetime.fromtimestamp(BASE, UTC)
SPAN = 1_000  # seconds over which facts are stated, accepted and ended


def moment_at(seconds: float) -> datetime:
    return ZERO + timedelta(seconds=seconds)


def set_times(rng: random.Random, parts: Parts) -> list[list[Entry]]:
    """Give items times of their own: half are accepted later than they become valid."""

    def times() -> dict[str, Any]:
        valid = rng.randint(0, SPAN)
        accepted = (BASE + rng.choice([valid, rng.randint(0, SPAN)])) * 1_000_000 + rng.choice([0, 400_000, 600_000])
        until = BASE + rng.randint(valid, 2 * SPAN) if rng.random() < 0.3 else None
        times = {"time": BASE + valid, "t_valid": BASE + valid, "t_invalid": until, "accepted": accepted}
        return {**times, "acl": [], "session": f"s{rng.randint(0, 4)}", "project": rng.choice("pqr")}

    return [[one._replace(given={**one.given, **times()}) for one in part] for part in parts]


def is_known(one: Entry, as_of: datetime | None = None, ingested_as_of: datetime | None = None) -> bool:
    """Check the conditions of a view of time."""
    given = one.given
    ended = given["t_invalid"] is not None and as_of and datetime.fromtimestamp(given["t_invalid"], UTC) <= as_of
    came = datetime.fromtimestamp(given["accepted"] // 1_000_000, UTC) + timedelta(
        microseconds=given["accepted"] % 1_000_000
    )
    said = as_of is None or datetime.fromtimestamp(given["t_valid"], UTC) <= as_of
    return said and not ended and (ingested_as_of is None or came <= ingested_as_of)


def recall_without_notice(memory: Memory, **asked: Any) -> str:
    """Recall without the notice, which tells a caller of what it may see at other times."""
    answer = recall_all(memory, **asked)
    return answer if answer.startswith("refused: ") else json.dumps({**json.loads(answer), "notice": None})


@pytest.mark.parametrize("seed", range(6))
def test_an_as_of_recall_equals_a_store_without_later_items(tmp_path: Path, seed: int) -> None:
    rng = random.Random(100 + seed)
    parts = set_times(rng, make_world(rng))
    moment = moment_at(rng.randint(SPAN // 4, 3 * SPAN // 4) + rng.choice([0.0, 0.5]))
    options = (("as_of",), ("ingested_as_of",), ("as_of", "ingested_as_of"))[seed % 3]
    limits = dict.fromkeys(options, moment)
    then = [[one for one in part if is_known(one, **limits)] for part in parts]
    assert 5 < sum(map(len, then)) < sum(map(len, parts)) - 5
    knows, knew = open_store(build(tmp_path / "a", parts)), open_store(build(tmp_path / "b", then))
    identities = [one.id for part in then for one in part]
    differing = False
    for profile in names():
        for _ in range(3):
            asked = {**draw_arguments(rng), "profile": profile, "why_not": rng.choice(identities)}
            asked = {**asked, "as_of": None, **limits}
            answer, expected = recall_without_notice(knows, **asked), recall_without_notice(knew, **asked)
            if expected.startswith("refused: "):  # a later project or speaker is known today, without items
                assert answer == expected or json.loads(answer)["items"] == []
                continue
            assert answer == expected, (profile, asked)
            differing = differing or answer != recall_without_notice(knows, **asked | dict.fromkeys(options))
            if "as_of" not in options:
                continue
            today = {**asked, "now": moment}
            if profile == "memoria":
                continue  # it drops superseded facts as of a moment, and demotes them without one
            # With `now` at that moment the answer is the same as then.
            then_now = recall_without_notice(knew, **today | dict.fromkeys(options))
            assert recall_without_notice(knows, **today) == then_now, (profile, asked)
    assert differing


@pytest.mark.parametrize(("given", "moment", "present"), [
    ({"t_valid": BASE + 10}, 10, True), ({"t_valid": BASE + 11}, 10, False), ({"t_valid": BASE + 11}, 10.9, False),
    ({"t_invalid": BASE + 10}, 10, False), ({"t_invalid": BASE + 11}, 10, True), ({"t_invalid": BASE + 11}, 10.9, True),
    ({"accepted": (BASE + 999) * 1_000_000}, 10, True),
])  # fmt: skip
def test_the_borders_of_a_moment(tmp_path: Path, given: Mapping[str, Any], moment: float, present: bool) -> None:
    one = Entry("walnut", {"t_valid": BASE, "accepted": BASE * 1_000_000, **given})
    memory = open_store(build(tmp_path / "s", [place_items([one])]))
    for profile in ("helix", "helix-paper"):
        found = memory.recall("walnut", now=moment_at(SPAN), as_of=moment_at(moment), profile=profile)
        assert bool(found.items) == present


@pytest.mark.parametrize(("micro", "moment", "present"), [(0, 10, True), (1, 10, False), (500_000, 10.5, True)])
def test_the_borders_of_a_moment_of_ingest(tmp_path: Path, micro: int, moment: float, present: bool) -> None:
    given = {"t_valid": BASE + 999, "accepted": (BASE + 10) * 1_000_000 + micro}
    memory = open_store(build(tmp_path / "s", [place_items([Entry("walnut", given)])]))
    found = memory.recall("walnut", now=moment_at(SPAN), ingested_as_of=moment_at(moment))
    assert bool(found.items) == present


# ---------------------------------------------------------------- superseded facts

ROME = {"subject": "ana", "relation": "lives_in", "object_": "rome"}
LATER = {"time": BASE + 600, "t_ingested": BASE + 600, "session": "t"}
STATED = (
    Entry("ana harbour rome", {"time": BASE}, [("person", "ana", "Ana")], facts=[ROME]),
    Entry("harbour walnut", {"time": BASE}),
    Entry(
        "ana harbour figs",
        {"time": BASE, "session": "u"},
        facts=[ROME, {"subject": "ana", "relation": "likes", "object_": "figs", "functional": False}],
    ),
)
ENDINGS = {
    "another object": Entry("ana orchid", LATER, facts=[{**ROME, "object_": "oslo"}]),
    "a closing": Entry("ana granite", LATER, facts=[{**ROME, "closes": True}]),
    "a closing of any object": Entry("ana granite", LATER, facts=[{**ROME, "object_": "", "closes": True}]),
}
OVER, PARTLY = (one.id for one in place_items(STATED)[::2])


def scores(memory: Memory, profile: str, **more: Any) -> dict[str, float]:
    found = memory.recall("where is the harbour of ana", now=moment_at(5 * SPAN), profile=profile, k=50, **more)
    return {item.id: item.score for item in found.items}


@pytest.fixture(params=ENDINGS)
def memory(request: pytest.FixtureRequest, tmp_path: Path) -> Memory:
    """Ana lives in Rome, until she does not; `own-` profiles demote what ended, `even-` ones nothing."""
    folder = tmp_path / "profiles"
    folder.mkdir()
    for name in ("helix", "helix-paper"):
        own = f'base = "{name}"\n[reading]\ntop = 0\n[rank]\nsuperseded = '
        (folder / f"own-{name}.toml").write_text(own + "0.1\n", "utf-8")
        (folder / f"even-{name}.toml").write_text(own + "0.0\n", "utf-8")
    root = build(tmp_path / "s", [place_items([*STATED, ENDINGS[request.param]])])
    return open_store(root, Settings(profiles=str(folder)))


def test_a_superseded_fact_is_demoted(memory: Memory) -> None:
    for name in ("helix", "helix-paper"):
        profile, level = f"own-{name}", f"even-{name}"
        demoted, even = scores(memory, profile), scores(memory, level)
        assert even[OVER] > demoted[OVER] > 0
        changed = {name for name in even if even[name] != demoted[name]}
        rome = {name for name in changed if demoted[name] < even[name]}
        assert rome == {OVER}  # the other item has a fact that holds
        assert len(changed) <= 2  # the new fact's item is lifted
        before = {"as_of": moment_at(599)}
        assert scores(memory, profile, **before)[OVER] == scores(memory, level, **before)[OVER] > 0
        assert scores(memory, profile, as_of=moment_at(600))[OVER] < scores(memory, level, as_of=moment_at(600))[OVER]


def test_current_only_removes_superseded_facts(memory: Memory) -> None:
    for profile in names():
        assert (OVER in scores(memory, profile)) == (profile != "memoria"), profile  # which knows what holds alone
        now, then = (scores(memory, profile, current_only=True, **more) for more in ({}, {"as_of": moment_at(599)}))
        assert OVER not in now, profile
        assert PARTLY in now, profile
        assert OVER in then, profile
        found = memory.recall("harbour ana", now=moment_at(SPAN), profile=profile, current_only=True, why_not=OVER)
        assert found.trace is not None
        assert "what it says no longer holds (current_only)" in found.trace["why_not"]
        assert OVER not in [item.id for item in found.packed]


def test_a_fact_that_ends_later_holds_now(tmp_path: Path) -> None:
    """`now` decides, not the clock."""
    root = build(tmp_path / "s", [place_items([*STATED, ENDINGS["another object"]])])
    memory = open_store(root)
    for now, present in ((moment_at(599), True), (moment_at(600), False)):
        found = memory.recall("where is the harbour of ana", now=now, current_only=True, k=50)
        assert (OVER in [item.id for item in found.items]) == present


def test_an_end_stated_in_advance_applies_at_its_moment(tmp_path: Path) -> None:
    """As of a moment before its end, the fact holds."""
    folder = tmp_path / "profiles"
    folder.mkdir()
    for name, share in (("own", 0.1), ("even", 0.0)):
        text = f'base = "helix"\n[reading]\ntop = 0\n[rank]\nsuperseded = {share}\n'
        (folder / f"{name}.toml").write_text(text, "utf-8")
    ending = [STATED[0]._replace(facts=[{**ROME, "until": BASE + 600}]), *STATED[1:]]
    memory = open_store(build(tmp_path / "s", [place_items(ending)]), Settings(profiles=str(folder)))
    for seconds, holds in ((599, True), (600, False)):
        demoted, even = (scores(memory, profile, as_of=moment_at(seconds)) for profile in ("own", "even"))
        assert (demoted[OVER] == even[OVER]) == holds
        assert (OVER in scores(memory, "helix", as_of=moment_at(seconds), current_only=True)) == holds
