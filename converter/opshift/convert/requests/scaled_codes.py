# SPDX-License-Identifier: Apache-2.0
"""Writes products and quotients for nodes that scale codes of floats, such as float8."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from opshift.author.traits import Saturates, Scales
from opshift.convert.requests.known_branches import constant_node
from opshift.convert.state import State
from opshift.lazy import deferred
from opshift.model.arrays import as_tensor
from opshift.model.replace import Replacement, replace_nodes
from opshift.model.scope import Key, Place, Scope
from opshift.model.sweep import sweep
from opshift.opsets.elements import ELEMENTS, T
from opshift.opsets.types import dims_of, rank_of, tensors_in
from opshift.protos import AttributeProto, NodeProto, TypeProto

np = deferred("numpy")


def write_scaled(state: State, types: Mapping[int, int]) -> None:
    """Writes the operators on such codes that get a wider type, except those in blocks."""
    found = [
        Replacement(place, nodes, nodes[-1])
        for root in state.document.roots
        for key, rule in state.adapters.rules(Scales).items()
        for place in root.index.get(key, ())
        if (nodes := list(_Scaled(state, place, key, rule, types).nodes()))
    ]
    if found:
        replace_nodes(state.document, found)
        sweep(state.document)
        state.document.sort()
        state.reopen()


class _Scaled:
    """One node whose codes are floats."""

    def __init__(
        self, state: State, place: Place, key: Key, rule: Scales, types: Mapping[int, int]
    ) -> None:
        self.state, self.key, self.rule, self.types = state, key, rule, types
        self.scope: Scope = place[0]
        self.node = self.scope.node(place[1])
        self.made: list[NodeProto] = []

    def nodes(self) -> Iterator[NodeProto]:
        """The nodes in the place of this one; none if it stays."""
        data, scale, *zero = self.node.input
        (output,) = self.node.output
        read, given = self._kind(data), self._kind(output)
        codes = read if self.rule.reads_codes else given
        kept = self._attribute("block_size", 0) or not self._is_zero(*zero)
        if codes not in self.types or not ELEMENTS[codes].is_float8 or kept:
            return
        inner, factor = self._kind(scale), self._factor(data, scale)
        if factor is None or (not self.rule.reads_codes and read != inner):
            return
        if self.rule.reads_codes:
            data = self._cast(data, inner)
        self._add(self.rule.by, [data, factor])
        if not self.rule.reads_codes and self._attribute("saturate", 1):
            self._bound(codes, inner)
        if given == inner:
            self.made[-1].output[0] = output
        else:
            self._cast(self.made[-1].output[0], given, output)
        yield from self.made

    def _factor(self, data: str, scale: str) -> str | None:
        """The scale in a shape that broadcasts to the data; None if its axis is not known."""
        shape, rank = dims_of(self._type(scale)), rank_of(self._type(data))
        if rank_of(self._type(scale)) is None or rank is None:
            return None
        if not shape or (shape == (1,) and rank):
            return scale
        axis = self._attribute("axis", 1)
        behind = rank - 1 - axis if axis >= 0 else -axis - 1
        return self._add(self.rule.shapes, [scale, self._constant([-1, *[1] * behind], T.INT64)])

    def _bound(self, codes: int, kind: int) -> None:
        """Bounds a quotient as its codes are bounded."""
        bounds = [self._constant(one, kind) for one in ELEMENTS[codes].finite]
        ratio = next(one for one in self.made if one.op_type == self.rule.by)
        rule = self.state.adapters.rules(Saturates)[self.key]
        self._add(rule.limit, [ratio.output[0], *bounds])

    # -- nodes and values --------------------------------------------------------------------------

    def _add(self, op: str, inputs: list[str], **attributes: int) -> str:
        made = NodeProto(op_type=op, input=inputs, output=[self.state.document.fresh(op)])
        for name, value in attributes.items():
            made.attribute.add(name=name, type=AttributeProto.INT, i=value)
        self.made.append(made)
        return str(made.output[0])

    def _cast(self, name: str, to: int, output: str = "") -> str:
        made = self._add("Cast", [name], to=to)
        if output:
            self.made[-1].output[0] = output
        return output or made

    def _constant(self, value: object, kind: int) -> str:
        name = self.state.document.fresh("number")
        self.made.append(constant_node(as_tensor(np.array(value), kind), name))
        return name

    def _attribute(self, name: str, default: int) -> int:
        return next((one.i for one in self.node.attribute if one.name == name), default)

    def _type(self, name: str) -> TypeProto:
        return self.state.facts.type(self.scope, name) or TypeProto()

    def _kind(self, name: str) -> int:
        return next((one.elem_type for one in tensors_in(self._type(name))), 0)

    def _is_zero(self, name: str = "") -> bool:
        """Whether a zero point is left out or a constant of zeros."""
        value = self.state.facts.constant(self.scope, name) if name else np.zeros(1)
        return value is not None and not np.asarray(value, np.float32).any()
