# SPDX-License-Identifier: Apache-2.0
"""Opens object stores (S3, Google, Azure and others) through obstore; HTTP is read-only."""

from __future__ import annotations

import contextlib
import errno
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Literal

import obstore
from obstore.exceptions import AlreadyExistsError, BaseError
from obstore.store import from_url

from opshift.zoo.outcome import Stamp
from opshift.zoo.stores.stores import StoreError

PIECE = 8 << 20
PIECES = 9000  # S3 allows at most 10,000 pieces
AT_ONCE = 2
FETCHED = 1 << 20
CREATED_WHOLE = 16 << 20  # larger objects are uploaded in pieces, which cannot be create-only


class Objects:
    """The store of one bucket, container or HTTP host, which obstore opens."""

    def __init__(self, root: str) -> None:
        self.root = root
        with self._named(""):
            self._store: Any = from_url(root, **_settings(root))

    def list(self, folder: str) -> Iterator[Stamp]:
        with self._named(folder):
            for chunk in obstore.list(self._store, folder or None):
                for meta in chunk:
                    yield _stamp(meta)

    def stamp(self, key: str) -> Stamp:
        with self._named(key):
            return _stamp(obstore.head(self._store, key))

    def read(self, key: str) -> bytes:
        with self._named(key):
            return bytes(obstore.get(self._store, key).bytes())

    def fetch(self, key: str, path: str) -> Stamp:
        with self._named(key), open(path, "xb") as file:
            response = obstore.get(self._store, key)
            for piece in response.stream(min_chunk_size=FETCHED):
                file.write(piece)
            return _stamp(response.meta)

    def write(self, key: str, data: bytes, *, create: bool) -> Stamp:
        with self._named(key):
            answer = obstore.put(self._store, key, data, mode=_mode(create), use_multipart=False)
        return self._made(key, len(data), answer)

    def upload(self, key: str, path: str, *, create: bool) -> Stamp:
        size = os.path.getsize(path)
        if create and size > CREATED_WHOLE:
            with contextlib.suppress(FileNotFoundError):
                self.stamp(key)
                raise FileExistsError(
                    errno.EEXIST, "the object exists already", f"{self.root}/{key}"
                )
        with self._named(key):
            answer = obstore.put(
                self._store, key, Path(path),
                mode=_mode(create and size <= CREATED_WHOLE),
                use_multipart=size > (CREATED_WHOLE if create else PIECE),
                chunk_size=max(PIECE, size // PIECES), max_concurrency=AT_ONCE,
            )  # fmt: skip
        return self._made(key, size, answer)

    def delete(self, key: str) -> None:
        with contextlib.suppress(FileNotFoundError), self._named(key):
            obstore.delete(self._store, key)

    def _made(self, key: str, size: int, answer: Any) -> Stamp:
        return (key, size, answer["e_tag"].strip('"')) if answer["e_tag"] else self.stamp(key)

    @contextlib.contextmanager
    def _named(self, key: str) -> Iterator[None]:
        """Adds the URL of the object to every error of the store."""
        url = f"{self.root}/{key}"
        try:
            yield
        except FileNotFoundError as error:
            raise FileNotFoundError(errno.ENOENT, "no such object or bucket", url) from error
        except AlreadyExistsError as error:
            raise FileExistsError(errno.EEXIST, "the object exists already", url) from error
        except (BaseError, ValueError) as error:
            raise StoreError(url, error) from error


def _mode(create: bool) -> Literal["create", "overwrite"]:
    return "create" if create else "overwrite"


def opened(root: str) -> Objects:
    return Objects(root)


def _stamp(meta: Any) -> Stamp:
    """Returns path, size and version of an object: its entity tag, or its time if it has none."""
    version = (meta["e_tag"] or "").strip('"') or meta["last_modified"].isoformat()
    return meta["path"], meta["size"], version


def _settings(root: str) -> dict[str, Any]:
    """Returns the client settings; http:// is allowed if an address begins with it."""
    plain = (root, os.environ.get("AWS_ENDPOINT_URL", ""), os.environ.get("AWS_ENDPOINT", ""))
    allow = any(url.startswith("http://") for url in plain)
    return {"client_options": {"allow_http": True}} if allow else {}
