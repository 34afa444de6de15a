# SPDX-License-Identifier: Apache-2.0
"""The types and values that the outputs of a class have, by inference, folding and adapters."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from opshift.author import inference, safe_inference
from opshift.author.facts import MAX_FOLD_BYTES
from opshift.author.node import Node, TypesOnly
from opshift.author.traits import Fold, OutputRanks, OutputShapes, OutputTypes
from opshift.convert.classes.class_env import UNSURE, ClassEnv, Unsure
from opshift.convert.classes.facets import (
    CALLED,
    COMPUTED,
    EXACT,
    FOLLOWED,
    FOREIGN,
    PROVED,
    UNKNOWN,
    VARIABLE,
    Facet,
    has_rank,
    is_clear,
    is_long,
    is_static,
    may_count,
    value_of,
    without_symbols,
    zeros_like,
)
from opshift.convert.classes.nested import holds_graphs
from opshift.convert.classes.rows import Unproven, names_of
from opshift.convert.classes.shown_bytes import described, graph_input
from opshift.errors import AdapterBug
from opshift.model.arrays import from_array
from opshift.model.bytes import wire
from opshift.protos import ModelProto, NodeProto, TensorProto, TypeProto

if TYPE_CHECKING:
    from opshift.convert.classes.memo import Memo
    from opshift.convert.classes.operation import Operation

MOST_MAKERS = 50  # nodes before one of which its class consists


class OutputFacets:
    """Finds the facets of the outputs of the classes of a memo."""

    def __init__(self, known: Memo) -> None:
        self.known = known
        self._lengths: dict[int, int] = {}

    def of(self, key: tuple[int, ...]) -> tuple[int, ...]:
        """The facets of the outputs of a class: signature, inputs, then outputs as declared."""
        one = self.known.operations[key[0]]
        given = 1 + len(one.inputs)
        inputs, declared = key[1:given], key[given:]
        facets = [self.known.facets[number] for number in inputs]
        if one.calls:
            return self._of_call(key, one, facets, declared)
        kinds = self._kinds(one, facets)  # first: what is not legal is not folded
        self._require_unread(one, facets, kinds)
        folded = self._fold(one, facets)
        trust = self._trust(one, facets) | (VARIABLE if folded is None else 0)
        ranked = self._ranked(one, facets, kinds)
        kinds = self._with_declared(key, one, facets, declared, kinds)
        if one.schema is None or any(facet.trust & FOREIGN for facet in facets):
            trust |= FOREIGN  # inference knows nothing of the node, or lacks what comes from there
        value = folded if isinstance(folded, bytes) else None
        # Inference follows makers also where folding finds the value, unless all are constants.
        constant = value is not None and not any(facet.maker for facet in facets)
        maker = key[:given] if not constant and self._follows(one, inputs, ranked) else ()
        if maker and trust & EXACT:
            trust |= FOLLOWED
        found = tuple(
            [
                self._output(kind, trust | COMPUTED, more, value, maker)
                for kind, more in zip(kinds, ranked, strict=True)
            ]
        )
        if one.key == ("", "Constant"):
            found = (self._constant(one.proto, found[0]),)
        return found

    def _of_call(
        self,
        key: tuple[int, ...],
        one: Operation,
        facets: Sequence[Facet],
        declared: Sequence[int],
    ) -> tuple[int, ...]:
        """The facets of the outputs of a call, as inference of the function finds them."""
        if any(facet.trust & FOREIGN for facet in facets):
            raise Unproven("a call behind an unknown operator")
        if any(facet.long and may_count(facet.kind) for facet in facets):
            raise Unproven("a long constant that inference may read")
        kinds = self._kinds(one, facets)
        self._require_unread(one, facets, kinds)
        ranked = self._ranked_by_engine(one, facets)
        kinds = self._with_declared(key, one, facets, declared, kinds)
        if any(name and kind is None for name, kind in zip(one.proto.output, kinds, strict=True)):
            raise Unproven("a call that gives a value without a type")
        trust = self._trust(one, facets) | VARIABLE | CALLED
        untold = trust & ~PROVED & ~EXACT  # a declaration may tell it
        found = zip(kinds, ranked, strict=True)
        return tuple(
            [
                self._output(kind, trust if is_clear(more) else untold, more, None, ())
                for kind, more in found
            ]
        )

    def _with_declared(
        self,
        key: tuple[int, ...],
        one: Operation,
        facets: Sequence[Facet],
        declared: Sequence[int],
        kinds: list[bytes | None],
    ) -> list[bytes | None]:
        """The types of the outputs with what their declarations tell."""
        told = zip(declared, kinds, strict=False)  # mostly none is declared
        if not any(number and self.known.facets[number].kind != kind for number, kind in told):
            return kinds
        found = self._kinds(one, facets, declared)
        if found != kinds:
            self.known.informed.add(key)
        return found

    def _output(
        self,
        kind: bytes | None,
        trust: int,
        ranked: bytes | None,
        folded: bytes | None,
        maker: tuple[int, ...],
    ) -> int:
        if kind is not None:
            trust &= ~FOREIGN
        if not is_clear(ranked) and (kind != ranked or trust & FOREIGN):
            trust &= ~PROVED & ~EXACT  # a declaration may tell it
        if trust & PROVED and ranked is not None and is_static(ranked):
            trust |= EXACT
        return self.known.facet(kind, trust=trust, ranked=ranked, folded=folded, maker=maker)

    def _follows(
        self, operation: Operation, inputs: Sequence[int], kinds: Sequence[bytes | None]
    ) -> bool:
        """Whether a node computes numbers which inference follows: of vectors and scalars."""
        if len(kinds) != 1 or operation.signature[3] or not may_count(kinds[0]):
            return False
        if not all(self.known.facets[number].trust & PROVED for number in inputs if number):
            return False
        return 1 + sum(map(self._length, inputs)) <= MOST_MAKERS

    def _length(self, number: int) -> int:
        """How many nodes compute a value that inference follows."""
        if number not in self._lengths:
            maker = self.known.facets[number].maker
            self._lengths[number] = 1 + sum(map(self._length, maker[1:])) if maker else 0
        return self._lengths[number]

    def _fold(self, operation: Operation, facets: Sequence[Facet]) -> bytes | Unsure | None:
        """The value that folding finds, None where it finds none."""
        key, node = operation.key, operation.proto
        if key == ("", "Constant") or len(node.output) != 1:
            return UNSURE if key == ("", "Constant") else None
        rule = self.known.adapters.rules(Fold).get(key)
        if rule is None and key != ("", "Identity"):
            return None
        given = {name: facet for name, facet in zip(node.input, facets, strict=False) if name}
        env = ClassEnv(given, self.known)
        try:
            if rule is None:
                found = env.constant(node.input[0])
            elif self._lacks(rule, node, given):
                return None
            elif not self.known.folds:
                self.known.is_unfolded = True
                return UNSURE
            else:
                found = rule.value(Node(node, operation.schema, env))
        except AdapterBug:
            return UNSURE
        if env.questions:
            return UNSURE
        if found is None or found.nbytes > MAX_FOLD_BYTES:
            return None
        return value_of(from_array(found)) or UNSURE

    @staticmethod
    def _lacks(rule: Fold, node: NodeProto, given: Mapping[str, Facet]) -> bool:
        """Whether the node reads a value that is no constant and that its fold needs."""
        names = enumerate(node.input)
        return any(name and rule.needs(i) and given[name].trust & VARIABLE for i, name in names)

    def _ranked(
        self, operation: Operation, facets: Sequence[Facet], kinds: list[bytes | None]
    ) -> list[bytes | None]:
        """The types of the outputs with the ranks that adapters tell, as far as there are such."""
        proto = operation.proto
        if holds_graphs(operation.signature):
            return self._ranked_by_engine(operation, facets)
        if operation.key in self.known.adapters.rules(OutputShapes):
            return [None] * len(kinds)  # a rule corrects what inference finds
        if operation.schema is None:
            return self._told(operation, facets)
        if self._are_other(facets, kinds):
            try:
                kinds = self._kinds(operation, facets, ranked=True)
            except Unproven:
                return [None] * len(kinds)
        rule = self.known.adapters.rules(OutputRanks).get(operation.key)
        if rule is None or all(kind is not None and has_rank(kind) for kind in kinds):
            return kinds
        ranks = inference.told_ranks(rule, proto, operation.schema, _types_of(proto, facets))
        found = list(kinds)
        for i, (kind, rank) in enumerate(zip(kinds, ranks, strict=False)):
            if kind is not None and not has_rank(kind):
                known = TypeProto.FromString(kind)
                inference.give_rank(known.tensor_type, rank)
                found[i] = known.SerializeToString(deterministic=True)
        return found

    def _told(self, operation: Operation, facets: Sequence[Facet]) -> list[bytes | None]:
        """The types that adapters tell for the outputs of an operator without a schema."""
        node, rule = operation.proto, self.known.adapters.rules(OutputTypes).get(operation.key)
        found = inference.told_types(rule, node, _types_of(node, facets))
        return [without_symbols(found[name]) if name in found else None for name in node.output]

    def _ranked_by_engine(
        self, operation: Operation, facets: Sequence[Facet]
    ) -> list[bytes | None]:
        """The types of the outputs of a node with graphs, or of a call, as for a whole model."""
        graph = self._graph(operation, facets, (), ranked=True)
        data = self.known.inference.model(graph, self.known.functions.behind(operation.proto))
        model = ModelProto.FromString(data)
        known = inference.infer_all(model, self.known.adapters)
        claimed = {name for name, paths in known.assumed.items() if () in paths}
        names = operation.proto.output
        found = (None if one in claimed else known.types.get(one) for one in names)
        return [None if one is None else without_symbols(one) for one in found]

    def _are_other(self, facets: Sequence[Facet], kinds: Sequence[bytes | None]) -> bool:
        """Whether adapters may be told of the outputs otherwise than the checks."""
        follows = not all(kind is not None and is_static(kind) for kind in kinds)
        return any(
            one.kind != one.ranked or (follows and one.maker) or self._is_replaceable(one)
            for one in facets
        )

    def _is_replaceable(self, facet: Facet) -> bool:
        """Whether a caller may give another value: from IR 4 on, one of an input is a default."""
        return facet.value is not None and facet.listed and self.known.ir_version > 3

    def _kinds(
        self,
        operation: Operation,
        facets: Sequence[Facet],
        declared: Sequence[int] = (),
        *,
        ranked: bool = False,
    ) -> list[bytes | None]:
        """The types of the outputs, as strict inference finds them for one node of a class."""
        graph = self._graph(operation, facets, declared, ranked=ranked)
        foreign = not ranked and any(facet.trust & FOREIGN for facet in facets)
        functions = self.known.functions.behind(operation.proto)
        found = self.known.inference.infer(graph, functions, data_prop=ranked, foreign=foreign)
        types = {info.name: info.type for info in found.graph.value_info}
        names = operation.proto.output
        return [without_symbols(types[name]) if name in types else None for name in names]

    def _graph(
        self,
        operation: Operation,
        facets: Sequence[Facet],
        declared: Sequence[int],
        *,
        ranked: bool,
    ) -> bytes:
        """A graph with one node of a class."""
        graph: list[bytes] = []
        for name, facet in zip(operation.inputs, facets, strict=True):
            self._give(graph, name, facet, ranked=ranked)
        graph.append(operation.written)
        if declared:
            outputs = names_of(operation.signature[2], "o")
            for name, number in zip(outputs, declared, strict=False):
                if number != UNKNOWN:
                    graph.append(wire.framed(13, described(name, self.known.facets[number].kind)))
        return b"".join(graph)

    def _require_unread(
        self, operation: Operation, facets: Sequence[Facet], kinds: Sequence[bytes | None]
    ) -> None:
        """What a class does not hold of a long vector, inference must not read."""
        if not any(facet.long for facet in facets):
            return
        zeros = [zeros_like(facet) for facet in facets]
        if not any(zeros):
            return
        shown = [
            facet
            if zero is None
            else Facet(facet.kind, zero, facet.listed, facet.trust, facet.kind)
            for facet, zero in zip(facets, zeros, strict=True)
        ]
        if self._kinds(operation, shown) != kinds:
            raise Unproven("a long constant that inference reads")

    def _give(self, graph: list[bytes], name: bytes, facet: Facet, *, ranked: bool) -> None:
        """Writes an input of a class: its type, its value, or the nodes that compute it."""
        kind = facet.ranked if ranked else facet.kind
        if facet.trust & FOREIGN and not ranked:
            parts = ((2, name), (4, b"Any"), (7, safe_inference.NOBODY.encode()))
            graph.append(wire.framed(1, b"".join(wire.framed(*one) for one in parts)))
            return
        if ranked and facet.trust & FOLLOWED and facet.maker:
            raw, shape, *_ = self.known.operations[facet.maker[0]].signature
            inputs = [name + b"_" + one if one else b"" for one in names_of(shape, "i")]
            for one, number in zip(inputs, facet.maker[1:], strict=True):
                self._give(graph, one, self.known.facets[number], ranked=True)
            ends = [wire.framed(1, one) for one in inputs] + [wire.framed(2, name)]
            graph.append(wire.framed(1, b"".join([*ends, raw])))
            return
        if kind is not None and (facet.value is None or facet.listed or self.known.ir_version < 4):
            graph.append(graph_input(name, kind))
        if facet.value is not None and not (ranked and self._is_replaceable(facet)):
            graph.append(wire.framed(5, facet.value + wire.framed(8, name)))

    def _trust(self, operation: Operation, facets: Sequence[Facet]) -> int:
        """How far the types of the outputs of a class may be trusted."""
        read = [facet for facet, name in zip(facets, operation.inputs, strict=True) if name]
        if not all(facet.trust & PROVED for facet in read):
            return 0
        if all(facet.trust & EXACT and not self._may_carry(facet) for facet in read):
            return PROVED | EXACT
        return PROVED

    def _may_carry(self, facet: Facet) -> bool:
        """Whether inference of a whole model may know numbers in a value, and this one does not."""
        if facet.value is not None and not self._is_replaceable(facet):
            return False
        if not facet.trust & (COMPUTED | CALLED) or facet.trust & FOLLOWED:
            return False
        return facet.ranked is None or may_count(facet.ranked)

    def _constant(self, node: NodeProto, facet: int) -> int:
        """The facet of a Constant, with the value that inference reads from its attribute."""
        attribute = node.attribute[0]
        match attribute.name:
            case "value":
                value = attribute.t
            case "value_ints":
                value = TensorProto(
                    data_type=TensorProto.INT64,
                    dims=[len(attribute.ints)],
                    int64_data=attribute.ints,
                )
            case "value_int":
                value = TensorProto(data_type=TensorProto.INT64, int64_data=[attribute.i])
            case "value_floats":
                value = TensorProto(
                    data_type=TensorProto.FLOAT,
                    dims=[len(attribute.floats)],
                    float_data=attribute.floats,
                )
            case "value_float":
                value = TensorProto(data_type=TensorProto.FLOAT, float_data=[attribute.f])
            case _:
                raise Unproven("a Constant of a rare kind")
        kind, _, _, trust, *_ = self.known.facets[facet]
        trust &= ~FOLLOWED
        known = value_of(value)
        return self.known.facet(kind, known, trust=trust, long=is_long(value, known))


def _types_of(node: NodeProto, facets: Sequence[Facet]) -> TypesOnly:
    """What adapters are told of the types of the inputs of a node."""
    return TypesOnly(
        {
            name: TypeProto.FromString(facet.ranked)
            for name, facet in zip(node.input, facets, strict=True)
            if name and facet.ranked is not None
        }
    )
