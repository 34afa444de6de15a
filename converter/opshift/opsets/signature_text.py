# SPDX-License-Identifier: Apache-2.0
"""The signature of an operator as lines of text that people and programs read.

Signature:
  T: tensor(double) tensor(float)
  input X: T
  input axes: tensor(int64), optional
  input more: T, variadic, at least 1
  output Y: T, rank X
  attribute axis: INT = -1
  attribute to: INT, required
"""

from __future__ import annotations

import base64
import json
import re
from collections.abc import Iterable, Iterator
from typing import Any

from google.protobuf.message import DecodeError

from opshift.errors import BadTarget
from opshift.opsets.output_rank import output_rank
from opshift.opsets.schema import ANY, Attribute, Param, Schema
from opshift.protos import AttributeProto

SIGNATURE = "Signature:"


def signature_of(schema: Schema) -> str:
    """Returns the text that describes a schema."""
    lines = [SIGNATURE]
    for variable, types in schema.types_by_variable.items():
        if types != {variable}:
            lines.append(f"  {variable}: {' '.join(sorted(types))}")
    lines += _parameters("input", schema.inputs, schema.min_input)
    lines += _parameters("output", schema.outputs, schema.min_output)
    lines += [f"  attribute {a.name}: {_attribute(a)}" for a in schema.attributes.values()]
    return "\n".join(lines)


def _parameters(kind: str, params: Iterable[Param], least: int) -> Iterator[str]:
    for number, param in enumerate(params):
        words = [param.variable]
        if param.variadic:
            words.append("variadic")
            words += [] if param.homogeneous else ["heterogeneous"]
            words.append(f"at least {max(0, least - number)}")
        elif param.optional:
            words.append("optional")
        words += [f"rank {param.rank}"] if param.rank else []
        yield f"  {kind} {param.name}: {', '.join(words)}"


def _attribute(attribute: Attribute) -> str:
    kind = kind_name(attribute.kind)
    if attribute.required:
        return f"{kind}, required"
    return kind if attribute.default is None else f"{kind} = {default_text(attribute.default)}"


def kind_name(kind: int) -> str:
    """Returns the name of an attribute type in AttributeProto."""
    return AttributeProto.AttributeType.Name(kind)


def default_text(value: object) -> str:
    """Returns a default value as JSON; a message as its bytes."""
    if hasattr(value, "SerializeToString"):
        raw = value.SerializeToString(deterministic=True)
        return json.dumps({type(value).__name__: base64.b64encode(raw).decode()})
    listed = list(value) if isinstance(value, (list, tuple)) else value
    return json.dumps([_plain(v) for v in listed] if isinstance(listed, list) else _plain(listed))


def _plain(value: Any) -> Any:
    return value.decode() if isinstance(value, bytes) else value


_LINE = re.compile(r"  (?:(input|output|attribute) )?([^\s:]+): (.+)")


def read_schema(
    text: str, domain: str, op: str, since: int, where: str, *, has_body: bool,
    is_open: bool = False,
) -> Schema:  # fmt: skip
    """Parses a schema from lines of text; error messages begin with `where`."""
    variables: dict[str, frozenset[str]] = {}
    params: dict[str, list[Param]] = {"input": [], "output": []}
    least = {"input": 0, "output": 0}
    attributes: dict[str, Attribute] = {}
    for line in filter(str.strip, text.splitlines()):
        match = _LINE.fullmatch(line)
        if match is None:
            raise BadTarget(f"{where}: the line {line.strip()!r} of its signature is not readable")
        kind, name, description = match.groups()
        if kind is None:
            variables[name] = frozenset(description.split())
        elif kind == "attribute":
            attributes[name] = _read_attribute(name, description, where)
        else:
            variable, *words = description.split(", ")
            types = variables.get(variable, frozenset({variable}))
            params[kind].append(_read_param(name, variable, types, words, where))
            at_least = next((w for w in words if w.startswith("at least ")), None)
            if "optional" not in words:
                more = int(at_least.removeprefix("at least ")) if at_least else 1
                least[kind] = len(params[kind]) - 1 + more
    inputs, outputs = (tuple(params[kind]) for kind in ("input", "output"))
    _check_ranks(inputs, outputs, where)
    return Schema(
        domain, op, since, False, inputs, outputs, attributes,
        least["input"], _most(inputs), least["output"], _most(outputs), has_body,
        {p.name: i for i, p in enumerate(inputs)}, {p.name: i for i, p in enumerate(outputs)},
        open=is_open,
    )  # fmt: skip


def unstated(domain: str, op: str, since: int, *, has_body: bool) -> Schema:
    """Returns the schema of an operator whose signature is unknown."""
    nothing: dict[str, int] = {}
    return Schema(
        domain, op, since, False, (), (), {}, 0, ANY, 0, ANY, has_body, nothing, nothing,
        stated=False,
    )  # fmt: skip


def _most(params: tuple[Param, ...]) -> int:
    return ANY if params and params[-1].variadic else len(params)


def _read_param(
    name: str, variable: str, types: frozenset[str], words: list[str], where: str
) -> Param:
    properties = re.compile(r"optional|variadic|heterogeneous|at least \d{1,9}|rank .+")
    for word in words:
        if properties.fullmatch(word) is None:
            raise BadTarget(f"{where}: {word!r} is not a property of a parameter")
    ranks = [word.removeprefix("rank ") for word in words if word.startswith("rank ")]
    return Param(
        name, types, variable, "optional" in words, "variadic" in words,
        "heterogeneous" not in words, *ranks[:1],
    )  # fmt: skip


def _check_ranks(inputs: tuple[Param, ...], outputs: tuple[Param, ...], where: str) -> None:
    """Raises BadTarget for an unreadable rank rule, and for the rank rule of an input."""
    names = [param.name for param in inputs]
    for param in (param for param in (*inputs, *outputs) if param.rank):
        try:
            if param in inputs:
                raise ValueError(param.name)
            output_rank(param.rank, names.index)
        except ValueError:
            raise BadTarget(
                f"{where}: the rank of {param.name!r} is described as {param.rank!r}; describe it"
                " for an output: `rank 3`, `rank X`, `rank X + 1`, `rank max A B` or `rank A @ B`"
            ) from None


def _read_attribute(name: str, description: str, where: str) -> Attribute:
    head, sign, default = description.partition(" = ")
    kind, comma, word = head.partition(", ")
    if kind not in set(AttributeProto.AttributeType.keys()) or word not in ("", "required"):
        raise BadTarget(
            f"{where}: attribute {name!r} is described as {description!r}, which is not a type"
        )
    try:
        value = _value(kind, json.loads(default)) if sign else None
    except (ValueError, TypeError, OverflowError, RecursionError, DecodeError) as error:
        raise BadTarget(
            f"{where}: the default of attribute {name!r} is not JSON: {error}"
        ) from None
    return Attribute(name, AttributeProto.AttributeType.Value(kind), bool(comma), value)


_MESSAGES = {
    "TENSOR": "TensorProto", "SPARSE_TENSOR": "SparseTensorProto", "GRAPH": "GraphProto",
    "TYPE_PROTO": "TypeProto",
}  # fmt: skip


def _value(kind: str, content: Any) -> Any:
    """Returns a default value from JSON; raises ValueError if it has another type."""
    if kind in ("INTS", "FLOATS", "STRINGS") and isinstance(content, list):
        values = [_value(kind[:-1], element) for element in content]
        return [element.encode() for element in values] if kind == "STRINGS" else values
    if kind == "INT" and type(content) is int and -(2**63) <= content < 2**63:
        return content
    if kind == "FLOAT" and type(content) in (int, float):
        return float(content)
    if kind == "STRING" and isinstance(content, str):
        return content
    if kind in _MESSAGES and isinstance(content, dict) and [*content] == [_MESSAGES[kind]]:
        from opshift import protos

        name, raw = content.popitem()
        return getattr(protos, name).FromString(base64.b64decode(raw))
    raise ValueError(f"it is not a value of type {kind}")
