# SPDX-License-Identifier: Apache-2.0
"""The key of a result: a digest of all bytes of the model and of the recipe."""

from __future__ import annotations

import contextlib
import hashlib
import os
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import TypeAlias

Key: TypeAlias = Callable[[], str]

CHUNK = 16 << 10  # pages that the allocator has at hand and the processor in its cache
LARGE = 32 << 20  # bytes that take longer to digest than a thread takes to start


def key_of(recipe: str, files: Iterable[str | bytes]) -> str:
    """The key of the result of a recipe for a model and its data files, or their bytes."""
    return hashlib.sha256(" ".join([recipe, *map(_digest, files)]).encode()).hexdigest()


@contextlib.contextmanager
def found_beside(recipe: str, files: Iterable[str | bytes], size: int) -> Iterator[Key]:
    """Yields a function that returns the key; for large files a thread computes it in parallel."""
    if size < LARGE:
        found = key_of(recipe, files)
        yield lambda: found
        return
    with ThreadPoolExecutor(1) as thread:
        yield thread.submit(key_of, recipe, files).result


def _digest(file: str | bytes) -> str:
    """The digest of a file; the larger pieces of `hashlib.file_digest` cost as much again."""
    if isinstance(file, bytes):
        return hashlib.sha256(file).hexdigest()
    digest, fd = hashlib.sha256(), os.open(file, os.O_RDONLY | getattr(os, "O_BINARY", 0))
    try:
        while data := os.read(fd, CHUNK):
            digest.update(data)
    finally:
        os.close(fd)
    return digest.hexdigest()
