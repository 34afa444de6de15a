# SPDX-License-Identifier: Apache-2.0
"""Holds the version of opshift, which every package may import.

The version of a development build contains its commit, if the commit is known. The commit comes
from the repository of the sources, or from the version of the installed package.
"""

from __future__ import annotations

import os
import re

VERSION = "0.3.0.dev15"
"""The version: a release, or `.devN` before it. Each fix of a wrong result raises N."""

RELEASED = 1 << 30
"""A number above N of every `.devN`, so that a release sorts after its development versions."""


def order(version: str) -> tuple[int, ...]:
    """Returns a tuple by which versions sort; raises ValueError if the text is not a version."""
    release, _, number = version.partition("+")[0].partition(".dev")
    major, minor, patch = (int(part) for part in release.split("."))
    return major, minor, patch, int(number) if number else RELEASED


def build(folder: str, version: str = VERSION) -> str:
    """Returns the version of the build whose package is in a folder, with its commit if known."""
    if ".dev" not in version:
        return version
    above = os.path.dirname(folder)
    if commit := _commit(os.path.join(above, ".git")):
        return f"{version}+g{commit[:9]}"
    installed = "\n".join(os.listdir(folder))  # contains the folder `opshift-VERSION.dist-info`
    unpacked = _text(os.path.join(above, "PKG-INFO"))  # in a source distribution
    pattern = rf"^(?:opshift-|Version: )({re.escape(version)}\+g[0-9a-f]+)"
    match = re.search(pattern, f"{installed}\n{unpacked}", re.MULTILINE)
    return match[1] if match else version


def _commit(git: str) -> str:
    """Returns the commit that a repository has checked out; empty if there is no repository."""
    folder = git
    if os.path.isfile(git):  # a worktree, whose branches are in the main repository
        folder = os.path.join(os.path.dirname(git), _text(git).partition("gitdir: ")[2].strip())
    head = _text(os.path.join(folder, "HEAD")).strip()
    if not head.startswith("ref: "):
        return head
    name = head.removeprefix("ref: ")
    home = os.path.join(folder, _text(os.path.join(folder, "commondir")).strip())
    packed = _text(os.path.join(home, "packed-refs"))
    match = re.search(rf"^([0-9a-f]+) {re.escape(name)}$", packed, re.MULTILINE)
    return _text(os.path.join(home, name)).strip() or (match[1] if match else "")


def _text(path: str) -> str:
    try:
        with open(path, encoding="utf-8") as file:
            return file.read()
    except (OSError, UnicodeDecodeError):
        return ""


BUILD = build(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
"""The version of this build, as `opshift --version`, reports and stamps print it."""
