"""A converted model together with the report about its conversion."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Generic, TypeVar

from opshift.report import Report
from opshift.text import Line, Shown

_Model = TypeVar("_Model")


@dataclass(frozen=True, repr=False)
class Result(Shown, Generic[_Model]):
    """What `opshift.convert` returns: the model, of the type that was given, and the report."""

    model: _Model
    report: Report

    def lines(self) -> Iterator[Line]:
        """The lines of the report."""
        return self.report.lines()
