"""A chat endpoint that speaks OpenAI's protocol, as a process of its own: the same question, the same answer.

What it does wrong is the model's name: `good`, or one of FAULTS. `GET /log` gives what it was asked, `DELETE /log`
forgets that. Run with `python -m tests.support.chat_server`; its first line of output is its port.
"""

from __future__ import annotations

import json
import re
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.request import Request, urlopen

STATUSES = {"400": 400, "401": 401, "404": 404, "429": 429, "500": 500, "moved": 307}
FAULTS = (
    *STATUSES,
    "slow",  # nothing for an hour
    "drip",  # a byte a tenth of a second, for ever
    "malformed",  # half a JSON
    "odd",  # JSON, but no completion
    "empty",  # a completion of nothing
    "thinking",  # a completion that was cut before it began
    "cut",  # the connection ends amid the body
    "closed",  # the connection ends before a word
    "huge",  # megabytes
    "zipped",  # though it was not asked for
    "number",  # content that is no text
    "blank",  # quotes and nothing between them
    "chatty",  # words where a list is asked for
    "nested",  # a list of lists
    "foreign",  # indices there are not
)
_QUESTION = re.compile(r"<question>\n(.*?)\n</question>", re.DOTALL)
_MEMORY = re.compile(r'<memory index="(\d+)">(.*?)</memory>')


def answer(body: dict[str, Any]) -> str:
    """What it says: a note, some queries, or indices: memories that name the wanted word first, then from the last on.

    The wanted word is what follows "wanted:" in a question.
    """
    system, user = body["messages"][0]["content"], body["messages"][1]["content"]
    question = _QUESTION.search(user)[1]  # type: ignore[index]
    if "JSON list of their indices" in system:
        told = _MEMORY.findall(user)
        if body["model"] == "foreign":
            return json.dumps([len(told) + 7])
        wanted = question.rpartition("wanted:")[2].strip().lower()
        order = sorted(told, key=lambda one: (wanted not in one[1].lower(), -int(one[0])))
        return f"```json\n{json.dumps([int(index) for index, _ in order])}\n```"
    if "JSON list of strings" in system:
        said = re.findall(r"\w+", question)
        return json.dumps([f"about {word}" for word in said[:3]] + [f"note on {question[:40]}"])
    return f"In a note it says: {question[:200]}"


class Handler(BaseHTTPRequestHandler):
    """See the module."""

    protocol_version = "HTTP/1.1"
    log: list[dict[str, Any]] = []  # noqa: RUF012  one server a process
    under_way = 0
    most = 0
    time = 0
    lock = threading.Lock()

    def log_message(self, *_: Any) -> None:
        """Silent."""

    def do_GET(self) -> None:
        """The log, and how many requests there were at once at most."""
        self._json({"asked": self.log, "most": Handler.most, "under_way": Handler.under_way})

    def do_DELETE(self) -> None:
        """Forget it."""
        with Handler.lock:  # who is answered slowly since before counts for nothing
            self.log.clear()
            Handler.most = Handler.under_way = 0
            Handler.time += 1
        self._json({})

    def do_POST(self) -> None:
        """A completion, or a fault."""
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        with Handler.lock:
            began = Handler.time
            Handler.under_way += 1
            Handler.most = max(Handler.most, Handler.under_way)
            self.log.append({"path": self.path, "key": self.headers.get("Authorization"), "body": body})
        try:
            self._answer(body)
        except (BrokenPipeError, ConnectionResetError):
            pass
        finally:
            with Handler.lock:
                Handler.under_way -= began == Handler.time

    def _answer(self, body: dict[str, Any]) -> None:
        model = body["model"]
        if model in STATUSES:
            self._json(
                {"error": {"message": "no"}}, STATUSES[model], {"Location": "http://127.0.0.1:1/", "Retry-After": "9"}
            )
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
            self._raw(b'{"choices": [{"message": {"content": "half')
        elif model == "odd":
            self._json({"result": "done"})
        elif model == "zipped":
            self._raw(b"\x1f\x8b\x08", {"Content-Encoding": "gzip"})
        else:
            if model.startswith("wait-"):
                time.sleep(float(model.removeprefix("wait-")))
            odd = {"empty": None, "thinking": "", "number": 7, "blank": '" "', "chatty": "Sure!", "nested": "[[0, 1]]"}
            said = odd[model] if model in odd else answer(body)
            reason = "length" if model == "thinking" else "stop"
            choice = {"index": 0, "message": {"role": "assistant", "content": said}, "finish_reason": reason}
            self._json({"object": "chat.completion", "model": model, "choices": [choice]})

    def _json(self, said: Any, status: int = 200, headers: dict[str, str] | None = None) -> None:
        self._raw(json.dumps(said).encode(), headers, status)

    def _raw(self, data: bytes, headers: dict[str, str] | None = None, status: int = 200) -> None:
        self.send_response(status)
        for name, value in {"Content-Type": "application/json", **(headers or {})}.items():
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)


@dataclass(frozen=True)
class Chat:
    """A running server."""

    url: str

    def asked(self) -> list[dict[str, Any]]:
        """What it was asked since the last `forget`."""
        return list(self._told("GET")["asked"])

    def most(self) -> int:
        """How many requests it had under way at once."""
        return int(self._told("GET")["most"])

    def under_way(self) -> int:
        """How many requests it has under way."""
        return int(self._told("GET")["under_way"])

    def forget(self) -> None:
        """Begin anew."""
        self._told("DELETE")

    def _told(self, method: str) -> dict[str, Any]:
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
    server.handle_error = lambda *_: None  # who asks breaks connections off
    print(server.server_address[1], flush=True)  # noqa: T201
    server.serve_forever()
