# SPDX-License-Identifier: Apache-2.0
"""Finds results of earlier conversions that are wrong and must be converted again."""

from __future__ import annotations

import dataclasses
import os
import re
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from opshift.advisories import UNNAMED, Advisory, Affected, Evidence, advisories
from opshift.convert import stamp
from opshift.convert.ir.features import SPARSE_IR
from opshift.errors import InvalidModel
from opshift.json_form import parsed
from opshift.look.info import Info, info
from opshift.look.planning import plan
from opshift.model.bytes.file_names import has_ending
from opshift.opsets import targets
from opshift.opsets.identity import normal
from opshift.records import dataclass
from opshift.report import Origin
from opshift.results import FORMATS
from opshift.text import Line, Role, Shown, counted, printable
from opshift.zoo import journal, marks
from opshift.zoo.marks import Mark
from opshift.zoo.outcome import Fate
from opshift.zoo.sources import HIDDEN

if TYPE_CHECKING:
    from opshift.convert.request import AnyTarget

_STAMP = re.compile(
    rf"opshift (?P<release>\S+): (?P<way>.*?)(?:{stamp.FOR}(?P<runtime>.*?))?"
    rf"(?:{stamp.BY}(?P<adapters>.*))?"
)
_MOVE = re.compile(r"(\S+) (\d+|-) -> (\d+|removed)")
WORDS = {Affected.YES: "yes", Affected.MAYBE: "not known", Affected.NO: "no"}


@dataclass(frozen=True, slots=True)
class SuspectResult:
    """A result that an advisory may affect, its release of opshift, and the affected adapters.

    `answer` is `"yes"` if the result must be converted again, or `"not known"`.
    """

    result: str
    """The path or the name of the result."""
    answer: Annotated[str, "yes", "not known"]
    """Whether the result must be converted again."""
    advisory: str
    """The name of the advisory."""
    release: str
    """The release of opshift that made the result; empty if it is not known."""
    adapters: tuple[str, ...]
    """The adapters that the conversion used, or may have used."""

    @property
    def line(self) -> Line:
        by = f", adapters {', '.join(self.adapters)}" if self.adapters else ""
        release = f"opshift {self.release}" if self.release else "unknown release of opshift"
        again = self.answer == WORDS[Affected.YES]
        word, role = ("wrong", Role.BAD) if again else ("may be wrong", Role.CAUTION)
        return Line(f"  {word}: {self.result}  {self.advisory} ({release}{by})", role)


@dataclass(frozen=True, slots=True, repr=False)
class Audit(Shown):
    """The results of earlier conversions that must be converted again.

    Printed by `opshift audit`.

    Attributes
    ----------
    results : int
        The number of results that were found.
    suspects : tuple of SuspectResult
        An entry for each affected result and advisory: `result`, `answer`, `advisory`, `release`
        and `adapters`.
    advisories : tuple of Advisory
        The advisories that affect at least one of the results.
    unread : mapping
        The files that are not a model, each with the reason.

    Examples
    --------
    >>> import opshift
    >>> opshift.audit("model.onnx", 13).suspects
    ()
    """

    KIND = "audit"
    ALSO = ("answer",)

    results: int
    suspects: tuple[SuspectResult, ...]
    advisories: tuple[Advisory, ...]
    unread: Mapping[str, str]

    @property
    def answer(self) -> Annotated[str, "yes", "not known", "no"]:
        """Whether a result must be converted again: `"yes"`, `"not known"` or `"no"`."""
        answers = {suspect.answer for suspect in self.suspects}
        return next((word for word in WORDS.values() if word in answers), WORDS[Affected.NO])

    def lines(self) -> Iterator[Line]:
        """Yields the number of wrong results, each result, and the advisories."""
        again = {
            suspect.result for suspect in self.suspects if suspect.answer == WORDS[Affected.YES]
        }
        unsure = {suspect.result for suspect in self.suspects} - again
        role = Role.BAD if again else Role.CAUTION if unsure else Role.GOOD
        parts = [f"{len(again)} must be converted again from the source"] if again else []
        parts += [f"{len(unsure)} may be wrong"] if unsure else []
        yield Line(
            f"{counted(self.results, 'result')}: {', '.join(parts) or 'none is wrong'}.", role
        )
        for suspect in sorted(
            self.suspects, key=lambda suspect: (suspect.answer != "yes", suspect.result)
        ):
            yield suspect.line
        for advisory in self.advisories:
            yield Line(f"{advisory.id}: {advisory.wrong}")
            yield Line(f"  only if: {advisory.condition}")
            for name, releases in advisory.runtimes.items():
                yield Line(f"  only for: {name} {releases}")
            yield Line(f"  opshift: {advisory.since} and later, corrected in {advisory.fixed}")
        for name, reason in self.unread.items():
            yield Line(f"  not read: {name}: {reason}", Role.CAUTION)


def audit(path: str | os.PathLike[str], target: AnyTarget = None) -> Audit:
    """Find the results of earlier conversions that are wrong and must be converted again.

    For a converted model, opshift reads the stamp that `stamp=True` wrote into its metadata; for a
    report, its steps; for the folder of a batch, its hidden files. Without such records, the answer
    lists the adapters that a conversion to the versions of the model may have used.

    Parameters
    ----------
    path : path
        A model, a report in JSON, a results file, a journal, or a folder of results.
    target : int, mapping or str, optional
        A target for a source model: plan the conversion to this target, and judge its adapters.

    Returns
    -------
    Audit
        The results that must be converted again, and the advisories that affect them.

    Raises
    ------
    InvalidModel
        The file is not a model, report or journal, or a folder was given together with a target.
    OSError
        The file cannot be read.

    Examples
    --------
    >>> import opshift
    >>> opshift.audit("model.onnx", 13).answer
    'no'
    """
    path = os.fspath(path)
    unread: dict[str, str] = {}
    if target is not None:
        by_result = {path: [_planned(path, target)]}
    elif os.path.isdir(path):
        by_result = dict(_in_folder(path, unread))
    else:
        by_result = dict(_in_file(path))
    return _audited(by_result, unread)


def _audited(by_result: Mapping[str, list[Evidence]], unread: Mapping[str, str]) -> Audit:
    suspects = []
    for advisory in advisories():
        for name, conversions in by_result.items():
            answer, evidence = max(((advisory.judge(earlier), earlier) for earlier in conversions),
                               key=lambda pair: pair[0], default=(Affected.NO, None))  # fmt: skip
            if evidence is not None and answer is not Affected.NO:
                found_by = (advisory.id, evidence.release, advisory.crossed(evidence))
                suspects.append(SuspectResult(name, WORDS[answer], *found_by))
    named = {suspect.advisory for suspect in suspects}
    about = tuple(advisory for advisory in advisories() if advisory.id in named)
    return Audit(len(by_result), tuple(suspects), about, dict(unread))


# -- models --------------------------------------------------------------------------------------


def _in_model(description: Info) -> list[Evidence]:
    """Returns the conversions in a model's metadata; without any, one by an unknown release."""
    lines = description.metadata.get(stamp.KEY, "").splitlines()
    stamped = [_STAMP.fullmatch(line) for line in lines]
    if not stamped:
        return [_with_content(Evidence("", description.imports), description)]
    conversions = [
        _stamped(match, description) if match else Evidence("", description.imports)
        for match in stamped
    ]
    return [*conversions[:-1], _with_content(conversions[-1], description)]


def _with_content(evidence: Evidence, result: Info) -> Evidence:
    """Adds what the content of a result shows; older IR versions lose sparse initializers."""
    sparse = result.sparse if result.ir_version >= SPARSE_IR else None
    return dataclasses.replace(evidence, operators=result.operators, sparse=sparse)


def _stamped(line: re.Match[str], description: Info) -> Evidence:
    """Returns the conversion that a line of the metadata describes."""
    source, result = dict(description.imports), dict(description.imports)
    for name, before, after in _MOVE.findall(line["way"]):
        domain = "" if name == "opset" else name
        for versions, number in ((source, before), (result, after)):
            versions.pop(domain, None)
            if number.isdecimal():
                versions[domain] = int(number)
    if line["adapters"] is None:  # this release did not write adapters and runtimes into stamps
        return Evidence(line["release"], result, source)
    adapters = line["adapters"].split()
    return Evidence(line["release"], result, source, adapters, line["runtime"] or "")


def _planned(path: str, target: AnyTarget) -> Evidence:
    """Plans the conversion of a source model, which any earlier release may have converted."""
    planned = plan(path, target)
    work = [nodes for step in planned.steps for nodes in step.rewritten]
    adapters = {nodes.id for nodes in work}
    source = info(path)
    operators = {*source.operators, *(op for nodes in work for op in nodes.gives)}
    runtime = targets.find(target).shown if isinstance(target, str) else ""
    versions = planned.nearest, planned.source
    return Evidence("", *versions, adapters, runtime, operators, source.sparse)


# -- outcomes ------------------------------------------------------------------------------------


# The kinds of JSON objects about conversions, of which the last two have no result.
_AUDITED = ("report", "row", "refused", "error")


def _in_file(path: str) -> Iterator[tuple[str, list[Evidence]]]:
    with open(path, "rb") as file:
        head = file.read(len(journal.HEAD))
    if head == journal.HEAD:
        yield from _in_journal(path)
        return
    if os.path.splitext(path)[1].lower() in FORMATS.keys() - {".jsonl"}:
        raise InvalidModel(
            f"{path}: the audit reads results only as JSON Lines; write them with"
            " `opshift batch --results FILE.jsonl`"
        )
    outcomes = list(_outcomes(path)) if head.lstrip()[:1] == b"{" else []
    kinds = {str(outcome["kind"]) for outcome in outcomes if "kind" in outcome}
    if not kinds:
        yield path, _in_model(info(path))
    elif kinds.isdisjoint(_AUDITED):
        raise InvalidModel(
            f"{path}: this is the output of another command ({', '.join(sorted(kinds))}); give a"
            " report of `opshift convert --json`, or the rows of a batch"
        )
    for number, raw in enumerate(outcomes, 1):
        name = str(raw.get("model") or (path if len(outcomes) == 1 else f"{path}:{number}"))
        try:
            evidence = _described(raw)
        except (KeyError, TypeError, AttributeError) as error:
            text = f"{name}: this is not a complete report or row ({error}); write it again"
            raise InvalidModel(text) from error
        if evidence is not None:
            yield name, [evidence]


def _outcomes(path: str) -> Iterator[dict[str, Any]]:
    """Yields the outcomes in a file of JSON or JSON Lines."""
    text = Path(path).read_text("utf-8", "replace")
    try:
        whole = parsed(text)
        results = whole.get("results") if whole.get("kind") == "several" else None
        outcomes: Iterable[Any] = results if isinstance(results, list) else [whole]
    except ValueError:
        outcomes = map(parsed, text.splitlines())
    try:
        for outcome in outcomes:
            if not isinstance(outcome, dict):
                raise ValueError(f"{type(outcome).__name__} is not an object")
            yield outcome
    except ValueError as error:
        raise InvalidModel(f"{path} is not a model, report or journal: {error}") from None


def _described(raw: Mapping[str, Any]) -> Evidence | None:
    """Returns the conversion that a report or a row describes, or None without a result."""
    if raw.get("kind") == "report":
        return _reported(raw)
    if raw.get("kind") == "row" and raw.get("outcome") in (Fate.OK, Fate.SKIPPED):
        return _recorded(raw["result"], raw.get("origin"), raw["source"])
    return None


def _reported(raw: Mapping[str, Any]) -> Evidence:
    """Returns the conversion that a report describes."""
    adapters = {work.get("id", "") for step in raw["steps"] for work in step["rewritten"]}
    runtime = (raw["runtime"] or {}).get("target", "") if "runtime" in raw else None
    release = raw.get("opshift_version") or UNNAMED
    return Evidence(release, _normal(raw["result"]), _normal(raw["source"]), adapters, runtime)


def _recorded(
    result: Mapping[str, int], origin: Origin | Mapping[str, Any] | None,
    source: Mapping[str, int] | None = None,
) -> Evidence:  # fmt: skip
    """Returns the conversion that the file of a result, a journal or a results file describes."""
    versions = _normal(result), _normal(source) if source else None
    if origin is None:
        return Evidence(UNNAMED, *versions)
    origin = origin if isinstance(origin, Origin) else Origin.from_dict(origin)
    return Evidence(origin.opshift_version, *versions, origin.adapters, origin.runtime)


def _normal(versions: Mapping[str, int]) -> dict[str, int]:
    return {normal(domain): version for domain, version in versions.items()}


def _in_journal(path: str) -> Iterator[tuple[str, list[Evidence]]]:
    for outcome in journal.reading(path):
        if outcome.fate in (Fate.OK, Fate.SKIPPED):
            yield (
                printable(outcome.name),
                [_recorded(outcome.result, outcome.origin, outcome.source)],
            )


def _in_folder(folder: str, unread: dict[str, str]) -> Iterator[tuple[str, list[Evidence]]]:
    """Yields the models in a folder, each with the conversions that may have written it."""
    marked = dict(_marked(folder))
    for path in sorted(path for path in Path(folder).rglob("*") if has_ending(path.name)):
        if HIDDEN in path.relative_to(folder).parts or not path.is_file():
            continue
        try:
            description = info(path)
        except (InvalidModel, OSError) as error:
            unread[str(path)] = str(error)
            continue
        mark = marked.get(path)
        if mark is None:
            yield str(path), _in_model(description)
        else:
            evidence = _recorded(mark.result, mark.origin)
            yield str(path), [_with_content(evidence, description)]


def _marked(folder: str) -> Iterator[tuple[Path, Mark]]:
    """Yields the results of a batch with their marks, except results whose size has changed."""
    home = Path(folder, HIDDEN, "marks")
    for path in home.rglob("*.json"):
        mark = marks.read(str(path))
        for name, size, _ in mark.writes[:1] if mark else ():
            result = Path(folder, path.parent.relative_to(home), name)
            if mark and result.is_file() and result.stat().st_size == size:
                yield result, mark
