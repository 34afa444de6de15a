# SPDX-License-Identifier: Apache-2.0
"""Defines the exceptions that opshift raises on purpose."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any

from opshift import codes, terms
from opshift.codes.refusals import Why
from opshift.json_form import Form, Versions
from opshift.records import dataclass
from opshift.text import Line, Role, counted, plain, printable, qualified, show_versions

if TYPE_CHECKING:
    from opshift.assumptions import Assumption
    from opshift.page.sheet import Page, Section
    from opshift.report import StepReport


class OpshiftError(Exception):
    """The base of all exceptions of opshift; `code` names a page in `opshift.codes`."""

    code = "BUG"

    @property
    def cure(self) -> str:
        """Returns the action that the user can take, from the page of the code."""
        return codes.page(self.code).cure


class InvalidModel(OpshiftError, ValueError):  # noqa: N818
    """The source model is not valid; the message names the fault and the action to take."""

    code = "INVALID_MODEL"

    def __init__(self, message: str, code: str = "INVALID_MODEL") -> None:
        super().__init__(printable(message))
        self.code = code


class BadTarget(OpshiftError, ValueError):  # noqa: N818
    """The requested target does not exist or does not fit the model."""

    code = "BAD_TARGET"


class BadDestination(OpshiftError, OSError):  # noqa: N818
    """The result cannot be written to its path, where it would damage a file or be unreadable."""

    code = "BAD_DESTINATION"


class LeftoverWarning(UserWarning):
    """A temporary file of opshift could not be closed or removed; the result is not affected."""


def choose_external(*policies: str) -> str:
    """Returns the end of a message: the options that put the weights into other files."""
    *first_options, last = (terms.option("external", policy) for policy in policies)
    return f"give {', '.join(first_options)} or {last}" if first_options else f"give {last}"


class MissingExtra(OpshiftError, ImportError):  # noqa: N818
    """An optional package is not installed; the message has the command that installs it."""

    code = "MISSING_EXTRA"


class ClusterLost(OpshiftError, ConnectionError):  # noqa: N818
    """The cluster of a batch did not start, cannot be reached, or ended while it had work."""

    code = "CLUSTER_LOST"


class AdapterBug(OpshiftError, TypeError):  # noqa: N818
    """An adapter broke a rule of the author API, or wrote nodes that onnx's checker rejects."""

    code = "ADAPTER_BUG"


class FaultyChange(AdapterBug):
    """An adapter failed or wrote invalid nodes; the message names opsets, adapter and node.

    The set `depends_on` has the source values on which the node depends; None if unknown.
    """

    def __init__(self, message: str, depends_on: frozenset[str] | None = None) -> None:
        super().__init__(message)
        self.depends_on = depends_on


class Refusal(Exception):  # noqa: N818 - it is an answer, not an error
    """Raised by an adapter if the next version cannot express a node exactly."""

    def __init__(self, why: Why, detail: str) -> None:
        super().__init__(why, detail)
        self.why = why
        self.detail = detail


@dataclass(frozen=True, slots=True)
class RefusedNode(Form):
    """A node that cannot be converted to the next version, with the reason."""

    PART = "refusal"
    ALSO = ("cure",)
    HIDDEN = ("missed", "types", "shape")

    node: str
    """The name of the node, or of its first output; `the model` if the IR version blocks."""
    op: str
    """The operator; `IR` if the IR version blocks."""
    domain: str
    """The domain of the operator."""
    boundary: tuple[int, int]
    """The version before the step, and the version after it."""
    why: Why
    """The code of the reason, one of `opshift.Why`; `opshift explain CODE` explains the code."""
    detail: str
    """The missing fact about the node, or the impossible part of its conversion."""
    missed: Assumption | None = None  # the assumption that would avoid this refusal
    types: str = ""  # a change of element types that would avoid it, such as bfloat16=float
    shape: str = ""  # a fixed shape of an input that may make the node constant

    @property
    def cure(self) -> str:
        """The action that may avoid the refusal."""
        if self.types:
            kinds = terms.option("types", self.types)
            return f"Change the element type with {kinds}, or choose a target nearer to the source."
        if self.shape:
            fixed = terms.option("shape", self.shape)
            return (
                f"Fix the input shapes, as with {fixed}, or choose a newer release of the runtime."
            )
        return (self.missed or self.why).cure

    def __str__(self) -> str:
        op = qualified(self.domain, self.op)
        start, to = self.boundary
        return printable(f"{op} {self.node!r} {start}->{to}: {self.detail} [{self.why.name}]")


@dataclass(frozen=True, slots=True)
class RefusedForm(Form):
    """The nodes that block a conversion, and the nearest versions that the model reaches.

    Printed by `opshift convert, exit code 1`.
    """

    KIND = "refused"

    message: str
    """The answer in a sentence."""
    target: Versions
    """The versions that the caller asks for, by domain."""
    nearest: Versions
    """The versions nearest to the target that the model reaches, by domain."""
    dead_ends: tuple[str, ...]
    """The version changes for which the plan has no route."""
    runtime: str
    """The runtime that cannot run the converted model; empty for another reason."""
    refusals: tuple[RefusedNode, ...]
    """Every node that blocks the conversion in its last step."""


class Refused(OpshiftError, RuntimeError):  # noqa: N818
    """No equal model exists at the target; lists every blocking node and the nearest versions.

    Attributes
    ----------
    refusals : tuple of RefusedNode
        Every node that blocks the conversion, with `why`, `detail` and `cure`.
    nearest, target : dict of str to int
        The nearest versions that the model reaches, and the requested versions, by domain.
    steps : tuple of StepReport
        The steps that succeeded before the refusal.
    dead_ends : tuple of str
        The version changes for which the plan has no route.
    runtime : str
        The runtime that cannot run the converted model, if it is the reason of the refusal; else
        "".

    Examples
    --------
    >>> import opshift
    >>> try:
    ...     opshift.convert_version("model.onnx", 1)
    ... except opshift.Refused as refused:
    ...     print(refused.nearest[""], refused.refusals[0].why.name)
    5 NEEDS_CONSTANT
    """

    def __init__(
        self,
        refusals: Iterable[RefusedNode],
        nearest: dict[str, int],
        target: dict[str, int],
        steps: Iterable[StepReport] = (),
        dead_ends: Iterable[str] = (),
        runtime: str = "",
    ) -> None:
        self.refusals = tuple(refusals)
        self.nearest = dict(nearest)
        self.target = dict(target)
        self.steps = tuple(steps)  # the steps that succeeded before the refusal
        self.dead_ends = tuple(dead_ends)  # the version changes for which the plan has no route
        self.runtime = runtime  # the runtime that cannot run the converted model
        super().__init__(plain(self.lines()))

    def lines(self) -> Iterator[Line]:
        """Yields the answer, the action to take, and each node that blocks the conversion."""
        if self.runtime:
            yield Line(f"Converted, but {self.runtime} cannot run it: {self._first}", Role.BAD)
        else:
            summary = blocked(self.refusals, self.nearest, self.target)
            goal = f" to {show_versions(self.target)}" if self.target else ""
            yield Line(f"Cannot convert{goal}: {summary}", Role.BAD)
        yield from blockers(self.refusals)
        for way in self.dead_ends:
            yield Line(f"  The plan has no route for {way}.", Role.FAINT, more=True)

    @property
    def _first(self) -> str:
        """Returns the first reason with its node, and the number of other reasons."""
        first, more = self.refusals[0], len(self.refusals) - 1
        node = f" ({first.node})" if first.node else ""
        rest = f", and {counted(more, 'more reason')}" if more else ""
        return f"{first.detail}{node}{rest}. Nothing was written."

    def page(self) -> Page:
        """Returns the page: the answer, the nearest versions, and the blocking nodes."""
        from opshift.page.sheet import Page, facts_of

        requested = [(f"Requested {domain or 'opset'}", v, v) for domain, v in self.target.items()]
        near = [
            (f"Nearest {domain or 'opset'}", v, v)
            for domain, v in self.nearest.items()
            if domain in self.target
        ]
        facts = facts_of([*requested, *near])
        return Page("conversion", next(self.lines()), "", facts, (blocking(self.refusals),))

    def to_html(self) -> str:
        """Returns the page as a single HTML file."""
        return self.page().html()

    def as_dict(self) -> dict[str, Any]:
        """Returns the JSON form that `opshift schema` describes."""
        return RefusedForm(
            str(self).partition("\n")[0], self.target, self.nearest, self.dead_ends, self.runtime,
            self.refusals,
        ).as_dict()  # fmt: skip

    def __reduce__(self) -> tuple[type[Refused], tuple[object, ...]]:
        return Refused, (
            self.refusals, self.nearest, self.target, self.steps, self.dead_ends, self.runtime,
        )  # fmt: skip


def blocking(refusals: tuple[RefusedNode, ...]) -> Section:
    """Returns a section of the page: the actions to take, and a table row for each node."""
    from opshift.page.page_parts import Notes, Table
    from opshift.page.sheet import Section

    if not refusals:
        return Section("What blocks the conversion")
    cures = [Line(f"{reason.name}: {cure}") for reason, cure in _cures(refusals)]
    rows = [
        (
            qualified(node.domain, node.op),
            node.node,
            "{} → {}".format(*node.boundary),
            Line(node.why.name, Role.BAD),
            node.detail,
        )
        for node in refusals
    ]
    header = ("Operator", "Node", "Step", "Reason", "What is wrong")
    return Section("What blocks the conversion", (Notes(cures), Table(header, rows)))


def _cures(refusals: Iterable[RefusedNode]) -> Iterable[tuple[Assumption | Why, str]]:
    """Returns each reason with the action to take, without duplicates."""
    return dict.fromkeys((node.missed or node.why, node.cure) for node in refusals)


SHOWN = 10  # number of blockers that are shown without -v
_QUOTED = re.compile(r"'[^']*'|\"[^\"]*\"")


def blockers(refusals: tuple[RefusedNode, ...]) -> Iterator[Line]:
    """Yields the action to take for each reason, then a line for each blocking node."""
    for code, cure in _cures(refusals):
        yield Line(f"  What to do: {cure} (opshift explain {code.name})")
    yield from blocking_nodes(refusals, "  ")


def blocking_nodes(refusals: Iterable[RefusedNode], indent: str) -> Iterator[Line]:
    """Yields a line for each node; without -v, one line for nodes that differ only in name."""
    alike: dict[tuple[object, ...], list[RefusedNode]] = {}
    for node in refusals:
        detail = _QUOTED.sub("", node.detail)
        alike.setdefault((node.op, node.domain, node.boundary, node.why, detail), []).append(node)
    for number, (first, *similar) in enumerate(alike.values()):
        more = number >= SHOWN
        others = f"{counted(len(similar), 'similar node')}; {terms.all_of('refusals')}"
        count = f" (and {others})" if similar else ""
        yield Line(f"{indent}{first}{count}", more=more)
        yield from (Line(f"{indent}{other}", more=True) for other in similar)
    if len(alike) > SHOWN:
        rest = sum(map(len, list(alike.values())[SHOWN:]))
        yield Line(f"{indent}... and {rest} more: {terms.all_of('refusals')}", Role.FAINT)


def blocked(
    refusals: tuple[RefusedNode, ...], nearest: Mapping[str, int], target: Mapping[str, int]
) -> str:
    """Returns how many nodes or places block a conversion, and which versions are reachable."""
    what = "place" if any(refusal.op == "IR" for refusal in refusals) else "node"
    verb = "blocks" if len(refusals) == 1 else "block"
    limits = farthest(refusals, nearest, target)
    return " ".join([f"{counted(len(refusals), what)} {verb} it.", *limits])


def farthest(
    refusals: tuple[RefusedNode, ...], nearest: Mapping[str, int], target: Mapping[str, int]
) -> Iterator[str]:
    """Yields the nearest reachable version of each domain that has blocking nodes."""
    domains = dict.fromkeys("IR" if r.op == "IR" else r.domain for r in refusals)
    for domain in domains:
        if domain in nearest and nearest[domain] != target.get(domain, nearest[domain]):
            end = "lowest" if nearest[domain] > target[domain] else "highest"
            reached = show_versions({domain: nearest[domain]}).replace("opset", "Opset")
            yield f"{reached} is the {end} that this model can reach."
