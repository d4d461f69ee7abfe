"""Every setting in one table: name, default, unit, meaning, source. `HELIX_<NAME>` in the environment overrides."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any

from helix.errors import UsageError
from helix.util.store_place import find_store


def _declare(default: Any, unit: str, meaning: str, source: str = "", *, secret: bool = False) -> Any:
    return field(default=default, repr=not secret, metadata={"unit": unit, "meaning": meaning, "source": source})


_CHOICES = ("on or off", "fast or best", "auto, text or json")  # units of settings that are one of these words


@dataclass(frozen=True, slots=True)
class Settings:
    """The values of all settings. Build them with `load()` and pass them on; never read them at import."""

    store: str = _declare(
        "", "path", "the store, unless --store names one; empty: ./helix-store if it exists, else ~/.helix/memory"
    )
    stores: str = _declare("", "path", "the folder of many stores, which workers serve together; empty: one store")
    redis_url: str = _declare("", "url", "the broker; empty: no workers, everything runs in the calling process")
    message_key: str = _declare(
        "", "path", "the RSA key (PEM) that signs messages to workers; empty: unsigned messages"
    )
    message_certificate: str = _declare("", "path", "the certificate of that key")
    message_certificates: str = _declare("", "path", "the folder with the certificate of every allowed sender")
    team_key: str = _declare("", "path", "the Ed25519 key that signs entries of a team; empty: ~/.helix/keys/team.pem")
    alive: str = _declare("", "path", "a file that a running worker or beat touches every ten seconds; empty: none")
    share: str = _declare("", "url", "exchange between machines: s3://bucket/prefix or a folder; empty: one machine")
    log_format: str = _declare(
        "auto", "auto, text or json", "of running commands, on stderr; auto: text on a terminal, JSON lines elsewhere"
    )
    log_name: str = _declare("", "name", "begins each log line for a person; 'helix up' names its processes so")
    models: str = _declare("", "path", "folder of local models, one folder a model")
    profiles: str = _declare("", "path", "folder of your own profiles, one TOML file each")
    encoder: str = _declare("", "name or path", "the encoder of a new lineage; empty: the best available one")
    vectors: str = _declare("int8", "level", "storage of a new lineage: int8, binary or prefix:DIMS; +float rescores")
    dense: str = _declare("cpu", "processor", "which searches the dense leg: cpu or gpu")
    candidates: str = _declare(
        "",
        "place",
        "engine that finds the dense candidates, filled by 'helix export --to': lancedb:FOLDER, qdrant:URL or FOLDER, "
        "opensearch:URL; empty: the store's own indexes",
    )
    candidates_key: str = _declare(
        "", "secret", "of that engine: an API key of Qdrant, USER:PASSWORD of OpenSearch; empty: none", secret=True
    )
    doc2query: str = _declare("", "name or path", "model that expands items; empty: default if available; off: none")
    doc2query_queries: int = _declare(3, "questions", "generated for one item")
    doc2query_near: float = _declare(0.3, "cosine", "minimum similarity of a question to its item")
    sparse_encoder: str = _declare("", "name or path", "the sparse encoder (SPLADE or inference-free); empty: none")
    token_vectors: str = _declare("off", "on or off", "token vectors kept at ingest, for --rerank late (tiers.md)")
    late_encoder: str = _declare("", "name or path", "late-interaction reranker ('helix models export'); empty: none")
    cross_encoder: str = _declare("", "name or path", "cross-encoder of quality best ('helix models'); empty: our own")
    quality: str = _declare("fast", "fast or best", "of a recall that names none; best reads question and item at once")
    cache: str = _declare(str(Path.home() / ".cache" / "helix"), "path", "exported encoders, with their checksums")
    max_document_bytes: int = _declare(1 << 30, "bytes", "a larger input is refused")
    max_line_bytes: int = _declare(16 << 20, "bytes", "a longer line is refused; the rest of its file is accepted")
    max_query_chars: int = _declare(10_000, "characters", "a longer query is refused")
    max_k: int = _declare(1_000, "items", "a larger k is refused")
    max_budget: int = _declare(100_000, "tokens", "a larger budget is refused")
    item_words: int = _declare(150, "words", "a longer turn is cut into pieces", "encoder window of 256 word pieces")
    tool_chars: int = _declare(1_200, "characters", "retained of one tool result, half from each end")
    embed_batch: int = _declare(32, "texts", "one ONNX run at ingest", "285 passages/s raw on 2 cores (sizing.md)")
    threads: int = _declare(
        0,
        "threads",
        "ONNX Runtime threads; 0: one a core, at most 2, one question each; 1: one for all questions. "
        "Also the processes of a reindex; 0: one a core",
    )
    min_relevance: float = _declare(
        -1.0, "0 to 1", "least relevance of an item in a context; 0: every item; -1: as measured (relevance.md)"
    )
    hook_answered: float = _declare(0.2, "0 to 1", "least probability that an answer helps for a hook to speak")
    hook_tokens: int = _declare(12_000, "tokens", "that hooks add to one session of an agent; 0: none")
    answers: int = _declare(256, "answers", "cached for repeated questions, for a minute; 0: none")
    lock_wait: float = _declare(60.0, "seconds", "for which a second writer waits for the first")
    keep_generations: int = _declare(10, "generations", "earlier ones that gc retains, for a rollback")
    gc_grace: float = _declare(3_600.0, "seconds", "gc retains younger files: a running process may need them")
    reload_interval: float = _declare(0.25, "seconds", "between two checks of the query process for a new generation")
    stores_memory: int = _declare(
        2_048, "MiB", "of the open stores of one server, at most; more are closed and reopened"
    )
    keys: str = _declare("", "path", "the file of API keys; empty: keys.json in the store")
    rate_limit: float = _declare(100.0, "requests a second", "of a key, with bursts of twice as many; 0: no limit")
    max_concurrent: int = _declare(64, "requests", "at once in a query process; more are answered 503")
    request_timeout: float = _declare(
        30.0, "seconds", "for one request after its arrival, then 503; and as long for the client to read the answer"
    )
    receive_timeout: float = _declare(10.0, "seconds", "for a request's head, then for its body; else it is closed")
    max_connections: int = _declare(512, "connections", "of a query process; a new one closes the longest idle one")
    max_connections_of_address: int = _declare(256, "connections", "of one address: a proxy, or a machine's agents")
    reconcile_interval: float = _declare(30.0, "seconds", "between searches of the workers for unfinished documents")
    retry_wait: float = _declare(5.0, "seconds", "before the second attempt; four times as long for later ones")
    max_backlog: int = _declare(100_000, "documents", "of a store that may wait for the workers; more are refused")
    max_backlog_bytes: int = _declare(16 << 30, "bytes", "of a store that may wait for the workers; more are refused")
    tidy_interval: float = _declare(60.0, "seconds", "between the tasks of beat: merges and feedback")
    visibility_timeout: int = _declare(
        3_600, "seconds", "after which Redis delivers an unacknowledged task again", "must exceed task_time_limit"
    )
    task_time_limit: int = _declare(1_800, "seconds", "hard limit of one task; the soft one is 60 s less")
    sql_timeout: float = _declare(60.0, "seconds", "of computing for one 'helix sql'; 0: no limit")
    deep_url: str = _declare(
        "", "url", "an OpenAI-compatible chat endpoint up to /v1, e.g. http://127.0.0.1:11434/v1; empty: no deep recall"
    )
    deep_model: str = _declare("", "name", "the model of that endpoint")
    deep_key: str = _declare("", "secret", "the endpoint's API key; empty: none is sent", secret=True)
    deep_options: str = _declare("", "JSON object", 'fields added to each request; null removes: {"temperature": null}')
    deep_techniques: str = _declare(
        "rerank,hyde,synthesis,query2doc", "names", "techniques that ask the model; deep_calls uses the first of them"
    )
    deep_projects: str = _declare(
        "", "projects", "whose memories may be sent to the endpoint, by commas; *: all; empty: only questions are sent"
    )
    deep_calls: int = _declare(4, "requests", "of one deep recall, 1 to 4")
    deep_seconds: float = _declare(20.0, "seconds", "of one deep recall; then the fast answer is final")
    deep_tokens: int = _declare(8_000, "tokens", "of one prompt, about: memories are cut to fit")
    deep_reply_tokens: int = _declare(400, "tokens", "of one reply; a reasoning model needs more")
    deep_concurrent: int = _declare(2, "recalls", "at the endpoint at once, over all processes of a store")
    rerank_url: str = _declare(
        "", "url", "a rerank API that orders the memories of the tier deep, e.g. https://api.voyageai.com/v1/rerank"
    )
    rerank_model: str = _declare("", "name", "the model of that rerank API")
    rerank_key: str = _declare("", "secret", "the rerank API's key; empty: none is sent", secret=True)
    rerank_options: str = _declare("", "JSON object", "fields added to each request of that API; null removes")


def load(environ: Mapping[str, str] | None = None) -> Settings:
    """Return the defaults, overridden by `HELIX_<NAME>`.

    Raises:
        UsageError: a value is not of its setting's type, no URL, or none of its words.
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
        unit = setting.metadata["unit"]
        if unit in _CHOICES and given not in (words := unit.replace(", ", " or ").split(" or ")):
            fault = f"{variable}={given!r} is neither {' nor '.join(words)}"
            raise UsageError(fault, f"unset it (default {setting.default})")
    return Settings(**{**values, "store": find_store(environ=environ)})


def _check_url(name: str, given: str, variable: str) -> None:
    from helix.util import urls  # here: agent hooks wait for this module, and mostly set no URL

    if name == "deep_url":
        fault = urls.find_http_url_fault(given, variable, "http://127.0.0.1:11434/v1")
    elif name == "rerank_url":
        fault = urls.find_http_url_fault(given, variable, "https://api.voyageai.com/v1/rerank")
    elif name == "redis_url":
        fault = urls.find_redis_url_fault(given, variable)
    else:
        fault = urls.find_store_url_fault(given, variable)
    if fault:
        raise UsageError(*fault)
