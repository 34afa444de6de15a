# SPDX-License-Identifier: Apache-2.0
"""Replaces nodes of operators that are deprecated in the imported version."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from opshift.author.registry import Registry
from opshift.convert.blockers import StepRefused
from opshift.convert.change import Step
from opshift.convert.step import Stepper
from opshift.model.document import Document
from opshift.model.scope import Key, Place, Root
from opshift.opsets import schemas

Cross = Callable[[str, int, int], Stepper]


def replace(
    document: Document, adapters: Registry, domain: str, goal: int, cross: Cross
) -> Iterator[Step]:
    """Converts nodes of operators that were removed before the imported version.

    The conversion of a node starts at the last version that has the operator. A node is converted
    only if the target version lacks the operator too. A node that an adapter refuses stays.
    """
    for root in document.roots:
        version = root.imports.get(domain)
        if version is not None and version != goal:
            for key, end in _found(root, adapters, domain, version, goal):
                yield from _replaced(root, root.index[key], version, end, domain, cross)


def _found(
    root: Root, adapters: Registry, domain: str, version: int, goal: int
) -> list[tuple[Key, int]]:
    """Returns operators that are deprecated now and at the target, with the version since when."""
    found = []
    for key in sorted(key for key in root.index if key[0] == domain):
        here, there = schemas.schema(*key, version), schemas.schema(*key, goal)
        if here is None or not here.deprecated or there is None or not there.deprecated:
            continue
        if adapters.get(*key, here.since - 1, here.since) is not None:
            found.append((key, here.since))
    return found


def _replaced(
    root: Root, places: list[Place], version: int, end: int, domain: str, cross: Cross
) -> Iterator[Step]:
    by = dict.fromkeys(places, "the model")
    for start in range(end - 1, version):
        stepper = cross(domain, start, start + 1)
        try:
            step = stepper.run_at(root, by)
        except StepRefused:
            if start >= end:  # the replacement exists, but cannot be converted further
                raise
            return
        by |= step.touched
        touched, step.touched = step.touched, {}
        if start == version - 1:  # only after this step do the nodes match the imports
            step.touched = {(s, at): one for (s, at), one in by.items() if at not in s.removed}
        elif not (touched or step.kept):
            continue
        yield step
