# SPDX-License-Identifier: Apache-2.0
"""The facts known about values before the model runs: constants, types and shapes."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING, Any, TypeAlias, TypeVar

from opshift.author import dynamic
from opshift.author.attributes import CONSTANT_FORMS
from opshift.author.declared import completed, correct
from opshift.author.inference import Known, infer_all, infer_node
from opshift.author.present_types import collect_present_types
from opshift.author.scope_types import Path, path_of
from opshift.author.traits import Fold, OutputRanks, OutputTypes
from opshift.lazy import deferred
from opshift.model import walk
from opshift.model.arrays import Array, dense
from opshift.model.walk import holds_graphs
from opshift.opsets import schemas
from opshift.opsets.types import (
    LENGTH,
    Dims,
    better,
    claims_more,
    dims_of,
    is_small,
    is_vague,
    rank_of,
)
from opshift.protos import GraphProto, ModelProto, NodeProto, TypeProto, helper
from opshift.text import shortened

if TYPE_CHECKING:
    import numpy as np

    from opshift.author.bounds import Bounds
    from opshift.author.node import Env, Node, TypePart
    from opshift.author.registry import Registry
    from opshift.model.document import Document
    from opshift.model.scope import Root, Scope
    from opshift.model.weights import Weights
else:
    np = deferred("numpy")

MAX_FOLD_BYTES = 1 << 20
MAX_FOLD_DEPTH = 64
MAX_BOUNDS_DEPTH = 48  # nodes that are followed back to find the bounds of a value
MAX_NAMED = 4  # values in one note of a report
UNSAID = TypeProto()
_Answer = TypeVar("_Answer")
MAX_NESTED = 16  # levels of folding that needs a type, which needs folding


# Looks at the nodes of a graph or function, and at the names of the outputs of its graphs.
Survey: TypeAlias = "Callable[[Iterator[Node], frozenset[str]], _Answer]"


class _TooDeep(Exception):  # noqa: N818 - it is no error, and only this module sees it
    """Raised for a constant that needs too many nested folds."""

    def __init__(self, owner: Scope, name: str) -> None:
        super().__init__(name)
        self.key = (owner, name)


class Facts:
    """Answers questions about the values of one document; each answer is computed once."""

    def __init__(
        self,
        document: Document,
        weights: Weights,
        adapters: Registry,
        snapshot: Callable[[], bytes | ModelProto],
    ) -> None:
        self.document = document
        self.weights = weights
        self.adapters = adapters
        self._snapshot = snapshot
        self._inferred: Known | None = None
        self._constants: dict[tuple[Scope, str], Array | None] = {}
        self._bounds: dict[tuple[Scope, str], Bounds | None] = {}
        self._bounds_depth = 0
        self._depth = 0
        self._followed: set[tuple[Scope, str]] = set()  # since the nodes have last changed
        self._generation = document.generation
        self._learned: dict[tuple[Scope, str], TypeProto] = {}
        self._stated: dict[tuple[Scope, str], TypeProto | None] = {}
        self._assumed: set[tuple[Scope, str]] = set()
        self.assumptions: dict[str, str] = {}  # by value: what was believed of its declaration
        self.inferred_alone: dict[bytes, dict[str, TypeProto]] = {}  # by digest of a node's model
        self.believes = False  # whether any rank came from a declaration
        self._present: frozenset[str] | None = None
        self._paths: dict[Scope, Path] = {}
        self._surveys: dict[tuple[Root, Survey[Any]], Any] = {}
        self._lengths: dict[tuple[Scope, str, int], str] = {}

    def length_symbol(self, scope: Scope, name: str, axis: int) -> str:
        """The symbol of a length of a value of which inference knows no number."""
        known = self._lengths
        return known.setdefault((scope, name, axis), f"{LENGTH}{len(known)}")

    # -- constants ---------------------------------------------------------------------------

    def constant(self, scope: Scope, name: str) -> Array | None:
        """The value of a constant, which is the same for all inputs; else None."""
        owner = scope.owner(name)
        if owner is None:
            return None
        self._forget_the_unknown()
        if (owner, name) not in self._constants:
            if self._depth >= MAX_FOLD_DEPTH:
                raise _TooDeep(owner, name)
            self._follow_constants(owner, name)
        return self._constants[owner, name]

    def _forget_the_unknown(self) -> None:
        """Lets what was unknown be asked again once a step has written other operators."""
        if self._generation != self.document.generation:
            self._generation = self.document.generation
            self._followed.clear()
            self._constants = {
                k: found for k, found in self._constants.items() if found is not None
            }

    def _follow_constants(self, owner: Scope, name: str) -> None:
        """Finds a constant. Constants that it depends on at great depth are found before it."""
        waiting = [(owner, name)]
        while waiting:
            self._depth += 1
            try:
                self._constants[waiting[-1]] = self._find_constant(*waiting[-1])
                waiting.pop()
            except _TooDeep as behind:
                if self._depth > 1:
                    raise
                if behind.key in waiting:  # a cycle in the graph, which is not checked before
                    self._constants[behind.key] = None
                else:
                    waiting.append(behind.key)
            finally:
                self._depth -= 1

    def is_longer(self, scope: Scope, name: str, length: int) -> bool:
        """Whether an initializer has more elements, which is known before it is read."""
        owner = scope.owner(name)
        tensor = owner.initializers.get(name) if owner is not None else None
        return tensor is not None and math.prod(tensor.dims) > length

    def _find_constant(self, owner: Scope, name: str) -> Array | None:
        if name in owner.initializers:
            if self.document.names.may_be_set(owner, name):
                return None
            return self.weights.load(owner.initializers[name])
        if name in owner.inputs or name in owner.sparse:
            return self._sparse_initializer(owner, name)
        position = owner.producers.get(name)
        return None if position is None else self._evaluate(owner, owner.node(position))

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
        fold = self.adapters.rules(Fold).get(key)
        if fold is None or len(node.output) != 1 or key not in owner.root.index:
            return None
        value = fold.value(self._read(owner, node, self._env(owner, folding=True)))
        return None if value is None or value.nbytes > MAX_FOLD_BYTES else value

    def bounds(self, scope: Scope, name: str) -> Bounds | None:
        """The bounds of an integer value, which hold for all inputs; else None."""
        from opshift.author import bounds

        owner = scope.owner(name)
        if owner is None or self._bounds_depth > MAX_BOUNDS_DEPTH:
            return None
        key = (owner, name)
        if key not in self._bounds:
            self._bounds_depth += 1
            try:
                self._bounds[key] = bounds.find(self, scope, owner, name)
            finally:
                self._bounds_depth -= 1
        return self._bounds[key]

    def producer(self, scope: Scope, name: str) -> Node | None:
        """The node that computes a value; None if that node calls a function of the model."""
        owner = scope.owner(name)
        position = owner.producers.get(name) if owner else None
        if owner is None or position is None:
            return None
        node = owner.node(position)
        known = (schemas.normal(node.domain), node.op_type) in owner.root.index
        return self._read(owner, node, self._env(owner)) if known else None

    def is_same(self, name: str, other: str) -> bool:
        """Whether two names stand for one value: whoever records questions looks here."""
        return name == other

    def is_computed(self, scope: Scope, name: str) -> bool:
        """Whether a node of the model computes a value."""
        return self.producer(scope, name) is not None

    def _env(self, scope: Scope, *, folding: bool = False) -> Env:
        from opshift.author.node import Env, FoldingEnv

        return (FoldingEnv if folding else Env)(self, scope)

    def _read(self, owner: Scope, node: NodeProto, env: Env) -> Node:
        from opshift.author.node import Node

        return Node(node, owner.root.schema_of(node), env)

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
            kind = CONSTANT_FORMS.get(attribute.name)
            if kind is not None:
                return np.array(helper.get_attribute_value(attribute), dtype=kind)
        return None

    def why_dynamic(self, scope: Scope, name: str) -> str:
        """The reason why a value is no constant: an input, a replaceable initializer or a node."""
        seen: set[tuple[Scope, str]] = set()
        while True:
            owner = scope.owner(name)
            if owner is None:
                return f"no graph around the node defines {name!r}"
            told = self._why_given(owner, name)
            if told is not None:
                return told
            node = owner.node(owner.producers[name])
            key = (schemas.normal(node.domain), node.op_type)
            found = None
            if key in self.adapters.rules(Fold) or key == ("", "Identity"):
                sources = (one for one in node.input if one and (owner, one) not in seen)
                found = next((one for one in sources if self.constant(owner, one) is None), None)
            if found is None:
                return dynamic.is_computed(name, node.op_type, node.name)
            scope, name = owner, found
            seen.add((owner, found))

    def _why_given(self, owner: Scope, name: str) -> str | None:
        """Why a value that no node computes is no constant; None where a node computes it."""
        if (owner, name) in self.document.names.bound:
            return f"{name!r} is an initializer that training_info binds, so training may change it"
        if name in owner.initializers:
            return dynamic.is_replaceable(name)
        return dynamic.is_input(name) if name in owner.inputs else None

    # -- types -------------------------------------------------------------------------------

    def type(self, scope: Scope, name: str) -> TypeProto | None:
        """The inferred type of a value, completed by its declaration where inference knows less."""
        owner = scope.owner(name)
        if owner is None:
            return None
        self._forget_the_unknown()
        known = self._known(owner, name)
        if (owner, name) not in self._followed and self._depth < MAX_NESTED:
            declared = owner.declared.get(name)
            if is_vague(known) or (declared is not None and claims_more(declared, known)):
                self._infer_towards(owner, name)
                known = self._known(owner, name)
        return known

    def tell(
        self, scope: Scope, name: str, found: TypeProto | None, what: TypePart
    ) -> TypeProto | None:
        """Returns `found`. A subclass overrides it to record what an adapter reads."""
        return found

    def dims(self, scope: Scope, name: str, found: TypeProto) -> Dims:
        """The dimensions of a tensor. A subclass overrides it to record the question."""
        return dims_of(found)

    def _known(self, owner: Scope, name: str) -> TypeProto | None:
        key = (owner, name)
        if key not in self._stated:
            proved = self._proved(owner, name)
            found = self._stated[key] = completed(proved, owner.declared.get(name))
            self.believes = self.believes or (found is not proved and rank_of(proved) is None)
        return self._stated[key]

    def _proved(self, owner: Scope, name: str) -> TypeProto | None:
        """The type that follows from the declared inputs alone."""
        fed = name in owner.inputs
        if name in owner.initializers and not (fed and self.document.names.may_be_set(owner, name)):
            return owner.initializer_type(name)
        if fed and (self._is_fed(owner) or self.document.is_fresh(name)):
            return owner.declared.get(name)  # declared for an input of the model, or by an adapter
        if (owner, name) in self._learned:
            return self._learned[owner, name]
        # Inference covers only the graph; a function may use its names for other values.
        known = self._inferred_type(owner, name) if owner.root.kind == "graph" else None
        return None if self.document.is_fresh(name) else known

    def _inferred_type(self, owner: Scope, name: str) -> TypeProto | None:
        """The type that inference of the whole model finds for a value of a graph."""
        found = self.inferred.types.get(name, UNSAID)
        if found is None:  # several graphs use this name
            found = self.inferred.graphs.get(self._path(owner), {}).get(name)
        return None if found is UNSAID else found

    def _path(self, scope: Scope) -> Path:
        """The place of a graph in the model, as inference numbers it."""
        if scope not in self._paths:
            self._paths[scope] = path_of(scope)
        return self._paths[scope]

    def _is_fed(self, owner: Scope) -> bool:
        """Whether the inputs of a graph are those of the model, whose types are trusted."""
        return owner is owner.root.top and owner.root.kind != "function"

    def learn(self, scope: Scope, name: str, found: TypeProto, *, assumed: bool) -> None:
        """Records the type of a value that the node which computes it gives."""
        self._learned[scope, name] = found
        self._stated.pop((scope, name), None)
        if assumed:
            self._assumed.add((scope, name))

    @property
    def inferred(self) -> Known:
        """The types that inference of the whole model finds."""
        if self._inferred is None:
            self._inferred = infer_all(self._snapshot(), self.adapters)
            self.believes = self.believes or bool(self._inferred.assumed)
        return self._inferred

    # -- declarations ------------------------------------------------------------------------

    def is_assumed(self, scope: Scope, name: str) -> bool:
        """Whether the rank of a value follows from a declaration that nothing confirms."""
        owner = scope.owner(name) if self.believes else None
        if owner is None or rank_of(self._known(owner, name)) is None:
            return False
        if (owner, name) in self._assumed:
            return True
        return rank_of(self._proved(owner, name)) is None or (
            owner.root.kind == "graph"
            and (owner, name) not in self._learned
            and self._is_inferred_from_a_claim(owner, name)
        )

    def _is_inferred_from_a_claim(self, owner: Scope, name: str) -> bool:
        """Whether inference of the whole model needed a declaration to find the rank of a value."""
        paths = self.inferred.assumed.get(name)
        if paths is None:
            return False
        own = self._path(owner)
        return own in paths or own not in self.inferred.graphs

    def assume(self, name: str, what: str) -> None:
        """Records for the report that the conversion used a fact that only a declaration gives."""
        self.assumptions.setdefault(name, what)

    def believed(self) -> list[str]:
        """The notes about facts that come only from declarations."""
        found: dict[str, list[str]] = {}
        for name, what in self.assumptions.items():
            found.setdefault(what, []).append(self.document.origins.get(name) or repr(name))
        return [
            f"the {what} of {_listed(names)} comes from a declaration, not confirmed by inference"
            for what, names in found.items()
        ]

    def correct(self) -> int:
        """Replaces declared shapes that contradict the inferred ones; returns their number."""
        return sum(
            correct(
                scope.proto,
                functools.partial(self.confirmed, scope),
                self._input_symbols,
                nested=scope.parent is not None,
            )
            for scope in self.document.roots[0].scopes
            if isinstance(scope.proto, GraphProto)
        )

    def confirmed(self, scope: Scope, name: str) -> TypeProto | None:
        """The inferred type of a value, if its rank does not come from a declaration."""
        claimed = self._is_inferred_from_a_claim(scope, name)
        return None if claimed else self._inferred_type(scope, name)

    def claimed(self, scope: Scope, name: str, dims: Dims) -> Dims:
        """The dimensions, completed by numbers that only a declaration gives.

        A declared length never replaces a symbol that comes from an input.
        """
        owner = scope.owner(name)
        declared = owner.declared.get(name) if owner is not None else None
        if owner is None or owner.root.kind == "function" or rank_of(declared) != len(dims):
            return dims  # a function is written out where its caller knows more
        assert declared is not None
        given = self._input_symbols
        return tuple(
            one if isinstance(one, int) or one in given else other if other is not None else one
            for one, other in zip(dims, dims_of(declared), strict=True)
        )

    @functools.cached_property
    def _input_symbols(self) -> frozenset[str]:
        inputs = (value.type.tensor_type.shape.dim for value in self.document.model.graph.input)
        return frozenset(dim.dim_param for dims in inputs for dim in dims if dim.dim_param)

    def _infer_towards(self, owner: Scope, name: str) -> None:
        """Infers the types that inference of the whole model missed, up to this value.

        The producers of a value are visited first, in a loop, because chains can be long.
        """
        waiting = [(owner, name)]
        try:
            while waiting:
                place, wanted = waiting[-1]
                position = place.producers.get(wanted)
                node = None if position is None else place.node(position)
                if (place, wanted) not in self._followed:
                    self._followed.add((place, wanted))
                    waiting += self._vague_behind(place, node) if node is not None else ()
                    continue
                if node is not None:
                    self._infer_outputs(place, node)
                waiting.pop()
        except _TooDeep:
            self._followed.difference_update(waiting)  # they are followed again after it
            raise

    def _vague_behind(self, place: Scope, node: NodeProto) -> Iterator[tuple[Scope, str]]:
        for name in filter(None, node.input):
            owner = place.owner(name)
            if owner is None or (owner, name) in self._followed:
                continue
            if is_vague(self._known(owner, name)):
                yield owner, name

    def _infer_outputs(self, place: Scope, node: NodeProto) -> None:
        """The types of a node's outputs, from its inputs as far as they are known by now."""
        if self.document.is_call(node) or not self._tells_more(place, node):
            return
        types = infer_node(node, self._env(place))
        assumed = any(self.is_assumed(place, name) for name in walk.reads(node) if name)
        for output, found in types.items():
            if schemas.type_name(found) is not None:
                proved = self._proved(place, output)
                known = better(proved, found)
                if known is not None:
                    self.learn(place, output, known, assumed=assumed and known is not proved)

    def _tells_more(self, place: Scope, node: NodeProto) -> bool:
        """Whether a fact about a node is known that inference of the whole model did not have."""
        if any(map(self.document.is_fresh, (*node.input, *node.output))):
            return True
        if holds_graphs(node):
            # If two graphs use one name, inference of the whole model may give no type for it.
            types = self.inferred.types
            return any(
                types.get(name, UNSAID) is None is self._inferred_type(place, name)
                for name in node.output
            )
        schema = place.root.schema_of(node)
        if schema is None:
            return (schemas.normal(node.domain), node.op_type) in self.adapters.rules(OutputTypes)
        outputs = [self._known(place, name) for name in node.output if name]
        if any(found is None or schemas.type_name(found) is None for found in outputs):
            return True  # a rule may need one typed input only; inference needs all
        if place.parent is not None and any(map(is_vague, outputs)):
            return True  # inference of the whole model has no ranks of loop-carried values
        if self._has_rank_to_tell(schema, outputs):
            return True
        if not schemas.raw(
            schema.domain, schema.name, schema.since
        ).has_type_and_shape_inference_function:
            return True
        return any(self._is_news(place, name) for name in node.input if name)

    def _has_rank_to_tell(self, schema: schemas.Schema, outputs: list[TypeProto | None]) -> bool:
        told = (schema.domain, schema.name) in self.adapters.rules(OutputRanks)
        return told and any(rank_of(found) is None for found in outputs)

    def _is_news(self, place: Scope, name: str) -> bool:
        """Whether inference of the whole model did not know this type or constant."""
        owner = place.owner(name)
        position = owner.producers.get(name) if owner is not None else None
        if owner is None or position is None:
            return False
        if (owner, name) in self._learned:
            return True
        if owner.node(position).op_type == "Constant" or not is_small(self._known(owner, name)):
            return False
        return self.constant(owner, name) is not None

    # -- surveys -----------------------------------------------------------------------------

    def survey(self, root: Root, look: Survey[_Answer]) -> _Answer:
        """What a function finds that looks at all nodes of a graph or function, asked once."""
        key = (root, look)
        if key not in self._surveys:
            ends = (one for scope in root.scopes for one in scope.proto.output)
            names = frozenset(one if isinstance(one, str) else one.name for one in ends)
            self._surveys[key] = look(self._nodes(root), names)
        found: _Answer = self._surveys[key]
        return found

    def _nodes(self, root: Root) -> Iterator[Node]:
        """All nodes, in order; those of a graph come before those of the graphs inside."""
        for scope in root.scopes:
            env = self._env(scope)
            for position in scope.sorted_positions():
                yield self._read(scope, scope.node(position), env)

    # -- present types -----------------------------------------------------------------------

    @property
    def present_types(self) -> frozenset[str]:
        """Every element type that can occur in the model. Most type checks need no more.

        For operators without a schema, it is assumed that they add no other type.
        """
        if self._present is None:
            self._present = frozenset(collect_present_types(self.document))
        return self._present

    def possible_types(self) -> frozenset[str]:
        """The element types that can occur. A subclass overrides it to record the question."""
        return self.present_types

    @property
    def counting(self) -> bool:
        """Whether the element types were collected, so that steps must add theirs."""
        return self._present is not None

    def add_present_types(self, types: Iterable[str]) -> None:
        """Adds the element types that a step has brought in."""
        if self._present is not None and not self._present.issuperset(types):
            self._present |= set(types)


def _listed(names: list[str]) -> str:
    return shortened(list(dict.fromkeys(names)), MAX_NAMED, "values")
