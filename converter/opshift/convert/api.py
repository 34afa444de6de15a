# SPDX-License-Identifier: Apache-2.0
"""The public functions that convert models and files."""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING, Any, Literal, Protocol, TypeAlias, TypeVar, overload

from opshift.convert.cheapest_strategy import convert, opener_of
from opshift.convert.ir import restamp
from opshift.convert.legal import diagnose
from opshift.convert.request import (
    AnyTarget,
    ConversionOptions,
    Request,
    Target,
    require_effects,
    takes_options,
)
from opshift.convert.request_values import flag, path
from opshift.convert.result import Result
from opshift.errors import BadDestination
from opshift.model import weights
from opshift.model.bytes import documents, place
from opshift.model.bytes.source import Opened
from opshift.protos import ModelProto, isolation
from opshift.report import Report

if TYPE_CHECKING:
    import onnx_ir
    from typing_extensions import Unpack

Source: TypeAlias = "ModelProto | str | os.PathLike[str] | onnx_ir.Model"
External: TypeAlias = Literal["keep", "copy", "inline", "one-file"]


class Program(Protocol):
    """The attribute of a `torch.onnx.ONNXProgram` that opshift reads."""

    @property
    def model_proto(self) -> ModelProto:
        """The exported model."""


_Given = TypeVar("_Given", bound="ModelProto | onnx_ir.Model | Program")


class ModelOptions(ConversionOptions, total=False):
    """The options of `convert`, which converts a model in memory."""

    inplace: bool
    isolate: bool | None


@overload
def convert_version(
    model: str | os.PathLike[str],
    target: AnyTarget = None,
    *,
    target_version: AnyTarget = None,
    **options: Unpack[ModelOptions],
) -> ModelProto: ...
@overload
def convert_version(
    model: _Given,
    target: AnyTarget = None,
    *,
    target_version: AnyTarget = None,
    **options: Unpack[ModelOptions],
) -> _Given: ...
@takes_options
@diagnose.protobuf_errors()
def convert_version(
    model: Any,
    target: AnyTarget = None,
    *,
    target_version: AnyTarget = None,
    inplace: bool = False,
    isolate: bool | None = None,
    **options: Any,
) -> Any:
    """Convert a model to other versions and return it.

    Parameters
    ----------
    model : ModelProto, path, onnx_ir.Model or torch.onnx.ONNXProgram
        The model, which stays unchanged unless `inplace` is true.
    target : int, mapping or str, optional
        An opset, versions by domain (`{"": 13, "ai.onnx.ml": 2}`), or a runtime
        (`"onnxruntime==1.10"`). Without a target only the IR version changes.
    target_version : int, mapping or str, optional
        Another name of `target`, so that this function can take the place of
        `onnx.version_converter.convert_version`.
    inplace : bool, default False
        Change the given object instead of a copy.
    isolate : bool, optional
        Call the C++ code of onnx in a child process, so that no model ends or hangs this process.
        By default the environment variable OPSHIFT_ISOLATE decides.
    **options
        The options of a conversion.

    Returns
    -------
    ModelProto, onnx_ir.Model or torch.onnx.ONNXProgram
        The type of `model`; a ModelProto if `model` is a path.

    Raises
    ------
    Refused
        No equal model exists at the target. The error names every blocker and the nearest versions.
    InvalidModel
        The model breaks a rule of the specification.
    BadTarget
        The target or the value of an option is not valid.
    TypeError
        `model` has another type, or both `target` and `target_version` are given.
    OSError
        The file cannot be read.

    Examples
    --------
    >>> import opshift
    >>> model = opshift.convert_version("model.onnx", 13)
    >>> model.opset_import[0].version
    13
    """
    request = require_effects(Request.of(_one(target, target_version), **options))
    with isolation.isolated(isolate):
        return _converted(model, request, inplace=flag("inplace", inplace)).model


@overload
def convert_with_report(
    model: str | os.PathLike[str],
    target: AnyTarget = None,
    *,
    target_version: AnyTarget = None,
    **options: Unpack[ModelOptions],
) -> Result[ModelProto]: ...
@overload
def convert_with_report(
    model: _Given,
    target: AnyTarget = None,
    *,
    target_version: AnyTarget = None,
    **options: Unpack[ModelOptions],
) -> Result[_Given]: ...
@takes_options
@diagnose.protobuf_errors()
def convert_with_report(
    model: Any,
    target: AnyTarget = None,
    *,
    target_version: AnyTarget = None,
    inplace: bool = False,
    isolate: bool | None = None,
    **options: Any,
) -> Result[Any]:
    """Convert a model to other versions and return it together with the report.

    Parameters
    ----------
    model : ModelProto, path, onnx_ir.Model or torch.onnx.ONNXProgram
        The model, which stays unchanged unless `inplace` is true.
    target : int, mapping or str, optional
        An opset, versions by domain (`{"": 13, "ai.onnx.ml": 2}`), or a runtime
        (`"onnxruntime==1.10"`). Without a target only the IR version changes.
    target_version : int, mapping or str, optional
        Another name of `target`, as in `onnx.version_converter.convert_version`.
    inplace : bool, default False
        Change the given object instead of a copy.
    isolate : bool, optional
        Call the C++ code of onnx in a child process, so that no model ends or hangs this process.
        By default the environment variable OPSHIFT_ISOLATE decides.
    **options
        The options of a conversion.

    Returns
    -------
    Result
        `.model` has the type that was given (a ModelProto for a path), `.report` is a `Report`.

    Raises
    ------
    Refused
        No equal model exists at the target. The error names every blocker and the nearest versions.
    InvalidModel
        The model breaks a rule of the specification.
    BadTarget
        The target or the value of an option is not valid.
    TypeError
        `model` has another type, or both `target` and `target_version` are given.
    OSError
        The file cannot be read.

    Examples
    --------
    >>> import opshift
    >>> found = opshift.convert("model.onnx", 13)
    >>> found.report.result[""]
    13
    """
    request = require_effects(Request.of(_one(target, target_version), **options))
    with isolation.isolated(isolate):
        return _converted(model, request, inplace=flag("inplace", inplace))


def _one(target: AnyTarget, alias: AnyTarget) -> AnyTarget:
    """Returns the target, which callers pass as `target` or, as in onnx, as `target_version`."""
    if target is not None and alias is not None:
        raise TypeError("target and target_version are two names of one argument; give one")
    return alias if target is None else target


def _converted(model: Any, request: Request, *, inplace: bool) -> Result[Any]:
    if isinstance(model, (str, os.PathLike)):
        file = Opened(os.fspath(model))
        with documents.beside(file):
            return _convert_in_memory(file, request)
    if isinstance(model, ModelProto):
        return _convert_proto(model, request, inplace=inplace)
    if _is_program(model):
        result = _convert_onnx_ir(model.model, request)
        return Result(_with_model(model, result.model, inplace=inplace), result.report)
    return _convert_onnx_ir(model, request)


def _with_model(program: Any, model: Any, *, inplace: bool) -> Any:
    """Returns a copy of a program with another model, but without its inference session."""
    if not inplace:
        return type(program)(model, program.exported_program)
    program.release()
    program.model = model
    return program


def _is_program(model: Any) -> bool:
    """Returns whether an object is a program of torch, which its creator has already imported."""
    program = getattr(sys.modules.get("torch.onnx"), "ONNXProgram", None)
    return isinstance(program, type) and isinstance(model, program)


@takes_options
def convert_file(
    src: str | os.PathLike[str],
    dst: str | os.PathLike[str],
    target: AnyTarget = None,
    *,
    external: External = "keep",
    in_place: bool = False,
    isolate: bool | None = None,
    **options: Unpack[ConversionOptions],
) -> Report:
    """Convert a file to other versions and write the result to a file.

    The kernel of the operating system copies the weights, so memory does not grow with their size.
    Without `in_place`, no file that the source needs is changed.

    Parameters
    ----------
    src : path
        The file of the model.
    dst : path
        The file of the result, which is written completely or not at all.
    target : int, mapping or str, optional
        An opset, versions by domain (`{"": 13, "ai.onnx.ml": 2}`), or a runtime
        (`"onnxruntime==1.10"`). Without a target only the IR version changes.
    external : {"keep", "copy", "inline", "one-file"}
        Where the result stores weights that are outside of the source file: in the same files
        ("keep"), in copies of these files, in the model file, or in one new file.
    in_place : bool, default False
        Allow `dst` to be the source file.
    isolate : bool, optional
        Call the C++ code of onnx in a child process, so that no model ends or hangs this process.
        By default the environment variable OPSHIFT_ISOLATE decides.
    **options
        The options of a conversion.

    Returns
    -------
    Report
        The description of the conversion.

    Raises
    ------
    Refused, InvalidModel, BadTarget
        As for `convert_version`.
    BadDestination
        The result would replace a file that must stay.
    OSError
        A file cannot be read or written.

    Examples
    --------
    >>> import opshift
    >>> report = opshift.convert_file("model.onnx", "model13.onnx", 13)
    >>> report.way
    'opset 12 -> 13'
    """
    request = require_effects(Request.of(target, **options))
    src, dst, in_place = path("src", src), path("dst", dst), flag("in_place", in_place)
    with isolation.isolated(isolate):
        return convert_path(src, dst, request, external, in_place=in_place)


@diagnose.protobuf_errors()
def convert_path(
    src: str | os.PathLike[str],
    dst: str | os.PathLike[str],
    request: Request,
    external: str,
    *,
    in_place: bool = False,
) -> Report:
    """Converts a file to another file, or replaces the file if `in_place` is true."""
    if in_place and not os.path.samefile(src, place.to_replace(os.fspath(dst))):
        raise BadDestination(
            f"{os.fspath(dst)}: in_place=True replaces the source, but this is another file; give"
            " the path of the source"
        )
    file = Opened(os.fspath(src))
    with documents.beside(file):
        if (header := restamp.header_change(file, request, dst, external)) is not None:
            header.write(dst, in_place=in_place)
            return header.report
        skeleton, large_tensors, report = convert(opener_of(file), request)
        weights.put(
            skeleton, large_tensors, dst, report.changed, external=external, in_place=in_place
        )
    return report


def _convert_in_memory(file: Opened, request: Request) -> Result[ModelProto]:
    """Returns the converted model of a file, with all external data loaded into the model."""
    model, large_tensors, report = convert(opener_of(file), request)
    weights.fill(model, large_tensors)
    weights.fetch(model, large_tensors)
    large_tensors.check_unchanged()
    return Result(model, report)


def _convert_proto(model: ModelProto, request: Request, *, inplace: bool) -> Result[ModelProto]:
    skeleton, large_tensors, report = convert(opener_of(model), request)
    if inplace:
        if report.changed:
            weights.transplant(skeleton, large_tensors, model)
        return Result(model, report)
    if large_tensors.sources:
        weights.fill(skeleton, large_tensors)
    return Result(skeleton, report)


def _convert_onnx_ir(model: Any, request: Request) -> Result[Any]:
    onnx_ir = sys.modules.get("onnx_ir")  # a model of onnx-ir implies that onnx-ir is imported
    if onnx_ir is None or not isinstance(model, onnx_ir.Model):
        raise TypeError(
            "model must be a ModelProto, a path, an onnx_ir.Model or an ONNXProgram, not"
            f" {type(model).__name__}"
        )
    proto = onnx_ir.to_proto(model)
    result = _convert_proto(proto, request, inplace=True)
    return Result(onnx_ir.from_proto(result.model), result.report)


__all__ = ["Request", "Target", "convert_file", "convert_version"]
