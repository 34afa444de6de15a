# SPDX-License-Identifier: Apache-2.0
"""Installs a release of a runtime for a Python on this machine that has a wheel of it."""

from __future__ import annotations

import functools
import json
import os
import re
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

CACHE = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "opshift-runtimes"

# The first and the last release with a wheel for each Python, on Linux x86_64, as pip lists them.
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
# What the other runtimes are called in the registry of Python packages; pip finds the wheels.
PACKAGES = {"openvino": "openvino", "opencv": "opencv-python-headless", "tract": "tract"}
WEB = "onnxruntime-web"  # npm installs it, and node runs it
OPENCV_FOR_NUMPY_2 = (4, 10)
BEFORE_NUMPY_2 = (1, 19)  # older releases are built against numpy 1


class NotHere(Exception):  # noqa: N818 - an answer, not an error
    """A runtime cannot be installed on this machine; the message says why."""


@dataclass(frozen=True)
class Installed:
    """A release, the interpreter that runs it, and the folder that it is imported from."""

    version: str
    python: str
    site: str
    name: str = "onnxruntime"

    @property
    def target(self) -> str:
        """The release as `--for` takes it."""
        return f"{self.name}=={self.version}"

    @property
    def environment(self) -> dict[str, str]:
        return {**os.environ, "PYTHONPATH": self.site, "PYTHONNOUSERSITE": "1"}


def numbers(version: str) -> tuple[int, ...]:
    return tuple(int(part) for part in re.findall(r"\d+", version))


@functools.cache
def pythons() -> dict[str, str]:
    """Interpreters by minor version: those on PATH, those of pyenv, and this one."""
    root = Path(os.environ.get("PYENV_ROOT") or Path.home() / ".pyenv") / "versions"
    found: dict[str, str] = {}
    named = [shutil.which(f"python{minor}") for minor in WHEELS]
    there = sorted(root.glob("*/bin/python"), key=lambda path: numbers(path.parts[-3]))
    for path in [*named, *map(str, reversed(there)), sys.executable]:
        if path is None:
            continue
        code = "import sys; print('%d.%d' % sys.version_info[:2])"
        try:
            done = subprocess.run([path, "-c", code], capture_output=True, text=True, timeout=60)
        except (OSError, subprocess.TimeoutExpired):
            continue
        if done.returncode == 0:  # a shim answers only for versions that are switched on
            found.setdefault(done.stdout.strip(), path)
    return found


def install(version: str, cache: Path = CACHE, name: str = "onnxruntime") -> Installed:
    """The release in a folder of its own; one that was installed before is used again."""
    final = cache / f"{name}-{version}"
    note = final / "installed.json"
    if note.exists():
        python = json.loads(note.read_text())["python"]
        if os.path.exists(python):
            return Installed(version, python, str(final), name)
        shutil.rmtree(final)  # the environment of that Python is gone
    site = cache / f"{name}-{version}.{os.getpid()}"  # another process may install it, too
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
    told = ""
    for python in candidates:
        told = _npm(site, *wanted[0]) if name == WEB else _pip(python, site, wanted)
        if not told:
            break
    else:
        raise NotHere(f"{name} {version} cannot be installed: {told}")
    _wrapper(python, site, final)
    (site / note.name).write_text(json.dumps({"version": version, "python": python}))
    try:
        site.rename(final)
    except OSError:  # it was quicker
        shutil.rmtree(site, ignore_errors=True)
    return Installed(version, python, str(final), name)


def _npm(site: Path, what: str) -> str:
    """Installs into a folder; what npm says where it cannot."""
    node, npm = shutil.which("node"), shutil.which("npm")
    if node is None or npm is None:
        return "node and npm are not on PATH"
    site.mkdir(parents=True)
    command = [npm, "install", "--prefix", str(site), "--no-audit", "--no-fund"]
    command += ["--fetch-retries", "1", "--fetch-timeout", "60000", what]
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode:
        shutil.rmtree(site, ignore_errors=True)
    lines = done.stderr.strip().splitlines() or ["npm said nothing"]
    return f"npm cannot install {what}: {lines[-1]}" if done.returncode else ""


def _pip(python: str, site: Path, wanted: list[list[str]]) -> str:
    """Installs into a folder; what pip says where it cannot."""
    command = [python, "-m", "pip", "install", "-q", "--disable-pip-version-check"]
    command += ["--only-binary", ":all:", "--target", str(site)]
    for what in wanted:
        done = subprocess.run([*command, *what], capture_output=True, text=True)
        if done.returncode:
            shutil.rmtree(site, ignore_errors=True)
            told = (done.stderr.strip().splitlines() or ["pip said nothing"])[-1]
            return f"pip of {python} cannot install {what[0]}: {told}"
    return ""


def _wrapper(python: str, site: Path, final: Path) -> None:
    """An interpreter with the release, as `opshift verify --runtime` takes it."""
    script = site / "python"
    script.write_text(f'#!/bin/sh\nPYTHONPATH="{final}" exec "{python}" "$@"\n')
    script.chmod(0o755)


def _python_for(version: str) -> str:
    """The newest Python here that has a wheel of a release."""
    newest = max((last for _, last in WHEELS.values()), key=numbers)
    fits = [
        minor for minor, (first, last) in WHEELS.items()
        if numbers(first) <= numbers(version) <= numbers(last)
    ]  # fmt: skip
    if numbers(version) > numbers(newest):
        fits = list(WHEELS)[-3:]  # newer than this table: pip decides
    here = [minor for minor in fits if minor in pythons()]
    if not here:
        raise NotHere(
            f"onnxruntime {version} has wheels for Python {', '.join(fits) or '(none known)'};"
            f" found here: {', '.join(sorted(pythons(), key=numbers)) or 'none'}"
        )
    return pythons()[max(here, key=numbers)]
