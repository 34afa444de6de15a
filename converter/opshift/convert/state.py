# SPDX-License-Identifier: Apache-2.0
"""The state of a conversion: the model, the target, and the steps so far."""

from __future__ import annotations

import copy
import dataclasses
from abc import ABC, abstractmethod
from collections.abc import Iterable
from dataclasses import field
from typing import TYPE_CHECKING, TypeAlias, TypeVar

from opshift.author.facts import Facts
from opshift.author.registry import Registry
from opshift.convert import planner
from opshift.convert.change import Step
from opshift.convert.ir.ir_plan import FeaturePlan
from opshift.convert.legal import rules
from opshift.convert.legal.findings import Findings
from opshift.convert.plan_table import Edge
from opshift.convert.request import Request
from opshift.convert.runtime.lack import RuntimeLack
from opshift.convert.step import Stepper
from opshift.convert.strategies import STRAIGHT, Strategy
from opshift.errors import Refused, RefusedNode
from opshift.model import settle, weights
from opshift.model.document import Document
from opshift.model.fork import Fork
from opshift.model.names import unused_prefix
from opshift.model.scope import FunctionId, Key
from opshift.model.weights import Weights
from opshift.protos import ModelProto
from opshift.records import dataclass
from opshift.report import RuntimeAnswer, Site, StepReport, Work

if TYPE_CHECKING:
    from typing_extensions import Self

    from opshift.opsets.targets import RuntimeRelease


_Stepper = TypeVar("_Stepper", bound=Stepper)
Boundaries: TypeAlias = "tuple[tuple[str, int, int], ...]"  # (domain, start, to) of each boundary


@dataclass(slots=True)
class Last:
    """The state of the latest conversion, from which another conversion can continue."""

    state: State | None = None


@dataclass(slots=True)
class State(ABC):
    """The model (without large weights) and the other data that parts of a conversion share."""

    skeleton: ModelProto
    weights: Weights
    options: Request
    adapters: Registry
    strategy: Strategy = STRAIGHT
    steps: list[Step] = field(default_factory=list)
    goal: dict[str, int] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)
    document: Document = field(init=False)
    facts: Facts = field(init=False)
    plan: planner.CrossingPlan = field(init=False)
    lowerings: FeaturePlan = field(default_factory=dict)  # the verdicts on IR features
    view: bytes | ModelProto = b""  # the source model, for messages
    base: bytes | ModelProto = b""  # the model at the last indexing, for inference
    runtime: RuntimeRelease | None = None
    # kernels that the runtime lacks for the source model
    lacked: list[RuntimeLack] = field(default_factory=list)
    # why the runtime cannot run the result
    unrunnable: list[RefusedNode] = field(default_factory=list)
    # equal forms that need the caller's permission
    withheld: dict[Key, str] = field(default_factory=dict)
    answer: RuntimeAnswer | None = None  # whether the runtime can run the result
    visits: dict[str, int] = field(default_factory=dict)  # the versions to visit before the target
    # the highest IR version of a runtime, unless the caller gave an IR version
    ir_limit: int | None = None
    repaired: bool = False
    # inputs and outputs whose missing type was added
    typed: list[str] = field(default_factory=list)
    broken: Findings = field(init=False)  # the rules that the source model breaks
    came_at: int = 0  # the opset of the source model; 0 without an import of ai.onnx
    nodes_before: int = 0  # the number of nodes of the source model
    added: int = 0  # nodes, by the steps over boundaries
    boundaries: Boundaries | None = (
        None  # crossed since the opening, if only steps changed the model
    )
    last: Last = field(default_factory=lambda: Last())  # of the conversions of one opened model
    sites: list[Site] = field(default_factory=list)  # the places of modernized nodes
    inlined: list[FunctionId] = field(default_factory=list)  # functions that were inlined first
    # functions that were inlined after the steps
    late: list[FunctionId] = field(default_factory=list)
    left_late: bool = False  # domains were left after the steps, but could be left before them
    for_types: bool = False  # the result is used only for inference
    traces: bool = False  # this is a rerun that only searches for the faulty change
    prefixes: list[str] = field(default_factory=list)  # the prefixes of all new names

    @abstractmethod
    def inferable(self) -> bytes | ModelProto:
        """Returns the unconverted model, for inference."""

    def new_prefix(self, data: bytes) -> str:
        """Returns a prefix for new names. Names get numbers at the end of the conversion."""
        self.prefixes.append(unused_prefix(data))
        return self.prefixes[-1]

    def infer_again(self, data: bytes = b"") -> None:
        """Infers types of the present model again; `data` may be the model's serialized bytes."""
        opened, prefix = data or self.skeleton.SerializeToString(), self.document.prefix

        def reopened() -> Document:
            return Document(ModelProto.FromString(opened), prefix)

        self.facts = Facts(self.document, self.weights, self.adapters, self.inferable, reopened)

    def index(self) -> None:
        """Indexes the model again, after a change that was not made through the index."""
        self.document = Document(self.skeleton, self.document.prefix, self.document)
        self.infer_again()

    def reopen(self) -> None:
        """Indexes the present model again, as if it were the source model."""
        self.notes += self.facts.believed()
        prefix = self.new_prefix(self.skeleton.SerializeToString())
        self.base = weights.checkable(self.skeleton, weights=self.weights)
        self.document = Document(self.skeleton, prefix, self.document)
        self.came_at = self.document.imports.get("") or 0
        self.boundaries = None
        self.infer_again()

    def fork(self) -> Self:
        """Returns a copy that can be converted separately, if the original stays unchanged."""
        twin = copy.copy(self)
        for member in dataclasses.fields(self):
            if isinstance(value := getattr(self, member.name, None), (list, dict)):
                setattr(twin, member.name, value.copy())
        made = Fork(self.document)
        twin.document, twin.skeleton = made.document, made.document.model
        twin.facts = self.facts.fork(made)
        if hasattr(self, "plan"):
            unforeseen = {*self.plan.unforeseen}
            twin.plan = dataclasses.replace(self.plan, unforeseen=unforeseen)
        return twin

    def continue_from(self, state: State) -> None:
        """Continues from the steps of another conversion of the same model."""
        twin = state.fork()
        self.skeleton, self.document, self.facts = twin.skeleton, twin.document, twin.facts
        self.steps, self.boundaries, self.added = twin.steps, twin.boundaries, twin.added
        for key, version in sorted(state.plan.unforeseen):
            self.plan.extend(key, version)

    def sweep_and_sort(self) -> None:
        """Removes nodes and constants that the steps left unread, and sorts the nodes."""
        self.notes += settle.settle(self.document)
        self.document.sort()

    def plan_forms(self) -> None:
        """Plans the equivalent nodes that the conversion may write at the target version."""
        newer: dict[Key, Edge] = {}
        if self.options.modernize:
            from opshift.convert.modernize import edges

            newest = max([self.goal.get("", 0), *self.document.versions_of("")])
            newer = edges(self.adapters, newest)
        self.plan.add_forms(self.runtime, newer)

    def stepper(self, domain: str, start: int, to: int) -> Stepper:
        """Returns a step of the plan, from one version of a domain to another."""
        return self.stepper_of(Stepper, domain, start, to)

    def stepper_of(self, kind: type[_Stepper], domain: str, start: int, to: int) -> _Stepper:
        """Returns a step of a class that adds to the steps of the plan."""
        options = self.options
        stepper = kind(
            self.facts, self.plan, domain, start, to, options.allow_approximate,
            options.assumptions,
        )  # fmt: skip
        stepper.checks = options.checks
        stepper.traces = self.traces
        if self.traces:
            stepper.records = None
        return stepper

    def done(self, step: Step) -> None:
        """Checks the changes of a step, and stores the step."""
        if self.options.checks and step.touched:
            rules.after_step(self.document, step)
        step.touched.clear()
        self.steps.append(step)

    def crossed(self) -> tuple[StepReport, ...]:
        """Returns the reports of the steps."""
        return tuple(map(step_report, self.steps))

    def unmade(self, changes: Iterable[str]) -> list[str]:
        """Returns the changes such as `bfloat16=float` that the caller did not request."""
        types = self.options.types or {}
        return [change for change in changes if change.partition("=")[0] not in types]

    def refused(self, refusals: list[RefusedNode], runtime: str = "") -> Refused:
        """Returns the error for a refusal, with the versions that the model has reached."""
        near = dict(self.document.imports)
        ir = self.options.ir_version
        asked = self.goal or ({"IR": ir} if isinstance(ir, int) else near)
        plan = getattr(self, "plan", None)  # a refusal before planning has no plan
        dead_ends = dict.fromkeys(dead.described for dead in plan.dead) if plan is not None else ()
        offers = set(self.unmade(refusal.types for refusal in refusals))
        refusals = [
            refusal if refusal.types in offers else dataclasses.replace(refusal, types="")
            for refusal in refusals
        ]
        return Refused(refusals, near, asked, self.crossed(), dead_ends, runtime)


def step_report(step: Step) -> StepReport:
    """Returns the part of the report on a step."""
    work = tuple(
        Work(kind.op, kind.gives, kind.adapter, count, kind.id, kind.why)
        for kind, count in sorted(
            step.rewritten.items(), key=lambda item: (item[0].op, item[0].gives)
        )
    )
    return StepReport(step.domain, step.start, step.to, work, dict(sorted(step.kept.items())))
