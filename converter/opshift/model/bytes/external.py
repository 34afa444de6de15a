# SPDX-License-Identifier: Apache-2.0
"""Finds external data by the rules of onnx for locations, offsets and lengths."""

from __future__ import annotations

import os
import stat
from math import prod
from pathlib import PurePath
from typing import TYPE_CHECKING

from opshift.errors import InvalidModel
from opshift.model.bytes import wire
from opshift.model.bytes.ranges import Region
from opshift.model.bytes.source import Identity, Named
from opshift.opsets.elements import ELEMENTS

if TYPE_CHECKING:
    from opshift.protos import TensorProto

PLACE = ("location", "offset", "length", "checksum")
"""The keys of external data; a checksum is the checksum of a whole data file."""


def locate(tensor: TensorProto, base_dir: str) -> Region:
    """Finds the bytes of an external tensor by the rules that readers of ONNX apply."""
    where = _where(tensor)
    location = where.get("location", "")
    path = inside(base_dir, location, tensor.name)
    file = Named(path, _identity(path, location, tensor.name))
    size = file.seen.size
    offset = _number(where, "offset", location, tensor.name) or 0
    length = _number(where, "length", location, tensor.name)
    needed = _bytes_of(tensor)
    if length is None:
        length = needed
    if offset + length > size:
        raise InvalidModel(
            f"tensor {tensor.name!r}: its data file {location!r} has {size} bytes, "
            f"too few for offset {offset} and length {length}"
        )
    if length != needed:
        raise InvalidModel(
            f"tensor {tensor.name!r}: its length in {location!r} is {length} bytes, but shape "
            f"{list(tensor.dims)} needs {needed}"
        )
    return Region(file, offset, length)


def location_of(tensor: TensorProto) -> str:
    """Returns the path of an external tensor's data, as the model states it."""
    return _where(tensor).get("location", "")


def checksum_of(tensor: TensorProto) -> str:
    """Returns the SHA1 digest of the data file that the model states, or an empty text."""
    return _where(tensor).get("checksum", "").strip().lower()


def _where(tensor: TensorProto) -> dict[str, str]:
    """Returns the external-data entries; raises if the tensor also has data in the model."""
    where: dict[str, str] = {}
    is_marked = any(entry.key == wire.MARK for entry in tensor.external_data)
    payloads = [name for name in wire.PAYLOAD.values() if has_payload(tensor, name)]
    if payloads or is_marked:
        raise InvalidModel(
            f"tensor {tensor.name!r} has its data in another file and in"
            f" {next(iter(payloads), 'raw_data')}; keep one of the two"
        )
    for entry in tensor.external_data:
        if where.setdefault(entry.key, entry.value) != entry.value:
            raise InvalidModel(
                f"tensor {tensor.name!r}: the key {entry.key!r} of its external data has two"
                f" values, {where[entry.key]!r} and {entry.value!r}; keep one of them"
            )
    return where


def has_payload(tensor: TensorProto, field: str) -> bool:
    """Returns whether a field of a tensor has a payload."""
    return tensor.HasField(field) if field == "raw_data" else bool(getattr(tensor, field))


def _identity(path: str, location: str, tensor: str) -> Identity:
    try:
        status = os.stat(path)
    except OSError:
        raise InvalidModel(
            f"tensor {tensor!r}: its data file {location!r} is missing; copy it into the folder of"
            " the model"
        ) from None
    if not stat.S_ISREG(status.st_mode):
        raise InvalidModel(f"tensor {tensor!r}: its data file {location!r} is not a regular file")
    if status.st_nlink > 1:
        raise InvalidModel(
            f"tensor {tensor!r}: its data file {location!r} has {status.st_nlink} names (hard"
            " links), which onnx refuses; replace it by a copy"
        )
    return Identity.of(status)


def _number(where: dict[str, str], key: str, location: str, tensor: str) -> int | None:
    text = where.get(key)
    if text is None:
        return None
    if not (text.isascii() and text.isdecimal() and len(text) < 20):
        raise InvalidModel(
            f"tensor {tensor!r}: offset and length in {location!r} must be numbers from 0 on, and"
            f" its {key} is {text!r}"
        )
    return int(text)


def _bytes_of(tensor: TensorProto) -> int:
    if tensor.data_type not in ELEMENTS or min(tensor.dims, default=0) < 0:
        raise InvalidModel(
            f"tensor {tensor.name!r}: a tensor of element type {tensor.data_type} and shape"
            f" {list(tensor.dims)} cannot have external data"
        )
    return wire.raw_size(tensor.data_type, prod(tensor.dims))


def inside(base_dir: str, location: str, tensor: str) -> str:
    """Returns the path of a data file, which must be in the model's folder or below it."""
    require_inside(location, tensor)
    path = real_path_inside(base_dir, location)
    if path is None:
        raise _outside(location, tensor)
    return path


def real_path_inside(folder: str, location: str) -> str | None:
    """Returns the path of a file without links; None if it is outside of the folder."""
    base = os.path.realpath(folder or os.curdir)
    path = os.path.realpath(os.path.join(base, location))
    return path if path.startswith(os.path.join(base, "")) else None


def require_inside(location: str, tensor: str) -> None:
    """Raises if a path leaves the model's folder."""
    parts = PurePath(location)
    if not location or parts.is_absolute() or ".." in parts.parts or "\0" in location:
        raise _outside(location, tensor)


def _outside(location: str, tensor: str) -> InvalidModel:
    return InvalidModel(
        f"tensor {tensor!r}: its data file {location!r} is not inside the model's folder"
    )
