# SPDX-License-Identifier: Apache-2.0
"""Defines the interface of stores for remote files, and chooses the module that opens a URL.

A module of this package whose name is a URL scheme opens the URLs of this scheme. All other schemes
need the packages of `opshift[remote]`.
"""

from __future__ import annotations

import functools
import importlib
import os
import pkgutil
import posixpath
import re
from collections import Counter
from collections.abc import Iterator
from typing import Protocol

from opshift.errors import MissingExtra
from opshift.text import printable
from opshift.zoo import stores
from opshift.zoo.outcome import Stamp

# The schemes that obstore opens; fsspec opens every other scheme.
OBJECTS = frozenset(("s3", "s3a", "gs", "az", "abfs", "abfss", "http", "https"))
_URL = re.compile(r"[A-Za-z][A-Za-z0-9+.-]+://")


class StoreError(OSError):
    """A request to a store failed."""

    def __init__(self, url: str, reason: object) -> None:
        message = " ".join(str(reason).partition("Debug source:")[0].split())
        super().__init__(f"{printable(url)}: {message[:500]}")


class Store(Protocol):
    """The interface of a store; it raises the errors of local files for missing objects."""

    root: str

    def list(self, folder: str) -> Iterator[Stamp]:
        """Yields key, size and version of every object below a folder."""

    def stamp(self, key: str) -> Stamp:
        """Returns the key, size and version of one object."""

    def read(self, key: str) -> bytes:
        """Returns the content of a small object."""

    def fetch(self, key: str, path: str) -> Stamp:
        """Downloads an object to a file in pieces; returns its key, size and version."""

    def write(self, key: str, data: bytes, *, create: bool) -> Stamp:
        """Writes a small object as a whole; with `create`, raises if the object exists."""

    def upload(self, key: str, path: str, *, create: bool) -> Stamp:
        """Uploads a file in pieces; readers never see a partial object."""

    def delete(self, key: str) -> None:
        """Deletes an object if it exists."""


def is_url(path: str) -> bool:
    return "://" in path and bool(_URL.match(path))


def at(url: str) -> tuple[Store, str]:
    """Returns the store of a URL, and the key of the object in it."""
    scheme, _, path = url.partition("://")
    place, _, key = path.partition("/")
    return _opened(f"{scheme}://{place}"), key.rstrip("/")


@functools.cache
def _opened(root: str) -> Store:
    kind = _module_of(root.partition("://")[0])
    try:
        store: Store = importlib.import_module(f"opshift.zoo.stores.{kind}").opened(root)
    except ImportError as error:
        raise MissingExtra(f"{root}: {error}; run `pip install 'opshift[remote]'`") from error
    return store


def _module_of(scheme: str) -> str:
    """Returns the module that opens URLs of a scheme."""
    schemes = {module.name for module in pkgutil.iter_modules(stores.__path__)} - {
        "stores",
        "transfer",
    }
    if scheme in schemes:
        return scheme
    return "objects" if scheme in OBJECTS else "filesystem"


def join(folder: str, name: str) -> str:
    return f"{folder}/{name}" if folder else name


def size_and_version(path: str) -> tuple[int, str]:
    """Returns the current size and version of a file or an object.

    Many tools set the modification time of files to a fixed date. Therefore the version also
    contains the inode number, which changes if a file is replaced, and the change time, which no
    tool can set.
    """
    if is_url(path):
        store, key = at(path)
        return store.stamp(posixpath.normpath(key))[1:]
    status = os.stat(path)
    return status.st_size, f"{status.st_mtime_ns} {status.st_ino} {status.st_ctime_ns}"


class Listed:
    """Looks up sizes and versions; each folder of a store is listed only once."""

    def __init__(self) -> None:
        self._known: dict[str, dict[str, Stamp]] = {}

    def below(self, url: str) -> dict[str, Stamp]:
        """Returns the objects in a folder of a store by key, as of its first listing."""
        url = url.rstrip("/")
        if url not in self._known:
            store, folder = at(url)
            self._known[url] = {stamp[0]: stamp for stamp in store.list(folder)}
        return self._known[url]

    def folders(self) -> Counter[str]:
        """Returns the total size of the files directly in each listed folder."""
        sizes: Counter[str] = Counter()
        for url, stamps in self._known.items():
            for key, size, _ in stamps.values():
                sizes[join(at(url)[0].root, posixpath.dirname(key)).rstrip("/")] += size
        return sizes

    def size_and_version(self, path: str) -> tuple[int, str]:
        """Returns size and version of a file or object, from a listing if there is one."""
        folder = next((url for url in self._known if path.startswith(url + "/")), None)
        if folder is None:
            return size_and_version(path)
        key = posixpath.normpath(at(path)[1])
        if key not in self._known[folder]:
            raise FileNotFoundError(path)
        return self._known[folder][key][1:]


def honours_create(folder: str) -> bool:
    """Returns whether a store refuses to create an existing object, from a trial."""
    store, key = at(folder)
    probe = join(key, f".opshift/probe-{os.urandom(6).hex()}")
    store.write(probe, b"1", create=False)
    try:
        store.write(probe, b"2", create=True)
    except FileExistsError:
        return True
    except StoreError:  # some stores do not support this request
        return False
    finally:
        store.delete(probe)
    return False
