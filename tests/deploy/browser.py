"""Debian's Chromium without a window, spoken to in its DevTools protocol over a pipe: JSON, each ended by a null."""

from __future__ import annotations

import base64
import itertools
import json
import os
import shutil
import subprocess
import time
from pathlib import Path
from typing import Any

import pytest

from tests.deploy import tools

PATIENCE_SECONDS = 60


class Browser:
    """One tab. Use as a context manager."""

    def __init__(self, folder: Path) -> None:
        program = shutil.which("chromium") or pytest.skip(f"chromium is missing; {tools.INSTALL}")
        folder.mkdir(parents=True, exist_ok=True)
        to_browser, self._write = os.pipe()
        self._read, from_browser = os.pipe()
        command = [program, "--headless=new", "--disable-gpu", "--hide-scrollbars", "--remote-debugging-pipe"]
        command += ["--no-first-run", "--disable-dev-shm-usage", f"--user-data-dir={folder / 'profile'}"]
        if os.geteuid() == 0:
            command.append("--no-sandbox")  # it refuses to have one under root
        # The protocol's pipes are its descriptors 3 and 4.
        script = f'exec "$@" 3<&{to_browser} 4>&{from_browser}'
        with open(folder / "log", "wb") as log:
            self.process = subprocess.Popen(
                ["bash", "-c", script, "chromium", *command, "about:blank"],
                stdin=subprocess.DEVNULL, stdout=log, stderr=log, pass_fds=(to_browser, from_browser),
            )  # fmt: skip
        os.close(to_browser)
        os.close(from_browser)
        self._ids = itertools.count(1)
        self._buffer = b""
        self._session: str | None = None
        self.events: list[dict[str, Any]] = []

    def __enter__(self) -> Browser:
        try:
            target = self.call("Target.createTarget", url="about:blank")["targetId"]
            self._session = self.call("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
            for domain in ("Page", "Log", "Runtime"):
                self.call(f"{domain}.enable")
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self.process.kill()
        self.process.wait()
        os.close(self._read)
        os.close(self._write)

    def _next(self) -> dict[str, Any]:
        while b"\0" not in self._buffer:
            piece = os.read(self._read, 1 << 20)
            assert piece, "Chromium ended"
            self._buffer += piece
        message, self._buffer = self._buffer.split(b"\0", 1)
        return json.loads(message)

    def call(self, method: str, **parameters: Any) -> dict[str, Any]:
        """A command's result; events that come before it are kept in `events`."""
        number = next(self._ids)
        message = {"id": number, "method": method, "params": parameters}
        if self._session is not None:
            message["sessionId"] = self._session
        os.write(self._write, json.dumps(message).encode() + b"\0")
        while True:
            got = self._next()
            if got.get("id") == number:
                assert "error" not in got, (method, got["error"])
                return got["result"]
            self.events.append(got)

    def look_like(self, width: int, height: int, *, dark: bool = False, telephone: bool = False) -> None:
        self.call(
            "Emulation.setDeviceMetricsOverride",
            width=width, height=height, deviceScaleFactor=2 if telephone else 1, mobile=telephone,
        )  # fmt: skip
        scheme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
        self.call("Emulation.setEmulatedMedia", features=[scheme])

    def open(self, url: str, *, scripts: bool = True) -> None:
        """Returns when it is loaded."""
        self.call("Emulation.setScriptExecutionDisabled", value=not scripts)
        self.events.clear()
        failure = self.call("Page.navigate", url=url).get("errorText")
        assert failure is None, (url, failure)
        deadline = time.monotonic() + PATIENCE_SECONDS
        while not any(event.get("method") == "Page.loadEventFired" for event in self.events):
            assert time.monotonic() < deadline, f"{url} does not load"
            self.events.append(self._next())

    def evaluate(self, expression: str) -> Any:
        result = self.call("Runtime.evaluate", expression=expression, returnByValue=True)
        assert "exceptionDetails" not in result, result
        return result["result"].get("value")

    def complaints(self) -> list[str]:
        """What the console got: errors, breaches of the page's policy."""
        self.evaluate("0")  # what came before it is here now
        logged = [event["params"]["entry"] for event in self.events if event.get("method") == "Log.entryAdded"]
        thrown = [event["params"] for event in self.events if event.get("method") == "Runtime.exceptionThrown"]
        return [entry["text"] for entry in logged] + [json.dumps(one) for one in thrown]

    def screenshot(self, path: Path) -> None:
        """Of the whole page."""
        shot = self.call("Page.captureScreenshot", format="png", captureBeyondViewport=True)
        path.write_bytes(base64.b64decode(shot["data"]))
