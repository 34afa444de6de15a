# SPDX-License-Identifier: Apache-2.0
"""Offers a conversion as a pass of onnx_ir, the library for passes of onnxscript and torch."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from opshift.convert.api import convert_with_report
from opshift.convert.request import AnyTarget, Request, require_effects
from opshift.errors import MissingExtra

try:
    import onnx_ir
    from onnx_ir.passes import FunctionalPass, PassResult
except ImportError as error:
    raise MissingExtra("onnx_ir is missing; run `pip install 'opshift[ir]'`") from error

if TYPE_CHECKING:
    from typing_extensions import Unpack

    from opshift.convert.request import ConversionOptions
    from opshift.report import Report


class ConvertVersionPass(FunctionalPass):
    """Convert a model to other versions in a sequence of passes.

    Parameters
    ----------
    target : int, mapping or str, optional
        An opset, versions by domain, or a runtime, as for `opshift.convert_version`.
    **options
        The other options of `opshift.convert_version`.

    Attributes
    ----------
    report : Report or None
        The report of the last call.

    Raises
    ------
    BadTarget
        The target or the value of an option is not valid.

    Examples
    --------
    >>> passes = onnx_ir.passes.Sequential(RemoveUnusedNodesPass(), ConvertVersionPass(13))
    >>> model = passes(model).model
    """

    def __init__(self, target: AnyTarget = None, **options: Unpack[ConversionOptions]) -> None:
        self.request = require_effects(Request.of(target, **options))
        self.report: Report | None = None

    def call(self, model: onnx_ir.Model) -> PassResult:
        """Returns a converted copy; raises Refused if no equal model exists."""
        conversion: Any = convert_with_report(model, self.request)
        self.report = conversion.report
        return PassResult(conversion.model, modified=conversion.report.changed)
