# SPDX-License-Identifier: Apache-2.0
"""Declarations about operators at every version. Each kind has its own table.

A new kind is a class here and the function that declares it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import field, replace
from types import EllipsisType
from typing import TYPE_CHECKING, Any, ClassVar, Protocol, TypeAlias, TypeVar

from opshift.author.example import Draft, Example, drafted, listed, spread
from opshift.errors import AdapterBug, Refusal
from opshift.model.arrays import Array
from opshift.model.walk import named
from opshift.records import dataclass

if TYPE_CHECKING:
    from opshift.author.bounds import Bounds
    from opshift.author.node import Node, Value
    from opshift.protos import AttributeProto, NodeProto

Objection: TypeAlias = Callable[[Mapping[str, Any], int, int], str | None]
Look: TypeAlias = "Callable[[Node], str | None]"
# Gives a scale a shape that broadcasts to data, by its axis and the size of its blocks, if any. The
# first argument is the Builder, which this module must not import.
Along: TypeAlias = "Callable[[Any, Value, Value, int, int], Value]"
ToldDims: TypeAlias = tuple[int | str | EllipsisType | None, ...]
KINDS: dict[str, type[Trait]] = {}  # by the name of their table
_Answer = TypeVar("_Answer")


@dataclass(frozen=True, slots=True, kw_only=True)
class Trait:
    """A declaration about operators of a domain, at every version."""

    table: ClassVar[str]
    ops: tuple[str, ...]
    domain: str = ""

    def __init_subclass__(cls) -> None:
        if table := vars(cls).get("table"):
            KINDS[table] = cls


@dataclass(frozen=True, slots=True, kw_only=True)
class SingleTrait(Trait):
    """A trait that an operator has at most once: a second declaration is an error."""

    twice: ClassVar[str]  # how that error begins


_Trait = TypeVar("_Trait", bound=Trait)
_Rule = TypeVar("_Rule", bound=SingleTrait)


class DeclaredRules(Protocol):
    """The declarations about operators, by their kind."""

    def rules(self, kind: type[_Rule]) -> Mapping[tuple[str, str], _Rule]:
        """The rules of one kind, by operator."""

    def traits(self, kind: type[_Trait]) -> Mapping[tuple[str, str], tuple[_Trait, ...]]:
        """The traits of one kind by operator; an operator may have several."""

    def each(self, kind: type[_Trait]) -> list[_Trait]:
        """Each declaration of one kind once, even if it names several operators."""


# What a rule that tells facts of a node raises where a fact is missing, the node is not legal, or
# its sizes are beyond any memory: then the rule tells nothing.
NO_ANSWER = (Refusal, ValueError, IndexError, ArithmeticError, MemoryError)


# What Python raises for a mistake in a function. Other exceptions are signals of the engine.
FAULTS = (TypeError, AttributeError, LookupError, NameError, AssertionError, RuntimeError)


def answer_of(run: Callable[[Node], _Answer], node: Node) -> _Answer | None:
    """The answer of an author's function about a node; None if the answer is unknown.

    A node that does not fit its schema is not shown to the function. An exception that no author
    raises on purpose is a bug of the author.
    """
    try:
        return run(node) if node.fits else None
    except NO_ANSWER:
        return None
    except FAULTS as error:
        raise bug_of(run, node.proto, error) from error


def bug_of(run: Callable[..., Any], node: NodeProto, error: Exception) -> AdapterBug:
    """The bug that an author's function has if it raises this error for a node."""
    source = f"{run.__module__}.{getattr(run, '__name__', '?')}"
    told = str(error) if isinstance(error, AdapterBug) else repr(error)
    return AdapterBug(f"{source} fails on {named(node)}: {told}")


@dataclass(frozen=True, slots=True, kw_only=True)
class Fold(SingleTrait):
    """How a small operator is evaluated during a conversion, so that its result is a constant."""

    table = "folds"
    twice = "two ways to fold"
    run: Callable[[Node], Array | None]
    examples: tuple[Example, ...] = ()
    sizes: tuple[int, ...] = ()  # inputs of which the shape may be enough

    def needs(self, position: int) -> bool:
        """Whether the result can be constant only if this input is constant."""
        return position not in self.sizes

    def value(self, node: Node) -> Array | None:
        """The value of the node; None if an input is not constant or the node is not legal."""
        return answer_of(self.run, node)


@dataclass(frozen=True, slots=True, kw_only=True)
class OutputRanks(SingleTrait):
    """The ranks of outputs that onnx's inference finds only if it knows values."""

    table = "output_ranks"
    twice = "two rules give the ranks of"
    run: Callable[[Node], Sequence[int]]
    examples: tuple[Example, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class OutputBounds(SingleTrait):
    """The smallest and largest integers that the outputs of an operator can hold."""

    table = "output_bounds"
    twice = "two rules give the bounds of"
    run: Callable[[Node], Sequence[Bounds | None]]
    examples: tuple[Example, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class OutputShapes(SingleTrait):
    """The shapes of an operator's outputs, if onnx's inference finds wrong lengths or no rank.

    None means an output with correctly inferred lengths, and `...` a correctly inferred dimension.
    """

    table = "output_shapes"
    twice = "two rules give the shapes of"
    run: Callable[[Node], Sequence[ToldDims | None]]
    examples: tuple[Example, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class OutputTypes(SingleTrait):
    """The element types of the outputs of operators that have no schema here.

    Each output has an element type by name, or the first known type of some inputs. The first
    output has a rank by number, or the largest one of some inputs.
    """

    table = "output_types"
    twice = "two rules give the types of"
    outputs: tuple[str | tuple[int, ...], ...]
    rank: int | tuple[int, ...] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Carries(SingleTrait):
    """An operator whose body passes values to its next iteration, from these positions on.

    Its own inputs and those of the body have equal positions; its outputs begin with the values
    that are carried.
    """

    table = "carries"
    twice = "two rules give the carried values of"
    graph: str  # the attribute that is the body
    inputs: int  # the first input that is carried
    outputs: int  # the first output of the body that is carried
    fixed: tuple[str, ...] = ()  # the element types of the inputs of the body before these


@dataclass(frozen=True, slots=True, kw_only=True)
class Chooses(SingleTrait):
    """An operator that runs one of its graphs, depending on its first input."""

    table = "chooses"
    twice = "two rules give the chosen graphs of"
    true: str  # the attribute that holds the graph for a true value
    false: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Saturates(SingleTrait):
    """An operator that bounds its output by the limits of the element type of the output."""

    table = "saturates"
    twice = "two rules give the limits of"
    limit: str  # the operator that bounds an output of a wider type to the same limits


@dataclass(frozen=True, slots=True, kw_only=True)
class Scales(SingleTrait):
    """An operator that multiplies or divides quantized floats by its second input."""

    table = "scales"
    twice = "two rules give the scales of"
    by: str  # the operator of the product or quotient
    along: Along
    reads_codes: bool  # whether its first input holds the codes, and not its output


@dataclass(frozen=True, slots=True, kw_only=True)
class ByValue(SingleTrait):
    """Inputs that are read only by value: equal numbers in a wider type give the same result."""

    table = "by_value"
    twice = "two lists of what is read by"
    inputs: tuple[int, ...]
    floats: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class ByWidth(SingleTrait):
    """An operator that may give other results if it computes in a wider element type."""

    table = "by_width"
    twice = "two declarations about wider types of"
    floats: bool  # also in a wider type of floats, and not only of integers
    unless: Callable[[Node], bool] | None

    def concerns(self, node: Node, *, floats: bool) -> bool:
        """Whether this node may give other results in wider floats, or in wider integers."""
        return (self.floats or not floats) and not (self.unless and self.unless(node))


@dataclass(frozen=True, slots=True, kw_only=True)
class Illegal(Trait):
    """A rule against invalid nodes that onnx's checker accepts."""

    table = "illegal"
    objection: Objection
    reads: frozenset[str] | None = None  # the attributes that it looks at; None means all
    choices: Mapping[str, tuple[str, ...]] = field(default_factory=dict)  # all legal values

    def against(self, node: NodeProto, *bound: AttributeProto) -> str | None:
        """The objection to the attributes that are written on a node, or bound by a call."""
        from opshift.protos import helper

        written = [
            attribute
            for attribute in (*node.attribute, *bound)
            if (self.reads is None or attribute.name in self.reads)
            and attribute.type
            and not attribute.ref_attr_name
        ]
        if self.reads is not None and not written:
            return None
        given = {attribute.name: helper.get_attribute_value(attribute) for attribute in written}
        try:
            return self.objection(given, len(node.input), len(node.output))
        except Exception as error:
            raise bug_of(self.objection, node, error) from error


@dataclass(frozen=True, slots=True, kw_only=True)
class Fragile(Trait):
    """An operator whose inference, in onnx, ends the process when an input has no type."""

    table = "fragile"


@dataclass(frozen=True, slots=True, kw_only=True)
class FatalSizes(Trait):
    """An operator whose inference, in onnx, ends the process at an input with a negative size."""

    table = "fatal_sizes"


@dataclass(frozen=True, slots=True, kw_only=True)
class Shrinks(Trait):
    """An operator for which onnx's inference may find a negative size, and a test that excludes it.

    The function sees only the attributes of a node and its constants that no other node computes.
    """

    table = "shrinks"
    excluded: Callable[[Node], bool]


@dataclass(frozen=True, slots=True, kw_only=True)
class Undefaulted(Trait):
    """An operator that onnx's inference rejects if the node leaves an attribute at its default."""

    table = "undefaulted"


@dataclass(frozen=True, slots=True, kw_only=True)
class Differs(Trait):
    """A rule for the nodes on which onnxruntime differs from the specification."""

    table = "differs"
    look: Look


@dataclass(frozen=True, slots=True, kw_only=True)
class Flaw(Trait):
    """A rule against illegal nodes, which runs after a conversion has failed."""

    table = "flaws"
    look: Look


_Kind = TypeVar("_Kind", Fold, OutputRanks, OutputBounds, OutputShapes)


def _rule(
    kind: type[_Kind], ops: tuple[str, ...], domain: str
) -> Callable[[Callable[..., Any] | Draft], _Kind]:
    def declare(below: Callable[..., Any] | Draft) -> _Kind:
        draft = drafted(below)
        return kind(ops=ops, domain=domain, run=draft.run, examples=spread(draft.examples, ops))

    return declare


def fold(
    op: str, *, domain: str = "", sizes: tuple[int, ...] = ()
) -> Callable[[Callable[[Node], Array | None] | Draft], Fold]:
    """Declares how an operator on constants is evaluated.

    `sizes` are the positions of inputs whose static shape may be enough.
    """
    declare = _rule(Fold, (op,), domain)
    return lambda below: replace(declare(below), sizes=sizes)


def output_ranks(
    *ops: str, domain: str = ""
) -> Callable[[Callable[[Node], Sequence[int]] | Draft], OutputRanks]:
    """Declares the ranks of outputs; a Refusal means that a rank is unknown."""
    return _rule(OutputRanks, ops, domain)


def output_bounds(
    *ops: str,
) -> Callable[[Callable[[Node], Sequence[Bounds | None]] | Draft], OutputBounds]:
    """Declares the bounds of integer outputs; a Refusal means that they are unknown."""
    return _rule(OutputBounds, ops, "")


def output_shapes(
    *ops: str, domain: str = ""
) -> Callable[[Callable[[Node], Sequence[ToldDims | None]] | Draft], OutputShapes]:
    """Declares the shapes of outputs for which onnx's inference finds wrong lengths."""
    return _rule(OutputShapes, ops, domain)


def output_types(
    domain: str,
    ops: str,
    *outputs: str | tuple[int, ...],
    rank: int | tuple[int, ...] | None = None,
) -> OutputTypes:
    """Declares the element types of outputs, by name or by an input with the same type.

    `rank` is the rank of the first output, or the inputs that broadcast or multiply to it.
    """
    return OutputTypes(ops=listed(ops), domain=domain, outputs=outputs, rank=rank)


def carries(
    op: str, graph: str, *, inputs: int, outputs: int, fixed: str = "", domain: str = ""
) -> Carries:
    """Declares that body outputs from `outputs` on become its inputs from `inputs` on.

    `fixed` names the element types of the first inputs of the body, which the operator fixes.
    """
    types = tuple(f"tensor({one})" for one in fixed.split())
    return Carries(
        ops=(op,), domain=domain, graph=graph, inputs=inputs, outputs=outputs, fixed=types
    )


def chooses(op: str, *, true: str, false: str, domain: str = "") -> Chooses:
    """Declares the graphs that an operator runs if its first input is true, or false."""
    return Chooses(ops=(op,), domain=domain, true=true, false=false)


def saturates(op: str, *, limit: str, domain: str = "") -> Saturates:
    """Declares that an operator bounds its output by the type, as `limit` does by two inputs."""
    return Saturates(ops=(op,), domain=domain, limit=limit)


def scales(op: str, *, by: str, along: Along, reads_codes: bool, domain: str = "") -> Scales:
    """Declares that an operator on codes of floats is the operator `by` with its second input."""
    return Scales(ops=(op,), domain=domain, by=by, along=along, reads_codes=reads_codes)


def by_value(op: str, *inputs: int, floats: bool = False, domain: str = "") -> ByValue:
    """Declares inputs that accept the same integers (or `floats`) in a wider type."""
    return ByValue(ops=(op,), domain=domain, inputs=inputs, floats=floats)


def by_width(
    ops: str,
    *,
    floats: bool = False,
    unless: Callable[[Node], bool] | None = None,
    domain: str = "",
) -> ByWidth:
    """Declares operators whose results may differ in wider integers (or `floats`).

    `unless` is true for the nodes that give the same results.
    """
    return ByWidth(ops=listed(ops), domain=domain, floats=floats, unless=unless)


def illegal(op: str, *, domain: str = "") -> Callable[[Objection], Illegal]:
    """Declares nodes that are refused before inference.

    The function gets the attributes, and the numbers of inputs and outputs of the node.
    """

    def declare(objection: Objection) -> Illegal:
        return Illegal(ops=(op,), domain=domain, objection=objection)

    return declare


def fragile(ops: str, *, domain: str = "") -> Fragile:
    """Declares operators that onnx's inference must not see if an input type is unknown."""
    return Fragile(ops=listed(ops), domain=domain)


def fatal_sizes(ops: str, *, domain: str = "") -> FatalSizes:
    """Declares operators that onnx's inference must not see with a negative size."""
    return FatalSizes(ops=listed(ops), domain=domain)


def shrinks(ops: str, *, domain: str = "") -> Callable[[Callable[[Node], bool]], Shrinks]:
    """Declares operators for which onnx's inference may find a negative size.

    The function returns whether the attributes and constants of a node exclude one.
    """
    return lambda excluded: Shrinks(ops=listed(ops), domain=domain, excluded=excluded)


def undefaulted(ops: str, *, domain: str = "") -> Undefaulted:
    """Declares operators to which onnx's inference must see the defaults of attributes written."""
    return Undefaulted(ops=listed(ops), domain=domain)


def flaw(ops: str, *, domain: str = "") -> Callable[[Look], Flaw]:
    """Declares a rule that makes a node illegal although onnx accepts it.

    The function sees nodes of the unconverted model, and only after an adapter has failed. It
    returns a sentence that names the mistake of the model, or None.
    """

    def declare(look: Look) -> Flaw:
        return Flaw(ops=listed(ops), domain=domain, look=look)

    return declare


def differs(ops: str, *, domain: str = "") -> Callable[[Look], Differs]:
    """Declares when onnxruntime differs from the specification.

    The function sees nodes of the unconverted model, and returns in a sentence what
    onnxruntime does, or None. A conversion over an opset that changed the operator names the node
    in its report.
    """

    def declare(look: Look) -> Differs:
        return Differs(ops=listed(ops), domain=domain, look=look)

    return declare
