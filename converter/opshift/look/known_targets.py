# SPDX-License-Identifier: Apache-2.0
"""Lists the runtimes that a conversion can target."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping
from typing import Any

from opshift import versions
from opshift.author.misreadings import all_misreadings
from opshift.author.registry import installed
from opshift.errors import BadTarget
from opshift.json_form import Form
from opshift.opsets.columns import Cell
from opshift.opsets.probed import ProbedRelease
from opshift.opsets.targets import Fact, RuntimeRelease, described, find, releases_of, table
from opshift.records import dataclass
from opshift.text import Line, Role, Shown, counted
from opshift.text import table as shown_table

# Fields of a form up to 0.2. They stay in the JSON, because this version removes no field.
NO_PATTERN = dict.fromkeys(("attribute", "holds", "values", "without_input"))


@dataclass(frozen=True, slots=True)
class ReleaseForm(Form):
    """One release of a runtime, or several equal releases."""

    MERGED = ("release", "columns")
    OPTIONAL = ("built_on", "later")

    release: RuntimeRelease
    columns: Mapping[str, Cell]
    built_on: str
    """The release of onnx with the same operators; empty if it is not known."""
    later: str
    """The releases of the next row if the requested release lies before it; else empty."""
    probed: ProbedRelease | None
    """The probe of the release with `opshift probe`; null without one."""
    forms: tuple[Mapping[str, Any], ...]
    """The forms of nodes that the runtime misreads: the operator (`op`), a sentence (`says`), its
    `source` and `date`, and the opsets from `since` to below `before`."""

    @staticmethod
    def of(release: RuntimeRelease) -> ReleaseForm:
        """Returns the JSON form of a release."""
        return ReleaseForm(
            release, {name: release.cell(name) for name in described()}, release.built_on or "",
            release.next_release.versions if release.next_release is not None else "",
            release.probed.how if release.probed is not None else None, tuple(_forms(release)),
        )  # fmt: skip


@dataclass(frozen=True, slots=True, repr=False)
class Targets(Shown):
    """Releases of runtimes, with the versions that they read and what they do not support.

    Printed by `opshift targets`.

    Attributes
    ----------
    rows : tuple of RuntimeRelease
        The highest versions by domain (`imports`), the lowest (`floors`), the IR version (`ir`),
        the operators and forms that the release lacks, and the source of these facts.

    Examples
    --------
    >>> import opshift
    >>> opshift.targets("onnxruntime==1.10").rows[0].ir
    8
    """

    KIND = "targets"
    ALSO = ("targets",)
    HIDDEN = ("rows",)

    rows: tuple[RuntimeRelease, ...]

    @property
    def targets(self) -> tuple[ReleaseForm, ...]:
        """The releases of the runtimes."""
        return tuple(map(ReleaseForm.of, self.rows))

    def lines(self) -> Iterator[Line]:
        """Yields the number of releases and a line for each, or all about a single release."""
        names = {release.name for release in self.rows}
        releases = counted(len(self.rows), "row")
        yield Line(f"{releases} of {counted(len(names), 'runtime')}.", Role.GOOD)
        header = ("target", "versions", "ai.onnx", "ai.onnx.ml", "IR", "lacks", "date", "from")
        head, *lines = shown_table(header, map(_cells, self.rows))
        yield head
        for release, line in zip(self.rows, lines, strict=True):
            yield line
            if release.built_on is not None:
                built = (
                    f"  operators of onnx {release.built_on}, the first with this ai.onnx version"
                )
                yield Line(built, more=len(self.rows) > 1)
            for lack, fact in _lacks(release):
                text = f"  lacks: {lack} ({fact.date or 'no date'}, {fact.source})"
                yield Line(text, more=len(self.rows) > 1)


def targets(*names: str) -> Targets:
    """List the runtimes that a conversion can have as its target.

    Parameters
    ----------
    *names : str
        Only these runtimes (`"onnxruntime"`) or releases (`"onnxruntime==1.10"`).

    Returns
    -------
    Targets
        An entry for each release, or for several releases that are equal.

    Raises
    ------
    BadTarget
        A name is unknown; the message has a suggestion.
    TypeError
        A name is not a text.

    Examples
    --------
    >>> import opshift
    >>> opshift.targets("onnxruntime==1.10").rows[0].imports[""]
    15
    """
    if not names:
        return Targets(tuple(table()))
    return Targets(tuple(release for name in names for release in _marked(name)))


def _marked(name: str) -> list[RuntimeRelease]:
    """Returns the releases of a runtime, with a remark at the default release."""
    releases = releases_of(name)
    if len(releases) == 1:
        return releases
    try:
        meant = find(name).versions
    except BadTarget:  # the name has no default release
        return releases
    remark = f"the name {name.strip()} without a release selects this release"
    return [
        dataclasses.replace(release, remark=remark) if release.versions == meant else release
        for release in releases
    ]


def _lacks(release: RuntimeRelease) -> list[tuple[str, Fact]]:
    """Returns what a release does not support (such as operators and types), with the sources."""
    row_fact = Fact(release.source, release.date)
    fields = {"without": [one.shown for one in release.without]}
    fields["only"] = [f"all but {counted(len(release.only), 'operator')}"] if release.only else []
    fields["other_forms"] = [f"{op} as opshift usually writes it" for op in release.other_forms]
    fields["functions"] = [] if release.functions else ["functions of the model"]
    for column in described().values():
        if column.lacks:
            fields[column.name] = list(map(column.lacks.format, release.texts(column.name)))
    lacks_and_facts = [
        (one, release.facts.get(name, row_fact))
        for name, lacked in fields.items()
        for one in lacked
    ]
    lacks_and_facts += [
        (one.described(op), Fact(one.source, one.date))
        for op, one in all_misreadings(installed(), release)
    ]
    if release.probed is not None:
        fact = Fact(release.probed.how.source, release.probed.how.date)
        lacks_and_facts += [(says, fact) for says in release.probed.failures]
    return lacks_and_facts


def _forms(release: RuntimeRelease) -> Iterator[dict[str, Any]]:
    """Yields the kinds of nodes that a release handles wrongly, as JSON."""
    for op, misread in all_misreadings(installed(), release):
        yield {
            **NO_PATTERN, "op": op, "says": misread.described(op), "since": misread.since,
            "before": misread.before, "source": misread.source, "date": misread.date,
        }  # fmt: skip


def _cells(release: RuntimeRelease) -> tuple[str, ...]:
    return (
        release.name, release.versions or "any", _range(release, ""), _range(release, versions.ML),
        str(release.ir or "-"), str(len(_lacks(release)) or "-"), release.date or "-",
        "; ".join(filter(None, (release.remark, release.same_as or release.source))),
    )  # fmt: skip


def _range(release: RuntimeRelease, domain: str) -> str:
    top, low = release.imports.get(domain), release.floors.get(domain)
    if domain == "" and release.prefer:
        return f"best {release.prefer}"
    if top:
        return f"{low}-{top}" if low else str(top)
    return f"{low}+" if low else "-"
