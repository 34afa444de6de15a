# SPDX-License-Identifier: Apache-2.0
"""One conversion of one skeleton: opened, stepped boundary by boundary, checked, reported."""

from __future__ import annotations

import dataclasses
import functools
import itertools
from collections.abc import Iterable, Iterator
from dataclasses import field
from typing import TYPE_CHECKING

from opshift import versions
from opshift.author import registry, safe_inference
from opshift.author.facts import Facts
from opshift.author.traits import ByValue
from opshift.author.verdicts import ALTERNATIVE, FORM
from opshift.convert import classes, declare, leave, overdue, planner, request, stamp
from opshift.convert.change import NodeChange, Step
from opshift.convert.ir import lower, needs
from opshift.convert.ir.features import METADATA, TRAINING, Feature
from opshift.convert.legal import author_rules, checker, diagnose, opening, rules, runtime
from opshift.convert.legal.findings import Findings
from opshift.convert.legal.runtime import RuntimeLack
from opshift.convert.request import Request
from opshift.convert.step import Stepper, StepRefused
from opshift.convert.ways import STRAIGHT, Way, alternatives, climb_for, dip_for
from opshift.errors import AdapterBug, InvalidModel, Refusal, Refused, RefusedNode, Why
from opshift.model import functions, imports, numbering, order, repair, settle, signature, weights
from opshift.model.document import Document
from opshift.model.names import unused_prefix
from opshift.model.scope import FunctionId, Imports
from opshift.model.weights import Weights
from opshift.opsets import schemas
from opshift.opsets.wanted import Wanted
from opshift.protos import ModelProto
from opshift.records import dataclass
from opshift.report import Report, Site, StepReport, Work

if TYPE_CHECKING:
    from opshift.opsets.targets import Ceiling

# Below opset 6, some forty operators have no inference; names mean the same on both sides.
LOWEST_INFERABLE = 6


@dataclass(slots=True)
class Conversion:
    """One try to take a skeleton to its target, in place."""

    skeleton: ModelProto
    store: Weights
    options: Request
    adapters: registry.Registry
    way: Way = STRAIGHT
    steps: list[Step] = field(default_factory=list)
    goal: dict[str, int] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)
    document: Document = field(init=False)
    facts: Facts = field(init=False)
    plan: planner.CrossingPlan = field(init=False)
    view: bytes | ModelProto = b""
    runtime: Ceiling | None = None
    lacked: list[RuntimeLack] = field(default_factory=list)  # kernels, as the model came
    dips: dict[str, int] = field(default_factory=dict)  # how far down to go before the goal
    ir_limit: int | None = None  # what a named target takes, where the caller gave no number
    repaired: bool = False
    broken: Findings = field(init=False)  # the rules that were broken from the start
    came_at: int = 0  # the version of the default domain, 0 where it is not imported
    node_budget: int | None = None  # for nodes that steps may still write
    proved: bool = False  # the classes of the nodes show that the checker accepts the model
    sites: list[Site] = field(default_factory=list)  # what was modernized
    for_types: bool = False  # the result is looked at by inference and thrown away
    prefixes: list[str] = field(default_factory=list)  # that new names begin with

    def run(self) -> Report:
        bump = self.options.bump_model_version
        before = signature.signature(self.skeleton) if bump else None
        report = self._numbered(self._run())
        if before is not None and report.changed:
            notes = (*report.notes, signature.bumped(self.skeleton, before))
            report = dataclasses.replace(report, notes=notes)
        if self.options.stamp and report.changed:
            stamp.stamp(self.skeleton, report)
        return report

    def _numbered(self, report: Report) -> Report:
        """Gives the new names the numbers that any way to this result would give them."""
        if not self.prefixes or not report.changed:
            return report
        names = numbering.number(self.skeleton, self.prefixes)
        sites = [
            dataclasses.replace(one, value=names.get(one.value, one.value))
            for one in report.modernized
        ]
        return dataclasses.replace(report, modernized=tuple(sites))

    def _new_prefix(self, data: bytes) -> str:
        self.prefixes.append(unused_prefix(data))
        return self.prefixes[-1]

    def _run(self) -> Report:
        only_ir = dataclasses.replace(self.options, bump_model_version=False, stamp=False).only_ir
        if only_ir and not self.way.dip:
            return self._restamp()
        if self.options.checks:
            request.checkable(self.options.ir_version)
        self.open()
        self.node_budget = self.options.node_budget
        before, ir_before = self.document.imports.as_dict(), self.skeleton.ir_version
        nodes = _nodes(self.document)
        self.aim()
        self.notes += self._differing()
        self._write_early()
        late = self._leaves_late()
        if not late:
            self._leave()
        self._climb(self.way.climb)
        if self.way.dip:
            self.goal.setdefault("", max(request.present(self.document, "")))
            self.dips[""] = min(self.dips.get("", self.way.dip), self.way.dip)
        if self.dips:
            goal, self.goal = self.goal, self.dips
            self._go()
            self.goal = goal
            self._settle_nodes()
            self._reopen()
        self._go()
        if late:
            self._leave()
        if self.options.modernize:
            self._modernize()
        if self.steps or isinstance(self.options.target, Wanted):
            self._reform()
        if self.runtime is not None:
            self._choose(self.runtime)
        self._finish(moved=before != self.document.imports.as_dict())
        report = self._report(before, self.document.imports.as_dict(), ir_before)
        after = _nodes(self.document)
        return dataclasses.replace(report, nodes_before=nodes, nodes_after=after)

    def _differing(self) -> Iterable[str]:
        """Notes about nodes that a runtime answers otherwise than the specification."""
        return author_rules.differing(self.document, self.facts, self.adapters, self.goal)

    def _go(self) -> None:
        """Takes the model to the goal, by the plan."""
        if self.options.unknown_domains == "refuse" and (unknown := imports.unknown(self.document)):
            raise self.refused(unknown)
        self.plan = planner.of_document(self.document, self.adapters, self.goal)
        self._replace_overdue()
        for domain, start, to in self._route():
            self._cross(domain, start, to)

    def _leaves_late(self) -> bool:
        """Whether domains are left at the goal, where a later opset has shorter forms."""
        own, goal = max(request.present(self.document, ""), default=0), self.goal.get("", 0)
        if not 0 < own < goal or self.way.leaves_first or self.dips:
            return False
        left = leave.operators(self.document, self.adapters, self.options.domains, self.runtime)
        return bool(left) and leave.lowest(self.adapters, left) <= goal

    def _leave(self) -> None:
        """Writes the operators of domains that the result must not use in ai.onnx.

        A model whose opset lacks what is written is raised for it, and comes back afterwards.
        """
        allowed, row = self.options.domains, self.runtime
        request.known_domains(self.document, allowed or ())
        left = leave.operators(self.document, self.adapters, allowed, row)
        own = request.present(self.document, "")
        if allowed is not None and len(own) == 1:
            self.goal.setdefault("", own[0])
        self._climb(leave.lowest(self.adapters, left))
        while left:
            # what is written is planned when all of it is
            self.plan = planner.CrossingPlan(self.adapters)
            cross = self._stepper
            for step in leave.leave(self.document, left, cross):
                self.repaired = True
                self._done(step)
            self._settle_nodes()
            self._reopen()
            left = leave.operators(self.document, self.adapters, allowed, row)

    def _climb(self, low: int) -> None:
        """Raises a model below an opset for what is written there; it comes back afterwards."""
        own = request.present(self.document, "")
        if own and min(own) < low:
            self.goal.setdefault("", max(own))
            goal, self.goal = self.goal, {"": max(low, *own)}
            self._go()
            self.goal = goal
            self._settle_nodes()
            self._reopen()

    def _write_early(self) -> None:
        """Writes the older form of content before the steps, where the way wants it so."""
        if not self.way.early:
            return
        done = lower.lower(
            self.skeleton, self.store, self.document.fresh, self._ir_of_goal(), drop=(),
            rewrite=True, only=self.way.early, by_value=self.adapters.rules(ByValue),
        )  # fmt: skip
        if done:
            self.notes += done
            self.repaired = True
            self._reopen()

    def _ir_of_goal(self) -> int:
        """The IR version that is wanted, or that pairs with the target."""
        wanted = self.options.ir_version
        after = {**self.document.imports.as_dict(), **self.goal}
        return wanted if isinstance(wanted, int) else versions.ir_for(after)

    def others(self, refused: StepRefused | Refused | None = None) -> Iterator[Way]:
        """The ways that may avoid a refusal; without one, an approximation."""
        own = request.present(self.document, "")
        if isinstance(refused, Refused):  # by the IR version or a runtime, at the end of the steps
            return alternatives(self.way, (), (), dip=dip_for(refused, max(own, default=0)))
        features = needs.held(self.document, self.facts, self._ir_of_goal())
        refusals, inside = (refused.refusals, refused.functions) if refused else ((), ())
        climb = climb_for(refusals, self.adapters, min(own, default=0))
        late = self._leaves_late()
        return alternatives(self.way, inside, features, climb, leaves=late)

    def aim(self) -> None:
        """The versions to go for; a target by name depends on what the model has."""
        target = self.options.target
        if self.options.minimal:
            self.goal = {domain: low for domain, (low, _) in request.spans(self.document).items()}
        elif isinstance(target, Wanted):
            self._aim_at(target)
            present = {d: max(request.present(self.document, d)) for d in self.document.imports}
            raised = any(to > present.get(domain, to) for domain, to in self.goal.items())
            raised |= bool(target.at_least or target.exact)
            current = self.skeleton.ir_version
            aim = target.ir(self.options.ir_version, current, self.goal, raised=raised)
            if not isinstance(self.options.ir_version, int) and isinstance(aim, int):
                self.ir_limit = target.ceiling.ir if target.ceiling else None
            self.options = dataclasses.replace(self.options, ir_version=aim)
        else:
            self.goal = request.goal(self.document, target)
        for domain in self.goal:
            opening.known_versions(domain, request.present(self.document, domain))

    def _aim_at(self, target: Wanted) -> None:
        """The versions that a runtime reads, in view of the operators that the model has."""
        present = {d: max(request.present(self.document, d)) for d in self.document.imports}
        operators = {key for root in self.document.roots for key in root.index}
        self.goal = request.goal(self.document, target.goal(present, operators))
        self.dips = target.dips(self.goal, operators)
        row = target.ceiling
        if row is None:
            return
        self.runtime = row
        self.lacked = runtime.kernels(self.document, row, self.facts)
        self.notes += [row.remark] * bool(row.remark)
        for domain, floor in row.floors.items():
            if present.get(domain, floor) < floor == self.goal.get(domain):
                shown = domain or "ai.onnx"
                self.notes.append(
                    f"raised to {shown} {floor}: {row.shown} has no kernels for a lower version"
                )

    def open(self) -> None:
        """Validates the model and indexes it."""
        self._raise_old_ir()
        opening.header(self.skeleton)
        self._merge_imports()
        self._level()
        data = self.skeleton.SerializeToString(deterministic=True)
        prefix = self._new_prefix(data)
        numbers = itertools.count()
        for function in self.way.inlined:
            functions.inline_function(
                self.skeleton, function, lambda hint: f"{prefix}f{next(numbers)}_{hint}"
            )
        self.view = weights.checkable(self.skeleton, b"" if self.way.inlined else data)
        if self.options.checks:
            opening.references(self.skeleton, data)
        if weights.EXTERNAL_FIELD in data:
            opening.external_data(self.skeleton)
        looks = self.options.checks and not self.proved
        error = checker.whole(self.view, self.adapters, full=False) if looks else None
        if error is not None:
            self._repair()
            error = checker.lenient(self.view, self.adapters, full=False)
        self.document = Document(self.skeleton, prefix)
        self.document.has_written = bool(self.way.inlined)
        self.came_at = self.document.imports.get("") or 0
        if self.options.checks:
            rules.require_legal(self.document, self.adapters, error)
            self.broken = self._broken()
            self.notes += [
                f"the model broke this rule before the conversion: {one.text}"
                for one in self.broken.found
            ]
        self.facts = Facts(self.document, self.store, self.adapters, self._inferable)

    def _level(self) -> None:
        """Takes functions to the model's versions before one of them is written out into it."""
        own = imports.versions(self.skeleton)
        found = [imports.versions(one) for one in self.skeleton.functions if self.way.inlined]
        apart = {d: own[d] for one in found for d, v in one.items() if own.get(d, v) != v}
        if not apart:
            return
        request = Request(apart, ir_version="keep", check="none")
        level = Conversion(self.skeleton, self.store, request, self.adapters)
        try:
            level.run()
        except StepRefused as refused:
            raise level.refused(refused.refusals) from None
        self.steps += level.steps
        self.notes += level.notes
        self.prefixes += level.prefixes

    def _repair(self) -> None:
        """Puts right what a runtime does not mind."""
        done = repair.rejected(self.skeleton, self._typed)
        if order.repair(self.skeleton):
            done.append("the nodes were not sorted topologically; they were sorted")
        if done:
            self.repaired = True
            self.notes += done
            self.view = weights.checkable(self.skeleton)
        self.notes += repair.left_vague(self.skeleton)

    def _typed(self) -> ModelProto | None:
        """The model with the types that inference finds."""
        try:
            return safe_inference.infer(
                weights.checkable(self.skeleton), self.adapters, data_prop=True
            )
        except safe_inference.COMPLAINTS:
            return None

    def _raise_old_ir(self) -> None:
        notes = repair.before_opening(self.skeleton)
        self.notes += notes
        self.repaired |= bool(notes)

    def _inferable(self) -> bytes | ModelProto:
        """The model as it came, for inference; where that would say little, the same raised."""
        if self.for_types or not 0 < self.came_at < LOWEST_INFERABLE:
            return self.view
        copy, store = weights.carve_model(_as_model(self.view))
        raised = Conversion(
            copy, store, Request(LOWEST_INFERABLE, check=False), self.adapters, for_types=True
        )
        try:
            raised.run()
        except (StepRefused, Refused):
            return self.view
        return copy

    def _merge_imports(self) -> None:
        merged = imports.merge(self.skeleton)
        self.notes += merged
        self.repaired |= bool(merged)

    def _route(self) -> Iterator[tuple[str, int, int]]:
        """The boundaries to cross, in order; first what left the registry is replaced."""
        for domain in sorted(self.goal):
            target = self.goal[domain]
            for version in request.present(self.document, domain):
                met = version != target or self.options.domains is not None
                if met and self.adapters.replaced(self.document, domain, version, target):
                    yield domain, version, version
        # Downwards the default domain goes last: what others are rewritten into is richer above.
        for domain in sorted(self.goal, reverse=True):
            target = self.goal[domain]
            present = request.present(self.document, domain)
            for version in range(max(present, default=target), target, -1):
                yield domain, version, version - 1
            for version in range(min(present, default=target), target):
                yield domain, version, version + 1

    def _replace_overdue(self) -> None:
        """Nodes whose operator ended before the version that the model came at."""

        def cross(domain: str, start: int, to: int) -> Stepper:
            return self._stepper(domain, start, to)

        for domain, goal in sorted(self.goal.items()):
            for step in overdue.replace(self.document, self.adapters, domain, goal, cross):
                self._done(step)

    def _cross(self, domain: str, start: int, to: int) -> None:
        stepper = self._stepper(domain, start, to)
        stepper.goal, stepper.node_budget = self.goal[domain], self.node_budget
        step, self.node_budget = stepper.run(), stepper.node_budget
        self._done(step)
        if self.options.check == "full":
            self._check_fully(step)

    @property
    def stepper_of(self) -> type[Stepper]:
        """The class of the steps."""
        return Stepper

    def _stepper(self, domain: str, start: int, to: int) -> Stepper:
        stepper = self.stepper_of(
            self.document,
            self.facts,
            self.adapters,
            domain,
            start,
            to,
            self.options.allow_approximate,
            self.options.assumptions,
        )
        stepper.plan, stepper.checks = self.plan, self.options.checks
        return stepper

    def _done(self, step: Step) -> None:
        if self.options.checks:
            rules.after_step(self.document, step)
        step.touched.clear()
        self.steps.append(step)

    def _modernize(self) -> None:
        """Writes newer operators in place of the nodes that compute exactly what they do."""
        from opshift.convert.modernize import Modernizer, in_order

        for version in request.present(self.document, ""):
            for rule in in_order(self.adapters, version):
                stepper = Modernizer(
                    self.document, self.facts, self.adapters, "", version, version,
                    self.options.allow_approximate,
                ).of(rule)  # fmt: skip
                stepper.checks = self.options.checks
                if (row := self.runtime) is not None:
                    stepper.runs = functools.partial(_runs, row)
                step = stepper.run()
                if step.rewritten:
                    self._done(step)
                    self.sites += stepper.sites
                    self.repaired = True
                    self.document.sweep()

    def _reform(self) -> None:
        """Writes equal forms that more runtimes run."""
        for domain in sorted(self.goal):
            for version in sorted(request.present(self.document, domain)):
                stepper = self._stepper(domain, version, version)
                stepper.forms, stepper.goal = FORM, version
                step = stepper.run()
                if step.rewritten:
                    self._done(step)

    def _choose(self, row: Ceiling) -> None:
        """Writes other forms of the nodes that a runtime has no kernel for, if it runs these."""
        places = runtime.without_kernel(self.document, row, self.facts)
        for root, domain in dict.fromkeys((place[0].root, key[0]) for place, key, _ in places):
            version = root.imports.get(domain)
            if version is None:
                continue
            stepper = self._stepper(domain, version, version)
            stepper.forms, stepper.goal = ALTERNATIVE, version
            stepper.runs = functools.partial(_runs, row)
            mine = [place for place, key, _ in places if (place[0].root, key[0]) == (root, domain)]
            step = stepper.run_at(root, mine)
            if step.rewritten:
                self._done(step)

    def _finish(self, *, moved: bool) -> None:
        self._settle_nodes()
        if self.options.prunes:
            self.notes += imports.prune(self.document)
        elif self.options.domains is not None:
            self.notes += imports.prune(self.document, self.options.domains)
        self._settle_declarations()
        version = self.document.imports.get("") or LOWEST_INFERABLE
        if self.steps and version < LOWEST_INFERABLE and not self.for_types:
            declare.untyped(self.document, self.facts)
        if self.runtime is not None:
            self._suit(self.runtime)
        if self.steps or self.options.ir_version not in ("auto", "keep"):
            self._settle_ir(moved=moved)
        if self.options.checks and self.steps:
            self.notes += self._check_whole()

    def _settle_nodes(self) -> None:
        """Removes what the steps have left unread, and puts the nodes where they belong."""
        self.notes += settle.settle(self.document)
        self.document.sort()

    def _reopen(self) -> None:
        """Indexes the model as it is now, as if it had come like this."""
        self.notes += self.facts.believed()
        added = self.document.added_initializers
        prefix = self._new_prefix(self.skeleton.SerializeToString())
        self.view = weights.checkable(self.skeleton)
        self.document = Document(self.skeleton, prefix)
        self.document.added_initializers = added
        self.came_at = self.document.imports.get("") or 0
        self.facts = Facts(self.document, self.store, self.adapters, self._inferable)

    def _result(self) -> bytes | ModelProto:
        return weights.checkable(self.skeleton)

    def _suit(self, row: Ceiling) -> None:
        """Refuses what the runtime lacks, and notes what it does not run."""
        document = Document(self.skeleton, self.document.prefix)
        if blockers := runtime.lacking(document, row):
            raise self.refused([one.as_refusal(self.goal.get(one.domain, 1)) for one in blockers])
        facts = Facts(document, self.store, self.adapters, self._result)
        self.notes += map(str, runtime.forms(document, row, facts))
        left = runtime.kernels(document, row, facts)
        self.notes += map(str, left)
        says = {one.says for one in left}
        gone = [one for one in self.lacked if one.says not in says]
        self.notes += [
            f"{one}; the result has another form of the operator, which it runs" for one in gone
        ]
        self.notes += runtime.unknown(document, row)

    def _settle_declarations(self) -> None:
        """Corrects the declarations that the inputs contradict, and tells which were believed."""
        if not any(step.rewritten for step in self.steps):
            return
        if self.skeleton.graph.value_info and (wrong := self.facts.correct()):
            self.notes.append(
                f"the declared shapes of {wrong} values contradict the inputs and were corrected"
            )
        self.notes += self.facts.believed()

    def _settle_ir(self, *, moved: bool) -> None:
        """Gives the model its IR version, what is older in another form being rewritten first."""
        wanted, current = self.options.ir_version, self.skeleton.ir_version
        aim = needs.aim(current, self.document.imports.as_dict(), wanted, moved)
        lowers = aim < current or self.document.added_initializers
        self._lower(aim, rewrite=lowers and isinstance(wanted, int))
        found = needs.held(self.document, self.facts, aim) if lowers else []
        binding = [one for one in found if one.computes or self.options.strict_ir]
        limit = (self.ir_limit or wanted) if isinstance(wanted, int) else needs.NEWEST
        if any(feature.ir > limit for feature in binding):
            raise self._ir_refused(_too_new(self.skeleton, binding), aim)
        ir = max([aim, *(feature.ir for feature in binding)])
        self.skeleton.ir_version = ir
        self.notes += [
            f"the IR version stays at {feature.ir}, because of {feature.says}"
            for feature in binding
        ]
        self.notes += needs.skipped((f for f in found if f.ir > ir and f not in binding), ir)

    def _lower(self, aim: int, *, rewrite: bool) -> None:
        drop = [METADATA] * self.options.drop_metadata + [TRAINING] * self.options.drop_training
        inline = self.runtime is not None and not self.runtime.functions
        inline &= bool(self.skeleton.functions)
        if not (rewrite or drop or inline):
            return
        try:
            done = lower.lower(
                self.skeleton, self.store, self.document.fresh, aim, drop=drop, rewrite=rewrite,
                inline=inline, by_value=self.adapters.rules(ByValue),
            )  # fmt: skip
        except Refusal as refusal:
            raise self._ir_refused([refusal], aim) from None
        self.notes += done
        if done:
            self.repaired |= aim >= self.skeleton.ir_version
            self.document = Document(self.skeleton, self.document.prefix)
            self.facts = Facts(self.document, self.store, self.adapters, self._inferable)

    def _ir_refused(self, refusals: list[Refusal], aim: int) -> Refused:
        current = self.skeleton.ir_version
        nodes = [
            RefusedNode("the model", "IR", "", (current, aim), refusal.why, refusal.detail)
            for refusal in refusals
        ]
        nearest = {**self.document.imports.as_dict(), "IR": current}
        return Refused(nodes, nearest, {**self.goal, "IR": aim}, self._crossed())

    def _restamp(self) -> Report:
        """Another IR version and nothing else: what is not in the way is not looked at."""
        self._raise_old_ir()
        opening.header(self.skeleton)
        self._merge_imports()
        versions_before = Imports(self.skeleton.opset_import, "the model").as_dict()
        before, wanted = self.skeleton.ir_version, int(self.options.ir_version)
        drops = self.options.drop_metadata or self.options.drop_training
        if wanted >= before and not drops:
            self.skeleton.ir_version = wanted
            return self._report(versions_before, versions_before, before)
        prefix = self._new_prefix(self.skeleton.SerializeToString())
        self.document = Document(self.skeleton, prefix)
        self.facts = Facts(self.document, self.store, registry.Registry(), lambda: self.skeleton)
        self._settle_ir(moved=False)
        return self._report(versions_before, self.document.imports.as_dict(), before)

    def _crossed(self) -> tuple[StepReport, ...]:
        return tuple(_step_report(step) for step in self.steps)

    def refused(self, refusals: list[RefusedNode]) -> Refused:
        """The answer no, with how near the model has come."""
        near = self.document.imports.as_dict()
        ir = self.options.ir_version
        asked = self.goal or ({"IR": ir} if isinstance(ir, int) else near)
        plan = getattr(self, "plan", None)  # what is refused before there is a plan has none
        ways = dict.fromkeys(dead.way for dead in plan.dead) if plan is not None else ()
        return Refused(refusals, near, asked, self._crossed(), ways)

    def _check_fully(self, step: Step) -> None:
        """Asks onnx about the whole model after a step, in its present order of nodes."""
        error = checker.lenient(
            weights.checkable(checker.in_order(self.document)), self.adapters, full=True
        )
        if error is None or self._namesakes():
            return
        if checker.lenient(self.view, self.adapters, full=True):
            return
        if not checker.tolerates(self.document, self.adapters, error):
            raise AdapterBug(
                f"after {step.domain or 'ai.onnx'} {step.start}->{step.to} the checker rejects the"
                f" model: {error}"
            )

    def _check_whole(self) -> list[str]:
        """The full check; types that inference rejected before the conversion are only noted."""
        for one in self._broken().beyond(self.broken):
            raise AdapterBug(f"the converted model breaks a rule: {one.text}")
        result = weights.checkable(self.skeleton)
        full = self.options.check == "full"
        if not full and isinstance(result, bytes) and classes.proves(result, self.adapters):
            return []
        error = checker.lenient(result, self.adapters, full=True)
        if error is None:
            return []
        structure = checker.lenient(result, self.adapters, full=False)
        if structure is None and checker.lenient(self.view, self.adapters, full=True):
            return [f"type inference rejects the model, as it did before the conversion: {error}"]
        if checker.tolerates(self.document, self.adapters, error):
            return [f"the checker rejects an operator that the model came with: {error}"]
        if namesakes := self._namesakes():
            raise StepRefused([], namesakes)
        if told := diagnose.declarations(result, error, self.adapters):
            raise InvalidModel(told)
        raise AdapterBug(f"the checker rejects the converted model: {error}")

    def _broken(self) -> Findings:
        visit_all = self.options.check == "full"
        return rules.at_end(self.document, self.adapters, visit_all=visit_all)

    def _namesakes(self) -> frozenset[FunctionId]:
        """Functions called like an operator, for which inference takes them; better written out."""
        return frozenset(key for key in self.document.functions if schemas.history(*key[:2]))

    def _report(self, before: dict[str, int], after: dict[str, int], ir_before: int) -> Report:
        approximations = [text for step in self.steps for text in step.approximations]
        assumptions = [text for step in self.steps for text in step.assumptions]
        return Report(
            before,
            after,
            ir_before,
            self.skeleton.ir_version,
            self._crossed(),
            tuple(approximations),
            tuple("::".join(part for part in which if part) for which in self.way.inlined),
            tuple(self.notes),
            self.repaired,
            assumptions=tuple(assumptions),
            modernized=tuple(self.sites),
        )


def _runs(row: Ceiling, change: NodeChange) -> bool:
    """Whether a runtime has a kernel for each node of a change."""
    return runtime.runs(change.made.nodes, change.builder, row)


def _nodes(document: Document) -> int:
    """The nodes of all graphs and functions."""
    return sum(len(scope.proto.node) for scope in document.scopes())


def _as_model(view: bytes | ModelProto) -> ModelProto:
    return ModelProto.FromString(view) if isinstance(view, bytes) else view


def _step_report(step: Step) -> StepReport:
    work = tuple(
        Work(kind.op, kind.gives, kind.adapter, count, kind.id)
        for kind, count in sorted(
            step.rewritten.items(), key=lambda item: (item[0].op, item[0].gives)
        )
    )
    return StepReport(step.domain, step.start, step.to, work, dict(sorted(step.kept.items())))


def _too_new(model: ModelProto, features: Iterable[Feature]) -> list[Refusal]:
    return [Refusal(Why.IR_TOO_LOW, needs.sentence(model, feature)) for feature in features]
