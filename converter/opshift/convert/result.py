# SPDX-License-Identifier: Apache-2.0
"""A converted model, together with the report on its conversion."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from opshift.page import Paged
from opshift.records import dataclass
from opshift.report import Report
from opshift.text import Line

if TYPE_CHECKING:
    from opshift.page.sheet import Page

_Model = TypeVar("_Model")


@dataclass(frozen=True, repr=False)
class Result(Paged, Generic[_Model]):
    """The return value of `opshift.convert`: the converted model and the report.

    Attributes
    ----------
    model : ModelProto, onnx_ir.Model or ONNXProgram
        The converted model, of the same type as the source model.
    report : Report
        The description of the conversion.

    Examples
    --------
    >>> import opshift
    >>> found = opshift.convert("model.onnx", 13)
    >>> found.model.opset_import[0].version, str(found.report).splitlines()[0]
    (13, 'Converted: opset 12 -> 13.')
    """

    model: _Model
    report: Report

    def lines(self) -> Iterator[Line]:
        """Returns the report as lines of text."""
        return self.report.lines()

    def page(self, source: Any = None) -> Page:
        """Returns the page of the report, with drawings if `source` is the unconverted model."""
        if source is None:
            return self.report.page()
        from opshift.look import pages

        return pages.of_result(self.report, source, self.model)

    def to_html(self, source: Any = None) -> str:
        """Returns the page of the report as one HTML file.

        With `source`, the unconverted model or its path, the page draws each rewritten place and
        lists the runtimes that run the model before and after the conversion.
        """
        return self.page(source).html()
