"""A chat endpoint with OpenAI's protocol and a rerank API, in a process of its own: equal questions get equal answers.

The model's name selects the fault: `good`, or one of FAULTS. Each prefix of the path has a log of its own: `GET /log`
returns the requests to `/v1`, `DELETE /log` clears it, and `/a/log` is that of `/a/v1`. Run it with
`python -m tests.support.chat_server`; its first line of output is its port.
"""

from __future__ import annotations

import json
import re
import socket
import subprocess
import sys
import threading
import time
from collections import defaultdict
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field, replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.request import Request, urlopen

from tests.support.rerank_replies import rank_documents

STATUSES = {"400": 400, "401": 401, "404": 404, "429": 429, "500": 500, "moved": 307}
REPLIES = {
    "empty": None,  # a completion without content
    "thinking": "",  # a completion that is cut before it begins
    "number": 7,  # content that is no text
    "blank": '" "',
    "chatty": "Sure!",  # words instead of a list
    "nested": "[[0, 1]]",
}
TRANSPORT_FAULTS = (
    *STATUSES,
    "slow",  # nothing for an hour
    "drip",  # a byte each tenth of a second, for ever
    "malformed",  # half a JSON
    "odd",  # JSON, but no completion
    "cut",  # the connection ends in the middle of the body
    "closed",  # the connection ends before the first byte
    "huge",  # megabytes
    "zipped",  # compressed, although not requested
)
FAULTS = (*TRANSPORT_FAULTS, *REPLIES, "foreign")
"""Faults of a chat endpoint; `foreign` are unknown indices."""
_QUESTION = re.compile(r"<question>\n(.*?)\n</question>", re.DOTALL)
_MEMORY = re.compile(r'<memory index="(\d+)">(.*?)</memory>')


def reply_to(body: dict[str, Any]) -> str:
    """Return a note, some queries, or indices: first memories with the wanted word, then from the last to the first.

    The wanted word follows "wanted:" in a question.
    """
    system, user = body["messages"][0]["content"], body["messages"][1]["content"]
    question = _QUESTION.search(user)[1]  # type: ignore[index]
    if "JSON list of their indices" in system:
        memories = _MEMORY.findall(user)
        if body["model"] == "foreign":
            return json.dumps([len(memories) + 7])
        wanted = question.rpartition("wanted:")[2].strip().lower()
        order = sorted(memories, key=lambda memory: (wanted not in memory[1].lower(), -int(memory[0])))
        return f"```json\n{json.dumps([int(index) for index, _ in order])}\n```"
    if "JSON list of strings" in system:
        words = re.findall(r"\w+", question)
        return json.dumps([f"about {word}" for word in words[:3]] + [f"note on {question[:40]}"])
    return f"In a note it says: {question[:200]}"


@dataclass
class Log:
    """The requests to one prefix of the path, how many run, and the most that ran at once."""

    requests: list[dict[str, Any]] = field(default_factory=list)
    running: int = 0
    peak: int = 0


class Handler(BaseHTTPRequestHandler):
    """See the module."""

    protocol_version = "HTTP/1.1"
    logs: defaultdict[str, Log] = defaultdict(Log)  # noqa: RUF012 — one server a process
    lock = threading.Lock()

    def log_message(self, *_: Any) -> None:
        """Print nothing."""

    def do_GET(self) -> None:
        with self.lock:
            log = asdict(self.logs[self.path.removesuffix("/log")])
        self._send_json(log)

    def do_DELETE(self) -> None:
        with self.lock:
            self.logs.pop(self.path.removesuffix("/log"), None)
        self._send_json({})

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        with self.lock:
            log = self.logs[self.path.partition("/v1/")[0]]
            log.running += 1
            log.peak = max(log.peak, log.running)
            log.requests.append({"path": self.path, "key": self.headers.get("Authorization"), "body": body})
        try:
            self._answer(body)
        except (BrokenPipeError, ConnectionResetError):
            pass
        finally:
            with self.lock:
                log.running -= 1

    def _answer(self, body: dict[str, Any]) -> None:
        model = body["model"]
        if model in STATUSES:
            headers = {"Location": "http://127.0.0.1:1/", "Retry-After": "9"}
            self._send_json({"error": {"message": "no"}}, STATUSES[model], headers)
        elif model == "slow":
            time.sleep(3600)
        elif model == "closed":
            self.connection.shutdown(socket.SHUT_RDWR)
        elif model in ("drip", "cut", "huge"):
            self.send_response(200)
            self.send_header("Content-Length", "4000000")
            self.end_headers()
            for _ in range({"drip": 36_000, "cut": 5, "huge": 3_000}[model]):
                self.wfile.write(b" " * (1_000 if model == "huge" else 1))
                self.wfile.flush()
                time.sleep(0.1 if model == "drip" else 0)
            self.connection.shutdown(socket.SHUT_RDWR)
        elif model == "malformed":
            self._send(b'{"choices": [{"message": {"content": "half')
        elif model == "odd":
            self._send_json({"result": "done"})
        elif model == "zipped":
            self._send(b"\x1f\x8b\x08", headers={"Content-Encoding": "gzip"})
        else:
            if model.startswith("wait-"):
                time.sleep(float(model.removeprefix("wait-")))
            if self.path.endswith("/rerank"):
                self._send(rank_documents(body))
                return
            content = REPLIES[model] if model in REPLIES else reply_to(body)
            reason = "length" if model == "thinking" else "stop"
            choice = {"index": 0, "message": {"role": "assistant", "content": content}, "finish_reason": reason}
            self._send_json({"object": "chat.completion", "model": model, "choices": [choice]})

    def _send_json(self, value: Any, status: int = 200, headers: dict[str, str] | None = None) -> None:
        self._send(json.dumps(value).encode(), status, headers)

    def _send(self, data: bytes, status: int = 200, headers: dict[str, str] | None = None) -> None:
        self.send_response(status)
        for name, value in {"Content-Type": "application/json", **(headers or {})}.items():
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)


@dataclass(frozen=True)
class Chat:
    """A running server, and one of its logs."""

    url: str

    def start_log(self, name: str) -> Chat:
        """Return the same server with a log of its own."""
        return replace(self, url=f"{self.url.removesuffix('/v1')}/{name}/v1")

    def list_requests(self) -> list[dict[str, Any]]:
        """Return the requests since the last `forget`."""
        return list(self._call("GET")["requests"])

    def list_prompts(self) -> list[list[dict[str, str]]]:
        """Return the messages of each request to the chat endpoint."""
        return [request["body"]["messages"] for request in self.list_requests() if "messages" in request["body"]]

    def list_rankings(self) -> list[dict[str, Any]]:
        """Return the body of each request to the rerank API."""
        return [request["body"] for request in self.list_requests() if "documents" in request["body"]]

    def read_text(self) -> str:
        """Return all text that the endpoints received."""
        texts = [message["content"] for messages in self.list_prompts() for message in messages]
        return "\n".join(
            (*texts, *(text for body in self.list_rankings() for text in (body["query"], *body["documents"])))
        )

    def read_peak(self) -> int:
        """Return the most requests that ran at once."""
        return int(self._call("GET")["peak"])

    def count_running(self) -> int:
        return int(self._call("GET")["running"])

    def forget(self) -> None:
        """Clear the log."""
        self._call("DELETE")

    def _call(self, method: str) -> dict[str, Any]:
        with urlopen(Request(self.url.removesuffix("/v1") + "/log", method=method), timeout=10) as answer:
            return dict(json.load(answer))


@contextmanager
def chatting() -> Iterator[Chat]:
    """A server in a process of its own."""
    command = [sys.executable, "-m", "tests.support.chat_server"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout
        try:
            yield Chat(f"http://127.0.0.1:{int(process.stdout.readline())}/v1")
        finally:
            process.kill()


if __name__ == "__main__":
    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    server.handle_error = lambda *_: None  # clients close connections early
    print(server.server_address[1], flush=True)  # noqa: T201
    server.serve_forever()
