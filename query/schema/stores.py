"""The stores of a server of many, as REST lists them."""

from __future__ import annotations

from pydantic import BaseModel, Field


class ListedStore(BaseModel):
    """A store, and the caller's rights in it."""

    store: str = Field(description="for /stores/NAME")
    scopes: list[str]
    open: bool = Field(description="a recall need not open it first")


class StoreList(BaseModel):
    """The caller's stores."""

    stores: list[ListedStore]
