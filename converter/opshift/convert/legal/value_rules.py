# SPDX-License-Identifier: Apache-2.0
"""The rules on declared types, and on the names and sizes of dimensions."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator

from opshift.convert.ir import places
from opshift.convert.legal.findings import Checked, NamedText, some
from opshift.model import walk
from opshift.opsets.types import alike, parts_of, shown_type, tensors_in
from opshift.protos import GraphProto, ModelProto, TensorShapeProto, TypeProto, ValueInfoProto


def negative_sizes(checked: Checked) -> Iterator[NamedText]:
    """Yields declared sizes below zero; every runtime takes them for unknown sizes."""
    negative = _values_with(checked.document.model, lambda dim: dim.dim_value < 0)
    if negative:
        text = f"{some(negative, 'value')} with a negative size; leave out sizes that are not known"
        yield negative, text


def unnamed_dimensions(checked: Checked) -> Iterator[NamedText]:
    """Yields dimensions whose name is the empty string."""
    empty = _values_with(
        checked.document.model, lambda dim: dim.HasField("dim_param") and not dim.dim_param
    )
    if empty:
        text = f"{some(empty, 'value')} with an empty name of a dimension; leave out the name"
        yield empty, text


def contents(checked: Checked) -> Iterator[NamedText]:
    """Yields types without an element type, and optional values of optional values.

    The element types of the inputs and outputs of the model have their own rule.
    """
    model = checked.document.model
    others = {value.name for value in (*model.graph.input, *model.graph.output)}
    for value in _values(model):
        parts = [part.WhichOneof("value") or "" for part in parts_of(value.type)]
        if value.name not in others and not all(t.elem_type for t in tensors_in(value.type)):
            text = f"the type of value {value.name!r} has no element type; set it, or remove the"
            yield value.name, f"{text} type"
        if any(pair == ("optional_type",) * 2 for pair in itertools.pairwise(parts)):
            text = f"value {value.name!r} is an optional value of an optional value; remove one"
            yield value.name, text


def recorded_twice(checked: Checked) -> Iterator[NamedText]:
    """Yields values whose type in value_info is not the type that the graph declares."""
    for graph in walk.containers(checked.document.model):
        declared = {
            value.name: value.type
            for value in ((*graph.input, *graph.output) if isinstance(graph, GraphProto) else ())
        }
        for value in graph.value_info if declared else ():
            kind = declared.get(value.name)
            if kind is not None and not (alike(kind, value.type) and _agree(kind, value.type)):
                yield (
                    value.name,
                    f"value_info describes {value.name!r} as {shown_type(value.type)}, but graph"
                    f" {graph.name!r} declares {shown_type(kind)}; remove the entry",
                )


def _agree(first: TypeProto, second: TypeProto) -> bool:
    """Returns whether no length of two types differs."""
    pairs = zip(_dims(first), _dims(second), strict=False)
    return not any(
        a.HasField("dim_value") and b.HasField("dim_value") and a.dim_value != b.dim_value
        for a, b in pairs
    )


def variables(checked: Checked) -> Iterator[NamedText]:
    """Yields names of dimensions that stand for several sizes."""
    assert checked.facts is not None, "the rule needs the sizes of values"
    sizes: dict[str, dict[int, str]] = {}
    for scope in checked.document.scopes():
        if not isinstance(scope.proto, GraphProto):
            continue
        for name, declared in scope.declared.items():
            if not any(dim.dim_param for dim in declared.tensor_type.shape.dim):
                continue
            kind = checked.facts.type(scope, name)
            known = kind.tensor_type.shape.dim if kind is not None else ()
            for dim, size in zip(declared.tensor_type.shape.dim, known, strict=False):
                if dim.dim_param and size.HasField("dim_value"):
                    sizes.setdefault(dim.dim_param, {}).setdefault(size.dim_value, name)
    for variable, values in sorted(sizes.items()):
        if len(values) > 1:
            shown = " and ".join(f"{size} ({values[size]!r})" for size in sorted(values)[:2])
            text = f"dimension {variable!r} has the sizes {shown}, but a name stands for one size"
            yield variable, f"{text} in the whole model; use several names"


def dimension_names(model: ModelProto) -> set[str]:
    """Returns the names of the dimensions of all declared types."""
    return {dim.dim_param for value in _values(model) for dim in _dims(value.type)}


def _values_with(
    model: ModelProto, is_wrong: Callable[[TensorShapeProto.Dimension], bool]
) -> frozenset[str]:
    """Returns the values whose declared types have a wrong dimension."""
    return frozenset(v.name for v in _values(model) if any(map(is_wrong, _dims(v.type))))


def _values(model: ModelProto) -> Iterator[ValueInfoProto]:
    yield from places.values(model)
    for function in model.functions:
        yield from getattr(function, "value_info", ())


def _dims(kind: TypeProto) -> Iterator[TensorShapeProto.Dimension]:
    return (dim for tensor in tensors_in(kind) for dim in tensor.shape.dim)
