"""The exception tree: what a caller can catch, and nothing else leaves the package."""

from __future__ import annotations

import enum
from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from opshift.report import StepReport


class Why(enum.Enum):
    """Closed list of reasons, so that a run over many models can count them."""

    NEEDS_CONSTANT = "a value must be known before the model runs"
    NEEDS_TYPE = "an element type must be known"
    NEEDS_RANK = "a rank must be known"
    NEEDS_SHAPE = "a shape must be known"
    NEEDS_STATIC_ATTR = "an attribute of a function must be known inside its body"
    NOT_EXPRESSIBLE = "the other version cannot say it"
    TYPE_NOT_AVAILABLE = "an element type does not exist at the other version"
    APPROXIMATE_ONLY = "only an approximate form exists"
    AMBIGUOUS = "the older text does not say which result is meant"
    NO_ADAPTER = "nobody has described this change yet"
    UNREVIEWED = "the installed onnx describes this operator differently than when it was reviewed"
    IR_TOO_LOW = "the content needs a newer IR version"
    TARGET_LACKS = "the runtime lacks it"
    UNKNOWN_DOMAIN = "the domain's versions are unknown"


def printable(text: str) -> str:
    """A sentence as it can be shown: names in it come from a file and may hold anything."""
    return "".join(
        c if c.isprintable() else c.encode("unicode_escape").decode("ascii") for c in text
    )


class OpshiftError(Exception):
    """Everything that opshift raises on purpose."""


class InvalidModel(OpshiftError, ValueError):  # noqa: N818
    """The input is not a legal model; the message names the thing and the way out."""

    def __init__(self, message: str) -> None:
        super().__init__(printable(message))


class BadTarget(OpshiftError, ValueError):  # noqa: N818
    """The target cannot be meant: out of range, or of a domain the model does not import."""


class BadDestination(OpshiftError, OSError):  # noqa: N818
    """The result cannot go where it should: it would harm a file, or could not be read there."""


class MissingExtra(OpshiftError, ImportError):  # noqa: N818
    """Something optional is not installed; the message says how to get it."""


class AdapterBug(OpshiftError, TypeError):  # noqa: N818
    """An adapter broke a rule of the author API, or wrote something the checker rejects."""


class Refusal(Exception):  # noqa: N818 - it is an answer, not an error
    """What an adapter raises when a node has no exact form at the other version."""

    def __init__(self, why: Why, detail: str) -> None:
        super().__init__(why, detail)
        self.why = why
        self.detail = detail


@dataclass(frozen=True, slots=True)
class RefusedNode:
    """One node that cannot cross one boundary."""

    node: str
    op: str
    domain: str
    boundary: tuple[int, int]
    why: Why
    detail: str

    def __str__(self) -> str:
        op = f"{self.domain}.{self.op}" if self.domain else self.op
        start, to = self.boundary
        return printable(f"{op} {self.node!r} {start}->{to}: {self.detail} [{self.why.name}]")


class Refused(OpshiftError, RuntimeError):  # noqa: N818
    """No equal model exists at the target: every blocker of the boundary, and how near one gets."""

    def __init__(
        self,
        refusals: Iterable[RefusedNode],
        nearest: dict[str, int],
        target: dict[str, int],
        steps: Iterable[StepReport] = (),
    ) -> None:
        self.refusals = tuple(refusals)
        self.nearest = dict(nearest)
        self.target = dict(target)
        self.steps = tuple(steps)  # the boundaries that were crossed before
        super().__init__(self._message())

    def _message(self) -> str:
        shown = [str(refusal) for refusal in self.refusals[:10]]
        if len(self.refusals) > len(shown):
            shown.append(f"... and {len(self.refusals) - len(shown)} more")
        goal = _versions(self.target)
        near = _versions(self.nearest)
        return f"cannot reach {goal}; nearest is {near}\n  " + "\n  ".join(shown)

    def __reduce__(self) -> tuple[type[Refused], tuple[object, ...]]:
        return Refused, (self.refusals, self.nearest, self.target, self.steps)


def _versions(imports: dict[str, int]) -> str:
    return ", ".join(f"{domain or 'ai.onnx'} {v}" for domain, v in sorted(imports.items()))
