# SPDX-License-Identifier: Apache-2.0
"""Finds and reads the payloads that were taken out of a model."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator
from dataclasses import field, replace
from functools import partial
from math import prod
from typing import TypeAlias

from opshift.errors import InvalidModel
from opshift.lazy import deferred
from opshift.model.arrays import Array, as_tensor, dtype_of, require_fit, to_array
from opshift.model.bytes import place, wire
from opshift.model.bytes.external import PLACE, locate
from opshift.model.bytes.ranges import Late, LateParts, Moved, Region, chunks
from opshift.model.bytes.source import Identity, Named, Opened, changed
from opshift.model.walk import tensors
from opshift.opsets.elements import ELEMENTS
from opshift.protos import ModelProto, TensorProto
from opshift.records import dataclass

np = deferred("numpy")
_PAYLOAD = tuple(wire.PAYLOAD.values())


HEADER = tuple(f.name for f in TensorProto.DESCRIPTOR.fields if f.name not in _PAYLOAD)


@dataclass(frozen=True, slots=True)
class Weights:
    """The payloads that were taken out of a model, in the ModelProto or in the model's file."""

    sources: tuple[Source, ...] = ()
    base_dir: str = ""
    file: Opened | None = None  # the file of the model
    locations: tuple[str, ...] = ()  # the data files that the model names
    moved: bool = False  # whether external tensors changed, so that their data files cannot be kept
    _seen: dict[str, Identity] = field(default_factory=dict, compare=False, repr=False)

    @staticmethod
    def is_stub(tensor: TensorProto) -> bool:
        """Returns whether the payload is not in the tensor, but taken out or in another file."""
        return tensor.data_location == TensorProto.EXTERNAL or marker_of(tensor) is not None

    def has(self, tensor: TensorProto) -> bool:
        """Returns whether a payload can be read; a model in memory has no folder of data files."""
        return tensor.data_location != TensorProto.EXTERNAL or self.file is not None

    def load(self, tensor: TensorProto) -> Array:
        """Returns the value of any tensor, wherever its payload is stored."""
        if not self.is_stub(tensor):
            return to_array(tensor)
        count, at = prod(tensor.dims), 0
        found: Array = np.empty(max(count, 0), dtype_of(tensor.data_type))
        for part in self.parts(tensor):
            found[at : at + part.size] = part
            at += part.size
        require_fit(tensor.dims, at, count, "numbers", f"tensor {tensor.name!r}")
        whole: Array = found.reshape(tensor.dims)
        return whole

    def locate(self, tensor: TensorProto) -> Region:
        """Returns an external tensor's range in a data file; raises if the file has changed."""
        if self.file is not None and self.file.piped:
            raise InvalidModel(
                f"tensor {tensor.name!r}: its data is in another file, and a model that comes"
                " through a pipe has no folder to look in; give the model as a file",
                "FILE_ERROR",
            )
        region = locate(tensor, self.base_dir)
        if isinstance(region.file, Named):
            path, seen = region.file
            if self._seen.setdefault(path, seen) != seen:
                raise changed(path)
        return region

    def needed(self) -> Iterator[tuple[str, Identity]]:
        """Yields a description and the identity of each file of the model."""
        if self.file is None or self.file.piped:
            return
        yield place.the_source(), self.file.seen
        for location in self.locations:
            try:
                status = os.stat(os.path.join(self.base_dir, location))
            except (OSError, ValueError):
                continue
            yield f"the data file {location!r} of the source", Identity.of(status)

    def size_with(self, skeleton: ModelProto) -> int:
        """Returns the size of a model in bytes with all its payloads, including external data.

        No data file is opened, so that a model can be measured without its data.
        """
        found = skeleton.ByteSize()
        for tensor in tensors(skeleton):
            if (source := self.source(tensor)) is not None:
                found += sum(map(len, source.encoded()[1]))
                found -= tensor.ByteSize() - header_of(tensor).ByteSize()
            elif tensor.data_location == TensorProto.EXTERNAL and tensor.data_type in ELEMENTS:
                found += wire.raw_size(tensor.data_type, prod(tensor.dims))
        return found

    def check_unchanged(self) -> None:
        """Raises if a file has changed since it was read."""
        if self.file is not None:
            self.file.check_unchanged()
        for path, seen in self._seen.items():
            Named(path, seen).check_unchanged()

    def source(self, tensor: TensorProto) -> Source | None:
        """Returns where a removed payload is; None for a tensor with its own payload."""
        return None if (mark := marker_of(tensor)) is None else self.marked(mark)

    def marked(self, mark: str) -> Source:
        """Returns the payload whose number is the value of a marker."""
        if mark.isascii() and mark.isdigit() and int(mark) < len(self.sources):
            return self.sources[int(mark)]
        raise InvalidModel(
            f"a tensor refers to the payload {mark!r}, which the model does not have"
        )

    def retyped(self, tensors: Iterable[tuple[TensorProto, int]]) -> Weights:
        """Returns the weights after a change of the element type of some tensors."""
        sources, beside = list(self.sources), self.moved
        for tensor, to in tensors:
            if not self.is_stub(tensor):
                values = as_tensor(to_array(tensor), to).raw_data
                for name in _PAYLOAD:
                    tensor.ClearField(name)
                tensor.data_type, tensor.raw_data = to, values
                continue
            head = TensorProto(data_type=tensor.data_type, dims=tensor.dims)
            payload = self.source(tensor)
            if payload is None:
                beside = True
            if isinstance(payload, Retyped):
                raise TypeError("a payload can change its element type only once")
            sources.append(Retyped(head, payload or self.locate(tensor), to))
            header = header_of(tensor)
            kept = [entry for entry in header.external_data if entry.key not in PLACE]
            tensor.ClearField("external_data")
            tensor.external_data.extend(kept)
            tensor.ClearField("data_location")
            tensor.external_data.add(key=wire.MARK, value=str(len(sources) - 1))
            tensor.data_type = to
        return replace(self, sources=tuple(sources), moved=beside)

    def parts(self, tensor: TensorProto) -> Iterator[Array]:
        """Yields the elements of a tensor in parts, to save memory for a large tensor."""
        if not self.is_stub(tensor):
            yield to_array(tensor).reshape(-1)
            return
        for part in parts_of(tensor, self.source(tensor) or self.locate(tensor)):
            yield part.make()

    def is_equal(self, first: TensorProto, other: TensorProto) -> bool:
        """Compares the headers and payloads of two tensors; payloads are read in pieces."""
        sources = self.source(first), self.source(other)
        heads = [header_of(one).SerializeToString(deterministic=True) for one in (first, other)]
        if heads[0] != heads[1] or sources[0] is None or sources[1] is None:
            return heads[0] == heads[1] and sources == (None, None)
        return sources[0].holds_same(sources[1])

    def fill(self, stub: TensorProto) -> bool:
        """Puts a removed payload back into its tensor; returns False if none was removed."""
        if (source := self.source(stub)) is None:
            return False
        header = header_of(stub)
        source.copy_to(stub)
        replace_header(stub, header)
        return True


@dataclass(frozen=True, slots=True)
class InModel:
    """A payload that is stored in a tensor of the source ModelProto."""

    tensor: TensorProto

    def copy_to(self, stub: TensorProto) -> None:
        """Puts the payload into a tensor."""
        stub.CopyFrom(self.tensor)

    def encoded(self) -> wire.Payload[Moved]:
        """Returns the payload as it is written to a file."""
        if (raw := self.raw()) is not None:
            return wire.RAW, [wire.header(wire.RAW, len(raw)), raw]
        number = next(n for n, name in wire.PAYLOAD.items() if has_payload(self.tensor, name))
        return number, [Late(len(self._typed()), self._typed)]

    def raw(self) -> Late | None:
        """Returns the bytes of raw_data; None if the payload is in another field."""
        tensor = self.tensor
        if not tensor.HasField("raw_data"):
            return None
        # The length is computed from the shape, because len(raw_data) would copy the data.
        return Late(wire.raw_size(tensor.data_type, prod(tensor.dims)), lambda: tensor.raw_data)

    def holds_same(self, other: Source) -> bool:
        """Returns whether the payloads are equal; protobuf compares bytes without a copy."""
        if not isinstance(other, InModel):
            return False
        if self.raw() is None or other.raw() is None:
            return self._typed() == other._typed()  # protobuf never treats NaN as equal
        return bool(self.tensor == other.tensor)

    def _typed(self) -> bytes:
        only = TensorProto()
        only.CopyFrom(self.tensor)
        replace_header(only, TensorProto())
        return only.SerializeToString(deterministic=True)


@dataclass(frozen=True, slots=True)
class InFile:
    """A payload in a model file with its protobuf tags, in one or more pieces."""

    field: int
    pieces: tuple[bytes | Region, ...]

    def copy_to(self, stub: TensorProto) -> None:
        """Puts the payload into a tensor."""
        for piece in self.pieces:
            stub.MergeFromString(piece if isinstance(piece, bytes) else piece.read())

    def encoded(self) -> wire.Payload[Moved]:
        """Returns the payload as it is written to a file."""
        return self.field, self.pieces

    def holds_same(self, other: Source) -> bool:
        """Returns whether another payload has equal bytes."""
        if not isinstance(other, InFile) or self.field != other.field:
            return False
        if list(map(len, self.pieces)) != list(map(len, other.pieces)):
            return False
        pairs = zip(self.pieces, other.pieces, strict=True)
        return all(
            one == two for pair in pairs for one, two in zip(*map(chunks, pair), strict=True)
        )

    def raw(self) -> Region | None:
        """Returns the bytes that raw_data would have, if they are in one piece of the file."""
        run = self.pieces[0]
        if self.field not in wire.AS_RAW or len(self.pieces) > 1 or isinstance(run, bytes):
            return None
        head = run.part(0, 11).read()
        size, start = wire.read_varint(head, 1)
        whole = head[0] == self.field << 3 | 2 and start + size == run.length
        return run.part(start, size) if whole else None


@dataclass(frozen=True, slots=True)
class Retyped:
    """A payload whose elements are converted to another type when they are read, part by part."""

    stub: TensorProto  # a stub with the element type and dimensions of the payload
    payload: InModel | InFile | Region
    to: int

    def copy_to(self, stub: TensorProto) -> None:
        """Puts the converted payload into a tensor."""
        stub.raw_data = b"".join(part.make() for part in self._parts())

    def encoded(self) -> wire.Payload[Moved]:
        """Returns the converted payload as it is written to a file."""
        raw = self.raw()
        return wire.RAW, [wire.header(wire.RAW, len(raw)), *raw.parts]

    def raw(self) -> LateParts:
        """Returns the converted bytes as for raw_data, in parts."""
        return LateParts(tuple(self._parts()))

    def holds_same(self, other: Source) -> bool:
        """Returns whether another payload has equal converted bytes."""
        if not isinstance(other, Retyped) or self.to != other.to:
            return False
        pairs = zip(self._parts(), other._parts(), strict=False)
        return len(self.raw()) == len(other.raw()) and all(a.make() == b.make() for a, b in pairs)

    def _parts(self) -> Iterator[Late]:
        for part in parts_of(self.stub, self.payload):
            size = wire.raw_size(self.to, part.length)
            yield Late(size, partial(_bytes_as, part, self.to))


Source: TypeAlias = InModel | InFile | Retyped
PART = 1 << 20  # the elements of one part; even, because two elements may share a byte


@dataclass(frozen=True, slots=True)
class Part:
    """Some elements of a tensor, which are read on demand."""

    length: int
    make: Callable[[], Array]


def parts_of(stub: TensorProto, payload: InModel | InFile | Retyped | Region) -> Iterator[Part]:
    """Yields the elements of a payload, part by part if its bytes are in a file."""
    raw, kind, count = payload, stub.data_type, prod(stub.dims)
    if not isinstance(payload, Region):
        raw = payload.raw()  # type: ignore[assignment]
    if not isinstance(raw, Region):
        yield Part(count, lambda: _whole(stub, payload))
        return
    for start in range(0, count, PART):
        length = min(PART, count - start)
        begin, size = wire.raw_size(kind, start), wire.raw_size(kind, length)
        yield Part(length, partial(_array, kind, length, raw.part(begin, size)))


def _bytes_as(part: Part, to: int) -> bytes:
    return as_tensor(part.make(), to).raw_data


def _array(kind: int, length: int, data: Region) -> Array:
    return to_array(TensorProto(data_type=kind, dims=[length], raw_data=data.read()))


def _whole(stub: TensorProto, payload: InModel | InFile | Retyped | Region) -> Array:
    assert not isinstance(payload, Region)
    whole = TensorProto()
    payload.copy_to(whole)
    replace_header(whole, TensorProto(data_type=stub.data_type, dims=stub.dims))
    return to_array(whole).reshape(-1)


EXTERNAL_KEY = wire.framed(1, b"location")
EXTERNAL_FIELD = TensorProto(data_location=TensorProto.EXTERNAL).SerializeToString()


def has_payload(tensor: TensorProto, payload: str) -> bool:
    return tensor.HasField(payload) if payload == "raw_data" else bool(getattr(tensor, payload))


def marker_of(tensor: TensorProto) -> str | None:
    for entry in tensor.external_data:
        if entry.key == wire.MARK:
            return entry.value
    return None


def header_of(stub: TensorProto) -> TensorProto:
    """Copies a tensor without its payload, and removes the marker."""
    header = TensorProto()
    header.CopyFrom(stub)
    kept = [entry for entry in stub.external_data if entry.key != wire.MARK]
    header.ClearField("external_data")
    header.external_data.extend(kept)
    return header


def replace_header(tensor: TensorProto, header: TensorProto) -> None:
    for name in HEADER:
        tensor.ClearField(name)
    tensor.DiscardUnknownFields()
    tensor.MergeFrom(header)
