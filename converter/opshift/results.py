# SPDX-License-Identifier: Apache-2.0
"""Writes the results of many models as JSON Lines, CSV, JUnit or SARIF for other programs.

The extension of the file name chooses the format. A file appears complete or not at all. The
results are iterated more than once, so that they need not all be in memory.
"""

from __future__ import annotations

import csv
import io
import json
import os
import re
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any
from urllib.parse import quote
from xml.etree import ElementTree

from opshift import codes
from opshift.errors import BadTarget
from opshift.model.bytes import place
from opshift.records import dataclass
from opshift.release import VERSION
from opshift.text import printable, show_versions

ERROR, WARNING, NOTE = "error", "warning", "note"  # the levels of SARIF
PASSED, SKIPPED, FAILED, BROKEN = "passed", "skipped", "failed", "broken"  # the states of JUnit
FORMULA = r"^[\s']*[=+\-@\uff1d\uff0b\uff0d\uff20]"
"""Matches the beginning of a text that a spreadsheet may run as a formula.

A cell of CSV with this beginning gets an apostrophe in front. The pattern allows apostrophes at
the beginning, so that a reader restores every text by removing one apostrophe.
"""


@dataclass(frozen=True, slots=True)
class Problem:
    """A problem of a model; `code` names a page of `opshift.codes` or a rule."""

    level: str
    code: str
    text: str


@dataclass(frozen=True, slots=True)
class ModelResult:
    """The result for one model; `row` has its documented JSON form.

    `path` is the file of the model if `model` is relative to another folder.
    """

    model: str
    state: str
    row: Mapping[str, Any]
    problems: tuple[Problem, ...] = ()
    seconds: float = 0.0
    path: str = ""


def require_writable(paths: Iterable[str]) -> None:
    """Raises BadTarget for an extension without a format, and BadDestination without a folder."""
    for path in paths:
        _format(path)
        place.at(path)


def write(path: str, cases: Iterable[ModelResult], title: str) -> None:
    """Writes the results of a command in the format that the extension of the file name chooses."""
    place.write_whole(path, _format(path)(cases, title).encode("utf-8"))


def _format(path: str) -> Callable[[Iterable[ModelResult], str], str]:
    ending = os.path.splitext(path)[1].lower()
    if ending not in FORMATS:
        raise BadTarget(
            f"{path}: the extension {ending!r} names no format of results; give a file that ends in"
            f" {', '.join(FORMATS)} (JSON Lines, CSV, JUnit or SARIF)"
        )
    return FORMATS[ending]


def jsonl(cases: Iterable[ModelResult], title: str) -> str:
    """Returns one line of JSON for each model."""
    return "".join(json.dumps(case.row, sort_keys=True) + "\n" for case in cases)


def as_csv(cases: Iterable[ModelResult], title: str) -> str:
    """Returns one line of CSV for each model; mappings become text and lists become counts."""
    names = dict.fromkeys(name for case in cases for name in case.row)
    out = io.StringIO()
    columns = [name for name in names if name not in ("schema_version", "kind")]
    writer = csv.DictWriter(out, columns, extrasaction="ignore", lineterminator="\n")
    writer.writeheader()
    writer.writerows({name: _cell(value) for name, value in case.row.items()} for case in cases)
    return out.getvalue()


def _cell(value: Any) -> Any:
    if isinstance(value, (list, tuple)):
        return len(value)
    if not isinstance(value, (str, Mapping)):
        return value
    text = printable(show_versions(value) if isinstance(value, Mapping) else value)
    return f"'{text}" if re.match(FORMULA, text) else text


def junit(cases: Iterable[ModelResult], title: str) -> str:
    """Returns a JUnit suite with one test for each model."""
    states = [case.state for case in cases]
    suite = ElementTree.Element("testsuite", {
        "name": title, "tests": str(len(states)), "failures": str(states.count(FAILED)),
        "errors": str(states.count(BROKEN)), "skipped": str(states.count(SKIPPED)),
        "time": f"{sum(case.seconds for case in cases):.3f}",
    })  # fmt: skip
    for case in cases:
        about = {"classname": title, "name": case.model, "time": f"{case.seconds:.3f}"}
        test = ElementTree.SubElement(suite, "testcase", about)
        if case.state == SKIPPED:
            ElementTree.SubElement(test, "skipped", {"message": "up to date"})
        elif case.state != PASSED:
            first = next(iter(case.problems), Problem(ERROR, "BUG", case.state))
            texts = "\n".join(f"{problem.code}: {problem.text}" for problem in case.problems)
            name = "failure" if case.state == FAILED else "error"
            element = ElementTree.SubElement(test, name, {"type": first.code})
            element.set("message", first.text)
            element.text = texts
    ElementTree.indent(suite)
    text = ElementTree.tostring(suite, "unicode")
    return f'<?xml version="1.0" encoding="UTF-8"?>\n{text}\n'


def sarif(cases: Iterable[ModelResult], title: str) -> str:
    """Returns a SARIF 2.1.0 log with a result for each problem; its location is the model."""
    rules = dict.fromkeys(problem.code for case in cases for problem in case.problems)
    results = [
        {
            "ruleId": problem.code,
            "level": problem.level,
            "message": {"text": problem.text},
            "locations": [{"physicalLocation": _place(case.path or case.model)}],
        }
        for case in cases
        for problem in case.problems
    ]
    driver = {"name": "opshift", "version": VERSION, "rules": [*map(_rule, rules)]}
    log = {
        "$schema": "https://docs.oasis-open.org/sarif/sarif/v2.1.0/errata01/os/schemas/sarif-schema-2.1.0.json",
        "version": "2.1.0",
        "runs": [{"tool": {"driver": driver}, "results": results}],
    }
    return json.dumps(log, indent=1) + "\n"


def _place(path: str) -> dict[str, Any]:
    """Returns a place that code hosts find, because they run checks in the root of a repository."""
    below = os.path.relpath(path) if os.path.isabs(path) else path
    if below.startswith(os.pardir) and os.path.isabs(path):
        uri = Path(path).as_uri()
    else:
        uri = quote(below.replace(os.sep, "/"), safe="/:")
    return {"artifactLocation": {"uri": uri}, "region": {"startLine": 1}}


def _rule(code: str) -> dict[str, Any]:
    if code not in codes.names():
        return {"id": code}
    page = codes.page(code)
    return {
        "id": code,
        "shortDescription": {"text": page.sentence},
        "fullDescription": {"text": page.meaning},
        "help": {"text": page.cure},
    }


def name_of(path: str) -> str:
    """Returns the path of a model with control characters escaped, for use in any format."""
    return printable(path)


FORMATS: dict[str, Callable[[Iterable[ModelResult], str], str]] = {
    ".jsonl": jsonl,
    ".csv": as_csv,
    ".xml": junit,
    ".sarif": sarif,
}
