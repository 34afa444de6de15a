# SPDX-License-Identifier: Apache-2.0
"""Finds the inputs, outputs, types and attributes of operators, with or without a schema.

A vendor may extend an operator and keep its version, as onnxruntime does in com.microsoft. In this
case, the version database describes the operator of only one release. Adapters and inference use
this description, but nodes are not checked against it, because they may be of another release.
"""

from __future__ import annotations

from opshift import versions
from opshift.opsets import described, schemas, signature_text
from opshift.opsets.opset_changelog_pb2 import Change, Parameter
from opshift.opsets.schemas import Schema


@described.remembered
def layout(domain: str, op: str, version: int) -> Schema | None:
    """Returns the schema of an operator, or its entry in the version database, or None."""
    found = schemas.schema(domain, op, version)
    if found is not None or domain in versions.DOMAINS or schemas.is_documented(domain):
        return found
    entry = schemas.known().meaning(domain, op, version)
    if entry is None or entry.deprecated or not entry.details.stated:
        return None
    return of_entry(domain, entry.operator.since_version, entry.details.change)


def of_entry(domain: str, since: int, change: Change) -> Schema:
    """The schema that an entry of the database states."""
    lines = [f"  {variable}" for variable in change.types]
    for kind, params in (("input", change.inputs), ("output", change.outputs)):
        lines += [f"  {kind} {one.name}: {one.type}{_properties(one)}" for one in params]
    for one in change.attributes:
        default = f" = {one.default}" if one.default else ""
        state = ", required" if one.required else default
        lines.append(f"  attribute {one.name}: {one.type}{state}")
    return signature_text.read_schema(
        "\n".join(lines), domain, change.op_type, since, f"the database of {domain}",
        has_body=change.has_function_body, is_open=True,
    )  # fmt: skip


def _properties(one: Parameter) -> str:
    """The database does not state how often a variadic parameter occurs, and with which types."""
    words = [one.option] if one.option else []
    if one.option == "variadic":
        words += ["heterogeneous", "at least 0"]
    return "".join(f", {word}" for word in [*words, *([f"rank {one.rank}"] if one.rank else [])])
