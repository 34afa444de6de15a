"""What an author declares: verdicts, their examples, and how constants fold."""

from __future__ import annotations

import enum
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from types import EllipsisType
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from opshift.errors import AdapterBug, Refusal, Why
from opshift.model.arrays import Array as Array

if TYPE_CHECKING:
    from opshift.assumptions import Assumption
    from opshift.author.bounds import Bounds
    from opshift.author.builder import Builder
    from opshift.author.node import Node, Value
    from opshift.protos import NodeProto


class Keep(enum.Enum):
    """The one answer that is not a value: the node stays exactly as it is."""

    KEEP = "keep"


KEEP: Final = Keep.KEEP
Result: TypeAlias = "Value | tuple[Value, ...] | Keep"
Rewrite: TypeAlias = "Callable[[Node, Builder], Result]"


class Kind(enum.Enum):
    """What crossing a boundary takes; the value is the planner's cost."""

    COMPATIBLE = 1
    REWRITE = 10
    DECOMPOSITION = 100
    IMPOSSIBLE = 100_000


APPROXIMATE_COST = 10_000
# The boundary of operators that no schema describes any more: they are replaced where they are met.
RETIRED: Final = (0, 0)
# The boundary of forms that more runtimes run: they are written where a conversion ends.
FORM: Final = (-1, -1)
# The boundary of operators of a vendor's domain: they are written in ai.onnx where it is left.
LEAVE: Final = (-2, -2)
# The boundary of forms that are written only for a runtime that has no kernel for a node.
ALTERNATIVE: Final = (-3, -3)


@dataclass(frozen=True, slots=True)
class Example:
    """One case of an adapter: its documentation, its test and its row in the matrix."""

    title: str
    graph: str
    gives: str | None = None
    refuses: Why | None = None
    approximate: bool = False
    rtol: float = 0.0
    atol: float = 0.0
    inputs: Mapping[str, Any] = field(default_factory=dict)
    imports: Mapping[str, int] = field(default_factory=dict)
    ir_version: int | None = None
    functions: str = ""
    invalid: str | None = None
    assume: tuple[Assumption, ...] = ()

    def of(self, op: str) -> Example:
        """The example with an operator's name for `{op}`."""
        # Not dataclasses.replace, which is slow: an import of all adapters makes a thousand.
        return Example(
            self.title, self.graph.replace("{op}", op),
            self.gives.replace("{op}", op) if self.gives else self.gives, self.refuses,
            self.approximate, self.rtol, self.atol, self.inputs, self.imports, self.ir_version,
            self.functions, self.invalid, self.assume,
        )  # fmt: skip

    @property
    def wishes(self) -> dict[str, Any]:
        """The permissions that its conversion needs."""
        assumed = tuple(one.value for one in self.assume)
        return {"allow_approximate": self.approximate, "assume": assumed}

    @property
    def outcome(self) -> str | None:
        """What it comes to in a few words; None where it is merely equal."""
        if self.invalid is not None:
            return f"invalid: {self.invalid}"
        return f"refused: {self.refuses.name}" if self.refuses else self.gives


@dataclass(frozen=True, slots=True)
class Adapter:
    """The verdict for some operators at one boundary in one direction."""

    ops: tuple[str, ...]
    start: int
    to: int
    run: Rewrite | None
    domain: str = ""
    kind: Kind = Kind.REWRITE
    emits: frozenset[str] = frozenset()
    examples: tuple[Example, ...] = ()
    approximate: bool = False
    handles_types: bool = False
    only_narrowed: bool = False
    ignores: Mapping[str, str] = field(default_factory=dict)
    reviewed: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    summary: str = ""
    why: Why | None = None
    source: str = ""
    since: int = 1  # the lowest opset at which it can write, where a domain is left
    runtime: str = ""  # the one that the examples of an alternative are converted for

    @property
    def at_boundary(self) -> bool:
        """Whether it is about two neighbouring versions, and not about any version."""
        return self.start != self.to

    def __call__(self, node: Node, op: Builder) -> Result:
        """Lets one adapter hand over to another by calling it."""
        if self.run is None:
            return KEEP
        return self.run(node, op)


@dataclass(frozen=True, slots=True)
class Fold:
    """How a small operator is evaluated while converting, so that its result is a constant."""

    op: str
    run: Callable[[Node], Array | None]
    domain: str = ""
    examples: tuple[Example, ...] = ()


@dataclass(frozen=True, slots=True)
class OutputRanks:
    """The ranks of an operator's outputs, where onnx's inference would have to see values."""

    ops: tuple[str, ...]
    run: Callable[[Node], Sequence[int]]
    domain: str = ""
    examples: tuple[Example, ...] = ()


@dataclass(frozen=True, slots=True)
class OutputBounds:
    """Between which whole numbers the outputs of an operator lie."""

    ops: tuple[str, ...]
    run: Callable[[Node], Sequence[Bounds | None]]
    domain: str = ""
    examples: tuple[Example, ...] = ()


ToldDims: TypeAlias = tuple[int | str | EllipsisType | None, ...]


@dataclass(frozen=True, slots=True)
class OutputShapes:
    """The shapes of an operator's outputs, where onnx's inference tells wrong lengths.

    None stands for an output of which onnx's inference tells no wrong length, and `...` for such a
    dimension.
    """

    ops: tuple[str, ...]
    run: Callable[[Node], Sequence[ToldDims | None]]
    domain: str = ""
    examples: tuple[Example, ...] = ()


@dataclass(frozen=True, slots=True)
class OutputTypes:
    """The element types of the outputs of operators that have no schema here.

    Each output has an element type by name, or that of whichever of some inputs is known.
    """

    ops: tuple[str, ...]
    outputs: tuple[str | tuple[int, ...], ...]
    domain: str


@dataclass(frozen=True, slots=True)
class Carries:
    """An operator whose body hands values on to its next iteration, from these positions on.

    Its own inputs and those of the body have equal positions; its outputs begin with what is
    carried.
    """

    op: str
    graph: str  # the attribute that is the body
    inputs: int  # the first input that is carried
    outputs: int  # the first output of the body that is carried
    domain: str = ""


@dataclass(frozen=True, slots=True)
class ByValue:
    """Inputs of which only the value counts: in a wider type, all of them, they mean the same."""

    op: str
    inputs: tuple[int, ...]
    floats: bool
    domain: str = ""


Objection: TypeAlias = Callable[[Mapping[str, Any], int, int], str | None]


@dataclass(frozen=True, slots=True)
class Illegal:
    """What onnx's checker lets pass and nothing may go on with: an objection, or None."""

    op: str
    objection: Objection
    domain: str = ""
    reads: frozenset[str] | None = None  # the attributes that it looks at; None means all

    def against(self, node: NodeProto) -> str | None:
        """The objection to the attributes that are written on a node."""
        from opshift.protos import helper

        written = [
            attribute
            for attribute in node.attribute
            if (self.reads is None or attribute.name in self.reads)
            and attribute.type
            and not attribute.ref_attr_name
        ]
        if self.reads is not None and not written:
            return None
        given = {attribute.name: helper.get_attribute_value(attribute) for attribute in written}
        return self.objection(given, len(node.input), len(node.output))


@dataclass(frozen=True, slots=True)
class Fragile:
    """An operator whose inference, in onnx, ends the process when an input has no type."""

    op: str
    domain: str = ""


@dataclass(frozen=True, slots=True)
class Differs:
    """Where onnxruntime answers differently from the specification: what it does, or None."""

    op: str
    look: Callable[[Node], str | None]
    domain: str = ""


@dataclass(frozen=True, slots=True)
class Flaw:
    """What no node of an operator may be: asked once a conversion has failed, a sentence."""

    op: str
    look: Callable[[Node], str | None]
    domain: str = ""


@dataclass(frozen=True, slots=True)
class _Draft:
    run: Callable[..., Any]
    examples: tuple[Example, ...]


def example(
    title: str,
    graph: str,
    *,
    gives: str | None = None,
    refuses: Why | None = None,
    approximate: bool = False,
    rtol: float = 0.0,
    atol: float = 0.0,
    inputs: Mapping[str, Any] | None = None,
    imports: Mapping[str, int] | None = None,
    ir_version: int | None = None,
    functions: str = "",
    invalid: str | None = None,
    assume: Assumption | None = None,
) -> Callable[[Callable[..., Any] | _Draft], _Draft]:
    """A case of what stands below it, in onnx's text format: `(inputs) => (outputs) { nodes }`."""
    case = Example(
        title, graph, gives, refuses, approximate, rtol, atol, inputs or {}, imports or {},
        ir_version, functions, invalid, () if assume is None else (assume,),
    )  # fmt: skip

    def attach(below: Callable[..., Any] | _Draft) -> _Draft:
        draft = below if isinstance(below, _Draft) else _Draft(below, ())
        return _Draft(draft.run, (case, *draft.examples))

    return attach


def adapter(
    ops: str | Sequence[str],
    start: int,
    to: int,
    *,
    domain: str = "",
    emits: str | Iterable[str] = (),
    approximate: bool = False,
    handles_types: bool = False,
    ignores: Mapping[str, str] | None = None,
    since: int = 1,
    runtime: str = "",
) -> Callable[[Rewrite | _Draft], Adapter]:
    """Declares how `ops` cross from version `start` to `to`; the docstring says what changed.

    `emits` names every other operator it may write; `approximate` that it may ask for permission
    with `op.approximate(...)`; `handles_types` that it deals itself with element types which the
    other version lacks (otherwise the engine refuses them before the adapter is asked); `ignores`
    gives the reason for each attribute and input that the adapter may leave unread.
    """
    names = _listed(ops)
    if abs(start - to) != 1 and (start, to) not in (RETIRED, FORM, LEAVE, ALTERNATIVE):
        raise AdapterBug(f"adapter for {names}: {start} and {to} are not neighbours")

    def declare(below: Rewrite | _Draft) -> Adapter:
        draft = below if isinstance(below, _Draft) else _Draft(below, ())
        summary = (draft.run.__doc__ or "").strip()
        source = f"{draft.run.__module__}.{getattr(draft.run, '__name__', '?')}"
        if not summary:
            raise AdapterBug(f"{source}: an adapter needs a docstring that says what changed")
        return Adapter(
            names, start, to, draft.run, domain, Kind.REWRITE, frozenset(_listed(emits)),
            _spread(draft.examples, names), approximate, handles_types, ignores=ignores or {},
            summary=summary, source=source, since=since, runtime=runtime,
        )  # fmt: skip

    return declare


def _listed(names: str | Iterable[str]) -> tuple[str, ...]:
    """Names given one by one, or in one text."""
    return tuple(names.split() if isinstance(names, str) else names)


def shown(
    run: Callable[..., Any], *examples: Callable[[Callable[..., Any] | _Draft], _Draft]
) -> _Draft:
    """A ready-made function with its examples, for `boundary(..., down=shown(...))`."""
    draft = _Draft(run, ())
    for one in reversed(examples):
        draft = one(draft)
    return draft


def _spread(examples: Sequence[Example], names: Sequence[str]) -> tuple[Example, ...]:
    """An example that says `{op}` counts once for each operator."""
    spread: list[Example] = []
    for one in examples:
        if "{op}" in one.graph:
            spread += [one.of(name) for name in names]
        else:
            spread.append(one)
    return tuple(spread)


def retired(
    ops: str, *, domain: str = "", emits: str | Iterable[str] = ()
) -> Callable[[Rewrite | _Draft], Adapter]:
    """Declares what becomes of operators where no schema describes them, at any version.

    They have left the registry, or a runtime took them before they were born; the latter stay as
    they are when the target knows them.
    """
    return adapter(ops, *RETIRED, domain=domain, emits=emits, handles_types=True)


def form(
    ops: str, *, domain: str = "", emits: str | Iterable[str] = ()
) -> Callable[[Rewrite | _Draft], Adapter]:
    """Declares an equal form of operators that more runtimes run, at any version.

    A conversion ends with it. It returns KEEP where the node has that form, or the value is not
    known that it depends on: it never refuses.
    """
    return adapter(ops, *FORM, domain=domain, emits=emits, handles_types=True)


def leaving(
    ops: str,
    *,
    domain: str,
    since: int = 7,
    emits: str | Iterable[str] = (),
    approximate: bool = False,
    ignores: Mapping[str, str] | None = None,
) -> Callable[[Rewrite | _Draft], Adapter]:
    """Declares how operators of a vendor's domain are written in ai.onnx.

    The engine asks where the result must not use the domain. `since` is the lowest opset of
    ai.onnx at which it can be written; a model below it is raised first.
    """
    return adapter(
        ops, *LEAVE, domain=domain, emits=emits, handles_types=True, approximate=approximate,
        ignores=ignores, since=since,
    )  # fmt: skip


def alternative(
    ops: str, *, runtime: str, domain: str = "", emits: str | Iterable[str] = ()
) -> Callable[[Rewrite | _Draft], Adapter]:
    """Declares an equal form for runtimes without a kernel for a node, at any version.

    A conversion for such a runtime writes the form if the runtime has a kernel for each of its
    nodes. The examples are converted for `runtime`. It returns KEEP where there is no such form.
    """
    return adapter(
        ops, *ALTERNATIVE, domain=domain, emits=emits, handles_types=True, runtime=runtime
    )


def impossible(
    ops: str,
    start: int,
    to: int,
    reason: str,
    *,
    cases: Sequence[tuple[str, str]],
    domain: str = "",
    why: Why = Why.NOT_EXPRESSIBLE,
) -> Adapter:
    """Declares that no use of `ops` crosses; `{op}` in a case stands for each operator's name."""

    def refuse(node: Node, op: Builder) -> Result:
        raise Refusal(why, reason)

    names = tuple(ops.split())
    examples = tuple(Example(title, graph, refuses=why) for title, graph in cases)
    return Adapter(
        names, start, to, refuse, domain, Kind.IMPOSSIBLE, examples=_spread(examples, names),
        handles_types=True, summary=reason, why=why, source=_caller(),
    )  # fmt: skip


def boundary(
    version: int,
    ops: str,
    *,
    domain: str = "",
    up: Rewrite | _Draft | None = None,
    down: Rewrite | _Draft | None = None,
    cast: Rewrite | _Draft | None = None,
    emits: str | Iterable[str] = (),
    directions: str = "up down",
) -> tuple[Adapter, ...]:
    """A person's claim that `ops` keep their meaning at `version`, in both directions.

    Each name carries the fingerprint of the schemas that were looked at (`Add:5d3f01`; several
    with `/` where releases of onnx describe it differently). Guards for element types, new
    attributes and new inputs are derived. `up` and `down` say what the schemas cannot; `cast` is
    asked on the way down where a node has an element type the older version lacks.
    """
    reviewed = {}
    for word in ops.split():
        name, _, marks = word.partition(":")
        reviewed[name] = tuple(marks.split("/")) if marks else ()
    names, source = tuple(reviewed), _caller()

    def claim(start: int, to: int, run: Rewrite | _Draft | None, only_narrowed: bool) -> Adapter:
        draft = run if isinstance(run, _Draft) or run is None else _Draft(run, ())
        said = (draft.run.__doc__ or "").strip() if draft else ""
        return Adapter(
            names, start, to, draft.run if draft else None, domain,
            Kind.COMPATIBLE if draft is None or only_narrowed else Kind.REWRITE,
            frozenset(_listed(emits)) | ({"Cast"} if only_narrowed else set()),
            _spread(draft.examples, names) if draft else (),
            handles_types=only_narrowed, only_narrowed=only_narrowed, reviewed=reviewed,
            summary=said or "Unchanged in meaning.", source=source,
        )  # fmt: skip

    if down is not None and cast is not None:
        raise AdapterBug(
            f"{source}: `down` must deal with types itself; `cast` cannot stand beside"
        )
    claims = {
        "up": claim(version - 1, version, up, False),
        "down": claim(version, version - 1, down or cast, cast is not None),
    }
    return tuple(claims[direction] for direction in directions.split())


def fold(op: str, *, domain: str = "") -> Callable[[Callable[[Node], Array | None] | _Draft], Fold]:
    """Declares how an operator on constants (or on a static shape) is evaluated."""

    def declare(below: Callable[[Node], Array | None] | _Draft) -> Fold:
        draft = below if isinstance(below, _Draft) else _Draft(below, ())
        return Fold(op, draft.run, domain, _spread(draft.examples, (op,)))

    return declare


def output_ranks(
    *ops: str, domain: str = ""
) -> Callable[[Callable[[Node], Sequence[int]] | _Draft], OutputRanks]:
    """Declares how long a shape must be known to be, and the like, for a rank to be known."""

    def declare(below: Callable[[Node], Sequence[int]] | _Draft) -> OutputRanks:
        draft = below if isinstance(below, _Draft) else _Draft(below, ())
        return OutputRanks(ops, draft.run, domain, _spread(draft.examples, ops))

    return declare


def output_bounds(
    *ops: str,
) -> Callable[[Callable[[Node], Sequence[Bounds | None]] | _Draft], OutputBounds]:
    """Declares between which whole numbers the outputs lie; a Refusal means that it is unknown."""

    def declare(below: Callable[[Node], Sequence[Bounds | None]] | _Draft) -> OutputBounds:
        draft = below if isinstance(below, _Draft) else _Draft(below, ())
        return OutputBounds(ops, draft.run, "", _spread(draft.examples, ops))

    return declare


def output_shapes(
    *ops: str, domain: str = ""
) -> Callable[[Callable[[Node], Sequence[ToldDims | None]] | _Draft], OutputShapes]:
    """Declares the shapes of outputs for which onnx's inference tells wrong lengths."""

    def declare(below: Callable[[Node], Sequence[ToldDims | None]] | _Draft) -> OutputShapes:
        draft = below if isinstance(below, _Draft) else _Draft(below, ())
        return OutputShapes(ops, draft.run, domain, _spread(draft.examples, ops))

    return declare


def illegal(op: str, *, domain: str = "") -> Callable[[Objection], Illegal]:
    """Declares what is refused before anything is inferred.

    The function is given the attributes, and how many inputs and outputs the node has.
    """

    def declare(objection: Objection) -> Illegal:
        return Illegal(op, objection, domain)

    return declare


def fragile(ops: str, *, domain: str = "") -> tuple[Fragile, ...]:
    """Declares operators that onnx's inference must not see behind an unknown type."""
    return tuple(Fragile(op, domain) for op in ops.split())


def flaw(
    ops: str, *, domain: str = ""
) -> Callable[[Callable[[Node], str | None]], tuple[Flaw, ...]]:
    """Declares what makes a node illegal although onnx lets it pass.

    The function sees nodes of the model as it came, and only after an adapter has tripped: a
    sentence then says that it is the model's mistake.
    """

    def declare(look: Callable[[Node], str | None]) -> tuple[Flaw, ...]:
        return tuple(Flaw(op, look, domain) for op in ops.split())

    return declare


def output_types(domain: str, ops: str, *outputs: str | tuple[int, ...]) -> OutputTypes:
    """The operators' outputs have these element types, or those of one of these inputs."""
    return OutputTypes(tuple(ops.split()), outputs, domain)


def carries(op: str, graph: str, *, inputs: int, outputs: int, domain: str = "") -> Carries:
    """The operator's body hands on what it gets from input `inputs` on, as output `outputs` on."""
    return Carries(op, graph, inputs, outputs, domain)


def differs(
    ops: str, *, domain: str = ""
) -> Callable[[Callable[[Node], str | None]], tuple[Differs, ...]]:
    """Declares where onnxruntime answers differently from the specification.

    The function sees nodes of the model as it came, and returns in a sentence what onnxruntime
    does. A conversion over a version that changed the operator names the node in its report.
    """

    def declare(look: Callable[[Node], str | None]) -> tuple[Differs, ...]:
        return tuple(Differs(op, look, domain) for op in ops.split())

    return declare


def by_value(op: str, *inputs: int, floats: bool = False, domain: str = "") -> ByValue:
    """Declares inputs that may hold the same integers, or `floats` too, in a wider type."""
    return ByValue(op, inputs, floats, domain)


def _caller() -> str:
    frame = sys._getframe(2)
    return f"{frame.f_globals.get('__name__', '?')}:{frame.f_lineno}"
