"""Random interleavings of appends, folds and kills against a Counter: every event counts once."""

from __future__ import annotations

import shutil
import tempfile
from collections import Counter
from contextlib import ExitStack, suppress
from pathlib import Path
from unittest import mock

import pytest
from hypothesis import given
from hypothesis import strategies as st

from helix.snapshot import writer
from helix.snapshot.ledger import access_events, inbox
from helix.snapshot.ledger.access_events import KINDS, AccessEvent, EventAppender
from helix.snapshot.reader.snapshot import Snapshot
from helix.snapshot.verify import verify_store
from pipelines.maintain import touch as folding
from pipelines.maintain.touch import touch
from tests.support.draws import draw_share
from tests.support.tiny import SETTINGS, make_store

pytestmark = pytest.mark.usefixtures("stores")  # for its mark

POINTS = (
    *("touch.begin", "touch.access", "commit.manifest", "commit.checked", "commit.current"),
    *("touch.published", "touch.cleaning", "touch.cleaned"),
)
ITEMS, NOBODY = 4, 4  # the last number is an id that no item has

EVENT = st.tuples(st.integers(0, NOBODY), st.sampled_from(KINDS), st.integers(0, 1_700_000_000))
APPENDER = st.integers(0, 2)
STEP = st.one_of(
    st.tuples(st.just("append"), APPENDER, st.lists(EVENT, min_size=1, max_size=3)),
    st.tuples(st.just("close"), APPENDER),
    st.tuples(st.just("tear"), APPENDER, EVENT, st.integers(1, 40)),
    st.tuples(st.just("touch")),
    st.tuples(st.just("kill"), st.sampled_from(POINTS)),
)


class Killed(BaseException):
    """Ends the run like SIGKILL; open files are closed."""


@pytest.fixture(scope="module")
def base(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("base") / "s"
    make_store(root, ["walnut", "parsley", "saffron", "thyme"], cuts=[1, 3])
    return root


def killed_touch(root: Path, point: str) -> None:
    def failpoint(name: str) -> None:
        if name == point:
            raise Killed

    with ExitStack() as stack, suppress(Killed):
        for module in (folding, access_events, writer):
            stack.enter_context(mock.patch.object(module, "failpoint", failpoint))
        touch(root, SETTINGS)


def tear_line(root: Path, appender: EventAppender, event: AccessEvent, length: int) -> None:
    """Let an appender die inside its last line."""
    appender.append([event])
    file = appender._file
    assert file is not None
    file.write(b'{"item":"' + event.item.encode() + b'","kind":"used"}'[:length])
    appender.close()


@draw_share(0.2)
@given(steps=st.lists(STEP, max_size=14))
def test_every_event_counts_exactly_once(base: Path, steps) -> None:
    with tempfile.TemporaryDirectory() as work:
        root = Path(work) / "s"
        shutil.copytree(base, root)
        keys = [*Snapshot.open(root).columns.key.tolist(), 1]
        appenders = [EventAppender(root) for _ in range(3)]
        count: Counter[int] = Counter()
        last: dict[int, int] = {}

        def model(item: int, kind: str, at: int) -> AccessEvent:
            if item != NOBODY and kind in access_events.COUNTED:
                count[keys[item]] += 1
                last[keys[item]] = max(last.get(keys[item], 0), at)
            return AccessEvent(f"{keys[item]:016x}", kind, at)

        def check() -> None:
            _, manifest = inbox.load_current(root)
            assert manifest is not None
            found = access_events.load_access(root, manifest.access)
            assert dict(zip(found.key.tolist(), found.count.tolist(), strict=True)) == count
            assert dict(zip(found.key.tolist(), found.last.tolist(), strict=True)) == last

        for name, *arguments in steps:
            match name, arguments:
                case "append", [i, batch]:
                    appenders[i].append([model(*event) for event in batch])
                case "close", [i]:
                    appenders[i].close()
                case "tear", [i, event, length]:
                    tear_line(root, appenders[i], model(*event), length)
                case "kill", [point]:
                    killed_touch(root, point)
                case _:
                    touch(root, SETTINGS)
                    check()
        for appender in appenders:
            appender.close()
        touch(root, SETTINGS)
        check()
        name, _ = inbox.load_current(root)
        assert list((root / "events").iterdir()) == []
        touch(root, SETTINGS)
        assert inbox.load_current(root)[0] == name
        assert verify_store(root).problems == ()
