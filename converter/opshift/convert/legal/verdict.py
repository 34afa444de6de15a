# SPDX-License-Identifier: Apache-2.0
"""Whether a runtime runs a model as it is: yes, no or not known, with every reason."""

from __future__ import annotations

from typing import TYPE_CHECKING

from opshift.author.facts import Facts
from opshift.convert.legal import runtime
from opshift.convert.legal.runtime import RuntimeLack
from opshift.model.document import Document
from opshift.records import dataclass
from opshift.report import RuntimeAnswer

if TYPE_CHECKING:
    from opshift.opsets.targets import Ceiling


@dataclass(frozen=True, slots=True)
class Verdict:
    """The known reasons why a runtime does not run a model, and the open questions."""

    target: str
    reasons: tuple[RuntimeLack, ...]
    unknown: tuple[str, ...]

    @property
    def in_words(self) -> RuntimeAnswer:
        """The answer for reports."""
        reasons = tuple(dict.fromkeys(map(str, self.reasons)))
        return RuntimeAnswer.of(self.target, reasons, self.unknown)


def verdict(
    document: Document,
    row: Ceiling,
    facts: Facts,
    seen: runtime.Seen | None = None,
    *,
    lacks_import: bool = False,
) -> Verdict:
    """Whether a runtime runs a model as it is. Nothing is converted.

    A caller that asks about one document for many releases gives the same `seen` each time.
    `lacks_import` says that the import of the document was added.
    """
    seen = {} if seen is None else seen
    rejected, doubted = runtime.without_import(row) if lacks_import else ([], [])
    reasons = (
        *rejected,
        *runtime.stamps(document, row),
        *runtime.below_floor(document, row),
        *runtime.lacking(document, row),
        *runtime.forms(document, row, facts),
        *runtime.kernels(document, row, facts, seen),
    )
    unknown = (
        *doubted,
        *runtime.unknown(document, row, facts),
        *runtime.in_doubt(document, row, facts, seen),
    )
    return Verdict(row.shown, reasons, unknown)
