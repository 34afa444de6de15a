# SPDX-License-Identifier: Apache-2.0
"""The results of small models in releases of a runtime: a table that `opshift probe` writes.

The first lines of a table name a runtime and its probed releases, each with a date and a source.
Each further line names an operator, one of its versions, and its type variables. After these names,
the line lists each outcome with its releases, and the element types or the features of the nodes. A
feature of a node begins with `@`: an attribute, an attribute with its value, an input, an output,
or negative indices. A feature in a group `runs` occurred in a model that runs. A feature in another
group makes models fail. For element types in a group `partly`, some models fail, and no feature
explains the failures. An element type `-` stands for a variable that the node does not use.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from opshift.errors import BadTarget
from opshift.opsets import measured, target_names
from opshift.opsets.kernels import COMMON, LONG, SHORT, Missing
from opshift.records import dataclass
from opshift.text import qualified

if TYPE_CHECKING:
    from opshift.opsets.schemas import Schema
    from opshift.protos import NodeProto

Key = tuple[str, str]  # (domain, operator)
Types = tuple[str, ...]
RUNS, PARTLY, WRONG, REFUSED, DIES = "runs", "partly", "wrong", "refused", "dies"
FAILED = (WRONG, REFUSED, DIES)
WORDS = {
    WRONG: "computes other numbers in {}",
    REFUSED: "does not run in {}",
    DIES: "crashes the process of {}",
}
UNUSED = "-"
NEGATIVE = "@negative-indices"  # a feature of input values, which a node alone does not show
AT_ALL = "at all"
LONGEST = 24  # the longest attribute value that is a feature


@dataclass(frozen=True, slots=True)
class ProbedRelease:
    """A release, and the date and source of its probe."""

    name: str
    """The release."""
    date: str
    """The day of the probe."""
    source: str
    """A sentence about the probe: its size, and the machine."""


@dataclass(frozen=True, slots=True)
class Outcomes:
    """The outcomes of one version of an operator, by release."""

    variables: tuple[str, ...]
    types: Mapping[tuple[str, Types], frozenset[int]]  # by outcome and element types
    features: Mapping[tuple[str, str], frozenset[int]]  # by outcome and feature

    def having(self, outcome: str, releases: frozenset[int]) -> frozenset[Types]:
        """Returns the combinations of types that had this outcome in all given releases."""
        return frozenset(
            types for (outcome_here, types), where in self.types.items()
            if outcome_here == outcome and releases <= where
        )  # fmt: skip

    def running(self, releases: frozenset[int]) -> frozenset[Types]:
        """Returns the combinations of types with which models run in all given releases."""
        return self.having(RUNS, releases) | self.having(PARTLY, releases)

    def with_feature(self, outcome: str, releases: frozenset[int]) -> frozenset[str]:
        """Returns the features that had this outcome in all given releases."""
        return frozenset(
            feature for (outcome_here, feature), where in self.features.items()
            if outcome_here == outcome and releases <= where
        )  # fmt: skip


@dataclass(frozen=True, slots=True)
class ProbeTable:
    """The outcomes of small models in the probed releases of a runtime."""

    runtime: str
    releases: tuple[ProbedRelease, ...]
    outcomes: Mapping[Key, Mapping[int, Outcomes]]  # by operator and version

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(release.name for release in self.releases)

    def around(self, release: str) -> frozenset[int]:
        """Returns the numbers of the probed releases whose outcomes stand for a release.

        A probed release represents itself and its patches: 1.15 also represents 1.15.1. Other
        releases are represented by the probed releases before and after them.
        """
        patches = [n for n, name in enumerate(self.names) if f"{name}.".startswith(f"{release}.")]
        if release and patches:
            return frozenset(patches[:1])
        return measured.around(release, self.names)

    def at(self, release: str) -> ReleaseTable | None:
        """Returns the outcomes in a release, or None if the release was not probed."""
        around = self.around(release)
        return ReleaseTable(self, around) if around else None


@dataclass(frozen=True, slots=True, repr=False)
class ReleaseTable:
    """The outcomes in one release, or the outcomes that two neighbouring releases share."""

    table: ProbeTable
    releases: frozenset[int]

    @property
    def how(self) -> ProbedRelease:
        """The release, date and source of the probe."""
        return self.table.releases[min(self.releases)]

    @property
    def failures(self) -> list[str]:
        """The versions of operators of which no model runs, as texts."""
        return [
            f"{qualified(*key)} {since} ({outcome})"
            for key, versions in sorted(self.table.outcomes.items())
            for since in sorted(versions)
            if (outcome := self.unread(key, since))
        ]

    def fails(self, key: Key) -> bool:
        """Returns whether a model with this operator failed."""
        versions = self.table.outcomes.get(key, {}).values()
        return any(
            outcome in FAILED and self.releases <= where
            for outcomes in versions
            for of in (outcomes.types, outcomes.features)
            for (outcome, _), where in of.items()
        )

    def unread(self, key: Key, since: int) -> str:
        """Returns the outcome of an operator version if no probed model of it runs, or "".

        For a release between two probed releases, the outcome is "" if a model runs in one of them.
        """
        outcomes = self.table.outcomes.get(key, {}).get(since)
        if outcomes is None or any(
            outcomes.running(frozenset({number})) for number in self.releases
        ):
            return ""
        return next((o for o in (REFUSED, DIES, WRONG) if outcomes.having(o, self.releases)), "")

    def runs_at(self, key: Key, since: int) -> bool | None:
        """Returns whether a model of an operator version runs, or None if this is unknown."""
        outcomes = self.table.outcomes.get(key, {}).get(since)
        if outcomes is not None and outcomes.running(self.releases):
            return True
        return False if self.unread(key, since) else None

    def missing(self, key: Key, since: int) -> Missing | None:
        """Returns the element types for which an operator version fails, if it runs for others."""
        outcomes = self.table.outcomes.get(key, {}).get(since)
        if outcomes is None or not outcomes.variables or self.unread(key, since):
            return None
        by_types = {
            types: outcome
            for outcome in FAILED
            for types in outcomes.having(outcome, self.releases)
        }
        return (
            Missing(outcomes.variables, frozenset(by_types), outcomes=by_types)
            if by_types
            else None
        )

    def failing(self, key: Key, since: int, features: Collection[str]) -> tuple[str, str] | None:
        """Returns the first of the given features that fails, with its outcome, or None."""
        outcomes = self.table.outcomes.get(key, {}).get(since)
        if outcomes is None:
            return None
        pairs = (
            (feature, outcome)
            for outcome in FAILED
            for feature in sorted(
                outcomes.with_feature(outcome, self.releases).intersection(features)
            )
        )
        return next(pairs, None)

    def untried(self, key: Key, since: int, types: Types, features: Collection[str]) -> str:
        """Returns the element types or the feature that no probed model has, as text or ""."""
        outcomes = self.table.outcomes.get(key, {}).get(since)
        combinations = (
            [outcomes.having(o, self.releases) for o in (RUNS, PARTLY, *FAILED)] if outcomes else []
        )
        if outcomes is None or not any(combinations):
            return AT_ALL
        if types not in frozenset().union(*combinations):
            return "of " + ", ".join(kind or "an unknown type" for kind in types)
        running = outcomes.with_feature(RUNS, self.releases)
        names = sorted(f for f in features if "=" not in f and f not in running)
        if names:
            return f"with {named(names[0])}"
        partly = types in outcomes.having(PARTLY, self.releases)
        return "of perhaps this form, because a probe failed for some forms" if partly else ""

    def lost(self, key: Key) -> bool:
        """Returns whether no probed version of an operator runs."""
        versions = self.table.outcomes.get(key, {})
        return bool(versions) and all(self.unread(key, since) for since in versions)


def variables(schema: Schema) -> tuple[str, ...]:
    """Returns the type variables of an operator that allow several types."""
    params = (*schema.inputs, *schema.outputs)
    return tuple(dict.fromkeys(param.variable for param in params if len(param.types) > 1))


# -- features ------------------------------------------------------------------------------------


def features(node: NodeProto, schema: Schema, rank: int | None) -> frozenset[str]:
    """Returns the features of a node: non-default attributes and optional inputs.

    `rank` is the rank of the node's first input, or None.
    """
    from opshift.protos import helper

    names_of_features = set[str]() if rank is None else {f"@rank={rank}"}
    for attribute in node.attribute:
        formal = schema.attributes.get(attribute.name)
        if attribute.ref_attr_name or (formal is not None and formal.is_graph):
            continue
        value = _plain(helper.get_attribute_value(attribute))
        if formal is None or value != _plain(formal.default):
            names_of_features.add(f"@{attribute.name}")
            if (text := _shown(value)) is not None:
                names_of_features.add(f"@{attribute.name}={text}")
    sides = (("input", node.input, schema.min_input), ("output", node.output, schema.min_output))
    for side, names, least in sides:
        names_of_features |= {
            f"@{side}{i}" for i, name in enumerate(names) if name and i >= max(least, 1)
        }
    return frozenset(names_of_features)


def named(feature: str) -> str:
    """Returns a feature as text."""
    if feature == NEGATIVE:
        return "negative indices"
    place = re.fullmatch(r"@(input|output)(\d+)", feature)
    if place:
        return f"{place[1]} {int(place[2]) + 1}"
    return feature.removeprefix("@")


def _plain(value: Any) -> Any:
    if isinstance(value, bytes):
        return value.decode(errors="replace")
    return [_plain(element) for element in value] if isinstance(value, (list, tuple)) else value


def _shown(value: Any) -> str | None:
    """Returns a short text without blanks for an attribute value, or None if it is too long."""
    parts = value if isinstance(value, list) else [value]
    if not all(isinstance(part, (int, str)) for part in parts):
        return None
    text = ",".join(map(str, parts))
    return text if len(text) <= LONGEST and re.fullmatch(r"[\w,.+-]*", text) else None


# -- the text ------------------------------------------------------------------------------------


def read(text: str) -> ProbeTable:
    """Parses a table from its text."""
    lines = [line.strip() for line in text.splitlines()]
    lines = [line for line in lines if line and not line.startswith("#")]
    try:
        runtime, releases = lines[0].removeprefix("runtime "), list[ProbedRelease]()
        while len(lines) > 1 + len(releases) and lines[1 + len(releases)].startswith("release "):
            _, name, date, source = lines[1 + len(releases)].split(" ", 3)
            releases.append(ProbedRelease(name, date, source))
        names = [release.name for release in releases]
        outcomes: dict[Key, dict[int, Outcomes]] = {}
        for line in lines[1 + len(releases) :]:
            key, since, outcomes_of_version = _outcomes(line, names)
            outcomes.setdefault(key, {})[since] = outcomes_of_version
    except (ValueError, IndexError, KeyError) as error:
        raise BadTarget(f"a table of outcomes cannot be read: {error}; probe again") from error
    return ProbeTable(runtime, tuple(releases), outcomes)


def _outcomes(line: str, names: list[str]) -> tuple[Key, int, Outcomes]:
    head, *groups = line.split("; ")
    name, since, *variables = head.split()
    domain, _, op = name.rpartition(".")
    types: dict[tuple[str, Types], frozenset[int]] = {}
    features: dict[tuple[str, str], frozenset[int]] = {}
    for group in groups:
        outcome, where, *listed = group.split()
        if outcome not in (RUNS, PARTLY, *FAILED):
            raise ValueError(f"{outcome!r} is not an outcome")
        numbers = frozenset(measured.numbers(where, names))
        for word in listed:
            if word.startswith("@"):
                features[outcome, word] = features.get((outcome, word), frozenset()) | numbers
            else:
                choice = outcome, _long(word)
                types[choice] = types.get(choice, frozenset()) | numbers
    return (domain, op), int(since), Outcomes(tuple(variables), types, features)


def written(table: ProbeTable) -> Iterator[str]:
    """Yields the lines of a table's text, which `read` parses."""
    yield f"runtime {table.runtime}"
    yield from (
        f"release {release.name} {release.date} {release.source}" for release in table.releases
    )
    for (domain, op), versions in sorted(table.outcomes.items()):
        for since, versioned in sorted(versions.items()):
            yield line((domain, op), since, versioned, table.names)


def line(key: Key, since: int, outcomes: Outcomes, names: tuple[str, ...]) -> str:
    """Returns the line for the outcomes of one operator version."""
    head = " ".join([qualified(*key), str(since), *outcomes.variables])
    return "; ".join([head, *_groups(outcomes, names)])


def shippable(table: ProbeTable) -> ProbeTable:
    """Returns a table without failures and without rare element types.

    A model of one node may fail because of the sizes of its example, so a failure does not prove
    that the operator fails in a network.
    """
    outcomes = {
        key: {
            since: replace(
                versioned,
                types={
                    c: n
                    for c, n in versioned.types.items()
                    if c[0] not in FAILED and _is_common(c[1])
                },
                features={f: n for f, n in versioned.features.items() if f[0] not in FAILED},
            )
            for since, versioned in versions.items()
        }
        for key, versions in table.outcomes.items()
    }
    common = {key: {n: o for n, o in of.items() if o.types} for key, of in outcomes.items()}
    return replace(table, outcomes={key: of for key, of in common.items() if of})


def _is_common(types: Types) -> bool:
    return not any(kind in LONG.values() and kind not in COMMON for kind in types)


def _groups(outcomes: Outcomes, names: tuple[str, ...]) -> Iterator[str]:
    groups: dict[tuple[str, str], list[str]] = {}
    for (outcome, types), numbers in sorted(outcomes.types.items()):
        groups.setdefault((outcome, measured.shown(numbers, names)), []).append(_short(types))
    for (outcome, feature), numbers in sorted(outcomes.features.items()):
        groups.setdefault((outcome, measured.shown(numbers, names)), []).append(feature)
    for outcome in (RUNS, PARTLY, *FAILED):
        for (of, where), listed in groups.items():
            if of == outcome and where:
                yield " ".join([outcome, where, *listed])


ALL_FIXED = "*"  # an operator version without type variables


def _short(types: Types) -> str:
    return "/".join(SHORT.get(kind, kind) or UNUSED for kind in types) or ALL_FIXED


def _long(text: str) -> Types:
    if text == ALL_FIXED:
        return ()
    return tuple("" if word == UNUSED else LONG.get(word, word) for word in text.split("/"))


def merged(tables: Iterable[ProbeTable]) -> ProbeTable | None:
    """Merges tables of one runtime; for equal releases, the last table wins."""
    by_release = {
        release.name: (table, number)
        for table in tables
        for number, release in enumerate(table.releases)
    }  # fmt: skip
    if not by_release:
        return None
    parts = [by_release[name] for name in sorted(by_release, key=target_names.numbers)]
    types: dict[tuple[Key, int], dict[tuple[str, Types], frozenset[int]]] = {}
    features: dict[tuple[Key, int], dict[tuple[str, str], frozenset[int]]] = {}
    variables: dict[tuple[Key, int], tuple[str, ...]] = {}
    for number, (table, index) in enumerate(parts):
        for key, versions in table.outcomes.items():
            for since, versioned in versions.items():
                variables.setdefault((key, since), versioned.variables)
                _add(types.setdefault((key, since), {}), versioned.types, index, number)
                _add(features.setdefault((key, since), {}), versioned.features, index, number)
    outcomes: dict[Key, dict[int, Outcomes]] = {}
    for (key, since), names in variables.items():
        merged_outcomes = Outcomes(names, types[key, since], features[key, since])
        outcomes.setdefault(key, {})[since] = merged_outcomes
    releases = tuple(table.releases[index] for table, index in parts)
    return ProbeTable(parts[0][0].runtime, releases, outcomes)


def _add(
    target: dict[Any, frozenset[int]], source: Mapping[Any, frozenset[int]], index: int, n: int
) -> None:
    for choice, where in source.items():
        if index in where:
            target[choice] = target.get(choice, frozenset()) | {n}
