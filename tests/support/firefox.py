"""Firefox over WebDriver BiDi: one process, one tab, with its console and its requests.

Stock Firefox serves BiDi at a local port. Playwright cannot drive it: every context of Playwright overrides media
features, a command that Firefox lacks. A theme is a preference of the process instead.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import shutil
import subprocess
import tempfile
import time
from base64 import b64decode
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

from websockets.sync.client import ClientConnection, connect

KEYS: Final = {"Enter": "\ue007", "Escape": "\ue00c", "ArrowDown": "\ue015", "Tab": "\ue004", "Control": "\ue009"}
"""Names of keys, and the characters that WebDriver gives them."""
THEME: Final = "layout.css.prefers-color-scheme.content-override"
EVENTS: Final = ["log.entryAdded", "network.beforeRequestSent"]
PREFERENCES: Final = {
    "app.update.disabledForTesting": True,
    "browser.shell.checkDefaultBrowser": False,
    "browser.startup.page": 0,
    "datareporting.policy.dataSubmissionEnabled": False,
    "network.captive-portal-service.enabled": False,
    "network.connectivity-service.enabled": False,
    "toolkit.cosmeticAnimations.enabled": False,
    "ui.prefersReducedMotion": 1,
}


def find_firefox() -> str | None:
    """Return the program of Firefox: that of FIREFOX, else the first one on the path."""
    return os.environ.get("FIREFOX") or next(filter(None, map(shutil.which, ("firefox-esr", "firefox"))), None)


class FirefoxTab:
    """The tab of a Firefox, which notes its requests and the errors in its console."""

    def __init__(self, socket: ClientConnection) -> None:
        self._socket = socket
        self._sent = 0
        self.base = ""
        self.errors: list[str] = []
        self.requests: list[str] = []
        self.send("session.new", capabilities={})
        self.send("session.subscribe", events=EVENTS)
        self.context = self.send("browsingContext.getTree")["contexts"][0]["context"]

    def send(self, method: str, **params: Any) -> dict[str, Any]:
        """Send a command, and return its result. Events that come before it are noted."""
        self._sent += 1
        self._socket.send(json.dumps({"id": self._sent, "method": method, "params": params}))
        while True:
            found = json.loads(self._socket.recv(timeout=30))
            if found.get("id") == self._sent:
                break
            if found["type"] == "event":
                self._note(found["method"], found["params"])
        assert found["type"] == "success", f"{method}: {found['error']}: {found['message']}"
        return dict(found["result"])

    def _note(self, event: str, params: dict[str, Any]) -> None:
        if event == "network.beforeRequestSent":
            self.requests.append(params["request"]["url"])
        elif params["level"] == "error":
            self.errors.append(str(params["text"]))

    def resize(self, width: int, height: int) -> None:
        """Give the page a size in CSS pixels."""
        size = {"width": width, "height": height}
        self.send("browsingContext.setViewport", context=self.context, viewport=size, devicePixelRatio=1)

    def run_first(self, function: str) -> None:
        """Run a function of JavaScript before the scripts of every page."""
        self.send("script.addPreloadScript", functionDeclaration=function)

    def open(self, hash_: str) -> None:
        """Open a view of the server at `base` in a new document, and wait until it is shown."""
        for address in ("about:blank", f"{self.base}/{hash_}"):
            self.send("browsingContext.navigate", context=self.context, url=address, wait="complete")
        self.settle()

    def settle(self) -> None:
        """Wait until the view is shown; the event of a new address comes a little later than its cause."""
        self.evaluate("new Promise((done) => setTimeout(done, 40))")
        self.wait_for("!document.querySelector('[aria-busy=true]')")

    def evaluate(self, expression: str) -> Any:
        """Return the value of an expression of JavaScript, awaited."""
        found = self.send(
            "script.callFunction",
            functionDeclaration=f"async () => JSON.stringify((await ({expression})) ?? null)",
            target={"context": self.context},
            awaitPromise=True,
        )
        assert found["type"] == "success", f"{expression}: {found['exceptionDetails']['text']}"
        return json.loads(found["result"]["value"])

    def wait_for(self, expression: str, seconds: float = 10) -> None:
        """Wait until an expression holds."""
        until = time.monotonic() + seconds
        while not self.evaluate(f"Boolean(await ({expression}))"):
            assert time.monotonic() < until, f"never holds: {expression}"
            time.sleep(0.02)

    def get_text(self, selector: str) -> str:
        """Return the whole text of the first element of a selector, shown or not."""
        found = f"document.querySelector({json.dumps(selector)})"
        self.wait_for(found)
        return str(self.evaluate(f"{found}.textContent"))

    def press(self, *keys: str) -> None:
        """Press keys one after the other; `Control+k` holds the first one meanwhile."""
        actions = []
        for key in keys:
            held = [KEYS.get(part, part) for part in (key.split("+") if len(key) > 1 else [key])]
            actions += [{"type": "keyDown", "value": part} for part in held]
            actions += [{"type": "keyUp", "value": part} for part in reversed(held)]
        source = {"type": "key", "id": "keys", "actions": actions}
        self.send("input.performActions", context=self.context, actions=[source])
        self.settle()

    def click(self, selector: str) -> None:
        """Click the first element of a selector."""
        self.wait_for(f"document.querySelector({json.dumps(selector)})")
        self.evaluate(f"void document.querySelector({json.dumps(selector)}).click()")
        self.settle()

    def save_picture(self, path: Path) -> None:
        """Write the visible part of the page as a PNG file."""
        path.write_bytes(b64decode(self.send("browsingContext.captureScreenshot", context=self.context)["data"]))


@contextlib.contextmanager
def running_firefox(binary: str, *, dark: bool = False) -> Iterator[FirefoxTab]:
    """Start a Firefox without a window and with a profile of its own; yield its tab, and end it."""
    with tempfile.TemporaryDirectory() as profile:
        preferences = {**PREFERENCES, THEME: 0 if dark else 1}
        lines = [f"user_pref({json.dumps(name)}, {json.dumps(value)});\n" for name, value in preferences.items()]
        Path(profile, "user.js").write_text("".join(lines))
        command = [binary, "--headless", "--no-remote", "--profile", profile, "--remote-debugging-port", "0"]
        log = Path(profile, "log")
        with log.open("wb") as output:
            process = subprocess.Popen(command, stdout=output, stderr=output)
        try:
            with connect(f"{_wait_for_address(process, log)}/session", max_size=None) as socket:
                yield FirefoxTab(socket)
        finally:
            process.terminate()
            process.wait(60)


def _wait_for_address(process: subprocess.Popen[bytes], log: Path) -> str:
    """Wait until a Firefox serves BiDi; return its address."""
    until = time.monotonic() + 60
    while time.monotonic() < until and process.poll() is None:
        if found := re.search(r"WebDriver BiDi listening on (ws://\S+)", log.read_text("utf-8", "replace")):
            return found[1]
        time.sleep(0.05)
    raise AssertionError(f"Firefox serves no WebDriver BiDi: {log.read_text('utf-8', 'replace')[-2000:]}")
