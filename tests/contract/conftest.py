"""A chat endpoint for the tests of the deep tier."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.support.chat_server import Chat, chatting


@pytest.fixture(scope="module")
def chat() -> Iterator[Chat]:
    with chatting() as server:
        yield server


@pytest.fixture
def no_requests(chat: Chat) -> None:
    """An empty log of the endpoint."""
    chat.forget()
