"""A shell for the blocks of a page: a real bash in the page's own folder, with its own home.

`helix` in it is forked from a process that has done its imports. A command that runs until Ctrl-C is started, checked
and ended. NOT_RUN names the commands that are not run, with the reason; their arguments are parsed all the same.
"""

from __future__ import annotations

import json
import os
import re
import shlex
import shutil
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tests.conftest import SAMPLE
from tests.support.page_arguments import check_arguments, check_options
from tests.support.pages import ROOT, blocks
from tests.support.processes import pick_port, wait_until
from tests.support.serving import get_status

LOGS = ROOT / "tests" / "support" / "data" / "logs"
ADDRESS, REMOTE = "127.0.0.1:8765", "https://memory.example.com"
HELIX = (sys.executable, "-m", "helix.cli")

NOT_RUN = {
    r"helix (up|worker|beat)\b": "needs a queue and runs until it is ended: tests/crash/test_up.py, test_workers.py",
    r"helix serve .*--(host|workers)": "listens beyond loopback",
    r"helix bench ": "measures for minutes",
    r"helix eval ": "needs a benchmark set: tests/unit/pipelines/eval/test_evaluate.py makes small ones",
    r"helix train relevance": "needs benchmark sets: tests/unit/pipelines/eval/test_relevance.py has small cases",
    r"helix train ranker": "trains for an hour: tests/integration/test_train_ranker.py does some steps",
    r"helix models pull": "needs a network",
    r"helix export --to (qdrant '?http|opensearch)": "needs a server: tests/contract/test_engines.py has stand-ins",
    r"helix expand": "needs the weights of a T5: tests/unit/pipelines/passes/test_doc2query.py trains one",
    r"python -m tests\.": "measures for minutes",
    r"python -m pipelines\.cli\.weigh": "measures its environment: tests/unit/pipelines/cli/test_weigh.py",
    r"claude\b": "an agent: tests/contract/test_hook.py plays its part",
    r"make ": "sets up an environment; test_docs.py looks at the target",
    r"pip ": "sets up an environment: tests/contract/test_package.py",
    r"\. \.venv": "belongs to an environment that was not set up",
    r"curl ": "only without an installed curl: tests/contract/test_surfaces.py asks the same",
    r"docker ": "needs a daemon: tests/integration/test_compose.py looks at the file",
    r"kubectl ": "needs a cluster: tests/integration/test_kubernetes.py runs the commands of the manifests",
}
"""Patterns of the commands that are not run, with the reason."""

NEVER = (".", "claude", "docker", "kubectl", "make", "pip", "python", "sudo", "systemctl")
"""Other programs that the shell never runs."""

SUBSTITUTES = {
    "s3://bucket/memory": "{world}/bucket",
    "s3://memories/team?region=eu-central-1": "{world}/bucket",
    "/mnt/memory": "{world}/mnt",
    "/var/lib/helix": "{world}/var",
    "/backup": "{world}/backup",
    "redis://queue.internal:6379/0": "redis://127.0.0.1:9/0",  # a closed port fails at once
    "redis://localhost:6379/0": "redis://127.0.0.1:9/0",
    "bge-small-en-v1.5": "all-MiniLM-L6-v2",  # has local weights
    ADDRESS: "127.0.0.1:{port}",
    REMOTE: "http://127.0.0.1:{port}",
}
"""Replacements on this machine."""

STAYS = ("serve", "watch", "status --watch", "pull --follow", "ingest --follow")
"""Commands that run until Ctrl-C: they are started, checked and ended."""

EMPTY = ("docs/quickstart.md",)
"""Pages that begin without a store; all others have one of the sample."""

ON_A_COPY = ("docs/how-to/extending.md",)
"""Pages that change Helix, and get a copy of it."""


@dataclass
class World:
    """A page's own folder, and its running processes."""

    folder: Path
    home: Path
    environ: dict[str, str]
    forks: Callable[..., subprocess.CompletedProcess[str]]
    port: int
    on_a_copy: bool
    asks: bool  # whether something on the page asks the query process
    servers: list[subprocess.Popen[str]] = field(default_factory=list)
    skipped: list[str] = field(default_factory=list)

    def localise(self, block: str) -> str:
        """Return a block with the replacements of this machine."""
        for before, after in SUBSTITUTES.items():
            block = block.replace(before, after.format(world=self.folder, port=self.port))
        return block

    def bash(self, script: str) -> subprocess.CompletedProcess[str]:
        """Run a block; the page's next block inherits its exports."""
        calls = self.folder / ".calls"
        shutil.rmtree(calls, ignore_errors=True)
        calls.mkdir()
        os.mkfifo(calls / "new")
        answering = threading.Thread(target=self._answer, args=(calls,), daemon=True)
        answering.start()
        kept = shlex.quote(str(self.folder / ".kept"))
        curl = shlex.quote(shutil.which("curl") or "/nowhere/curl")
        skipped = "\n".join(f'{name}() {{ skip {name} "$@"; }}' for name in NEVER)
        prelude = PRELUDE.format(calls=shlex.quote(str(calls)), kept=kept, curl=curl, skipped=skipped)
        ended = f"\nwait\ndeclare -px > {kept}\n"
        try:
            return subprocess.run(
                ["bash", "-c", prelude + script + ended],
                env=self.environ,
                cwd=self.folder,
                stdin=subprocess.DEVNULL,
                capture_output=True,
                text=True,
                timeout=200,
                check=False,
            )
        finally:
            with (calls / "new").open("w") as end:
                end.write("end\n")
            answering.join(10)  # an abandoned call may still run
            self.skipped += (calls / "skipped").read_text().splitlines() if (calls / "skipped").exists() else []

    def _answer(self, calls: Path) -> None:
        """Run each call of the shell's function `helix`, one at a time."""
        with open(os.open(calls / "new", os.O_RDWR)) as new:
            for line in new:
                if line == "end\n":
                    return
                call = Path(line.rstrip("\n"))
                words = (call / "words").read_text().split("\0")[:-1]
                environ = dict(one.split("=", 1) for one in (call / "environ").read_text().split("\0") if "=" in one)
                try:
                    done = self.helix(words, environ, Path((call / "folder").read_text().rstrip("\n")))
                except Exception as error:  # noqa: BLE001 — reported with the block
                    done = subprocess.CompletedProcess(words, 99, "", f"{type(error).__name__}: {error}\n")
                (call / "out").write_text(done.stdout)
                (call / "err").write_text(done.stderr)
                (call / "done").write_text(f"{done.returncode}\n")

    def helix(self, words: list[str], environ: dict[str, str], folder: Path) -> subprocess.CompletedProcess[str]:
        """Run one call of the command."""
        line = shlex.join(["helix", *words])
        check_options(words)
        if find_reason(line):
            self.skipped.append(line)
            check_arguments(words)
            return subprocess.CompletedProcess(words, 0, "", "")
        if words[0] in ("init", "install"):
            words = [*words, "--yes"]  # no terminal to ask on
        if any(set(one.split()) <= set(words) for one in STAYS):
            return self.run_until_stopped(words, environ, folder)
        if self.on_a_copy:
            return subprocess.run(
                [*HELIX, *words], env=environ, cwd=folder, capture_output=True, text=True, check=False
            )
        os.chdir(folder)  # the call's folder; the test waits for it
        try:
            return self.forks(words, environ, timeout=100)
        finally:
            os.chdir(self.folder)

    def run_until_stopped(
        self, words: list[str], environ: dict[str, str], folder: Path
    ) -> subprocess.CompletedProcess[str]:
        """Start a command, check that it runs, and end it; a query process stays if the page asks it."""
        kind = (words[0], *(word for word in words if word.startswith("--") and word != "--store"))
        serves, pulls = words[0] == "serve", words[0] == "pull"
        asked = serves and self.asks and not self.servers
        if not asked and kind in STARTED:
            check_arguments(words)
            return subprocess.CompletedProcess(words, 0, "", "")
        STARTED.add(kind)
        port = self.port if asked else pick_port()
        process = subprocess.Popen(
            [*HELIX, *words, *(["--port", str(port)] if serves else [])],
            env=environ,
            cwd=folder,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        try:
            if serves:
                url = f"http://127.0.0.1:{port}/{'healthz' if '--wait' in words else 'readyz'}"
                wait_until(60, lambda: process.poll() is not None or get_status(url) == 200)
                assert process.poll() is None, process.communicate()[0]
            elif pulls:
                current = folder / words[words.index("--store") + 1] / "CURRENT"
                wait_until(60, lambda: process.poll() is not None or current.exists())
                assert process.poll() is None, process.communicate()[0]
            else:
                assert process.stdout is not None
                assert process.stdout.readline(), f"helix {shlex.join(words)} printed nothing"
        except BaseException:
            process.kill()
            raise
        if asked:
            self.servers.append(process)
            return subprocess.CompletedProcess(words, 0, "", "")
        return subprocess.CompletedProcess(words, *interrupt(process))

    def close(self) -> None:
        """End the running processes."""
        for process in self.servers:
            status, said, _ = interrupt(process)
            assert status == 0, said


STARTED: set[tuple[str, ...]] = set()
"""Commands that were started once, by name and options: another page need not start them again."""

PRELUDE = r"""
set -eo pipefail
trap 'echo "this failed: $BASH_COMMAND" >&2' ERR
if [ -f {kept} ]; then builtin source {kept}; fi
helix() {{
  if [ "$1" = hook ]; then command helix "$@"; return; fi  # it reads what is piped to it
  local call status=99
  call=$(mktemp -d {calls}/XXXXXX)
  env -0 > "$call/environ"; printf '%s\0' "$@" > "$call/words"; pwd > "$call/folder"; mkfifo "$call/done"
  echo "$call" > {calls}/new
  read -r status < "$call/done" || true
  cat "$call/out"; cat "$call/err" >&2
  return "$status"
}}
skip() {{ echo "$*" >> {calls}/skipped; }}
{skipped}
if [ -x {curl} ]; then curl() {{ {curl} --fail --show-error --max-time 20 "$@"; }}
else curl() {{ skip curl "$@"; }}; fi
"""


def find_reason(line: str) -> str | None:
    """Return the reason why a command is not run; None if it is."""
    return next((why for begins, why in NOT_RUN.items() if re.match(begins, line)), None)


def interrupt(process: subprocess.Popen[str]) -> tuple[int, str, str]:
    """End a process by Ctrl-C; return (0 for a clean end, its output, "")."""
    process.send_signal(signal.SIGINT)
    said, _ = process.communicate(timeout=60)
    return (0 if process.returncode in (0, 130) else process.returncode), said, ""


@contextmanager
def world(page: str, folder: Path, store: Path, cache: Path, forks: Any) -> Iterator[World]:
    """Make a folder for a page: a home with agents' logs, the named files, and a store of the sample."""
    home = folder / "home"
    logs = {
        ".claude/projects/ledgerline/7e44.jsonl": make_claude_log(),
        ".codex/sessions/2026/rollout-1.jsonl": next(LOGS.glob("codex*.jsonl")).read_text(),
        ".gemini/tmp/1/chats/session-1.json": next(LOGS.glob("gemini*.json")).read_text(),
    }
    for name, text in logs.items():
        (home / name).parent.mkdir(parents=True)
        (home / name).write_text(text)
    shutil.copy(SAMPLE / "standup.vtt", folder / "meeting.vtt")
    (folder / "notes").mkdir()
    shutil.copy(SAMPLE / "notes.md", folder / "notes")
    (folder / "backup").mkdir()
    if page not in EMPTY:
        for place in (folder / "memory", home / "memory"):
            shutil.copytree(store, place)
            for pin in (place / "pins").iterdir():
                pin.unlink()
        for name in ("helix-store", "mnt"):  # the default store, and a mounted one
            (folder / name).symlink_to("memory")
    environ = {
        **os.environ,
        "HOME": str(home),
        "HELIX_CACHE": str(cache),
        "PATH": os.pathsep.join(list_program_folders()),
    }
    if "helix why" in "".join(one.text for one in blocks(page)):
        make_repository(folder / "src" / "queue.py")
    if page in ON_A_COPY:
        shutil.copytree(ROOT / "helix", folder / "helix")
        shutil.copy(ROOT / "pyproject.toml", folder)
        environ["PYTHONPATH"] = str(folder)
    asking = [one.text for one in blocks(page) if one.language in ("sh", "python", "json")]
    asks = any(place in text for text in asking for place in (ADDRESS, REMOTE))
    made = World(folder, home, environ, forks, pick_port(), page in ON_A_COPY, asks)
    before = Path.cwd()
    os.chdir(folder)
    try:
        yield made
        made.close()
    finally:
        os.chdir(before)
        for process in made.servers:
            process.kill()


def list_program_folders() -> list[str]:
    """Return the folders of programs, this interpreter's first."""
    return [str(Path(sys.executable).parent), *os.environ["PATH"].split(os.pathsep)]


def make_repository(file: Path) -> None:
    """Make a git repository of one file, of fifty lines."""
    file.parent.mkdir()
    file.write_text("".join(f"line = {i}\n" for i in range(50)))
    author = ("-c", "user.name=ana", "-c", "user.email=ana@example.com")
    for command in (("init", "-q"), ("add", "."), (*author, "commit", "-q", "-m", "queue")):
        subprocess.run(["git", *command], cwd=file.parent, check=True)


def make_claude_log() -> str:
    """Return a session of Claude Code in the project ledgerline."""
    said = [
        ("user", "the webhook test fails with sqlite3.OperationalError: database is locked"),
        ("assistant", "Two writers hold the database. We set busy_timeout to 5000 and keep one writer."),
        ("user", "good, remember that we stay with sqlite since only one machine writes"),
    ]
    lines = [
        {
            "type": role, "uuid": f"00000000-0000-4000-8000-00000000000{i}",
            "parentUuid": f"00000000-0000-4000-8000-00000000000{i - 1}" if i else None, "sessionId": "7e44",
            "timestamp": f"2026-05-18T09:0{i}:00Z", "cwd": "/home/ana/src/ledgerline",
            "message": {"role": role, "content": text},
        }
        for i, (role, text) in enumerate(said)
    ]  # fmt: skip
    return "".join(json.dumps(line) + "\n" for line in lines)
