"""An export that is split into conversations gives the items of the whole."""

from __future__ import annotations

import json
import tempfile
from pathlib import Path
from typing import Any
from unittest import mock

import pytest
from hypothesis import given
from hypothesis import strategies as st

from helix.errors import InputRefused
from helix.sources.common import json_list
from tests.support.draws import draw_share
from tests.support.exports import chatgpt, claude_ai, whole
from tests.support.paths import DATA
from tests.support.replay import Replay

pytestmark = pytest.mark.usefixtures("stores")  # for its mark

LOGS = DATA / "logs"

NAMES = st.sampled_from(["a", "b", "a-2", "a~m-1", "6817a0c0-0001-8004-9c2f-3f5d7c1e0a01", ""]) | st.none()
SAID = st.sampled_from(["Walnuts?", 'Thyme \\ "é" 😀 ]}', "[", "", "The " * 400, "half \ud83d"])
BESIDE = st.sampled_from([None, 1, "mapping", [], {}, {"rows": [1]}])


def _load_exports(*names: str) -> list[Any]:
    return [value for name in names for value in json.loads((LOGS / name).read_text())]


CHATGPT = (
    st.builds(
        lambda name, texts, id: chatgpt(name, *texts, id=id), NAMES, st.lists(SAID, max_size=5), st.sampled_from("mn")
    )
    | st.sampled_from(_load_exports("chatgpt.json"))
    | st.just({"rating": 1, "conversation_id": "a"})
)
CLAUDE_AI = st.builds(lambda name, texts: claude_ai(name, *texts), NAMES, st.lists(SAID, max_size=5)) | st.sampled_from(
    _load_exports("claude_ai.json", "claude_ai_projects.json")
)


@given(
    st.lists(CHATGPT | BESIDE, min_size=1, max_size=7) | st.lists(CLAUDE_AI | BESIDE, min_size=1, max_size=7),
    st.sampled_from([None, 1]),
    st.booleans(),
    st.sampled_from([1, 50, 1 << 20]),
)
@draw_share(0.6)
def test_the_entries_give_the_items_of_the_whole(
    values: list[Any], indent: int | None, ascii: bool, block: int
) -> None:
    text = json.dumps(values, indent=indent, ensure_ascii=ascii)
    with tempfile.TemporaryDirectory() as folder, mock.patch.object(json_list, "_BLOCK", block):
        path = Path(folder) / "conversations.json"
        path.write_bytes(text.encode("utf-8", "replace"))
        parts, at_once = Replay(Path(folder) / "parts"), Replay(Path(folder) / "whole")
        try:
            at_once.apply(whole(at_once.root, path))
        except InputRefused:
            with pytest.raises(InputRefused):
                parts.offer(path)
            return
        parts.offer(path)
        assert parts.compare_fields() == at_once.compare_fields()
        path.touch()
        assert parts.offer(path) == ()
