"""Converts every official node test to every other meaning of its operators and compares the data.

    tools/conformance.py [--only GLOB] [--sample N --seed S] [--shape flat|if|function]
                         [--converter opshift|onnx] [--jobs 2] [--write docs/conformance.md]

The outputs that ship with a test are the truth; for random operators, what the judge draws before.
Each test is converted, up and down, to the highest version of every other equivalence class of
its operators, and below their introduction. What comes out is evaluated node by node on engines
trusted for the versions (opshift.verify.oracle), in a child process.
"""

from __future__ import annotations

import argparse
import fnmatch
import random
import sys
import warnings
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import children
import onnx
from onnx import FunctionProto, ModelProto, helper, numpy_helper
from opshift import Refused, check, convert_version, schemas
from opshift.facts import element_types

ROOT = Path(__file__).resolve().parent.parent
BELOW = (18, 17, 15, 13, 12, 11, 10, 9, 8, 7, 6, 5, 1)
# The version at which a type can first stand in a graph's interface.
INTERFACE = {
    "bfloat16": 13,
    "seq": 11,
    "optional": 15,
    **dict.fromkeys(("float8e4m3fn", "float8e4m3fnuz", "float8e5m2", "float8e5m2fnuz"), 19),
    **dict.fromkeys(("int4", "uint4"), 21),
    "float4e2m1": 23,
    "float8e8m0": 24,
    **dict.fromkeys(("int2", "uint2"), 25),
    **dict.fromkeys(("float6e2m3", "float6e3m2"), 28),
}
OUTCOMES = ("equal", "refused", "interface", "wrong", "invalid", "crashed", "unverified")


@dataclass(frozen=True, slots=True)
class Test:
    """One official node test, made picklable."""

    name: str
    model: bytes
    data: tuple[tuple[Any, ...], tuple[Any, ...]]
    rtol: float
    atol: float


@dataclass(frozen=True, slots=True)
class Result:
    """What became of one test at one target."""

    test: str
    op: str
    domain: str
    start: int
    to: int
    outcome: str
    why: str = ""
    blocker: str = ""
    detail: str = ""

    @property
    def direction(self) -> str:
        return "up" if self.to > self.start else "down"


@dataclass(slots=True)
class Tally:
    """Results counted for the tables."""

    counts: dict[tuple[str, str], Counter[str]] = field(
        default_factory=lambda: defaultdict(Counter)
    )
    results: list[Result] = field(default_factory=list)

    def add(self, result: Result) -> None:
        self.results.append(result)
        self.counts[result.direction, result.domain][result.outcome] += 1


# ---------------------------------------------------------------- the tests


def official(only: Sequence[str]) -> list[Test]:
    """The node tests that the installed onnx generates; expansions into functions left out."""
    from onnx.backend.test.case.node import collect_testcases

    found = []
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        cases = collect_testcases(None)
    for case in cases:
        wanted = not only or any(fnmatch.fnmatch(case.name, pattern) for pattern in only)
        if case.model is None or not case.data_sets or "_expanded" in case.name or not wanted:
            continue
        inputs, outputs = case.data_sets[0]
        data = (tuple(map(_plain, inputs)), tuple(map(_plain, outputs)))
        text = case.model.SerializeToString()
        found.append(Test(case.name, text, data, case.rtol or 1e-3, case.atol or 1e-7))
    return found


def _plain(value: Any) -> Any:
    if isinstance(value, onnx.TensorProto):
        return numpy_helper.to_array(value)
    if isinstance(value, onnx.SequenceProto):
        return numpy_helper.to_list(value)
    if isinstance(value, onnx.OptionalProto):
        return numpy_helper.to_optional(value)
    return value


def subject(model: ModelProto) -> tuple[str, str]:
    """The operator under test: of the domain that is not the default one, if there is one."""
    keys = [(schemas.normal(n.domain), n.op_type) for n in model.graph.node]
    return next((key for key in keys if key[0]), keys[0])


def targets(model: ModelProto, domain: str) -> list[int]:
    """The top of every equivalence class of the model's operators, and versions below them all."""
    used = {n.op_type for n in model.graph.node if schemas.normal(n.domain) == domain}
    newest = schemas.latest(domain) or 1
    births = [schemas.history(domain, op) for op in used if schemas.history(domain, op)]
    starts = {schema.since for history in births for schema in history}
    born = max(history[0].since for history in births)
    tops = {since - 1 for since in starts if since - 1 >= born} | {newest}
    below = {v for v in (born - 1, *BELOW) if 1 <= v < born}
    own = {schemas.normal(i.domain): i.version for i in model.opset_import}[domain]
    return sorted((tops | below) - {own})


def nested(model: ModelProto) -> ModelProto:
    """The same graph in both branches of an If."""
    moved = ModelProto()
    moved.CopyFrom(model)
    graph = moved.graph
    branch = onnx.GraphProto(name="branch")
    branch.node.extend(graph.node)
    branch.output.extend(graph.output)
    branch.initializer.extend(graph.initializer)
    del graph.node[:], graph.initializer[:]
    graph.input.append(helper.make_tensor_value_info("which_way", onnx.TensorProto.BOOL, []))
    other = onnx.GraphProto()
    other.CopyFrom(branch)
    other.name = "other"
    if not any(schemas.normal(i.domain) == "" for i in moved.opset_import):
        moved.opset_import.append(helper.make_opsetid("", 21))
    names = [output.name for output in graph.output]
    graph.node.append(
        helper.make_node("If", ["which_way"], names, then_branch=branch, else_branch=other)
    )
    return moved


def function(model: ModelProto) -> ModelProto:
    """The same graph as a model-local function."""
    moved = ModelProto()
    moved.CopyFrom(model)
    graph = moved.graph
    body = FunctionProto(name="Body", domain="moved")
    body.input.extend(i.name for i in graph.input)
    body.output.extend(o.name for o in graph.output)
    for tensor in graph.initializer:
        body.node.append(helper.make_node("Constant", [], [tensor.name], value=tensor))
    body.node.extend(graph.node)
    body.opset_import.extend(moved.opset_import)
    del graph.node[:], graph.initializer[:]
    graph.node.append(helper.make_node("Body", body.input, body.output, domain="moved"))
    moved.functions.append(body)
    moved.opset_import.append(helper.make_opsetid("moved", 1))
    moved.ir_version = max(moved.ir_version, 8)
    return moved


SHAPES = {"flat": lambda model: model, "if": nested, "function": function}


# ---------------------------------------------------------------- one test, in a child


def examine(test: Test, shape: str, converter: str) -> list[Result]:
    """All targets of one test."""
    plain = ModelProto.FromString(test.model)
    domain, op = subject(plain)
    model = SHAPES[shape](plain)
    own = {schemas.normal(i.domain): i.version for i in plain.opset_import}[domain]
    inputs = {i.name: v for i, v in zip(plain.graph.input, test.data[0], strict=False)}
    if shape == "if":
        import numpy as np

        inputs["which_way"] = np.array(len(test.name) % 2 == 0)
    truth = _truth(model, inputs, test)
    found = []
    for to in targets(plain, domain):
        outcome, why, blocker, detail = _at(model, domain, to, converter, inputs, test, truth)
        if outcome == "refused" and _inexpressible(plain, domain, to):
            outcome = "interface"
        found.append(Result(test.name, op, domain, own, to, outcome, why, blocker, detail))
    return found


def _truth(model: ModelProto, inputs: dict[str, Any], test: Test) -> list[Any] | None:
    """The official outputs; what the judge draws where a test is random; None beyond the judge."""
    from opshift.verify import oracle

    official = list(test.data[1])
    try:
        actual: list[Any] = oracle.evaluate(model, inputs)
    except oracle.OracleError:
        return None
    if oracle.compare(official, actual, rtol=test.rtol, atol=test.atol) is None:
        return official
    return actual


def _judged(
    model: ModelProto, inputs: dict[str, Any], truth: list[Any] | None, test: Test
) -> tuple[str, str]:
    """The outcome of a converted model, and how its outputs differ from the truth."""
    from opshift.verify import oracle

    if truth is None:
        return "unverified", "nobody can judge the test as it came"
    try:
        actual = oracle.evaluate(model, inputs)
    except oracle.OracleError as error:
        return "invalid", str(error)
    difference = oracle.compare(truth, actual, rtol=test.rtol, atol=test.atol)
    return ("equal", "") if difference is None else ("wrong", difference)


def _at(
    model: ModelProto,
    domain: str,
    to: int,
    converter: str,
    inputs: dict[str, Any],
    test: Test,
    truth: list[Any] | None,
) -> tuple[str, str, str, str]:
    try:
        converted = _convert(model, domain, to, converter)
    except Refused as refused:
        first = refused.refusals[0]
        return "refused", first.why.name, f"{first.op} {first.boundary}", first.detail
    except Exception as error:
        if converter == "onnx":
            return "refused", type(error).__name__, "", str(error)[:200]
        return "invalid", type(error).__name__, "", str(error)[:300]
    objection = check.whole(converted, full=True)
    if objection is not None and check.whole(model, full=True) is None:
        return "invalid", "checker", "", objection[:300]
    outcome, difference = _judged(converted, inputs, truth, test)
    return outcome, "", "", difference[:300]


def _convert(model: ModelProto, domain: str, to: int, converter: str) -> ModelProto:
    if converter == "opshift":
        return convert_version(model, {domain: to})  # type: ignore[no-any-return]
    if domain:
        raise ValueError("onnx.version_converter converts the default domain only")
    return onnx.version_converter.convert_version(model, to)


def _inexpressible(model: ModelProto, domain: str, to: int) -> bool:
    """Whether the graph's interface has a type that does not exist at the target."""
    if domain:
        return False
    infos = (*model.graph.input, *model.graph.output)
    names = {name for info in infos for name in element_types(info.type)}
    return any(INTERFACE.get(name, 1) > to for name in names)


# ---------------------------------------------------------------- all tests


def survey(tests: Sequence[Test], shape: str, converter: str, jobs: int) -> Tally:
    """Every test in its own child."""
    tally = Tally()

    def one(test: Test) -> list[Result]:
        outcome = children.run(examine, test, shape, converter, seconds=300, megabytes=8000)
        if outcome.ok:
            return outcome.value  # type: ignore[no-any-return]
        model = ModelProto.FromString(test.model)
        domain, op = subject(model)
        return [Result(test.name, op, domain, 0, 0, "crashed", detail=str(outcome)[:300])]

    with ThreadPoolExecutor(jobs) as pool:
        for results in pool.map(one, tests):
            for result in results:
                tally.add(result)
    return tally


def report(tally: Tally, title: str) -> Iterator[str]:
    """The tables in Markdown."""
    yield f"### {title}"
    yield ""
    yield "| direction | domain | " + " | ".join(OUTCOMES) + " |"
    yield "|---|---|" + "---|" * len(OUTCOMES)
    for (direction, domain), counts in sorted(tally.counts.items()):
        cells = " | ".join(str(counts[name]) for name in OUTCOMES)
        yield f"| {direction} | {domain or 'ai.onnx'} | {cells} |"
    yield ""
    refused = Counter(
        (r.blocker, r.why, _general(r.detail)) for r in tally.results if r.outcome == "refused"
    )
    if refused:
        yield "| refused | blocker | why | reason |"
        yield "|---|---|---|---|"
        for (blocker, why, detail), count in refused.most_common():
            yield f"| {count} | {blocker} | {why} | {detail.replace('|', '/')} |"
        yield ""


def failures(tally: Tally) -> Iterator[str]:
    for result in tally.results:
        if result.outcome in ("wrong", "invalid", "crashed", "unverified"):
            yield (
                f"{result.outcome}: {result.test} {result.op} {result.start}->{result.to}:"
                f" {result.why} {result.detail}"
            )


def _general(detail: str) -> str:
    """A reason without the names of this model's values."""
    import re

    return re.sub(r"'[^']*'", "'…'", detail)[:160]


def write_between(path: Path, mark: str, text: str) -> None:
    """Replaces what stands between two comments, or appends them."""
    begin, end = f"<!-- {mark}:begin -->", f"<!-- {mark}:end -->"
    old = path.read_text() if path.exists() else "# Conformance\n"
    if begin not in old:
        old = f"{old.rstrip()}\n\n{begin}\n{end}\n"
    head, rest = old.split(begin)
    path.write_text(f"{head}{begin}\n{text}\n{end}{rest.split(end)[1]}")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])  # type: ignore[union-attr]
    parser.add_argument("--only", nargs="*", default=[], metavar="GLOB")
    parser.add_argument("--sample", type=int)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--shape", choices=SHAPES, default="flat")
    parser.add_argument("--converter", choices=("opshift", "onnx"), default="opshift")
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--write", type=Path)
    arguments = parser.parse_args()
    tests = official(arguments.only)
    if arguments.sample:
        tests = random.Random(arguments.seed).sample(tests, min(arguments.sample, len(tests)))
    tally = survey(tests, arguments.shape, arguments.converter, arguments.jobs)
    title = f"{arguments.converter}, {arguments.shape}, {len(tests)} tests, onnx {onnx.__version__}"
    lines = list(report(tally, title))
    print("\n".join(lines))
    print("\n".join(failures(tally)))
    if arguments.write:
        mark = f"conformance-{arguments.converter}-{arguments.shape}"
        command = " ".join(["tools/conformance.py", *sys.argv[1:]])
        write_between(arguments.write, mark, "\n".join([f"`{command}`", "", *lines]))
    bad = [r for r in tally.results if r.outcome in ("wrong", "invalid", "crashed")]
    return 1 if bad and arguments.converter == "opshift" else 0


if __name__ == "__main__":
    sys.exit(main())
