# SPDX-License-Identifier: Apache-2.0
"""Checks nodes by their schemas: kept nodes by the new schema, and others before an adapter."""

from __future__ import annotations

from opshift.author import fit
from opshift.author.node import Node, TypePart
from opshift.author.present_types import tokens
from opshift.codes.refusals import Why
from opshift.errors import InvalidModel, Refusal
from opshift.opsets import described, schemas
from opshift.opsets.schemas import Param, Schema
from opshift.records import dataclass


@dataclass(frozen=True, slots=True)
class Guard:
    """The checks of a kept node that follow from the old and the new schema of its operator."""

    old: Schema
    new: Schema
    lost: dict[str, frozenset[str]]  # parameter -> types that only the old schema accepts
    lost_attributes: frozenset[str]
    lost_inputs: frozenset[str]
    fewer_outputs: bool

    def lost_in(self, present: frozenset[str]) -> frozenset[str]:
        """Returns the types that only the old schema accepts and that can occur in the model."""
        every = frozenset().union(*self.lost.values())
        return frozenset(t for t in every if tokens(t) <= present)

    @property
    def _entered(self) -> str:
        """The operator and its version after the step, such as `Relu-6`."""
        return f"{self.new.name}-{self.new.since}"

    @property
    def structural(self) -> bool:
        """Whether the new schema lacks attributes, inputs or outputs of the old schema."""
        return bool(self.lost_attributes or self.lost_inputs or self.fewer_outputs)

    def check_types(self, node: Node, possible: frozenset[str]) -> None:
        """Refuses a node with an element type that the new schema does not accept."""
        ends = self.old.ends(node.inputs, node.outputs)
        touched = [(value, param, value.type_text) for value, param in ends]
        bound = {p.variable: text for _, p, text in touched if text and not p.variadic}
        for value, param, text in touched:
            lost = self.lost.get(param.name, frozenset()) & possible
            if not lost:
                continue
            text = text or bound.get(param.variable)
            if text is None:
                raise Refusal(
                    Why.NEEDS_TYPE,
                    f"the element type of {value.name!r} is unknown, and {self._entered} does not"
                    f" accept {' or '.join(sorted(lost))}",
                )
            if text in lost:
                raise Refusal(
                    Why.TYPE_NOT_AVAILABLE,
                    f"{self._entered} does not accept {text}, the type of {value.name!r}",
                )

    def touches(self, node: Node) -> bool:
        """Returns whether a node has an attribute, input or output that the new schema lacks."""
        if any(name in node.attributes for name in self.lost_attributes):
            return True
        inputs, outputs = len(node.proto.input), len(node.proto.output)
        return 0 <= self.new.max_input < inputs or 0 <= self.new.max_output < outputs

    def check_structure(self, node: Node) -> None:
        """Refuses a node that needs an attribute, input or output that the new schema lacks."""
        for name in sorted(self.lost_attributes & node.attributes.keys()):
            proto = node.attributes[name]
            value = node.attr(name) if not proto.ref_attr_name else None
            value = value.decode() if isinstance(value, bytes) else value
            default = self.old.attributes[name].default
            if proto.ref_attr_name or value != default:
                from opshift.protos.whole import helper

                shown = helper.printable_attribute(proto)
                raise Refusal(Why.NOT_EXPRESSIBLE, f"{self._entered} has no attribute {shown}")
        for name in sorted(self.lost_inputs):
            if node.input(name) is not None:
                raise Refusal(Why.NOT_EXPRESSIBLE, f"{self._entered} has no input {name!r}")
        if 0 <= self.new.max_output < node.n_outputs:
            raise Refusal(
                Why.NOT_EXPRESSIBLE,
                f"{self._entered} has at most {self.new.max_output} outputs, and the node has"
                f" {node.n_outputs}",
            )


def require_fit(node: Node) -> None:
    """Raises if a node does not fit its schema, unless onnx's checker and inference find this."""
    schema, env = node.schema, node.env
    if schema is None or not (schema.open or schemas.is_documented(schema.domain)):
        return

    def type_of(name: str) -> str | None:
        return schemas.type_name(env.type(name, TypePart.ELEMENT))

    for fault in fit.faults(node.proto, schema, type_of):
        raise InvalidModel(fault)
    for misfit in fit.unfit_types(node.proto, schema, type_of):
        fault = f"{node.op} reads {misfit.name!r} of type {misfit.kind}, which its adapter does"
        raise Refusal(Why.UNSUPPORTED_FIELD, f"{fault} not support")


@described.remembered
def derive(domain: str, op: str, start: int, to: int) -> Guard | None:
    """Returns the checks between two versions, or None if a version has no complete schema."""
    old, new = schemas.schema(domain, op, start), schemas.schema(domain, op, to)
    if old is None or new is None or not (old.stated and new.stated):
        return None
    lost: dict[str, frozenset[str]] = {}
    for before, after in ((old.inputs, new.inputs), (old.outputs, new.outputs)):
        for i, param in enumerate(before):
            twin = _twin(param, i, after)
            if twin is not None and param.types - twin.types:
                lost[param.name] = lost.get(param.name, frozenset()) | (param.types - twin.types)
    names = {p.name for p in new.inputs}
    return Guard(
        old,
        new,
        lost,
        frozenset(old.attributes) - frozenset(new.attributes),
        frozenset(p.name for p in old.inputs[len(new.inputs) :] if p.name not in names),
        0 <= new.max_output < old.max_output or (new.max_output >= 0 > old.max_output),
    )


def _twin(param: Param, position: int, params: tuple[Param, ...]) -> Param | None:
    for param_of_later in params:
        if param_of_later.name == param.name:
            return param_of_later
    return params[position] if position < len(params) else None
