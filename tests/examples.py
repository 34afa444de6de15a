"""Runs one @example: parse, check, step, check, compare what is given, refused and computed."""

from __future__ import annotations

from dataclasses import dataclass

import oracle
import pytest
import text
from onnx import ModelProto
from opshift import Refused, convert_version, registry, schemas, versions
from opshift.declare import RETIRED, Adapter, Example

ROUNDING = 4  # units in the last place: the same arithmetic, rounded in another order


@dataclass(frozen=True)
class Case:
    """One example of one adapter."""

    adapter: Adapter
    example: Example

    @property
    def id(self) -> str:
        one = self.adapter
        where = one.source.removeprefix("opshift_adapters.")
        return f"{where}[{'/'.join(one.ops[:3])} {one.start}->{one.to}] {self.example.title}"


def cases() -> list[Case]:
    return [
        Case(adapter, example)
        for adapter in registry.default().adapters()
        for example in adapter.examples
    ]


def model_of(case: Case) -> ModelProto:
    """The example as a model at the version being left."""
    example, adapter = case.example, case.adapter
    imports = dict(example.imports)
    if (adapter.start, adapter.to) != RETIRED:
        imports[adapter.domain] = adapter.start
    ir = example.ir_version or max(versions.ir_for(imports), 8 if example.functions else 4)
    listed = ", ".join(f'"{domain}" : {version}' for domain, version in imports.items())
    header = f"<ir_version: {ir}, opset_import: [{listed}]>"
    return text.parse_model(f"{header} example {example.graph} {example.functions}")


def too_new(case: Case) -> bool:
    """Whether the installed onnx does not know a version that the example needs."""
    adapter, wanted = case.adapter, dict(case.example.imports)
    wanted[adapter.domain] = max(adapter.start, adapter.to, wanted.get(adapter.domain, 0))
    newest = {domain: schemas.latest(domain) for domain in wanted}  # none of a function's domain
    return any(
        newest[domain] not in (None, 0) and v > newest[domain] for domain, v in wanted.items()
    )


def run(case: Case) -> None:
    """Fails with a sentence when the example is not what it says."""
    example, adapter = case.example, case.adapter
    before = model_of(case)
    to = (
        adapter.to
        if (adapter.start, adapter.to) != RETIRED
        else next(iter(example.imports.values())) + 1
    )
    target = {adapter.domain: to}
    try:
        after = convert_version(before, target, allow_approximate=example.approximate)
    except Refused as refused:
        assert example.refuses is not None, f"refused: {refused}"
        assert {r.why for r in refused.refusals} == {example.refuses}, str(refused)
        return
    assert example.refuses is None, f"converted, but {example.refuses} was expected"
    if example.gives is not None:
        given = " ".join(node.op_type for node in after.graph.node)
        assert given == example.gives, f"gives {given}"
    if not example.approximate:
        try:
            strict = convert_version(before, target)
        except Refused as refused:
            raise AssertionError(f"exact example needs permission: {refused}") from None
        assert strict == after, "the same input gave another result"
    told = difference(case, before, after)
    assert told is None, told


def difference(
    case: Case, before: ModelProto, after: ModelProto, rtol: float = 0.0, atol: float = 0.0
) -> str | None:
    """What differs in what the two compute; a skip where the judge is an onnx that cannot say."""
    example = case.example
    inputs = oracle.make_inputs(before, overrides=dict(example.inputs))
    doubtful = oracle.doubtful(before, after)
    try:
        expected, actual = oracle.evaluate(before, inputs), oracle.evaluate(after, inputs)
    except oracle.OracleError as error:
        if not doubtful:
            raise
        pytest.skip(f"the reference of this onnx is too old: {error}")
    rtol, atol = max(rtol, example.rtol), max(atol, example.atol)
    told = oracle.compare(expected, actual, rtol=rtol, atol=atol, ulp=ROUNDING)
    if told and doubtful:
        pytest.skip(f"the reference of this onnx is too old: {told}")
    return told
