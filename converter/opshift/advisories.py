# SPDX-License-Identifier: Apache-2.0
"""Lists wrong results of earlier releases, and finds out whether a conversion is affected."""

from __future__ import annotations

import enum
import functools
import pkgutil
from collections.abc import Collection, Iterator, Mapping
from dataclasses import field
from typing import Any

from opshift import toml
from opshift.opsets.identity import normal
from opshift.opsets.target_names import fits
from opshift.records import dataclass
from opshift.release import order

FILE = "advisories.toml"
UNNAMED = "0.2.0"  # reports and marks of releases up to this one do not name their release


class Affected(enum.IntEnum):
    """The answer whether the result of an earlier conversion must be converted again."""

    NO = 0
    MAYBE = 1
    YES = 2


# The answer if a fact decides whether a result is affected; None is an unknown fact.
_BY_FACT = {True: Affected.YES, False: Affected.NO, None: Affected.MAYBE}


@dataclass(frozen=True, slots=True)
class Evidence:
    """The known facts about one earlier conversion; None stands for an unknown fact.

    The field `release` is empty if it is unknown; `runtime` is empty if no runtime was named.
    """

    release: str
    result: Mapping[str, int]
    source: Mapping[str, int] | None = None
    adapters: Collection[str] | None = None
    runtime: str | None = None
    operators: Collection[str] | None = None
    sparse: bool | None = None  # whether the source has a sparse initializer


@dataclass(frozen=True, slots=True)
class Advisory:
    """A fixed fault that gave wrong results: its text, the affected models, and the releases."""

    id: str
    """The name of the advisory."""
    wrong: str
    """A sentence about the wrong result."""
    condition: str
    """A sentence about the affected models."""
    since: str
    """The first affected version of opshift."""
    fixed: str
    """The first corrected version of opshift."""
    adapters: tuple[str, ...] = ()
    """The adapters that wrote the wrong result."""
    operators: tuple[str, ...] = ()
    """The operators of which a wrong result has at least one."""
    versions: Mapping[str, tuple[int, int]] = field(default_factory=dict)
    """The lowest and the highest version of a wrong result, by domain."""
    runtimes: Mapping[str, str] = field(default_factory=dict)
    """The releases for which a wrong result was made, by runtime."""
    sparse: bool = False
    """Whether only models with a sparse initializer are affected."""

    def judge(self, evidence: Evidence) -> Affected:
        """Judges whether a fault affects a result, by its versions, adapters and runtime."""
        return min(self._answers(evidence))

    def _answers(self, evidence: Evidence) -> Iterator[Affected]:
        yield self._of_release(evidence.release)
        if self.adapters:
            yield self._of_adapters(evidence)
        elif self.operators:
            yield self._of_operators(evidence.operators)
        for domain, (low, high) in self.versions.items():
            yield Affected.YES if low <= evidence.result.get(domain, 0) <= high else Affected.NO
        if self.runtimes:
            yield self._of_runtime(evidence.runtime)
        if self.sparse:
            yield _BY_FACT[evidence.sparse]

    def _of_release(self, release: str) -> Affected:
        try:
            place = order(release)
        except ValueError:
            return Affected.MAYBE
        return Affected.YES if order(self.since) <= place < order(self.fixed) else Affected.NO

    def crossed(self, evidence: Evidence) -> tuple[str, ...]:
        """Returns the adapters of this advisory that the conversion used or may have used."""
        if evidence.adapters is not None:
            return tuple(name for name in self.adapters if name in evidence.adapters)
        return tuple(
            name for name in self.adapters if _may_cross(name, evidence.source, evidence.result)
        )

    def _of_adapters(self, evidence: Evidence) -> Affected:
        if not self.crossed(evidence):
            return Affected.NO
        if evidence.adapters is not None:
            return Affected.YES
        left_none = bool(self.operators) and self._of_operators(evidence.operators) is Affected.NO
        return Affected.NO if left_none else Affected.MAYBE

    def _of_operators(self, operators: Collection[str] | None) -> Affected:
        if operators is None:
            return Affected.MAYBE
        return Affected.YES if any(name in operators for name in self.operators) else Affected.NO

    def _of_runtime(self, runtime: str | None) -> Affected:
        if runtime is None:
            return Affected.MAYBE
        name, _, release = runtime.partition(":")[0].partition("==")
        listed = self.runtimes.get(name, "")
        if listed and not release:
            return Affected.MAYBE
        return Affected.YES if listed and fits(listed, release) is not None else Affected.NO


def _may_cross(adapter: str, source: Mapping[str, int] | None, result: Mapping[str, int]) -> bool:
    """Returns whether a conversion between these versions may have used the adapter."""
    operator, _, place = adapter.partition("-")
    start, _, to = place.partition("-")
    domain = normal(operator.rpartition(".")[0])
    if domain not in result:
        return source is not None and domain in source  # the conversion removed the domain
    if not (start.isdecimal() and to.isdecimal()):
        return True  # an adapter to another form of the operator, which any conversion may use
    sign = 1 if int(to) > int(start) else -1  # 1 for a step up, -1 for a step down
    begins = source is None or sign * source.get(domain, int(start)) <= sign * int(start)
    return begins and sign * result[domain] >= sign * int(to)


@functools.cache
def advisories() -> tuple[Advisory, ...]:
    """Returns every advisory of `advisories.toml`."""
    data = pkgutil.get_data("opshift", FILE) or b""
    return tuple(_read(name, raw) for name, raw in toml.loads(data.decode("utf-8")).items())


def _read(name: str, raw: Mapping[str, Any]) -> Advisory:
    ranges = raw.get("versions", {}).items()
    versions = {normal(domain): (low, high) for domain, (low, high) in ranges}
    lists: dict[str, Any] = {key: tuple(raw.get(key, ())) for key in ("adapters", "operators")}
    return Advisory(**{"id": name, **raw, **lists, "versions": versions})
