# SPDX-License-Identifier: Apache-2.0
"""Finds the inputs, outputs, types and attributes of operators, with or without a schema.

A vendor may extend an operator and keep its version, as onnxruntime does in com.microsoft. For an
operator that a vendor extended, the version database describes only one release. Adapters and
inference use this description, but nodes are not checked against it, because they may be of another
release.
"""

from __future__ import annotations

from opshift import versions
from opshift.opsets import described, schemas, signature_text
from opshift.opsets.opset_changelog_pb2 import Change, Parameter
from opshift.opsets.schemas import Schema


@described.remembered
def layout(domain: str, op: str, version: int) -> Schema | None:
    """Returns the schema of an operator, or its entry in the version database, or None."""
    schema = schemas.schema(domain, op, version)
    if schema is not None or domain in versions.DOMAINS or schemas.is_documented(domain):
        return schema
    entry = schemas.known().meaning(domain, op, version)
    if entry is None or entry.deprecated or not entry.details.stated:
        return None
    return of_entry(domain, entry.operator.since_version, entry.details.change)


def of_entry(domain: str, since: int, change: Change) -> Schema:
    """Returns the schema that an entry of the version database describes."""
    lines = [f"  {variable}" for variable in change.types]
    for kind, params in (("input", change.inputs), ("output", change.outputs)):
        lines += [f"  {kind} {param.name}: {param.type}{_properties(param)}" for param in params]
    for attribute in change.attributes:
        default = f" = {attribute.default}" if attribute.default else ""
        state = ", required" if attribute.required else default
        lines.append(f"  attribute {attribute.name}: {attribute.type}{state}")
    return signature_text.read_schema(
        "\n".join(lines), domain, change.op_type, since, f"the database of {domain}",
        has_body=change.has_function_body, is_open=True,
    )  # fmt: skip


def _properties(param: Parameter) -> str:
    """Returns the properties of a parameter; a variadic one may be empty and mix types."""
    words = [param.option] if param.option else []
    if param.option == "variadic":
        words += ["heterogeneous", "at least 0"]
    return "".join(
        f", {word}" for word in [*words, *([f"rank {param.rank}"] if param.rank else [])]
    )
