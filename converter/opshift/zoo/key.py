# SPDX-License-Identifier: Apache-2.0
"""Computes the key of a result: a digest of the options and of all bytes of the model."""

from __future__ import annotations

import contextlib
import hashlib
import os
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import TypeAlias

Key: TypeAlias = Callable[[], str]

CHUNK = 16 << 10  # a buffer of this size is allocated fast and fits the cache of the processor
LARGE = 32 << 20  # from this size on, the digest takes longer than the start of a thread


def key_of(recipe: str, files: Iterable[str | bytes]) -> str:
    """Returns the key of a result, from the recipe and the model's `files`: paths or contents."""
    return hashlib.sha256(" ".join([recipe, *map(_digest, files)]).encode()).hexdigest()


@contextlib.contextmanager
def found_beside(recipe: str, files: Iterable[str | bytes], size: int) -> Iterator[Key]:
    """Yields a function that returns the key; for large files, a thread computes the key."""
    if size < LARGE:
        key = key_of(recipe, files)
        yield lambda: key
        return
    with ThreadPoolExecutor(1) as thread:
        yield thread.submit(key_of, recipe, files).result


def _digest(file: str | bytes) -> str:
    """Returns the digest of a file; `hashlib.file_digest` reads larger pieces and takes longer."""
    if isinstance(file, bytes):
        return hashlib.sha256(file).hexdigest()
    digest, fd = hashlib.sha256(), os.open(file, os.O_RDONLY | getattr(os, "O_BINARY", 0))
    try:
        while data := os.read(fd, CHUNK):
            digest.update(data)
    finally:
        os.close(fd)
    return digest.hexdigest()
