# SPDX-License-Identifier: Apache-2.0
"""Converts every official node test to other versions of its operators, and compares outputs.

    python -m tools.conformance nodes [--only GLOB] [--sample N --seed S] [--shape flat|if|function]
                         [--jobs 2] [--json FILE]

The expected outputs ship with the test; for random operators, they are the oracle's results before
the conversion. Each test is converted to the last opset before each change of its operators, up and
down, and to an opset before their introduction. The result is evaluated node by node in engines
that are trusted for the versions (opshift.verify.oracle), in a child process.
"""

from __future__ import annotations

import argparse
import functools
import json
import random
import sys
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import nullcontext
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, TextIO

import numpy as np
import onnx
from onnx import ModelProto
from opshift import Refused, convert_version
from opshift.author import registry
from opshift.author.present_types import element_types
from opshift.convert.legal import checker
from opshift.errors import RefusedNode
from opshift.opsets import schemas
from opshift.opsets.elements import ELEMENTS

from tools.conformance.impossible import Catalogue
from tools.conformance.node_tests import SHAPES, NodeTest, official, subject, targets
from tools.conformance.target_tables import DEFECTS, TargetResult, failures, report
from tools.lib import children
from tools.lib.program import described

# The first opset at which a type is allowed in the interface of a graph.
INTERFACE = {
    "seq": 11, "optional": 15,
    **{number.name.lower(): element.opset for number, element in ELEMENTS.items()},
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class NodeVerdict:
    """The outcome of a conversion, or the reason why there is no result."""

    outcome: str
    detail: str = ""
    refusals: tuple[RefusedNode, ...] = ()


@dataclass(frozen=True, slots=True)
class TestSubject:
    """A test, possibly moved into a subgraph or function, and its expected outputs."""

    test: NodeTest
    model: ModelProto
    inputs: dict[str, Any]
    truth: list[Any] | None


def examine(test: NodeTest, shape: str) -> list[TargetResult]:
    """Converts one test to all of its targets; runs in a child process."""
    plain = ModelProto.FromString(test.model)
    domain, op = subject(plain)
    version = {schemas.normal(i.domain): i.version for i in plain.opset_import}[domain]
    moved = _moved(test, plain, shape)
    results = []
    for to in targets(plain, domain):
        verdict = _at(moved, domain, to)
        outcome, refusals = verdict.outcome, verdict.refusals
        if outcome == "refused" and _inexpressible(plain, domain, to):
            outcome, refusals = "interface", ()
        unexcused = _catalogue().unexcused(plain, refusals) if refusals else ()
        place = (test.name, op, domain, version, to)
        results.append(TargetResult(*place, outcome, verdict.detail, refusals, unexcused))
    return results


@functools.cache
def _catalogue() -> Catalogue:
    return Catalogue()


def _moved(test: NodeTest, plain: ModelProto, shape: str) -> TestSubject:
    model = SHAPES[shape](plain)
    inputs = {i.name: v for i, v in zip(plain.graph.input, test.data[0], strict=False)}
    if shape == "if":
        inputs["which_way"] = np.array(len(test.name) % 2 == 0)
    return TestSubject(test, model, inputs, _truth(model, inputs, test))


def _truth(model: ModelProto, inputs: dict[str, Any], test: NodeTest) -> list[Any] | None:
    """Returns the official outputs, or the oracle's if they differ; None if the oracle fails."""
    from opshift.verify import oracle

    official = list(test.data[1])
    try:
        actual: list[Any] = oracle.evaluate(model, inputs)
    except oracle.OracleError:
        return None
    if oracle.compare(official, actual, rtol=test.rtol, atol=test.atol) is None:
        return official
    return actual


def _at(case: TestSubject, domain: str, to: int) -> NodeVerdict:
    """Converts a test to one version and judges the result."""
    try:
        converted = convert_version(case.model, {domain: to})
    except Refused as refused:
        return NodeVerdict("refused", refusals=refused.refusals)
    except Exception as error:
        return NodeVerdict("invalid", f"{type(error).__name__}: {error}"[:300])
    objection = checker.whole(converted, registry.default(), full=True)
    if objection is not None and checker.whole(case.model, registry.default(), full=True) is None:
        return NodeVerdict("invalid", f"checker: {objection[:300]}")
    return _judged(case, converted)


def _judged(case: TestSubject, converted: ModelProto) -> NodeVerdict:
    """Returns the outcome of a converted model, with the difference from the truth."""
    from opshift.verify import oracle

    if case.truth is None:
        return NodeVerdict("unverified", "no engine can compute the official test")
    try:
        actual = oracle.evaluate(converted, case.inputs)
    except oracle.OracleError as error:
        return NodeVerdict("invalid", str(error)[:300])
    atol = max(case.test.atol, _rounding(case.test, case.truth))
    difference = oracle.compare(case.truth, actual, rtol=case.test.rtol, atol=atol)
    return NodeVerdict("equal") if difference is None else NodeVerdict("wrong", difference[:300])


def _rounding(test: NodeTest, truth: list[Any]) -> float:
    """Returns a tolerance for Fourier transforms, whose sums round by their largest element."""
    graph = ModelProto.FromString(test.model).graph
    if not {"DFT", "STFT"} & {node.op_type for node in graph.node}:
        return 0.0
    return max(float(np.finfo(value.dtype).eps * np.abs(value).max(initial=0)) for value in truth)


def _inexpressible(model: ModelProto, domain: str, to: int) -> bool:
    """Returns whether the interface has a type that does not exist at the target."""
    if domain:
        return False
    infos = (*model.graph.input, *model.graph.output)
    names = {name for info in infos for name in element_types(info.type)}
    return any(INTERFACE.get(name, 1) > to for name in names)


def survey(
    tests: Sequence[NodeTest], shape: str, jobs: int, log: TextIO | None = None
) -> list[TargetResult]:
    """Runs every test in a child process of its own; also writes results to the log."""

    def one(test: NodeTest) -> list[TargetResult]:
        outcome = children.run(examine, test, shape, seconds=300, megabytes=8000)
        if not outcome.error:
            return outcome.value  # type: ignore[no-any-return]
        domain, op = subject(ModelProto.FromString(test.model))
        return [TargetResult(test.name, op, domain, 0, 0, "crashed", outcome.error[:300])]

    all_results = []
    with ThreadPoolExecutor(jobs) as pool:
        for results in pool.map(one, tests):
            all_results += results
            if log is not None:
                log.writelines(json.dumps(asdict(r), default=str) + "\n" for r in results)
                log.flush()
    return all_results


def main() -> int:
    arguments = _parser().parse_args()
    tests = official(arguments.only)
    if arguments.sample:
        tests = random.Random(arguments.seed).sample(tests, min(arguments.sample, len(tests)))
    with arguments.json.open("w") if arguments.json else nullcontext() as log:
        results = survey(tests, arguments.shape, arguments.jobs, log)
    title = f"{arguments.shape}, {len(tests)} tests, onnx {onnx.__version__}"
    lines = list(report(results, title))
    print("\n".join([*lines, *failures(results)]))
    return int(any(result.outcome in DEFECTS for result in results))


def _parser() -> argparse.ArgumentParser:
    parser = described(__doc__)
    add = parser.add_argument
    add("--only", nargs="*", default=[], metavar="GLOB")
    add("--sample", type=int)
    add("--seed", type=int, default=0)
    add("--shape", choices=SHAPES, default="flat")
    add("--jobs", type=int, default=2)
    add("--json", type=Path, help="a file to which each result is written at once")
    return parser


if __name__ == "__main__":
    sys.exit(main())
