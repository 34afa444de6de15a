# SPDX-License-Identifier: Apache-2.0
"""Builds the pages of conversions and plans: the report and the comparison of the models."""

from __future__ import annotations

import os
from dataclasses import replace
from typing import Any

from opshift.convert.cheapest_strategy import OpenSkeleton, convert, opener_of
from opshift.convert.request import Request
from opshift.errors import Refused
from opshift.look import accepts, drawn, planning
from opshift.look.plan import Plan
from opshift.look.rehearse import Skeleton, Source
from opshift.model import imports, walk
from opshift.model.bytes import documents
from opshift.model.bytes.source import Opened
from opshift.page.page_parts import Block, Notes, ReleaseAnswer, Releases, reasons
from opshift.page.sheet import Page, Section, facts_of
from opshift.protos import ModelProto
from opshift.records import dataclass
from opshift.text import Line, counted, size


@dataclass(frozen=True, slots=True)
class Models:
    """A model before and after a conversion; `after` is None if the conversion was refused."""

    before: OpenSkeleton
    after: OpenSkeleton | None

    @staticmethod
    def of(model: Source, result: Skeleton | None) -> Models:
        """Returns a model and the result of its conversion, both read-only."""
        return Models(opener_of(model), None if result is None else lambda: result)

    @staticmethod
    def converted(model: Source, request: Request) -> Models:
        """Converts a model and returns both models."""
        try:
            return Models.of(model, convert(opener_of(model), request)[:2])
        except Refused:
            return Models.of(model, None)


def planned(file: Opened, request: Request) -> tuple[Plan, Models]:
    """Returns the plan of a conversion, and the models for its page."""
    plan, result = planning.plan_with_result(file, request)
    return plan, Models.of(file, result)


def complete(page: Page, models: Models, model: Source, *more: Section) -> Page:
    """Returns a page with drawings, sizes and runtimes; the sections in `more` come last."""
    with documents.beside(model):
        before = models.before()
        after = before if models.after is None else models.after()
        facts = {**dict(_facts(before, after)), **dict(page.facts)}
        page = replace(page, title=page.title or title_of(model), facts=tuple(facts.items()))
        if models.after is None:
            note = "Before: the model as it is. After: converted for the release by opshift --for."
            return page.with_sections(_runtimes(accepts.within_reach(model), note), *more)
        first, *sections = page.sections
        runtimes = _runtimes(accepts.releases(models.before, models.after))
        drawings = _drawings(before[0], after[0])
        return replace(page, sections=(first, drawings, *sections, runtimes, *more))


def _runtimes(answers: list[ReleaseAnswer], note: str = "") -> Section:
    return Section("Runtimes that run the model", (Releases(answers), reasons(answers)), note)


def _facts(before: Skeleton, after: Skeleton) -> tuple[tuple[str, str], ...]:
    """Returns the versions, the numbers of nodes and the sizes of both models."""
    was, now = (imports.versions(model) for model, _ in (before, after))
    versions = (
        (domain or "Opset", was.get(domain, "none"), now.get(domain, "none"))
        for domain in sorted({*was, *now})
    )
    (old, _), (new, _) = before, after
    nodes = [f"{sum(1 for _ in walk.nodes(model)):,}" for model in (old, new)]
    sizes = [size(weights.size_with(model)) for model, weights in (before, after)]
    ir = ("IR version", old.ir_version, new.ir_version)
    return facts_of([*versions, ir, ("Nodes", nodes[0], nodes[1]), ("Bytes", sizes[0], sizes[1])])


def title_of(*models: Source) -> str:
    """Returns the folder and file of each model, or the graph's name for a model in memory."""
    return " and ".join(map(_title, models))


def _title(model: Source) -> str:
    if isinstance(model, ModelProto):
        return model.graph.name
    path = model.path if isinstance(model, Opened) else os.fspath(model)
    folder = os.path.basename(os.path.dirname(os.path.abspath(path)))
    return f"{folder}/{os.path.basename(path)}" if folder else path


def _drawings(before: ModelProto, after: ModelProto) -> Section:
    """Returns a section that draws each kind of rewritten place before and after."""
    drawings = drawn.forms(before, after)
    blocks: list[Block] = [form.pair() for form in drawings[: drawn.FORMS]]
    if len(drawings) > drawn.FORMS:
        undrawn = drawings[drawn.FORMS :]
        places = counted(sum(len(form.places) for form in undrawn), "place")
        text = f"{counted(len(undrawn), 'more form')} at {places} are not drawn."
        blocks.append(Notes((Line(text),)))
    total = counted(sum(len(form.places) for form in drawings), "place")
    return Section("Rewritten places", blocks, f"{total} in {counted(len(drawings), 'form')}.")


def of_result(report: Any, source: Any, model: Any) -> Page:
    """Returns the page of a conversion in memory, from the source model and the result."""
    source_model, result_model = _as_source(source), _as_source(model)
    return complete(
        report.page(), Models(opener_of(source_model), opener_of(result_model)), source_model
    )


def _as_source(model: Any) -> ModelProto | str | os.PathLike[str]:
    """Returns a model as a ModelProto or a path."""
    if isinstance(model, (ModelProto, str, os.PathLike)):
        return model
    if isinstance(proto := getattr(model, "model_proto", None), ModelProto):
        return proto
    import onnx_ir

    model_proto: ModelProto = onnx_ir.to_proto(model)
    return model_proto
