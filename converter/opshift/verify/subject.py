# SPDX-License-Identifier: Apache-2.0
"""Stores a model under test as a file that a child process can open."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TypeAlias

from opshift.author.registry import Registry
from opshift.convert import implied_import, model_opening
from opshift.convert.legal import rules
from opshift.errors import InvalidModel
from opshift.model import weights
from opshift.model.bytes import source
from opshift.model.document import Document
from opshift.protos import ModelProto
from opshift.protos.whole import onnx
from opshift.records import dataclass

Model: TypeAlias = "ModelProto | str | os.PathLike[str]"


@dataclass(frozen=True, slots=True)
class Subject:
    """A model under test: its name, its file, and its graph without external data."""

    name: str
    path: Path
    model: ModelProto


def opened(model: Model, folder: Path, name: str, adapters: Registry) -> Subject:
    """Opens a model or path for a comparison; raises if onnx's inference would crash on it."""
    subject = _opened(model, folder, name)
    if not subject.model.opset_import or implied_import.lacking(subject.model):
        subject = _with_imports(subject, folder, name, adapters)
    rules.require_inferable(Document(subject.model), adapters)
    return subject


def _with_imports(subject: Subject, folder: Path, name: str, adapters: Registry) -> Subject:
    """Adds missing imports to a model, if their versions are unambiguous."""
    skeleton, large_tensors = weights.carve_file(source.opened(subject.path))
    model_opening.mend_imports(skeleton, adapters)
    path = folder / f"{name}-with-import.onnx"
    weights.splice_to_run(skeleton, large_tensors, os.fspath(path))
    return Subject(subject.name, path, onnx.load(path, load_external_data=False))


def _opened(model: Model, folder: Path, name: str) -> Subject:
    """Opens a model or a path; a model in memory is first written to `folder`."""
    if isinstance(model, ModelProto):
        path = folder / f"{name}.onnx"
        save(model, path)
        return Subject(name, path, model)
    file = source.opened(model)
    weights.carve_file(file)  # raises if the file is invalid
    file_path = Path(file.at_path(str(folder), f"{name}.onnx"))
    try:
        return Subject(file.path, file_path, onnx.load(file_path, load_external_data=False))
    except Exception as error:
        raise InvalidModel(f"{file.path!r} cannot be loaded: {error}") from error


def save(model: ModelProto, path: Path) -> None:
    """Writes a model; if it exceeds the limit of a protobuf, its weights go to a second file."""
    if model.ByteSize() < onnx.checker.MAXIMUM_PROTOBUF:
        onnx.save(model, path)
    else:
        copy = ModelProto()
        copy.CopyFrom(model)
        onnx.save(copy, path, save_as_external_data=True, location=f"{path.name}.data")
