# SPDX-License-Identifier: Apache-2.0
"""Converts one model of a batch: checks for an earlier result, converts, and writes files."""

from __future__ import annotations

import contextlib
import os
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from typing import Any, Protocol

from opshift.convert.cheapest_strategy import OpenSkeleton, convert
from opshift.convert.request import Request
from opshift.convert.requests import input_sizes
from opshift.errors import BadTarget, InvalidModel, Refused
from opshift.model import weights
from opshift.model.bytes import documents
from opshift.model.weights import Weights
from opshift.opsets import schemas
from opshift.protos import ModelProto
from opshift.records import dataclass
from opshift.report import Report
from opshift.text import cause_of, show_versions
from opshift.zoo import files, scratch
from opshift.zoo.files import ConvertedModel, FileResult, LocalModel
from opshift.zoo.key import Key, found_beside
from opshift.zoo.layout import Layout
from opshift.zoo.marks import Mark
from opshift.zoo.outcome import Fate, Outcome, Runs, Stamp, Unpublished, blockers_of, shortened
from opshift.zoo.recipe import Recipe
from opshift.zoo.stores.stores import is_url


@dataclass(frozen=True, slots=True)
class Item:
    """One model, and the paths of its result and mark; an empty output means a dry run."""

    name: str
    source: str
    output: str = ""
    mark: str = ""
    creates: bool = True  # whether the store of the result supports create-only writes
    size: int = 0  # an estimate in bytes, with data files


NO_LAYOUT = Layout()


class Destination(Protocol):
    """The file or the object to which one result is written, with its mark."""

    def there(self, key: Key) -> Mark | None: ...
    def publish(
        self, made: ConvertedModel, external: str, key: Key, layout: Layout
    ) -> tuple[Stamp, ...]: ...
    def stamps(self, mark: Mark) -> tuple[Stamp, ...]: ...


def migrate_one(recipe: Recipe, item: Item, layout: Layout = NO_LAYOUT) -> Outcome:
    """Returns the outcome of one model; only unexpected errors are raised."""
    begun = time.monotonic()
    local = not (is_url(item.source) or is_url(item.output) or recipe.verify)
    folder = ""
    try:
        with contextlib.nullcontext("") if local else scratch.folder() as folder:
            outcome = _migrate(recipe, item, folder, layout)
    except (InvalidModel, BadTarget) as error:
        outcome = _failed(item, Fate.INVALID, error, folder)
    except (OSError, Unpublished) as error:
        outcome = _failed(item, Fate.LOST, error, folder)
    return replace(outcome, seconds=time.monotonic() - begun)


def _failed(item: Item, fate: Fate, error: Exception, folder: str) -> Outcome:
    why, detail = str(getattr(error, "code", type(error).__name__)), str(error)
    if isinstance(error, OSError):
        why, detail = error.strerror or why, cause_of(error)
    if folder:  # the message shows the path of the source, not of its copy in this folder
        detail = detail.replace(os.path.join(folder, "in"), os.path.dirname(item.source))
    return Outcome(item.name, fate, why, shortened(detail))


def _migrate(recipe: Recipe, item: Item, folder: str, layout: Layout) -> Outcome:
    model = _brought(item, folder)
    with documents.beside(model.weights.file):
        return _migrate_from(model, recipe, item, folder, layout)


def _migrate_from(
    model: LocalModel, recipe: Recipe, item: Item, folder: str, layout: Layout
) -> Outcome:
    result = _result(item, folder)
    source, size = _imports(model.skeleton), sum(size for _, size, _ in model.reads)
    runs = _runs(recipe, model.path)
    outcome_of = partial(Outcome, item.name, source=source, size=size, reads=model.reads, runs=runs)
    files = model.contents
    name = found_beside(recipe.digest, files, size) if result else contextlib.nullcontext(str)
    with name as key:

        def seen(fate: Fate, **more: Any) -> Outcome:
            return outcome_of(fate=fate, key=key(), **more)

        if result and (mark := result.there(key)):
            writes = result.stamps(mark)
            return seen(Fate.SKIPPED, why="up to date", writes=writes, result=mark.result,
                        origin=mark.origin)  # fmt: skip
        try:
            skeleton, large_tensors, report = convert(
                _once(model), _request(recipe, model.skeleton)
            )
        except Refused as refused:
            return seen(Fate.REFUSED, **_words_of(refused))
        except (InvalidModel, BadTarget) as error:
            return replace(_failed(item, Fate.INVALID, error, folder), runs=runs)
        converted, what = ConvertedModel(model, skeleton, large_tensors, report), _what(report)
        values = [site.value for site in report.modernized]
        if why_not := recipe.verify and _objection(converted, recipe, folder, values):
            return seen(Fate.UNVERIFIED, **what, **why_not)
        if not result:
            return seen(Fate.OK, **what)
        model.check_unchanged()
        writes = result.publish(converted, recipe.external, key, layout)
        return seen(Fate.OK, writes=writes, **what)


def _what(report: Report) -> dict[str, Any]:
    """Returns the fields of an outcome that describe a conversion."""
    rewritten: Counter[str] = Counter()
    for step in report.steps:
        for work in step.rewritten:
            rewritten[work.op] += work.count
    before, after = report.nodes_before, report.nodes_after
    nodes = None if before is None or after is None else (before, after)
    return {"result": report.result, "nodes": nodes, "rewritten": dict(rewritten),
            "origin": report.origin,
            "accepted": report.runtime.answer if report.runtime else ""}  # fmt: skip


def _runs(recipe: Recipe, path: str) -> tuple[Runs, ...]:
    """Returns in which of the runtimes a model runs, before and after a conversion."""
    if not recipe.runtimes:
        return ()
    from opshift.look.accepts import survey

    return tuple((fit.target, fit.now, fit.after) for fit in survey(path, recipe.runtimes).fits)


def _words_of(refused: Refused) -> dict[str, Any]:
    first, nearest = refused.refusals[0], refused.nearest
    detail = shortened(f"the nearest versions are {show_versions(nearest)}: {first}")
    return {
        "why": first.why.name, "detail": detail, "result": nearest,
        "blockers": blockers_of(refused),
    }  # fmt: skip


def _objection(
    made: ConvertedModel, recipe: Recipe, folder: str, values: list[str]
) -> dict[str, str]:
    from opshift.zoo import verified

    near = os.path.join(folder, "both")
    why, detail = verified.objection(made, near, recipe.external, values, recipe.request)
    return {"why": why, "detail": shortened(detail)} if why else {}


def _brought(item: Item, folder: str) -> LocalModel:
    if not is_url(item.source):
        return files.found(item.source)
    from opshift.zoo.stores import transfer as objects

    os.makedirs(near := os.path.join(folder, "in"))
    return objects.brought(item.source, near)


def _result(item: Item, folder: str) -> Destination | None:
    if not is_url(item.output):
        return FileResult(item.output, item.mark) if item.output else None
    from opshift.zoo.stores.transfer import StoreResult

    os.makedirs(near := os.path.join(folder, "out"))
    return StoreResult(item.output, item.mark, item.creates, near)


def _imports(skeleton: ModelProto) -> dict[str, int]:
    return {schemas.normal(entry.domain): entry.version for entry in skeleton.opset_import}


def _once(model: LocalModel) -> OpenSkeleton:
    """Returns a function that opens the model; its first call returns what is already open."""

    def each() -> Iterator[tuple[ModelProto, Weights]]:
        yield model.skeleton, model.weights
        while True:
            yield weights.carve_file(model.path)

    pieces = each()
    return lambda: next(pieces)


def _request(recipe: Recipe, skeleton: ModelProto) -> Request:
    """Returns the request for one model, without domains and dimensions that it lacks."""
    imports = [*skeleton.opset_import, *(i for f in skeleton.functions for i in f.opset_import)]
    # a conversion may add the default domain
    domains = {schemas.normal(entry.domain) for entry in imports} or {""}
    request = recipe.request.for_domains(domains)
    if not (request.shape or request.dim):
        return request
    inputs = input_sizes.free_inputs(skeleton.graph)
    return request.for_inputs(inputs, input_sizes.dim_names(skeleton.graph))
