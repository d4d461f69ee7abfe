"""`helix hook EVENT`: the command that Claude Code, Codex, Gemini and Cursor run at points of a session.

The agent waits for it, so this module imports next to nothing. It asks the query process that serves the store; without
one it opens the store itself. A failure must not harm the agent: it is one line in a log, no output, exit status 0.

The answer is `{"hookSpecificOutput": {"hookEventName": …, "additionalContext": …}}`; Cursor has another shape. A
separate process ingests transcripts (`query.hooks.handoff`).
"""

from __future__ import annotations

import gc
import json
import os
import signal
import socket
import sys
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress

from helix.util.store_place import find_store
from query.discovery_read import get_local_address, read_address
from query.hooks import protocol, session_record, switches

TYPE_CHECKING = False  # `typing` imports slowly
if TYPE_CHECKING:
    from typing import Any, NoReturn

CONNECT = 0.12  # seconds to connect; a process of this machine accepts at once
ANSWER = 2.0  # seconds for the query process to answer; then the hook opens the store
DEADLINE = 3.0  # seconds for the whole hook, unless HELIX_HOOK_SECONDS says otherwise; then it answers nothing
MAX_DEADLINE = 60.0
MAX_INPUT = 64 << 20  # bytes of stdin
TOKENS = 12_000  # that hooks add to a session, unless HELIX_HOOK_TOKENS says otherwise


def hook(argv: Sequence[str]) -> int:
    """Answer an event of Claude Code, Codex, Gemini or Cursor, or ingest its transcript."""
    if {"-h", "--help"} & set(argv):
        return _show_help(argv)
    call = HookCall(argv)
    gc.disable()  # this short process leaves nothing to collect
    try:
        signal.signal(signal.SIGALRM, _raise_deadline)
        signal.setitimer(signal.ITIMER_REAL, call.seconds)
        call.run()
    except BaseException as error:  # noqa: BLE001 — the agent must continue after any failure
        call.note_failure(error)
    signal.setitimer(signal.ITIMER_REAL, 0)
    call.write_log()
    return _exit_now()


class DeadlineExceeded(BaseException):
    """The hook took longer than it may."""


def _raise_deadline(*_: object) -> NoReturn:
    raise DeadlineExceeded


def _exit_now() -> int:
    """End this process without tearing down its imports, which takes a sixth of the hook's time."""
    import atexit

    with suppress(BaseException):
        atexit._run_exitfuncs()  # releases the pin on the store's generation
    os._exit(0)


def _show_help(argv: Sequence[str]) -> int:
    from helix.cli.parser import build_parser

    new = build_parser("hook", hook.__doc__ or "", "  helix hook UserPromptSubmit --store ~/memory < event.json")
    new.add_argument("event", metavar="EVENT", help=f"{', '.join(protocol.EVENTS)}; auto: the event on stdin")
    new.parse_args(argv)
    return 0


class HookCall:
    """One call of the hook, with the notes for its log line."""

    def __init__(self, argv: Sequence[str]) -> None:
        self._began = time.perf_counter()
        self._argv = argv
        self._event = "?"
        self._agent = "?"
        self._notes: list[str] = []
        self._root = ""
        self.seconds = self._read_deadline()

    def run(self) -> None:
        """Read the event, and write an answer where the event asks for one."""
        word, self._root = read_arguments(self._argv)
        payload = _read_payload()
        self._agent = protocol.detect_agent(payload)
        event = protocol.find_event(str(payload.get("hook_event_name")) if word == "auto" else word)
        if event is None:
            self._notes.append("an event that Helix ignores")
            return
        self._event = event
        word = switches.read_switch_prompt(protocol.find_prompt(payload)) if protocol.EVENTS[event] == "prompt" else ""
        if word:
            context, note = switches.switch_session(self._root, payload, word)
            self._notes.append(note)
            self._write_answer(f"<memory>\n{context}\n</memory>")  # ingest leaves such a block out
            return
        if off := switches.find_off(self._root, payload):
            self._notes.append(off)
            return
        if protocol.EVENTS[event] == "transcript":
            self._ingest_transcripts(payload)
            return
        if protocol.EVENTS[event] in ("before", "after"):
            request, none = protocol.build_action_request(event, payload), "nothing to look up"
        else:
            request, none = protocol.build_request(event, payload), "the prompt needs no memory"
        if request is None:
            self._notes.append(none)
            return
        path = session_record.locate_record(protocol.get_cache_folder(), self._root, request["session"])
        if request.get("source") in ("clear", "compact"):  # the agent has lost what it was given
            session_record.clear_record(path)
        record = session_record.read_record(path)
        at_call = request["kind"] in ("before", "after")
        request |= {
            "seen": record["told" if at_call else "seen"],
            "left": max(0, self._read_tokens() - record["tokens"]),
        }
        answer = self._fetch_context(request)
        if answer["context"]:
            self._write_answer(answer["context"])
        if answer["context"] and request["session"]:
            for name in ("seen", "told") if at_call else ("seen",):
                record[name] = [*record[name], *answer.get("items", ())]
            record["tokens"] += answer.get("tokens", 0)
            session_record.write_record(path, record)

    def _write_answer(self, context: str) -> None:
        sys.stdout.write(json.dumps(protocol.format_answer(self._agent, self._event, context)) + "\n")
        sys.stdout.flush()

    def _read_deadline(self) -> float:
        """Return the seconds after which the hook gives up; a value that is none is noted in the log."""
        value = os.environ.get("HELIX_HOOK_SECONDS") or DEADLINE
        with suppress(ValueError):
            if 0 < float(value) <= MAX_DEADLINE:
                return float(value)
        self._notes.append(f"HELIX_HOOK_SECONDS is no number from 0 to {MAX_DEADLINE:g}: {DEADLINE:g} s")
        return DEADLINE

    def _read_tokens(self) -> int:
        """Return the tokens that hooks may add to a session; a value that is none is noted in the log."""
        value = os.environ.get("HELIX_HOOK_TOKENS") or TOKENS
        with suppress(ValueError):
            if int(value) >= 0:
                return int(value)
        self._notes.append(f"HELIX_HOOK_TOKENS is no number of tokens: {TOKENS}")
        return TOKENS

    def note_failure(self, error: BaseException) -> None:
        """Note an error for the log, without a word of the prompt."""
        from helix.errors import HelixError, UsageError

        if isinstance(error, DeadlineExceeded):
            self._notes.append(f"gave up after {self.seconds:g} s")
            return
        text = type(error).__name__
        if isinstance(error, HelixError) and not isinstance(error, UsageError):
            text += f": {error.what}"
        elif isinstance(error, OSError):
            text += f": {error.strerror}"
        at = error.__traceback__
        while at and at.tb_next:
            at = at.tb_next
        place = f" ({os.path.basename(at.tb_frame.f_code.co_filename)}:{at.tb_lineno})" if at else ""  # noqa: PTH119
        self._notes.append(f"failed: {text}{place}")

    def write_log(self) -> None:
        """Append one line: time, event, agent, milliseconds and notes."""
        ms = (time.perf_counter() - self._began) * 1000
        now = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
        line = f"{now} {self._event} {self._agent} {ms:.0f} ms {'; '.join(self._notes) or 'nothing'}"
        with suppress(Exception):  # an unwritable log must not fail the hook
            handle = protocol.open_log(self._root)
            os.write(handle, (" ".join(line.split()) + "\n").encode("utf-8", "replace"))
            os.close(handle)

    def _fetch_context(self, request: Mapping[str, Any]) -> dict[str, Any]:
        """Return the answer of the query process, or of the store opened here."""
        try:
            server = find_server(self._root)
            if server:
                answer = request_context(*server, request)
                self._notes.append(f"server: {answer['said']}")
                return answer
        except Exception as error:  # noqa: BLE001 — the hook opens the store instead
            self._notes.append(f"server: {type(error).__name__}")
        if not os.path.exists(f"{self._root}/CURRENT") and not protocol.has_manifests(self._root):  # noqa: PTH110
            self._notes.append("nothing is published yet" if protocol.is_store(self._root) else "no store")
            return {"context": ""}
        os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")  # more threads start slower than one question runs
        encoder = None
        if request["kind"] not in ("before", "after"):  # a tool call is looked up, not embedded
            from query.hooks.encoder_process import start_encoder

            encoder = start_encoder(self._root)
        from query.hooks.context import answer_hook, open_memory

        answer = answer_hook(open_memory(self._root, encoder), request)
        self._notes.append(f"here: {answer['said']}")
        return answer

    def _ingest_transcripts(self, payload: Mapping[str, Any]) -> None:
        paths = protocol.list_transcripts(payload)
        present = [path for path in paths if os.path.isfile(path)]  # noqa: PTH113
        if not present:
            self._notes.append("the transcript is missing" if paths else "no transcript: the event names none")
            return
        from query.hooks.handoff import start_ingest

        # Gemini's and Cursor's transcripts may not name the session's folder.
        folders = protocol.list_folders(payload) if self._agent in ("gemini", "cursor") else []
        self._notes.append(start_ingest(self._root, present, protocol.name_project(folders[0]) if folders else ""))


def read_arguments(argv: Sequence[str]) -> tuple[str, str]:
    """Return (the event's word, the store's absolute path)."""
    word, store, rest = "auto", "", iter(argv)
    for argument in rest:
        if argument == "--store":
            store = next(rest, store)
        elif argument.startswith("--store="):
            store = argument.partition("=")[2]
        elif not argument.startswith("-"):
            word = argument
    return word, os.path.abspath(find_store(store))  # noqa: PTH100


def _read_payload() -> dict[str, Any]:
    if sys.stdin is None or sys.stdin.isatty():
        return {}
    payload = json.loads(sys.stdin.buffer.read(MAX_INPUT))
    return payload if isinstance(payload, dict) else {}


def find_server(root: str) -> tuple[str, int, str, str] | None:
    """Return (host, port, path prefix, key) of the query process; None without one.

    HELIX_URL and HELIX_KEY name it, else the process that serves the store, with its owner's token.

    Raises:
        ValueError: HELIX_URL is not http://host:port.
    """
    url = os.environ.get("HELIX_URL")
    if not url:
        address = read_address(root)
        return (*address[:2], "", address[2]) if address else None
    scheme, _, rest = url.partition("://")
    authority, slash, path = rest.partition("/")
    host, colon, port = authority.rpartition(":")
    if scheme != "http" or not authority:
        raise ValueError("HELIX_URL is not http://host:port")
    if not colon or authority.endswith("]"):
        host, port = authority, "80"
    return host.strip("[]"), int(port), (slash + path).rstrip("/"), os.environ.get("HELIX_KEY", "")


def request_context(host: str, port: int, path: str, key: str, request: Mapping[str, Any]) -> dict[str, Any]:
    """Return the query process's answer to POST /v1/hook.

    The HTTP is written by hand: an HTTP client imports longer than the answer takes.

    Raises:
        OSError: the process is gone or too slow.
        ValueError: the response is no answer.
    """
    until = time.monotonic() + ANSWER
    body = json.dumps(request).encode()
    name = f"[{host}]" if ":" in host else host
    authorization = f"Authorization: Bearer {key}\r\n" if key else ""
    head = (
        f"POST {path}/v1/hook HTTP/1.0\r\nHost: {name}:{port}\r\nContent-Type: application/json\r\n{authorization}"
        f"Content-Length: {len(body)}\r\n\r\n"
    )
    with socket.create_connection((get_local_address(host), port), CONNECT) as connection:
        connection.settimeout(ANSWER)
        connection.sendall(head.encode() + body)
        parts = []
        while True:
            connection.settimeout(max(0.001, until - time.monotonic()))
            part = connection.recv(65_536)
            if not part:
                break
            parts.append(part)
    status, _, rest = b"".join(parts).partition(b"\r\n")
    _, blank, content = rest.partition(b"\r\n\r\n")
    if not blank or status.split()[1:2] != [b"200"]:
        raise ValueError(f"status {status[:40]!r}")
    answer = json.loads(content)
    if not isinstance(answer, dict) or not isinstance(answer.get("context"), str):
        raise ValueError("no context")
    return answer
