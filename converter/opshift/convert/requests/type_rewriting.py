# SPDX-License-Identifier: Apache-2.0
"""Writes the chosen element types into a model, with Casts between different types."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping

from opshift.author.present_types import TYPE_ATTRIBUTES
from opshift.author.traits import Saturates
from opshift.convert.requests.input_sizes import free_inputs
from opshift.convert.requests.type_choice import element_number
from opshift.convert.requests.type_groups import (
    INNER,
    NUMBERS,
    TypeChoice,
    TypeGroup,
    changes_of,
    named_type,
    numbers_in,
)
from opshift.convert.state import State
from opshift.lazy import numpy as np
from opshift.model.arrays import as_tensor
from opshift.model.names import Owned
from opshift.model.replace import constant_node
from opshift.model.scope import Place, Scope
from opshift.opsets import schemas
from opshift.opsets.elements import ELEMENTS, T
from opshift.opsets.type_pairs import Change
from opshift.opsets.types import tensors_in
from opshift.protos import AttributeProto, GraphProto, ModelProto, NodeProto, TensorProto, TypeProto

RUN = 7  # onnxruntime has no kernels for older opsets
OVERRIDABLE = 4  # from this IR version on, an initializer that is an input is a default value
NUMBERED = 6  # from this opset on, Cast names its type by a number


class TypeRewriting:
    """A change of element types in one model."""

    def __init__(self, state: State, choice: TypeChoice, *, keep_io: bool) -> None:
        self.state, self.choice, self.keep_io = state, choice, keep_io
        self.weights: Counter[int] = Counter()  # the number of constants, by old type
        self.elements: Counter[int] = Counter()  # the number of their elements, by old type
        self.casts = 0
        self.interface: list[str] = []  # inputs and outputs whose type changes for callers
        self._tensors: list[tuple[TensorProto, int]] = []
        self._inner: dict[Owned, str] = {}  # the new names inside of the model
        self._casts: dict[tuple[Scope, str, int], str] = {}
        self._added: Counter[Place] = Counter()
        self._ends: set[str] = set()

    def run(self) -> None:
        """Changes the model. Weights are converted later, when the result is written."""
        main = self.state.document.main
        inputs = [(main, name) for name in _inputs_for_callers(self.state.skeleton)]
        inputs += [(main, name) for name in main.outputs if name in main.initializers]
        outputs = [(main, name) for name in main.outputs if name in main.producers]
        self._ends = {name for _, name in (*inputs, *outputs)}
        for value in (*inputs, *outputs):
            if self._parts(value):
                self._inner[value] = self.state.document.fresh(value[1])
        for place, groups in self.choice.groups.items():
            self._rewrite(place, groups)
        for value in inputs:
            if value in self._inner:
                inside = self._inside(value)
                self._write(main, (-1,), value[1], inside, self._inner[value])
        for value in outputs:
            if value in self._inner:
                place = (main, main.producers[value[1]])
                self._after(place, self._inner[value], self._outside(value), value[1])
        self._rename_ends()
        self._declare()
        self._collect_constants()
        self.state.weights = self.state.weights.retyped(self._tensors)

    # -- the interface ---------------------------------------------------------------------------

    def _parts(self, value: Owned) -> bool:
        """Returns whether an input or output has another type for callers than for the nodes."""
        keeps_type = self.keep_io and self.choice.changes(*value)
        return keeps_type or value in self.choice.narrow_ends

    def _inside(self, value: Owned) -> int:
        start = self.choice.kinds[value]
        return self.choice.types[start] if self.choice.changes(*value) else start

    def _outside(self, value: Owned) -> int:
        start = self.choice.kinds[value]
        return start if self.choice.changes(*value) else self.choice.types[start]

    def _rename_ends(self) -> None:
        """Renames subgraph outputs that are values of outer graphs and got another name there."""
        for scope in self.state.document.scopes():
            if scope.parent is not None and isinstance(scope.proto, GraphProto):
                for output in scope.proto.output:
                    value = (scope.owner(output.name), output.name)
                    output.name = self._inner.get(value, output.name)

    # -- nodes -----------------------------------------------------------------------------------

    def _rewrite(self, place: Place, groups: list[TypeGroup]) -> None:
        scope, position = place
        node = scope.node(position)
        for group in groups:
            to = self.choice.types[group.start]
            wants = group.start if group.stays else to
            for at in group.inputs:
                node.input[at] = self._read(place, node.input[at], wants)
            for at in group.outputs:
                value = (scope.owner(node.output[at]), node.output[at])
                name, has = self._inner.get(value, value[1]), self._inside(value)
                if not group.stays:
                    name = self._bounded(place, group.start, name)
                if has == wants:
                    node.output[at] = name
                    continue
                node.output[at] = self.state.document.fresh(value[1])
                self._after(place, node.output[at], has, name)
        self._rewrite_attributes(node, groups)

    def _bounded(self, place: Place, start: int, name: str) -> str:
        """Returns a new name for an output, and adds nodes that clip it to its old type's range."""
        scope, position = place
        node = scope.node(position)
        rule = self.state.adapters.rules(Saturates).get((schemas.normal(node.domain), node.op_type))
        if rule is None or ELEMENTS[start].bits >= 8:
            return name
        limits = ELEMENTS[start].limits
        unclipped = self.state.document.fresh(name)
        bounds = [self.state.document.fresh("limit") for _ in limits]
        for limit, bound in zip(limits, bounds, strict=True):
            tensor = as_tensor(np.array(limit), self.choice.types[start])
            self._add(scope, (*self._base(place), 0), constant_node(tensor, bound))
        clip = NodeProto(op_type=rule.limit, input=[unclipped, *bounds], output=[name])
        self._add(scope, (*self._base(place), 2), clip)
        return unclipped

    def _read(self, place: Place, name: str, wants: int) -> str:
        """Returns the name of a value with the given type, after adding a Cast if needed."""
        scope, _ = place
        value = (scope.owner(name), name)
        now = self._inner.get(value, name)
        if self._inside(value) == wants:
            return now
        if value in self._inner and self._outside(value) == wants:
            return name
        cast_name = self._casts.get((scope, now, wants))
        if cast_name is None:
            cast_name = self._casts[scope, now, wants] = self.state.document.fresh(name)
            self._write(scope, (*self._base(place), 0), now, wants, cast_name)
        return cast_name

    def _after(self, place: Place, source: str, to: int, output: str) -> None:
        self._added[place] += 1
        self._write(place[0], (*self._base(place), 2, self._added[place]), source, to, output)

    def _base(self, place: Place) -> tuple[int, ...]:
        """Returns the sort key of a node, which leaves room for Casts before and after it."""
        scope, position = place
        order = scope.order.get(position)
        if order is None:
            order = scope.order[position] = (position, 1)
        return order[:-1]

    def _write(
        self, scope: Scope, order: tuple[int, ...], source: str, to: int, output: str
    ) -> None:
        """Adds a Cast."""
        self.casts += 1
        if "" not in scope.root.imports:
            self.state.document.add_import(scope.root, "", RUN)
        cast = NodeProto(op_type="Cast", input=[source], output=[output])
        if (scope.root.imports.get("") or NUMBERED) < NUMBERED:
            text = named_type(to).upper().encode()
            cast.attribute.add(name="to", type=AttributeProto.STRING, s=text)
        else:
            cast.attribute.add(name="to", type=AttributeProto.INT, i=to)
        self._add(scope, order, cast)

    def _add(self, scope: Scope, order: tuple[int, ...], node: NodeProto) -> None:
        at = len(scope.proto.node)
        scope.order[at] = (*order, at)
        scope.proto.node.append(node)

    # -- attributes ------------------------------------------------------------------------------

    def _rewrite_attributes(self, node: NodeProto, groups: list[TypeGroup]) -> None:
        led = {group.by_attribute: group for group in groups}
        for attribute in node.attribute:
            mine = [led[attribute.name]] if attribute.name in led else groups
            staying = {group.start for group in mine if group.stays}
            types = self.choice.types
            self._rewrite_attribute(attribute, {at: types[at] for at in types.keys() - staying})
        written = {attribute.name for attribute in node.attribute}
        for group in groups:
            to = self.choice.types[group.start]
            if group.stays:
                continue
            if group.by_attribute and group.by_attribute not in written:
                node.attribute.add(name=group.by_attribute, type=AttributeProto.INT, i=to)
            elif group.by_value and not written:  # the default is a zero of the old type
                zero = as_tensor(np.zeros(1), to)
                node.attribute.add(name="value", type=AttributeProto.TENSOR).t.CopyFrom(zero)

    def _rewrite_attribute(self, attribute: AttributeProto, types: Mapping[int, int]) -> None:
        if attribute.name in TYPE_ATTRIBUTES:
            if attribute.type == AttributeProto.STRING:
                number = TensorProto.DataType.Value(attribute.s.decode())
                attribute.s = named_type(types.get(number, number)).upper().encode()
            elif attribute.name not in INNER or self._leaves(attribute.i):
                attribute.i = types.get(attribute.i, attribute.i)
        elif attribute.name in NUMBERS and NUMBERS[attribute.name] in types:
            self._write_tensor(attribute)
        elif attribute.HasField("t") and attribute.t.data_type in types:
            self._change(attribute.t)
        elif attribute.HasField("sparse_tensor"):
            values = attribute.sparse_tensor.values
            if values.data_type in types:
                self._change(values)
        elif attribute.HasField("tp") and element_number(attribute.tp) in types:
            self._retype(attribute.tp)

    def _leaves(self, number: int) -> bool:
        """Returns whether an attribute with this type changes, although only the kernel uses it."""
        changes = changes_of(self.choice.types)
        return changes.get(number) is Change.WIDENS or number == T.DOUBLE

    def _write_tensor(self, attribute: AttributeProto) -> None:
        """Replaces a number of a Constant by a tensor of the new type."""
        start, value = NUMBERS[attribute.name], numbers_in(attribute)
        doc_string = attribute.doc_string
        attribute.Clear()
        attribute.name, attribute.type = "value", AttributeProto.TENSOR
        if doc_string:
            attribute.doc_string = doc_string
        attribute.t.CopyFrom(as_tensor(value, self.choice.types[start]))

    # -- constants and declarations --------------------------------------------------------------

    def _change(self, tensor: TensorProto) -> None:
        if tensor.data_type in self.choice.types:
            self.weights[tensor.data_type] += 1
            self.elements[tensor.data_type] += math.prod(tensor.dims)
            self._tensors.append((tensor, self.choice.types[tensor.data_type]))

    def _collect_constants(self) -> None:
        for scope in self.state.document.scopes():
            if isinstance(scope.proto, GraphProto):
                sparse = [sparse_tensor.values for sparse_tensor in scope.proto.sparse_initializer]
                for tensor in (*scope.proto.initializer, *sparse):
                    value = (scope, tensor.name)
                    if self.choice.changes(*value) and value not in self._inner:
                        self._change(tensor)

    def _declare(self) -> None:
        """Changes the declared types."""
        for scope in self.state.document.scopes():
            proto = scope.proto
            if not isinstance(proto, GraphProto):
                continue

            for info in (*proto.input, *proto.output, *proto.value_info):
                value = (scope.owner(info.name), info.name)
                if value not in self.choice.kinds:
                    continue
                if self.choice.changes(*value) != (value in self._inner):
                    self._retype(info.type)
                    if scope is self.state.document.main and info.name in self._ends:
                        self.interface.append(info.name)

    def _retype(self, proto: TypeProto) -> None:
        for tensor in tensors_in(proto):
            tensor.elem_type = self.choice.types.get(tensor.elem_type, tensor.elem_type)


def _inputs_for_callers(model: ModelProto) -> list[str]:
    """Returns the inputs that callers can set; up to IR 3, every weight is also an input."""
    if model.ir_version < OVERRIDABLE:
        return list(free_inputs(model.graph))
    return [info.name for info in model.graph.input]
