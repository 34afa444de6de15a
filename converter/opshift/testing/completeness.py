# SPDX-License-Identifier: Apache-2.0
"""Asserts that a package declares how each changed operator is converted, up and down."""

from __future__ import annotations

from collections.abc import Collection, Iterator

from opshift.author import registry
from opshift.author.index import Crossing
from opshift.author.registry import Registry
from opshift.errors import AdapterBug
from opshift.opsets import schemas
from opshift.testing.example_models import stands_in
from opshift.testing.meaning import gaps
from opshift.text import counted


def assert_complete(package: str, known: Collection[str] = ()) -> None:
    """Asserts one adapter for each change of an operator and direction, and complete examples.

    `known` are results of `opshift.testing.gaps` that are accepted.
    """
    try:
        adapters = registry.default()
    except AdapterBug as bug:  # for example if a boundary has two verdicts
        raise AssertionError(str(bug)) from None
    crossings = [crossing for crossing, adapter in adapters if stands_in(package, adapter)]
    if not crossings:
        raise AssertionError(f"no adapters of {package!r} are installed")
    missing = []
    for domain in sorted({domain for domain, *_ in crossings}):
        missing += adapters.missing(domain, 1, schemas.latest(domain) or 1)
    _expect_none(missing, "without an adapter or a claim")
    _expect_none(
        list(_pointless(crossings)),
        "with an adapter or a claim, although the operator does not change",
    )
    stale = list(_stale(adapters, crossings))
    _expect_none(stale, "with a claim that was reviewed for another schema of the operator")
    if new := [gap for gap in gaps(package) if gap not in known]:
        shown = "".join(f"\n{gap}" for gap in new)
        raise AssertionError(f"{len(new)} cases that no example covers:{shown}")


def _expect_none(crossings: list[Crossing], what: str) -> None:
    if crossings:
        shown = ", ".join(f"{op} {start}->{to}" for _, op, start, to in crossings[:10])
        raise AssertionError(f"{counted(len(crossings), 'version change')} {what}: {shown}")


def _described(crossings: list[Crossing]) -> Iterator[Crossing]:
    """Yields the version changes whose two versions the installed onnx has."""
    for domain, op, start, to in crossings:
        if start != to and max(start, to) <= (schemas.latest(domain) or 0):
            yield domain, op, start, to


def _pointless(crossings: list[Crossing]) -> Iterator[Crossing]:
    for domain, op, start, to in _described(crossings):
        if all(schema.since != max(start, to) for schema in schemas.history(domain, op)):
            yield domain, op, start, to


def _stale(adapters: Registry, crossings: list[Crossing]) -> Iterator[Crossing]:
    for crossing in _described(crossings):
        adapter = adapters.get(*crossing)
        if adapter is not None and not registry.reviewed(adapter, crossing[1]):
            yield crossing
