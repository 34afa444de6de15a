# SPDX-License-Identifier: Apache-2.0
"""Describes the command of a benchmark and the machine on which it ran."""

from __future__ import annotations

import os
import platform
import re
from importlib import metadata
from pathlib import Path


def machine(command: str) -> str:
    """Returns the command and a description of this machine."""
    match = re.search(r"model name\s*: (.*)", Path("/proc/cpuinfo").read_text())
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / (1 << 30)
    versions = ", ".join(f"{name} {_version(name)}" for name in ("onnx", "protobuf", "numpy"))
    cpu = match[1] if match else platform.machine()
    return (
        f"`{command}`\n\n{os.cpu_count()} cores of {cpu}, {memory:.0f} GiB; Linux"
        f" {platform.release()}, Python {platform.python_version()}, {versions}."
    )


def _version(name: str) -> str:
    try:
        return metadata.version(name)
    except metadata.PackageNotFoundError:
        return "?"
