# SPDX-License-Identifier: Apache-2.0
"""Draws rewritten nodes, with one drawing for all places with equal operators and connections."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import field
from math import prod
from typing import Any, TypeAlias

from opshift.model.arrays import to_array
from opshift.model.rewrites import Body, RewrittenPlace, rewrites
from opshift.model.weights import Weights
from opshift.opsets import schemas
from opshift.page import drawing_changes
from opshift.page.drawing import Box, Drawing, End
from opshift.page.drawing_changes import VARIES
from opshift.page.page_parts import BeforeAfter, NameList
from opshift.protos import AttributeProto, ModelProto, NodeProto, TensorProto, helper
from opshift.records import dataclass
from opshift.text import counted, qualified

SMALL = 8  # the most elements of a tensor that are shown
FORMS = 40  # the most drawings on one page

_PLAIN = (
    AttributeProto.FLOAT, AttributeProto.INT, AttributeProto.STRING, AttributeProto.FLOATS,
    AttributeProto.INTS, AttributeProto.STRINGS,
)  # fmt: skip

Key: TypeAlias = tuple[Any, ...]


@dataclass(slots=True)
class DrawnForm:
    """Equal rewrites in a model: a drawing of the first place, and the names of all places."""

    before: Drawing
    after: Drawing
    places: list[str] = field(default_factory=list)

    def pair(self) -> BeforeAfter:
        """Returns the drawing before and after the rewrite, as a part of a page."""
        before, after = drawing_changes.marked(self.before, self.after)
        return BeforeAfter(
            drawing_changes.title(self.before, self.after),
            f"{counted(len(self.places), 'place')} of this kind"
            + (", of which the first is shown." if len(self.places) > 1 else "."),
            before,
            after,
            NameList(counted(len(self.places), "node"), self.places),
        )  # fmt: skip


def forms(before: ModelProto, after: ModelProto) -> list[DrawnForm]:
    """Returns the drawings of rewritten places, the most frequent first."""
    drawings: dict[Key, DrawnForm] = {}
    for rewrite in rewrites(before, after):
        names: dict[str, int] = {}
        left, right = _draw(rewrite.before, rewrite.removed), _draw(rewrite.after, rewrite.written)
        key = (_shape(left, names), _shape(right, names))
        form = drawings.setdefault(key, DrawnForm(left, right))
        form.before, form.after = _merged(form.before, left), _merged(form.after, right)
        form.places.append(_where(rewrite))
    return sorted(drawings.values(), key=lambda form: -len(form.places))


def _where(place: RewrittenPlace) -> str:
    """Returns a name for a rewritten place: that of its first node, or of the first output."""
    node = next(iter((*place.removed, *place.written)))
    inside = f" in {place.before.container.name}" if place.before.parent else ""
    return f"{node.name or next(filter(None, node.output), 'unnamed')}{inside}"


def _shape(drawing: Drawing, names: dict[str, int]) -> Key:
    """Returns a key that equal drawings share: operators and connections, not names and values."""
    inputs = tuple(names.setdefault(name, len(names)) for name in drawing.inputs)
    outputs = tuple((names.setdefault(name, len(names)), box) for name, box in drawing.outputs)
    boxes = tuple((box.op, tuple(name for name, _ in box.holds)) for box in drawing.boxes)
    return boxes, inputs, outputs, drawing.wires


def _merged(first: Drawing, second: Drawing) -> Drawing:
    """Returns a drawing for two places, in which values that differ are marked."""
    boxes = []
    for mine, its in zip(first.boxes, second.boxes, strict=True):
        pairs = zip(mine.holds, its.holds, strict=True)
        holds = ((name, value if value == new else VARIES) for (name, value), (_, new) in pairs)
        boxes.append(Box(mine.op, tuple(holds), mine.inputs))
    return Drawing(tuple(boxes), first.inputs, first.wires, first.outputs)


def _draw(side: Body, nodes: Sequence[NodeProto]) -> Drawing:
    writers = {name: i for i, node in enumerate(nodes) for name in node.output if name}
    inputs: dict[str, int] = {}
    wires: list[tuple[End, int]] = []
    boxes = []
    for number, node in enumerate(nodes):
        schema = _schema(side, node)
        holds = [*_attributes(node)]
        attributes = len(holds)
        for position, name in enumerate(node.input):
            if not name:
                continue
            if name in writers:
                wires.append(((True, writers[name]), number))
            elif (value := _constant(side, name)) is not None:
                formal = schema.input_at(position) if schema else None
                holds.append((formal.name if formal else f"input {position + 1}", value))
            else:
                wires.append(((False, inputs.setdefault(name, len(inputs))), number))
        op = qualified(schemas.normal(node.domain), node.op_type)
        inputs_held = frozenset(name for name, _ in holds[attributes:])
        boxes.append(Box(op, tuple(holds), inputs_held))
    return Drawing(tuple(boxes), tuple(inputs), tuple(wires), tuple(_outputs(nodes)))


def _schema(side: Body, node: NodeProto) -> schemas.Schema | None:
    domain = schemas.normal(node.domain)
    version = side.imports.get(domain)
    return schemas.schema(domain, node.op_type, version) if version else None


def _outputs(nodes: Sequence[NodeProto]) -> Iterator[tuple[str, int]]:
    """Yields the values of a place that none of its nodes reads."""
    read = {name for node in nodes for name in node.input}
    for number, node in enumerate(nodes):
        for name in node.output:
            if name and name not in read:
                yield name, number


def _attributes(node: NodeProto) -> Iterator[tuple[str, str]]:
    for attribute in node.attribute:
        yield attribute.name, _value(attribute)


def _value(attribute: AttributeProto) -> str:
    """Returns an attribute's value as a short text."""
    if attribute.ref_attr_name:
        return f"the attribute {attribute.ref_attr_name} of the function"
    if attribute.HasField("t"):
        return _tensor(attribute.t)
    if attribute.HasField("g"):
        return counted(len(attribute.g.node), "node")
    return _short(helper.get_attribute_value(attribute)) if attribute.type in _PLAIN else "…"


def _short(value: Any) -> str:
    if isinstance(value, bytes):
        return value.decode(errors="replace")
    if isinstance(value, float):
        return f"{value:.6g}"
    if isinstance(value, str) or not isinstance(value, Iterable):
        return str(value)
    listed = list(value)
    shown = [_short(item) for item in listed[:SMALL]]
    return f"[{', '.join([*shown, '…'] if len(listed) > SMALL else shown)}]"


def _constant(side: Body, name: str) -> str | None:
    """Returns the value of an initializer or constant as text, or None for a computed value."""
    constant = side.constant(name)
    if isinstance(constant, TensorProto):
        return _tensor(constant)
    if constant is None:
        return None
    return next((value for _, value in _attributes(constant)), "…")


def _tensor(tensor: TensorProto) -> str:
    """Returns the numbers of a small tensor, or the type and shape of a large tensor."""
    element = schemas.element_name(tensor.data_type)
    kind = element.removeprefix("tensor(").removesuffix(")") if element else "tensor"
    shape = f"{kind}[{', '.join(map(str, tensor.dims))}]"
    if not element or prod(tensor.dims) > SMALL or Weights.is_stub(tensor):
        return shape
    return _short(to_array(tensor).tolist())
