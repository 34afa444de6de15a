"""What is known about values before the model runs: constants, types, shapes. Lazy, once."""

from __future__ import annotations

import functools
import math
import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np
import onnx
from onnx import (
    AttributeProto,
    GraphProto,
    ModelProto,
    NodeProto,
    OperatorSetIdProto,
    TensorProto,
    TypeProto,
    helper,
)
from onnx.shape_inference import InferenceError

from opshift import schemas, survive, wire
from opshift.arrays import from_array
from opshift.declare import Array, Fold
from opshift.errors import InvalidModel, Refusal
from opshift.order import reads
from opshift.scope import graphs_of, may_hold_graphs

if TYPE_CHECKING:
    from opshift.node import Node
    from opshift.scope import Document, Root, Scope
    from opshift.weights import Weights

MAX_FOLD_BYTES = 1 << 20
MAX_FOLD_DEPTH = 64
MAX_NESTED = 16  # folds that stand behind a type that stands behind a fold
# Integer attributes that hold an element type, over all operators (their names, not operators).
TYPE_ATTRIBUTES = frozenset(
    [
        "to",
        "dtype",
        "output_dtype",
        "precision",
        "stash_type",
        "softmax_precision",
        "output_datatype",
    ]
)
# What an absent type attribute has ever stood for.
IMPLIED_TYPES = frozenset({"float", "int32", "int64", "uint8", "bool"})

Inferred = dict[str, TypeProto | None]


class Facts:
    """Questions about the values of one document."""

    def __init__(
        self,
        document: Document,
        weights: Weights,
        folds: Mapping[tuple[str, str], Fold],
        snapshot: Callable[[], bytes | ModelProto],
    ) -> None:
        self.document = document
        self.weights = weights
        self.folds = folds
        self._snapshot = snapshot
        self._inferred: Inferred | None = None
        self._constants: dict[tuple[Scope, str], Array | None] = {}
        self._depth = 0
        self._followed: set[tuple[Scope, str]] = set()
        self._learned: set[tuple[Scope, str]] = set()
        self._census: frozenset[str] | None = None
        self._uses: dict[Root, Counter[str]] = {}

    # -- constants ---------------------------------------------------------------------------

    def constant(self, scope: Scope, name: str) -> Array | None:
        """The value, if it is known whatever the inputs are."""
        owner = scope.owner(name)
        if owner is None:
            return None
        key = (owner, name)
        if key not in self._constants:
            if self._depth > MAX_FOLD_DEPTH:
                return None
            self._depth += 1
            try:
                self._constants[key] = self._find_constant(owner, name)
            finally:
                self._depth -= 1
        return self._constants[key]

    def _find_constant(self, owner: Scope, name: str) -> Array | None:
        if name in owner.initializers:
            if self.overridable(owner, name):
                return None
            return self.weights.load(owner.initializers[name])
        if name in owner.inputs or name in owner.sparse:
            return self._sparse_initializer(owner, name)
        position = owner.producers.get(name)
        return None if position is None else self._evaluate(owner, owner.node(position))

    def overridable(self, owner: Scope, name: str) -> bool:
        """From IR 4 on an initializer that is also a graph input is only a default value."""
        return name in owner.inputs and self.document.model.ir_version > 3

    def _sparse_initializer(self, owner: Scope, name: str) -> Array | None:
        for sparse in getattr(owner.proto, "sparse_initializer", ()):
            if sparse.values.name == name:
                return dense(
                    self.weights.load(sparse.values), self.weights.load(sparse.indices), sparse.dims
                )
        return None

    def _evaluate(self, owner: Scope, node: NodeProto) -> Array | None:
        key = (schemas.normal(node.domain), node.op_type)
        if key == ("", "Constant"):
            return self.constant_node(node)
        if key == ("", "Identity"):
            return self.constant(owner, node.input[0])
        fold = self.folds.get(key)
        if fold is None or len(node.output) != 1 or key not in owner.root.index:
            return None
        try:
            value = fold.run(self._read(owner, node, folding=True))
        except (Refusal, ValueError, IndexError):
            # Something is not known, or the node is not legal: either way it is no constant.
            return None
        return None if value is None or value.nbytes > MAX_FOLD_BYTES else value

    def producer(self, scope: Scope, name: str) -> Node | None:
        """The node that computes a value, unless a function of the model stands behind it."""
        owner = scope.owner(name)
        position = owner.producers.get(name) if owner else None
        if owner is None or position is None:
            return None
        node = owner.node(position)
        known = (schemas.normal(node.domain), node.op_type) in owner.root.index
        return self._read(owner, node) if known else None

    def _read(self, owner: Scope, node: NodeProto, *, folding: bool = False) -> Node:
        from opshift.node import Env, FoldingEnv, Node

        schema = schema_of(owner.root, node)
        return Node(node, schema, (FoldingEnv if folding else Env)(self, owner))

    def constant_node(self, node: NodeProto) -> Array | None:
        """The value of a Constant node in any of its attribute forms."""
        for attribute in node.attribute:
            if attribute.ref_attr_name:
                return None
            if attribute.name == "value":
                return self.weights.load(attribute.t)
            if attribute.name == "sparse_value":
                sparse = attribute.sparse_tensor
                values, indices = (self.weights.load(t) for t in (sparse.values, sparse.indices))
                return dense(values, indices, sparse.dims)
            kind = _CONSTANT_KINDS.get(attribute.name)
            if kind is not None:
                return np.array(helper.get_attribute_value(attribute), dtype=kind)
        return None

    def why_dynamic(self, scope: Scope, name: str) -> str:
        """Names what keeps a value from being a constant: an input, an override, a node."""
        owner = scope.owner(name)
        if owner is None:
            return f"{name!r} is not known here"
        if name in owner.initializers:
            return (
                f"{name!r} is an initializer that is also a graph input, so callers may replace it"
            )
        if name in owner.inputs:
            return f"{name!r} is an input"
        node = owner.node(owner.producers[name])
        key = (schemas.normal(node.domain), node.op_type)
        if key in self.folds or key == ("", "Identity"):
            for source in node.input:
                if source and self.constant(owner, source) is None:
                    return self.why_dynamic(owner, source)
        return f"{name!r} is computed by {node.op_type} {node.name!r}"

    # -- types -------------------------------------------------------------------------------

    def type(self, scope: Scope, name: str) -> TypeProto | None:
        """The most that declarations and inference say about a value's type."""
        owner = scope.owner(name)
        if owner is None:
            return None
        known = self._stated(owner, name)
        if _vague(known) and (owner, name) not in self._followed and self._depth < MAX_NESTED:
            self._infer_towards(owner, name)
            known = self._stated(owner, name)
        return known

    def _stated(self, owner: Scope, name: str) -> TypeProto | None:
        declared = owner.declared_type(name)
        if declared is not None and _complete(declared):
            return declared
        # Inference tells of the graph alone; a function may use its names for something else.
        return _better(declared, self.inferred.get(name) if owner.root.kind == "graph" else None)

    @property
    def inferred(self) -> Inferred:
        if self._inferred is None:
            # A snapshot that was rewritten may give fresh names to other values.
            known = infer_all(self._snapshot())
            self._inferred = {n: t for n, t in known.items() if not self.document.is_fresh(n)}
        return self._inferred

    def _infer_towards(self, owner: Scope, name: str) -> None:
        """Goes on from where inference stopped: folding knows more, and steps have written nodes.

        What is behind a value comes before it, without recursion: chains can be long.
        """
        waiting = [(owner, name)]
        while waiting:
            place, wanted = waiting[-1]
            position = place.producers.get(wanted)
            node = None if position is None else place.node(position)
            if (place, wanted) not in self._followed:
                self._followed.add((place, wanted))
                waiting += self._vague_behind(place, node) if node is not None else ()
                continue
            waiting.pop()
            if node is not None:
                self._infer_outputs(place, node)

    def _vague_behind(self, place: Scope, node: NodeProto) -> Iterator[tuple[Scope, str]]:
        for name in filter(None, node.input):
            owner = place.owner(name)
            if owner is None or (owner, name) in self._followed:
                continue
            if _vague(self._stated(owner, name)):
                yield owner, name

    def _infer_outputs(self, place: Scope, node: NodeProto) -> None:
        """The types of a node's outputs, from its inputs as far as they are known by now."""
        if self.document.is_call(node) or not self._tells_more(place, node):
            return
        types = self.infer_node(
            node, place.root, lambda n: self.type(place, n), lambda n: self.constant(place, n)
        )
        for output, found in types.items():
            if schemas.type_name(found) is not None:
                known = _better(self._stated(place, output), found)
                if known is not None:
                    place.declared[output] = known
                    self._learned.add((place, output))

    def _tells_more(self, place: Scope, node: NodeProto) -> bool:
        """Whether something is known about a node that inference of the whole did not know."""
        if any(map(self.document.is_fresh, (*node.input, *node.output))):
            return True
        if any(True for _ in graphs_of(node)):
            return False
        schema = schema_of(place.root, node)
        if schema is None:
            return False
        outputs = [self._stated(place, name) for name in node.output if name]
        if any(found is None or schemas.type_name(found) is None for found in outputs):
            return True  # one typed input may type it, which inference makes nothing of
        if not schemas.raw(
            schema.domain, schema.name, schema.since
        ).has_type_and_shape_inference_function:
            return True
        return any(self._is_news(place, name) for name in node.input if name)

    def _is_news(self, place: Scope, name: str) -> bool:
        """Whether the type was found here, or the value only by folding."""
        owner = place.owner(name)
        position = owner.producers.get(name) if owner is not None else None
        if owner is None or position is None:
            return False
        if (owner, name) in self._learned:
            return True
        if owner.node(position).op_type == "Constant" or not _small(self._stated(owner, name)):
            return False
        return self.constant(owner, name) is not None

    def infer_node(
        self,
        node: NodeProto,
        root: Root,
        type_of: Callable[[str], TypeProto | None],
        constant_of: Callable[[str], Array | None],
        version: int | None = None,
    ) -> dict[str, TypeProto]:
        """One node's output types from its input types, by the schema's own inference."""
        domain = schemas.normal(node.domain)
        version = version or root.imports.get(domain)
        schema = schemas.schema(domain, node.op_type, version) if version else None
        if schema is None:
            return {}
        imports = [helper.make_opsetid(d, root.imports[d]) for d in root.imports if d != domain]
        imports.append(helper.make_opsetid(domain, version or 1))
        if any(a.type == AttributeProto.GRAPH for a in node.attribute):
            return infer_alone(node, type_of, imports)
        types = {n: type_of(n) or TypeProto() for n in node.input if n}
        data = {}
        for name in node.input:
            found = constant_of(name) if name and _small(types.get(name)) else None
            if found is not None:
                data[name] = from_array(found, name)
        raw = schemas.raw(domain, node.op_type, schema.since)
        try:
            inferred = onnx.shape_inference.infer_node_outputs(
                raw, node, types, data, opset_imports=imports
            )
        except (InferenceError, RuntimeError, ValueError, onnx.checker.ValidationError):
            # Inference that cannot say is no inference; the adapter refuses if it needs the type.
            return {}
        for name, kind in _element_types(node, schema, types).items():
            known = inferred.setdefault(name, TypeProto())
            if schemas.type_name(known) is None:
                known.tensor_type.elem_type = kind  # beside the shape, if there is one
        return dict(inferred)

    # -- uses --------------------------------------------------------------------------------

    def uses(self, root: Root) -> Counter[str]:
        """How often each name of a root is read, by nodes of any depth and as an output."""
        if root not in self._uses:
            self._uses[root] = self._count_uses(root)
        return self._uses[root]

    def changed(self) -> None:
        """Called when nodes have been replaced: who reads what must be counted again."""
        self._uses.clear()

    def _count_uses(self, root: Root) -> Counter[str]:
        counts: Counter[str] = Counter()
        for scope in root.scopes:
            for i, node in enumerate(scope.proto.node):
                if i not in scope.removed:
                    counts.update(node.input)
            counts.update(o if isinstance(o, str) else o.name for o in scope.proto.output)
        return counts

    # -- census ------------------------------------------------------------------------------

    @property
    def census(self) -> frozenset[str]:
        """Every element type that can occur in the model: makes most type guards vacuous.

        Operators without a schema are taken to bring in no type that occurs nowhere else.
        """
        if self._census is None:
            self._census = frozenset(take_census(self.document))
        return self._census

    @property
    def counting(self) -> bool:
        """Whether a census has been taken, and must follow what the steps bring in."""
        return self._census is not None

    def widen_census(self, types: Iterable[str]) -> None:
        """Element types that a step has brought in."""
        if self._census is not None and not self._census.issuperset(types):
            self._census |= set(types)


_CONSTANT_KINDS = {
    "value_int": np.int64,
    "value_ints": np.int64,
    "value_float": np.float32,
    "value_floats": np.float32,
    "value_string": object,
    "value_strings": object,
}


def dense(values: Array, indices: Array, dims: Sequence[int]) -> Array:
    """A sparse tensor written out; indices are linear or one row of coordinates per value."""
    if not 0 <= math.prod(dims) * values.itemsize <= wire.LIMIT:
        raise InvalidModel(f"a sparse tensor of shape {list(dims)} is too large to be written out")
    full = np.zeros(tuple(dims), dtype=values.dtype)
    if indices.ndim == 1:
        full.reshape(-1)[indices] = values
    else:
        full[tuple(indices.T)] = values
    return full


def schema_of(root: Root, node: NodeProto) -> schemas.Schema | None:
    """The schema of a node at the version that its root imports now."""
    domain = schemas.normal(node.domain)
    version = root.imports.get(domain)
    return schemas.schema(domain, node.op_type, version) if version else None


def _element_types(
    node: NodeProto, schema: schemas.Schema, types: Mapping[str, TypeProto]
) -> dict[str, int]:
    """Element types as schema and attributes say them: nobody infers some of the old operators."""
    known: dict[str, int] = {}
    for index, name in enumerate(node.input):
        param = schema.input_at(index)
        element = types[name].tensor_type.elem_type if name in types else 0
        if element and param is not None and not param.variadic:
            known.setdefault(param.variable, element)
    found = {}
    for attribute in node.attribute:
        if attribute.name in TYPE_ATTRIBUTES and attribute.type == AttributeProto.STRING:
            # As Cast named its type before 6.
            found[node.output[0]] = dict(TensorProto.DataType.items()).get(attribute.s.decode(), 0)
    for index, name in enumerate(node.output):
        param = schema.output_at(index)
        if not name or param is None or param.variadic:
            continue
        if param.variable in known:
            found[name] = known[param.variable]
        elif len(param.types) == 1 and (only := next(iter(param.types))).startswith("tensor("):
            found[name] = schemas.element_number(only[len("tensor(") : -1])
    return found


def infer_alone(
    node: NodeProto,
    type_of: Callable[[str], TypeProto | None],
    imports: Sequence[OperatorSetIdProto],
) -> dict[str, TypeProto]:
    """The output types of a node with subgraphs: those of a model that holds this node alone."""
    model = ModelProto(ir_version=onnx.IR_VERSION, opset_import=imports)
    model.graph.name = node.op_type
    model.graph.node.append(node)
    for name in dict.fromkeys(reads(node)):
        found = type_of(name) if name else None
        if found is not None:
            model.graph.input.add(name=name).type.CopyFrom(found)
    inferred = infer_all(model)
    return {name: found for name in node.output if (found := inferred.get(name)) is not None}


def infer_all(model: bytes | ModelProto) -> Inferred:
    """Value types over all scopes by name; None where two scopes disagree about a name."""
    try:
        inferred = survive.infer(model, data_prop=True)
    except (InferenceError, RuntimeError, onnx.checker.ValidationError):
        # A model that inference rejects is converted by what it declares itself.
        return {}
    found: Inferred = {}
    graphs = [inferred.graph]
    while graphs:
        graph = graphs.pop()
        for info in (*graph.value_info, *graph.output, *graph.input):
            if info.HasField("type"):
                known = found.setdefault(info.name, info.type)
                if known is not None and known != info.type:
                    found[info.name] = None
        for node in graph.node:
            if may_hold_graphs((node.domain, node.op_type)):
                graphs += [inner for _, inner in graphs_of(node)]
    return found


def rank_of(found: TypeProto | None) -> int | None:
    if found is None or not found.HasField("tensor_type"):
        return None
    tensor = found.tensor_type
    return len(tensor.shape.dim) if tensor.HasField("shape") else None


def _complete(found: TypeProto) -> bool:
    tensor = found.tensor_type
    return (
        found.HasField("tensor_type")
        and tensor.elem_type != 0
        and tensor.HasField("shape")
        and all(dim.HasField("dim_value") for dim in tensor.shape.dim)
    )


def _vague(found: TypeProto | None) -> bool:
    """Whether the rank is unknown, or the length of what may be a shape or a list of axes."""
    if found is None:
        return True
    if not found.HasField("tensor_type"):
        return False
    whole = found.tensor_type.elem_type == TensorProto.INT64
    return rank_of(found) is None or (whole and not _complete(found))


def _better(declared: TypeProto | None, inferred: TypeProto | None) -> TypeProto | None:
    if declared is None or inferred is None:
        return inferred or declared
    return inferred if _knowledge(inferred) > _knowledge(declared) else declared


def _knowledge(found: TypeProto) -> tuple[bool, bool, int]:
    tensor = found.tensor_type
    known = schemas.type_name(found) is not None
    static = sum(dim.HasField("dim_value") for dim in tensor.shape.dim)
    return known, tensor.HasField("shape"), static


def _small(found: TypeProto | None) -> bool:
    if found is None or not _complete(found):
        return False
    size = 1
    for dim in found.tensor_type.shape.dim:
        size *= dim.dim_value
    return size <= 256


@functools.cache
def tokens(type_text: str) -> frozenset[str]:
    """What must occur in a model for a type to occur: `seq(tensor(float))` -> seq, float."""
    return frozenset(re.findall(r"\w+", type_text)) - {"tensor"}


def element_types(found: TypeProto) -> frozenset[str]:
    """The element types inside a type and the containers around them."""
    text = schemas.type_name(found)
    return tokens(text) if text else frozenset()


def take_census(document: Document) -> set[str]:
    found: set[str] = set()
    for root in document.roots:
        for scope in root.scopes:
            proto = scope.proto
            infos = list(getattr(proto, "value_info", ()))
            if isinstance(proto, GraphProto):
                infos += [*proto.input, *proto.output]
                sparse = [one.values for one in proto.sparse_initializer]
                kinds = {tensor.data_type for tensor in (*proto.initializer, *sparse)}
                found |= {schemas.element_name(kind) or "" for kind in kinds}
            for info in infos:
                found |= element_types(info.type)
        for key, places in root.index.items():
            version = root.imports.get(key[0])
            schema = schemas.schema(*key, version) if version else None
            if schema is None:
                continue
            found |= fixed_types(*key, schema.since)
            if _may_bring_types(*key, schema.since):
                for scope, position in places:
                    found |= attribute_types(scope.node(position), schema)
    found.discard("")
    return found


def types_from(node: NodeProto, schema: schemas.Schema) -> set[str]:
    """Element types that one node brings into a model."""
    key = (schema.domain, schema.name, schema.since)
    found = set(fixed_types(*key))
    if _may_bring_types(*key):
        found |= attribute_types(node, schema)
    found.discard("")
    return found


@functools.cache
def _may_bring_types(domain: str, op: str, since: int) -> bool:
    schema = schemas.schema(domain, op, since)
    return schema is not None and any(_brings_types(a) for a in schema.attributes.values())


def _brings_types(attribute: schemas.Attribute) -> bool:
    return attribute.name in TYPE_ATTRIBUTES or attribute.kind in (
        AttributeProto.TENSOR,
        AttributeProto.SPARSE_TENSOR,
        AttributeProto.TYPE_PROTO,
    )


@functools.cache
def fixed_types(domain: str, op: str, since: int) -> frozenset[str]:
    """Types that outputs have whatever comes in: those of variables with a single choice."""
    found: set[str] = set()
    schema = schemas.schema(domain, op, since)
    assert schema is not None
    bound = {p.variable for p in schema.inputs}
    for param in schema.outputs:
        if param.variable in bound:
            continue
        kinds = [tokens(text) for text in param.types]
        always = frozenset.intersection(*kinds)
        found |= always
        if not _may_bring_types(domain, op, since):
            found |= frozenset.union(*kinds) & IMPLIED_TYPES
    return frozenset(found)


def attribute_types(node: NodeProto, schema: schemas.Schema) -> set[str]:
    """Element types that the attributes of one node bring in."""
    found: set[str] = set()
    present = set()
    for attribute in node.attribute:
        present.add(attribute.name)
        if attribute.name in TYPE_ATTRIBUTES:
            name = attribute.s.decode().lower() if attribute.s else attribute.i
            found.add(name if isinstance(name, str) else schemas.element_name(name) or "")
        if attribute.HasField("t"):
            found.add(schemas.element_name(attribute.t.data_type) or "")
        elif attribute.HasField("sparse_tensor"):
            found.add(schemas.element_name(attribute.sparse_tensor.values.data_type) or "")
        elif attribute.HasField("tp"):
            found |= element_types(attribute.tp)
        elif attribute.name.startswith("value_int"):
            found.add("int64")
        elif attribute.name.startswith("value_string"):
            found.add("string")
    if not present & TYPE_ATTRIBUTES:
        found |= IMPLIED_TYPES
    return found
