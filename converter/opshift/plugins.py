"""What installed packages offer to opshift, by the groups of their entry points."""

from __future__ import annotations

import functools
import sys
from importlib.metadata import EntryPoint, entry_points
from typing import Any


def offered(group: str) -> list[EntryPoint]:
    """The entry points of a group, by name."""
    return sorted(_all(tuple(sys.path)).select(group=group), key=lambda point: point.name)


@functools.lru_cache(maxsize=1)
def _all(path: tuple[str, ...]) -> Any:  # Python 3.10 has another class, with the same method
    # To find them the metadata of every package on the path is read: once is enough.
    return entry_points()
