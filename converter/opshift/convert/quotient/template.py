# SPDX-License-Identifier: Apache-2.0
"""The template of a class: nodes with places instead of names, which are filled in for each row."""

from __future__ import annotations

import functools
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence

from opshift.convert.change import Rewritten
from opshift.convert.classes.frames import Frame, framed, take_apart
from opshift.convert.classes.nested import rename
from opshift.convert.classes.rows import GraphField
from opshift.convert.quotient.class_journal import Boundary, Deeds, Order, external
from opshift.model.bytes import wire
from opshift.model.walk import graphs_in, graphs_of, holds_graphs, nodes_inside
from opshift.model.weights.store import is_carved
from opshift.opsets.types import is_complete
from opshift.protos import NodeProto, TypeProto
from opshift.records import dataclass

INPUT, OUTPUT, FRESH, CONSTANT, NOTHING = range(5)
_NODE, _TENSOR_NAME = 1 << 3 | 2, 8 << 3 | 2
Place = tuple[int, int, int]  # the tag, what a name stands for, and which one


class Beyond(Exception):  # noqa: N818 - an answer, not an error
    """Raised if a class alone does not determine its result."""


class Vague(Beyond):
    """Raised if a class lacks only types that the whole model may tell."""


class Blocked(Beyond):
    """Raised if all that is against a result are refused classes."""


@dataclass(frozen=True, slots=True)
class Written:
    """One node of a template."""

    places: tuple[Place, ...]
    rest: bytes  # operator, attributes and domain
    hint: bytes  # of a new name
    main: bool  # whether it keeps the name and the notes of the old node
    graphs: Frame | None = None  # of the same, if the attributes hold graphs
    inside: tuple[tuple[str, int], ...] = ()  # what the names in the graphs stand for


@dataclass(frozen=True, slots=True)
class Template:
    """The nodes that replace one node, and by how much the reads of each input decrease."""

    nodes: tuple[Written, ...]
    hints: tuple[bytes, ...]  # of the new names
    constants: tuple[bytes, ...]  # tensors without names
    lost: tuple[tuple[int, int], ...]  # input, and reads
    inside: int  # nodes in the graphs of the nodes


@dataclass(frozen=True, slots=True)
class Answer:
    """The result of a conversion for the nodes of a class; no template if they stay."""

    template: Template | None
    kept: tuple[tuple[Boundary, str, int], ...]
    rewritten: tuple[tuple[Boundary, Rewritten, int], ...]
    placed: tuple[tuple[Order, bytes], ...]  # the new constants in the order of their coming
    renamed: bool
    asked_readers: bool


def _is_complete(kind: TypeProto) -> bool:
    """Whether every length in a type is a number."""
    while (which := kind.WhichOneof("value")) in ("sequence_type", "optional_type"):
        kind = getattr(kind, which).elem_type
    return is_complete(kind)


class Reader:
    """Reads the template of one class from the nodes that stand for it in the result."""

    def __init__(
        self, number: int, inputs: Sequence[bytes], constants: Mapping[str, bytes], prefix: str
    ) -> None:
        self.number = number
        self.inputs = inputs
        self.known = constants
        self.prefix = prefix
        self.fresh: dict[str, int] = {}
        self.constants: dict[str, int] = {}
        self.reads: dict[int, int] = defaultdict(int)

    def answer(self, before: NodeProto, after: list[NodeProto], deeds: Deeds) -> Answer:
        """The answer for a class."""
        template = None
        if after != [before]:
            template = self._template(before, after)
        return Answer(
            template,
            tuple((where, op, n) for (where, op), n in deeds.kept.items()),
            tuple((where, kind, n) for (where, kind), n in deeds.rewritten.items()),
            tuple(deeds.placed),
            deeds.renamed,
            deeds.asked_readers,
        )

    def _template(self, before: NodeProto, after: list[NodeProto]) -> Template:
        nodes = tuple(self._written(node) for node in after)
        if sum(node.main for node in nodes) != 1:
            raise Beyond("a node that is gone")
        lost = [(i, 1 - self.reads[i]) for i, name in enumerate(self.inputs) if name]
        hints = tuple(name.split("_", 2)[2].encode() for name in self.fresh)
        constants = tuple(self.known[name] for name in self.constants)
        inside = sum(1 for node in after for _ in nodes_inside(node))
        return Template(nodes, hints, constants, tuple((i, n) for i, n in lost if n), inside)

    def _written(self, node: NodeProto) -> Written:
        main = node.doc_string == f"k{self.number}"
        if node.name and not main and not node.name.startswith(self.prefix):
            raise Beyond("a node with a name of its own")
        places = [self._place(10, name) for name in node.input]
        places += [self._place(18, name) for name in node.output]
        if any(map(is_carved, node.attribute)):
            raise Beyond("a payload")
        rest = NodeProto(op_type=node.op_type, attribute=node.attribute)
        if not main and node.HasField("domain"):
            rest.domain = node.domain
        hint = node.name.split("_", 2)[2] if node.name and not main else ""
        if holds_graphs(node):
            self._require_told_types(node)
            read: set[int] = set()
            encoded = functools.partial(self._inside, read)
            rename(rest, encoded, encoded)
            for position in read:
                self.reads[position] += 1
            graphs, names = take_apart(rest.SerializeToString(deterministic=True))
            inside = tuple((chr(name[0]), int(name[1:])) for name in names)
            return Written(tuple(places), b"", hint.encode(), main, graphs, inside)
        data = rest.SerializeToString(deterministic=True)
        return Written(tuple(places), data, hint.encode(), main)

    def _require_told_types(self, node: NodeProto) -> None:
        """The types that a new graph declares must have no symbols, which a class does not know."""
        graphs = (graph for _, held in graphs_of(node) for graph in graphs_in(held))
        new = [graph for graph in graphs if graph.name.startswith(self.prefix)]
        declared = (one for graph in new for one in (*graph.input, *graph.output))
        if not all(_is_complete(one.type) for one in declared):
            raise Beyond("the symbols of a type in a new graph")

    def _inside(self, read: set[int], name: str) -> str:
        """The name that a template gives to a name inside a node: a letter and a number."""
        if (found := external(name)) is not None:
            if found[:2] != (self.number, "i"):
                raise Beyond("a node of two classes")
            read.add(found[2])
            return f"i{found[2]}"
        own = f"k{self.number}n"
        if name.startswith(own):
            return name[len(own) - 1 :]
        _, kind, number = self._place(0, name)
        return f"{'f' if kind == FRESH else 'c'}{number}"

    def _place(self, tag: int, name: str) -> Place:
        if not name:
            return tag, NOTHING, 0
        if (found := external(name)) is not None:
            if found[0] != self.number:
                raise Beyond("a node of two classes")
            if found[1] == "i":
                self.reads[found[2]] += 1
            return tag, INPUT if found[1] == "i" else OUTPUT, found[2]
        if name in self.known:
            return tag, CONSTANT, self.constants.setdefault(name, len(self.constants))
        if not name.startswith(self.prefix):
            raise Beyond("a name that nobody made")
        return tag, FRESH, self.fresh.setdefault(name, len(self.fresh))


def written(
    template: Template, inputs: Sequence[bytes], outputs: Sequence[bytes], prefix: bytes = b""
) -> Iterator[bytes]:
    """The nodes of a template and its constants as fields of a graph."""
    constants = [prefix + b"c%d" % number for number in range(len(template.constants))]
    fresh = [prefix + b"f%d" % number for number in range(len(template.hints))]
    sides = {INPUT: inputs, OUTPUT: outputs, FRESH: fresh, CONSTANT: constants, NOTHING: [b""]}
    for node in template.nodes:
        places = [framed(tag, sides[side][number]) for tag, side, number in node.places]
        yield framed(_NODE, b"".join([*places, node.rest]))
    for content, name in zip(template.constants, constants, strict=True):
        yield initializer(content, name)


def initializer(content: bytes, name: bytes) -> bytes:
    """A tensor without a name as a named initializer of a graph."""
    return wire.framed(GraphField.INITIALIZER, content + framed(_TENSOR_NAME, name))
