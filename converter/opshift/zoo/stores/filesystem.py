# SPDX-License-Identifier: Apache-2.0
"""Opens URLs through fsspec for other schemes; a file is written under a temporary name."""

from __future__ import annotations

import contextlib
import os
import posixpath
from collections.abc import Iterator
from datetime import datetime
from typing import Any

import fsspec

from opshift.zoo.outcome import Stamp
from opshift.zoo.stores.stores import StoreError, join

VERSIONS = ("ETag", "etag", "mtime", "LastModified", "last_modified", "modified", "created")


class FileSystem:
    """A file system of fsspec. fsspec lacks create-only writes, so `write` checks for the file."""

    def __init__(self, root: str) -> None:
        self.root = root
        with self._named(""):
            self._fs, base = fsspec.core.url_to_fs(root + "/")
            self._base = base.rstrip("/")

    def list(self, folder: str) -> Iterator[Stamp]:
        with self._named(folder):
            self._fs.invalidate_cache()
            for path, info in self._fs.find(self._path(folder), detail=True).items():
                yield self._stamp(path, info)

    def stamp(self, key: str) -> Stamp:
        path = self._path(key)
        with self._named(key):
            self._fs.invalidate_cache()
            info = self._fs.info(path)
            if info["type"] != "file":
                raise FileNotFoundError(path)
            return self._stamp(path, info)

    def read(self, key: str) -> bytes:
        with self._named(key):
            return bytes(self._fs.cat_file(self._path(key)))

    def fetch(self, key: str, path: str) -> Stamp:
        stamp = self.stamp(key)
        with self._named(key):
            self._fs.get_file(self._path(key), path)
        return stamp

    def write(self, key: str, data: bytes, *, create: bool) -> Stamp:
        with self._placing(key, create) as temporary:
            self._fs.pipe_file(temporary, data)
        return self.stamp(key)

    def upload(self, key: str, path: str, *, create: bool) -> Stamp:
        with self._placing(key, create) as temporary:
            self._fs.put_file(path, temporary)
        return self.stamp(key)

    def delete(self, key: str) -> None:
        with contextlib.suppress(FileNotFoundError), self._named(key):
            self._fs.rm_file(self._path(key))

    @contextlib.contextmanager
    def _placing(self, key: str, create: bool) -> Iterator[str]:
        """Yields a temporary path to write to, and then renames it to the final path."""
        path = self._path(key)
        folder = posixpath.dirname(path)
        temporary = f"{folder}/.opshift-{os.urandom(6).hex()}.tmp"
        with self._named(key):
            self._fs.invalidate_cache()
            if create and self._fs.exists(path):
                raise FileExistsError(path)
            self._fs.makedirs(folder, exist_ok=True)
            try:
                yield temporary
                self._fs.mv(temporary, path)
            except BaseException:
                with contextlib.suppress(Exception):  # the first error is reported
                    self._fs.rm_file(temporary)
                raise

    def _path(self, key: str) -> str:
        return join(self._base, key) if self._base else f"/{key}"

    def _stamp(self, path: str, info: dict[str, Any]) -> Stamp:
        version = next((info[name] for name in VERSIONS if info.get(name) is not None), "")
        return path[len(self._base) :].lstrip("/"), info["size"], _time_text(version)

    @contextlib.contextmanager
    def _named(self, key: str) -> Iterator[None]:
        """Converts errors to StoreError, but not errors about missing or existing files."""
        url = f"{self.root}/{key}"
        try:
            yield
        except ImportError:
            raise
        except (FileNotFoundError, FileExistsError) as error:
            raise type(error)(url) from error
        except StoreError:
            raise
        except Exception as error:
            raise StoreError(url, f"{type(error).__name__}: {error}") from error


def _time_text(version: Any) -> str:
    """Returns the time of a file as text; calls of fsspec return a number or a date."""
    seconds = version.timestamp() if isinstance(version, datetime) else version
    return f"{seconds:.6f}" if isinstance(seconds, float) else str(seconds)


def opened(root: str) -> FileSystem:
    return FileSystem(root)
