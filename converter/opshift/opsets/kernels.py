# SPDX-License-Identifier: Apache-2.0
"""The element types for which measured releases of a runtime have no kernel.

`python -m tools.corpus.runtimes.kernel_table` writes `kernels.txt`. The first line names a runtime
and its measured releases. Each further line names an operator, an opset, and its type variables.
The line holds from this opset to the next line of the operator or its next version. After these
names, the line lists releases, each with the combinations of element types for which the release
has no kernel. A line without type variables means that the releases do not know the operator.

An operator without a kernel may run by its function body, at some of the opsets of its version.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import field

from opshift import plugins
from opshift.opsets import measured
from opshift.opsets.elements import ELEMENTS
from opshift.records import dataclass
from opshift.text import qualified

Key = tuple[str, str]  # (domain, operator)
Types = tuple[str, ...]
SHORT = {"string": "s"} | {row.name: row.short for row in ELEMENTS.values() if row.short}
COMMON = ("float", "int64", "double", "float16", "int32", "uint8", "int8", "bool", "string")
LATE = {row.name for row in ELEMENTS.values() if row.opset >= 19}  # 8 bits of a float, or fewer
MANY = 100  # above this number of combinations without late types, only common types are measured
FEW = 2000
MOST = 500  # above this number of combinations, late types are not measured
LONG = {short: name for name, short in SHORT.items()}


@dataclass(frozen=True, slots=True)
class Lack:
    """The combinations of element types without a kernel, for one version of an operator."""

    variables: tuple[str, ...]
    # the numbers of the measured releases without a kernel
    choices: Mapping[Types, tuple[int, ...]]


@dataclass(frozen=True, slots=True)
class Missing:
    """The combinations of element types for which an operator has no kernel in a release.

    An unmeasured release has no kernel if the measured releases before and after it have none. If
    only one of these two releases has a kernel, the combination is in doubt.
    """

    variables: tuple[str, ...]
    choices: frozenset[Types]
    in_doubt: frozenset[Types] = frozenset()
    # the outcomes that a probe measured
    outcomes: Mapping[Types, str] = field(default_factory=dict)

    @property
    def is_late(self) -> bool:
        """Whether each combination has a late type, so that nothing follows for other types."""
        return all(not LATE.isdisjoint(types) for types in (*self.choices, *self.in_doubt))


@dataclass(frozen=True, slots=True)
class KernelTable:
    """The kernels that the measured releases of one runtime lack."""

    runtime: str
    releases: tuple[str, ...]
    lacks: Mapping[Key, Mapping[int, Lack]]  # by operator and first opset

    def covers(self, release: str) -> bool:
        """Returns whether a release was measured, or lies between two measured releases."""
        return bool(measured.around(release, self.releases))

    def mentions(self, key: Key, release: str) -> bool:
        """Returns whether a release lacks a kernel of an operator."""
        around = measured.around(release, self.releases)
        return bool(around) and any(
            around <= set(releases)
            for lack in self.lacks.get(key, {}).values()
            for releases in lack.choices.values()
        )

    def lack(self, key: Key, since: int, opset: int) -> Lack | None:
        """Returns the missing kernels of an operator version in models of an opset, or None."""
        by_opset = self.lacks.get(key, {})
        first = max((one for one in by_opset if since <= one <= max(since, opset)), default=None)
        return None if first is None else by_opset[first]

    def missing(self, key: Key, since: int, release: str, opset: int = 0) -> Missing | None:
        """Returns the combinations of types without a kernel in a release, or None."""
        return self.missing_in(key, since, measured.around(release, self.releases), opset)

    def missing_in(
        self, key: Key, since: int, releases: frozenset[int], opset: int = 0
    ) -> Missing | None:
        """Returns the combinations of types for which none of the given releases has a kernel."""
        lack = self.lack(key, since, opset)
        if not releases or lack is None:
            return None
        by_choice = {types: releases & set(where) for types, where in lack.choices.items()}
        missing = frozenset(types for types, where in by_choice.items() if where == releases)
        in_doubt = frozenset(types for types, where in by_choice.items() if where) - missing
        return Missing(lack.variables, missing, in_doubt) if missing or in_doubt else None


def tried(allowed: Iterable[Collection[str]]) -> list[list[str]]:
    """Returns the element types that a measurement tries for each type variable."""
    choices = [sorted(types) for types in allowed]
    for keep in (COMMON, COMMON[:4], COMMON[:2]):
        early = math.prod(len([t for t in types if t not in LATE]) for types in choices)
        if early > (MANY if keep is COMMON else FEW):
            kept = {*keep, *LATE}
            choices = [[t for t in types if t in kept] or types[:1] for types in choices]
    if math.prod(map(len, choices)) > MOST:
        return [[t for t in types if t not in LATE] or types for types in choices]
    return choices


@functools.cache
def shipped() -> Mapping[str, KernelTable]:
    """Returns opshift's own tables of missing kernels, by runtime."""
    table = read(plugins.data("opshift.opsets", "kernels.txt").decode())
    return {table.runtime: table}


def read(text: str) -> KernelTable:
    """Parses a table from its text."""
    lines = [line for line in text.splitlines() if line and not line.startswith("#")]
    runtime, *releases = lines[0].split()
    lacks: dict[Key, dict[int, Lack]] = {}
    for line in lines[1:]:
        head, *groups = line.split("; ")
        name, since, *variables = head.split()
        domain, _, op = name.rpartition(".")
        choices: dict[Types, list[int]] = {}
        for group in groups:
            where, *listed = group.split()
            for combination in listed or [""]:
                types = (
                    tuple(LONG[short] for short in combination.split("/")) if combination else ()
                )
                choices.setdefault(types, []).extend(measured.numbers(where, releases))
        by_types = {types: tuple(sorted(numbers)) for types, numbers in choices.items()}
        lacks.setdefault((domain, op), {})[int(since)] = Lack(tuple(variables), by_types)
    return KernelTable(runtime, tuple(releases), lacks)


def written(table: KernelTable) -> Iterator[str]:
    """Yields the lines of a table's text, which `read` parses.

    A line is left out if it tells the same as the line of the opset before.
    """
    from opshift.opsets import schemas  # only the tool that measures kernels writes a table

    yield " ".join([table.runtime, *table.releases])
    for (domain, op), by_opset in sorted(table.lacks.items()):
        versions = {version.since for version in schemas.history(domain, op)}
        last: Mapping[Types, tuple[int, ...]] = {}
        for opset, lack in sorted(by_opset.items()):
            last, before = lack.choices, {} if opset in versions else last
            if last == before:
                continue
            groups: dict[str, list[str]] = {}
            for types, numbers in sorted(lack.choices.items()):
                where = measured.shown(numbers, table.releases)
                groups.setdefault(where, []).append("/".join(SHORT[name] for name in types))
            name = qualified(domain, op)
            head = " ".join([name, str(opset), *lack.variables])
            yield "; ".join([head, *(" ".join([w, *ones]).strip() for w, ones in groups.items())])
