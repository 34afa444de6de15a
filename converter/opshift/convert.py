"""The loop: carve, step and check boundary by boundary, then put the weights back."""

from __future__ import annotations

import contextlib
import dataclasses
import gc
import itertools
import os
import sys
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

import onnx
from onnx import ModelProto

from opshift import (
    blame,
    check,
    comparison,
    imports,
    inline,
    ir,
    ir_lowering,
    ir_places,
    order,
    registry,
    restamp,
    schemas,
    spec,
    targets,
    validate,
    versions,
    weights,
)
from opshift.changes import Step
from opshift.errors import (
    AdapterBug,
    BadTarget,
    InvalidModel,
    Refusal,
    Refused,
    RefusedNode,
    Why,
)
from opshift.facts import Facts
from opshift.options import Options, Target
from opshift.report import Report, StepReport, Work
from opshift.scope import Document, FunctionId, Imports, Root
from opshift.step import Stepper, StepRefused
from opshift.targets import Wanted
from opshift.weights import Weights

if TYPE_CHECKING:
    import onnx_ir

Source: TypeAlias = "ModelProto | str | os.PathLike[str] | onnx_ir.Model"
Carve: TypeAlias = Callable[[], tuple[ModelProto, Weights]]

TYPED = 6  # below, some forty operators have no inference; names mean the same on both sides


@blame.unreadable_text()
def convert_version(
    model: Source,
    target: Target | str | None = None,
    *,
    ir_version: str | int = "auto",
    inplace: bool = False,
    allow_approximate: bool = False,
    check: bool = True,
    drop_metadata: bool = False,
    drop_training: bool = False,
    at_least: Mapping[str, int] | int | None = None,
    prune_imports: bool | None = None,
    unknown_domains: str = "keep",
    bump_model_version: bool = False,
    minimal: bool = False,
) -> Any:
    """The model at `target`: an int for the default domain, versions by domain, or a runtime.

    Without a target only the IR version changes. A ModelProto or an onnx_ir.Model comes back as
    what it was; a path as a loaded ModelProto.
    """
    options = Options(
        targets.wanted(target, at_least), ir_version, allow_approximate, check, drop_metadata,
        drop_training, prune_imports, unknown_domains, bump_model_version, minimal,
    )  # fmt: skip
    if isinstance(model, (str, os.PathLike)):
        return _convert_proto(_load(model), options, str(Path(model).parent), inplace=True)
    if isinstance(model, ModelProto):
        return _convert_proto(model, options, "", inplace=inplace)
    return _convert_onnx_ir(model, options)


def convert_file(
    src: str | os.PathLike[str],
    dst: str | os.PathLike[str],
    target: Target | str | None = None,
    *,
    ir_version: str | int = "auto",
    allow_approximate: bool = False,
    check: bool = True,
    drop_metadata: bool = False,
    drop_training: bool = False,
    at_least: Mapping[str, int] | int | None = None,
    prune_imports: bool | None = None,
    unknown_domains: str = "keep",
    bump_model_version: bool = False,
    minimal: bool = False,
    external: str = "keep",
) -> Report:
    """Converts a file into another (or itself), its weights moved by the kernel."""
    options = Options(
        targets.wanted(target, at_least), ir_version, allow_approximate, check, drop_metadata,
        drop_training, prune_imports, unknown_domains, bump_model_version, minimal,
    )  # fmt: skip
    return convert_path(src, dst, options, external)


@blame.unreadable_text()
def convert_path(
    src: str | os.PathLike[str], dst: str | os.PathLike[str], options: Options, external: str
) -> Report:
    """Converts a file into another, or itself."""
    if (stamp := restamp.look(src, options, dst, external)) is not None:
        stamp.write(dst)
        return stamp.report
    skeleton, store, report = convert(lambda: weights.carve_file(src), options)
    if writes(report, src, dst):
        weights.splice(skeleton, store, dst, external=external)
    return report


def writes(report: Report, src: str | os.PathLike[str], dst: str | os.PathLike[str]) -> bool:
    """Whether there is anything to write: a file that stays as it is is left alone."""
    return report.changed or not _same_file(src, dst)


def _as_model(view: bytes | ModelProto) -> ModelProto:
    return ModelProto.FromString(view) if isinstance(view, bytes) else view


def _same_file(src: str | os.PathLike[str], dst: str | os.PathLike[str]) -> bool:
    return os.path.exists(dst) and os.path.samefile(src, dst)


def _load(path: str | os.PathLike[str]) -> ModelProto:
    weights.carve_file(path)  # says what is wrong with the file, if the file is
    try:
        return onnx.load(path)
    except Exception as error:
        raise InvalidModel(f"{os.fspath(path)!r} cannot be loaded: {error}") from error


def _convert_proto(
    model: ModelProto, options: Options, base_dir: str, *, inplace: bool
) -> ModelProto:
    skeleton, store, report = convert(lambda: weights.carve_model(model, base_dir), options)
    if inplace:
        if report.changed:
            weights.transplant(skeleton, store, model)
        return model
    weights.fill(skeleton, store)
    return skeleton


def _convert_onnx_ir(model: Any, options: Options) -> Any:
    onnx_ir = sys.modules.get("onnx_ir")  # whoever has such a model has imported it
    if onnx_ir is None or not isinstance(model, onnx_ir.Model):
        raise TypeError(
            f"model is a ModelProto, a path or an onnx_ir.Model, not {type(model).__name__}"
        )
    proto = onnx_ir.to_proto(model)
    return onnx_ir.from_proto(_convert_proto(proto, options, "", inplace=True))


@contextlib.contextmanager
def _collector_paused() -> Iterator[None]:
    """A conversion makes many objects and no cycles: to look for those is a sixth of its time."""
    running = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if running:
            gc.enable()


@_collector_paused()  # around the whole call: what it made is gone when collecting begins again
def convert(carve: Carve, options: Options) -> tuple[ModelProto, Weights, Report]:
    """Converts a skeleton; functions are written out only when an adapter needs it."""
    ir.check_wanted(options.ir_version)
    if options.unknown_domains not in ("keep", "refuse"):
        raise BadTarget(f"unknown_domains is 'keep' or 'refuse', not {options.unknown_domains!r}")
    if options.minimal and options.target not in (None, {}):
        raise BadTarget("minimal is a target of its own; leave the other one out")
    if options.prune_imports is None:
        named = isinstance(options.target, Wanted) and options.target.ceiling is not None
        options = dataclasses.replace(options, prune_imports=named)
    inlined: list[FunctionId] = []
    while True:
        skeleton, store = carve()
        attempt = Attempt(skeleton, store, options, tuple(inlined))
        try:
            with blame.on_the_model(attempt):
                return skeleton, store, attempt.run()
        except StepRefused as refused:
            more = refused.functions - set(inlined)
            if not more:
                raise attempt.refused(refused.refusals) from None
            inlined += sorted(more)


@dataclass(slots=True)
class Attempt:
    """One try to take a skeleton to its target, in place."""

    skeleton: ModelProto
    store: Weights
    options: Options
    inlined: tuple[FunctionId, ...] = ()
    steps: list[Step] = field(default_factory=list)
    goal: dict[str, int] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)
    document: Document = field(init=False)
    facts: Facts = field(init=False)
    view: bytes | ModelProto = b""
    ir_limit: int | None = None  # what a named target takes, where the caller gave no number
    repaired: bool = False
    unenforced: list[str] = field(default_factory=list)  # rules that were broken from the start
    came_at: int = 0  # the version of the default domain, 0 where it is not imported
    for_types: bool = False  # the result is looked at by inference and thrown away

    def run(self) -> Report:
        bump = self.options.bump_model_version
        before = comparison.signature(self.skeleton) if bump else None
        report = self._run()
        if before is not None and report.changed:
            notes = (*report.notes, comparison.bumped(self.skeleton, before))
            report = dataclasses.replace(report, notes=notes)
        return report

    def _run(self) -> Report:
        if dataclasses.replace(self.options, bump_model_version=False).only_ir:
            return self._restamp()
        adapters = registry.default()
        self.open(adapters)
        before, ir_before = self.document.imports.as_dict(), self.skeleton.ir_version
        self.aim()
        for domain, start, to in self._route(adapters):
            self._cross(adapters, domain, start, to)
        self._finish(went_down=_went_down(before, self.document.imports.as_dict()))
        return self._report(before, self.document.imports.as_dict(), ir_before)

    def aim(self) -> None:
        """The versions to go for; a target by name depends on what the model has."""
        target = self.options.target
        if self.options.unknown_domains == "refuse":
            self.goal = self.document.imports.as_dict()
            if unknown := imports.unknown(self.document):
                raise self.refused(unknown)
        if self.options.minimal:
            self.goal = {domain: low for domain, (low, _) in spans(self.document).items()}
        elif isinstance(target, Wanted):
            present = {d: max(_versions(self.document, d)) for d in self.document.imports}
            self.goal = goal(self.document, target.goal(present))
            aim = target.ir(self.options.ir_version, self.skeleton.ir_version, self.goal)
            if not isinstance(self.options.ir_version, int) and isinstance(aim, int):
                self.ir_limit = target.ceiling.ir if target.ceiling else None
            self.options = dataclasses.replace(self.options, ir_version=aim)
        else:
            self.goal = goal(self.document, target)
        for domain in self.goal:
            validate.known_versions(domain, _versions(self.document, domain))

    def open(self, adapters: registry.Registry) -> None:
        """Validates the model and indexes it."""
        validate.header(self.skeleton)
        self._merge_imports()
        data = self.skeleton.SerializeToString(deterministic=True)
        prefix = _unused_prefix(data)
        numbers = itertools.count()
        for function in self.inlined:
            inline.inline_function(
                self.skeleton, function, lambda hint: f"{prefix}f{next(numbers)}_{hint}"
            )
        self.view = weights.checkable(self.skeleton, b"" if self.inlined else data)
        if self.options.check:
            validate.references(self.skeleton, data)
        if weights.EXTERNAL_FIELD in data:
            validate.external_data(self.skeleton)
        error = check.whole(self.view, full=False) if self.options.check else None
        if error is not None and order.repair(self.skeleton):
            self.repaired = True
            self.notes.append("the nodes were not in an order that runs; they have been sorted")
            self.view = weights.checkable(self.skeleton)
            error = check.whole(self.view, full=False)
        self.document = Document(self.skeleton, prefix)
        self.came_at = self.document.imports.get("") or 0
        if self.options.check:
            validate.whole(self.document, adapters, error)
            self.unenforced = spec.unenforced(self.document)
            self.notes += [f"as it came: {text}" for text in self.unenforced]
        self.facts = Facts(self.document, self.store, adapters.folds, self._inferable)

    def _inferable(self) -> bytes | ModelProto:
        """The model as it came, for inference; where that would say little, the same raised."""
        if self.for_types or not 0 < self.came_at < TYPED:
            return self.view
        copy, store = weights.carve_model(_as_model(self.view))
        raised = Attempt(copy, store, Options(TYPED, check=False), for_types=True)
        try:
            raised.run()
        except (StepRefused, Refused):
            return self.view
        return copy

    def _merge_imports(self) -> None:
        merged = imports.merge(self.skeleton)
        self.notes += merged
        self.repaired |= bool(merged)

    def _route(self, adapters: registry.Registry) -> Iterator[tuple[str, int, int]]:
        """The boundaries to cross, in order; first what left the registry is replaced."""
        for domain in sorted(self.goal):
            target = self.goal[domain]
            for version in _versions(self.document, domain):
                if version != target and adapters.replaced(self.document, domain, version, target):
                    yield domain, version, version
        # Downwards the default domain goes last: what others are rewritten into is richer above.
        for domain in sorted(self.goal, reverse=True):
            target = self.goal[domain]
            present = _versions(self.document, domain)
            for version in range(max(present, default=target), target, -1):
                yield domain, version, version - 1
            for version in range(min(present, default=target), target):
                yield domain, version, version + 1

    def _cross(self, adapters: registry.Registry, domain: str, start: int, to: int) -> None:
        stepper = Stepper(
            self.document, self.facts, adapters, domain, start, to, self.options.allow_approximate
        )
        stepper.goal = self.goal[domain]
        step = stepper.run()
        if self.options.check:
            check.after_step(self.document, step)
        step.touched.clear()
        self.steps.append(step)

    def _finish(self, *, went_down: bool) -> None:
        self.document.sort()
        self.document.sweep(self.facts.uses)
        self.document.sort()
        if self.options.prune_imports:
            self.notes += imports.prune(self.document)
        if self.steps or self.options.ir_version not in ("auto", "keep"):
            self._settle_ir(went_down=went_down)
        if self.options.check and self.steps:
            self.notes += self._check_whole()

    def _settle_ir(self, *, went_down: bool) -> None:
        """Gives the model its IR version, what is older in another form being rewritten first."""
        wanted, current = self.options.ir_version, self.skeleton.ir_version
        aim = ir.aim(current, self.document.imports.as_dict(), wanted, went_down)
        if isinstance(wanted, int) and (aim < current or self.document.added_initializers):
            self._lower(aim)
        held = ir.holding(self.document, self.facts, aim)
        limit = (self.ir_limit or wanted) if isinstance(wanted, int) else ir.NEWEST
        if any(need.ir > limit for need in held):
            told = [ir_places.sentence(self.skeleton, need) for need in held]
            raise self._ir_refused([Refusal(Why.IR_TOO_LOW, text) for text in told], aim)
        self.skeleton.ir_version = max([aim, *(need.ir for need in held)])
        self.notes += [f"IR stays at {need.ir}: {need.reason}" for need in held]

    def _lower(self, aim: int) -> None:
        try:
            done = ir_lowering.lower(
                self.skeleton, self.store, self.document.fresh, aim,
                drop_metadata=self.options.drop_metadata, drop_training=self.options.drop_training,
            )  # fmt: skip
        except Refusal as refusal:
            raise self._ir_refused([refusal], aim) from None
        self.notes += done
        if done:
            self.document = Document(self.skeleton, self.document.prefix)
            self.facts = Facts(self.document, self.store, self.facts.folds, self._inferable)

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
        validate.header(self.skeleton)
        self._merge_imports()
        versions_before = Imports(self.skeleton.opset_import, "the model").as_dict()
        before, wanted = self.skeleton.ir_version, int(self.options.ir_version)
        if wanted >= before:
            self.skeleton.ir_version = wanted
            return self._report(versions_before, versions_before, before)
        prefix = _unused_prefix(self.skeleton.SerializeToString())
        self.document = Document(self.skeleton, prefix)
        self.facts = Facts(self.document, self.store, {}, lambda: self.skeleton)
        self._settle_ir(went_down=False)
        return self._report(versions_before, self.document.imports.as_dict(), before)

    def _crossed(self) -> tuple[StepReport, ...]:
        return tuple(_step_report(step) for step in self.steps)

    def refused(self, refusals: list[RefusedNode]) -> Refused:
        """The answer no, with how near the model has come."""
        return Refused(refusals, self.document.imports.as_dict(), self.goal, self._crossed())

    def _check_whole(self) -> list[str]:
        """The full check; types that inference rejected before the conversion are only noted."""
        for text in spec.unenforced(self.document):
            if text not in self.unenforced:
                raise AdapterBug(f"the converted model breaks a rule: {text}")
        result = weights.checkable(self.skeleton)
        error = check.whole(result, full=True)
        if error is None:
            return []
        if check.whole(result, full=False) is None and check.whole(self.view, full=True):
            return [f"type inference rejects the model, as it did before the conversion: {error}"]
        if validate.tolerated(self.document, registry.default(), error):
            return [f"the checker rejects an operator that the model came with: {error}"]
        if told := blame.declarations(result, error):
            raise InvalidModel(told)
        raise AdapterBug(f"the checker rejects the converted model: {error}")

    def _report(self, before: dict[str, int], after: dict[str, int], ir_before: int) -> Report:
        approximations = [text for step in self.steps for text in step.approximations]
        return Report(
            before,
            after,
            ir_before,
            self.skeleton.ir_version,
            self._crossed(),
            tuple(approximations),
            tuple("::".join(part for part in which if part) for which in self.inlined),
            tuple(self.notes),
            self.repaired,
        )


def _step_report(step: Step) -> StepReport:
    work = tuple(
        Work(kind.op, kind.gives, kind.adapter, count)
        for kind, count in sorted(
            step.rewritten.items(), key=lambda item: (item[0].op, item[0].gives)
        )
    )
    return StepReport(step.domain, step.start, step.to, work, dict(sorted(step.kept.items())))


def _versions(document: Document, domain: str) -> list[int]:
    """The versions of a domain that the model and its functions import."""
    found = {
        version for root in document.roots if (version := root.imports.get(domain)) is not None
    }
    return sorted(found)


def spans(document: Document) -> dict[str, tuple[int, int]]:
    """For each known domain, the versions at which every node means what it means now."""
    found: dict[str, tuple[int, int]] = {}
    for root in document.roots:
        for domain in root.imports:
            newest = schemas.latest(domain)
            if newest is not None:
                low, high = found.get(domain, (1, newest))
                own = _span(root, domain, newest)
                found[domain] = max(low, own[0]), min(high, own[1])
    return found


def _span(root: Root, domain: str, newest: int) -> tuple[int, int]:
    version = root.imports[domain]
    low, high = 1, newest
    for key in root.index:
        if key[0] == domain:
            begins = [schema.since for schema in schemas.history(*key)]
            low = max([low, *(since for since in begins if since <= version)])
            high = min([high, *(since - 1 for since in begins if since > version)])
    return low, high


def _went_down(before: Mapping[str, int], after: Mapping[str, int]) -> bool:
    return any(after[domain] < version for domain, version in before.items())


def _unused_prefix(text: bytes) -> str:
    """A beginning for new names that occurs nowhere in the model."""
    prefix, number = "opshift_", 0
    while prefix.encode() in text:
        number += 1
        prefix = f"opshift{number}_"
    return prefix


def goal(document: Document, target: int | Mapping[str, int]) -> dict[str, int]:
    """The wanted version of each domain, or a BadTarget that says what is wrong with it."""
    wanted = dict(target) if isinstance(target, Mapping) else {"": target}
    found: dict[str, int] = {}
    for raw, version in wanted.items():
        domain = schemas.normal(raw)
        shown = domain or "ai.onnx"
        if isinstance(version, bool) or not isinstance(version, int):
            raise BadTarget(f"the target of {shown} is a whole number, not {version!r}")
        if domain in found and found[domain] != version:
            raise BadTarget(f"{shown} is asked for at {found[domain]} and at {version}")
        _in_range(domain, shown, version)
        if not any(domain in root.imports for root in document.roots):
            if domain or isinstance(target, Mapping):
                raise BadTarget(f"the model does not import {shown}; leave it out of the target")
            continue
        found[domain] = version
    return found


def _in_range(domain: str, shown: str, version: int) -> None:
    newest = schemas.latest(domain)
    if newest is None:
        raise BadTarget(
            f"nothing is known about the versions of {shown!r}; install the package that describes"
            " it or leave it out of the target"
        )
    if version < 1:
        raise BadTarget(f"versions of {shown} begin at 1, not {version}")
    if version > newest and domain not in versions.DOMAINS:
        raise BadTarget(f"{shown} {version} is above {newest}, the newest that is described")
    if version > newest:
        release = versions.release_of(domain, version)
        brings = f"onnx {release.name} brings it" if release else "no known release of onnx has it"
        short = newest < (schemas.known().newest(domain) or 0)  # onnx, not the database
        who = f"the installed onnx {onnx.__version__}" if short else "opshift's operator database"
        raise BadTarget(
            f"{shown} {version} is above {newest}, the newest that {who} knows; {brings}"
        )


__all__ = ["Attempt", "Options", "Target", "convert", "convert_file", "convert_version"]
