# SPDX-License-Identifier: Apache-2.0
"""The part of a page that a benchmark writes: its command, the machine, its tables."""

from __future__ import annotations

import os
import platform
import re
from importlib import metadata
from pathlib import Path

MARKS = BEGIN, END = "<!-- bench:begin -->", "<!-- bench:end -->"


def machine(command: str) -> str:
    """The command, and what it ran on."""
    found = re.search(r"model name\s*: (.*)", Path("/proc/cpuinfo").read_text())
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / (1 << 30)
    versions = ", ".join(f"{name} {_version(name)}" for name in ("onnx", "protobuf", "numpy"))
    cpu = found[1] if found else platform.machine()
    return (
        f"`{command}`\n\n{os.cpu_count()} cores of {cpu}, {memory:.0f} GiB; Linux"
        f" {platform.release()}, Python {platform.python_version()}, {versions}."
    )


def _version(name: str) -> str:
    try:
        return metadata.version(name)
    except metadata.PackageNotFoundError:
        return "?"


def write_between_marks(path: Path, text: str, marks: tuple[str, str] = MARKS) -> None:
    """Replace the generated part of a page, or start the page."""
    first, last = marks
    page = path.read_text() if path.exists() else f"# Performance\n\n{first}\n{last}\n"
    head, begin, rest = page.partition(first)
    _, end, tail = rest.partition(last)
    if not begin or not end:
        raise SystemExit(f"{path} has no {first} ... {last}")
    path.write_text(f"{head}{first}\n{text}\n{last}{tail}")
