"""Every setting in one table: name, default, unit, meaning, source. `HELIX_<NAME>` in the environment overrides."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any

from helix.errors import UsageError


def _setting(default: Any, unit: str, meaning: str, source: str = "", *, secret: bool = False) -> Any:
    return field(default=default, repr=not secret, metadata={"unit": unit, "meaning": meaning, "source": source})


@dataclass(frozen=True, slots=True)
class Settings:
    """The values in force. Build with `load()`; pass explicitly, never read at import."""

    store: str = _setting("helix-store", "path", "the store, where --store is not given")
    redis_url: str = _setting("", "url", "the broker; empty: embedded, no broker")
    message_key: str = _setting(
        "", "path", "the RSA key (PEM) that messages to workers are signed with; empty: they are not signed"
    )
    message_certificate: str = _setting("", "path", "the certificate of that key")
    message_certificates: str = _setting(
        "", "path", "the folder with the certificate of everybody whose messages a worker takes"
    )
    alive: str = _setting(
        "", "path", "a file that a worker or beat touches every ten seconds as long as it is at work; empty: none"
    )
    share: str = _setting(
        "", "url", "where machines without a common folder meet: s3://bucket/prefix or a folder; empty: one machine"
    )
    models: str = _setting("", "path", "folder of local models, one folder a model")
    profiles: str = _setting("", "path", "folder of your own profiles, one TOML file each")
    encoder: str = _setting("", "name or path", "the encoder of a new lineage; empty: the best one in reach")
    vectors: str = _setting(
        "int8",
        "tier",
        "how a new lineage is searched: int8, binary or prefix:DIMS; with +float rescored in half precision",
    )
    doc2query: str = _setting(
        "", "name or path", "the model that expands items; empty: the default where its weights are in reach; off: none"
    )
    doc2query_queries: int = _setting(3, "questions", "asked about one item")
    doc2query_near: float = _setting(0.3, "cosine", "a question farther from its item is dropped")
    sparse_encoder: str = _setting(
        "", "name or path", "the sparse encoder (SPLADE, or inference-free) that 'helix expand' runs; empty: none"
    )
    late_encoder: str = _setting(
        "", "name or path", "the late-interaction reranker, prepared by 'helix models export'; empty: none"
    )
    cross_encoder: str = _setting(
        "", "name or path", "the cross-encoder that reranks, prepared by 'helix models export'; empty: none"
    )
    cache: str = _setting(str(Path.home() / ".cache" / "helix"), "path", "exported encoders, kept with their checksums")
    max_document_bytes: int = _setting(1 << 30, "bytes", "a larger input is refused")
    max_line_bytes: int = _setting(16 << 20, "bytes", "a longer line is refused; the rest of its file goes in")
    max_query_chars: int = _setting(10_000, "characters", "a longer query is refused")
    max_k: int = _setting(1_000, "items", "a larger k is refused")
    max_budget: int = _setting(100_000, "tokens", "a larger budget is refused")
    item_words: int = _setting(150, "words", "a longer turn is cut into pieces", "encoder window of 256 word pieces")
    tool_chars: int = _setting(1_200, "characters", "kept of one tool result, half from each end")
    embed_batch: int = _setting(32, "texts", "one ONNX run at ingest", "285 passages/s raw on 2 cores (operating.md)")
    threads: int = _setting(
        0,
        "threads",
        "ONNX Runtime intra-op threads; 0: as many as cores, at most 2, one a question; 1: one for all of a question; "
        "and processes of a reindex; 0: as many as cores",
    )
    answers: int = _setting(256, "answers", "kept for whoever asks the same again within the minute; 0: none")
    lock_wait: float = _setting(60.0, "seconds", "how long a second writer waits for the first")
    keep_generations: int = _setting(10, "generations", "earlier ones that gc keeps, to roll back to")
    gc_grace: float = _setting(3_600.0, "seconds", "gc leaves younger files alone: they may be of use yet")
    reload_interval: float = _setting(0.25, "seconds", "how often the query process looks for a new generation")
    keys: str = _setting("", "path", "the file of API keys; empty: keys.json in the store")
    rate_limit: float = _setting(
        100.0, "requests a second", "that a key may make, twice as many at once; 0: no limit; without a key none"
    )
    max_concurrent: int = _setting(64, "requests", "a query process has under way at once; beyond that it says 503")
    request_timeout: float = _setting(
        30.0, "seconds", "one request may take once it has come; then it is answered 503. As long, to take the answer"
    )
    receive_timeout: float = _setting(
        10.0, "seconds", "the head of a request may take, and its body again; then the connection is closed"
    )
    max_connections: int = _setting(
        512,
        "connections",
        "that a query process holds; beyond that the one that waits longest for its client is closed for a new one",
    )
    max_connections_of_address: int = _setting(
        256, "connections", "the same of one address; a proxy and the agents of a machine have one"
    )
    reconcile_interval: float = _setting(30.0, "seconds", "how often a worker looks for accepted, unfinished documents")
    retry_wait: float = _setting(
        5.0, "seconds", "before a failed document is tried again; four times as long each time"
    )
    max_backlog: int = _setting(100_000, "documents", "may wait for the workers; beyond that nothing more is accepted")
    tidy_interval: float = _setting(60.0, "seconds", "how often beat has segments merged and feedback folded in")
    visibility_timeout: int = _setting(
        3_600, "seconds", "after which Redis hands an unacknowledged task out again", "must exceed task_time_limit"
    )
    task_time_limit: int = _setting(1_800, "seconds", "hard limit of one task; the soft one is 60 s less")
    sql_timeout: float = _setting(60.0, "seconds", "one 'helix sql' may compute; then it is ended; 0: no limit")
    deep_url: str = _setting(
        "",
        "url",
        "an OpenAI-compatible chat endpoint, up to /v1, e.g. http://127.0.0.1:11434/v1; empty: no deep recall",
    )
    deep_model: str = _setting("", "name", "the model that is asked there")
    deep_key: str = _setting("", "secret", "the endpoint's API key; empty: none is sent", secret=True)
    deep_options: str = _setting(
        "", "JSON object", 'added to the body of each request; null takes a field out: {"temperature": null}'
    )
    deep_techniques: str = _setting(
        "rerank,hyde,synthesis,query2doc",
        "names",
        "what the model is asked for; the first of these where deep_calls allows no more",
    )
    deep_projects: str = _setting(
        "", "projects", "whose memories may be sent to the endpoint, by commas; *: all; empty: none, only questions are"
    )
    deep_calls: int = _setting(4, "requests", "that one deep recall may make, 1 to 4")
    deep_seconds: float = _setting(20.0, "seconds", "one deep recall may take; then the answer without a model stands")
    deep_tokens: int = _setting(8_000, "tokens", "of one prompt, about: memories are cut to fit")
    deep_reply_tokens: int = _setting(400, "tokens", "of one reply; a model that thinks aloud needs more")
    deep_concurrent: int = _setting(2, "recalls", "that ask the endpoint at once, over all processes of a store")


def load(environ: Mapping[str, str] | None = None) -> Settings:
    """Defaults, overridden by `HELIX_<NAME>`.

    Raises:
        UsageError: a variable's value is not of its setting's type, or no URL where one belongs.
    """
    environ = os.environ if environ is None else environ
    values: dict[str, Any] = {}
    for setting in fields(Settings):
        variable = f"HELIX_{setting.name.upper()}"
        given = environ.get(variable)
        if given is None:
            continue
        kind: type[str] | type[int] | type[float] = type(setting.default)  # type: ignore[assignment]
        try:
            values[setting.name] = kind(given)
        except ValueError:
            raise UsageError(
                f"{variable}={given!r} is not {'a number' if kind is not str else 'text'}",
                f"give it in {setting.metadata['unit']}, or unset it (default {setting.default})",
            ) from None
        if given and setting.metadata["unit"] == "url":
            _check_url(setting.name, given, variable)
    return Settings(**values)


def _check_url(name: str, given: str, variable: str) -> None:
    from helix.util import urls  # an agent's hook, which may have none, waits for this module

    if name == "deep_url":
        urls.check_http_url(given, variable, "http://127.0.0.1:11434/v1")
    elif name == "redis_url":
        urls.check_redis_url(given, variable)
    else:
        urls.check_store_url(given, variable)
