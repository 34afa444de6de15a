"""What onnx said of each class of nodes, kept for the next model with the same imports."""

from __future__ import annotations

import functools
import re
import threading

from opshift.author import registry, safe_inference
from opshift.convert.classes.rows import Signature, Unproven, names_of
from opshift.model.bytes import wire
from opshift.protos import (
    ModelProto,
    NodeProto,
    TensorProto,
    TypeProto,
    ValueInfoProto,
    checker,
    helper,
)
from opshift.protos.inference import infer_shapes

Imports = tuple[tuple[str, int], ...]
Facet = tuple[bytes | None, bytes | None, bool]  # type, value, whether a caller may replace it

DOMAINS = frozenset({"", "ai.onnx.ml", "ai.onnx.training", "ai.onnx.preview.training"})
UNKNOWN = 0  # the facet of a value of which nothing is known, and of an input left out
MOST_CLASSES = 4000  # for each set of imports; then the memo begins anew
_NO_NAMES = checker.LexicalScopeContext()
_VERSION_LIMIT = (1 << 31) - 1

# The integers that inference reads from a tensor are shapes, axes and counts; the floats scales.
_INTEGERS = frozenset({TensorProto.INT32, TensorProto.INT64, TensorProto.BOOL})
_MOST_INTEGERS, _MOST_OTHERS = 512, 16


@functools.lru_cache(maxsize=16)
def memo(imports: Imports, ir_version: int) -> Memo:
    """The memo of models with these imports and this IR version."""
    return Memo(imports, ir_version)


class Memo:
    """Facets (types with small values), signatures (nodes without names) and classes.

    A class is a signature with the facets of its inputs and the declared facets of its outputs.
    The lock is for whoever adds; a number, once given, means one thing until `renew`.
    """

    def __init__(self, imports: Imports, ir_version: int) -> None:
        self.imports = imports
        self.ir_version = ir_version
        self.lock = threading.Lock()
        self.context = checker.CheckerContext()
        self.context.ir_version = ir_version
        self.context.opset_imports = {d: min(v, _VERSION_LIMIT) for d, v in imports}
        head = ModelProto(ir_version=ir_version)
        for domain, version in imports:
            head.opset_import.add(domain=domain, version=version)
        self._head = head.SerializeToString()
        self.renew()

    def renew(self) -> None:
        """Forgets everything."""
        self.facets: list[Facet] = [(None, None, False)]
        self._numbers: dict[Facet, int] = {self.facets[0]: UNKNOWN}
        self.signatures: dict[Signature, int] = {}
        self._nodes: list[tuple[Signature, NodeProto]] = []
        self.classes: dict[tuple[int, ...], tuple[int, ...]] = {}
        self._types: dict[bytes, int | None] = {}
        self._tensors: dict[tuple[bytes, bytes], int] = {}
        self._declared: dict[tuple[int, int], int] = {}

    # -- facets ------------------------------------------------------------------------------

    def facet(self, kind: bytes | None, value: bytes | None = None, listed: bool = False) -> int:
        """The number of a type with a value."""
        key = (kind, value, listed)
        number = self._numbers.get(key)
        if number is None:
            number = self._numbers[key] = len(self.facets)
            self.facets.append(key)
        return number

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
        facet = None
        if info.HasField("type"):
            facet = self.facet(_without_symbols(info.type))
        if rest and info.name.encode() == name:
            self._types[rest] = facet
        return info.name.encode(), facet

    def initializer(self, data: bytes) -> tuple[bytes, int]:
        """The name and the facet of a tensor, which the checker looks at once for each content."""
        key = _around_name(data)
        if key is not None:
            name, *parts = key
            content = (parts[0], parts[1])
            known = self._tensors.get(content)
            if known is not None:
                return name, known
        tensor = TensorProto.FromString(data)
        try:
            checker.check_tensor(data, self.context)
        except checker.ValidationError:
            raise Unproven from None
        if tensor.data_location == TensorProto.EXTERNAL:
            raise Unproven
        name = tensor.name.encode()
        number = self._of_tensor(tensor)
        if key is not None and key[0] == name and len(data) < 1000:
            self._tensors[content] = number
        return name, number

    def _of_tensor(self, tensor: TensorProto) -> int:
        kind = helper.make_tensor_type_proto(tensor.data_type, tensor.dims)
        return self.facet(kind.SerializeToString(deterministic=True), _value(tensor))

    def declared_initializer(self, declared: int, tensor: int) -> int:
        """The facet of an initializer that is declared beside, if the two agree."""
        key = (declared, tensor)
        if key not in self._declared:
            kind, (tensor_kind, value, _) = self.facets[declared][0], self.facets[tensor]
            assert tensor_kind is not None
            assert kind is not None
            graph = _input(b"x", kind) + wire.framed(5, _typed(tensor_kind) + wire.framed(8, b"x"))
            found = self._infer(graph)
            merged = _without_symbols(found.graph.input[0].type)
            self._declared[key] = self.facet(merged, value, True)
        return self._declared[key]

    # -- signatures and classes --------------------------------------------------------------

    def signature(self, key: Signature) -> int:
        """The number of a signature, which the checker looks at once."""
        number = self.signatures.get(key)
        if number is None:
            node = _named(key)
            proto = NodeProto.FromString(node)
            if proto.domain not in DOMAINS or not _is_plain(proto):
                raise Unproven
            try:
                checker.check_node(node, self.context, _NO_NAMES)
            except checker.ValidationError:
                raise Unproven from None
            number = self.signatures[key] = len(self._nodes)
            self._nodes.append((key, proto))
        return number

    def outputs(self, key: tuple[int, ...]) -> tuple[int, ...]:
        """The facets of the outputs of a class: signature, inputs, then outputs as declared."""
        signature, proto = self._nodes[key[0]]
        given = len(proto.input) + 1
        graph = [wire.framed(1, _named(signature))]
        for name, number in zip(names_of(signature[1], "i"), key[1:given], strict=True):
            kind, value, listed = self.facets[number]
            if kind is not None and (value is None or listed or self.ir_version < 4):
                graph.append(_input(name, kind))
            if value is not None:
                graph.append(wire.framed(5, value + wire.framed(8, name)))
        outputs = names_of(signature[2], "o")
        for name, number in zip(outputs, key[given:], strict=False):  # mostly none is declared
            if number != UNKNOWN:
                graph.append(wire.framed(13, _info(name, self.facets[number][0])))
        found = self._infer(b"".join(graph))
        types = {info.name: info.type for info in found.graph.value_info}
        facets = tuple(
            self.facet(_without_symbols(types[name])) if name in types else UNKNOWN
            for name in proto.output
        )
        if proto.op_type == "Constant" and not proto.domain:
            facets = (self._constant(proto, facets[0]),)
        self.classes[key] = facets
        return facets

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
                raise Unproven
        return self.facet(self.facets[facet][0], _value(value))

    def _infer(self, graph: bytes) -> ModelProto:
        """What strict inference, with its checks of types, makes of a graph; it must not object."""
        data = self._head + wire.framed(7, graph)
        try:
            return infer_shapes(data, check_type=True, strict_mode=True)
        except safe_inference.COMPLAINTS:
            raise Unproven from None


def _without_symbols(kind: TypeProto) -> bytes:
    """The bytes of a type without names of dimensions: two names never contradict each other."""
    plain = TypeProto()
    plain.CopyFrom(kind)
    inner = plain
    while (which := inner.WhichOneof("value")) in ("sequence_type", "optional_type", "map_type"):
        inner = (
            inner.map_type.value_type if which == "map_type" else getattr(inner, which).elem_type
        )
    if which in ("tensor_type", "sparse_tensor_type"):
        for dim in getattr(inner, which).shape.dim:
            dim.ClearField("dim_param")
    return plain.SerializeToString(deterministic=True)


def _named(signature: Signature) -> bytes:
    """A node of this signature."""
    raw, inputs, outputs = signature
    names = [wire.framed(1, name) for name in names_of(inputs, "i")]
    names += [wire.framed(2, name) for name in names_of(outputs, "o")]
    return b"".join([*names, raw])


def _info(name: bytes, kind: bytes | None) -> bytes:
    return wire.framed(1, name) + (wire.framed(2, kind) if kind is not None else b"")


def _input(name: bytes, kind: bytes | None) -> bytes:
    return wire.framed(11, _info(name, kind))


def _typed(kind: bytes) -> bytes:
    """A tensor of this type without a payload, which inference does not ask for."""
    found = TypeProto.FromString(kind).tensor_type
    dims = [dim.dim_value for dim in found.shape.dim]
    return TensorProto(data_type=found.elem_type, dims=dims).SerializeToString()


def _is_plain(node: NodeProto) -> bool:
    """Whether a node holds no graph and refers to no attribute, and inference outlives it."""
    if (node.domain, node.op_type) in registry.default().fragile:
        return False
    return not any(
        a.HasField("g") or a.graphs or a.ref_attr_name or a.HasField("sparse_tensor")
        for a in node.attribute
    )


def _value(tensor: TensorProto) -> bytes | None:
    """The bytes of a tensor that inference may read, without its name."""
    count = 1
    for dim in tensor.dims:
        count *= dim
    if count > (_MOST_INTEGERS if tensor.data_type in _INTEGERS else _MOST_OTHERS):
        return None
    bare = TensorProto()
    bare.CopyFrom(tensor)
    bare.ClearField("name")
    bare.ClearField("doc_string")
    return bare.SerializeToString(deterministic=True)


# As most writers begin a tensor: dims, element type, and the name when the values are raw.
_BEGINNING = re.compile(
    rb"(?:\x08[\x80-\xff]*[\x00-\x7f])*\x10[\x00-\x7f]B([\x00-\x7f])", re.DOTALL
)


def _around_name(data: bytes) -> tuple[bytes, bytes, bytes] | None:
    """The name of a tensor, and the bytes before and behind it."""
    if (found := _BEGINNING.match(data)) is not None:
        start = found.end()
        stop = start + data[start - 1]
        return data[start:stop], data[: start - 2], data[stop:]
    try:
        for start, tag, body, end, _ in wire.fields(data, 0, len(data)):
            if tag == 8 << 3 | 2:
                return data[body:end], data[:start], data[end:]
    except (IndexError, wire.Malformed):
        return None
    return None
