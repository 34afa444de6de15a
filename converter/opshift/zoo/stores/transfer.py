# SPDX-License-Identifier: Apache-2.0
"""Downloads models from a store, and uploads results to a store."""

from __future__ import annotations

import contextlib
import os
import posixpath
from collections.abc import Iterable
from dataclasses import replace

from opshift.errors import choose_external
from opshift.model import weights
from opshift.model.bytes.external import inside, location_of
from opshift.model.bytes.source import has_equal_bytes
from opshift.model.walk import tensors
from opshift.protos import TensorProto
from opshift.records import dataclass
from opshift.zoo import files
from opshift.zoo.files import ConvertedModel, LocalModel
from opshift.zoo.key import Key
from opshift.zoo.layout import Layout
from opshift.zoo.marks import Mark
from opshift.zoo.outcome import Stamp, Unpublished
from opshift.zoo.stores import stores
from opshift.zoo.stores.stores import Store


def brought(url: str, folder: str) -> LocalModel:
    """Downloads a model and its data files to a folder, and opens it."""
    store, key = stores.at(url)
    path = os.path.join(folder, posixpath.basename(key))
    fetched = [store.fetch(key, path)]
    skeleton, _ = weights.carve_file(path)
    for tensor in tensors(skeleton):
        if tensor.data_location == TensorProto.EXTERNAL:
            near = inside(folder, location_of(tensor), tensor.name)
            if not os.path.exists(near):
                os.makedirs(os.path.dirname(near), exist_ok=True)
                # opening the model reports a missing file
                with contextlib.suppress(FileNotFoundError):
                    fetched.append(store.fetch(_twin(near, folder, key), near))
    reads = _named_from(posixpath.dirname(key), fetched)
    return replace(files.found(path), reads=reads, home=posixpath.dirname(url))


@dataclass(frozen=True, slots=True)
class StoreResult:
    """The keys of a result and of its mark in a store; readers never see a partial result."""

    output: str
    mark: str
    creates: bool  # whether the store supports create-only writes
    folder: str  # the local folder to which the result is written first

    def there(self, key: Key) -> Mark | None:
        """Returns the mark of the result if the result exists and is up to date, else None."""
        store, name = stores.at(self.mark)
        try:
            mark = Mark.decoded(store.read(name))
        except FileNotFoundError:
            return None
        return mark if mark and mark.holds(key, posixpath.dirname(self.output)) else None

    def publish(
        self, made: ConvertedModel, external: str, key: Key, layout: Layout
    ) -> tuple[Stamp, ...]:
        """Uploads the data files, then the model, then the mark."""
        store, name = stores.at(self.output)
        path = os.path.join(self.folder, posixpath.basename(name))
        if external == "copy":
            layout.require_free(self.output, made.weights.locations)
        model, *data = files.spliced(made, path, external, Layout())
        layout.require_free(self.output, [os.path.relpath(file, self.folder) for file in data])
        made.of.check_unchanged()
        old = _stamp(store, name) if data else None
        if old and not _same(store, old, model):
            store.delete(name)  # otherwise readers could combine the old model with the new data
        shared = set() if external == "one-file" else set(map(os.path.basename, made.of.files))
        put = []
        for path in data:
            is_shared = os.path.basename(path) in shared
            put.append(self._put(store, _twin(path, self.folder, name), path, is_shared))
        put.insert(0, self._put(store, name, model, False))
        writes = _named_from(posixpath.dirname(name), put)
        marks, name_of_mark = stores.at(self.mark)
        mark = Mark(key(), writes, made.report.result, made.report.origin)
        put.append(marks.write(name_of_mark, mark.encoded(), create=False))
        return _named_from(posixpath.dirname(name), put)

    def stamps(self, mark: Mark) -> tuple[Stamp, ...]:
        """Returns the sizes and versions of all objects, which must be unchanged in a rerun."""
        store, name = stores.at(self.mark)
        folder = posixpath.dirname(stores.at(self.output)[1])
        return (*mark.writes, *_named_from(folder, [store.stamp(name)]))

    def _put(self, store: Store, name: str, path: str, is_shared: bool) -> Stamp:
        """Uploads a file if it differs from the object; raises if other models use the object."""
        old = _stamp(store, name)
        if old is None:
            try:
                return store.upload(name, path, create=self.creates)
            # another run was faster, or an earlier request succeeded although it reported an error
            except FileExistsError:
                old = store.stamp(name)
        if _same(store, old, path):
            return old
        if is_shared:
            raise Unpublished(
                f"{store.root}/{name} exists already and differs:"
                f" remove it, or {choose_external('one-file', 'inline')}"
            )
        return store.upload(name, path, create=False)


def _same(store: Store, there: Stamp, path: str) -> bool:
    """Returns whether an object equals a local file."""
    if there[1] != os.path.getsize(path):
        return False
    copy = os.path.join(os.path.dirname(path), ".opshift-there")
    try:
        store.fetch(there[0], copy)
        return has_equal_bytes(path, copy)
    finally:
        with contextlib.suppress(FileNotFoundError):
            os.unlink(copy)


def _stamp(store: Store, name: str) -> Stamp | None:
    try:
        return store.stamp(name)
    except FileNotFoundError:
        return None


def _twin(path: str, folder: str, model: str) -> str:
    """Returns the key of a local file, next to the key of the model."""
    name = os.path.relpath(path, folder).replace(os.sep, "/")
    return stores.join(posixpath.dirname(model), name)


def _named_from(folder: str, stamps: Iterable[Stamp]) -> tuple[Stamp, ...]:
    folder = folder or "."
    return tuple((posixpath.relpath(key, folder), size, at) for key, size, at in stamps)
