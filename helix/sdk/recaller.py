"""The recall call of the SDK, the same for a store and for a server."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence

from helix.types import Bundle, RecallOptions, Time


class Recaller(ABC):
    """Answers questions: a store (`Memory`) or a server (`Remote`).

    The same question within a minute gets the cached answer, whose `ms` shows that no stage ran (setting `answers`).
    """

    @abstractmethod
    def answer(self, query: str, options: RecallOptions) -> Bundle:
        """Answer one question; see `recall`."""

    def recall(
        self,
        query: str,
        *,
        k: int | None = None,
        budget: int = 2000,
        project: str | None = None,
        type: str | None = None,
        since: Time = None,
        until: Time = None,
        as_of: Time = None,
        ingested_as_of: Time = None,
        session: str | None = None,
        speaker: str | None = None,
        current_only: bool = False,
        min_relevance: float | None = None,
        entities: Sequence[str] = (),
        ignored: Sequence[str] = (),
        principal: str | None = None,
        projects: Sequence[str] | None = None,
        profile: str = "helix",
        mode: str | None = None,
        look_back: float | None = None,
        quality: str | None = None,
        rerank: str | None = None,
        rerank_top: int = 20,
        now: Time = None,
        marks: bool = False,
        explain: bool = False,
        why_not: str | None = None,
        tier: str = "fast",
    ) -> Bundle:
        """Answer one question by `RecallOptions`. Raises UsageError, AccessError for a key, StoreError for no store."""
        options = RecallOptions(
            k=k, budget=budget, project=project, type=type, since=since, until=until, as_of=as_of,
            ingested_as_of=ingested_as_of, session=session, speaker=speaker, current_only=current_only,
            min_relevance=min_relevance, entities=tuple(entities), ignored=tuple(ignored), principal=principal,
            projects=None if projects is None else tuple(projects), profile=profile, mode=mode, look_back=look_back,
            quality=quality, rerank=rerank, rerank_top=rerank_top, now=now, marks=marks, explain=explain,
            why_not=why_not, tier=tier,
        )  # fmt: skip
        return self.answer(query, options)
