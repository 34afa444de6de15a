# SPDX-License-Identifier: Apache-2.0
"""Provides the Builder, with which an adapter writes nodes, constants and subgraphs."""

from __future__ import annotations

import copy
import functools
import weakref
from collections.abc import Callable, Collection, Hashable, Mapping, Sequence
from math import prod
from typing import Any, Protocol, cast, overload

from opshift.assumptions import Assumption
from opshift.author.attributes import is_default, make_attribute, make_attributes
from opshift.author.env import ModelEnv
from opshift.author.facts import LARGEST_SMALL
from opshift.author.node import Keep, Node, Result, Value
from opshift.author.traits import Fold
from opshift.author.written import Made, MadeEnv, Versions
from opshift.codes.refusals import Why
from opshift.errors import AdapterBug, Refusal
from opshift.lazy import numpy as np
from opshift.model.arrays import (
    Array,
    as_tensor,
    from_array,
    in_typed_field,
    is_array,
    of_integers,
    to_array,
)
from opshift.model.rename import rename
from opshift.model.scope import Root
from opshift.model.walk import graphs_of, nodes_inside
from opshift.opsets import layouts, schemas
from opshift.opsets.types import without_symbols
from opshift.protos import AttributeProto, GraphProto, NodeProto, TensorProto, helper
from opshift.protos.copies import copy_of
from opshift.records import dataclass
from opshift.text import qualified

MOST_GROWN = 1024  # the most elements of a folded constant that is larger than its operands
MOST_TYPED = 64  # the most elements of a constant that is stored in a typed field
MOST_NESTED = 40  # the deepest nesting of adapters that convert the nodes of other adapters
MOST = 50_000  # the most nodes that may replace one node; a larger result would be useless


class Emit(Protocol):
    """The call `op.Name(...)`, which returns one value, or a tuple of n values with `outputs=n`."""

    @overload
    def __call__(
        self, *inputs: Value | None, outputs: int, domain: str = "", **named: Any
    ) -> tuple[Value, ...]: ...

    @overload
    def __call__(self, *inputs: Value | None, domain: str = "", **named: Any) -> Value: ...


class Crossing(Versions, Protocol):
    """The conversion step in which a Builder writes nodes."""

    allow_approximate: bool
    assume: Collection[Assumption]
    lowest: int  # the verdict of this step writes nodes of other domains only from this version on

    @property
    def enters(self) -> str:
        """Returns the domain whose version the conversion step changes."""

    def fresh(self, hint: str) -> str: ...
    def constant(
        self, root: Root, content: Hashable, tensor: Callable[[], TensorProto]
    ) -> TensorProto: ...
    def cross(self, node: Node, start: int, to: int, op: Builder) -> Result: ...


@dataclass(frozen=True, slots=True)
class WritingOpset:
    """The opset of the nodes with which an adapter converts a node of a later opset down."""

    domain: str
    version: int
    depth: int  # the number of adapters whose nodes are being converted down


class Builder:
    """A writer of nodes; `op.Name(inputs, attribute=value)` adds a node at the target version."""

    def __init__(
        self,
        crossing: Crossing,
        model: ModelEnv,
        outer: Builder | None = None,
        subject: NodeProto | None = None,
    ) -> None:
        self.crossing = crossing
        self.subject = subject
        self.writing: WritingOpset | None = outer.writing if outer is not None else None
        self.scope = model.scope
        self.made = Made()
        around = outer.env if outer is not None else None
        self.env: MadeEnv = MadeEnv(crossing, model, self.made, around)
        self.env.written_by = weakref.ref(self)
        if outer is not None:
            self.made.constants = outer.made.constants
            self.made.held = outer.made.held
            self.made.approximations = outer.made.approximations
            self.made.assumptions = outer.made.assumptions
            self.made.missed = outer.made.missed
            self.made.ops = outer.made.ops
            self.made.inlined = outer.made.inlined

    @property
    def version(self) -> int:
        """Returns the target version of the step's domain; of ai.onnx if the step removes it."""
        return self.opset(self.crossing.enters)

    def opset(self, domain: str = "") -> int:
        """Returns the version at which the adapter writes nodes of a domain."""
        if self.writing is not None and domain == self.writing.domain:
            return self.writing.version
        return self._entered(domain)

    def _entered(self, domain: str = "") -> int:
        """Returns the version of a domain in the model after the conversion step."""
        return self.crossing.version(self.scope.root, domain)

    def __getattr__(self, op_type: str) -> Emit:
        if not op_type[:1].isupper():
            raise AttributeError(op_type)
        return cast(Emit, functools.partial(self.emit, op_type))

    @overload
    def emit(
        self, op_type: str, *inputs: Value | None, outputs: int, domain: str = "", **named: Any
    ) -> tuple[Value, ...]: ...

    @overload
    def emit(
        self, op_type: str, *inputs: Value | None, domain: str = "", **named: Any
    ) -> Value: ...

    def emit(
        self,
        op_type: str,
        *inputs: Value | None,
        domain: str = "",
        outputs: int | None = None,
        since: int = 1,
        **named: Any,
    ) -> Any:
        """Writes one node; each keyword is an input or an attribute, as the schema says.

        A node of another opset is converted if the model's opset lacks the operator or these
        parameters: down from a later opset, or up from an earlier opset. The parameter `since` is
        the first version of the intended operator; it is needed only if an older version has the
        same parameters.
        """
        schema = self._fitting(domain, op_type, len(inputs), named, since)
        names = [self._input_name(op_type, i) for i in inputs]
        attributes: dict[str, Any] = {}
        positions = schema.input_positions
        for name, value in named.items():
            is_attribute = name in schema.attributes or not schema.stated
            if is_attribute and not isinstance(value, Value):
                attributes[name] = value
            elif name in positions:
                at = positions[name]
                names += [""] * (at + 1 - len(names))
                names[at] = self._input_name(op_type, value)
            else:
                raise AdapterBug(f"{op_type}-{schema.since} has no input or attribute {name!r}")
        written = make_attributes(schema, attributes)
        if (end := self._end_of(schema)) is not None:
            return self._converted_up(schema, end, names, written, outputs)
        fold = None if outputs else self.env.rules(Fold).get((schema.domain, schema.name))
        if fold is None:
            return self._written(schema, names, written, outputs)
        if (constant := self._evaluated(fold, schema, names, written)) is not None:
            return constant
        # An operator with a fold is deterministic, so a second equal node is not needed.
        content = (schema.domain, schema.name, self.opset(domain), *names, *map(str, written))
        equal = self.made.equal.get(content)
        if equal not in self.made.makers:
            result: Value = self._written(schema, names, written, outputs)
            equal = self.made.equal[content] = result.name
        return Value(equal, self.env)

    def _written(
        self,
        schema: schemas.Schema,
        names: Sequence[str],
        attributes: Sequence[AttributeProto],
        outputs: int | None,
    ) -> Any:
        domain, op_type = schema.domain, schema.name
        if schema.since <= self.opset(domain) or domain != self.crossing.enters:
            self._schema(domain, op_type)
        node = self._node(op_type, domain, names, outputs or 1, attributes)
        values = self.place(node, schema)
        return values[0] if outputs is None else values

    def _evaluated(
        self,
        fold: Fold,
        schema: schemas.Schema,
        names: list[str],
        attributes: list[AttributeProto],
    ) -> Value | None:
        """Computes an operator on constants, and writes the result as a constant."""
        # Values of this Builder come first, because facts about the model are slower to find.
        operands = sorted(filter(None, names), key=lambda name: name not in self.made.makers)
        if not all(map(self._is_small_constant, operands)):
            return None
        proto = NodeProto(op_type=schema.name, input=names, output=["y"], attribute=attributes)
        value = fold.value(Node(proto, schema, self.env))
        if value is None or value.size > max(MOST_GROWN, *(self._size(name) for name in names)):
            return None
        return self.const(value)

    def _is_small_constant(self, name: str) -> bool:
        """Returns whether a value is a small constant, or a constant that this Builder wrote."""
        if name in self.made.constants:
            return True
        if self.env.is_weight(name):
            return False
        value = self.env.constant(name)
        return value is not None and value.size <= LARGEST_SMALL

    def _size(self, name: str) -> int:
        value = self.env.constant(name) if name else None
        return 0 if value is None else value.size

    @overload
    def same(
        self,
        node: Node,
        *,
        inputs: Mapping[str, Value | None] | None = None,
        outputs: int,
        **attributes: Any,
    ) -> tuple[Value, ...]: ...

    @overload
    def same(
        self, node: Node, *, inputs: Mapping[str, Value | None] | None = None, **attributes: Any
    ) -> Value: ...

    def same(
        self,
        node: Node,
        *,
        inputs: Mapping[str, Value | None] | None = None,
        outputs: int | None = None,
        **attributes: Any,
    ) -> Any:
        """Writes a node's operator at the target version, with changed inputs or attributes.

        The value None removes an input or an attribute. All inputs and attributes that the call
        does not mention stay. Returns one value for a node with one output, and a tuple for more
        outputs or if `outputs` is given.
        """
        node.carried(without={*attributes, *(inputs or {})})
        schema = self._schema(schemas.normal(node.proto.domain), node.op)
        names = self._same_inputs(node, schema, inputs or {})
        kept, carried = [], []
        for proto in node.attribute_protos():
            if proto.name in attributes:
                continue
            if proto.type in (AttributeProto.GRAPH, AttributeProto.GRAPHS):
                carried.append(proto.name)
            elif proto.name in schema.attributes or not schema.stated:
                kept.append(proto)
            elif not is_default(node.schema, proto):
                raise AdapterBug(
                    f"{node.op}-{schema.since} has no attribute {proto.name!r}, which the node"
                    f" sets; give {proto.name}=None to remove it"
                )
        for name, value in attributes.items():
            if value is None:
                continue
            if schema.stated and name not in schema.attributes:
                raise AdapterBug(f"{node.op}-{schema.since} has no attribute {name!r}")
            kept.append(make_attribute(schema, name, value))
        count = node.n_outputs if outputs is None else outputs
        carries = self.made.carrier is None and node.proto is self.subject
        if carried and not carries:
            kept += [a for a in node.attribute_protos() if a.name in carried]
        copy = self._node(node.op, node.proto.domain, names, count, kept)
        # The plan already contains the operator of the node, so it is not recorded as written.
        result = self._append(copy) if self.writing is None else self.place(copy, schema)
        if carries:
            self.made.carrier, self.made.carried = self.made.nodes[-1], frozenset(carried)
        return result[0] if outputs is None and count == 1 else result

    def same_but(
        self, node: Node, inputs: Sequence[Value | None], **attributes: Any
    ) -> tuple[Value, ...]:
        """Writes a node's operator at the target version, with all inputs by position."""
        node.carried(without=set(attributes))
        bare = copy_of(node.proto)
        del bare.input[:]
        bare.input.extend(value.name if value else "" for value in inputs)
        subject, self.subject = self.subject, bare if node.proto is self.subject else self.subject
        try:
            changed = Node(bare, node.schema, self.env)
            results: tuple[Value, ...] = self.same(changed, outputs=node.n_outputs, **attributes)
            return results
        finally:
            self.subject = subject

    def _same_inputs(
        self, node: Node, schema: schemas.Schema, changed: Mapping[str, Value | None]
    ) -> list[str]:
        assert node.schema is not None
        if not (schema.stated and node.schema.stated) and not changed:
            return list(node.proto.input)
        new, old = schema.input_positions, node.schema.input_positions
        for name in changed:
            if name not in new and name not in old:
                raise AdapterBug(f"{node.op}-{schema.since} has no input {name!r}")
        names: list[str] = []
        for i, source in enumerate(node.proto.input):
            param = node.schema.input_at(i)
            if param is None or (param.name in changed and not param.variadic):
                continue
            at = i if param.variadic else new.get(param.name)
            if at is None and i < len(schema.inputs) and schema.inputs[i].name not in old:
                at = i  # only the name of the input changed
            if at is None:
                if not source:
                    continue
                raise AdapterBug(f"{node.op}-{schema.since} has no input {param.name!r}")
            names += [""] * (at + 1 - len(names))
            names[at] = source
        for name, value in changed.items():
            if value is not None:
                at = new[name]
                names += [""] * (at + 1 - len(names))
                names[at] = self._input_name(node.op, value)
        while names and not names[-1]:
            names.pop()
        return names

    def const(self, value: Any, dtype: int | None = None, *, like: Value | None = None) -> Value:
        """Writes a constant; integers are int64 unless `dtype` or `like` gives the element type."""
        if like is not None:
            dtype = like.elem_type
        if dtype is None and (made := of_integers(value)) is not None:
            return self._place(in_typed_field(made) if self._is_typed(prod(made.dims)) else made)
        array = np.asarray(value)
        if dtype is None and not is_array(value):
            if array.dtype.kind in "iu" or array.size == 0:
                array = array.astype(np.int64)
            elif array.dtype.kind == "f":
                raise AdapterBug(
                    "a floating-point constant has no element type; give dtype= or like="
                )

        typed = self._is_typed(array.size)

        def tensor() -> TensorProto:
            made = from_array(array) if dtype is None else as_tensor(array, dtype)
            return in_typed_field(made) if typed else made

        if array.dtype.hasobject:
            return self._place(tensor())
        content = (array.dtype, array.shape, array.tobytes(), dtype, typed)
        return self._place_once(content, tensor)

    def _is_typed(self, size: int) -> bool:
        """Returns whether a constant of this size is stored in the typed field, not in raw_data."""
        # Some readers of models below opset 11 infer shapes only from typed fields.
        return size <= MOST_TYPED and self._entered() < 11

    def _place(self, tensor: TensorProto) -> Value:
        return self._place_once(tensor.SerializeToString(deterministic=True), lambda: tensor)

    def _place_once(self, content: Hashable, tensor: Callable[[], TensorProto]) -> Value:
        """Adds a constant to the graph, or returns an earlier constant with equal content."""
        root = self.scope.root
        if not root.owns_constants:
            return self._constant_node(tensor())
        placed = self.crossing.constant(root, content, tensor)
        self.made.constants[placed.name] = placed
        return Value(placed.name, self.env)

    def _constant_node(self, tensor: TensorProto) -> Value:
        """Writes a constant as a node, because function bodies have no initializers."""
        value = self._held(tensor)
        self.made.held[value.name] = to_array(tensor)
        return value

    def _held(self, tensor: TensorProto) -> Value:
        floats = (TensorProto.FLOAT, TensorProto.FLOAT16, TensorProto.DOUBLE)
        if self._entered() >= 9 or tensor.data_type in floats:
            attribute = AttributeProto(name="value", type=AttributeProto.TENSOR, t=tensor)
            return self._append(self._node("Constant", "", [], 1, [attribute]))[0]
        wide = self._constant_node(as_tensor(_widened(tensor), TensorProto.DOUBLE))
        to: Any = tensor.data_type
        if self._entered() < 6:
            to = TensorProto.DataType.Name(to)
        cast = schemas.schema("", "Cast", self._entered())
        assert cast is not None
        attributes = make_attributes(cast, {"to": to})
        return self._append(self._node("Cast", "", [wide.name], 1, attributes))[0]

    def graph(
        self, write: Callable[..., Any], *params: Value | tuple[int, Sequence[Any] | None]
    ) -> GraphProto:
        """Writes a subgraph for an attribute; `write(op, *inputs)` returns the graph's outputs.

        Each item of `params` becomes an input: either a value with the type of the input, or a pair
        (element type, shape).
        """
        inner = Builder(self.crossing, self.env.env, self)
        graph = GraphProto(name=self.crossing.fresh("body"))
        values = []
        for param in params:
            info = graph.input.add(name=self.crossing.fresh("in"))
            if isinstance(param, Value):
                declared = param.type
            else:
                declared = helper.make_tensor_type_proto(*param)
            if declared is not None:
                declared = without_symbols(declared)  # a carried value may change its length
                info.type.CopyFrom(declared)
            inner.env.types[info.name] = declared
            values.append(Value(info.name, inner.env))
        results = write(inner, *values)
        written = {name for node in inner.made.nodes for name in node.output}
        names: set[str] = set()
        for result in results if isinstance(results, tuple) else (results,):
            if result.name not in written or result.name in names:
                result = inner.Identity(result)
            names.add(result.name)
            info = graph.output.add(name=result.name)
            kind = inner.env.type(result.name)
            if kind is not None:  # Loop needs the type if it runs no iteration
                info.type.CopyFrom(without_symbols(kind))
        inner.made.drop_idle(names)
        graph.node.extend(inner.made.nodes)
        return graph

    def inline(self, graph: GraphProto, *inputs: Value | None) -> tuple[Value, ...]:
        """Writes the nodes of a subgraph in this graph, with these values as its inputs."""
        names = {
            info.name: value.name if value else ""
            for info, value in zip(graph.input, inputs, strict=True)
        }
        for tensor in graph.initializer:
            names[tensor.name] = self._place(tensor).name
        for proto in graph.node:
            copy = copy_of(proto)
            for output in copy.output:
                if output:
                    names[output] = self.crossing.fresh(copy.op_type)
            rename(copy, names)
            self._name_graphs(copy)
            self.made.add(copy)
        for info in graph.output:
            if info.HasField("type") and info.name in names:
                self.env.types.setdefault(names[info.name], info.type)
        return tuple(Value(names.get(o.name, o.name), self.env) for o in graph.output)

    def _name_graphs(self, copy: NodeProto) -> None:
        """Renames the subgraphs of an inlined node if an earlier copy has the same name."""
        for inner in (copy, *nodes_inside(copy)):
            for _, graph in graphs_of(inner):
                if graph.name in self.made.inlined:
                    graph.name = self.crossing.fresh(inner.op_type)
                self.made.inlined.add(graph.name)

    def expand(self, node: Node) -> Value | tuple[Value, ...]:
        """Writes the nodes of the operator's function body, converted to the target version."""
        from opshift.author import function_body

        node.carried()
        body = function_body.body_of(node, self.scope.root.imports)
        attributes = function_body.bindings(node, body)
        names = {
            formal: node.proto.input[i] if i < len(node.proto.input) else ""
            for i, formal in enumerate(body.input)
        }
        for proto in body.node:
            if proto.domain == function_body.GRAPH:
                inputs = [Value(names[name], self.env) for name in proto.input]
                results = self.inline(node.graph(proto.op_type), *inputs)
                names.update(zip(proto.output, (value.name for value in results), strict=True))
                continue
            copied = function_body.instance(proto, attributes, names, self.crossing.fresh)
            domain = schemas.normal(copied.domain)
            version = function_body.version_of(body, domain, self.scope.root.imports)
            written = self._crossed(copied, domain, version)
            for name, value in zip(proto.output, written, strict=False):
                names[name] = value.name
        results = tuple(Value(names[name], self.env) for name in body.output[: node.n_outputs])
        return results[0] if len(results) == 1 else results

    def _crossed(self, node: NodeProto, domain: str, left: int) -> tuple[Value, ...]:
        """Writes a node of a function body, converted to the target version."""
        schema, entered = schemas.schema(domain, node.op_type, left), self.opset(domain)
        if schema is not None and left < entered:
            shown = Node(node, schema, self.env)
            answer = self.crossing.cross(shown, left, entered, self)
            if not isinstance(answer, Keep):
                return answer if isinstance(answer, tuple) else (answer,)
            schema = schemas.schema(domain, node.op_type, entered)
        if schema is not None:
            return self.place(node, schema)
        self.made.add(node)  # no schema describes the domain of this node
        return tuple(Value(name, self.env) for name in node.output)

    def dissolve(self, reason: str) -> tuple[Value, ...]:
        """Removes the node without a replacement; refuses the node if its outputs are still read.

        An adapter calls this method for an output that cannot exist at the target version. An
        adapter of a node that reads this output finds the removed node as `value.producer`. The
        adapter of the reader must write nodes that do not read the output.
        """
        self.made.unread = reason
        return ()

    def ask_caller(self, why: Why, detail: str) -> None:
        """Refuses a node inside a function body, because more facts may be known after inlining."""
        if self.scope.root.function is not None:
            raise Refusal(why, detail)

    def approximate(self, reason: str) -> None:
        """Refuses the node unless the caller allowed approximations."""
        if not self.crossing.allow_approximate:
            raise Refusal(Why.APPROXIMATE_ONLY, reason)
        self.made.approximations.append(reason)

    def assumes(self, assumption: Assumption, *values: Value) -> bool:
        """Returns whether the caller allowed an assumption that no fact about `values` contradicts.

        The report lists every node for which this method returned True, so call this method only if
        its result is used. If the caller did not allow the assumption and the node is refused
        later, the refusal names the option.
        """
        if any(_CONTRADICTS[assumption](value) for value in values):
            return False
        allowed = assumption in self.crossing.assume
        (self.made.assumptions if allowed else self.made.missed).add(assumption)
        return allowed

    # -- helpers -----------------------------------------------------------------------------

    def _fitting(
        self, domain: str, op_type: str, inputs: int, named: Mapping[str, Any], oldest: int
    ) -> schemas.Schema:
        """Finds the schema nearest to this opset that accepts these inputs and attributes."""
        here = schemas.schema(domain, op_type, max(oldest, self.opset(domain)))
        if here is not None and _fits(here, inputs, named):
            return here
        since = self.opset(domain)
        for schema in schemas.history(domain, op_type):
            if schema.since > since and not schema.deprecated and _fits(schema, inputs, named):
                return schema
        for schema in reversed(schemas.history(domain, op_type)):
            if here and oldest <= schema.since < here.since and _fits(schema, inputs, named):
                return schema
        return here or self._schema(domain, op_type)

    def _schema(self, domain: str, op_type: str) -> schemas.Schema:
        version = self.opset(domain)
        schema = layouts.layout(domain, op_type, version)
        if domain != self.crossing.enters:
            self._require(domain, op_type, version)
        if schema is None or schema.deprecated:
            state = "does not exist" if schema is None else "is deprecated"
            raise AdapterBug(f"{op_type} {state} at {domain or 'ai.onnx'} {version}")
        return schema

    def _require(self, domain: str, op_type: str, version: int) -> None:
        """Refuses the node if a domain is imported below the version that the adapter needs."""
        history = schemas.history(domain, op_type)
        needed = max(self.crossing.lowest, history[0].since) if history else 0
        if needed > version:
            shown = domain or "ai.onnx"
            raise Refusal(
                Why.NOT_EXPRESSIBLE,
                f"the replacement uses {op_type} and needs {shown} {needed} or later, but the model"
                f" imports {shown} {version}; convert {shown} first",
            )

    def _input_name(self, op_type: str, value: Value | None) -> str:
        if value is None:
            return ""
        if not isinstance(value, Value):
            raise AdapterBug(
                f"an input of {op_type} is {value!r}, which is not a Value; call op.const"
            )
        return value.name

    def place(self, node: NodeProto, schema: schemas.Schema) -> tuple[Value, ...]:
        """Adds a node, or its replacement if its operator is later than the model's opset."""
        if schema.since > self._entered(schema.domain):
            return self._converted_down(node, schema)
        self.made.ops.add(qualified(schema.domain, schema.name))
        return self._append(node)

    def _converted_down(self, node: NodeProto, schema: schemas.Schema) -> tuple[Value, ...]:
        """Converts a node of a later opset down to the model's opset, one opset at a time."""
        domain, start = schema.domain, schema.since
        depth = self.writing.depth + 1 if self.writing is not None else 1
        if depth > MOST_NESTED:
            raise AdapterBug(
                f"the replacement of {schema.name}-{start} at opset {start - 1} contains"
                f" {schema.name} again"
            )
        below = self._at(WritingOpset(domain, start - 1, depth))
        below.env.writing = node, start
        answer = self.crossing.cross(Node(node, schema, below.env), start, start - 1, below)
        if isinstance(answer, Keep):
            older = schemas.schema(domain, schema.name, start - 1)
            if older is None or older.deprecated:
                name = qualified(domain, schema.name)
                raise AdapterBug(f"the adapter keeps {name}-{start} at a version below {start}")
            values = below.place(node, older)
        else:
            values = answer if isinstance(answer, tuple) else (answer,)
        if len(values) < len(node.output) or self.made.unread is not None:
            raise AdapterBug(
                f"the replacement of {schema.name}-{start} below opset {start} lacks an output"
            )
        return tuple(Value(value.name, self.env) for value in values[: len(node.output)])

    def _end_of(self, schema: schemas.Schema) -> int | None:
        """Returns the version that replaced a schema; None if the opset still has the schema."""
        versions = (later.since for later in schemas.history(schema.domain, schema.name))
        end = next((version for version in versions if version > schema.since), None)
        return end if end is not None and end <= self.opset(schema.domain) else None

    def _converted_up(
        self,
        schema: schemas.Schema,
        end: int,
        names: Sequence[str],
        attributes: Sequence[AttributeProto],
        outputs: int | None,
    ) -> Any:
        """Writes the replacement of a node whose operator changed at the version `end`."""
        node = self._node(schema.name, schema.domain, names, outputs or 1, attributes)
        before = len(self.made.nodes)
        answer = self.crossing.cross(Node(node, schema, self.env), end - 1, end, self)
        if isinstance(answer, Keep):
            raise AdapterBug(
                f"the adapter keeps {schema.name}-{schema.since} at opset {end}, which changed it"
            )
        if any(written.op_type == schema.name for written in self.made.nodes[before:]):
            self.made.ops.add(qualified(schema.domain, schema.name))
        values = answer if isinstance(answer, tuple) else (answer,)
        return values[0] if outputs is None else values

    def _at(self, writing: WritingOpset) -> Builder:
        """Returns a Builder for the same nodes that writes at a later opset."""
        below, below.env = copy.copy(self), copy.copy(self.env)
        below.writing, below.subject = writing, None
        below.env.written_by = weakref.ref(below)
        return below

    def _node(
        self,
        op_type: str,
        domain: str,
        names: Sequence[str],
        outputs: int,
        attributes: Sequence[AttributeProto],
    ) -> NodeProto:
        new = [self.crossing.fresh(op_type) for _ in range(max(outputs, 1))]
        return NodeProto(
            op_type=op_type, domain=domain, input=names, output=new, attribute=attributes
        )

    def _append(self, node: NodeProto) -> tuple[Value, ...]:
        if len(self.made.nodes) == MOST:
            raise Refusal(Why.NOT_EXPRESSIBLE, f"the replacement needs more than {MOST:,} nodes")
        self.made.add(node)
        return tuple(Value(name, self.env) for name in node.output)


def _fits(schema: schemas.Schema, inputs: int, named: Mapping[str, Any]) -> bool:
    """Returns whether a schema has this number of inputs and a parameter for each keyword."""
    if inputs > len(schema.inputs) and not (schema.inputs and schema.inputs[-1].variadic):
        return False
    for name, value in named.items():
        attribute = schema.attributes.get(name) if not isinstance(value, Value) else None
        is_input = value is None or isinstance(value, Value)
        if attribute is None and (name not in schema.input_positions or not is_input):
            return False
        if isinstance(value, int) and attribute and attribute.kind == AttributeProto.STRING:
            return False
    return True


_CONTRADICTS: dict[Assumption, Callable[[Value], bool]] = {
    Assumption.NO_ZERO_DIMS: lambda value: value.has_zero_dim,
}


def _widened(tensor: TensorProto) -> Array:
    """Returns the numbers of a tensor as doubles; refuses the node if doubles cannot hold them."""
    array = to_array(tensor)
    if array.dtype.kind in "iub":
        wide = array.astype(np.float64)
        if list(map(int, wide.flat)) == array.reshape(-1).tolist():
            return wide
    raise Refusal(
        Why.NEEDS_CONSTANT,
        "below opset 9, a function body can hold only constants that doubles can express",
    )
