# SPDX-License-Identifier: Apache-2.0
"""What onnx said of each class of nodes, kept for the next model with the same imports."""

from __future__ import annotations

import threading
from collections.abc import Hashable, Mapping, Sequence
from typing import Any, NamedTuple

from opshift.author import inference, safe_inference
from opshift.author.facts import MAX_FOLD_BYTES
from opshift.author.node import Node, TypesOnly
from opshift.author.present_types import element_types
from opshift.author.registry import Registry
from opshift.author.traits import Fold, Fragile, Illegal, OutputRanks, OutputShapes, OutputTypes
from opshift.convert.classes.class_env import UNSURE, ClassEnv, Unsure
from opshift.convert.classes.facets import (
    COMPUTED,
    EXACT,
    FOLLOWED,
    FOREIGN,
    INPUT,
    PROVED,
    VARIABLE,
    Facet,
    has_rank,
    is_clear,
    is_static,
    may_count,
    value_of,
    without_symbols,
    zeros_like,
)
from opshift.convert.classes.nested import holds_graphs
from opshift.convert.classes.rows import Signature, Unproven, inputs_of, names_of
from opshift.convert.classes.shown_bytes import (
    around_name,
    bare_tensor,
    checkable,
    described,
    graph_input,
    named,
    without_places,
)
from opshift.errors import AdapterBug, InvalidModel
from opshift.model.arrays import from_array
from opshift.model.bytes import wire
from opshift.model.bytes.external import location_of, require_inside
from opshift.model.illegible import illegible
from opshift.model.walk import nodes_inside
from opshift.model.weights.store import Weights
from opshift.opsets import schemas
from opshift.protos import (
    ModelProto,
    NodeProto,
    TensorProto,
    TypeProto,
    ValueInfoProto,
    helper,
    onnx_checker,
)
from opshift.protos.shape_inference import infer_shapes

Imports = tuple[tuple[str, int], ...]

DOMAINS = frozenset({"", "ai.onnx.ml", "ai.onnx.training", "ai.onnx.preview.training"})
UNKNOWN = 0  # the facet of a value of which nothing is known, and of an input left out
MOST_CLASSES = 4000  # for each set of imports; then the memo begins anew
MOST_CLASSES_IN_ALL = 50_000  # then the memo that was used least recently goes
MOST_MEMOS = 256
MOST_MAKERS = 50  # nodes before one of which its class consists
_NO_NAMES = onnx_checker.LexicalScopeContext()
_MARK = wire.MARK.encode()
_OF_NOBODY = wire.framed(7, safe_inference.NOBODY.encode())  # the last domain counts


_memos: dict[Hashable, Memo] = {}  # the one that was used last is the last one
_memos_lock = threading.Lock()


def memo(imports: Imports, ir_version: int, adapters: Registry) -> Memo:
    """The memo of models with these imports and this IR version, for these adapters."""
    key = (imports, ir_version, adapters, adapters.generation)
    with _memos_lock:
        found = _memos.pop(key, None) or Memo(imports, ir_version, adapters)
        _memos[key] = found
        if found.counted != len(found.classes):
            found.counted = len(found.classes)
            _make_room()
    return found


def _make_room() -> None:
    """Forgets the memos that were used least recently, if all of them hold too much."""
    known = sum(len(one.classes) for one in _memos.values())
    while len(_memos) > 1 and (known > MOST_CLASSES_IN_ALL or len(_memos) > MOST_MEMOS):
        known -= len(_memos.pop(next(iter(_memos))).classes)


def forget() -> None:
    """Forgets every memo."""
    with _memos_lock:
        _memos.clear()


class Operation(NamedTuple):
    """What a memo knows of a signature."""

    signature: Signature
    proto: NodeProto
    key: tuple[str, str]  # the domain and the name of the operator
    schema: schemas.Schema | None
    inputs: tuple[bytes, ...]  # the names of what it reads
    written: bytes  # the node as a field of a graph


class Memo:
    """Facets (types with small values), signatures (nodes without names) and classes.

    A class is a signature with the facets of its inputs and the declared facets of its outputs.
    The lock is for whoever adds; a number, once given, means one thing until `renew`.
    """

    def __init__(self, imports: Imports, ir_version: int, adapters: Registry) -> None:
        self.adapters = adapters
        self.imports = imports
        self.versions = dict(imports)
        self.ir_version = ir_version
        self.lock = threading.Lock()
        self.noted = False  # whether the values of the model at hand have metadata
        self.counted = -1  # its classes when all memos were counted
        self.context = onnx_checker.CheckerContext()
        self.context.ir_version = ir_version
        self.context.opset_imports = {
            safe_inference.NOBODY: 1,
            **{d: min(v, onnx_checker.LARGEST_VERSION) for d, v in imports},
        }
        head = ModelProto(ir_version=ir_version)
        for domain, version in imports:
            head.opset_import.add(domain=domain, version=version)
        self._head = head.SerializeToString()
        head.opset_import.add(domain=safe_inference.NOBODY, version=1)
        self._foreign_head = head.SerializeToString()
        self.renew()

    def renew(self) -> None:
        """Forgets everything."""
        self.facets: list[Facet] = [Facet()]
        self._numbers: dict[Facet, int] = {self.facets[0]: UNKNOWN}
        self.signatures: dict[Signature, int] = {}
        self.operations: list[Operation] = []  # by the number of a signature
        self.retired: set[int] = set()  # signatures that the checker rejects, and no conversion
        self.classes: dict[tuple[int, ...], tuple[int, ...]] = {}
        self._types: dict[bytes, int | None] = {}
        self._tensors: dict[tuple[bytes, bytes], int] = {}
        self._inputs: dict[int, int] = {}
        self._declared: dict[tuple[int, int, bool], int] = {}
        self.informed: set[tuple[int, ...]] = set()  # classes that a declaration tells more of
        self._lengths: dict[int, int] = {}
        self._tokens: dict[int, frozenset[str]] = {}
        self.answers: dict[Hashable, Any] = {}  # what conversions have learned of the classes

    # -- facets ------------------------------------------------------------------------------

    def facet(
        self,
        kind: bytes | None,
        value: bytes | None = None,
        listed: bool = False,
        trust: int = 0,
        ranked: bytes | None = None,
        folded: bytes | None = None,
        maker: tuple[int, ...] = (),
        long: bool = False,
    ) -> int:
        """The number of a type with a value."""
        return self.numbered(Facet(kind, value, listed, trust, ranked or kind, folded, maker, long))

    def numbered(self, key: Facet) -> int:
        """The number of a facet."""
        number = self._numbers.get(key)
        if number is None:
            number = self._numbers[key] = len(self.facets)
            self.facets.append(key)
        return number

    def tokens(self, number: int) -> frozenset[str]:
        """The element types and containers in the type of a facet."""
        if number not in self._tokens:
            kind = self.facets[number][0]
            found = element_types(TypeProto.FromString(kind)) if kind else frozenset[str]()
            self._tokens[number] = found
        return self._tokens[number]

    def declared(self, data: bytes) -> tuple[bytes, int | None]:
        """The name and the facet of a ValueInfoProto; None where it has no type."""
        if data[:1] == b"\n" and data[1] < 0x80:
            stop = 2 + data[1]
            name, rest = data[2:stop], data[stop:]
            if rest in self._types:
                return name, self._types[rest]
        else:
            name, rest = b"", b""
        info = ValueInfoProto.FromString(data)
        if illegible(info):
            raise Unproven
        facet = None
        if info.HasField("type"):
            facet = self.facet(without_symbols(info.type))
        if _has_notes(info):
            self.noted = True
        elif rest and info.name.encode() == name:
            self._types[rest] = facet
        return info.name.encode(), facet

    def input(self, declared: int) -> int:
        """The facet of an input of the model with a declared type."""
        number = self._inputs.get(declared)
        if number is None:
            kind = self.facets[declared].kind
            number = self._inputs[declared] = self.facet(kind, trust=INPUT) if kind else UNKNOWN
        return number

    def initializer(self, data: bytes, *, stubs: bool) -> tuple[bytes, int]:
        """The name and the facet of a tensor, which the checker looks at once for each content.

        With `stubs`, the payload may be elsewhere.
        """
        key = around_name(data)
        if key is not None:
            name, *parts = key
            content = (parts[0], parts[1])
            known = self._tensors.get(content)
            if known is not None:
                return name, known
        tensor = TensorProto.FromString(data)
        if illegible(tensor):
            raise Unproven
        name = tensor.name.encode()
        if Weights.is_stub(tensor):
            if not stubs:
                raise Unproven("a payload elsewhere")
            if tensor.data_location == TensorProto.EXTERNAL:
                _require_inside(tensor)
        else:
            try:
                onnx_checker.check_tensor(data, self.context)
            except onnx_checker.ValidationError:
                raise Unproven("an objection to a tensor") from None
        number = self._of_tensor(tensor)
        if _has_notes(tensor):
            self.noted = True
        elif key is not None and key[0] == name and len(data) < 1000:
            self._tensors[content] = number
        return name, number

    def _of_tensor(self, tensor: TensorProto) -> int:
        kind = helper.make_tensor_type_proto(tensor.data_type, tensor.dims)
        data = kind.SerializeToString(deterministic=True)
        value = None if Weights.is_stub(tensor) else value_of(tensor)
        return self.facet(data, value, trust=PROVED | EXACT, long=_is_long(tensor, value))

    def declared_initializer(self, declared: int, tensor: int, is_input: bool) -> int:
        """The facet of an initializer that is declared beside, if the two agree."""
        key = (declared, tensor, is_input)
        if key not in self._declared:
            kind, (tensor_kind, value, *_) = self.facets[declared][0], self.facets[tensor]
            assert tensor_kind is not None
            assert kind is not None
            graph = graph_input(b"x", kind) + wire.framed(
                5, bare_tensor(tensor_kind) + wire.framed(8, b"x")
            )
            found = self._infer(graph)
            merged = without_symbols(found.graph.input[0].type)
            trust = 0
            if is_input and self.ir_version > 3:
                trust = INPUT if merged == kind else VARIABLE
            elif merged == tensor_kind:
                trust = PROVED | EXACT
            listed = is_input or not trust
            long = self.facets[tensor].long
            self._declared[key] = self.facet(merged, value, listed, trust, long=long)
        return self._declared[key]

    # -- signatures and classes --------------------------------------------------------------

    def signature(self, key: Signature) -> int:
        """The number of a signature, which the checker looks at once."""
        number = self.signatures.get(key)
        if number is None and _MARK in key[0] and (shared := without_places(key)) != key:
            number = self.signatures[key] = self.signature(shared)
        if number is None:
            operation = self._operation(key)
            if self._check(operation):
                self.retired.add(len(self.operations))
            number = self.signatures[key] = len(self.operations)
            self.operations.append(operation)
        return number

    def _operation(self, signature: Signature) -> Operation:
        data = named(signature)
        proto = NodeProto.FromString(data)
        if illegible(proto):
            raise Unproven("a text that is no UTF-8")
        key = _key(proto)
        schema = schemas.schema(*key, self.versions.get(proto.domain, 0))
        return Operation(signature, proto, key, schema, inputs_of(signature), wire.framed(1, data))

    def _check(self, operation: Operation) -> bool:
        """Shows a node to the checker, and to the rules of adapters; nobody must object.

        Returns whether its operator is one that only a conversion knows, and no schema describes.
        """
        key, node = operation.signature, operation.proto
        nested = holds_graphs(key)
        retired = not nested and self._is_retired(operation)
        for one in (node, *nodes_inside(node)):
            if not (retired or self._is_checked(one)) or not _is_plain(
                one, self.adapters, nested=nested
            ):
                raise Unproven(f"an operator that is not looked at: {one.op_type}")
            illegal = self.adapters.traits(Illegal).get(_key(one), ())
            if any(rule.against(one) for rule in illegal):
                raise Unproven("an objection to an attribute")
        try:
            if nested:
                onnx_checker.check_model(self._alone(operation))
            else:
                shown = checkable(node, key) + (_OF_NOBODY if retired else b"")
                onnx_checker.check_node(shown, self.context, _NO_NAMES)
        except safe_inference.COMPLAINTS:
            raise Unproven("an objection to a node") from None
        return retired

    def _alone(self, operation: Operation) -> bytes:
        """A model of one node, whose inputs have some type."""
        number = helper.make_tensor_type_proto(TensorProto.FLOAT, ()).SerializeToString()
        inputs = [graph_input(name, number) for name in operation.inputs if name]
        graph = [operation.written, wire.framed(2, b"alone"), *inputs]
        return self._head + wire.framed(7, b"".join(graph))

    def _is_checked(self, node: NodeProto) -> bool:
        """Whether the checker and inference know an operator, or nothing of its domain.

        The checker lets operators of onnx pass that were experiments and have no schema.
        """
        domain, version = node.domain, self.versions.get(node.domain, 0)
        if domain in DOMAINS:
            return schemas.schema(domain, node.op_type, version) is not None
        return domain not in schemas.known_domains()

    def _is_retired(self, operation: Operation) -> bool:
        """Whether an operator has no schema here, and a conversion replaces it."""
        return operation.schema is None and self.adapters.retired(*operation.key) is not None

    def outputs(self, key: tuple[int, ...]) -> tuple[int, ...]:
        """The facets of the outputs of a class: signature, inputs, then outputs as declared."""
        one = self.operations[key[0]]
        given = 1 + len(one.inputs)
        inputs, declared = key[1:given], key[given:]
        facets = [self.facets[number] for number in inputs]
        kinds = self._kinds(one, facets)  # first: what is not legal is not folded
        self._require_unread(one, facets, kinds)
        folded = self._fold(one, facets)
        trust = self._trust(one, facets) | (VARIABLE if folded is None else 0)
        ranked = self._ranked(one, facets, kinds)
        told = zip(declared, kinds, strict=False)  # mostly none is declared
        if any(number and self.facets[number].kind != kind for number, kind in told):
            alone, kinds = kinds, self._kinds(one, facets, declared)
            if alone != kinds:
                self.informed.add(key)
        if one.schema is None or any(facet.trust & FOREIGN for facet in facets):
            trust |= FOREIGN  # inference knows nothing of the node, or lacks what comes from there
        value = folded if isinstance(folded, bytes) else None
        maker = key[:given] if not value and self._follows(one, inputs, ranked) else ()
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
        self.classes[key] = found
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
        return self.facet(kind, trust=trust, ranked=ranked, folded=folded, maker=maker)

    def _follows(
        self, operation: Operation, inputs: Sequence[int], kinds: Sequence[bytes | None]
    ) -> bool:
        """Whether a node computes numbers which inference follows: of vectors and scalars."""
        if len(kinds) != 1 or operation.signature[3] or not may_count(kinds[0]):
            return False
        if not all(self.facets[number].trust & PROVED for number in inputs if number):
            return False
        return 1 + sum(map(self._length, inputs)) <= MOST_MAKERS

    def _length(self, number: int) -> int:
        """How many nodes compute a value that inference follows."""
        if number not in self._lengths:
            maker = self.facets[number].maker
            self._lengths[number] = 1 + sum(map(self._length, maker[1:])) if maker else 0
        return self._lengths[number]

    def _fold(self, operation: Operation, facets: Sequence[Facet]) -> bytes | Unsure | None:
        """The value that folding finds, None where it finds none."""
        key, node = operation.key, operation.proto
        if key == ("", "Constant") or len(node.output) != 1:
            return UNSURE if key == ("", "Constant") else None
        rule = self.adapters.rules(Fold).get(key)
        if rule is None and key != ("", "Identity"):
            return None
        given = {name: facet for name, facet in zip(node.input, facets, strict=False) if name}
        env = ClassEnv(given, self)
        try:
            if rule is None:
                found = env.constant(node.input[0])
            elif self._lacks(rule, node, given):
                return None
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
            return self._ranked_behind_graphs(operation, facets)
        if operation.schema is None:
            return self._told(operation, facets)
        if operation.key in self.adapters.rules(OutputShapes):
            return [None] * len(kinds)  # a rule corrects what inference finds
        if self._are_other(facets, kinds):
            try:
                kinds = self._kinds(operation, facets, ranked=True)
            except Unproven:
                return [None] * len(kinds)
        rule = self.adapters.rules(OutputRanks).get(operation.key)
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
        node, rule = operation.proto, self.adapters.rules(OutputTypes).get(operation.key)
        found = inference.told_types(rule, node, _types_of(node, facets))
        return [without_symbols(found[name]) if name in found else None for name in node.output]

    def _ranked_behind_graphs(
        self, operation: Operation, facets: Sequence[Facet]
    ) -> list[bytes | None]:
        """The types that are found for the outputs of a node with graphs, as for a whole model."""
        graph = self._graph(operation, facets, (), ranked=True)
        model = ModelProto.FromString(self._head + wire.framed(7, graph))
        types = inference.infer_all(model, self.adapters).types
        found = (types.get(name) for name in operation.proto.output)
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
        return facet.value is not None and facet.listed and self.ir_version > 3

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
        found = self._infer(graph, data_prop=ranked, foreign=foreign)
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
                    graph.append(wire.framed(13, described(name, self.facets[number].kind)))
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
            raw, shape, *_ = self.operations[facet.maker[0]].signature
            inputs = [name + b"_" + one if one else b"" for one in names_of(shape, "i")]
            for one, number in zip(inputs, facet.maker[1:], strict=True):
                self._give(graph, one, self.facets[number], ranked=True)
            ends = [wire.framed(1, one) for one in inputs] + [wire.framed(2, name)]
            graph.append(wire.framed(1, b"".join([*ends, raw])))
            return
        if kind is not None and (facet.value is None or facet.listed or self.ir_version < 4):
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
        if not facet.trust & COMPUTED or facet.trust & FOLLOWED:
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
        kind, _, _, trust, *_ = self.facets[facet]
        trust &= ~FOLLOWED
        known = value_of(value)
        return self.facet(kind, known, trust=trust, long=_is_long(value, known))

    def _infer(self, graph: bytes, *, data_prop: bool = False, foreign: bool = False) -> ModelProto:
        """What strict inference, with its checks of types, makes of a graph; it must not object."""
        data = (self._foreign_head if foreign else self._head) + wire.framed(7, graph)
        try:
            return infer_shapes(data, check_type=True, strict_mode=True, data_prop=data_prop)
        except safe_inference.COMPLAINTS:
            raise Unproven("an objection of inference to a class") from None


def _types_of(node: NodeProto, facets: Sequence[Facet]) -> TypesOnly:
    """What adapters are told of the types of the inputs of a node."""
    return TypesOnly(
        {
            name: TypeProto.FromString(facet.ranked)
            for name, facet in zip(node.input, facets, strict=True)
            if name and facet.ranked is not None
        }
    )


def _is_long(tensor: TensorProto, value: bytes | None) -> bool:
    """Whether a constant is a vector whose value no class holds."""
    return value is None and len(tensor.dims) == 1


def _has_notes(one: TensorProto | ValueInfoProto) -> bool:
    return bool(getattr(one, "metadata_props", ()))


def _require_inside(tensor: TensorProto) -> None:
    """The data of a tensor must be in the folder of its model."""
    try:
        require_inside(location_of(tensor), tensor.name)
    except InvalidModel:
        raise Unproven("data outside of the folder of the model") from None


def _key(node: NodeProto) -> tuple[str, str]:
    return schemas.normal(node.domain), node.op_type


def _is_plain(node: NodeProto, adapters: Registry, *, nested: bool) -> bool:
    """Whether a node refers to no attribute, inference outlives it, and it may hold graphs."""
    if (node.domain, node.op_type) in adapters.traits(Fragile):
        return False
    return not any(
        a.ref_attr_name
        or a.HasField("sparse_tensor")
        or (not nested and (a.HasField("g") or a.graphs))
        for a in node.attribute
    )
