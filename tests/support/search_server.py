"""A stand-in for an OpenSearch server: the requests that `helix.engines.opensearch` sends, answered from memory.

It computes exact inner products and applies filters before them, as the k-NN plugin's Lucene engine does. What a server
refuses it refuses, too: an unknown index, a vector of another length, a condition on a field without an index, more
than 10,000 hits.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs, urlsplit

import numpy as np

MOST = 10_000


class Refused(Exception):
    """A request that a server answers with an error: status, kind and reason."""

    def __init__(self, status: int, kind: str, reason: str) -> None:
        super().__init__(reason)
        self.status, self.kind = status, kind


class Indexes:
    """Indexes by name, each with its mapping and documents; and the scrolls that are open."""

    def __init__(self) -> None:
        self.mappings: dict[str, dict[str, Any]] = {}
        self.documents: dict[str, dict[str, dict[str, Any]]] = {}
        self.scrolls: dict[str, list[dict[str, Any]]] = {}
        self.searches: list[dict[str, Any]] = []

    def answer(self, method: str, path: str, query: dict[str, list[str]], body: bytes) -> Any:
        """Answer one request."""
        parts = path.strip("/").split("/")
        if parts[-1] == "_bulk":
            return self._bulk(body)
        given = json.loads(body) if body else {}
        if path == "/":
            return {"version": {"number": "3.3.0", "distribution": "opensearch"}}
        if parts[:2] == ["_search", "scroll"]:
            return self._scroll(method, given)
        if len(parts) == 1 and method == "PUT":
            return self._create(parts[0], given)
        if parts[0] not in self.mappings:
            raise Refused(404, "index_not_found_exception", f"no such index [{parts[0]}]")
        if len(parts) == 1:
            if method == "DELETE":
                del self.mappings[parts[0]], self.documents[parts[0]]
            return {}
        if parts[1] == "_mapping":
            if method == "PUT":
                self.mappings[parts[0]] |= given
            return {parts[0]: {"mappings": self.mappings[parts[0]]}}
        if parts[1] == "_refresh":
            return {}
        return self._search(parts[0], query, given)

    def _create(self, name: str, given: dict[str, Any]) -> Any:
        if name in self.mappings:
            raise Refused(400, "resource_already_exists_exception", f"index [{name}] already exists")
        self.mappings[name], self.documents[name] = given["mappings"], {}
        return {"acknowledged": True}

    def _bulk(self, body: bytes) -> Any:
        lines, items, at = [json.loads(line) for line in body.splitlines()], [], 0
        while at < len(lines):
            ((action, where),) = lines[at].items()
            documents, identity = self.documents[where["_index"]], where["_id"]
            at += 1
            if action == "index":
                self._check_vector(where["_index"], lines[at]["vector"])
                documents[identity] = lines[at]
                at += 1
                items.append({action: {"_id": identity, "status": 201}})
            else:
                found = documents.pop(identity, None)
                items.append({action: {"_id": identity, "status": 404 if found is None else 200}})
        return {"errors": any(entry[kind]["status"] >= 400 for entry in items for kind in entry), "items": items}

    def _check_vector(self, name: str, vector: list[float]) -> None:
        wanted = self.mappings[name]["properties"]["vector"]["dimension"]
        if len(vector) != wanted:
            raise Refused(400, "mapper_parsing_exception", f"Vector dimension mismatch. Expected: {wanted}")

    def _scroll(self, method: str, given: dict[str, Any]) -> Any:
        if method == "DELETE":
            for one in given["scroll_id"]:
                self.scrolls.pop(one, None)
            return {"succeeded": True}
        size = int(given["scroll_id"].partition(" ")[0])
        return self._take(given["scroll_id"], size)

    def _take(self, scroll: str, size: int) -> Any:
        page, self.scrolls[scroll] = self.scrolls[scroll][:size], self.scrolls[scroll][size:]
        shards = {"successful": 1, "total": 1, "skipped": 0, "failed": 0}
        return {"_scroll_id": scroll, "_shards": shards, "hits": {"hits": page}}

    def _search(self, name: str, query: dict[str, list[str]], given: dict[str, Any]) -> Any:
        size = int(query.get("size", [given.get("size", 10)])[0])
        if size > MOST:
            raise Refused(400, "illegal_argument_exception", "Result window is too large")
        documents = self.documents[name]
        if "scroll" in query:
            hits = [{"_id": one, "_source": {"digest": found["digest"]}} for one, found in documents.items()]
            scroll = f"{size} {len(self.scrolls)}"
            self.scrolls[scroll] = hits
            return self._take(scroll, size)
        self.searches.append(given)
        knn = given["query"]["knn"]["vector"]
        self._check_vector(name, knn["vector"])
        wanted = knn.get("filter", {"bool": {"filter": []}})["bool"]["filter"]
        fields = self.mappings[name]["properties"]
        found = [one for one, document in documents.items() if all(_meets(document, c, fields) for c in wanted)]
        scores = np.array([np.dot(documents[one]["vector"], knn["vector"]) for one in found])
        best = np.argsort(-scores, kind="stable")[: min(knn["k"], size)]
        return {"hits": {"hits": [{"_id": found[i], "_score": float(scores[i])} for i in best.tolist()]}}


def _meets(document: dict[str, Any], condition: dict[str, Any], fields: dict[str, Any]) -> bool:
    ((kind, inner),) = condition.items()
    ((field, wanted),) = inner.items()
    if fields.get(field, {"index": False}).get("index") is False:
        raise Refused(400, "query_shard_exception", f"Cannot search on field [{field}] since it is not indexed")
    value = document.get(field)
    if kind == "terms":
        return bool(set(value if isinstance(value, list) else [value]) & set(wanted))
    return value is not None and wanted.get("gte", value) <= value <= wanted.get("lte", value)


@contextmanager
def serve_indexes() -> Iterator[tuple[str, Indexes]]:
    """Serve an empty cluster on a free port; yield (its URL, its indexes)."""
    indexes = Indexes()

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def respond(self) -> None:
            parts, status = urlsplit(self.path), 200
            body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
            try:
                answer = indexes.answer(self.command, parts.path, parse_qs(parts.query), body)
            except Refused as refused:
                status = refused.status
                error = {"type": refused.kind, "reason": str(refused)}
                answer = {"error": {**error, "root_cause": [error]}, "status": status}
            sent = b"" if self.command == "HEAD" else json.dumps(answer).encode()
            self.send_response(status)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(sent)))
            self.end_headers()
            self.wfile.write(sent)

        def log_message(self, *arguments: object) -> None:
            """Write nothing."""

    for method in ("GET", "POST", "PUT", "DELETE", "HEAD"):
        setattr(Handler, f"do_{method}", Handler.respond)
    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever, daemon=True)
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_port}", indexes
        finally:
            server.shutdown()
            thread.join()
