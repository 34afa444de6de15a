# SPDX-License-Identifier: Apache-2.0
"""Finds the cases of an operator that neither an example nor a variant of an example covers."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import partial

from opshift.author import registry
from opshift.author.example import Example
from opshift.author.index import Crossing
from opshift.author.registry import Registry
from opshift.author.verdicts import Adapter, Rewrite
from opshift.convert.legal import checker
from opshift.opsets import schemas
from opshift.opsets.schemas import Schema
from opshift.protos import ModelProto
from opshift.testing import variants
from opshift.testing.aspects import Aspect, Use, aspects, uses
from opshift.testing.case_files import examples_of
from opshift.testing.example_models import example_model, stands_in
from opshift.testing.input_sets import input_sets

EXAMPLE, VARIANT = "example", "variant"
Coverage = Mapping[str, str]
"""For each case: "example" or "variant", whichever covers it, or "" for neither."""


def gaps(package: str) -> list[str]:
    """Returns a line for each case that neither an example nor a variant covers."""
    return [
        f"{domain or 'ai.onnx'} {op} {start}->{to}: {gap}"
        for (domain, op, start, to), covered in coverage(package)
        for gap, by in covered.items()
        if not by
    ]


def coverage(package: str) -> Iterator[tuple[Crossing, Coverage]]:
    """Yields, for each version change of an operator, which cases examples or variants cover.

    Cases are: each attribute with a value other than its default, each optional input given and
    absent, each class of element types, an unknown rank, unknown sizes, an empty tensor, and a node
    in a subgraph.
    """
    adapters = registry.default()
    for crossing, adapter in sorted(adapters, key=lambda pair: pair[0]):
        ours = stands_in(package, adapter) and adapter.at_boundary
        if ours and isinstance(adapter.verdict, Rewrite):
            domain, op, start, _ = crossing
            schema = schemas.schema(domain, op, start)
            if schema is not None:  # the installed onnx has the operator
                yield crossing, _covered(adapter, schema, adapters)


def _covered(adapter: Adapter, schema: Schema, adapters: Registry) -> Coverage:
    every = list(aspects(schema))
    covering = [
        use
        for example in examples_of(adapter)
        if example.invalid is None
        for use in _uses_of(example, example_model(adapter, example), schema, adapters)
    ]
    covered = {
        aspect.gap: EXAMPLE if any(map(aspect.covered, covering)) else "" for aspect in every
    }
    open_ones = [aspect for aspect in every if not covered[aspect.gap]]
    for gap in _by_variants(adapter, schema, open_ones, adapters):
        covered[gap] = VARIANT
    return covered


def _uses_of(example: Example, model: ModelProto, schema: Schema, adapters: Registry) -> list[Use]:
    empty = example.refuses is None and _runs_empty(model, example)
    return list(uses(model, schema, adapters, runs_empty=empty))


def _runs_empty(model: ModelProto, example: Example) -> bool:
    """Returns whether an example, or a set of its inputs, contains an empty tensor."""
    if any(getattr(value, "size", 1) == 0 for value in example.inputs.values()):
        return True
    return any(input_sets(model, example.inputs, ("empty",)))


def _by_variants(
    adapter: Adapter, schema: Schema, missing: Sequence[Aspect], adapters: Registry
) -> Iterator[str]:
    """Yields the cases that a legal variant of an example covers."""
    waiting = list(missing)
    for example in examples_of(adapter):
        if not waiting:
            return
        if example.refuses is not None or example.invalid is not None or example.approximate:
            continue
        model = example_model(adapter, example)
        is_useful = partial(_helps, waiting)
        for _, variant in variants.variants(model, schema.domain, (schema.name,), is_useful):
            if checker.whole(variant, adapters, full=True) is not None:
                continue  # the operator does not allow this type or attribute
            nodes = _uses_of(example, variant, schema, adapters)
            covered = [aspect for aspect in waiting if any(map(aspect.covered, nodes))]
            waiting = [aspect for aspect in waiting if aspect not in covered]
            yield from (aspect.gap for aspect in covered)


def _helps(missing: Sequence[Aspect], variant: str) -> bool:
    """Returns whether a variant of this name may cover one of the missing cases."""
    name = variant.partition("=")[0]
    return any(name in aspect.variants for aspect in missing)
