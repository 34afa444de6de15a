# SPDX-License-Identifier: Apache-2.0
"""Asserts that a package says how every changed operator is converted, up and down."""

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
    own = [crossing for crossing, one in adapters if stands_in(package, one)]
    if not own:
        raise AssertionError(f"no adapters of {package!r} are installed")
    missing = []
    for domain in sorted({domain for domain, *_ in own}):
        missing += adapters.missing(domain, 1, schemas.latest(domain) or 1)
    _expect_none(missing, "without an adapter or a claim")
    _expect_none(
        list(_pointless(own)), "with an adapter or a claim, although the operator does not change"
    )
    stale = list(_stale(adapters, own))
    _expect_none(stale, "with a claim that was reviewed for another schema of the operator")
    if new := [gap for gap in gaps(package) if gap not in known]:
        shown = "".join(f"\n{gap}" for gap in new)
        raise AssertionError(f"{len(new)} cases that no example covers:{shown}")


def _expect_none(crossings: list[Crossing], what: str) -> None:
    if crossings:
        shown = ", ".join(f"{op} {start}->{to}" for _, op, start, to in crossings[:10])
        raise AssertionError(f"{counted(len(crossings), 'version change')} {what}: {shown}")


def _described(own: list[Crossing]) -> Iterator[Crossing]:
    """Yields the version changes of operators up to the newest versions in the installed onnx."""
    for domain, op, start, to in own:
        if start != to and max(start, to) <= (schemas.latest(domain) or 0):
            yield domain, op, start, to


def _pointless(own: list[Crossing]) -> Iterator[Crossing]:
    for domain, op, start, to in _described(own):
        if all(schema.since != max(start, to) for schema in schemas.history(domain, op)):
            yield domain, op, start, to


def _stale(adapters: Registry, own: list[Crossing]) -> Iterator[Crossing]:
    for crossing in _described(own):
        adapter = adapters.get(*crossing)
        if adapter is not None and not registry.reviewed(adapter, crossing[1]):
            yield crossing
