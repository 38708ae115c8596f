"""A headless Chromium, asked over a pipe what a page has become (the DevTools protocol)."""

from __future__ import annotations

import base64
import contextlib
import fcntl
import json
import os
import select
import shutil
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

BINARY = shutil.which("chromium") or shutil.which("chromium-browser")
_OPTIONS = (
    "--headless=new", "--remote-debugging-pipe", "--no-sandbox", "--disable-gpu", "--no-first-run",
    "--disable-dev-shm-usage", "--disable-extensions", "--disable-background-networking",
    "--hide-scrollbars", "--force-device-scale-factor=1",
)  # fmt: skip
_WAIT_S = 60


class Chromium:
    """One browser with one tab."""

    def __init__(self, folder: Path) -> None:
        assert BINARY is not None
        ours, theirs = _pipe(), _pipe()

        def connect() -> None:
            # Above any number that these may have had: Chromium reads 3 and writes 4.
            os.dup2(ours[0], 3)
            os.dup2(theirs[1], 4)

        self._process = subprocess.Popen(
            [BINARY, *_OPTIONS, f"--user-data-dir={folder}", "about:blank"],
            pass_fds=(3, 4), preexec_fn=connect, stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
        )  # fmt: skip
        os.close(ours[0])
        os.close(theirs[1])
        self._to, self._from = ours[1], theirs[0]
        self._data = b""
        self._number = 0
        self._session: str | None = None
        self.told: list[dict[str, Any]] = []
        """Events of the tab."""
        target = self.ask("Target.createTarget", url="about:blank")["targetId"]
        self._session = self.ask("Target.attachToTarget", targetId=target, flatten=True)[
            "sessionId"
        ]
        for domain in ("Page", "Runtime", "Log", "Network"):
            self.ask(f"{domain}.enable")

    def ask(self, method: str, **params: Any) -> Any:
        """Call a method; its answer."""
        self._number += 1
        message = {"id": self._number, "method": method, "params": params}
        if self._session is not None:
            message["sessionId"] = self._session
        os.write(self._to, json.dumps(message).encode() + b"\0")
        until = time.monotonic() + _WAIT_S
        while True:
            answer = self._next(until)
            if answer.get("id") == self._number:
                assert "error" not in answer, (method, answer["error"])
                return answer["result"]
            self.told.append(answer)

    def _next(self, until: float) -> dict[str, Any]:
        while b"\0" not in self._data:
            left = until - time.monotonic()
            ready, _, _ = select.select([self._from], [], [], max(0.0, left))
            assert ready, "Chromium does not answer"
            more = os.read(self._from, 1 << 16)
            assert more, f"Chromium has ended with status {self._process.wait()}"
            self._data += more
        message, _, self._data = self._data.partition(b"\0")
        found: dict[str, Any] = json.loads(message)
        return found

    def open(self, page: Path, width: int, height: int, *, dark: bool = False) -> None:
        """Load a page from its file in a window of this size, and wait until it has loaded."""
        self.ask(
            "Emulation.setDeviceMetricsOverride",
            width=width, height=height, deviceScaleFactor=1, mobile=width < 600,
        )  # fmt: skip
        scheme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
        self.ask("Emulation.setEmulatedMedia", features=[scheme])
        self.told.clear()
        self.ask("Page.navigate", url=page.resolve().as_uri())
        until = time.monotonic() + _WAIT_S
        while not any(event.get("method") == "Page.loadEventFired" for event in self.told):
            self.told.append(self._next(until))

    def value(self, expression: str) -> Any:
        """What an expression is in the page."""
        answer = self.ask(
            "Runtime.evaluate", expression=expression, returnByValue=True, awaitPromise=True
        )
        assert "exceptionDetails" not in answer, answer["exceptionDetails"]
        return answer["result"].get("value")

    def complaints(self) -> list[str]:
        """What the console or the page's policy had against it since it was opened."""
        self.value("1")  # whatever was told before is read by then
        found = []
        for event in self.told:
            params, method = event.get("params", {}), event.get("method")
            if method == "Runtime.exceptionThrown":
                found.append(str(params["exceptionDetails"]))
            elif method == "Runtime.consoleAPICalled" and params["type"] in ("error", "warning"):
                found.append(str(params["args"]))
            elif method == "Log.entryAdded" and params["entry"]["level"] in ("error", "warning"):
                found.append(params["entry"]["text"])
        return found

    def requests(self) -> list[str]:
        """What was asked of any network or file since the page was opened."""
        self.value("1")
        return [
            event["params"]["request"]["url"]
            for event in self.told
            if event.get("method") == "Network.requestWillBeSent"
        ]

    def picture(self, path: Path, *, whole: bool = True) -> None:
        """A screenshot as PNG."""
        shot = self.ask("Page.captureScreenshot", captureBeyondViewport=whole)
        path.write_bytes(base64.b64decode(shot["data"]))

    def paper(self) -> bytes:
        """The page as it would be printed, a PDF."""
        answer = self.ask("Page.printToPDF", printBackground=False, preferCSSPageSize=True)
        return base64.b64decode(answer["data"])

    def close(self) -> None:
        with contextlib.suppress(OSError):
            os.close(self._to)
            os.close(self._from)
        self._process.kill()
        self._process.wait()


def _pipe() -> tuple[int, int]:
    """A pipe with numbers that are out of the way of 3 and 4."""
    ends = os.pipe()
    moved = [fcntl.fcntl(end, fcntl.F_DUPFD_CLOEXEC, 10) for end in ends]
    for end in ends:
        os.close(end)
    return moved[0], moved[1]


@contextlib.contextmanager
def browser(folder: Path) -> Iterator[Chromium]:
    """A browser; where there is none the test is skipped, unless `CEC_CHROMIUM=required`."""
    if BINARY is None and os.environ.get("CEC_CHROMIUM") != "required":
        pytest.skip("there is no Chromium here: apt-get install chromium")
    found = Chromium(folder)
    try:
        yield found
    finally:
        found.close()
