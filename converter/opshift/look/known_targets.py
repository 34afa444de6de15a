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
from opshift.opsets.targets import Fact, RuntimeRelease, described, find, rows, table
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
    def of(row: RuntimeRelease) -> ReleaseForm:
        """Returns the JSON form of a release."""
        return ReleaseForm(
            row, {name: row.cell(name) for name in described()}, row.built_on or "",
            row.later.versions if row.later is not None else "",
            row.probed.how if row.probed is not None else None, tuple(_forms(row)),
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
        names = {row.name for row in self.rows}
        releases = counted(len(self.rows), "row")
        yield Line(f"{releases} of {counted(len(names), 'runtime')}.", Role.GOOD)
        header = ("target", "versions", "ai.onnx", "ai.onnx.ml", "IR", "lacks", "date", "from")
        head, *lines = shown_table(header, map(_cells, self.rows))
        yield head
        for row, line in zip(self.rows, lines, strict=True):
            yield line
            if row.built_on is not None:
                built = f"  operators of onnx {row.built_on}, the first with this ai.onnx version"
                yield Line(built, more=len(self.rows) > 1)
            for lack, fact in _lacks(row):
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
    return Targets(tuple(row for name in names for row in _marked(name)))


def _marked(name: str) -> list[RuntimeRelease]:
    """Returns the releases of a runtime, with a remark at the default release."""
    releases = rows(name)
    if len(releases) == 1:
        return releases
    try:
        meant = find(name).versions
    except BadTarget:  # the name has no default release
        return releases
    remark = f"the name {name.strip()} without a release selects this release"
    return [
        dataclasses.replace(row, remark=remark) if row.versions == meant else row
        for row in releases
    ]


def _lacks(row: RuntimeRelease) -> list[tuple[str, Fact]]:
    """Returns what a release does not support (such as operators and types), with the sources."""
    row_fact = Fact(row.source, row.date)
    fields = {"without": [one.shown for one in row.without]}
    fields["only"] = [f"all but {counted(len(row.only), 'operator')}"] if row.only else []
    fields["other_forms"] = [f"{op} as opshift usually writes it" for op in row.other_forms]
    fields["functions"] = [] if row.functions else ["functions of the model"]
    for column in described().values():
        if column.lacks:
            fields[column.name] = list(map(column.lacks.format, row.texts(column.name)))
    lacks_and_facts = [
        (one, row.facts.get(name, row_fact)) for name, lacked in fields.items() for one in lacked
    ]
    lacks_and_facts += [
        (one.described(op), Fact(one.source, one.date))
        for op, one in all_misreadings(installed(), row)
    ]
    if row.probed is not None:
        fact = Fact(row.probed.how.source, row.probed.how.date)
        lacks_and_facts += [(says, fact) for says in row.probed.failures]
    return lacks_and_facts


def _forms(row: RuntimeRelease) -> Iterator[dict[str, Any]]:
    """Yields the kinds of nodes that a release handles wrongly, as JSON."""
    for op, misread in all_misreadings(installed(), row):
        shown = {
            "op": op,
            "says": misread.described(op),
            "since": misread.since,
            "before": misread.before,
        }
        yield {**NO_PATTERN, **shown, "source": misread.source, "date": misread.date}


def _cells(row: RuntimeRelease) -> tuple[str, ...]:
    return (
        row.name, row.versions or "any", _range(row, ""), _range(row, versions.ML),
        str(row.ir or "-"), str(len(_lacks(row)) or "-"), row.date or "-",
        "; ".join(filter(None, (row.remark, row.same_as or row.source))),
    )  # fmt: skip


def _range(row: RuntimeRelease, domain: str) -> str:
    top, low = row.imports.get(domain), row.floors.get(domain)
    if domain == "" and row.prefer:
        return f"best {row.prefer}"
    if top:
        return f"{low}-{top}" if low else str(top)
    return f"{low}+" if low else "-"
