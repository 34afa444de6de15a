# SPDX-License-Identifier: Apache-2.0
"""Writes a skeleton with its payloads to a file, and writes its external data."""

from __future__ import annotations

import dataclasses
import hashlib
import os
from collections.abc import Callable, Collection, Iterable, Iterator
from functools import cached_property
from itertools import chain
from math import prod
from typing import TypeAlias

from opshift.errors import BadDestination, BadTarget, InvalidModel, choose_external
from opshift.model import walk
from opshift.model.arrays import from_array
from opshift.model.bytes import place, wire
from opshift.model.bytes.claim import tidy
from opshift.model.bytes.external import (
    PLACE,
    checksum_of,
    inside,
    location_of,
    require_inside,
)
from opshift.model.bytes.file_attributes import Readers, readers
from opshift.model.bytes.place import File, Place, Stream
from opshift.model.bytes.ranges import Late, Moved, Region, write_pieces
from opshift.model.bytes.source import Identity, Named, is_text
from opshift.model.bytes.staging import Staging, own_data
from opshift.model.weights import forms
from opshift.model.weights.payloads import (
    EXTERNAL_KEY,
    InFile,
    Weights,
    external_tensors,
    mark,
    marker_of,
    remove_entries,
)
from opshift.protos import ModelProto, TensorProto
from opshift.protos.copies import copied, copy_of

POLICIES = ("keep", "copy", "inline", "one-file")
"""The choices for external data."""

LIMIT = wire.LIMIT

_PAGE, _SMALL = 4096, 64
_Located: TypeAlias = list[tuple[TensorProto, Region]]


def splice(
    skeleton: ModelProto,
    weights: Weights,
    dst: Place,
    *,
    external: str = "keep",
    in_place: bool = False,
    alone: bool = True,
    taken: Collection[str] = (),
    published: Callable[[list[str]], None] | None = None,
) -> list[str]:
    """Writes the skeleton and its payloads to a file, which appears complete or not at all.

    Returns the paths of the files of the result, the model first; their bytes are then on the disk.
    With `alone`, the process makes only this conversion, so the file names are synced to the disk,
    too, and files of killed runs are removed. If the conversion is one of many, the result must not
    use the names in `taken`. The function `published` is called with the paths before another run
    can write a result of this name.
    """
    if external not in POLICIES:
        raise BadTarget(f"external is {external!r}; give one of {', '.join(POLICIES)}")
    goal = place.at(dst)
    if weights.moved and external in ("keep", "copy"):
        external = "one-file"
    data = skeleton.SerializeToString(deterministic=True)
    outside = _located(skeleton, weights) if EXTERNAL_KEY in data else []
    if external == "inline" and outside:
        skeleton = copied(skeleton)
        weights = _inline(walk.tensors(skeleton), weights)
        data = skeleton.SerializeToString(deterministic=True)
    pieces = _woven(data, weights)
    if wire.total(pieces) > LIMIT:
        if external == "inline":
            raise BadDestination(
                f"{goal.name}: the model would exceed 2 GiB; {choose_external('one-file')}"
            )
        external = "one-file"
    if isinstance(goal, Stream):
        return _stream(goal, _in_form(pieces, goal.name), weights, external, outside)
    with Staging(goal.path, in_place=in_place, taken=taken, sweeps=alone) as staging:
        result = _Result(goal, weights, external, in_place, outside)
        beside = list[str]()
        if external == "one-file":
            pieces, beside = _one_file(copied(skeleton), weights, result, staging)
            if wire.total(pieces) > LIMIT:
                raise BadDestination(
                    f"{goal.name}: the model would exceed 2 GiB even without its weights"
                )
        elif external != "inline":
            _bring(outside, weights, goal.name, external, staging)
            beside = _beside(goal.name, outside)
        staging.write_model(_in_form(pieces, goal.name), result.readers)
        staging.commit(weights.check_unchanged, synced=alone, old=result.old_data)
        written = [goal.name, *beside]
        if published is not None:
            published(written)
    return written


def put(
    skeleton: ModelProto,
    weights: Weights,
    dst: Place,
    changed: bool,
    *,
    external: str = "keep",
    in_place: bool = False,
) -> list[str]:
    """Writes a result, unless it would replace its source without a change; returns its files."""
    if changed or not in_place:
        return splice(skeleton, weights, dst, external=external, in_place=in_place)
    tidy(place.at(dst).name)
    return []


class _Result:
    """The result file, its allowed readers, and the files that it must not replace."""

    def __init__(
        self, goal: File, weights: Weights, external: str, in_place: bool, outside: _Located
    ) -> None:
        self.goal, self.outside = goal, outside
        self.readers: tuple[Readers, ...] = ()
        if weights.file is not None:
            self.readers = (weights.file.readers,)
        if external == "inline":
            self.readers = self.readers_of_all
        self.needed = list(weights.needed())
        if in_place:
            data_files = () if external in ("inline", "one-file") else outside
            self.needed = [
                (f"the data file of tensor {tensor.name!r}", _named(region).seen)
                for tensor, region in data_files
            ]
        place.require_free(goal.name, self.needed)

    @property
    def readers_of_all(self) -> tuple[Readers, ...]:
        """Returns the permissions of the source and its data files."""
        paths = {_named(region).path for _, region in self.outside}
        return (*self.readers, *map(readers, sorted(paths)))

    @cached_property
    def old_data(self) -> list[str]:
        """Returns data files of the replaced model whose names are derived from its name."""
        needed = {identity[:2] for _, identity in self.needed}
        return [
            path
            for path in own_data(self.goal.path)
            if Identity.of(os.stat(path))[:2] not in needed
        ]


def _named(region: Region) -> Named:
    assert isinstance(region.file, Named)  # external data is never in an opened file
    return region.file


def _in_form(
    pieces: list[memoryview | bytes | Moved], name: str
) -> list[memoryview | bytes | Moved]:
    """Converts the bytes of a result to the format of its file name."""
    if not is_text(name):
        return pieces
    import tempfile

    with tempfile.TemporaryFile() as file:
        write_pieces(file.fileno(), pieces)
        file.seek(0)
        return [forms.encoded(ModelProto.FromString(file.read()), name)]


def _stream(
    goal: Stream,
    pieces: list[memoryview | bytes | Moved],
    weights: Weights,
    external: str,
    outside: _Located,
) -> list[str]:
    """Writes a result to a pipe or a device, which cannot have a data file."""
    if external == "one-file" or (outside and external != "inline"):
        raise BadDestination(
            f"{goal.name}: a result with external data cannot go to a pipe or a device;"
            f" {choose_external('inline')}, or name a file"
        )
    weights.check_unchanged()
    goal.write(pieces)
    weights.check_unchanged()
    return [goal.name]


def _beside(dst: str, outside: _Located) -> list[str]:
    """Returns the files with the external data of a result."""
    return sorted({inside(os.path.dirname(dst), location_of(t), t.name) for t, _ in outside})


def data_files(skeleton: ModelProto, weights: Weights) -> list[str]:
    """Returns the files with the external data of a model, each once."""
    if not weights.locations:
        return []
    return sorted({_named(region).path for _, region in _located(skeleton, weights)})


def splice_to_run(skeleton: ModelProto, weights: Weights, path: str) -> None:
    """Writes a model with all its data into a separate folder in which a runtime can load it."""
    outside = bool(data_files(skeleton, weights))
    splice(skeleton, weights, path, external="one-file" if outside else "keep")


def flaws(skeleton: ModelProto, weights: Weights) -> Iterator[str]:
    """Yields the errors in the external data of a model, tensor by tensor."""
    digests: dict[str, str] = {}
    for tensor in external_tensors(skeleton):
        try:
            if weights.file is None:
                require_inside(location_of(tensor), tensor.name)
            else:
                yield from _other_digest(tensor, _named(weights.locate(tensor)), digests)
        except InvalidModel as error:
            yield str(error)


def _other_digest(tensor: TensorProto, file: Named, digests: dict[str, str]) -> Iterator[str]:
    """Yields a message if a data file does not have the digest that the tensor states."""
    stated = checksum_of(tensor)
    if stated and file.path not in digests:
        digest = hashlib.sha1(usedforsecurity=False)
        with open(file.open(), "rb") as opened:
            while part := opened.read(1 << 20):
                digest.update(part)
        digests[file.path] = digest.hexdigest()
    if stated and digests[file.path] != stated:
        yield (
            f"tensor {tensor.name!r}: its data file {location_of(tensor)!r} has the SHA1 digest"
            f" {digests[file.path]}, not {stated}; restore the file, or correct the checksum"
        )


def _woven(data: bytes, weights: Weights) -> list[memoryview | bytes | Moved]:
    return wire.weave(data, lambda number: weights.marked(number).encoded())


def _located(model: ModelProto, weights: Weights) -> list[tuple[TensorProto, Region]]:
    """Returns all external tensors with the location of their bytes."""
    return [(tensor, weights.locate(tensor)) for tensor in external_tensors(model)]


def _bring(outside: _Located, weights: Weights, dst: str, policy: str, staging: Staging) -> None:
    """Makes the data files available in the folder of the new file."""
    folder = os.path.dirname(dst) or os.curdir
    if not outside:
        return
    if os.path.samefile(folder, weights.base_dir or os.curdir):
        staging.use_data()
        return
    for location, (tensor, region) in {location_of(t): (t, r) for t, r in outside}.items():
        if policy == "keep":
            raise BadDestination(
                f"tensor {tensor.name!r}: its data file {location!r} would not be found from "
                f"{dst!r}; {choose_external('copy', 'inline', 'one-file')}"
            )
        path = inside(folder, location, tensor.name)
        if path == os.path.realpath(dst):
            raise BadDestination(f"tensor {tensor.name!r}: its data file would overwrite {dst!r}")
        staging.place(_named(region), path)


def _inline(tensors: Iterable[TensorProto], weights: Weights) -> Weights:
    """Prepares external tensors for inlining; their payloads are read from data files."""
    sources = list(weights.sources)
    for tensor in tensors:
        if tensor.data_location == TensorProto.EXTERNAL:
            region = weights.locate(tensor)
            mark(tensor, len(sources))
            sources.append(InFile(wire.RAW, (wire.header(wire.RAW, len(region)), region)))
    return dataclasses.replace(weights, sources=tuple(sources))


# Shapes and axes in attributes stay in the model, because onnx's inference reads no data file.
_SHAPES = (TensorProto.INT32, TensorProto.INT64)


def _one_file(
    model: ModelProto, weights: Weights, result: _Result, staging: Staging
) -> tuple[list[memoryview | bytes | Moved], list[str]]:
    """Stages a file of all large payloads; returns the bytes of the model that refers to it."""
    end, places, pieces = 0, dict[object, int](), list[bytes | Moved]()
    reached = list(_reached(model))
    stubs = list[tuple[TensorProto, int, int]]()
    for tensor in filter(Weights.is_stub, reached):
        raw = _raw(tensor, weights)
        key = raw if isinstance(raw, Region) else marker_of(tensor)
        if key not in places:
            gap = -end % (_PAGE if len(raw) >= _PAGE else _SMALL)
            pieces += [bytes(gap), raw]
            places[key] = end + gap
            end += gap + len(raw)
        stubs.append((tensor, places[key], len(raw)))
    written = []
    if pieces:
        if result.goal.is_link_elsewhere:
            raise BadDestination(
                f"{result.goal.name}: this is a link to {result.goal.path}, and a data file can"
                " only be next to one of the two; name the file itself, or choose keep"
            )
        written = [staging.write_data(pieces, result.readers_of_all, result.old_data)]
        for tensor, offset, length in stubs:
            refer(tensor, os.path.basename(written[0]), offset, length)
    external = set(map(id, reached))
    weights = _inline((t for t in walk.tensors(model) if id(t) not in external), weights)
    return _woven(model.SerializeToString(deterministic=True), weights), written


def _reached(model: ModelProto) -> Iterator[TensorProto]:
    """Yields the tensors whose external data readers load; shapes in attributes are excluded."""
    yield from model.graph.initializer
    nodes = chain(model.graph.node, *(function.node for function in model.functions))
    for item in walk.items_in_attributes(chain.from_iterable(node.attribute for node in nodes)):
        if isinstance(item, TensorProto) and item.data_type not in _SHAPES:
            yield item


def _raw(tensor: TensorProto, weights: Weights) -> Moved:
    """Returns the bytes that raw_data of the tensor would have."""
    if (source := weights.source(tensor)) is None:
        return weights.locate(tensor)
    if (raw := source.raw()) is not None:
        return raw
    stub = copy_of(tensor)  # the tensor itself will be changed
    size = wire.raw_size(stub.data_type, prod(stub.dims))
    return Late(size, lambda: [from_array(weights.load(stub)).raw_data])


def refer(tensor: TensorProto, location: str, offset: int, length: int) -> None:
    remove_entries(tensor, *PLACE, wire.MARK)
    tensor.data_location = TensorProto.EXTERNAL
    for key, value in zip(PLACE, (location, offset, length), strict=False):
        tensor.external_data.add(key=key, value=str(value))
