# SPDX-License-Identifier: Apache-2.0
"""Decides whether a runtime can run a model: yes, no or unknown, with all reasons."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace
from typing import TYPE_CHECKING

from opshift.author.facts import Facts
from opshift.convert.legal import diagnose, runtime
from opshift.convert.legal.runtime import RuntimeLack, Seen
from opshift.model import weights
from opshift.model.document import Document
from opshift.protos.copies import copied
from opshift.records import dataclass
from opshift.report import RuntimeAnswer

if TYPE_CHECKING:
    from opshift.opsets.targets import RuntimeRelease


@dataclass(frozen=True, slots=True)
class Verdict:
    """The known reasons why a runtime cannot run a model, and the open questions."""

    target: str
    reasons: tuple[RuntimeLack, ...]
    unknown: tuple[str, ...]
    # reasons that apply to only one of the two measured releases around this release
    differing: tuple[RuntimeLack, ...] = ()

    @property
    def in_words(self) -> RuntimeAnswer:
        """The answer in a report: the reasons and open questions as text."""
        reasons = tuple(dict.fromkeys(map(str, self.reasons)))
        too = [f"whether this applies to {self.target}: {one}" for one in self.differing]
        return RuntimeAnswer.of(self.target, reasons, (*dict.fromkeys(too), *self.unknown))


@dataclass(frozen=True, slots=True)
class Judged:
    """A model to be compared with the abilities of releases of runtimes."""

    document: Document
    computed: Facts  # facts about the model with all functions inlined
    seen: Seen

    @staticmethod
    def of(facts: Facts) -> Judged:
        """Returns the model of the given inferred types, for comparison with runtimes."""
        called = any(root.calls for root in facts.document.roots)
        return Judged(facts.document, _written_out(facts) if called else facts, Seen())


def _written_out(facts: Facts) -> Facts:
    """Returns the types in a model after inlining its functions, whose types are then known."""
    copy = copied(facts.document.model)
    diagnose.write_out_functions(copy)
    view = weights.checkable(copy)
    return Facts(Document(copy), facts.weights, facts.adapters, lambda: view)


def verdict(judged: Judged, row: RuntimeRelease, *, added: Collection[str] = ()) -> Verdict:
    """Returns whether a runtime can run a model without a conversion.

    `added` has the domains whose missing imports opshift added. For a release between two measured
    releases, the answer is known only if both measured releases have the same answer.
    """
    own = _of_row(judged, row, added)
    if row.later is None:
        return own
    then = _of_row(judged, row.later, added)
    if own.reasons and then.reasons:
        return replace(own, target=row.stands_for)
    differing = (*own.reasons, *then.reasons)
    return Verdict(row.stands_for, (), own.unknown or then.unknown, differing)


def _of_row(judged: Judged, row: RuntimeRelease, added: Collection[str]) -> Verdict:
    """Returns whether one measured release can run a model."""
    document, computed = judged.document, judged.computed
    rejected, doubted = runtime.without_imports(row, added) if added else ([], [])
    reasons = (
        *rejected,
        *runtime.stamps(document, row),
        *runtime.below_floor(document, row),
        *runtime.lacking(document, row),
        *runtime.forms(computed, row, judged.seen),
        *runtime.kernels(computed, row, judged.seen),
    )
    unknown = (
        *doubted,
        *runtime.called_functions(document, row),
        *runtime.flawed(computed, row, judged.seen),
        *runtime.unknown(computed, row, judged.seen),
        *runtime.in_doubt(computed, row, judged.seen),
    )
    return Verdict(row.shown, reasons, unknown)
