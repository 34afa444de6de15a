"""What a worker does with one model: look, convert, publish, mark."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace

from onnx import ModelProto

from opshift import schemas, validate, weights
from opshift.convert import Carve, Options, convert
from opshift.errors import BadTarget, InvalidModel, Refused
from opshift.report import shown
from opshift.targets import Wanted
from opshift.weights import Weights
from opshift.zoo import marks
from opshift.zoo.outcome import Fate, Outcome, Stamp, blockers_of, shortened
from opshift.zoo.recipe import Recipe


@dataclass(frozen=True, slots=True)
class Item:
    """One model, where its result goes and where its mark; without an output it is rehearsed."""

    name: str
    source: str
    output: str = ""
    mark: str = ""


class Unpublished(Exception):  # noqa: N818 - it becomes an outcome
    """The result exists but could not be put in its place."""


def migrate_one(recipe: Recipe, item: Item) -> Outcome:
    """The outcome of one model; only what nobody foresaw is raised."""
    begun = time.monotonic()
    try:
        outcome = _migrate(recipe, item)
    except (InvalidModel, BadTarget) as error:
        outcome = _failed(item, Fate.INVALID, error)
    except (OSError, Unpublished) as error:
        outcome = _failed(item, Fate.LOST, error)
    return replace(outcome, seconds=time.monotonic() - begun)


def _failed(item: Item, fate: Fate, error: Exception) -> Outcome:
    name = type(error).__name__
    if isinstance(error, OSError) and error.strerror:
        return Outcome(item.name, fate, error.strerror, shortened(str(error)))
    return Outcome(item.name, fate, name, shortened(str(error)))


def _migrate(recipe: Recipe, item: Item) -> Outcome:
    carved = weights.carve_file(item.source)
    files = [item.source, *weights.data_files(*carved)]
    reads = marks.stamps(files, os.path.dirname(item.source))
    source, size = _imports(carved[0]), sum(size for _, size, _ in reads)
    seen = Outcome(item.name, Fate.OK, source=source, size=size, reads=reads)
    if item.output:
        seen = replace(seen, key=recipe.key(files))
        if writes := marks.holds(item.mark, seen.key, os.path.dirname(item.output)):
            made = _imports(weights.carve_file(item.output)[0])
            return replace(seen, fate=Fate.SKIPPED, why="up to date", writes=writes, result=made)
    validate.header(carved[0])
    try:
        skeleton, store, report = convert(_once(carved, item.source), _options(recipe, carved[0]))
    except Refused as refused:
        detail = f"nearest is {shown(refused.nearest)}: {refused.refusals[0]}"
        return replace(
            seen, fate=Fate.REFUSED, why=refused.refusals[0].why.name, detail=shortened(detail),
            result=refused.nearest, blockers=blockers_of(refused),
        )  # fmt: skip
    if item.output:
        if not marks.unchanged(reads, os.path.dirname(item.source)):
            raise Unpublished("the model changed while it was read")
        seen = replace(seen, writes=_publish(recipe, item, skeleton, store, seen.key))
    return replace(seen, result=report.result)


def _imports(skeleton: ModelProto) -> dict[str, int]:
    return {schemas.normal(one.domain): one.version for one in skeleton.opset_import}


def _once(carved: tuple[ModelProto, Weights], path: str) -> Carve:
    """The carved model for the first who asks; a conversion that starts again reads it again."""

    def each() -> Iterator[tuple[ModelProto, Weights]]:
        yield carved
        while True:
            yield weights.carve_file(path)

    pieces = each()
    return lambda: next(pieces)


def _options(recipe: Recipe, skeleton: ModelProto) -> Options:
    """The recipe for one model: a domain that it does not import is none of its business."""
    imports = [*skeleton.opset_import, *(i for f in skeleton.functions for i in f.opset_import)]
    domains = {schemas.normal(one.domain) for one in imports}
    target = recipe.target

    def own(versions: Mapping[str, int]) -> dict[str, int]:
        return {domain: to for domain, to in versions.items() if domain in domains}

    if isinstance(target, Wanted):
        kept = replace(target, exact=own(target.exact), at_least=own(target.at_least))
        return Options(kept, recipe.ir_version, recipe.allow_approximate)
    return Options(own(target), recipe.ir_version, recipe.allow_approximate)


def _publish(
    recipe: Recipe, item: Item, skeleton: ModelProto, store: Weights, key: str
) -> tuple[Stamp, ...]:
    """Gives the result its name, whole, then its mark."""
    folder = os.path.dirname(item.output)
    os.makedirs(folder, exist_ok=True)
    try:
        weights.splice(skeleton, store, item.output, external=recipe.external)
    except InvalidModel as error:
        raise Unpublished(str(error)) from error
    files = [item.output, *weights.data_files(*weights.carve_file(item.output))]
    writes = marks.stamps(files, folder)
    marks.write(item.mark, key, writes)
    return writes
