# SPDX-License-Identifier: Apache-2.0
"""Installs a release of a runtime for a Python on this machine that has a wheel for it."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

from opshift import child_python

from tools.lib.interpreters import numbers, pythons

CACHE = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "opshift-runtimes"

# For each Python, the first and last onnxruntime with a wheel for Linux x86_64, as pip lists them.
WHEELS = {
    "3.6": ("0.1.2", "1.3.0"),
    "3.7": ("0.1.2", "1.14.1"),
    "3.8": ("1.2.0", "1.19.2"),
    "3.9": ("1.7.0", "1.19.2"),
    "3.10": ("1.12.0", "1.23.2"),
    "3.11": ("1.15.0", "1.32.0"),
    "3.12": ("1.17.0", "1.32.0"),
    "3.13": ("1.20.0", "1.32.0"),
}
# The names of other runtimes in the Python package index, where pip finds the wheels.
PACKAGES = {"openvino": "openvino", "opencv": "opencv-python-headless", "tract": "tract"}
WEB = "onnxruntime-web"  # npm installs this package, and node runs it
OPENCV_FOR_NUMPY_2 = (4, 10)
BEFORE_NUMPY_2 = (1, 19)  # older releases are built against numpy 1


class NotHere(Exception):  # noqa: N818 - a result, not an error
    """A runtime cannot be installed on this machine; the message contains the reason."""


@dataclass(frozen=True)
class Installed:
    """A release, the interpreter that runs it, and the folder of its packages."""

    version: str
    python: str
    site: str
    name: str = "onnxruntime"

    @property
    def target(self) -> str:
        """The release in the form of the option `--for`."""
        return f"{self.name}=={self.version}"

    @property
    def environment(self) -> dict[str, str]:
        """The environment of the child process; for node, it includes PATH."""
        usual = dict(os.environ) if self.name == WEB else child_python.bare_environment()
        return {**usual, "PYTHONPATH": self.site, "PYTHONNOUSERSITE": "1"}

    @property
    def program(self) -> str:
        """The interpreter in the form of the option `--runtime`."""
        wrapper = Path(self.site, "python")
        return str(wrapper) if self.site and wrapper.exists() else self.python


def install(version: str, cache: Path = CACHE, name: str = "onnxruntime") -> Installed:
    """Installs a release into a folder of its own, or reuses an existing installation."""
    final = cache / f"{name}-{version}"
    note = final / "installed.json"
    if note.exists():
        python = json.loads(note.read_text())["python"]
        if os.path.exists(python):
            return Installed(version, python, str(final), name)
        shutil.rmtree(final)  # the environment of that Python was removed
    site = cache / f"{name}-{version}.{os.getpid()}"  # another process may install the same release
    if name == WEB:
        wanted, candidates = [[f"{name}@{version}"]], [sys.executable]
    elif name == "onnxruntime":
        numpy = "numpy<2" if numbers(version)[:2] < BEFORE_NUMPY_2 else "numpy"
        wanted = [[f"{name}=={version}", "--no-deps"], [numpy, "protobuf", "flatbuffers"]]
        candidates = [_python_for(version)]
    else:
        old = name == "opencv" and numbers(version)[:2] < OPENCV_FOR_NUMPY_2
        wanted = [[f"{PACKAGES[name]}=={version}", *(["numpy<2"] if old else [])]]
        candidates = [pythons()[minor] for minor in reversed(WHEELS) if minor in pythons()]
    failure = ""
    for python in candidates:
        failure = _npm(site, *wanted[0]) if name == WEB else _pip(python, site, wanted)
        if not failure:
            break
    else:
        raise NotHere(f"{name} {version} cannot be installed: {failure}")
    _wrapper(python, site, final)
    (site / note.name).write_text(json.dumps({"version": version, "python": python}))
    try:
        site.rename(final)
    except OSError:  # another process was faster
        shutil.rmtree(site, ignore_errors=True)
    return Installed(version, python, str(final), name)


def _npm(site: Path, what: str) -> str:
    """Installs a package with npm; returns npm's message if this fails."""
    node, npm = shutil.which("node"), shutil.which("npm")
    if node is None or npm is None:
        return "node and npm are not on PATH"
    site.mkdir(parents=True)
    options = ["--no-audit", "--no-fund", "--fetch-retries", "1", "--fetch-timeout", "60000"]
    return _run([npm, "install", "--prefix", str(site), *options, what], site)


def _pip(python: str, site: Path, wanted: list[list[str]]) -> str:
    """Installs packages with pip; returns pip's message if this fails."""
    command = [python, "-m", "pip", "install", "-q", "--disable-pip-version-check"]
    command += ["--only-binary", ":all:", "--target", str(site)]
    return next(filter(None, (_run([*command, *what], site) for what in wanted)), "")


def _run(command: list[str], site: Path) -> str:
    """Runs an installer; if it fails, removes the folder and returns its last message."""
    done = subprocess.run(command, capture_output=True, text=True)
    if not done.returncode:
        return ""
    shutil.rmtree(site, ignore_errors=True)
    return f"{command[0]}: {(done.stderr.strip().splitlines() or ['no message'])[-1]}"


def _wrapper(python: str, site: Path, final: Path) -> None:
    """Writes a script that starts the interpreter with the release, for the option `--runtime`."""
    script = site / "python"
    script.write_text(f'#!/bin/sh\nPYTHONPATH="{final}" exec "{python}" "$@"\n')
    script.chmod(0o755)


def _python_for(version: str) -> str:
    """Returns the newest Python on this machine that has a wheel for a release."""
    newest = max((last for _, last in WHEELS.values()), key=numbers)
    fits = [
        minor for minor, (first, last) in WHEELS.items()
        if numbers(first) <= numbers(version) <= numbers(last)
    ]  # fmt: skip
    if numbers(version) > numbers(newest):
        fits = list(WHEELS)[-3:]  # newer than this table, so pip decides
    here = [minor for minor in fits if minor in pythons()]
    if not here:
        raise NotHere(
            f"onnxruntime {version} has wheels for Python {', '.join(fits) or '(none known)'};"
            f" found here: {', '.join(sorted(pythons(), key=numbers)) or 'none'}"
        )
    return pythons()[max(here, key=numbers)]
