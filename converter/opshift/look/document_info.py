# SPDX-License-Identifier: Apache-2.0
"""Describes the content of an operator-set document."""

from __future__ import annotations

from collections.abc import Iterator

from opshift.opsets import operator_set
from opshift.records import dataclass
from opshift.text import Line, Role, Shown, counted


@dataclass(frozen=True, slots=True, repr=False)
class DocumentInfo(Shown):
    """The operator set of a document.

    Printed by `opshift info FILE.onnxopset`.
    """

    KIND = "operator_set"

    path: str
    """The file."""
    domain: str
    """The domain; empty for ai.onnx."""
    version: int
    """The version of the operator set."""
    operators: tuple[str, ...]
    """Every operator."""
    functions: tuple[str, ...]
    """The operators with a function body."""
    experimental: tuple[str, ...]
    """The operators that may change without a new version."""
    unstated: tuple[str, ...]
    """The operators whose inputs, outputs, types and attributes are not stated."""

    def lines(self) -> Iterator[Line]:
        """Yields text: the domain and version, the operators, and how to use the document."""
        shown = f"{self.domain or 'ai.onnx'} {self.version}"
        count = counted(len(self.operators), "operator")
        yield Line(f"{self.path}: no model, but the operator set {shown} with {count}", Role.GOOD)
        yield Line(f"  {', '.join(self.operators) or 'no operators'}")
        for what, names in (
            ("with a function body", self.functions),
            ("experimental", self.experimental),
            ("without inputs, outputs, types and attributes", self.unstated),
        ):
            if names:
                yield Line(f"  {what}: {', '.join(names)}")
        yield Line(
            f"  `--operator-set {self.path}` lets other commands read models with these operators."
        )


def document_info(path: str) -> DocumentInfo:
    """Returns the content of an operator-set document."""
    with open(path, "rb") as file:
        content = operator_set.read(file.read(), path)
    operators = sorted(content.operators, key=lambda operator: operator.schema.name)
    return DocumentInfo(
        path,
        content.domain,
        content.version,
        tuple(operator.schema.name for operator in operators),
        tuple(sorted(function.name for function in content.functions)),
        tuple(operator.schema.name for operator in operators if operator.experimental),
        tuple(operator.schema.name for operator in operators if not operator.schema.stated),
    )
