"""What installed packages offer to opshift, by the groups of their entry points."""

from __future__ import annotations

import functools
from importlib.metadata import EntryPoint, entry_points
from typing import Any


def offered(group: str) -> list[EntryPoint]:
    """The entry points of a group, by name."""
    return sorted(_all().select(group=group), key=lambda point: point.name)


@functools.cache
def _all() -> Any:  # Python 3.10 has another class for it, with the same method
    # To find them the metadata of every installed package is read: once is enough.
    return entry_points()
