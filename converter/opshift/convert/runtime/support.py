# SPDX-License-Identifier: Apache-2.0
"""Decides whether a runtime can run a model: yes, no or unknown, with all reasons."""

from __future__ import annotations

import functools
from collections.abc import Callable, Collection
from dataclasses import replace
from typing import TYPE_CHECKING

from opshift.author.facts import Facts
from opshift.convert.legal import diagnose
from opshift.convert.runtime import (
    form_lacks,
    kernel_lacks,
    open_questions,
    operator_lacks,
    version_lacks,
)
from opshift.convert.runtime.lack import RuntimeLack, Seen
from opshift.model import weights
from opshift.model.document import Document
from opshift.protos.copies import copied
from opshift.records import dataclass
from opshift.report import RuntimeAnswer

if TYPE_CHECKING:
    from opshift.opsets.targets import RuntimeRelease


@dataclass(frozen=True)
class Support:
    """The known reasons why a runtime cannot run a model, and the open questions."""

    target: str
    reasons: tuple[RuntimeLack, ...]
    # a caller that needs only the reasons does not wait for the search
    find_unknown: Callable[[], tuple[str, ...]]
    # reasons that apply to only one of the two measured releases around this release
    differing: tuple[RuntimeLack, ...] = ()

    @functools.cached_property
    def unknown(self) -> tuple[str, ...]:
        """The facts about the runtime that are not known."""
        return self.find_unknown()

    @property
    def in_words(self) -> RuntimeAnswer:
        """The answer in a report: the reasons and open questions as text."""
        reasons = tuple(dict.fromkeys(map(str, self.reasons)))
        open_questions = [
            f"whether this applies to {self.target}: {lack}" for lack in self.differing
        ]
        return RuntimeAnswer.of(
            self.target, reasons, (*dict.fromkeys(open_questions), *self.unknown)
        )


@dataclass(frozen=True, slots=True)
class ComparedModel:
    """A model to be compared with the abilities of releases of runtimes."""

    document: Document
    computed: Facts  # facts about the model with all functions inlined
    seen: Seen
    added: Collection[str] = ()  # the domains whose missing imports opshift added

    @staticmethod
    def of(facts: Facts, added: Collection[str] = ()) -> ComparedModel:
        """Returns the model of the given inferred types, for comparison with runtimes."""
        has_calls = any(root.calls for root in facts.document.roots)
        computed = _written_out(facts) if has_calls else facts
        return ComparedModel(facts.document, computed, Seen(), added)


def _written_out(facts: Facts) -> Facts:
    """Returns the types in a model after inlining its functions, whose types are then known."""
    copy = copied(facts.document.model)
    diagnose.write_out_functions(copy)
    view = weights.checkable(copy)
    return Facts(Document(copy), facts.weights, facts.adapters, lambda: view)


def support_of(model: ComparedModel, release: RuntimeRelease) -> Support:
    """Returns whether a runtime can run a model without a conversion.

    For a release between two measured releases, the answer is known only if both measured releases
    have the same answer.
    """
    before = _of_row(model, release)
    if release.next_release is None:
        return before
    after = _of_row(model, release.next_release)
    if before.reasons and after.reasons:
        return replace(before, target=release.stands_for)
    differing = (*before.reasons, *after.reasons)
    return Support(release.stands_for, (), lambda: before.unknown or after.unknown, differing)


def _of_row(model: ComparedModel, release: RuntimeRelease) -> Support:
    """Returns whether one measured release can run a model."""
    document, computed, added = model.document, model.computed, model.added
    rejected, doubted = version_lacks.without_imports(release, added) if added else ([], [])
    reasons = (
        *rejected,
        *version_lacks.stamps(document, release),
        *version_lacks.below_floor(document, release),
        *operator_lacks.lacking(document, release),
        *form_lacks.forms(computed, release, model.seen),
        *kernel_lacks.kernels(computed, release, model.seen),
    )

    def find_unknown() -> tuple[str, ...]:
        return (
            *doubted,
            *open_questions.called_functions(document, release),
            *open_questions.flawed(computed, release, model.seen),
            *open_questions.unknown(computed, release, model.seen),
            *kernel_lacks.in_doubt(computed, release, model.seen),
        )

    return Support(release.shown, reasons, find_unknown)
