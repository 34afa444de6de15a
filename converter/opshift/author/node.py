# SPDX-License-Identifier: Apache-2.0
"""Gives adapters access to a node and to facts about its values, by the names in its schema."""

from __future__ import annotations

import builtins
import enum
from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from typing import Any, Final, Literal, SupportsIndex, TypeAlias, TypeVar, overload

from opshift.author.attributes import is_default
from opshift.author.bounds import Bounds
from opshift.author.fit import fits
from opshift.author.infix import Infix, Writer
from opshift.author.present_types import tokens
from opshift.codes.refusals import Why
from opshift.errors import AdapterBug, InvalidModel, Refusal
from opshift.model.arrays import Array, from_array
from opshift.model.walk import named
from opshift.opsets import schemas
from opshift.opsets.types import Dims, dims_of, rank_of
from opshift.protos import AttributeProto, GraphProto, NodeProto, TensorProto, TypeProto, helper
from opshift.protos.copies import copy_of

_Kind = TypeVar("_Kind")
_Answer = TypeVar("_Answer")
_Rule = TypeVar("_Rule")

# The function gets the nodes of a graph or function, and the names of all graph outputs.
Survey: TypeAlias = "Callable[[Iterator[Node], frozenset[str]], _Answer]"


class Keep(enum.Enum):
    """The answer of an adapter that keeps the node exactly as it is."""

    KEEP = "keep"


KEEP: Final = Keep.KEEP
Result: TypeAlias = "Value | tuple[Value, ...] | Keep"


class TypePart(enum.Enum):
    """The part of a type that an adapter reads."""

    ELEMENT = "element"
    RANK = "rank"
    ALL = "all"


class Env(ABC):
    """An environment, which finds facts about the values that a node can read."""

    depth = -1  # the number of unfinished subgraphs around it

    @property
    def builder(self) -> Writer:
        """Returns the Builder that writes in this scope."""
        raise AdapterBug(
            "Python's operators work only on values of the node that the adapter replaces"
        )

    @abstractmethod
    def type(self, name: str, part: TypePart = TypePart.ALL) -> TypeProto | None:
        """Returns the type of a value; `part` is the part that the caller reads."""

    def dims(self, name: str, kind: TypeProto) -> Dims:
        """Returns the dimensions of a tensor as an adapter may use them."""
        return dims_of(kind)

    @abstractmethod
    def constant(self, name: str) -> Array | None:
        """Returns the value of a constant; None for a value that depends on inputs."""

    def tensor(self, name: str) -> TensorProto | None:
        """Returns a constant as a TensorProto with the name of the value."""
        value = self.constant(name)
        return None if value is None else from_array(value, name)

    @abstractmethod
    def bounds(self, name: str) -> Bounds | None:
        """Returns bounds of an integer value that hold for all model inputs; else None."""

    @abstractmethod
    def why_dynamic(self, name: str) -> str:
        """Returns the reason why a value is not a constant."""

    @abstractmethod
    def producer(self, name: str) -> Node | None:
        """Returns the node that computes a value; None for a function call or a malformed node."""

    @abstractmethod
    def use_rank(self, name: str) -> None:
        """Adds a note to the report if the rank of a value comes only from a declared type."""

    def claimed_dims(self, name: str, dims: Dims) -> Dims:
        """Completes dimensions from the declared type; the report then names the value."""
        return dims

    # -- only for environments of nodes of a model -------------------------------------------

    def possible_types(self) -> frozenset[str]:
        """Returns every element type that can occur in the model."""
        raise NotImplementedError

    def rare_types(self) -> frozenset[str]:
        """Returns the element types of the model that not every operator accepts."""
        raise NotImplementedError

    def is_computed(self, name: str) -> bool:
        """Returns whether a node of the model computes a value."""
        raise NotImplementedError

    def is_weight(self, name: str) -> bool:
        """Returns whether a value has too many elements to be written as a new constant."""
        raise NotImplementedError

    def is_same(self, name: str, other: str) -> bool:
        """Returns whether two names stand for the same value of the model."""
        return name == other

    def is_read(self, name: str) -> bool:
        """Returns whether a node or a graph output reads a value."""
        raise NotImplementedError

    def is_call(self, node: NodeProto) -> bool:
        """Returns whether a node calls a function of the model, not an operator."""
        raise NotImplementedError

    def load(self, tensor: TensorProto) -> Array:
        """Returns the value of a tensor in an attribute."""
        raise NotImplementedError

    def survey(self, survey: Survey[_Answer]) -> _Answer:
        """Runs a function once over all nodes of the graph or function, and caches its result."""
        raise NotImplementedError

    def graph(self, graph: GraphProto) -> GraphProto:
        """Returns a copy of a subgraph with its nodes in topological order."""
        raise NotImplementedError

    def inside(self, graph: GraphProto) -> Env:
        """Returns the environment for the values of a subgraph."""
        raise NotImplementedError

    def rules(self, kind: builtins.type[_Rule]) -> Mapping[tuple[str, str], _Rule]:
        """Returns the rules of one kind that authors have declared, by operator."""
        raise NotImplementedError


def _ints(values: Iterable[Any]) -> list[int]:
    return [int(v) for v in _listed(values)]


def _floats(values: Iterable[Any]) -> list[float]:
    return [float(v) for v in _listed(values)]


def _listed(values: Iterable[Any]) -> Iterable[Any]:
    if isinstance(values, bytes):  # bytes are a text, not a list of numbers
        raise TypeError
    return values


class Value(Infix):
    """A value of the graph; a node is refused if an adapter needs an unknown fact about it."""

    __slots__ = ("choices", "env", "name", "peers")
    env: Env

    def __init__(
        self,
        name: str,
        env: Env,
        choices: frozenset[str] = frozenset(),
        peers: Callable[[], Iterable[str]] = tuple,
    ) -> None:
        self.name = name
        self.env = env
        self.choices = choices  # the types that the schema allows for this input
        self.peers = peers  # the other inputs that the schema gives the same type

    def __repr__(self) -> str:
        return f"Value({self.name!r})"

    def __bool__(self) -> Literal[True]:
        """Returns True, so that `value and value.rank_or_none` is None for an omitted input."""
        return True

    @property
    def type(self) -> TypeProto | None:
        return self.env.type(self.name, TypePart.ALL)

    @property
    def type_text(self) -> str | None:
        """Returns the type without a shape as text, such as `tensor(float)`."""
        return schemas.type_name(self.env.type(self.name, TypePart.ELEMENT))

    @property
    def elem_type_or_none(self) -> int | None:
        kind = self.env.type(self.name, TypePart.ELEMENT)
        if kind is not None and kind.WhichOneof("value") not in (None, "tensor_type"):
            return None
        elem_type = kind.tensor_type.elem_type if kind is not None else 0
        return elem_type or self._of_peers() or self._only_choice()

    def _of_peers(self) -> int | None:
        """Returns the type of another input with the same type variable in the schema."""
        for name in self.peers():
            kind = self.env.type(name, TypePart.ELEMENT)
            if kind is not None and kind.tensor_type.elem_type:
                return kind.tensor_type.elem_type
        return None

    def _only_choice(self) -> int | None:
        """Returns the element type if only one type of the model is allowed for this value."""
        present = self.env.possible_types() if self.choices else frozenset()
        possible = [text for text in self.choices if tokens(text) <= present]
        if len(possible) != 1 or not possible[0].startswith("tensor("):
            return None
        return schemas.element_number(possible[0][len("tensor(") : -1])

    @property
    def elem_type(self) -> int:
        elem_type = self.elem_type_or_none
        if elem_type is None:
            raise Refusal(Why.NEEDS_TYPE, f"the element type of {self.name!r} is unknown")
        return elem_type

    def may_be(self, elem_type: int) -> bool:
        """Returns whether the value has, or may have, this element type."""
        own_type = self.elem_type_or_none
        if own_type is not None:
            return own_type == elem_type
        return schemas.element_name(elem_type) in self.env.possible_types()

    @property
    def rank_or_none(self) -> int | None:
        rank = rank_of(self.env.type(self.name, TypePart.RANK))
        if rank is not None:
            self.env.use_rank(self.name)
        return rank

    @property
    def rank(self) -> int:
        rank = self.rank_or_none
        if rank is None:
            raise Refusal(Why.NEEDS_RANK, f"the rank of {self.name!r} is unknown")
        return rank

    @property
    def is_weight(self) -> bool:
        """Returns whether the value is a constant with too many elements to read."""
        return self.env.is_weight(self.name)

    @property
    def dims_or_none(self) -> Dims | None:
        """Returns each dimension as a number, a symbol or None; None if the rank is unknown."""
        dims = self._dims()
        if dims is not None:
            self.env.use_rank(self.name)
        return dims

    def _dims(self) -> Dims | None:
        kind = self.env.type(self.name, TypePart.RANK)
        if kind is None or rank_of(kind) is None:
            return None
        return self.env.dims(self.name, kind)

    @property
    def has_zero_dim(self) -> bool:
        """Returns whether a dimension is known to be 0, without a note in the report."""
        return 0 in (self._dims() or ())

    @property
    def dims(self) -> Dims:
        dims = self.dims_or_none
        if dims is None:
            raise Refusal(Why.NEEDS_RANK, f"the rank of {self.name!r} is unknown")
        return dims

    @property
    def claimed_dims_or_none(self) -> Dims | None:
        """Returns the dimensions, with numbers that come only from a declared type if needed.

        Use these dimensions only if no nodes can compute the shape. If such numbers are used, the
        report names the value.
        """
        dims = self.dims_or_none
        return None if dims is None else self.env.claimed_dims(self.name, dims)

    @property
    def shape_or_none(self) -> tuple[int, ...] | None:
        """Returns the shape if inference confirms every dimension as a number."""
        dims = self._dims()
        if dims is None or not all(isinstance(d, int) for d in dims):
            return None
        self.env.use_rank(self.name)
        return tuple(d for d in dims if isinstance(d, int))

    @property
    def shape(self) -> tuple[int, ...]:
        """Returns the shape; the report names the value if only its declared type has the shape."""
        dims = self.claimed_dims_or_none
        if dims is None or not all(isinstance(d, int) for d in dims):
            raise Refusal(Why.NEEDS_SHAPE, f"the shape of {self.name!r} is not static")
        return tuple(d for d in dims if isinstance(d, int))

    def const_or_none(self) -> Array | None:
        return self.env.constant(self.name)

    def const(self) -> Array:
        value = self.const_or_none()
        if value is None:
            reason = self.env.why_dynamic(self.name)
            raise Refusal(Why.NEEDS_CONSTANT, f"{self.name!r} must be constant, but {reason}")
        return value

    @property
    def bounds_or_none(self) -> Bounds | None:
        """Returns the smallest and largest integer that the elements can have, or None."""
        return self.env.bounds(self.name)

    @property
    def bounds(self) -> Bounds:
        bounds = self.bounds_or_none
        if bounds is None:
            raise Refusal(
                Why.NEEDS_CONSTANT,
                f"the smallest and the largest element of {self.name!r} are unknown",
            )
        return bounds

    @property
    def never_negative(self) -> bool:
        """Returns whether no element can be negative, as in sizes and in indices from the front."""
        bounds = self.bounds_or_none
        return bounds is not None and bounds.never_negative

    @property
    def producer(self) -> Node | None:
        """Returns the node that computes the value; None for inputs and initializers."""
        return self.env.producer(self.name)

    @property
    def computed(self) -> bool:
        """Returns whether a node of the model computes the value."""
        return self.env.is_computed(self.name)

    def is_same(self, other: Value) -> bool:
        """Returns whether two inputs of a node are the same value of the model."""
        return self.env.is_same(self.name, other.name)

    @property
    def used(self) -> bool:
        """Returns whether a node reads the value or a graph returns it."""
        return self.env.is_read(self.name)


def _without_empty_reference(attribute: AttributeProto) -> AttributeProto:
    """Removes an empty attribute reference, which onnx accepts only outside of subgraphs."""
    if attribute.ref_attr_name or not attribute.HasField("ref_attr_name"):
        return attribute
    plain = copy_of(attribute)
    plain.ClearField("ref_attr_name")
    return plain


def refuse_reference(attribute: AttributeProto) -> None:
    """Refuses the node if an attribute has its value only at the call of a function."""
    if attribute.ref_attr_name:
        raise Refusal(
            Why.NEEDS_STATIC_ATTR,
            f"attribute {attribute.name!r} refers to the attribute {attribute.ref_attr_name!r} of"
            " the function around the node, so its value is not known",
        )


class Inputs(tuple["Value | None", ...]):
    """All inputs of a node, None if omitted; records which inputs an adapter reads."""

    reads: set[Any]

    @staticmethod
    def of(values: Iterable[Value | None], reads: set[Any]) -> Inputs:
        inputs = Inputs(values)
        inputs.reads = reads
        return inputs

    @overload
    def __getitem__(self, at: SupportsIndex) -> Value | None: ...
    @overload
    def __getitem__(self, at: slice) -> tuple[Value | None, ...]: ...
    def __getitem__(self, at: SupportsIndex | slice) -> Any:
        value = super().__getitem__(at)
        positions = range(len(self))[at]
        self.reads.update(positions if isinstance(positions, range) else (positions,))
        return value

    def __iter__(self) -> Iterator[Value | None]:
        self.reads.update(range(len(self)))
        return super().__iter__()

    def __add__(self, more: tuple[Any, ...]) -> tuple[Any, ...]:
        return (*self, *more)

    def __radd__(self, more: tuple[Any, ...]) -> tuple[Any, ...]:
        return (*more, *self)


class Node:
    """A node whose inputs and attributes have the names of its schema; other names are errors."""

    __slots__ = ("attributes", "env", "graphs_taken", "proto", "reads", "schema")

    def __init__(self, proto: NodeProto, schema: schemas.Schema | None, env: Env) -> None:
        self.proto = proto
        self.schema = schema
        self.env = env
        self.attributes = {a.name: a for a in proto.attribute}
        self.graphs_taken = False
        self.reads: set[builtins.str | builtins.int] = set()  # attribute names, input positions

    @property
    def op(self) -> builtins.str:
        return self.proto.op_type

    @property
    def name(self) -> builtins.str:
        return self.proto.name

    @property
    def fits(self) -> builtins.bool:
        """Returns whether the node has only attributes, inputs and outputs of its schema."""
        return fits(self.proto, self.schema)

    # -- inputs and outputs ------------------------------------------------------------------

    def __getitem__(self, name: builtins.str) -> Value:
        """Returns a required input; refuses the node if the input is absent."""
        value = self.input(name)
        if value is None:
            raise Refusal(Why.NOT_EXPRESSIBLE, f"{self.op} has no input {name!r}")
        return value

    def input(self, name: builtins.str) -> Value | None:
        """Returns an input, or None if it is absent."""
        return self.input_at(self._position(name, outputs=False))

    def input_at(self, position: builtins.int) -> Value | None:
        """Returns an input by position, or None if absent, for operators without a schema."""
        names = self.proto.input
        if position >= len(names) or not names[position]:
            return None
        self.reads.add(position)
        return self._value(names[position], position, outputs=False)

    def variadic(self, name: builtins.str) -> tuple[Value | None, ...]:
        """Returns the values of a variadic input in order; None for an omitted value."""
        return self.inputs[self._position(name, outputs=False) :]

    @property
    def inputs(self) -> tuple[Value | None, ...]:
        """Returns all inputs in order; None for an omitted input."""
        names = enumerate(self.proto.input)
        values = (self._value(name, i, outputs=False) if name else None for i, name in names)
        return Inputs.of(values, self.reads)

    def output(self, name: builtins.str) -> Value | None:
        position, names = self._position(name, outputs=True), self.proto.output
        if position >= len(names) or not names[position]:
            return None
        return self._value(names[position], position, outputs=True)

    @property
    def outputs(self) -> tuple[Value | None, ...]:
        return tuple(
            self._value(n, i, outputs=True) if n else None for i, n in enumerate(self.proto.output)
        )

    @property
    def n_outputs(self) -> builtins.int:
        """Returns the number of outputs, up to the last output with a name."""
        return max((i for i, name in enumerate(self.proto.output, 1) if name), default=0)

    def _value(self, name: builtins.str, position: builtins.int, *, outputs: bool) -> Value:
        if self.schema is None:
            return Value(name, self.env)
        at = self.schema.output_at if outputs else self.schema.input_at
        param = at(position)
        if param is None:
            return Value(name, self.env)
        return Value(name, self.env, param.types, lambda: self._peers(name, param))

    def _peers(self, name: builtins.str, param: schemas.Param) -> Iterator[builtins.str]:
        """Yields the other inputs that share the type variable of a parameter in the schema."""
        for i, peer in enumerate(self.proto.input if not param.variadic else ()):
            twin = self.schema.input_at(i) if self.schema is not None else None
            if not peer or peer == name or twin is None or twin.variadic:
                continue
            if twin.variable == param.variable:
                yield peer

    def _position(self, name: builtins.str, *, outputs: bool) -> builtins.int:
        if self.schema is None or not self.schema.stated:
            raise AdapterBug(f"{self.op} has no schema: use .inputs and .outputs by position")
        known_at = self.schema.output_positions if outputs else self.schema.input_positions
        position = known_at.get(name)
        if position is not None:
            return position
        kind, names = "output" if outputs else "input", ", ".join(known_at)
        raise AdapterBug(f"{self.op}-{self.schema.since} has no {kind} {name!r} (it has {names})")

    # -- attributes --------------------------------------------------------------------------

    def has(self, name: builtins.str) -> bool:
        """Returns whether the node sets the attribute."""
        self._known(name)
        self.reads.add(name)
        return name in self.attributes

    def int(self, name: builtins.str) -> builtins.int:
        return self._read(name, int)

    def float(self, name: builtins.str) -> builtins.float:
        return self._read(name, float)

    def str(self, name: builtins.str) -> builtins.str:
        return self._text(name, self._needed(name))

    def ints(self, name: builtins.str) -> list[builtins.int]:
        return self._read(name, _ints)

    def ints_or_none(self, name: builtins.str) -> list[builtins.int] | None:
        return None if self.attr(name) is None else self.ints(name)

    def floats(self, name: builtins.str) -> list[builtins.float]:
        return self._read(name, _floats)

    def strings(self, name: builtins.str) -> list[builtins.str]:
        return [self._text(name, text) for text in self._needed(name)]

    def _text(self, name: builtins.str, value: object) -> builtins.str:
        """Decodes a text of an attribute, which the model stores as bytes."""
        try:
            return value.decode() if isinstance(value, bytes) else str(value)
        except UnicodeDecodeError:
            raise InvalidModel(f"{named(self.proto)}: attribute {name!r} is not UTF-8") from None

    def tensor(self, name: builtins.str) -> Array:
        """Returns the value of a tensor attribute."""
        tensor: TensorProto = self._needed(name)
        return self.env.load(tensor)

    def graph(self, name: builtins.str) -> GraphProto:
        """Returns a copy of a subgraph, whose nodes are already at the target version."""
        self.graphs_taken = True
        return self.env.graph(self._needed(name))

    def around(self, name: builtins.str) -> Value:
        """Returns a value from outside the node that one of its subgraphs may read."""
        return Value(name, self.env)

    def results(self, name: builtins.str) -> tuple[Value, ...]:
        """Returns the outputs of a subgraph, as values of its own scope."""
        graph = self._needed(name)
        inside = self.env.inside(graph)
        return tuple(Value(o.name, inside) for o in graph.output)

    def attr(self, name: builtins.str) -> Any:
        """Returns an attribute's value, or else the default in the source schema, or None."""
        attribute = self._known(name)
        self.reads.add(name)
        proto = self.attributes.get(name)
        if proto is None:
            return attribute.default if attribute else None
        refuse_reference(proto)
        return helper.get_attribute_value(proto)

    def _read(self, name: builtins.str, kind: Callable[[Any], _Kind]) -> _Kind:
        """Reads an attribute as this Python type; raises InvalidModel for another type."""
        value = self._needed(name)
        try:
            return kind(value)
        except (TypeError, ValueError):
            raise InvalidModel(
                f"{self.op} {self.name!r}: attribute {name!r} cannot be {value!r}"
            ) from None

    def _needed(self, name: builtins.str) -> Any:
        value = self.attr(name)
        if value is None:
            raise Refusal(
                Why.NOT_EXPRESSIBLE,
                f"{self.op} does not set attribute {name!r}, which has no default",
            )
        return value

    def _known(self, name: builtins.str) -> schemas.Attribute | None:
        if self.schema is None or not self.schema.stated:
            return None
        if name not in self.schema.attributes:
            names = ", ".join(sorted(self.schema.attributes))
            raise AdapterBug(
                f"{self.op}-{self.schema.since} has no attribute {name!r} (it has {names})"
            )
        return self.schema.attributes[name]

    def attribute_protos(self) -> Iterator[AttributeProto]:
        """Returns the attributes to write into another node, without empty references."""
        return map(_without_empty_reference, self.proto.attribute)

    @property
    def is_call(self) -> builtins.bool:
        """Returns whether the node calls a function of the model, not an operator."""
        return self.env.is_call(self.proto)

    def survey(self, survey: Survey[_Answer]) -> _Answer:
        """Runs a function once over all nodes of this graph or function, and caches its result.

        The function has two parameters: the nodes in order, with the nodes of subgraphs last, and
        the names of the outputs of all these graphs.
        """
        return self.env.survey(survey)

    def carried(self, *, without: Collection[builtins.str] = ()) -> None:
        """Marks attributes and inputs as read because the adapter's answer contains them."""
        self.reads.update(self.attributes.keys() - without)
        for i in range(len(self.proto.input)):
            param = self.schema.input_at(i) if self.schema is not None else None
            if param is None or param.name not in without:
                self.reads.add(i)

    def unread_attributes(self) -> list[builtins.str]:
        """Returns the attributes without their default values that the function has not read."""
        unread = [proto for name, proto in self.attributes.items() if name not in self.reads]
        return [proto.name for proto in unread if not is_default(self.schema, proto)]

    def overlooked(self) -> list[builtins.str]:
        """Returns the attributes and inputs of the node that the adapter has not read.

        An attribute with its default value counts as absent.
        """
        names = self.unread_attributes()
        for i, name in enumerate(self.proto.input):
            if name and i not in self.reads:
                param = self.schema.input_at(i) if self.schema is not None else None
                names.append(param.name if param is not None else f"input {i + 1}")
        return names
