# SPDX-License-Identifier: Apache-2.0
"""Defines what authors declare about all versions of an operator, with a table for each kind.

A new kind of declaration needs a class in this module and a function that makes the declaration.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import field, replace
from types import EllipsisType
from typing import Any, ClassVar, Protocol, TypeAlias, TypeVar

from opshift.author.bounds import Bounds
from opshift.author.example import Draft, Example, drafted, listed, spread
from opshift.author.node import Node, Value
from opshift.errors import AdapterBug, Refusal
from opshift.model.arrays import Array
from opshift.model.walk import named
from opshift.protos import AttributeProto, NodeProto, helper
from opshift.records import dataclass

Objection: TypeAlias = Callable[[Mapping[str, Any], int, int], str | None]
FindObjection: TypeAlias = Callable[[Node], str | None]
# The function reshapes a scale so that it broadcasts to the data, by its axis and block size. Its
# first argument is the Builder, which this module must not import.
Along: TypeAlias = Callable[[Any, Value, Value, int, int], Value]
ToldDims: TypeAlias = tuple[int | str | EllipsisType | None, ...]
KINDS: dict[str, type[Trait]] = {}  # by the name of the table
_Answer = TypeVar("_Answer")


@dataclass(frozen=True, slots=True, kw_only=True)
class Trait:
    """A declaration about operators of a domain, for all versions."""

    table: ClassVar[str]
    ops: tuple[str, ...]
    domain: str = ""

    def __init_subclass__(cls) -> None:
        if table := vars(cls).get("table"):
            KINDS[table] = cls


@dataclass(frozen=True, slots=True, kw_only=True)
class SingleTrait(Trait):
    """A declaration that is allowed only once for each operator."""

    twice: ClassVar[str]  # the error message for a second declaration


_Trait = TypeVar("_Trait", bound=Trait)
_Rule = TypeVar("_Rule", bound=SingleTrait)


class DeclaredRules(Protocol):
    """The declarations about operators, by kind."""

    def rules(self, kind: type[_Rule]) -> Mapping[tuple[str, str], _Rule]:
        """Returns the rules of one kind, by operator."""

    def traits(self, kind: type[_Trait]) -> Mapping[tuple[str, str], tuple[_Trait, ...]]:
        """Returns the declarations of one kind by operator; an operator may have several."""

    def each(self, kind: type[_Trait]) -> list[_Trait]:
        """Returns each declaration of one kind once, even if it names several operators."""


# A rule raises these exceptions if it lacks a fact, if the node is not valid, or if sizes exceed
# the memory. The rule then has no answer.
NO_ANSWER = (Refusal, ValueError, IndexError, ArithmeticError, MemoryError)


# Python raises these exceptions for mistakes in a function; the engine uses others as signals.
FAULTS = (TypeError, AttributeError, LookupError, NameError, AssertionError, RuntimeError)


def answer_of(run: Callable[[Node], _Answer], node: Node) -> _Answer | None:
    """Calls an author's function for a node; returns None if the function has no answer.

    A node that does not fit its schema is not passed to the function. An exception that no author
    raises on purpose is reported as a bug of the function.
    """
    try:
        return run(node) if node.fits else None
    except NO_ANSWER:
        return None
    except FAULTS as error:
        raise bug_of(run, node.proto, error) from error


def bug_of(run: Callable[..., Any], node: NodeProto, error: Exception) -> AdapterBug:
    """Makes the AdapterBug for an error that an author's function raised on a node."""
    source = f"{run.__module__}.{getattr(run, '__name__', '?')}"
    message = str(error) if isinstance(error, AdapterBug) else repr(error)
    return AdapterBug(f"{source} fails on {named(node)}: {message}")


@dataclass(frozen=True, slots=True, kw_only=True)
class Fold(SingleTrait):
    """A rule that evaluates a small operator during a conversion, to make its result a constant."""

    table = "folds"
    twice = "two rules fold {op}"
    run: Callable[[Node], Array | None]
    examples: tuple[Example, ...] = ()
    sizes: tuple[int, ...] = ()  # inputs whose shape may suffice, without their values
    ignores: Mapping[str, str] = field(default_factory=dict)  # reasons for unread attributes

    def needs(self, position: int) -> bool:
        """Returns whether the result can be constant only if this input is constant."""
        return position not in self.sizes

    def value(self, node: Node) -> Array | None:
        """Returns the value of a node.

        The value is None if an input is not constant, if the node is invalid, or if the function
        has not read an attribute, which a later opset may have added.
        """
        value = answer_of(self.run, node)
        is_complete = value is None or self.ignores.keys() >= {*node.unread_attributes()}
        return value if is_complete else None


@dataclass(frozen=True, slots=True, kw_only=True)
class OutputRanks(SingleTrait):
    """A rule for the ranks of outputs that onnx's inference finds only from values of inputs."""

    table = "output_ranks"
    twice = "{op} has two rules for the ranks of its outputs; keep one"
    run: Callable[[Node], Sequence[int]]
    examples: tuple[Example, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class OutputBounds(SingleTrait):
    """A rule for the smallest and largest integers that the outputs of an operator can hold."""

    table = "output_bounds"
    twice = "{op} has two rules for the bounds of its outputs; keep one"
    run: Callable[[Node], Sequence[Bounds | None]]
    examples: tuple[Example, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class OutputShapes(SingleTrait):
    """A rule for output shapes for which onnx's inference finds wrong lengths or no rank.

    In the result of the rule, None stands for an output with a correctly inferred shape, and `...`
    for a correctly inferred dimension.
    """

    table = "output_shapes"
    twice = "{op} has two rules for the shapes of its outputs; keep one"
    run: Callable[[Node], Sequence[ToldDims | None]]
    examples: tuple[Example, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class OutputTypes(SingleTrait):
    """The output types of operators that have no schema in opshift's data.

    For each output, the rule names an element type, or inputs whose first known type is used. For
    the first output, the rule may name a rank, or inputs whose largest rank is used.
    """

    table = "output_types"
    twice = "{op} has two rules for the types of its outputs; keep one"
    outputs: tuple[str | tuple[int, ...], ...]
    rank: int | tuple[int, ...] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Carries(SingleTrait):
    """An operator such as Loop, whose body passes values from one iteration to the next.

    Input i of the node becomes input i of its body; the first outputs of the node are the carried
    values.
    """

    table = "carries"
    twice = "{op} has two declarations of the values that its loop carries; keep one"
    graph: str  # the attribute with the body
    inputs: int  # the first carried input
    outputs: int  # the first carried output of the body
    fixed: tuple[str, ...] = ()  # the element types of the body inputs before the carried ones


@dataclass(frozen=True, slots=True, kw_only=True)
class Chooses(SingleTrait):
    """An operator such as If, whose first input selects the subgraph that it runs."""

    table = "chooses"
    twice = "{op} has two declarations of the subgraphs that it runs; keep one"
    true: str  # the attribute with the subgraph for a true value
    false: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Saturates(SingleTrait):
    """An operator that limits its output to the range of the output's element type."""

    table = "saturates"
    twice = "{op} has two declarations of the operator that limits its output; keep one"
    limit: str  # the operator that limits an output of a wider type to the same range


@dataclass(frozen=True, slots=True, kw_only=True)
class Scales(SingleTrait):
    """An operator that multiplies or divides quantized numbers by a scale, its second input."""

    table = "scales"
    twice = "{op} has two declarations of its scale; keep one"
    by: str  # the operator that multiplies or divides
    along: Along
    reads_codes: bool  # whether the quantized numbers are the first input and not the output


@dataclass(frozen=True, slots=True, kw_only=True)
class ByValue(SingleTrait):
    """Inputs that may have a wider type without a change of the result."""

    table = "by_value"
    twice = "{op} has two declarations of inputs that may have a wider type; keep one"
    inputs: tuple[int, ...]
    floats: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class ByWidth(SingleTrait):
    """An operator whose result may change if it computes in a wider element type."""

    table = "by_width"
    twice = "{op} has two declarations about wider element types; keep one"
    floats: bool  # whether wider floats may change the result, too, not only wider integers
    unless: Callable[[Node], bool] | None

    def concerns(self, node: Node, *, floats: bool) -> bool:
        """Returns whether wider floats (or wider integers) may change the result of this node."""
        return (self.floats or not floats) and not (self.unless and self.unless(node))


@dataclass(frozen=True, slots=True, kw_only=True)
class Illegal(Trait):
    """A rule against invalid nodes that onnx's checker accepts."""

    table = "illegal"
    objection: Objection
    reads: frozenset[str] | None = None  # the attributes that the rule reads; None means all
    choices: Mapping[str, tuple[str, ...]] = field(default_factory=dict)  # all valid values

    def against(self, node: NodeProto, *bound: AttributeProto) -> str | None:
        """Returns what is wrong with the attributes of a node or a function call, or None."""
        written = [
            attribute
            for attribute in (*node.attribute, *bound)
            if (self.reads is None or attribute.name in self.reads)
            and attribute.type
            and not attribute.ref_attr_name
        ]
        if self.reads is not None and not written:
            return None
        attributes = {
            attribute.name: helper.get_attribute_value(attribute) for attribute in written
        }
        try:
            return self.objection(attributes, len(node.input), len(node.output))
        except Exception as error:
            raise bug_of(self.objection, node, error) from error


@dataclass(frozen=True, slots=True, kw_only=True)
class Fragile(Trait):
    """An operator whose inference function in onnx ends the process if an input has no type."""

    table = "fragile"


@dataclass(frozen=True, slots=True, kw_only=True)
class FatalSizes(Trait):
    """An operator whose inference in onnx ends the process if an input has a negative size."""

    table = "fatal_sizes"


@dataclass(frozen=True, slots=True, kw_only=True)
class Shrinks(Trait):
    """An operator with an output size that may be negative, and a test that excludes this.

    The test reads only the attributes of the node, and constants that no node computes.
    """

    table = "shrinks"
    excluded: Callable[[Node], bool]


@dataclass(frozen=True, slots=True, kw_only=True)
class Undefaulted(Trait):
    """An operator that onnx's inference rejects if the node omits an attribute with a default."""

    table = "undefaulted"


@dataclass(frozen=True, slots=True, kw_only=True)
class Differs(Trait):
    """A rule for the nodes on which onnxruntime differs from the specification."""

    table = "differs"
    find_objection: FindObjection


@dataclass(frozen=True, slots=True, kw_only=True)
class Flaw(Trait):
    """A rule against invalid nodes, which runs after a conversion has failed."""

    table = "flaws"
    find_objection: FindObjection


@dataclass(frozen=True, slots=True, kw_only=True)
class Arithmetic(Trait):
    """The three operators of sums (Add, Sub, Neg) or of products (Mul, Div, Reciprocal)."""

    table = "arithmetic"
    kind: str
    neutral: int
    power: str = ""  # the operator to which equal operands can be combined, such as Pow

    @property
    def join(self) -> str:
        """Returns the operator that combines two operands, such as Add or Mul."""
        return self.ops[0]

    @property
    def part(self) -> str:
        """Returns the operator that undoes `join`, such as Sub or Div."""
        return self.ops[1]

    @property
    def turn(self) -> str:
        """Returns the operator that inverts its operand, such as Neg or Reciprocal."""
        return self.ops[2]


@dataclass(frozen=True, slots=True, kw_only=True)
class Commutes(Trait):
    """Operators such as Add, whose two operands can be swapped without a change of the result."""

    table = "commutes"


_Kind = TypeVar("_Kind", Fold, OutputRanks, OutputBounds, OutputShapes)


def _rule(
    kind: type[_Kind], ops: tuple[str, ...], domain: str
) -> Callable[[Callable[..., Any] | Draft], _Kind]:
    def declare(below: Callable[..., Any] | Draft) -> _Kind:
        draft = drafted(below)
        return kind(ops=ops, domain=domain, run=draft.run, examples=spread(draft.examples, ops))

    return declare


def fold(
    op: str,
    *,
    domain: str = "",
    sizes: tuple[int, ...] = (),
    ignores: Mapping[str, str] | None = None,
) -> Callable[[Callable[[Node], Array | None] | Draft], Fold]:
    """Declares how an operator is evaluated on constants.

    For the inputs at the positions in `sizes`, a static shape may be enough to evaluate the node.
    `ignores` names the attributes that do not change the value, each with the reason.
    """
    declare = _rule(Fold, (op,), domain)
    reasons = {"consumed_inputs": "it is only a hint about memory", **(ignores or {})}
    return lambda below: replace(declare(below), sizes=sizes, ignores=reasons)


def output_ranks(
    *ops: str, domain: str = ""
) -> Callable[[Callable[[Node], Sequence[int]] | Draft], OutputRanks]:
    """Declares the ranks of outputs; a Refusal means that a rank is unknown."""
    return _rule(OutputRanks, ops, domain)


def output_bounds(
    *ops: str,
) -> Callable[[Callable[[Node], Sequence[Bounds | None]] | Draft], OutputBounds]:
    """Declares the bounds of integer outputs; a Refusal means that the bounds are unknown."""
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
    """Declares the element types of outputs, by name or by inputs with the same type.

    The parameter `rank` gives the rank of the first output, or the inputs from which this rank
    follows.
    """
    return OutputTypes(ops=listed(ops), domain=domain, outputs=outputs, rank=rank)


def carries(
    op: str, graph: str, *, inputs: int, outputs: int, fixed: str = "", domain: str = ""
) -> Carries:
    """Declares a loop, whose body outputs become the body inputs of the next iteration.

    The outputs from number `outputs` on become the inputs from number `inputs` on. The parameter
    `fixed` names the element types of the first body inputs, which the operator determines.
    """
    types = tuple(f"tensor({element})" for element in fixed.split())
    return Carries(
        ops=(op,), domain=domain, graph=graph, inputs=inputs, outputs=outputs, fixed=types
    )


def chooses(op: str, *, true: str, false: str, domain: str = "") -> Chooses:
    """Declares the subgraphs that an operator runs if its first input is true or false."""
    return Chooses(ops=(op,), domain=domain, true=true, false=false)


def saturates(op: str, *, limit: str, domain: str = "") -> Saturates:
    """Declares that an operator clips its output to its type's range, as `limit` does."""
    return Saturates(ops=(op,), domain=domain, limit=limit)


def scales(op: str, *, by: str, along: Along, reads_codes: bool, domain: str = "") -> Scales:
    """Declares that an operator scales (by Mul or Div) quantized numbers by its second input."""
    return Scales(ops=(op,), domain=domain, by=by, along=along, reads_codes=reads_codes)


def by_value(op: str, *inputs: int, floats: bool = False, domain: str = "") -> ByValue:
    """Declares inputs that may be cast to wider integers (or `floats`) without other results."""
    return ByValue(ops=(op,), domain=domain, inputs=inputs, floats=floats)


def by_width(
    ops: str,
    *,
    floats: bool = False,
    unless: Callable[[Node], bool] | None = None,
    domain: str = "",
) -> ByWidth:
    """Declares operators whose results may change if they compute in wider integers (or `floats`).

    The function `unless` returns True for nodes whose results do not change.
    """
    return ByWidth(ops=listed(ops), domain=domain, floats=floats, unless=unless)


def illegal(op: str, *, domain: str = "") -> Callable[[Objection], Illegal]:
    """Declares invalid nodes, which are refused before inference.

    The function receives the attributes, and the numbers of inputs and outputs of the node.
    """
    return lambda objection: Illegal(ops=(op,), domain=domain, objection=objection)


def fragile(ops: str, *, domain: str = "") -> Fragile:
    """Declares operators that are hidden from onnx's inference if an input type is unknown."""
    return Fragile(ops=listed(ops), domain=domain)


def fatal_sizes(ops: str, *, domain: str = "") -> FatalSizes:
    """Declares operators that are hidden from onnx's inference if a size is negative."""
    return FatalSizes(ops=listed(ops), domain=domain)


def shrinks(ops: str, *, domain: str = "") -> Callable[[Callable[[Node], bool]], Shrinks]:
    """Declares operators for which onnx's inference may find a negative size.

    The function returns whether the attributes and constants of a node exclude a negative size.
    """
    return lambda excluded: Shrinks(ops=listed(ops), domain=domain, excluded=excluded)


def undefaulted(ops: str, *, domain: str = "") -> Undefaulted:
    """Declares operators whose omitted attributes must be written out for onnx's inference."""
    return Undefaulted(ops=listed(ops), domain=domain)


def flaw(ops: str, *, domain: str = "") -> Callable[[FindObjection], Flaw]:
    """Declares a rule by which a node is invalid, although onnx accepts the node.

    The function receives nodes of the source model, and only after an adapter has failed. The
    function returns a sentence that names the mistake of the model, or None.
    """
    return lambda objection: Flaw(ops=listed(ops), domain=domain, find_objection=objection)


def differs(ops: str, *, domain: str = "") -> Callable[[FindObjection], Differs]:
    """Declares the nodes on which onnxruntime differs from the specification.

    The function receives nodes of the source model. The function returns a sentence that says what
    onnxruntime does, or None. The report names the node if the conversion crosses an opset that
    changed the operator.
    """
    return lambda objection: Differs(ops=listed(ops), domain=domain, find_objection=objection)


def arithmetic(
    kind: str, join: str, part: str, turn: str, *, neutral: int, power: str = ""
) -> Arithmetic:
    """Declares the three operators of sums (Add, Sub, Neg) or products (Mul, Div, Reciprocal)."""
    return Arithmetic(ops=(join, part, turn), kind=kind, neutral=neutral, power=power)


def commutes(ops: str) -> Commutes:
    """Declares operators such as Add, whose two operands can be swapped without other results."""
    return Commutes(ops=listed(ops))
