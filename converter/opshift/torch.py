# SPDX-License-Identifier: Apache-2.0
"""Exports a torch module, and converts the export to the requested opset or runtime."""

from __future__ import annotations

import importlib
import os
import tempfile
from typing import TYPE_CHECKING, Any, overload

from opshift.convert.api import convert_file, convert_version
from opshift.convert.request import AnyTarget, ConversionOptions
from opshift.errors import MissingExtra

if TYPE_CHECKING:
    import torch

    from opshift.report import Report


@overload
def export(
    model: Any, args: tuple[Any, ...] = ..., f: None = None, *, target: AnyTarget, **options: Any
) -> torch.onnx.ONNXProgram: ...
@overload
def export(
    model: Any,
    args: tuple[Any, ...],
    f: str | os.PathLike[str],
    *,
    target: AnyTarget,
    **options: Any,
) -> Report: ...
def export(
    model: Any,
    args: tuple[Any, ...] = (),
    f: str | os.PathLike[str] | None = None,
    *,
    target: AnyTarget,
    **options: Any,
) -> Any:
    """Export a model as `torch.onnx.export` does, and convert the result.

    torch exports at its default opset, for which it implements the most operators, unless
    `opset_version` is among the options.

    Parameters
    ----------
    model : torch.nn.Module, torch.export.ExportedProgram or torch.jit.ScriptModule
        The model to export.
    args : tuple
        The example inputs.
    f : path, optional
        The file to write, which appears complete or not at all. A model above 2 GB needs a file.
    target : int, mapping or str
        An opset, versions by domain, or a runtime, as for `opshift.convert_version`.
    **options
        Options of `opshift.convert_version` and of `torch.onnx.export`, by their names.

    Returns
    -------
    torch.onnx.ONNXProgram or Report
        The converted program; with `f`, the report of the conversion.

    Raises
    ------
    MissingExtra
        torch is not installed.
    TypeError
        The older exporter (`dynamo=False`) is requested without `f`, but it only writes files.
    Refused, InvalidModel, BadTarget
        Raised as by `opshift.convert_version`.

    Examples
    --------
    >>> program = opshift.torch.export(module, (torch.randn(2, 8),), target=13)
    """
    onnx = _exporter()
    converting: Any = {
        name: options.pop(name) for name in ConversionOptions.__annotations__ if name in options
    }
    if f is None:
        if not options.get("dynamo", True):
            raise TypeError("the exporter with dynamo=False only writes files: give a path as f")
        program = onnx.export(model, args, **{"dynamo": True, **options})
        return convert_version(program, target, inplace=True, **converting)
    with tempfile.TemporaryDirectory() as folder:
        written = os.path.join(folder, os.path.basename(os.fspath(f)))
        onnx.export(model, args, written, **{"dynamo": True, **options})
        return convert_file(written, f, target, **converting)


def _exporter() -> Any:
    try:
        return importlib.import_module("torch.onnx")
    except ImportError as error:
        raise MissingExtra("torch is missing; run `pip install 'opshift[torch]'`") from error
