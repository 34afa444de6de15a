# SPDX-License-Identifier: Apache-2.0
"""Converts constants to a wider element type if readers depend only on their values."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import field
from typing import TYPE_CHECKING, TypeAlias

from opshift.author.present_types import TYPE_ATTRIBUTES
from opshift.author.traits import ByValue
from opshift.model import arrays, walk
from opshift.model.document import function_id
from opshift.model.names import bound_names
from opshift.model.scope import call_id
from opshift.opsets.elements import ELEMENTS, T
from opshift.opsets.identity import normal
from opshift.protos import GraphProto, ModelProto, NodeProto, TensorProto
from opshift.records import dataclass

if TYPE_CHECKING:
    from opshift.model.weights import Weights


Rules: TypeAlias = Mapping[tuple[str, str], ByValue]


@dataclass(slots=True)
class _Constant:
    """A constant tensor and its readers."""

    tensor: TensorProto
    wide: int
    readers: list[tuple[NodeProto, int, ByValue | None]] = field(default_factory=list)
    bound: bool = False  # whether something other than a node depends on its type


def widen(model: ModelProto, weights: Weights, to: int, by_value: Rules) -> int:
    """Converts constants whose type IR `to` lacks to a wider type; returns their number.

    The result is exact: these constants are read only as inputs that `by_value` lists, whose type
    does not affect the result. Constants with any other reader stay unchanged.
    """
    constants = _constants(model, to)
    if not constants:
        return 0
    _find_readers(model, constants, by_value)
    while stuck := [
        name
        for name, constants_of_name in constants.items()
        if not _may(constants_of_name, constants)
    ]:
        for name in stuck:
            del constants[name]
    for constants_of_name in constants.values():
        for constant in constants_of_name:
            _rewrite(constant, weights)
    _declare(model, constants)
    return sum(map(len, constants.values()))


def _constants(model: ModelProto, to: int) -> dict[str, list[_Constant]]:
    """Returns the constants that may get a wider type, by name.

    Several graphs may have a constant of the same name.
    """
    constants: dict[str, list[_Constant]] = {}
    for name, tensor, overridable in _tensors(model):
        element = ELEMENTS.get(tensor.data_type)
        if element is not None and element.oldest_replacement is not None and element.ir > to:
            constants.setdefault(name, []).append(
                _Constant(tensor, element.oldest_replacement, bound=overridable)
            )
    return constants


def _tensors(model: ModelProto) -> Iterator[tuple[str, TensorProto, bool]]:
    """Yields the name and tensor of each constant, and whether callers may replace it."""
    for container in walk.containers(model):
        if isinstance(container, GraphProto):
            inputs = {value.name for value in container.input}
            for tensor in container.initializer:
                yield tensor.name, tensor, tensor.name in inputs
        for node in container.node:
            if node.op_type == "Constant" and normal(node.domain) == "":
                for attribute in node.attribute:
                    if attribute.name == "value" and attribute.HasField("t"):
                        yield node.output[0], attribute.t, False


def _find_readers(
    model: ModelProto, constants: dict[str, list[_Constant]], by_value: Rules
) -> None:
    functions = {function_id(function) for function in model.functions}
    for name in bound_names(model):  # training assigns values of the present type
        for constant in constants.get(name, ()):
            constant.bound = True
    for container in walk.containers(model):
        for name in _seen_outside(container):
            for constant in constants.get(name, ()):
                constant.bound = True
        for node in container.node:
            rule = by_value.get((normal(node.domain), node.op_type))
            for index, name in enumerate(node.input):
                for constant in constants.get(name, ()):
                    constant.readers.append((node, index, rule))
                    constant.bound |= call_id(node) in functions


def _seen_outside(container: walk.Container) -> Iterator[str]:
    """Yields the names of graph outputs and quantization parameters, which keep their types."""
    if not isinstance(container, GraphProto):
        yield from container.output
        return
    yield from (value.name for value in container.output)
    for note in container.quantization_annotation:
        yield note.tensor_name
        yield from (entry.value for entry in note.quant_parameter_tensor_names)


def _may(constants_of_name: list[_Constant], constants: dict[str, list[_Constant]]) -> bool:
    return not any(
        constant.bound
        or not all(_by_value(constant, *reader, constants) for reader in constant.readers)
        for constant in constants_of_name
    )


def _by_value(
    constant: _Constant,
    node: NodeProto,
    index: int,
    declared: ByValue | None,
    constants: dict[str, list[_Constant]],
) -> bool:
    if declared is None or index not in declared.inputs:
        return False
    if constant.wide == T.FLOAT and not (declared.floats and not _writes_text(node)):
        return False
    return all(
        name in constants for i, name in enumerate(node.input) if i in declared.inputs and name
    )


def _writes_text(node: NodeProto) -> bool:
    """Returns whether a node casts to strings; the text of a float depends on its type."""
    return any(a.i == T.STRING for a in node.attribute if a.name in TYPE_ATTRIBUTES)


def _rewrite(constant: _Constant, weights: Weights) -> None:
    tensor, dtype = constant.tensor, arrays.dtype_of(constant.wide)
    wide = arrays.from_array(weights.load(tensor).astype(dtype), tensor.name)
    if tensor.doc_string:
        wide.doc_string = tensor.doc_string
    if tensor.metadata_props:
        wide.metadata_props.extend(tensor.metadata_props)
    tensor.CopyFrom(wide)


def _declare(model: ModelProto, constants: dict[str, list[_Constant]]) -> None:
    """Updates the declared types of widened constants."""
    for container in walk.containers(model):
        for value in getattr(container, "value_info", ()):
            kind = value.type.tensor_type
            if value.name in constants and _is_narrow(kind.elem_type):
                kind.elem_type = constants[value.name][0].wide


def _is_narrow(elem_type: int) -> bool:
    element = ELEMENTS.get(elem_type)
    return element is not None and element.replacement is not None
