# SPDX-License-Identifier: Apache-2.0
"""Whether onnx's full check has nothing against a large model, found class by class."""

from __future__ import annotations

import functools
import itertools
from collections import Counter
from typing import NamedTuple

from google.protobuf.message import DecodeError

from opshift.author import safe_inference
from opshift.author.registry import Registry
from opshift.convert.classes import FEWEST_NODES, rows
from opshift.convert.classes.facets import UNKNOWN
from opshift.convert.classes.local_functions import FIELD, LocalFunctions
from opshift.convert.classes.memo import Memo, memo
from opshift.convert.classes.nested import Nested, holds_graphs, nested
from opshift.convert.classes.node_class import NodeClass
from opshift.convert.classes.rows import (
    FORM,
    LARGE,
    GraphField,
    Others,
    Rows,
    Unordered,
    Unproven,
)
from opshift.model.bytes import wire
from opshift.model.functions import MOST_NODES
from opshift.model.scope import call_id
from opshift.protos import ModelProto, onnx_checker


class ClassBudget(NamedTuple):
    """How many new operations a model may bring: some, and one for every so many nodes."""

    operations: int
    nodes: int
    kinds: int = 1  # so many times as many classes, which tell the types of the inputs, too

    def of(self, count: int) -> int:
        """The budget of a model of so many nodes."""
        return self.operations + count // self.nodes


TO_CHECK = ClassBudget(64, 32)
ANY = ClassBudget(0, 1)

# Fields of a model and of a graph, by number.
_GRAPH, _TRAINING = 7, 20
_NAME = GraphField.NAME


def proves(data: bytes, adapters: Registry, *, at_any_cost: bool = False) -> bool:
    """Whether `onnx.checker.check_model(data, full_check=True)` is sure to pass.

    False says nothing: the model is small or has many new classes (unless the cost does not
    matter), it holds what is not understood here, or onnx has an objection, which it must word.
    """
    try:
        if at_any_cost:
            prove(data, adapters, budget=ANY)
        else:
            prove(data, adapters, fewest=FEWEST_NODES)
    except Unproven:
        return False
    return True


def prove(
    data: bytes,
    adapters: Registry,
    *,
    fewest: int = 0,
    budget: ClassBudget = TO_CHECK,
    to_convert: bool = False,
    carved: bool = True,
) -> Proof:
    """The proof that onnx's full check would pass; where there is none, `Unproven` tells why.

    Of a model `to_convert` the payloads of tensors may be elsewhere, and it may use operators that
    the checker rejects and a conversion replaces. One that is not `carved` has no large payloads.
    """
    made = Proof(data, adapters, budget, to_convert=to_convert)
    try:
        made.look(fewest, carved=carved)
    except (wire.Malformed, DecodeError, IndexError, UnicodeDecodeError):
        raise Unproven(FORM) from None
    return made


class Proof:
    """The classes of the nodes of a model, and of each class that onnx has nothing against it."""

    memo: Memo
    generation: dict[tuple[int, ...], NodeClass]  # of the memo: its numbers mean this
    rows: Rows
    others: Others
    head: list[tuple[int, int, int, int]]  # the number, start, body and end of each field
    graph: tuple[int, int]  # where it begins and ends
    shown: ModelProto  # without nodes, tensors and outputs

    def __init__(
        self, data: bytes, adapters: Registry, budget: ClassBudget, *, to_convert: bool
    ) -> None:
        self.adapters = adapters
        self.budget = budget
        self.to_convert = to_convert
        self.noted = False  # whether something has metadata
        self.data = data
        self.values: dict[bytes, int] = {b"": UNKNOWN}
        self.declared: dict[bytes, int] = {}
        self.classes: list[NodeClass] = []  # of each node
        self.nested: dict[int, Nested] = {}  # the nodes with graphs, by row

    @functools.cached_property
    def kinds(self) -> dict[NodeClass, None]:
        """The classes of the nodes, in the order of their first nodes."""
        return dict.fromkeys(self.classes)

    @functools.cached_property
    def facets(self) -> frozenset[int]:
        """The facets of the values of the model, without that of an input left out."""
        return frozenset(itertools.islice(self.values.values(), 1, None))  # its name comes first

    @property
    def nodes(self) -> int:
        """The nodes of the model, those inside others included."""
        return len(self.classes) + sum(one.nodes for one in self.nested.values())

    def look(self, fewest: int, *, carved: bool) -> None:
        """Looks at every node; nothing may be wrong."""
        self.graph = self._find_graph()
        parts = rows.split(self.data, *self.graph)
        if len(parts.nodes) < max(1, fewest):
            raise Unproven("few nodes")
        large = parts.large or any(
            number == FIELD and end - body > wire.THRESHOLD for number, _, body, end in self.head
        )
        if not carved and large and wire.has_payloads(self.data):
            raise Unproven(LARGE)
        self.others = parts.others
        self.rows = rows.read(self.data, parts)
        self.memo = known = self._check_head(parts.others)
        with known.lock:
            known.make_ready()
            outputs = self._declarations(known, parts.others)
            self._initializers(known, parts.others)
            self._take_names_out()
            self._nodes(known, self.rows)
            self._require_few_behind_calls(known)
            self.generation = known.classes
            noted = known.noted or self.rows.noted
            self.noted = noted or any(one.noted for one in self.nested.values())
        self._require_text()
        inside = [name for one in self.nested.values() for name in one.values]
        if not all(name in self.values for name in outputs):
            raise Unproven("an output that nothing computes")
        if not (self.values.keys() | self.declared.keys()).isdisjoint(inside):
            raise Unproven("a name inside of nodes that means two things")

    def _take_names_out(self) -> None:
        """Reads the nodes with graphs; a name inside them must mean one thing in the model."""
        found = self.rows
        holders = {kind for kind, key in enumerate(found.signatures) if holds_graphs(key)}
        if not holders:
            return
        self.nested = {
            row: nested(found.signatures[kind])
            for row, kind in enumerate(found.kinds)
            if kind in holders
        }
        values = [name for one in self.nested.values() for name in one.values]
        graphs = [name for one in self.nested.values() for name in one.graphs]
        graphs += [self.data[body:end] for _, body, end in self.others.get(_NAME, ())]
        graphs += self.memo.functions.graphs
        if len(set(values)) != len(values) or len(set(graphs)) != len(graphs):
            raise Unproven("a name inside of nodes that means two things")
        self.rows = found.with_graphs(self.nested)

    def _find_graph(self) -> tuple[int, int]:
        """Files the fields of the model; answers where its one graph begins and ends."""
        self.head = [
            (tag >> 3, start, body, end)
            for start, tag, body, end, _ in wire.fields(self.data, 0, len(self.data))
        ]
        graphs = [(body, end) for number, _, body, end in self.head if number == _GRAPH]
        if any(number == _TRAINING for number, *_ in self.head):
            raise Unproven("training")
        if len(graphs) != 1:
            raise Unproven("no graph, or several")
        return graphs[0]

    def _check_head(self, others: Others) -> Memo:
        """Shows the model to the checker without nodes, tensors and outputs."""
        if GraphField.SPARSE in others:
            raise Unproven("sparse initializers")
        graph = [
            self.data[start:end]
            for number, spans in others.items()
            if number not in (GraphField.INITIALIZER, GraphField.OUTPUT, GraphField.VALUE_INFO)
            for start, _, end in spans
        ]
        head = [self.data[at:end] for number, at, _, end in self.head if number != _GRAPH]
        model = b"".join([*head, wire.framed(_GRAPH, b"".join(graph))])
        shown = self.shown = ModelProto.FromString(model)
        functions = LocalFunctions.of(shown)  # before the checker, which follows all calls
        try:
            onnx_checker.check_model(model)
        except safe_inference.COMPLAINTS:
            raise Unproven("an objection to what is around the nodes") from None
        imports = tuple((one.domain, one.version) for one in shown.opset_import)
        if any(domain == "ai.onnx" for domain, _ in imports):
            raise Unproven("a domain by another name")
        if len(dict(imports)) != len(imports):
            raise Unproven("two imports of one domain")
        if not 0 < shown.ir_version <= onnx_checker.LARGEST_VERSION:
            raise Unproven("an unknown IR version")
        return memo(imports, shown.ir_version, self.adapters, functions)

    def _declarations(self, known: Memo, others: Others) -> list[bytes]:
        """Files the types of inputs, values and outputs; answers the names of the outputs."""
        outputs = []
        values, declared, told = self.values, self.declared, known.declared
        for number in (GraphField.INPUT, GraphField.OUTPUT, GraphField.VALUE_INFO):
            for _, body, end in others.get(number, ()):
                info = self.data[body:end]
                name, facet = told(info)
                if number == GraphField.OUTPUT:
                    outputs.append(name)
                    known.checks.output(info)
                if facet is not None and declared.setdefault(name, facet) != facet:
                    raise Unproven("two declarations of a value")
                if number == GraphField.INPUT:
                    values[name] = UNKNOWN if facet is None else known.input(facet)
        if len(set(outputs)) != len(outputs):
            raise Unproven("an output twice")
        return outputs

    def _initializers(self, known: Memo, others: Others) -> None:
        inputs = set(self.values)
        seen = set[bytes]()
        for _, body, end in others.get(GraphField.INITIALIZER, ()):
            name, facet = known.initializer(self.data[body:end], stubs=self.to_convert)
            if not name or name in seen or (known.ir_version < 4 and name not in inputs):
                raise Unproven("a wrong name of an initializer")
            seen.add(name)
            if name in self.declared:
                facet = known.declared_initializer(self.declared[name], facet, name in inputs)
            elif name in inputs:
                raise Unproven("an input without a type that has a value")
            self.values[name] = facet

    def _nodes(self, known: Memo, found: Rows) -> None:
        """Order, single assignment and types of all nodes."""
        budget = self.budget.of(len(found.kinds))
        if sum(key not in known.signatures for key in found.signatures) > budget:
            raise Unproven("many new classes")
        numbers = [known.signature(key) for key in found.signatures]
        if not self.to_convert and not known.retired.isdisjoint(numbers):
            raise Unproven("an operator that a conversion replaces")
        self._walk(known, found, numbers, len(known.classes) + self.budget.kinds * budget)

    def _require_few_behind_calls(self, known: Memo) -> None:
        """The calls must not stand for more nodes than any tool can follow."""
        sizes, operations = known.functions.sizes, known.operations
        counts = Counter(one.signature for one in self.classes) if sizes else Counter[int]()
        called = {number: call_id(operations[number].proto) for number in counts}
        behind = sum(sizes.get(called[number], 0) * count for number, count in counts.items())
        if behind > MOST_NODES:
            raise Unproven("calls that stand for many nodes")

    @property
    def calls(self) -> list[NodeClass]:
        """The classes of the nodes that call functions."""
        operations = self.memo.operations
        return [one for one in self.kinds if operations[one.signature].calls]

    def _walk(self, known: Memo, found: Rows, numbers: list[int], most: int) -> None:
        values, declared, classes = self.values, self.declared, known.classes
        inputs, outputs, add = found.inputs, found.outputs, self.classes.append
        at = out_at = 0
        for signature, end, out_end in zip(
            map(numbers.__getitem__, found.kinds),
            found.input_ends,
            found.output_ends,
            strict=True,
        ):
            row: tuple[int, ...]
            try:  # for every node: most have one or two inputs, and one output
                if end - at == 2:
                    row = (signature, values[inputs[at]], values[inputs[at + 1]])
                elif end - at == 1:
                    row = (signature, values[inputs[at]])
                else:
                    row = (signature, *[values[name] for name in inputs[at:end]])
            except KeyError:
                raise Unordered("the order of the nodes") from None
            at = end
            if out_end - out_at == 1:
                name = outputs[out_at]
                if name in declared:
                    row += (declared[name],)
                one = classes.get(row) or self._learn(known, row, most)
                if name in values:
                    raise Unproven("a value that is written twice")  # written twice, or left out
                values[name] = one.outputs[0]
            else:
                names = outputs[out_at:out_end]
                if not declared.keys().isdisjoint(names):
                    row += tuple([declared.get(name, UNKNOWN) for name in names])
                one = classes.get(row) or self._learn(known, row, most)
                for name, facet in zip(names, one.outputs, strict=True):
                    if name and name in values:
                        raise Unproven("a value that is written twice")
                    values[name] = facet if name else UNKNOWN
            out_at = out_end
            add(one)

    def _require_text(self) -> None:
        """Names are UTF-8; a conversion node by node refuses others where it looks at them."""
        data, found, shown = self.data, self.rows, self.shown
        if not all(isinstance(text, str) for text in (shown.domain, shown.graph.name)):
            raise Unproven("a name that is not UTF-8")
        fields = [data[at:end] for at, end in zip(found.name_starts, found.name_ends, strict=True)]
        if b"".join(self.values).isascii() and b"".join(fields).isascii():
            return
        names = [one[wire.read_varint(one, 1)[1] :] for one in fields if one]  # behind their sizes
        try:
            for name in (*self.values, *names):
                name.decode()
        except UnicodeDecodeError:
            raise Unproven("a name that is not UTF-8") from None

    def _learn(self, known: Memo, row: tuple[int, ...], most: int) -> NodeClass:
        if len(known.classes) >= most:
            raise Unproven("many new classes")
        return known.learn(row)
