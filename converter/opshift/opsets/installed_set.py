# SPDX-License-Identifier: Apache-2.0
"""Builds operator sets from the database and the installed onnx."""

from __future__ import annotations

from opshift.errors import BadTarget
from opshift.opsets import schemas
from opshift.opsets.identity import normal
from opshift.opsets.operator_set import Operator, OperatorSet
from opshift.protos import FunctionProto


def of_installed(domain: str, version: int) -> OperatorSet:
    """Returns the operator set of a domain; raises BadTarget for an unknown domain or version."""
    domain, shown = normal(domain), domain or "ai.onnx"
    newest = schemas.latest(domain)
    if newest is None or not 1 <= version <= newest:
        ends = (
            f"the known versions are 1 to {newest}; give one of them"
            if newest
            else "no package describes this domain; install one, or give --operator-set FILE"
        )
        raise BadTarget(f"{shown} {version} cannot be exported: {ends}")
    operators, functions = [], []
    for name in schemas.operators(domain):
        schema = schemas.schema(domain, name, version)
        if schema is None or schema.deprecated:
            continue
        body = schemas.body(domain, name, schema.since, version) if schema.has_body else None
        if body is not None:
            functions.append(_named(body, domain, name))
        operators.append(Operator(schema, *schemas.prose(domain, name, schema.since)))
    return OperatorSet(domain, version, tuple(operators), tuple(functions))


def _named(body: FunctionProto, domain: str, name: str) -> FunctionProto:
    copy = FunctionProto()
    copy.CopyFrom(body)
    copy.domain, copy.name = domain, name
    return copy
