# SPDX-License-Identifier: Apache-2.0
"""Finds and reads the payloads that were taken out of a model."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from dataclasses import field, replace
from math import prod
from typing import TypeAlias

from opshift.errors import InvalidModel
from opshift.lazy import numpy as np
from opshift.model.arrays import Array, as_tensor, dtype_of, require_fit, to_array
from opshift.model.bytes import place, wire
from opshift.model.bytes.external import PLACE, has_payload, locate, location_of
from opshift.model.bytes.ranges import Late, Region, chunks
from opshift.model.bytes.source import Identity, Named, Opened, changed
from opshift.model.walk import tensors
from opshift.opsets.elements import ELEMENTS
from opshift.protos import ModelProto, TensorProto
from opshift.protos.copies import copy_of
from opshift.records import dataclass

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
        """Returns whether a payload is in the model, or in a data file that exists."""
        return tensor.data_location != TensorProto.EXTERNAL or (
            self.file is not None
            and not self.file.piped
            and os.path.exists(os.path.join(self.base_dir, location_of(tensor)))
        )

    def load(self, tensor: TensorProto) -> Array:
        """Returns the value of any tensor, wherever its payload is stored."""
        if not self.is_stub(tensor):
            return to_array(tensor)
        count, at = prod(tensor.dims), 0
        array: Array = np.empty(max(count, 0), dtype_of(tensor.data_type))
        for part in self.parts(tensor):
            array[at : at + part.size] = part
            at += part.size
        require_fit(tensor.dims, at, count, "numbers", f"tensor {tensor.name!r}")
        whole: Array = array.reshape(tensor.dims)
        return whole

    def in_memory(self, tensor: TensorProto) -> TensorProto | None:
        """Returns the tensor with its payload; None if the payload is in a file."""
        source = self.source(tensor)
        if source is None:
            return None if self.is_stub(tensor) else tensor
        return source.tensor if isinstance(source, InModel) else None

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
            path, identity = region.file
            if self._seen.setdefault(path, identity) != identity:
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
        total = skeleton.ByteSize()
        for tensor in tensors(skeleton):
            if (source := self.source(tensor)) is not None:
                total += sum(map(len, source.encoded()[1]))
                total -= tensor.ByteSize() - header_of(tensor).ByteSize()
            elif tensor.data_location == TensorProto.EXTERNAL and tensor.data_type in ELEMENTS:
                total += wire.raw_size(tensor.data_type, prod(tensor.dims))
        return total

    def check_unchanged(self) -> None:
        """Raises if a file has changed since it was read."""
        if self.file is not None:
            self.file.check_unchanged()
        for path, identity in self._seen.items():
            Named(path, identity).check_unchanged()

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
            source = Retyped(head, payload or self.locate(tensor), to)
            mark(tensor, len(sources))
            sources.append(source)
            tensor.data_type = to
        return replace(self, sources=tuple(sources), moved=beside)

    def parts(self, tensor: TensorProto) -> Iterator[Array]:
        """Yields the elements of a tensor in parts, to save memory for a large tensor."""
        if not self.is_stub(tensor):
            yield to_array(tensor).reshape(-1)
            return
        yield from parts_of(tensor, self.source(tensor) or self.locate(tensor))

    def is_equal(self, first: TensorProto, second: TensorProto) -> bool:
        """Compares the headers and payloads of two tensors; payloads are read in pieces."""
        first_source, two = self.source(first), self.source(second)
        heads = [
            header_of(tensor).SerializeToString(deterministic=True) for tensor in (first, second)
        ]
        if heads[0] != heads[1] or first_source is None or two is None:
            return heads[0] == heads[1] and first_source is two
        (field, pieces), (other_field, second_pieces) = first_source.encoded(), two.encoded()
        if field != other_field or list(map(len, pieces)) != list(map(len, second_pieces)):
            return False
        pairs = zip(pieces, second_pieces, strict=True)
        return all(a == b for pair in pairs for a, b in zip(*map(chunks, pair), strict=True))

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

    def encoded(self) -> wire.Payload:
        """Returns the payload as it is written to a file."""
        if (raw := self.raw()) is not None:
            return wire.RAW, [wire.header(wire.RAW, len(raw)), raw]
        number = next(n for n, name in wire.PAYLOAD.items() if has_payload(self.tensor, name))
        return number, [Late(len(self._typed()), lambda: [self._typed()])]

    def raw(self) -> Late | None:
        """Returns the bytes of raw_data; None if the payload is in another field."""
        tensor = self.tensor
        if not tensor.HasField("raw_data"):
            return None
        # The length is computed from the shape, because len(raw_data) would copy the data.
        size = wire.raw_size(tensor.data_type, prod(tensor.dims))
        return Late(size, lambda: [tensor.raw_data])

    def _typed(self) -> bytes:
        only = copy_of(self.tensor)
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

    def encoded(self) -> wire.Payload:
        """Returns the payload as it is written to a file."""
        return self.field, self.pieces

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
        stub.raw_data = b"".join(self._parts())

    def encoded(self) -> wire.Payload:
        """Returns the converted payload as it is written to a file."""
        raw = self.raw()
        return wire.RAW, [wire.header(wire.RAW, len(raw)), raw]

    def raw(self) -> Late:
        """Returns the converted bytes as for raw_data."""
        return Late(wire.raw_size(self.to, prod(self.stub.dims)), self._parts)

    def _parts(self) -> Iterator[bytes]:
        for part in parts_of(self.stub, self.payload):
            yield as_tensor(part, self.to).raw_data


Source: TypeAlias = InModel | InFile | Retyped
PART = 1 << 20  # the elements of one part; even, because two elements may share a byte


def parts_of(stub: TensorProto, payload: InModel | InFile | Retyped | Region) -> Iterator[Array]:
    """Yields the elements of a payload, part by part if its bytes are in a file."""
    kind, count = stub.data_type, prod(stub.dims)
    raw = payload if isinstance(payload, Region) else payload.raw()
    if not isinstance(raw, Region):
        assert not isinstance(payload, Region)
        whole = TensorProto()
        payload.copy_to(whole)
        replace_header(whole, TensorProto(data_type=kind, dims=stub.dims))
        yield to_array(whole).reshape(-1)
        return
    for start in range(0, count, PART):
        length = min(PART, count - start)
        begin, size = wire.raw_size(kind, start), wire.raw_size(kind, length)
        data = raw.part(begin, size).read()
        yield to_array(TensorProto(data_type=kind, dims=[length], raw_data=data))


EXTERNAL_KEY = wire.framed(1, b"location")
EXTERNAL_FIELD = TensorProto(data_location=TensorProto.EXTERNAL).SerializeToString()


def external_tensors(model: ModelProto) -> Iterator[TensorProto]:
    """Yields the tensors of a model whose payload is in another file."""
    return (t for t in tensors(model) if t.data_location == TensorProto.EXTERNAL)


def marker_of(tensor: TensorProto) -> str | None:
    for entry in tensor.external_data:
        if entry.key == wire.MARK:
            return entry.value
    return None


def mark(tensor: TensorProto, number: int) -> None:
    """Marks an external tensor or a stub as a tensor whose payload has this number."""
    remove_entries(tensor, *PLACE, wire.MARK)
    tensor.ClearField("data_location")
    tensor.external_data.add(key=wire.MARK, value=str(number))


def remove_entries(tensor: TensorProto, *keys: str) -> None:
    """Removes the entries with these keys from the external data of a tensor."""
    entries = [entry for entry in tensor.external_data if entry.key not in keys]
    tensor.ClearField("external_data")
    tensor.external_data.extend(entries)


def header_of(stub: TensorProto) -> TensorProto:
    """Copies a tensor without its payload, and removes the marker."""
    header = copy_of(stub)
    remove_entries(header, wire.MARK)
    return header


def replace_header(tensor: TensorProto, header: TensorProto) -> None:
    for name in HEADER:
        tensor.ClearField(name)
    tensor.DiscardUnknownFields()
    tensor.MergeFrom(header)
