# SPDX-License-Identifier: Apache-2.0
"""Plans a conversion by a trial conversion without large weights, also beyond the target."""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING

from opshift.author import registry
from opshift.author.registry import Registry
from opshift.convert import target_versions
from opshift.convert.attempt import Conversion
from opshift.convert.cheapest_strategy import opener_of
from opshift.convert.legal import diagnose
from opshift.convert.request import (
    AnyTarget,
    ConversionOptions,
    Request,
    require_effects,
    takes_options,
)
from opshift.convert.strategies import STRAIGHT
from opshift.look import paths
from opshift.look.plan import Path, Plan
from opshift.look.rehearse import Limit, Rehearsals, Rehearsed, Skeleton, Source, newest
from opshift.model.bytes import documents
from opshift.model.bytes.source import Opened
from opshift.protos import ModelProto, isolation
from opshift.report import Report

if TYPE_CHECKING:
    from typing_extensions import Unpack


@takes_options
def plan(
    model: ModelProto | str | os.PathLike[str],
    target: AnyTarget = None,
    *,
    isolate: bool | None = None,
    **options: Unpack[ConversionOptions],
) -> Plan:
    """Plan a conversion: what it would do, or every node that blocks it.

    The function writes no file and does not change the model. If only the header of a file would
    change, the plan has no lowest and highest versions.

    Parameters
    ----------
    model : ModelProto or path
        The model.
    target : int, mapping or str, optional
        An opset, versions by domain (`{"": 13, "ai.onnx.ml": 2}`), or a runtime
        (`"onnxruntime==1.10"`). Without a target only the IR version changes.
    isolate : bool, optional
        Call the C++ code of onnx in a child process, so that no model ends or hangs this process.
        By default the environment variable OPSHIFT_ISOLATE decides.
    **options
        The options of a conversion.

    Returns
    -------
    Plan
        `.possible`, the changes of each operator, the blockers, the lowest and highest versions.

    Raises
    ------
    InvalidModel, BadTarget, TypeError, OSError
        As `opshift.convert_version`. `Refused` is not raised: the plan lists the refused nodes.

    Examples
    --------
    >>> import opshift
    >>> opshift.plan("model.onnx", 13).possible
    True
    """
    request = require_effects(Request.of(target, **options))
    with isolation.isolated(isolate):
        file = Opened(os.fspath(model)) if isinstance(model, (str, os.PathLike)) else model
        return plan_with_result(file, request)[0]


@diagnose.protobuf_errors()
def plan_with_result(model: Source, options: Request) -> tuple[Plan, Skeleton | None]:
    """Returns the plan of a conversion, and the converted model if it exists."""
    with documents.beside(model):
        return _plan_with_result(model, options, registry.default())


def _plan_with_result(
    model: Source, options: Request, adapters: Registry
) -> tuple[Plan, Skeleton | None]:
    # a conversion of only the header does not read nodes, so it must not refuse any
    shared = dataclasses.replace(options, check="none") if options.only_ir else options
    runs = Rehearsals(opener_of(model), shared, adapters)
    rehearsed = runs.rehearse(options)
    opened = runs.opened().branch(options, STRAIGHT)
    target_versions.set_goal(opened)
    source, report, refused = dict(opened.document.imports), rehearsed.report, rehearsed.refused
    target = _reached(opened.goal, source, report)
    header_only = isinstance(model, Opened) and _changes_no_operator(options, report)
    low, high = _limits(runs, source, rehearsed, {} if header_only else target)
    plan = Plan(
        source,
        target,
        tuple(_paths(opened, rehearsed)),
        tuple(step for step in rehearsed.steps if step.rewritten or step.kept),
        rehearsed.refusals,
        refused.nearest if refused else report.result if report else source,
        {domain: limit.version for domain, limit in low.items()},
        {domain: limit.version for domain, limit in high.items()},
        report.approximations if report else (),
        header_only=header_only,
        outgrown=tuple(sorted(d for d in low if low[d].outgrown or high[d].outgrown)),
        notes=report.notes if report else (),
        assumptions=report.assumptions if report else (),
        modernized=report.modernized if report else (),
        runtime=report.runtime if report else None,
        ir_before=report.ir_before if report else opened.document.model.ir_version,
        ir_after=report.ir_after if report else None,
    )
    return plan, rehearsed.result


def _limits(
    runs: Rehearsals, source: Mapping[str, int], prior: Rehearsed, wanted: Mapping[str, int]
) -> tuple[dict[str, Limit], dict[str, Limit]]:
    """Returns the lowest and highest versions; the search begins in the plan's direction."""
    low, high = dict[str, Limit](), dict[str, Limit]()
    for domain, to in wanted.items():
        ways = [(low, 1), (high, newest(domain, source))]
        for found, end in ways if to < source.get(domain, to) else reversed(ways):
            found[domain] = runs.furthest(domain, source, end, prior, wanted)
    return low, high


def _reached(
    goal: Mapping[str, int], source: Mapping[str, int], report: Report | None
) -> dict[str, int]:
    """Returns the target versions; if they depend on the result's nodes, its versions."""
    result = report.result if report else {}
    moved = {d: v for d, v in result.items() if d in goal or source.get(d, v) != v}
    return {**goal, **moved}


def _changes_no_operator(options: Request, report: Report | None) -> bool:
    """Returns whether a conversion without options other than its target changes no operator."""
    if report is None or not options.target or options != Request(options.target):
        return False
    return not any(step.rewritten or step.kept for step in report.steps)


def _paths(opened: Conversion, rehearsal: Rehearsed) -> Iterator[Path]:
    counts: dict[tuple[str, str], int] = {}
    for root in opened.document.roots:
        for key, places in root.index.items():
            counts[key] = counts.get(key, 0) + len(places)
    source = dict(opened.document.imports)
    for (domain, op), count in sorted(counts.items()):
        if domain in opened.goal and domain in source:
            versions = source[domain], opened.goal[domain]
            yield paths.path_of(
                opened.adapters, (domain, op), versions, count, rehearsal.steps, rehearsal.refusals
            )
