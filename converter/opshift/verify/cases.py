# SPDX-License-Identifier: Apache-2.0
"""Reads the inputs for both models: values by name, an .npz file, or folders of test data."""

from __future__ import annotations

import os
import re
import zipfile
import zlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
from google.protobuf.message import Message

from opshift.errors import InvalidModel
from opshift.model.arrays import from_array, to_array
from opshift.protos import ModelProto, TensorProto, TypeProto
from opshift.protos.whole import onnx
from opshift.records import dataclass
from opshift.text import counted
from opshift.verify.oracle.values import dtype_of

# The errors of numpy for another file than an .npz file of arrays; a file of one array has no end.
_UNREADABLE = (ValueError, AttributeError, TypeError, EOFError, zipfile.BadZipFile, zlib.error)
Inputs: TypeAlias = "Mapping[str, Any] | Sequence[Mapping[str, Any]] | str | os.PathLike[str]"


@dataclass(frozen=True, slots=True)
class InputSet:
    """One set of inputs by name, with its label for the report."""

    label: str
    values: Mapping[str, Any]

    def __post_init__(self) -> None:
        values = {name: as_array(value) for name, value in self.values.items()}
        object.__setattr__(self, "values", values)


def as_array(value: Any) -> Any:
    """Turns numpy scalars into arrays, also inside lists, because engines accept only arrays."""
    if isinstance(value, list):
        return [as_array(element) for element in value]
    return np.asarray(value) if isinstance(value, np.generic) else value


def given(model: ModelProto, inputs: Inputs) -> list[InputSet]:
    """Returns the sets of inputs of the caller; raises if a set does not fit the model."""
    types = {info.name: info.type for info in model.graph.input}
    cases = [
        InputSet(case.label, {name: _typed(v, types.get(name)) for name, v in case.values.items()})
        for case in _read(model, inputs)
    ]
    for case in cases:
        if misfit := _misfit(model, types, case.values):
            raise _unfit(f"inputs {case.label!r}: {misfit}")
    return cases


def _read(model: ModelProto, inputs: Inputs) -> Iterable[InputSet]:
    if isinstance(inputs, Mapping):
        return [InputSet("given", inputs)]
    if not isinstance(inputs, (str, os.PathLike)):
        listed: Sequence[object] = inputs if isinstance(inputs, Sequence) else (inputs,)
        sets = [one for one in listed if isinstance(one, Mapping)]
        if len(sets) < len(listed):
            shown = type(inputs).__name__
            raise TypeError(f"inputs must be a mapping, a list of mappings or a path, not {shown}")
        return [InputSet(f"given {number}", values) for number, values in enumerate(sets, 1)]
    path = Path(inputs)
    if path.is_dir():
        return _folders(model, path)
    try:
        with np.load(path, allow_pickle=False) as archive:
            return [InputSet(path.name, {name: archive[name] for name in archive.files})]
    except _UNREADABLE as error:
        raise _unfit(
            f"{os.fspath(path)!r} is not an .npz file of arrays; save them with numpy.savez"
        ) from error


def _typed(value: Any, declared: TypeProto | None) -> Any:
    """Returns a value in the element type of the input, for types that npz files cannot store."""
    if isinstance(value, (bool, int, float)) and declared is not None:
        elem_type = declared.tensor_type.elem_type
        return np.asarray(value, dtype_of(elem_type) if elem_type else None)
    if not isinstance(value, np.ndarray):
        return value
    if value.dtype.kind in "US":
        return value.astype(object)
    if value.dtype.type is np.void and declared is not None:
        dtype = dtype_of(declared.tensor_type.elem_type)
        return value.view(dtype) if value.dtype.itemsize == dtype.itemsize else value
    return value


def _misfit(model: ModelProto, types: Mapping[str, TypeProto], values: Mapping[str, Any]) -> str:
    """Describes a missing, unknown or mistyped input; empty if all inputs fit the model."""
    fed = {tensor.name for tensor in model.graph.initializer}
    fed |= {tensor.values.name for tensor in model.graph.sparse_initializer}
    required = {name for name, proto in types.items() if not proto.HasField("optional_type")} - fed
    if missing := sorted(required - set(values)):
        return f"no value is given for {', '.join(map(repr, missing))}"
    if unknown := sorted(set(values) - set(types)):
        return f"the model has no input {', '.join(map(repr, unknown))}"
    for name, value in values.items():
        elem_type = types[name].tensor_type.elem_type
        if elem_type and isinstance(value, np.ndarray) and value.dtype != dtype_of(elem_type):
            kind = TensorProto.DataType.Name(elem_type).lower()
            return f"the input {name!r} is {value.dtype.name}, but the model takes {kind}"
    return ""


def _folders(model: ModelProto, path: Path) -> Iterator[InputSet]:
    """Yields the inputs in a folder, or in its subfolders that contain `input_0.pb` and so on."""
    folders = [path] if any(path.glob("input_*.pb")) else sorted(path.iterdir())
    any_inputs = False
    for folder in folders:
        files = sorted(folder.glob("input_*.pb"), key=_number) if folder.is_dir() else []
        if files:
            any_inputs = True
            yield InputSet(folder.name, _values(model, files))
    if not any_inputs:
        raise _unfit(f"{os.fspath(path)!r} contains no input_0.pb, and neither do its subfolders")


def _number(path: Path) -> int:
    digits = re.search(r"\d+", path.name)
    return int(digits.group()) if digits else 0


def _values(model: ModelProto, files: list[Path]) -> dict[str, Any]:
    infos = list(model.graph.input)
    values = {}
    for file in files:
        number = _number(file)
        if number >= len(infos):
            raise _unfit(f"{file.name}: the model has only {counted(len(infos), 'input')}")
        info = infos[number]
        try:
            values[info.name] = _parsed(file.read_bytes(), info.type)
        except Exception as error:
            raise _unfit(
                f"{os.fspath(file)!r} is not a value for {info.name!r}: {error}"
            ) from error
    return values


def _parsed(raw: bytes, declared: TypeProto) -> Any:
    match declared.WhichOneof("value"):
        case "sequence_type":
            return onnx.numpy_helper.to_list(onnx.SequenceProto.FromString(raw))
        case "optional_type":
            return onnx.numpy_helper.to_optional(onnx.OptionalProto.FromString(raw))
        case "map_type":
            return onnx.numpy_helper.to_dict(onnx.MapProto.FromString(raw))
    return to_array(TensorProto.FromString(raw))


def written(folder: Path, model: ModelProto, values: Mapping[str, Any]) -> Path:
    """Writes values as an .npz file, or as a folder of .pb files if a value is not an array."""
    if all(hasattr(value, "dtype") for value in values.values()):
        # numpy's savez does not accept every input name
        with zipfile.ZipFile(folder / "inputs.npz", "w") as archive:
            for name, value in values.items():
                array = value.astype(str) if value.dtype.kind == "O" else value
                with archive.open(f"{name}.npy", "w", force_zip64=True) as file:
                    np.lib.format.write_array(file, np.asanyarray(array), allow_pickle=False)
        return folder / "inputs.npz"
    place = folder / "inputs"
    place.mkdir(exist_ok=True)
    for old in place.glob("input_*.pb"):
        old.unlink()
    for number, info in enumerate(model.graph.input):
        if info.name in values:
            raw = _proto(values[info.name], info.type).SerializeToString()
            (place / f"input_{number}.pb").write_bytes(raw)
    return place


def _proto(value: Any, declared: TypeProto) -> Message:
    match declared.WhichOneof("value"):
        case "sequence_type":
            return onnx.numpy_helper.from_list(value)
        case "optional_type":
            return onnx.numpy_helper.from_optional(value)
        case "map_type":
            return onnx.numpy_helper.from_dict(value)
    return from_array(value)


def _unfit(message: str) -> InvalidModel:
    """Returns the error for inputs that do not fit a model."""
    return InvalidModel(message, "BAD_INPUTS")
