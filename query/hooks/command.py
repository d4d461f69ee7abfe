"""`helix hook EVENT`: what an agent (Claude Code, Codex, Gemini, Cursor) runs at a point of its session.

The agent waits for it, so this module imports next to nothing: the query process that serves the store is asked, and
only where there is none does this process open the store itself. An agent must never suffer from its memory, either:
whatever goes wrong is one line in a log, no output, and exit status 0.

What a hook answers is `{"hookSpecificOutput": {"hookEventName": …, "additionalContext": …}}`; Cursor has a shape of its
own. Transcripts are handed to `helix ingest` (`helix enqueue` where there is a broker) in a process of its own.
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

from query.discovery_read import listening

TYPE_CHECKING = False  # as in `typing`, which is one of the things to be waited for
if TYPE_CHECKING:
    from typing import Any, NoReturn

EVENTS = {
    "SessionStart": "start",
    "UserPromptSubmit": "prompt",
    "BeforeAgent": "prompt",  # Gemini's name of it
    "Stop": "transcript",
    "SubagentStop": "transcript",
    "PreCompact": "transcript",
    "SessionEnd": "transcript",
    "AfterAgent": "transcript",  # Gemini's Stop
    "PreCompress": "transcript",  # and its PreCompact
}
"""What is done at each: memories are given, or the transcript is taken."""

CONNECT = 0.12  # seconds: who serves on this machine accepts at once
ANSWER = 2.0  # seconds for the answer of the query process; then the store is opened here
DEADLINE = 8.0  # seconds for all of it; then nothing is said
ENQUEUE = 5.0  # seconds that are waited for `helix enqueue`; it goes on by itself
MOST_INPUT = 64 << 20  # bytes on stdin
MOST_PROMPT = 4_000  # characters of a prompt that are asked with, half of them from its end
MOST_LOG = 1 << 20  # bytes; the log before is kept beside it

_FILLERS = """
    a again ahead alright and continue cool do done exactly fine finish go good great hello hey hi it k keep lgtm looks
    me more n next nice no nope now ok okay on one perfect please proceed resume retry right same sounds stop sure thank
    thanks that that's the then there this thx try wait y yeah yep yes you
"""
"""A short prompt of such words alone goes on with what is in the agent's context, and asks for nothing else."""


def hook(argv: Sequence[str]) -> int:
    """Answer a hook of Claude Code, Codex, Gemini or Cursor, and take its transcript."""
    if {"-h", "--help"} & set(argv):
        return _help(argv)
    call = Call(argv)
    gc.disable()  # this process ends before there is anything worth collecting
    try:
        signal.signal(signal.SIGALRM, _too_late)
        signal.setitimer(signal.ITIMER_REAL, DEADLINE)
        call.answer()
    except BaseException as error:  # noqa: BLE001 — the agent goes on, whatever it is
        call.failed(error)
    signal.setitimer(signal.ITIMER_REAL, 0)
    call.log()
    return _leave()


class TooLate(BaseException):
    """The deadline."""


def _too_late(*_: object) -> NoReturn:
    raise TooLate


def _leave() -> int:
    """End this process at once: to take down what a recall has imported takes a sixth of the time there is."""
    import atexit

    with suppress(BaseException):
        atexit._run_exitfuncs()  # the pin on the store's generation, for one
    os._exit(0)


def _help(argv: Sequence[str]) -> int:
    from helix.cli.parser import parser

    new = parser("hook", hook.__doc__ or "", "  helix hook UserPromptSubmit --store ~/memory < event.json")
    new.add_argument("event", metavar="EVENT", help=f"{', '.join(EVENTS)}; auto: what stdin says")
    new.parse_args(argv)
    return 0


class Call:
    """One call of the hook: what was asked, what was said, and what goes into the log."""

    def __init__(self, argv: Sequence[str]) -> None:
        self._began = time.perf_counter()
        self._argv = argv
        self._event = "?"
        self._host = "?"
        self._notes: list[str] = []
        self._root = ""

    def answer(self) -> None:
        """Read the event, and write the answer where there is one."""
        word, self._root = _arguments(self._argv)
        given = _payload()
        self._host = host_of(given)
        event = event_of(str(given.get("hook_event_name")) if word == "auto" else word)
        if event is None:
            self._notes.append("not an event that asks for anything")
            return
        self._event = event
        if EVENTS[event] == "transcript":
            self._take(given)
            return
        asked = question(event, given)
        if asked is None:
            self._notes.append("asks for nothing")
            return
        context = self._ask(asked)
        if context:
            sys.stdout.write(json.dumps(answer_of(self._host, event, context)) + "\n")
            sys.stdout.flush()

    def failed(self, error: BaseException) -> None:
        """Keep what failed, without a word of what was asked."""
        from helix.errors import HelixError, UsageError

        if isinstance(error, TooLate):
            self._notes.append(f"gave up after {DEADLINE:.0f} s")
            return
        what = type(error).__name__
        if isinstance(error, HelixError) and not isinstance(error, UsageError):
            what += f": {error.what}"
        elif isinstance(error, OSError):
            what += f": {error.strerror}"
        at = error.__traceback__
        while at and at.tb_next:
            at = at.tb_next
        where = f" ({os.path.basename(at.tb_frame.f_code.co_filename)}:{at.tb_lineno})" if at else ""  # noqa: PTH119
        self._notes.append(f"failed: {what}{where}")

    def log(self) -> None:
        """One line: when, what, for whom, how long, and what came of it."""
        ms = (time.perf_counter() - self._began) * 1000
        now = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
        line = f"{now} {self._event} {self._host} {ms:.0f} ms {'; '.join(self._notes) or 'nothing'}"
        with suppress(Exception):  # no log is no reason to fail
            handle = open_log(self._root)
            os.write(handle, (" ".join(line.split()) + "\n").encode("utf-8", "replace"))
            os.close(handle)

    def _ask(self, asked: Mapping[str, Any]) -> str:
        """The context, of the query process, or of the store opened here."""
        try:
            served = server_of(self._root)
            if served:
                found = ask(*served, asked)
                self._notes.append(f"server: {found['said']}")
                return str(found["context"])
        except Exception as error:  # noqa: BLE001 — there is another way
            self._notes.append(f"server: {type(error).__name__}")
        if not os.path.exists(f"{self._root}/CURRENT") and not _has_manifests(self._root):  # noqa: PTH110
            self._notes.append("no store" if not is_store(self._root) else "nothing is published yet")
            return ""
        os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")  # to start others takes longer than one question gains
        from query.hooks.encoder_process import begin

        encoder = begin(self._root)
        from query.hooks.context import answer, open_memory

        found = answer(open_memory(self._root, encoder), asked)
        self._notes.append(f"here: {found['said']}")
        return str(found["context"])

    def _take(self, given: Mapping[str, Any]) -> None:
        """Have the transcripts taken in."""
        paths = transcripts(given)
        there = [path for path in paths if os.path.isfile(path)]  # noqa: PTH113
        if not there:
            self._notes.append("no transcript: the event names none" if not paths else "the transcript is missing")
            return
        from query.hooks.handoff import hand_over

        # Theirs do not say in which folder a session was, or not always.
        of = folders(given) if self._host in ("gemini", "cursor") else []
        self._notes.append(hand_over(self._root, there, project_of(of[0]) if of else ""))


def _arguments(argv: Sequence[str]) -> tuple[str, str]:
    """(the word for the event, the store)."""
    word, store, rest = "auto", os.environ.get("HELIX_STORE") or "helix-store", iter(argv)
    for given in rest:
        if given == "--store":
            store = next(rest, store)
        elif given.startswith("--store="):
            store = given.partition("=")[2]
        elif not given.startswith("-"):
            word = given
    return word, os.path.abspath(os.path.expanduser(store))  # noqa: PTH100, PTH111


def _payload() -> dict[str, Any]:
    """What the agent says on stdin."""
    if sys.stdin is None or sys.stdin.isatty():
        return {}
    given = json.loads(sys.stdin.buffer.read(MOST_INPUT))
    return given if isinstance(given, dict) else {}


def event_of(word: str) -> str | None:
    """The event, whatever the case of its name and whatever stands between its words; None where it is another."""
    letters = "".join(filter(str.isalpha, word)).lower()
    return next((event for event in EVENTS if event.lower() == letters), None)


def host_of(given: Mapping[str, Any]) -> str:
    """Whose event it is, by the names only that agent uses."""
    if "cursor_version" in given:
        return "cursor"
    if str(given.get("hook_event_name")) in ("BeforeAgent", "AfterAgent", "PreCompress") or "timestamp" in given:
        return "gemini"
    # Codex has Claude Code's names, and says at every event which model answers.
    transcript = str(given.get("transcript_path"))
    return "codex" if "turn_id" in given or "/.codex/" in transcript or "/rollout-" in transcript else "claude-code"


def _text(given: Mapping[str, Any], *names: str) -> str:
    return next((value for name in names if isinstance(value := given.get(name), str) and value), "")


def transcripts(given: Mapping[str, Any]) -> list[str]:
    """The transcript, and those of its subagents."""
    paths = [_text(given, "transcript_path"), _text(given, "agent_transcript_path")]
    beside = f"{paths[0].removesuffix('.jsonl')}/subagents"
    with suppress(OSError):
        paths += sorted(f"{beside}/{name}" for name in os.listdir(beside) if name.endswith(".jsonl"))  # noqa: PTH208
    whole = (os.path.abspath(os.path.expanduser(path)) for path in paths if path)  # noqa: PTH100, PTH111
    return list(dict.fromkeys(whole))


def question(event: str, given: Mapping[str, Any]) -> dict[str, Any] | None:
    """What the query process is asked; None where the prompt asks for nothing."""
    prompt = _text(given, "prompt")
    if EVENTS[event] == "prompt" and not asks(prompt):
        return None
    half = MOST_PROMPT // 2
    if len(prompt) > MOST_PROMPT:
        prompt = f"{prompt[:half]}\n{prompt[-half:]}"
    return {
        "kind": EVENTS[event],
        "prompt": prompt,
        "folders": folders(given),
        "session": _text(given, "session_id", "conversation_id"),
        "source": _text(given, "source"),
    }


def folders(given: Mapping[str, Any]) -> list[str]:
    """The folders the agent works in, the likeliest first."""
    roots = given.get("workspace_roots")
    found = [
        os.environ.get("CLAUDE_PROJECT_DIR", ""),  # where the session began: its folder now may be another one
        os.environ.get("GEMINI_PROJECT_DIR", ""),
        _text(given, "cwd"),
        *([root for root in roots if isinstance(root, str)] if isinstance(roots, list) else []),
    ]
    return [folder for folder in found if folder]


def project_of(folder: str) -> str:
    """The project of sessions in a folder: its name, as `helix.sources.common.shared.folder_name` has it."""
    return folder.replace("\\", "/").rstrip("/").rpartition("/")[2]


def asks(prompt: str) -> bool:
    """Whether a prompt can want anything of the memory: a command of the agent, or "yes, go ahead", does not."""
    words = prompt.split()
    if not words:
        return False
    if words[0][0] == "/" and "/" not in words[0][1:]:  # a path has more of them
        return False
    letters = ["".join(c for c in word.lower() if c.isalnum() or c == "'") for word in words]
    fillers = _FILLERS.split()
    return len(words) > 8 or not all(word in fillers or not word or word.isdigit() for word in letters)


def answer_of(host: str, event: str, context: str) -> dict[str, Any]:
    """The answer, in the agent's shape."""
    if host == "cursor":
        return {"additional_context": context}
    return {"hookSpecificOutput": {"hookEventName": event, "additionalContext": context}}


# ---------------------------------------------------------------- the query process


def server_of(root: str) -> tuple[str, int, str, str] | None:
    """(host, port, path before ours, key) of the query process: HELIX_URL with HELIX_KEY, else the one that serves the
    store, which has said there what it takes for its owner's.

    Raises:
        ValueError: HELIX_URL is not of the form http://host:port.
    """
    url = os.environ.get("HELIX_URL")
    if not url:
        found = listening(root)
        return (*found[:2], "", found[2]) if found else None
    scheme, _, rest = url.partition("://")
    address, slash, path = rest.partition("/")
    name, colon, port = address.rpartition(":")
    if scheme != "http" or not address:
        raise ValueError("HELIX_URL is not http://host:port")
    if not colon or address.endswith("]"):
        name, port = address, "80"
    return name.strip("[]"), int(port), (slash + path).rstrip("/"), os.environ.get("HELIX_KEY", "")


def ask(host: str, port: int, path: str, key: str, asked: Mapping[str, Any]) -> dict[str, Any]:
    """Ask the query process: HTTP by hand, since to import a client takes longer than the answer.

    Raises:
        OSError: it is not there, or too slow.
        ValueError: what it says is no answer.
    """
    until = time.monotonic() + ANSWER
    body = json.dumps(asked).encode()
    name = f"[{host}]" if ":" in host else host
    known = f"Authorization: Bearer {key}\r\n" if key else ""
    head = (
        f"POST {path}/v1/hook HTTP/1.0\r\nHost: {name}:{port}\r\nContent-Type: application/json\r\n{known}"
        f"Content-Length: {len(body)}\r\n\r\n"
    )
    with socket.create_connection(dialled(host, port), CONNECT) as connection:
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
    _, blank, said = rest.partition(b"\r\n\r\n")
    if not blank or status.split()[1:2] != [b"200"]:
        raise ValueError(f"status {status[:40]!r}")
    found = json.loads(said)
    if not isinstance(found, dict) or not isinstance(found.get("context"), str):
        raise ValueError("no context")
    return found


def dialled(host: str, port: int) -> tuple[str, int]:
    """Who listens on every address listens on this machine's own."""
    return {"0.0.0.0": "127.0.0.1", "::": "::1"}.get(host, host), port


# ---------------------------------------------------------------- the log


def is_store(root: str) -> bool:
    """Whether there is a store."""
    return os.path.isdir(f"{root}/manifests")  # noqa: PTH112


def _has_manifests(root: str) -> bool:
    """Return whether something was published: without CURRENT the store is then damaged, and its reader says so."""
    return is_store(root) and any(name.endswith(".json") for name in os.listdir(f"{root}/manifests"))  # noqa: PTH208


def cache() -> str:
    """Helix's own folder of this user."""
    return os.environ.get("HELIX_CACHE") or os.path.expanduser("~/.cache/helix")  # noqa: PTH111


def open_log(root: str) -> int:
    """The log, to append to: the store's own, or the user's where there is no store."""
    folder = f"{root}/logs" if is_store(root) else cache()
    os.makedirs(folder, mode=0o700, exist_ok=True)  # noqa: PTH103
    path = f"{folder}/hook.log"
    with suppress(OSError):
        if os.stat(path).st_size > MOST_LOG:  # noqa: PTH116
            os.replace(path, f"{path}.1")  # noqa: PTH105
    return os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
