# SPDX-License-Identifier: Apache-2.0
"""What onnx said of each class of nodes, kept for the next model with the same imports."""

from __future__ import annotations

import threading
from collections.abc import Hashable
from typing import Any

from opshift.author.present_types import element_types
from opshift.author.registry import Registry
from opshift.convert.classes.facets import (
    EXACT,
    INPUT,
    PROVED,
    UNKNOWN,
    VARIABLE,
    Facet,
    is_long,
    value_of,
    without_symbols,
)
from opshift.convert.classes.local_functions import NONE, LocalFunctions
from opshift.convert.classes.node_checks import NodeChecks
from opshift.convert.classes.node_class import NodeClass
from opshift.convert.classes.operation import Operation
from opshift.convert.classes.output_facets import OutputFacets
from opshift.convert.classes.rows import Signature, Unproven
from opshift.convert.classes.shown_bytes import (
    around_name,
    bare_tensor,
    graph_input,
    without_places,
)
from opshift.convert.classes.strict_inference import Imports, StrictInference
from opshift.errors import InvalidModel
from opshift.model import arrays
from opshift.model.bytes import wire
from opshift.model.bytes.external import location_of, require_inside
from opshift.model.illegible import is_legible
from opshift.model.weights.store import Weights
from opshift.opsets.types import confirms
from opshift.protos import TensorProto, TypeProto, ValueInfoProto, helper

MOST_CLASSES = 4000  # for each set of imports; then the memo begins anew
MOST_CLASSES_IN_ALL = 50_000  # then the memo that was used least recently goes
MOST_MEMOS = 256
_MARK = wire.MARK.encode()


_memos: dict[Hashable, Memo] = {}  # the one that was used last is the last one
_memos_lock = threading.Lock()


def memo(
    imports: Imports, ir_version: int, adapters: Registry, functions: LocalFunctions = NONE
) -> Memo:
    """The memo of models with these imports, IR version and functions, for these adapters."""
    key = (imports, ir_version, functions.key, adapters, adapters.generation)
    with _memos_lock:
        found = _memos.pop(key, None) or Memo(imports, ir_version, adapters, functions)
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


class Memo:
    """Facets (types with small values), signatures (nodes without names) and classes.

    A class is a signature with the facets of its inputs and the declared facets of its outputs.
    The lock is for whoever adds; a number, once given, means one thing until `renew`.
    """

    def __init__(
        self,
        imports: Imports,
        ir_version: int,
        adapters: Registry,
        functions: LocalFunctions = NONE,
    ) -> None:
        functions.require_plain(adapters)
        self.adapters = adapters
        self.functions = functions
        self.imports = imports
        self.versions = dict(imports)
        self.ir_version = ir_version
        self.lock = threading.Lock()
        self.noted = False  # whether the values of the model at hand have metadata
        self.folds = False  # whether values are folded: not before numpy is imported
        self.counted = -1  # its classes when all memos were counted
        self.inference = StrictInference(imports, ir_version)
        self.checks = NodeChecks(imports, ir_version, adapters, self.inference, functions)
        self.renew()

    def make_ready(self) -> None:
        """Begins anew if it holds too much, or lacks values that can be folded by now."""
        full = len(self.classes) > MOST_CLASSES or len(self.facets) > 8 * MOST_CLASSES
        if full or (self.is_unfolded and arrays.is_loaded()):
            self.renew()
        self.folds = arrays.is_loaded()
        self.noted = False

    def renew(self) -> None:
        """Forgets everything."""
        self.is_unfolded = False  # whether some value was not folded because numpy was not there
        self.facets: list[Facet] = [Facet()]
        self._numbers: dict[Facet, int] = {self.facets[0]: UNKNOWN}
        self.signatures: dict[Signature, int] = {}
        self.operations: list[Operation] = []  # by the number of a signature
        self.retired: set[int] = set()  # signatures that the checker rejects, and no conversion
        self.classes: dict[tuple[int, ...], NodeClass] = {}
        self._types: dict[bytes, int | None] = {}
        self._tensors: dict[tuple[bytes, bytes], int] = {}
        self._inputs: dict[int, int] = {}
        self._declared: dict[tuple[int, int, bool], int] = {}
        self.informed: set[tuple[int, ...]] = set()  # classes that a declaration tells more of
        self._outputs = OutputFacets(self)
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
        if not is_legible(info, data):
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
        if not is_legible(tensor, data):
            raise Unproven
        name = tensor.name.encode()
        if Weights.is_stub(tensor):
            if not stubs:
                raise Unproven("a payload elsewhere")
            if tensor.data_location == TensorProto.EXTERNAL:
                _require_inside(tensor)
        else:
            self.checks.tensor(data)
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
        return self.facet(data, value, trust=PROVED | EXACT, long=is_long(tensor, value))

    def declared_initializer(self, declared: int, tensor: int, is_input: bool) -> int:
        """The facet of an initializer that is declared beside, if the two agree."""
        key = (declared, tensor, is_input)
        if key not in self._declared:
            kind, (tensor_kind, value, *_) = self.facets[declared][0], self.facets[tensor]
            assert tensor_kind is not None
            assert kind is not None
            read = map(TypeProto.FromString, (tensor_kind, kind))
            if is_input and not confirms(*read):
                raise Unproven("an initializer that contradicts its input")
            graph = graph_input(b"x", kind) + wire.framed(
                5, bare_tensor(tensor_kind) + wire.framed(8, b"x")
            )
            found = self.inference.infer(graph)
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
            operation = Operation.of(key, self.versions, self.functions.sizes)
            if self.checks.node(operation):
                self.retired.add(len(self.operations))
            number = self.signatures[key] = len(self.operations)
            self.operations.append(operation)
        return number

    def learn(self, row: tuple[int, ...]) -> NodeClass:
        """The class of a row: signature, inputs, then outputs as declared."""
        return self.keep(row, self._outputs.of(row))

    def keep(self, row: tuple[int, ...], outputs: tuple[int, ...]) -> NodeClass:
        """The class of a row whose outputs have these facets."""
        inputs = len(self.operations[row[0]].inputs)
        found = self.classes[row] = NodeClass(row, inputs, outputs)
        return found


def _has_notes(one: TensorProto | ValueInfoProto) -> bool:
    return bool(getattr(one, "metadata_props", ()))


def _require_inside(tensor: TensorProto) -> None:
    """The data of a tensor must be in the folder of its model."""
    try:
        require_inside(location_of(tensor), tensor.name)
    except InvalidModel:
        raise Unproven("data outside of the folder of the model") from None
