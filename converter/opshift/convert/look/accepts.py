# SPDX-License-Identifier: Apache-2.0
"""Whether runtimes load and run a model, before and after a conversion."""

from __future__ import annotations

import dataclasses
import json
import os
from collections.abc import Hashable, Iterable, Iterator
from typing import Any

from opshift.author import registry
from opshift.author.facts import Facts
from opshift.author.registry import Registry
from opshift.convert import aim
from opshift.convert.api import Carve, carve_of
from opshift.convert.attempt import Conversion
from opshift.convert.blockers import Outgrown
from opshift.convert.legal import diagnose, rules, runtime
from opshift.convert.look.rehearse import rehearse
from opshift.convert.request import NODE_BUDGET, Request
from opshift.errors import OpshiftError
from opshift.model import imports, weights
from opshift.model.bytes import documents
from opshift.model.bytes.source import Opened
from opshift.model.document import Document
from opshift.opsets import targets
from opshift.opsets.targets import Ceiling
from opshift.opsets.wanted import Wanted
from opshift.page.page_parts import RuntimeRelease
from opshift.protos import ModelProto, isolation
from opshift.records import dataclass
from opshift.report import SCHEMA_VERSION
from opshift.text import Line, Role, Shown, table

Source = ModelProto | str | os.PathLike[str] | Opened


@dataclass(frozen=True, slots=True, repr=False)
class Acceptance(Shown):
    """Whether a consumer can use a model as it is, with every reason.

    Attributes
    ----------
    target : str
        The consumer: a runtime, or the versions that a program reads.
    reasons : tuple of str
        Every known reason why not.
    unknown : tuple of str
        The questions about the consumer that are not answered.
    conditions : tuple of str
        Versions above those of the consumer at which no operator of the model changed.
    remarks : tuple of str
        What was assumed.
    """

    target: str
    reasons: tuple[str, ...]
    unknown: tuple[str, ...] = ()
    remarks: tuple[str, ...] = ()
    conditions: tuple[str, ...] = ()

    @property
    def answer(self) -> str:
        """`"yes"`, `"no"`, `"may"` or `"not known"`."""
        if self.reasons:
            return "no"
        return "not known" if self.unknown else "may" if self.conditions else "yes"

    @property
    def accepted(self) -> bool:
        """Whether the answer is yes."""
        return self.answer == "yes"

    def as_dict(self) -> dict[str, Any]:
        """The JSON form that `opshift schema` describes."""
        own = {
            "schema_version": SCHEMA_VERSION, "kind": "accepts", "answer": self.answer,
            "accepted": self.accepted,
        }  # fmt: skip
        return {**own, **dataclasses.asdict(self)}

    def to_json(self) -> str:
        return json.dumps(self.as_dict(), indent=2, sort_keys=True)

    def lines(self) -> Iterator[Line]:
        """The answer, every reason against, what is not known and what was assumed."""
        text, role = _ANSWERS[self.answer]
        yield Line(text.format(self.target), role)
        yield from (Line(f"  {reason}") for reason in self.reasons)
        yield from (Line(f"  not known: {text}", Role.CAUTION) for text in self.unknown)
        yield from (Line(f"  {text}", Role.CAUTION) for text in self.conditions)
        yield from (Line(f"  note: {text}") for text in self.remarks)


_ANSWERS = {
    "yes": ("Yes: {} accepts the model.", Role.GOOD),
    "no": ("No: {} does not accept the model.", Role.BAD),
    "may": ("May: {} may accept the model.", Role.CAUTION),
    "not known": ("Not known: whether {} accepts the model.", Role.CAUTION),
}


@dataclass(frozen=True, slots=True)
class Fit:
    """One release of a runtime and a model: as it is, and converted for it."""

    target: str
    now: bool
    after: bool | None  # None: the model grows too large to look
    reasons: tuple[str, ...]
    blockers: tuple[str, ...]
    remarks: tuple[str, ...] = ()  # what was assumed to find the release

    @property
    def first(self) -> str:
        """The first reason against it, and whether this is about the model as it is."""
        when, told = ("a conversion", self.blockers) if self.blockers else ("now", self.reasons)
        more = f" (and {len(told) - 1} more)" if len(told) > 1 else ""
        return f"{when}: {told[0]}{more}" if told else ""


@dataclass(frozen=True, slots=True, repr=False)
class RuntimeSurvey(Shown):
    """In which runtimes a model runs."""

    fits: tuple[Fit, ...]

    def as_dict(self) -> dict[str, Any]:
        """The JSON form that `opshift schema` describes."""
        own = {"schema_version": SCHEMA_VERSION, "kind": "survey"}
        return {**own, **dataclasses.asdict(self)}

    def lines(self) -> Iterator[Line]:
        """One row for each release, and what was assumed to find them."""
        words = {True: "yes", False: "no", None: "not known"}
        rows = ((fit.target, words[fit.now], words[fit.after], fit.first) for fit in self.fits)
        header = ("target", "runs now", "after conversion", "what blocks it")
        yield from table(header, rows)
        assumed = dict.fromkeys(text for fit in self.fits for text in fit.remarks)
        yield from (Line(f"note: {text}") for text in assumed)


def accepts(model: Source, target: str, *, isolate: bool | None = None) -> Acceptance:
    """Ask whether a runtime runs a model as it is. Nothing is converted.

    Parameters
    ----------
    model : ModelProto or path
        The model.
    target : str
        The runtime, such as `"onnxruntime==1.10"`.
    isolate : bool, optional
        Call the C++ code of onnx in a child process, so that no model ends or hangs this process.
        By default the environment variable OPSHIFT_ISOLATE decides.

    Returns
    -------
    Acceptance
        `.answer`, `.accepted`, and every known reason why not.

    Raises
    ------
    InvalidModel, BadTarget, TypeError, OSError
        As `opshift.convert_version`.

    Examples
    --------
    >>> import opshift
    >>> opshift.accepts("model.onnx", "onnxruntime==1.10").answer
    'yes'
    """
    row = targets.find(target)
    with documents.beside(model), isolation.isolated(isolate):
        carve = carve_of(model)
        require_valid(carve)
        return _accepted(*_opened(carve, registry.default()), row)


def survey(
    model: Source, names: Iterable[str] = (), *, isolate: bool | None = None
) -> RuntimeSurvey:
    """Each of the named runtimes or releases (all but onnx itself), now and after a conversion."""
    with documents.beside(model), isolation.isolated(isolate):
        return _survey(model, names)


def _survey(model: Source, names: Iterable[str]) -> RuntimeSurvey:
    carve = carve_of(model)
    require_valid(carve)
    opened = _opened(carve, registry.default())
    known = KnownResults(opened[0])
    fits = []
    for row in _rows(names):
        now = _accepted(*opened, row)
        after, blockers = _after(model, row, known)
        fits.append(Fit(row.shown, not now.reasons, after, now.reasons, blockers, now.remarks))
    return RuntimeSurvey(tuple(fits))


class KnownResults:
    """The results for some releases, which show that others have a result, too.

    At equal versions, two results differ only in forms, and no form is a reason for a refusal. A
    refusal names the runtime, so it is not used for another one.
    """

    def __init__(self, document: Document) -> None:
        self.document = document
        self.results: dict[Hashable, list[Document]] = {}

    def read_by(self, row: Ceiling) -> bool:
        """Whether a release reads all operators of a result at the versions for it."""
        there = self.results.get(self._versions(row), ())
        return any(not runtime.stamps(one, row) and not _not_read(one, row) for one in there)

    def add(self, row: Ceiling, result: ModelProto) -> None:
        """Keeps the result for a release."""
        self.results.setdefault(self._versions(row), []).append(Document(result))

    def _versions(self, row: Ceiling) -> Hashable:
        """The versions for a release, and whether it runs functions."""
        goal, dips = aim.versions_for(self.document, Wanted(row))
        return *sorted(goal.items()), None, *sorted(dips.items()), row.functions


def _rows(names: Iterable[str]) -> list[Ceiling]:
    """The releases that are meant by names; without a name, all but those of onnx itself."""
    return [row for name in tuple(names) or (targets.ALL,) for row in targets.rows(name)]


def releases(before: Carve, after: Carve) -> list[RuntimeRelease]:
    """Which releases of runtimes run one model, and which run the other, as they are."""
    adapters = registry.default()
    first, second = _opened(before, adapters), _opened(after, adapters)
    found = []
    for row in _rows(()):
        now, then = _accepted(*first, row), _accepted(*second, row)
        why = next(iter(then.reasons or now.reasons), "")
        found.append(RuntimeRelease(*_names(row), not now.reasons, not then.reasons, why))
    return found


def within_reach(model: Source) -> list[RuntimeRelease]:
    """Which releases of runtimes run a model now, and which after a conversion for them."""
    return [
        RuntimeRelease(*_names(row), fit.now, fit.after, fit.first)
        for row, fit in zip(_rows(()), survey(model).fits, strict=True)
    ]


def _names(row: Ceiling) -> tuple[str, str]:
    return row.name, row.versions


@diagnose.protobuf_errors()
def require_valid(carve: Carve) -> None:
    """Raises InvalidModel for a model that no conversion accepts."""
    opened = Conversion(*carve(), Request(), registry.default())
    with diagnose.on_the_model(opened):
        opened.open()


@diagnose.protobuf_errors()
def _opened(carve: Carve, adapters: Registry) -> tuple[Document, Facts, runtime.Seen]:
    skeleton, store = carve()
    imports.merge(skeleton)
    document = rules.open_for_inference(skeleton, adapters)
    view = weights.checkable(skeleton)
    return document, Facts(document, store, adapters, lambda: view), {}


def _accepted(document: Document, facts: Facts, seen: runtime.Seen, row: Ceiling) -> Acceptance:
    found = [
        *_not_read(document, row), *runtime.forms(document, row, facts),
        *runtime.kernels(document, row, facts, seen),
    ]  # fmt: skip
    reasons = (*runtime.stamps(document, row), *map(str, found))
    remarks = (row.remark,) if row.remark else ()
    return Acceptance(row.shown, reasons, tuple(runtime.unknown(document, row)), remarks)


def _not_read(document: Document, row: Ceiling) -> list[runtime.RuntimeLack]:
    """What a runtime does not read, in whichever form."""
    return [*runtime.below_floor(document, row), *runtime.lacking(document, row)]


def _after(model: Source, row: Ceiling, known: KnownResults) -> tuple[bool | None, tuple[str, ...]]:
    """Whether the model runs when it is converted for a runtime, and what blocks this."""
    options = Request(Wanted(row), node_budget=NODE_BUDGET)
    try:
        if known.read_by(row):
            return True, ()
        told = rehearse(carve_of(model), options)
    except Outgrown:
        return None, ("the model grows too large; it was not looked at further",)
    except OpshiftError as error:
        return False, (str(error),)
    if told.result is not None:
        known.add(row, told.result[0])
    return not told.refusals, tuple(map(str, told.refusals))
