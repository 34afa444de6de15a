# SPDX-License-Identifier: Apache-2.0
"""The element types for which measured releases of a runtime have no kernel.

`kernels.txt` is written by `python -m tools.corpus.runtimes.kernel_table`. Its first line names a
runtime and its measured releases. Each further line names an operator, one of its versions, its
type variables, and groups: the releases that lack a kernel, and the choices of element types
that they lack it for. An operator without type variables is one that these releases do not know
at all.
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
MANY = 100  # choices of types; of more, only those of the most common types are measured
FEW = 2000
LONG = {short: name for name, short in SHORT.items()}


@dataclass(frozen=True, slots=True)
class Lack:
    """The choices of element types without a kernel, of one version of an operator."""

    variables: tuple[str, ...]
    choices: Mapping[Types, tuple[int, ...]]  # for which measured releases, by their number


@dataclass(frozen=True, slots=True)
class Missing:
    """The choices of element types for the type variables of an operator that have no kernel.

    A release between two measured ones has no kernel if both have none. If one of them has a
    kernel, the choice is in doubt.
    """

    variables: tuple[str, ...]
    choices: frozenset[Types]
    in_doubt: frozenset[Types] = frozenset()
    outcomes: Mapping[Types, str] = field(default_factory=dict)  # that a probe has run


@dataclass(frozen=True, slots=True)
class KernelTable:
    """The kernels that the measured releases of one runtime lack."""

    runtime: str
    releases: tuple[str, ...]
    lacks: Mapping[Key, Mapping[int, Lack]]  # by operator, and by its version

    def covers(self, release: str) -> bool:
        """Whether a release was measured, or lies between two that were."""
        return bool(measured.around(release, self.releases))

    def mentions(self, key: Key, release: str) -> bool:
        """Whether a release lacks any kernel of an operator."""
        around = measured.around(release, self.releases)
        return bool(around) and any(
            around <= set(releases)
            for lack in self.lacks.get(key, {}).values()
            for releases in lack.choices.values()
        )

    def missing(self, key: Key, since: int, release: str) -> Missing | None:
        """The choices of element types that a release has no kernel for; None for none."""
        return self.missing_in(key, since, measured.around(release, self.releases))

    def missing_in(self, key: Key, since: int, releases: frozenset[int]) -> Missing | None:
        """The choices of element types that none of some measured releases has a kernel for."""
        lack = self.lacks.get(key, {}).get(since)
        if not releases or lack is None:
            return None
        by_choice = {types: releases & set(where) for types, where in lack.choices.items()}
        found = frozenset(types for types, where in by_choice.items() if where == releases)
        in_doubt = frozenset(types for types, where in by_choice.items() if where) - found
        return Missing(lack.variables, found, in_doubt) if found or in_doubt else None


def tried(allowed: Iterable[Collection[str]]) -> list[list[str]]:
    """The element types of each type variable of which a measurement tries every choice."""
    found = [sorted(types) for types in allowed]
    for keep in (COMMON, COMMON[:4], COMMON[:2]):
        if math.prod(map(len, found)) > (MANY if keep is COMMON else FEW):
            found = [[t for t in types if t in keep] or types[:1] for types in found]
    return found


@functools.cache
def shipped() -> Mapping[str, KernelTable]:
    """The tables by the name of their runtime."""
    table = read(plugins.data("opshift.opsets", "kernels.txt").decode())
    return {table.runtime: table}


def read(text: str) -> KernelTable:
    """The table of a text."""
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
            for one in listed or [""]:
                types = tuple(LONG[short] for short in one.split("/")) if one else ()
                choices.setdefault(types, []).extend(measured.numbers(where, releases))
        found = {types: tuple(sorted(numbers)) for types, numbers in choices.items()}
        lacks.setdefault((domain, op), {})[int(since)] = Lack(tuple(variables), found)
    return KernelTable(runtime, tuple(releases), lacks)


def written(table: KernelTable) -> Iterator[str]:
    """The lines of the text that `read` reads."""
    yield " ".join([table.runtime, *table.releases])
    for (domain, op), versions in sorted(table.lacks.items()):
        for since, lack in sorted(versions.items()):
            groups: dict[str, list[str]] = {}
            for types, numbers in sorted(lack.choices.items()):
                where = measured.shown(numbers, table.releases)
                groups.setdefault(where, []).append("/".join(SHORT[name] for name in types))
            name = qualified(domain, op)
            head = " ".join([name, str(since), *lack.variables])
            yield "; ".join([head, *(" ".join([w, *ones]).strip() for w, ones in groups.items())])
