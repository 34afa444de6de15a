# SPDX-License-Identifier: Apache-2.0
"""Finds operators of domains that the result must not use, and rewrites them in ai.onnx."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator
from typing import TYPE_CHECKING

from opshift.author.facts import Facts
from opshift.author.registry import Registry
from opshift.author.verdicts import LEAVE
from opshift.convert.blockers import StepRefused
from opshift.convert.change import Step
from opshift.convert.legal import runtime
from opshift.convert.step import Stepper
from opshift.model.document import Document
from opshift.model.scope import FunctionId, Key

if TYPE_CHECKING:
    from opshift.opsets.targets import RuntimeRelease

Cross = Callable[[str, int, int], Stepper]


def operators(
    document: Document,
    facts: Facts,
    adapters: Registry,
    allowed: Collection[str] | None,
    row: RuntimeRelease | None,
) -> frozenset[Key]:
    """Returns the operators of a model that must be rewritten in ai.onnx.

    Operators that the runtime lacks and that no adapter rewrites are not included; the final check
    refuses them.
    """
    formed, found = set[Key](), set[Key]()
    if row is not None:
        formed.update(key for key, _ in runtime.unknown_fields(document, row))
        formed.update(key for _, key, _ in runtime.contrib_without_kernel(facts, row))
        for doubtful in (False, True):
            misread = runtime.misread_nodes(facts, row, doubtful=doubtful)
            formed.update(key for key, one, _ in misread if key[0] and not one.is_uncertain(row))
    for key in {key for root in document.roots for key in root.index}:
        domain = key[0]
        strange = row is not None and (row.lacks(domain) or row.is_strange(key) or key in formed)
        lacked = strange and adapters.leaving(*key) is not None
        if lacked or (allowed is not None and domain not in allowed):
            found.add(key)
    return frozenset(found)


def perhaps_lacked(
    document: Document, adapters: Registry, row: RuntimeRelease | None, opset: int
) -> frozenset[Key]:
    """Returns operators that the runtime may lack and that ai.onnx can replace at this opset."""
    if row is None:
        return frozenset()
    from opshift.opsets import targets

    keys = {key for root in document.roots for key in root.index if row.lacks_facts_about(key[0])}
    owned = targets.owned() if keys else ()
    unseen = (key for key in keys if key[0] in owned and not row.ran(key))
    written = ((key, adapters.leaving(*key)) for key in unseen)
    return frozenset(key for key, one in written if one is not None and one.since <= opset)


def lowest(adapters: Registry, left: Collection[Key]) -> int:
    """Returns the lowest opset of ai.onnx in which all these operators can be rewritten."""
    verdicts = [adapters.leaving(*key) for key in left]
    return max((one.since for one in verdicts if one is not None), default=1)


def leave(
    document: Document, left: Collection[Key], cross: Cross, *, needed: bool = True
) -> Iterator[Step]:
    """Rewrites nodes in ai.onnx if their types are known; with `needed`, raises if it rewrote none.

    A rewrite may need the type of a value that another operator of `left` computes. The type is
    known only after the other operator is rewritten, so the caller repeats the call until no node
    is left.
    """
    done, refused = False, []
    for domain in sorted({domain for domain, _ in left}):
        for version in sorted({root.imports.get(domain) or 1 for root in document.roots}):
            stepper = cross(domain, version, version)
            stepper.boundary = LEAVE
            stepper.left = frozenset(key for key in left if key[0] == domain)
            stepper.partial = True
            step = stepper.run()
            if stepper.blockers:
                refused.append(stepper.blockers.refused)
            if step.rewritten:
                done = True
                yield step
    if needed and refused and not done:
        refusals = [one for each in refused for one in each.refusals]
        if not all(each.functions or each.unsure for each in refused):
            raise StepRefused(refusals)
        sure = frozenset[FunctionId]().union(*(each.functions for each in refused))
        unsure = frozenset[FunctionId]().union(*(each.unsure for each in refused))
        raise StepRefused(refusals, sure, unsure - sure)
