"""External data: where a tensor's bytes are, and whether the model may point there."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import PurePath

from onnx import TensorProto

from opshift.errors import InvalidModel


@dataclass(frozen=True, slots=True)
class Region:
    """A range of bytes of a file."""

    path: str
    offset: int
    length: int

    def read(self) -> bytes:
        """The bytes."""
        with open(self.path, "rb") as file:
            file.seek(self.offset)
            return file.read(self.length)


def entries(tensor: TensorProto) -> dict[str, str]:
    """The key-value pairs that say where an external tensor is."""
    return {entry.key: entry.value for entry in tensor.external_data}


def locate(tensor: TensorProto, base_dir: str) -> Region:
    """Find the bytes of an external tensor, refusing paths that leave the model's folder."""
    where = entries(tensor)
    location = where.get("location", "")
    path = inside(base_dir, location, tensor.name)
    try:
        offset = int(where.get("offset", 0))
        length = int(where["length"]) if "length" in where else -1
    except ValueError:
        raise InvalidModel(
            f"tensor {tensor.name!r}: offset and length of {location!r} must be numbers"
        ) from None
    if not os.path.isfile(path):
        raise InvalidModel(f"tensor {tensor.name!r}: its data file {location!r} is missing")
    size = os.path.getsize(path)
    if "length" not in where:
        length = size - offset
    if offset < 0 or length < 0 or offset + length > size:
        raise InvalidModel(
            f"tensor {tensor.name!r}: its data file {location!r} has {size} bytes, "
            f"too few for offset {offset} and length {max(length, 0)}"
        )
    return Region(path, offset, length)


def inside(base_dir: str, location: str, tensor: str) -> str:
    """The path of a data file, which must lie in or below the model's folder."""
    base = os.path.realpath(base_dir or os.curdir)
    path = os.path.realpath(os.path.join(base, location))
    parts = PurePath(location)
    if (
        not location
        or parts.is_absolute()
        or ".." in parts.parts
        or not path.startswith(os.path.join(base, ""))
    ):
        raise InvalidModel(
            f"tensor {tensor!r}: its data file {location!r} is not inside the model's folder"
        )
    return path
