# SPDX-License-Identifier: Apache-2.0
"""The classes for rules of legal models: a rule, its phase, and a finding."""

from __future__ import annotations

import enum
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator
from typing import Annotated, Any, TypeAlias, TypeVar

from opshift.author.facts import Facts
from opshift.author.registry import Registry
from opshift.json_form import Form
from opshift.model.document import Document
from opshift.model.weights import Weights
from opshift.records import dataclass
from opshift.text import Line, Role, Shown, counted, printable

ERROR, WARNING, INFO = "error", "warning", "info"
UNJUDGED = "UNJUDGED"  # the code of a finding that no rule could decide
NamedText: TypeAlias = tuple[str | frozenset[str], str]
"""A violation: the name or the names of its values or nodes, and a sentence."""

_Key = TypeVar("_Key")

_ROLES = {ERROR: Role.BAD, WARNING: Role.CAUTION, INFO: Role.FAINT}


def some(names: Collection[str], what: str) -> str:
    """Returns the number of names, and the first name."""
    first = repr(min(names))
    return f"{what} {first}" if len(names) == 1 else f"{counted(len(names), what)} such as {first}"


def several(keys: Iterable[_Key]) -> Iterator[tuple[_Key, int]]:
    """Yields each key that occurs more than once, with its number of occurrences."""
    return ((key, count) for key, count in Counter(keys).items() if count > 1)


class Phase(enum.Enum):
    """The phase of a conversion that applies a rule; `check` applies each rule on whole models."""

    BEFORE_INFERENCE = "a finding in the source model ends the conversion"
    REJECTED = "a finding explains why onnx's checker rejects the source model"
    BEFORE_STEP = "the rule checks nodes that an adapter wrote, before they enter the model"
    AFTER_STEP = "the rule checks nodes that a step wrote, or kept under a new schema"
    AT_END = "a finding in the source model is a note; a finding only in the result is a bug"
    FAILED = "a finding explains why a conversion failed; otherwise it is ignored"
    CHECK_ONLY = "a conversion corrects the finding or does not depend on it"


@dataclass(frozen=True, slots=True)
class Checked:
    """The model to which rules are applied."""

    document: Document
    adapters: Registry
    facts: Facts | None = None
    weights: Weights | None = None


@dataclass(frozen=True, slots=True)
class Finding(Form):
    """One violation of a rule.

    The level `warning` means a fault that every runtime tolerates. The level `info` means unused
    content that violates no rule. `about` has the names of the values or nodes of the finding.
    """

    HIDDEN = ("about",)

    level: Annotated[str, ERROR, WARNING, INFO]
    """The severity."""
    text: str
    """The violation in a sentence."""
    rule: str
    """The name of the rule."""
    about: frozenset[str] = frozenset()

    def __str__(self) -> str:
        return f"{self.level}: {self.text}"


@dataclass(frozen=True, slots=True)
class Unjudged:
    """A node for which a rule of an adapter raised an error."""

    node: str
    error: Exception

    def __str__(self) -> str:
        return f"{self.node} cannot be judged: {self.error}"


@dataclass(frozen=True, slots=True)
class Rule:
    """A rule: its code, level and phase, and the search for violations.

    The argument of the search depends on the phase: a `Checked` for rules on a whole model. The
    search yields messages, pairs of names and a message, or an `Unjudged` if an author's function
    failed. A rule with `visits_all` visits every node or value, so a conversion with default checks
    skips this rule. A rule with `infers` needs the types of values.
    """

    code: str
    level: str
    phase: Phase
    find: Callable[[Any], Iterable[str | NamedText | Unjudged]]
    visits_all: bool = False
    infers: bool = False

    def findings(self, subject: object) -> Iterator[Finding]:
        for violation in self.find(subject):
            if isinstance(violation, Unjudged):
                text = printable(str(violation))
                yield Finding(WARNING, text, UNJUDGED, frozenset({text}))
                continue
            names, text = (violation, violation) if isinstance(violation, str) else violation
            about = frozenset({names}) if isinstance(names, str) else names
            # a name in the file may contain line ends
            yield Finding(self.level, printable(text), self.code, about)


@dataclass(frozen=True, slots=True, repr=False)
class Findings(Shown):
    """All findings of a check, errors first.

    Printed by `opshift check`.

    Attributes
    ----------
    found : tuple of Finding
        Each finding with its `level` (`"error"`, `"warning"` or `"info"`), `rule` and `text`.

    Examples
    --------
    >>> import opshift
    >>> opshift.check("model.onnx").fails(strict=False)
    False
    """

    KIND = "check"
    ALSO = ("findings",)
    HIDDEN = ("found",)

    found: tuple[Finding, ...]

    @property
    def findings(self) -> tuple[Finding, ...]:
        """Every finding, errors first."""
        return self.found

    def fails(self, *, strict: bool) -> bool:
        """Whether there is an error; with `strict`, warnings count as errors."""
        grave = {ERROR, WARNING} if strict else {ERROR}
        return any(finding.level in grave for finding in self.found)

    @property
    def notes(self) -> list[str]:
        """The notes of a report about rules that the source model breaks."""
        return [
            f"the model broke this rule before the conversion: {finding.text}"
            for finding in self.found
        ]

    def beyond(self, before: Findings) -> tuple[Finding, ...]:
        """The errors and warnings that the source model does not have."""
        known_texts: dict[str, set[str]] = {}
        for finding in before.found:
            known_texts.setdefault(finding.rule, set()).update(finding.about)
        return tuple(
            finding
            for finding in self.found
            if finding.level != INFO and not finding.about <= known_texts.get(finding.rule, set())
        )

    def lines(self) -> Iterator[Line]:
        """How many rules are broken, then each finding."""
        levels = [finding.level for finding in self.found]
        errors, warnings = levels.count(ERROR), levels.count(WARNING)
        summary = counted(errors, ERROR) if errors else "No errors"
        summary += f", {counted(warnings, WARNING)}." if warnings else "."
        role = Role.BAD if errors else Role.CAUTION if warnings else Role.GOOD
        yield Line(summary if errors or warnings else "Nothing is wrong.", role)
        for finding in self.found:
            yield Line(f"  {finding}", _ROLES[finding.level])
            if len(finding.about) > 1:
                names = ", ".join(map(repr, sorted(finding.about)))
                yield Line(f"    {names}", Role.FAINT, more=True)
