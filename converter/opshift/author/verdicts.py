# SPDX-License-Identifier: Apache-2.0
"""Defines the adapters that an author declares for operators between two versions."""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import field, replace
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from opshift.author import index
from opshift.author.example import Draft, Example, drafted, listed, spread
from opshift.author.modern_rules import When
from opshift.author.node import KEEP, Node, Result
from opshift.author.traits import Trait
from opshift.codes.refusals import Why
from opshift.errors import AdapterBug, Refusal
from opshift.opsets import schemas
from opshift.records import dataclass
from opshift.report import COMPATIBLE, IMPOSSIBLE, REWRITE

if TYPE_CHECKING:
    from opshift.author.builder import Builder


Run: TypeAlias = "Callable[[Node, Builder], Result]"

# For operators without a schema, which are replaced at any version.
RETIRED: Final = (0, 0)
# For nodes that are written at the end of a conversion, because more runtimes run them.
FORM: Final = (-1, -1)
# For operators of a vendor's domain that a conversion writes in ai.onnx.
LEAVE: Final = (-2, -2)
# For nodes that are written only if the runtime has no kernel for the original node.
ALTERNATIVE: Final = (-3, -3)
# For newer operators that replace nodes with exactly the same result.
MODERN: Final = (-4, -4)
# For nodes that are computed in a wider element type, for which the runtime has a kernel.
WIDER: Final = (-5, -5)
# For operators that the runtime lacks and that are written with other operators.
WORDS: Final = (-6, -6)
# Verdicts of these kinds apply at one version, and an operator need not have them.
EQUAL_FORMS: Final = (FORM, ALTERNATIVE, MODERN, WIDER, WORDS)
_PLACES = {
    RETIRED: "retired", FORM: "form", LEAVE: "leave", ALTERNATIVE: "alternative", MODERN: "modern",
    WIDER: "wider", WORDS: "words",
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Unchanged:
    """The decision to keep a node as it is if the checks derived from the schemas pass."""


@dataclass(frozen=True, slots=True)
class Rewrite:
    """The decision to call a function that replaces the node or refuses the node."""

    run: Run
    handles_types: bool = False  # the function handles element types that the older version lacks
    approximate: bool = False  # the function may call `op.approximate(...)`
    ignores: Mapping[str, str] = field(default_factory=dict)  # reasons for unread parts


@dataclass(frozen=True, slots=True)
class CastNarrowed:
    """The decision to keep a node, unless a lower version lacks its element type."""

    run: Run


@dataclass(frozen=True, slots=True)
class Impossible:
    """The decision to refuse every node of the operator."""

    why: Why
    reason: str


def place_of(domain: str, boundary: tuple[int, int]) -> str:
    """Returns a description of the versions between which an adapter converts."""
    if (place := _PLACES.get(boundary)) is not None:
        return f"the verdict `{place}` of {domain or 'ai.onnx'}"
    return f"{domain or 'ai.onnx'} {boundary[0]}->{boundary[1]}"


Verdict: TypeAlias = Unchanged | Rewrite | CastNarrowed | Impossible


@dataclass(frozen=True, slots=True)
class Adapter:
    """The declared conversion of some operators from one version to another, or its refusal."""

    ops: tuple[str, ...]
    start: int
    to: int
    verdict: Verdict
    domain: str = ""
    named: frozenset[str] | None = None  # other operators that it may write; None: see its code
    examples: tuple[Example, ...] = ()
    reviewed: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    summary: str = ""
    source: str = ""  # `MODULE.FUNCTION`; of a table with several adapters, `MODULE:LINE`
    since: int = 1  # the lowest version of another domain at which it writes nodes of that domain
    runtime: str = ""  # the runtime for which the examples of an alternative are converted
    derived: tuple[Adapter | Mirror, ...] = ()  # the rules that are derived from its function

    @property
    def sentence(self) -> str:
        """The first paragraph of the description, on one line."""
        return " ".join(self.summary.partition("\n\n")[0].split())

    @property
    def is_in_table(self) -> bool:
        """Returns whether a call such as `boundary` declares the adapter, not a function."""
        return ":" in self.source

    @property
    def declaration(self) -> str:
        """Returns the name of the function, or of the module for an adapter in a table."""
        return self.source.partition(":")[0]

    @property
    def module(self) -> str:
        """Returns the name of the module that declares the adapter."""
        return self.declaration if self.is_in_table else self.declaration.rpartition(".")[0]

    @property
    def package(self) -> str:
        """Returns the name of the top-level package that declares the adapter."""
        return self.source.partition(".")[0]

    @property
    def line(self) -> int:
        """Returns the line of the module at which the adapter is declared."""
        if self.is_in_table:
            return int(self.source.partition(":")[2])
        assert self.run is not None
        return self.run.__code__.co_firstlineno

    @property
    def at_boundary(self) -> bool:
        """Returns whether the adapter is for two adjacent versions, not for any version."""
        return self.start != self.to

    @property
    def run(self) -> Run | None:
        """Returns the function that writes replacements."""
        return None if isinstance(self.verdict, Unchanged | Impossible) else self.verdict.run

    @property
    def emits(self) -> frozenset[str]:
        """Returns the other operators that the adapter is known to write, as in `emits=`."""
        if self.run is None:
            return frozenset()
        operators = frozenset[str]().union(*self.choices)
        return operators | {"Cast"} if isinstance(self.verdict, CastNarrowed) else operators

    @property
    def choices(self) -> tuple[frozenset[str], ...]:
        """Returns the sets of operators that the adapter is known to write, each for some nodes.

        A set contains the operator itself if the adapter may keep it with other attributes or
        inputs.
        """
        if self.named is not None:
            return (self.named,)
        return index.choices(self.package, self.row)

    @property
    def row(self) -> str:
        """Returns the name of the adapter's row in the table of written operators."""
        return f"{self.domain}:{self.ops[0]}:{self.start}:{self.to}"

    @property
    def rewrites(self) -> bool:
        """Returns whether the function is called for every node."""
        return isinstance(self.verdict, Rewrite)

    @property
    def approximate(self) -> bool:
        return isinstance(self.verdict, Rewrite) and self.verdict.approximate

    @property
    def kind(self) -> str:
        """Returns the decision in one word, as JSON and pages show it."""
        if isinstance(self.verdict, Impossible):
            return IMPOSSIBLE
        return REWRITE if self.rewrites else COMPATIBLE

    def identity(self, op: str) -> str:
        """Returns the permanent name of the adapter, such as `ai.onnx.Reshape-14-13`."""
        place = _PLACES.get((self.start, self.to), f"{self.start}-{self.to}")
        return f"{self.domain or 'ai.onnx'}.{op}-{place}"

    def __call__(self, node: Node, op: Builder) -> Result:
        """Calls the function of the adapter, so that one adapter can use another adapter."""
        if isinstance(self.verdict, Impossible):
            raise Refusal(self.verdict.why, self.verdict.reason)
        return KEEP if self.run is None else self.run(node, op)


@dataclass(frozen=True, slots=True, kw_only=True)
class Mirror(Trait):
    """An adapter whose written nodes are the pattern by which `--modernize` finds the operator."""

    table = "mirrors"
    down: Adapter
    when: When | None = None
    examples: tuple[Example, ...] = ()
    attributes = MappingProxyType[str, Any]({})  # the nodes of the adapter determine them
    differs = ""  # the result does not differ from the formula

    @property
    def op(self) -> str:
        """Returns the name of the operator."""
        return self.ops[0]

    @property
    def since(self) -> int:
        """Returns the first opset with the operator that the adapter replaces."""
        if self.down.at_boundary:
            return self.down.start
        return max((schema.since for schema in schemas.history(self.domain, self.op)), default=1)

    @property
    def to(self) -> int:
        """Returns the opset of the nodes that the adapter writes."""
        return self.down.to if self.down.at_boundary else self.since

    @property
    def run(self) -> Callable[..., Any]:
        """Returns the function of the adapter."""
        assert self.down.run is not None
        return self.down.run

    @property
    def source(self) -> str:
        """Returns the name of the adapter."""
        return self.down.source


def mirrors_of(down: Adapter, when: When | None = None) -> list[Mirror]:
    """Makes the rules by which `--modernize` finds operators in nodes that an adapter writes."""
    if down.run is None or (down.start <= down.to and (down.start, down.to) != WORDS):
        raise AdapterBug(
            f"{down.source} does not replace an operator at a lower version,"
            " so `mirrored` has no effect"
        )
    return [Mirror(ops=(op,), domain=down.domain, down=down, when=when) for op in down.ops]


def adapter(
    ops: str | Sequence[str],
    start: int,
    to: int,
    *,
    domain: str = "",
    emits: str | Iterable[str] | None = None,
    approximate: bool = False,
    handles_types: bool = False,
    ignores: Mapping[str, str] | None = None,
    since: int = 1,
    runtime: str = "",
    in_other_words: bool = False,
    mirrored: bool | When = False,
) -> Callable[[Run | Draft], Adapter]:
    """Declares how `ops` are converted from version `start` to `to`.

    The docstring of the function states the change between the versions. `emits` names other
    operators that the function writes, so that a plan knows them in advance. `approximate` says
    that the function may call `op.approximate(...)`. `handles_types` says that the function handles
    element types which the other version lacks; otherwise the engine refuses them before it calls
    the function. `ignores` gives the reason for each attribute and input that the function may
    leave unread. `since` is the lowest opset of ai.onnx at which an adapter of another domain
    writes nodes of ai.onnx. With `in_other_words`, the adapter is also used for runtimes that lack
    the operators. With `mirrored`, `--modernize` finds the operator in the nodes that the adapter
    writes. A function in place of True receives the matched nodes; it returns the attributes, or
    None if the node would be invalid.
    """
    names = listed(ops)
    if abs(start - to) != 1 and (start, to) not in (RETIRED, FORM, LEAVE, ALTERNATIVE, WORDS):
        raise AdapterBug(
            f"adapter for {' '.join(names)}: versions {start} and {to} are not neighbours; write"
            " the version of the domain that changed the operator, and the version before it"
        )

    def declare(below: Run | Draft) -> Adapter:
        draft = drafted(below)
        summary = draft.sentence
        source = f"{draft.run.__module__}.{getattr(draft.run, '__name__', '?')}"
        if not summary:
            raise AdapterBug(f"{source}: an adapter needs a docstring that says what changed")
        declared = Adapter(
            names, start, to, Rewrite(draft.run, handles_types, approximate, ignores or {}),
            domain, _named(emits), spread(draft.examples, names),
            summary=summary, source=source, since=since, runtime=runtime,
        )  # fmt: skip
        derived: list[Adapter | Mirror] = [_in_other_words(declared)] if in_other_words else []
        if mirrored:
            derived += mirrors_of(declared, None if mirrored is True else mirrored)
        return replace(declared, derived=tuple(derived)) if derived else declared

    return declare


def retired(
    ops: str, *, domain: str = "", emits: str | Iterable[str] | None = None
) -> Callable[[Run | Draft], Adapter]:
    """Declares how operators without a schema are replaced, at any version.

    ONNX has removed these operators, or a runtime accepted them before ONNX had them. An operator
    stays unchanged if the target version has it.
    """
    return adapter(ops, *RETIRED, domain=domain, emits=emits, handles_types=True)


def form(
    ops: str, *, domain: str = "", emits: str | Iterable[str] | None = None
) -> Callable[[Run | Draft], Adapter]:
    """Declares a replacement for operators, at any version, that more runtimes can run.

    The function is called at the end of a conversion. The function returns KEEP if the node needs
    no change, or if a needed value is unknown. The function must not refuse a node.
    """
    return adapter(ops, *FORM, domain=domain, emits=emits, handles_types=True)


def leaving(
    ops: str,
    *,
    domain: str,
    since: int = 7,
    emits: str | Iterable[str] | None = None,
    approximate: bool = False,
    ignores: Mapping[str, str] | None = None,
) -> Callable[[Run | Draft], Adapter]:
    """Declares how operators of a vendor's domain are written in ai.onnx.

    The engine calls the function if the result must not use the domain. `since` is the lowest opset
    of ai.onnx that has the needed operators; a model below it is raised first.
    """
    return adapter(
        ops, *LEAVE, domain=domain, emits=emits, handles_types=True, approximate=approximate,
        ignores=ignores, since=since,
    )  # fmt: skip


def alternative(
    ops: str, *, runtime: str, domain: str = "", emits: str | Iterable[str] | None = None
) -> Callable[[Run | Draft], Adapter]:
    """Declares a replacement for nodes for which a runtime has no kernel, at any version.

    A conversion for a runtime without the kernel writes nodes for which the runtime has kernels.
    The tests convert the examples for the runtime `runtime`. The function returns KEEP if no
    replacement exists.
    """
    return adapter(
        ops, *ALTERNATIVE, domain=domain, emits=emits, handles_types=True, runtime=runtime
    )


def in_other_words(
    ops: str,
    *,
    domain: str = "",
    emits: str | Iterable[str] | None = None,
    approximate: bool = False,
    ignores: Mapping[str, str] | None = None,
    mirrored: bool = False,
) -> Callable[[Run | Draft], Adapter]:
    """Declares how operators that a runtime lacks are written with other operators.

    A conversion for a runtime that lacks the operator writes the nodes if the runtime runs each of
    them, directly or after other rules. Two operators may each have a rule that writes the other
    operator. The function writes the newest version of each operator, and returns KEEP for a node
    that it cannot write. The examples are converted for a runtime that lacks only these operators.
    With `mirrored`, `--modernize` finds the operators in the nodes that the function writes.
    """
    return adapter(
        ops, *WORDS, domain=domain, emits=emits, handles_types=True, approximate=approximate,
        ignores=ignores, mirrored=mirrored,
    )  # fmt: skip


def _in_other_words(below: Adapter) -> Adapter:
    """Makes an adapter, with its examples, usable for runtimes that lack the operator.

    The rule returns KEEP for a version whose inputs or attributes differ from the first version.
    """
    verdict = below.verdict
    assert isinstance(verdict, Rewrite)

    @functools.wraps(verdict.run)
    def rule(node: Node, op: Builder) -> Result:
        first, here = schemas.history(below.domain, node.op)[0], node.schema
        same = here is not None and here.attributes.keys() == first.attributes.keys()
        if not same or here is None or len(here.inputs) != len(first.inputs):
            return KEEP
        return verdict.run(node, op)

    return adapter(
        below.ops, *WORDS, domain=below.domain, handles_types=True,
        approximate=verdict.approximate, ignores=verdict.ignores,
    )(Draft(rule, converted(below.examples)))  # fmt: skip


def converted(examples: Iterable[Example]) -> tuple[Example, ...]:
    """Copies the examples that an adapter converts; omits refused and invalid examples."""
    successful = (
        example for example in examples if example.invalid is None and example.refuses is None
    )
    return tuple(replace(kept_example, gives=None) for kept_example in successful)


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
    """Declares that no node of `ops` can be converted; `{op}` in an example stands for a name."""
    names = tuple(ops.split())
    examples = tuple(Example(title, graph, refuses=why) for title, graph in cases)
    return Adapter(
        names, start, to, Impossible(why, reason), domain, examples=spread(examples, names),
        summary=reason, source=_caller(),
    )  # fmt: skip


def boundary(
    version: int,
    ops: str,
    *,
    domain: str = "",
    up: Run | Draft | None = None,
    down: Run | Draft | None = None,
    cast: Run | Draft | None = None,
    emits: str | Iterable[str] | None = None,
    ignores: Mapping[str, str] | None = None,
    directions: str = "up down",
) -> tuple[Adapter, ...]:
    """Declares that a person found the meaning of `ops` unchanged at `version`, in both directions.

    Each name is followed by the fingerprint of the reviewed schemas (`Add:5d3f01`), or by several
    with `/` if releases of onnx describe the operator differently. opshift derives checks of
    element types, new attributes and new inputs from the schemas. The functions `up` and `down`
    convert nodes for which the derived checks fail. `cast` converts a node down if the older
    version lacks its element type. `ignores` gives the reason for each attribute and input that
    `up` and `down` may leave unread.
    """
    reviewed = {}
    for word in ops.split():
        name, _, marks = word.partition(":")
        reviewed[name] = tuple(marks.split("/")) if marks else ()
    names, source = tuple(reviewed), _caller()

    def claim(start: int, to: int, verdict: Verdict, draft: Draft | None) -> Adapter:
        said = draft.sentence if draft else ""
        return Adapter(
            names, start, to, verdict, domain, _named(emits),
            spread(draft.examples, names) if draft else (), reviewed,
            said or "Unchanged in meaning.", source,
        )  # fmt: skip

    def rewrite(start: int, to: int, below: Run | Draft | None) -> Adapter:
        if below is None:
            return claim(start, to, Unchanged(), None)
        draft = drafted(below)
        return claim(start, to, Rewrite(draft.run, ignores=ignores or {}), draft)

    if down is not None and cast is not None:
        raise AdapterBug(
            f"{source}: `down` and `cast` are given; give one, because `down` handles types itself"
        )
    claims = {"up": rewrite(version - 1, version, up)}
    if cast is None:
        claims["down"] = rewrite(version, version - 1, down)
    else:
        draft = drafted(cast)
        claims["down"] = claim(version, version - 1, CastNarrowed(draft.run), draft)
    return tuple(claims[direction] for direction in directions.split())


def _named(emits: str | Iterable[str] | None) -> frozenset[str] | None:
    return None if emits is None else frozenset(listed(emits))


def _caller() -> str:
    frame = sys._getframe(2)
    return f"{frame.f_globals.get('__name__', '?')}:{frame.f_lineno}"
