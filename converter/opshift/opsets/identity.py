# SPDX-License-Identifier: Apache-2.0
"""The identity of an operator: `(domain, op_type, since_version)`, or `com.acme.FastConv:3`."""

from __future__ import annotations

import re

from opshift.errors import BadTarget
from opshift.records import dataclass


def normal(domain: str) -> str:
    """The domain, with `ai.onnx` written as the empty string."""
    return "" if domain == "ai.onnx" else domain


@dataclass(frozen=True, slots=True, order=True)
class OperatorId:
    """One implementation of an operator; the default domain is the empty string.

    Attributes
    ----------
    domain, op_type : str
        The domain and the name of the operator.
    since_version : int
        The version of the domain with which the implementation began.

    Examples
    --------
    >>> import opshift
    >>> str(opshift.OperatorId.of("", "Relu", 20))
    'ai.onnx.Relu:14'
    """

    domain: str
    op_type: str
    since_version: int

    @staticmethod
    def parse(text: str) -> OperatorId:
        """`com.acme.FastConv:3`; without a domain, or with `ai.onnx`, the default one is meant."""
        found = re.fullmatch(r"(?:([^\s:]+)\.)?([^\s:.]+):([1-9]\d*)", text)
        if found is None:
            raise BadTarget(
                f"an operator is DOMAIN.NAME:VERSION, as in com.acme.Run:3, not {text!r}"
            )
        return OperatorId(normal(found[1] or ""), found[2], int(found[3]))

    @staticmethod
    def of(domain: str, op_type: str, version: int) -> OperatorId:
        """The implementation that a name means where `version` of its domain is imported."""
        from opshift.opsets import changelog

        domain = normal(domain)
        entry = changelog.default().meaning(domain, op_type, version)
        if entry is None:
            raise BadTarget(f"{domain or 'ai.onnx'} {version} has no operator {op_type!r}")
        return entry.operator

    def __str__(self) -> str:
        return f"{self.domain or 'ai.onnx'}.{self.op_type}:{self.since_version}"
