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
    for crossing, adapter in sorted(adapters, key=lambda one: one[0]):
        ours = stands_in(package, adapter) and adapter.at_boundary
        if ours and isinstance(adapter.verdict, Rewrite):
            domain, op, start, _ = crossing
            left = schemas.schema(domain, op, start)
            if left is not None:  # the installed onnx has the operator
                yield crossing, _covered(adapter, left, adapters)


def _covered(adapter: Adapter, left: Schema, adapters: Registry) -> Coverage:
    every = list(aspects(left))
    found = [
        use
        for example in examples_of(adapter)
        if example.invalid is None
        for use in _uses_of(example, example_model(adapter, example), left, adapters)
    ]
    covered = {one.gap: EXAMPLE if any(map(one.covered, found)) else "" for one in every}
    open_ones = [one for one in every if not covered[one.gap]]
    for gap in _by_variants(adapter, left, open_ones, adapters):
        covered[gap] = VARIANT
    return covered


def _uses_of(example: Example, model: ModelProto, left: Schema, adapters: Registry) -> list[Use]:
    empty = example.refuses is None and _runs_empty(model, example)
    return list(uses(model, left, adapters, runs_empty=empty))


def _runs_empty(model: ModelProto, example: Example) -> bool:
    """Returns whether an example, or a set of its inputs, contains an empty tensor."""
    if any(getattr(value, "size", 1) == 0 for value in example.inputs.values()):
        return True
    return any(input_sets(model, example.inputs, ("empty",)))


def _by_variants(
    adapter: Adapter, left: Schema, missing: Sequence[Aspect], adapters: Registry
) -> Iterator[str]:
    """Yields the cases that a legal variant of an example covers."""
    waiting = list(missing)
    for example in examples_of(adapter):
        if not waiting:
            return
        if example.refuses is not None or example.invalid is not None or example.approximate:
            continue
        model = example_model(adapter, example)
        wanted = partial(_helps, waiting)
        for _, variant in variants.variants(model, left.domain, (left.name,), wanted):
            if checker.whole(variant, adapters, full=True) is not None:
                continue  # the operator does not allow this type or attribute
            found = _uses_of(example, variant, left, adapters)
            covered = [one for one in waiting if any(map(one.covered, found))]
            waiting = [one for one in waiting if one not in covered]
            yield from (one.gap for one in covered)


def _helps(missing: Sequence[Aspect], variant: str) -> bool:
    """Returns whether a variant of this name may cover one of the missing cases."""
    name = variant.partition("=")[0]
    return any(name in one.variants for one in missing)
