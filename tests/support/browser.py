# SPDX-License-Identifier: Apache-2.0
"""A headless Chromium, controlled with Debian's chromedriver and Python's library."""

from __future__ import annotations

import base64
import json
import shutil
import socket
import subprocess
import time
import urllib.error
import urllib.request
from pathlib import Path
from types import TracebackType
from typing import Any

MISSING = [name for name in ("chromium", "chromedriver") if shutil.which(name) is None]
FLAGS = [
    "--headless=new", "--no-sandbox", "--disable-gpu", "--window-size=1200,1600",
    "--disable-background-networking", "--disable-component-update", "--disable-sync",
    "--no-first-run",
]  # fmt: skip


class Browser:
    """One window, in light or dark; with a width, the window is a phone's."""

    def __init__(self, *, dark: bool = False, width: int = 0) -> None:
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            port = free.getsockname()[1]
        command = ["chromedriver", f"--port={port}"]
        self._driver = subprocess.Popen(command, stdout=subprocess.DEVNULL)
        self._base = f"http://127.0.0.1:{port}"
        options = {"args": FLAGS, "binary": shutil.which("chromium")}
        capabilities = {"capabilities": {"alwaysMatch": {"goog:chromeOptions": options}}}
        self._base += f"/session/{self._first(capabilities)['sessionId']}"
        media = {
            "features": [{"name": "prefers-color-scheme", "value": "dark" if dark else "light"}]
        }
        self._tell("Emulation.setEmulatedMedia", media)
        if width:
            phone = {"width": width, "height": 800, "deviceScaleFactor": 1, "mobile": True}
            self._tell("Emulation.setDeviceMetricsOverride", phone)

    def open(self, address: str) -> None:
        """Returns when the page has loaded."""
        self._ask("/url", {"url": address})

    def run(self, script: str) -> Any:
        """Returns the result of a JavaScript function with these statements."""
        return self._ask("/execute/sync", {"script": script, "args": []})

    def choose(self, selector: str, path: Path) -> None:
        """Gives a file to an input of the page, as its dialog would."""
        element = self._ask("/element", {"using": "css selector", "value": selector})
        self._ask(f"/element/{next(iter(element.values()))}/value", {"text": str(path)})

    def download_to(self, folder: Path) -> None:
        """Sets the folder for later downloads."""
        params = {"behavior": "allow", "downloadPath": str(folder)}
        command = {"cmd": "Browser.setDownloadBehavior", "params": params}
        self._ask("/goog/cdp/execute", command)

    def screenshot(self, path: Path) -> None:
        """Writes an image of the visible part of the page to a file."""
        path.write_bytes(base64.b64decode(self._ask("/screenshot", method="GET")))

    def __enter__(self) -> Browser:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        try:
            self._ask("", method="DELETE")
        finally:
            self._driver.terminate()
            self._driver.wait()

    def _tell(self, command: str, parameters: dict[str, Any]) -> Any:
        """Returns the answer of Chromium's developer tools to a command."""
        return self._ask("/goog/cdp/execute", {"cmd": command, "params": parameters})

    def _first(self, capabilities: dict[str, Any]) -> Any:
        """Begins a session; the driver needs a moment before it listens."""
        for _ in range(300):
            try:
                return self._ask("/session", capabilities)
            except urllib.error.HTTPError:
                raise
            except OSError:
                time.sleep(0.1)
        raise TimeoutError("chromedriver does not listen")

    def _ask(self, path: str, body: Any = None, method: str = "POST") -> Any:
        data = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(self._base + path, data, method=method)
        with urllib.request.urlopen(request, timeout=120) as answer:
            return json.load(answer)["value"]
