# SPDX-License-Identifier: Apache-2.0
"""Finds facts about values before the model runs: constants, types and shapes.

A fact depends only on the opened model and on the nodes that conversion steps wrote later. A fact
never depends on the order of requests. When a step replaces the node that computes a value, the
value keeps its name and meaning, so a fact from the opened model stays true. Other facts come from
the present nodes.
"""

from __future__ import annotations

import builtins
import contextlib
import copy
import functools
import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias, TypeVar

from opshift.author.attributes import CONSTANT_FORMS
from opshift.author.bounds import MOST_EACH, Bounds, joined, of_constant
from opshift.author.declared import completed, computed, correct
from opshift.author.env import ModelEnv
from opshift.author.fit import fits
from opshift.author.induction import symbols_of
from opshift.author.inference import Known, infer_all, infer_node
from opshift.author.node import Node, Survey, TypePart
from opshift.author.present_types import collect_present_types
from opshift.author.scope_types import NO_PATH, Inferred, Path, paths_inside
from opshift.author.traits import (
    DeclaredRules,
    Fold,
    OutputBounds,
    OutputRanks,
    OutputTypes,
    answer_of,
)
from opshift.lazy import numpy as np
from opshift.model import walk
from opshift.model.arrays import Array, dense
from opshift.model.scope import tensor_type
from opshift.model.walk import holds_graphs, named
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
from opshift.protos import GraphProto, ModelProto, NodeProto, TensorProto, TypeProto, helper
from opshift.text import shortened

if TYPE_CHECKING:
    from opshift.model.document import Document
    from opshift.model.fork import Fork
    from opshift.model.scope import Root, Scope
    from opshift.model.weights import Weights

MAX_FOLD_BYTES = 1 << 20
MAX_DEPTH = 24  # nesting of searches for facts; a deeper search is done first, on its own
MAX_NAMED = 4  # the most values that one note of a report names
LARGEST_SMALL = 1024  # the most elements of a constant that may be folded into another constant
# If a model has only these types, the nodes that adapters write need no type check.
COMMON_TYPES = frozenset(
    ["float", "double", "float16", "int64", "int32", "bool", "uint8", "string"]
)
CONSTANT, IDENTITY = ("", "Constant"), ("", "Identity")
UNSAID = TypeProto()
_Answer = TypeVar("_Answer")
_Rule = TypeVar("_Rule")


class Proved(NamedTuple):
    """The type of a value that follows from the model's inputs, not from its own declared type.

    The field `claimed` is true if the rank follows only from the declared rank of another value.
    The field `counted` is true if a dimension follows only from the declared rank of another value.
    """

    kind: TypeProto | None
    claimed: bool = False
    counted: bool = False


UNPROVED = Proved(None)
Claims: TypeAlias = "Mapping[str, str]"  # by value: the part of its type that is only declared


class Evaluated(NamedTuple):
    """A constant or bounds, computed from other values, with the declared types that were used."""

    found: Any
    claims: Claims


UNKNOWN = Evaluated(None, {})
NO_BOUNDS = Evaluated({}, {})
Find: TypeAlias = "Callable[[Facts, Scope, str], Any]"
Question: TypeAlias = "tuple[Find, Scope, str]"


class _TooDeep(Exception):  # noqa: N818 - not an error, and only this module sees it
    """Raised if the search for a fact nests too deeply; the inner fact is then found first."""

    def __init__(self, question: Question) -> None:
        super().__init__(question[2])
        self.question = question


class Facts:
    """The facts about the values of one document."""

    def __init__(
        self,
        document: Document,
        weights: Weights,
        adapters: DeclaredRules,
        snapshot: Callable[[], bytes | ModelProto],
        reopened: Callable[[], Document] | None = None,
    ) -> None:
        self.document = document
        self.weights = weights
        self.adapters = adapters
        self._opened = functools.cache(snapshot)
        self._inferred = functools.cache(lambda: infer_all(self._opened(), adapters))
        self._reopened = reopened  # opens the source model again after nodes have changed
        self._scopes = tuple(document.scopes())
        self._generation = document.generation
        self._memo: dict[Question, Any] = {}
        self._first_memo: dict[Question, Any] | None = None  # the facts before any change
        self._before: Facts | None = None
        self._twins: dict[Scope, Scope] = {}
        self._depth = 0
        self._recorded: dict[tuple[Scope, str], Proved] = {}
        self.relied_on: dict[str, str] = {}  # the declarations that the steps used
        self._alone: dict[bytes, Inferred] = {}  # inferred types, by the model of a single node
        self._present: frozenset[str] | None = None
        self._paths: dict[Scope, Path] = {}
        self._numbered: dict[Scope, int] = {}  # the generation of the paths
        self._surveys: dict[tuple[Root, Survey[Any]], Any] = {}
        self._constants: dict[tuple[object, ...], Evaluated] = {}  # by the content of the node
        self._lengths: dict[tuple[Scope, str, int], str] = {}

    def fork(self, copies: Fork) -> Facts:
        """Returns the facts for a copy of the document; both share whole-model inference."""
        twin, scopes = copy.copy(self), copies.scopes
        twin.document = copies.document
        twin._scopes = tuple(scopes[scope] for scope in self._scopes)
        twin._memo = _moved(self._memo, scopes)
        if self._first_memo is not None:
            twin._first_memo = _moved(self._first_memo, scopes)
        twin._recorded = {
            (scopes[at], name): proved for (at, name), proved in self._recorded.items()
        }
        twin.relied_on = {**self.relied_on}
        twin._twins = {scopes[at]: original for at, original in self._twins.items()}
        twin._paths = {scopes[at]: path for at, path in self._paths.items()}
        twin._numbered = {scopes[at]: number for at, number in self._numbered.items()}
        twin._surveys = {}
        lengths = [*self._lengths.items()]
        if self._before is None:  # otherwise all copies share the symbols of dimensions
            twin._lengths = {}
        for (at, name, axis), symbol in lengths:
            if at in scopes:
                twin._lengths[scopes[at], name, axis] = symbol
        return twin

    # -- one answer for each question --------------------------------------------------------------

    def _answer(self, find: Find, owner: Scope, name: str) -> Any:
        """Returns a cached fact about a value, or computes the fact with `find`."""
        if self._generation != self.document.generation:
            self._look_again()
        question = find, owner, name
        if question in self._memo:
            return self._memo[question]
        if self._depth:
            return self._find(question)
        waiting: list[Question] = [question]
        while waiting:
            try:
                self._find(waiting[-1])
                waiting.pop()
            except _TooDeep as deep:
                if deep.question in waiting:  # the graph has a cycle, which was not checked before
                    self._memo[deep.question] = _NO_ANSWER[deep.question[0]]
                else:
                    waiting.append(deep.question)
                    self._find_before(*deep.question)
        return self._memo[question]

    def _find(self, question: Question) -> Any:
        find, owner, name = question
        if self._depth >= MAX_DEPTH and name in owner.producers:  # other values need no search
            raise _TooDeep(question)
        self._depth += 1
        try:
            answer = self._memo[question] = find(self, owner, name)
        finally:
            self._depth -= 1
        return answer

    def _find_before(self, find: Find, owner: Scope, name: str) -> None:
        """Finds the facts from which a fact follows, before that fact.

        In a long chain of values, each search then ends soon. Otherwise each search that nests too
        deeply would begin again, with all values on its way.
        """
        waiting = [name]
        opened: dict[str, Question | None] = {}
        while waiting:
            read = waiting[-1]
            if read not in opened:
                opened[read] = question = self._open_question(find, owner, read)
                waiting += owner.node(owner.producers[read]).input if question else ()
                continue
            waiting.pop()
            if question := opened[read]:  # all facts before it are known now
                opened[read] = None
                with contextlib.suppress(_TooDeep):
                    self._find(question)

    def _open_question(self, find: Find, owner: Scope, name: str) -> Question | None:
        """Returns the question for a fact that follows from the inputs of a node; else None."""
        position, question = owner.producers.get(name), (find, owner, name)
        if position is None or question in self._memo:
            return None
        if find is Facts._find_proved:
            is_open = not self._is_enough(owner, name, self._given(owner, name))
        else:
            node = owner.node(position)
            key = schemas.normal(node.domain), node.op_type
            is_open = find is Facts.find_constant and key in self.adapters.rules(Fold)
        return question if is_open else None

    def _look_again(self) -> None:
        """Discards the cached facts after nodes of the model have changed."""
        if self._first_memo is None:
            for scope in self._scopes:
                self._path(scope)  # saved now, because the nodes with subgraphs may change
            self._first_memo = self._memo
        self._generation = self.document.generation
        self._memo = {}
        self._surveys.clear()

    def _at_first(self, find: Find, owner: Scope, name: str) -> Any:
        """Returns a fact about the source model if a step has replaced the node of the value."""
        position = owner.producers.get(name)
        if self._first_memo is None or (owner, position) not in self.document.rewritten:
            return _NO_ANSWER[find]  # the present nodes give the same fact or a better one
        question = find, owner, name
        if question in self._first_memo:
            return self._first_memo[question]
        if self._before is None and self._reopened is not None:
            self._open_again(self._reopened())
        twin = self._twins.get(owner)
        if self._before is None or twin is None or twin.owner(name) is not twin:
            return _NO_ANSWER[find]
        return self._before._answer(find, twin, name)

    def _open_again(self, document: Document) -> None:
        """Opens the model again as it was before the first step."""
        assert self._first_memo is not None
        self._before = Facts(document, self.weights, self.adapters, bytes)
        twins = self._twins = dict(zip(self._scopes, document.scopes(), strict=True))
        self._before._memo = _moved(self._first_memo, twins)
        self._before._inferred = self._inferred
        lengths = self._lengths.items()
        self._lengths = {(twins.get(at, at), name, axis): one for (at, name, axis), one in lengths}
        self._before._lengths = self._lengths

    def length_symbol(self, scope: Scope, name: str, axis: int) -> str:
        """Returns a symbol for a dimension whose length inference does not find."""
        symbols = self._lengths
        key = self._twins.get(scope, scope), name, axis
        return symbols.setdefault(key, f"{LENGTH}{len(symbols)}")

    def types_alone(self, model: ModelProto) -> Inferred:
        """Infers the types of the values of a model that has a single node."""
        key = model.SerializeToString(deterministic=True)
        if key not in self._alone:  # each step needs this for each output of the node
            self._alone[key] = infer_all(model, self.adapters).graphs.get((), {})
        return self._alone[key]

    # -- constants ---------------------------------------------------------------------------

    def constant(self, scope: Scope, name: str) -> Array | None:
        """Returns the value of a constant; None if it depends on inputs or is too large."""
        value: Array | None = self.evaluated(Facts.find_constant, scope, name).found
        return value

    def evaluated(self, find: Find, scope: Scope, name: str) -> Evaluated:
        """Returns a constant or bounds, with the declared types from which they follow."""
        owner = scope.owner(name)
        if owner is None:
            return UNKNOWN
        answer: Evaluated = self._answer(find, owner, name)
        return answer

    def is_longer(self, scope: Scope, name: str, length: int) -> bool:
        """Returns whether an initializer has more elements than `length`, by its shape only."""
        owner = scope.owner(name)
        tensor = owner.initializers.get(name) if owner is not None else None
        return tensor is not None and math.prod(tensor.dims) > length

    def find_constant(self, owner: Scope, name: str) -> Evaluated:
        """Finds the value of an initializer, of a Constant, or of a node that can be folded."""
        if name in owner.initializers:
            if self.document.names.may_be_set(owner, name):
                return UNKNOWN
            return Evaluated(self.weights.load(owner.initializers[name]), {})
        if name in owner.inputs or name in owner.sparse:
            return Evaluated(self._sparse_initializer(owner, name), {})
        evaluated = self._evaluate(owner, owner.producers[name])
        if evaluated.found is None:
            evaluated = self._at_first(Facts.find_constant, owner, name)
        return evaluated

    def _sparse_initializer(self, owner: Scope, name: str) -> Array | None:
        for sparse in getattr(owner.proto, "sparse_initializer", ()):
            if sparse.values.name == name:
                return dense(
                    self.weights.load(sparse.values), self.weights.load(sparse.indices), sparse.dims
                )
        return None

    def _evaluate(self, owner: Scope, position: int) -> Evaluated:
        node = owner.node(position)
        key = (schemas.normal(node.domain), node.op_type)
        if key == CONSTANT:
            return self._of_constant_node(owner, position, node)
        fold = self.adapters.rules(Fold).get(key)
        if fold is None and key != IDENTITY:
            return UNKNOWN
        schema = owner.layout_at(position)
        if not fits(node, schema):
            return UNKNOWN
        if key == IDENTITY:
            return self.evaluated(Facts.find_constant, owner, node.input[0])
        if fold is None or len(node.output) != 1 or key not in owner.root.index:
            return UNKNOWN
        env = FoldingEnv(self, owner)
        value = fold.value(Node(node, schema, env))
        is_small = value is not None and value.nbytes <= MAX_FOLD_BYTES
        return Evaluated(value, env.claims) if is_small else UNKNOWN

    def _of_constant_node(self, owner: Scope, position: int, node: NodeProto) -> Evaluated:
        """Returns the value of a Constant node; equal nodes share one array."""
        version = owner.ahead.get(position) or owner.root.imports.get("")
        content = [attribute.SerializeToString() for attribute in node.attribute]
        key = (version, len(node.input), len(node.output), *content)
        if key not in self._constants:
            is_legal = fits(node, owner.layout_at(position))
            self._constants[key] = Evaluated(self.constant_node(node), {}) if is_legal else UNKNOWN
        return self._constants[key]

    def bounds(self, scope: Scope, name: str) -> Bounds | None:
        """Returns bounds of an integer value that hold for all model inputs; else None."""
        bounds: Bounds | None = self.evaluated(Facts.find_bounds, scope, name).found
        return bounds

    def find_bounds(self, owner: Scope, name: str) -> Evaluated:
        """Finds the bounds of a constant, or computes them by the rule of the value's operator."""
        fixed = not self.document.names.may_be_set(owner, name)
        if fixed and self.is_longer(owner, name, MOST_EACH):
            parts = map(of_constant, self.weights.parts(owner.initializers[name]))
            return Evaluated(joined(parts), {})
        constant = self.evaluated(Facts.find_constant, owner, name)
        if constant.found is not None:
            return Evaluated(of_constant(constant.found), constant.claims)
        position = owner.producers.get(name)
        if position is not None:
            first = next(output for output in owner.node(position).output if output)
            by_rule: Evaluated = self._answer(Facts._bounds_of_outputs, owner, first)
            if (bounds := by_rule.found.get(name)) is not None:
                return Evaluated(bounds, by_rule.claims)
        at_first: Evaluated = self._at_first(Facts.find_bounds, owner, name)
        return at_first

    def _bounds_of_outputs(self, owner: Scope, name: str) -> Evaluated:
        """Computes the bounds of all outputs of the node that computes this value, by a rule."""
        env = ScopeEnv(self, owner)
        node = env.producer(name)
        rule = self.adapters.rules(OutputBounds).get(("", node.op)) if node is not None else None
        if rule is None or node is None or node.proto.domain not in ("", "ai.onnx"):
            return NO_BOUNDS
        bounds = answer_of(rule.run, node) or ()
        return Evaluated(dict(zip(node.proto.output, bounds, strict=False)), env.claims)

    def constant_node(self, node: NodeProto) -> Array | None:
        """Returns the value of a Constant node, in whichever attribute it is stored."""
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
        """Returns why a value is not constant: an input, a replaceable initializer or a node."""
        return self._why_dynamic(scope, name)[0]

    def depends_on_size(self, scope: Scope, name: str) -> bool:
        """Returns whether a value is not constant because an input of the model has a free size."""
        return self._why_dynamic(scope, name)[1]

    def _why_dynamic(self, scope: Scope, name: str) -> tuple[str, bool]:
        """Returns why a value is not constant, and whether the reason is the size of an input."""
        visited: set[tuple[Scope, str]] = set()
        of_sizes = False
        while True:
            owner = scope.owner(name)
            if owner is None:
                return f"no graph around the node defines {name!r}", False
            if of_sizes and name in owner.inputs:
                return f"it depends on the size of the input {name!r}", True
            reason = self._why_given(owner, name)
            if reason is not None:
                return reason, False
            node = owner.node(owner.producers[name])
            key = (schemas.normal(node.domain), node.op_type)
            source = None
            if key in self.adapters.rules(Fold) or key == ("", "Identity"):
                sources = (read for read in node.input if read and (owner, read) not in visited)
                source = next(
                    (read for read in sources if self.constant(owner, read) is None), None
                )
            if source is None:
                return f"{name!r} is computed by {named(node)}", False
            if (fold := self.adapters.rules(Fold).get(key)) is not None:
                of_sizes |= not fold.needs(list(node.input).index(source))
            scope, name = owner, source
            visited.add((owner, source))

    def _why_given(self, owner: Scope, name: str) -> str | None:
        """Returns why an input or initializer is not constant; None for computed values."""
        if (owner, name) in self.document.names.bound:
            return f"{name!r} is an initializer that training_info binds, so training may change it"
        if name in owner.initializers:
            return (
                f"{name!r} is an initializer that is also a graph input, so callers may replace it"
            )
        return f"{name!r} is an input" if name in owner.inputs else None

    # -- types -------------------------------------------------------------------------------

    def type(self, scope: Scope, name: str) -> TypeProto | None:
        """Returns the inferred type of a value, completed by its declared type."""
        owner = scope.owner(name)
        if owner is None:
            return None
        return completed(self._proved(owner, name).kind, owner.declared.get(name))

    def _proved(self, owner: Scope, name: str) -> Proved:
        """Returns the type that follows from declared inputs and other values' declared ranks."""
        proved: Proved = self._answer(Facts._find_proved, owner, name)
        return proved

    def _find_proved(self, owner: Scope, name: str) -> Proved:
        proved = self._given(owner, name)
        if self._is_enough(owner, name, proved):
            return proved
        proved = _better(proved, self._at_first(Facts._find_proved, owner, name))
        if self._is_enough(owner, name, proved) or name not in owner.producers:
            return proved
        kinds, claimed = self._answer(Facts._find_outputs, owner, name)
        return _better(proved, Proved(kinds.get(name), claimed))

    def _is_enough(self, owner: Scope, name: str, proved: Proved) -> bool:
        """Returns whether the type is complete even without inference of the value's node."""
        declared = owner.declared.get(name)
        kind = completed(proved.kind, declared)
        if is_vague(kind) or (declared is not None and claims_more(declared, kind)):
            return False
        # Nodes that steps have written may provide a length that was unknown before.
        return self._first_memo is None or not _has_unnamed_length(kind)

    def _given(self, owner: Scope, name: str) -> Proved:
        """Returns the type of a value without inference of the node that computes it."""
        fed = name in owner.inputs
        if name in owner.initializers and not (fed and self.document.names.may_be_set(owner, name)):
            return Proved(tensor_type(owner.initializers[name]))
        if fed and (self._is_fed(owner) or self.document.is_written(name)):
            return Proved(owner.declared.get(name))  # a model input, or written by an adapter
        if (owner, name) in self._recorded:
            return self._recorded[owner, name]
        return self._inferred_type(owner, name)

    def _inferred_type(self, owner: Scope, name: str) -> Proved:
        """Returns the type that inference of the whole model finds for a value."""
        # Whole-model inference covers only graphs; a function may use the same names.
        if owner.root.kind != "graph" or self.document.is_written(name):
            return UNPROVED
        kind = self.inferred.types.get(name, UNSAID)
        if kind is None:  # several graphs use the name of the value
            kind = self.inferred.graphs.get(self._path(owner), {}).get(name)
        if kind is UNSAID or kind is None:
            return UNPROVED
        claims = self.inferred.assumed, self.inferred.counted
        return Proved(kind, *(self._is_in(claim, owner, name) for claim in claims))

    def _is_ambiguous(self, owner: Scope, name: str) -> bool:
        """Returns whether inference finds no type because several graphs use the name."""
        is_shared = self.inferred.types.get(name, UNSAID) is None
        return is_shared and self._inferred_type(owner, name).kind is None

    def _path(self, scope: Scope) -> Path:
        """Returns the path of a graph in the model, by which results of inference name the graph.

        A graph that is no longer part of the model has no known path.
        """
        around = scope.parent
        if around is None:
            return ()
        is_numbered = self._numbered.get(around) == self.document.generation
        if scope not in self._paths and not is_numbered:
            self._numbered[around] = self.document.generation
            for inner, path in paths_inside(around, self._path(around)):
                self._paths.setdefault(inner, path)
        return self._paths.setdefault(scope, NO_PATH)

    def _is_fed(self, owner: Scope) -> bool:
        """Returns whether the graph is the main graph, whose declared inputs are trusted."""
        return owner is owner.root.top and owner.root.kind != "function"

    def record_type(
        self, scope: Scope, name: str, kind: TypeProto, *, claimed: bool, counted: bool = False
    ) -> None:
        """Records the type of a value that a step has written."""
        self._recorded[scope, name] = Proved(kind, claimed, counted)

    @property
    def inferred(self) -> Known:
        """Returns the types that inference finds for the source model."""
        return self._inferred()

    # -- declarations ------------------------------------------------------------------------

    def is_unconfirmed(self, scope: Scope, name: str) -> bool:
        """Returns whether the rank or a length of a value follows only from a declared type."""
        return self.is_assumed(scope, name) or self.is_counted(scope, name)

    def is_counted(self, scope: Scope, name: str) -> bool:
        """Returns whether a dimension follows from the unconfirmed rank of another value."""
        owner = scope.owner(name)
        return owner is not None and self._proved(owner, name).counted

    def is_assumed(self, scope: Scope, name: str) -> bool:
        """Returns whether the rank of a value follows from an unconfirmed declared type."""
        owner = scope.owner(name)
        if owner is None:
            return False
        proved = self._proved(owner, name)
        if rank_of(proved.kind) is not None:
            return proved.claimed
        return rank_of(completed(proved.kind, owner.declared.get(name))) is not None

    def _is_in(self, places: Mapping[str, Sequence[Path]], owner: Scope, name: str) -> bool:
        """Returns whether `places` has a value of a graph, or inference does not have the graph."""
        paths = places.get(name)
        if paths is None:
            return False
        path = self._path(owner)
        return path in paths or path not in self.inferred.graphs

    def believed(self) -> list[str]:
        """Returns the notes about ranks and shapes that come only from declared types."""
        by_part: dict[str, list[str]] = {}
        for name, what in self.relied_on.items():
            origin = self.document.origins.get(name, "") if self.document.is_fresh(name) else ""
            by_part.setdefault(what, []).append(origin or repr(name))
        return [
            f"the {what} of {_listed(names)} comes from a declaration, not confirmed by inference"
            for what, names in by_part.items()
        ]

    def correct(self) -> list[str]:
        """Corrects declared shapes that contradict inference; returns the names of the values."""
        if not self._inferred.cache_info().currsize:
            from opshift.author import agreement

            values = computed(self.document.model.graph, nested=False)
            if agreement.is_proven(self._opened(), values, self.adapters):
                return []
        return [
            name
            for scope in self.document.roots[0].scopes
            if isinstance(scope.proto, GraphProto)
            for name in correct(
                scope.proto,
                functools.partial(self.confirmed, scope),
                self._input_symbols,
                nested=scope.parent is not None,
            )
        ]

    def confirmed(self, scope: Scope, name: str) -> TypeProto | None:
        """Returns the inferred type of a value if its rank does not come from a declared type."""
        proved = self._inferred_type(scope, name)
        if self._is_ambiguous(scope, name):
            proved = self._proved(scope, name)
        return None if proved.claimed else proved.kind

    def claimed(self, scope: Scope, name: str, dims: Dims) -> Dims:
        """Completes dimensions with numbers that only the declared type has.

        A declared length never replaces a symbol that comes from an input of the model.
        """
        owner = scope.owner(name)
        declared = owner.declared.get(name) if owner is not None else None
        if owner is None or owner.root.kind == "function" or rank_of(declared) != len(dims):
            return dims  # a function is inlined if its caller has more facts
        assert declared is not None
        symbols = self._input_symbols
        return tuple(
            dim
            if isinstance(dim, int) or dim in symbols
            else declared_dim
            if declared_dim is not None
            else dim
            for dim, declared_dim in zip(dims, dims_of(declared), strict=True)
        )

    @functools.cached_property
    def _input_symbols(self) -> frozenset[str]:
        return symbols_of(self.document.model)

    # -- types of outputs by the node that computes them -----------------------------------------

    def _find_outputs(self, owner: Scope, name: str) -> tuple[dict[str, TypeProto], bool]:
        """Infers a node's output types, and whether they depend on an unconfirmed declared type."""
        position = owner.producers[name]
        node = owner.node(position)
        if self.document.is_call(node) or not self._tells_more(owner, position):
            return {}, False
        env = ScopeEnv(self, owner)
        types = infer_node(node, env, owner.ahead.get(position))
        reads = filter(None, walk.reads(node))
        claimed = bool(env.claims) or any(self.is_unconfirmed(owner, read) for read in reads)
        kinds = {
            output: kind for output, kind in types.items() if schemas.type_name(kind) is not None
        }
        return kinds, claimed

    def _tells_more(self, place: Scope, position: int) -> bool:
        """Returns whether inference of this node may find more types than whole-model inference."""
        node = place.node(position)
        if any(map(self.document.is_written, (*node.input, *node.output))):
            return True
        if any(self._is_ambiguous(place, name) for name in node.output):
            return True
        if holds_graphs(node):
            return False
        schema = place.layout_at(position)
        if schema is not None and schema.open:
            return True
        if schema is None:
            return (schemas.normal(node.domain), node.op_type) in self.adapters.rules(OutputTypes)
        outputs = [self._stated(place, name) for name in node.output if name]
        if any(kind is None or schemas.type_name(kind) is None for kind in outputs):
            return True  # a rule may need only one typed input, but inference needs all
        if place.parent is not None and any(map(is_vague, outputs)):
            return True  # whole-model inference finds no ranks of loop-carried values
        has_rule = (schema.domain, schema.name) in self.adapters.rules(OutputRanks)
        if has_rule and any(rank_of(kind) is None for kind in outputs):
            return True
        if not schemas.raw(
            schema.domain, schema.name, schema.since
        ).has_type_and_shape_inference_function:
            return True
        return any(self._is_news(place, name) for name in node.input if name)

    def _stated(self, owner: Scope, name: str) -> TypeProto | None:
        """Returns a value's type from whole-model inference, completed by its declared type."""
        return completed(self._given(owner, name).kind, owner.declared.get(name))

    def _is_news(self, place: Scope, name: str) -> bool:
        """Returns whether whole-model inference lacks a known type or constant of a value."""
        owner = place.owner(name)
        position = owner.producers.get(name) if owner is not None else None
        if owner is None or position is None:
            return False
        proved = self._proved(owner, name)
        if proved.kind is not self._inferred_type(owner, name).kind:
            return True
        kind = completed(proved.kind, owner.declared.get(name))
        if owner.node(position).op_type == "Constant" or not is_small(kind):
            return False
        return self.constant(owner, name) is not None

    # -- surveys -----------------------------------------------------------------------------

    def survey(self, root: Root, survey: Survey[_Answer]) -> _Answer:
        """Runs a function once over all nodes of a graph or function, and caches its result."""
        if self._generation != self.document.generation:
            self._look_again()
        key = (root, survey)
        if key not in self._surveys:
            ends = (info for scope in root.scopes for info in scope.proto.output)
            names = frozenset(end if isinstance(end, str) else end.name for end in ends)
            self._surveys[key] = survey(self._nodes(root), names)
        answer: _Answer = self._surveys[key]
        return answer

    def _nodes(self, root: Root) -> Iterator[Node]:
        """Yields all nodes in order; the nodes of a graph come before those of its subgraphs."""
        for scope in root.scopes:
            env = ScopeEnv(self, scope)
            for position in scope.sorted_positions():
                node = scope.node(position)
                yield Node(node, scope.layout_at(position), env)

    # -- present types -----------------------------------------------------------------------

    @property
    def present_types(self) -> frozenset[str]:
        """Returns every element type that can occur in the model; most type checks use it.

        Operators without a schema are assumed to add no other type.
        """
        if self._present is None:
            self._present = frozenset(collect_present_types(self.document))
        return self._present

    def add_present_types(self, types: Iterable[str]) -> None:
        """Adds the element types that a step has introduced."""
        if not self.present_types.issuperset(types):
            self._present = self.present_types | set(types)


_NO_ANSWER: dict[Find, Any] = {
    Facts.find_constant: UNKNOWN,
    Facts.find_bounds: UNKNOWN,
    Facts._bounds_of_outputs: NO_BOUNDS,
    Facts._find_proved: UNPROVED,
    Facts._find_outputs: ({}, False),
}


def _moved(memo: dict[Question, Any], scopes: Mapping[Scope, Scope]) -> dict[Question, Any]:
    """Copies cached facts to the scopes of a copied model."""
    return {(find, scopes[at], name): answer for (find, at, name), answer in memo.items()}


def _has_unnamed_length(kind: TypeProto | None) -> bool:
    """Returns whether a dimension of a tensor has a symbol that inference generated."""
    dims = kind.tensor_type.shape.dim if kind is not None else ()
    return any(dim.dim_param.startswith(LENGTH) for dim in dims)


def _better(proved: Proved, alternative: Proved) -> Proved:
    """Combines two types of a value into the more complete one."""
    kind = better(proved.kind, alternative.kind)
    return proved if kind is proved.kind else alternative._replace(kind=kind)


def _listed(names: list[str]) -> str:
    return shortened(list(dict.fromkeys(names)), MAX_NAMED, "values")


class ScopeEnv(ModelEnv):
    """An environment for the values of a scope, with the facts about its document."""

    def __init__(self, facts: Facts, scope: Scope, claims: dict[str, str] | None = None) -> None:
        self.facts = facts
        self.scope = scope
        self.claims = {} if claims is None else claims  # the declarations that were used

    def _evaluated(self, find: Find, name: str) -> Any:
        evaluated = self.facts.evaluated(find, self.scope, name)
        if evaluated.claims:
            self.claims.update(evaluated.claims)
        return evaluated.found

    def type(self, name: str, part: TypePart = TypePart.ALL) -> TypeProto | None:
        return self.facts.type(self.scope, name)

    def possible_types(self) -> frozenset[str]:
        return self.facts.present_types

    def rare_types(self) -> frozenset[str]:
        return self.facts.present_types - COMMON_TYPES

    def constant(self, name: str) -> Array | None:
        value: Array | None = self._evaluated(Facts.find_constant, name)
        return value

    def is_weight(self, name: str) -> bool:
        return self.facts.is_longer(self.scope, name, LARGEST_SMALL)

    def bounds(self, name: str) -> Bounds | None:
        bounds: Bounds | None = self._evaluated(Facts.find_bounds, name)
        return bounds

    def load(self, tensor: TensorProto) -> Array:
        return self.facts.weights.load(tensor)

    def why_dynamic(self, name: str) -> str:
        return self.facts.why_dynamic(self.scope, name)

    def producer(self, name: str) -> Node | None:
        node = self._writer(name)
        return node if node is not None and node.fits else None

    def _writer(self, name: str) -> Node | None:
        """Returns the node that computes a value, even if invalid; None for a function call."""
        owner = self.scope.owner(name)
        position = owner.producers.get(name) if owner else None
        if owner is None or position is None:
            return None
        node = owner.node(position)
        if (schemas.normal(node.domain), node.op_type) not in owner.root.index:
            return None
        return Node(node, owner.layout_at(position), ScopeEnv(self.facts, owner, self.claims))

    def is_computed(self, name: str) -> bool:
        return self._writer(name) is not None

    def survey(self, survey: Survey[_Answer]) -> _Answer:
        return self.facts.survey(self.scope.root, survey)

    def is_call(self, node: NodeProto) -> bool:
        return self.facts.document.is_call(node)

    def is_read(self, name: str) -> bool:
        return self.facts.document.names.is_read(self.scope, name)

    def length_symbol(self, name: str, axis: int) -> str:
        return self.facts.length_symbol(self.scope, name, axis)

    def types_alone(self, model: ModelProto) -> Inferred:
        return self.facts.types_alone(model)

    def graph(self, graph: GraphProto) -> GraphProto:
        return self.scope.root.copy_of(graph)

    def inside(self, graph: GraphProto) -> ScopeEnv:
        return ScopeEnv(self.facts, self.scope.root.scope_of(graph), self.claims)

    def rules(self, kind: builtins.type[_Rule]) -> Mapping[tuple[str, str], _Rule]:
        return self.facts.adapters.rules(kind)  # type: ignore[type-var]

    def dims(self, name: str, kind: TypeProto) -> Dims:
        if self.facts.is_counted(self.scope, name):
            self.claims.setdefault(name, "shape")
        return super().dims(name, kind)

    def use_rank(self, name: str) -> None:
        if self.facts.is_assumed(self.scope, name):
            self.claims.setdefault(name, "rank")

    def claimed_dims(self, name: str, dims: Dims) -> Dims:
        completed_dims = self.facts.claimed(self.scope, name, dims)
        if completed_dims != dims:
            self.claims.setdefault(name, "shape")
        return completed_dims


class FoldingEnv(ScopeEnv):
    """An environment for constant folding, which skips the slow search for reasons."""

    def why_dynamic(self, name: str) -> str:
        return f"{name!r} is computed by a node"
