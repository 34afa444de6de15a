# SPDX-License-Identifier: Apache-2.0
"""Turns the `@example`s of a package into models, and asserts that they convert as stated."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from opshift import versions
from opshift.author import registry
from opshift.author.example import Example
from opshift.author.verdicts import FORM, LEAVE, WORDS, Adapter
from opshift.convert.request import Request
from opshift.opsets import schemas
from opshift.opsets.targets import Lacking, RuntimeRelease
from opshift.opsets.types import dims_of, rank_of
from opshift.opsets.wanted import Wanted
from opshift.protos import ModelProto
from opshift.testing.case_files import examples_of
from opshift.testing.compared import compared
from opshift.testing.input_sets import SETS
from opshift.testing.judge_process import shared
from opshift.testing.models import (
    Evaluate,
    assert_invalid,
    assert_model_converts,
    assert_refused,
    parsed,
)
from opshift.verify import oracle

EVERYDAY = 17  # the opset of ai.onnx in examples for leaving a domain or decomposing an operator


def examples(package: str) -> list[tuple[Adapter, Example]]:
    """Returns all examples of a package's adapters, for `pytest.mark.parametrize`."""
    return [
        (adapter, example)
        for adapter in registry.default().adapters()
        if stands_in(package, adapter)
        for example in examples_of(adapter)
    ]


def stands_in(package: str, adapter: Adapter) -> bool:
    """Returns whether an adapter is declared in `package`, which may also name one module."""
    return f"{adapter.module}.".startswith(f"{package}.")


def example_model(
    adapter: Adapter, example: Example, imports: Mapping[str, int] | None = None
) -> ModelProto:
    """Returns an example as a model at its source version; `imports` adds other domains."""
    all_imports = {**(imports or {}), **example.imports}
    if (adapter.start, adapter.to) == LEAVE:
        all_imports.setdefault(adapter.domain, _birth(adapter))
        all_imports.setdefault("", EVERYDAY)
    if adapter.at_boundary:
        all_imports[adapter.domain] = adapter.start
    if (adapter.start, adapter.to) == WORDS:
        all_imports.setdefault("", max(EVERYDAY, _birth(adapter)))
    ir = example.ir_version or max(versions.ir_for(all_imports), 8 if example.functions else 4)
    listed = ", ".join(f'"{domain}" : {version}' for domain, version in all_imports.items())
    header = f"<ir_version: {ir}, opset_import: [{listed}]>"
    return parsed(f"{header} example {example.graph} {example.functions}")


def _birth(adapter: Adapter) -> int:
    """Returns the lowest version of a domain that has all operators of an adapter."""
    histories = (schemas.history(adapter.domain, op) for op in adapter.ops)
    return max((history[0].since for history in histories if history), default=1)


def too_new(adapter: Adapter, example: Example) -> bool:
    """Returns whether the installed onnx lacks a version or the operators of an example."""
    if (adapter.start, adapter.to) == WORDS and not any(
        schemas.history(adapter.domain, op) for op in adapter.ops
    ):
        return True
    required = dict(example.imports)
    required[adapter.domain] = max(adapter.start, adapter.to, required.get(adapter.domain, 1))
    return any(version > _newest(domain, version) for domain, version in required.items())


def _newest(domain: str, version: int) -> int:
    """Returns the newest version in the installed onnx; `version` itself for an unknown domain."""
    return schemas.latest(domain) or (0 if domain in versions.DOMAINS else version)


def example_target(adapter: Adapter, example: Example) -> dict[str, int] | Request:
    """Returns the version, the runtime or the domain to which the example is converted.

    A result that the runtime cannot run is accepted too, because an example may show a node that
    stays unchanged.
    """
    if adapter.runtime:
        return Request.of(example.runtime or adapter.runtime, keep_unrunnable=True)
    if (adapter.start, adapter.to) == WORDS:
        named = re.findall(r"\w+", example.graph)
        lacks = tuple(Lacking(op) for op in adapter.ops if op in named)
        # Otherwise an exact decomposition with other operators would win over the approximate one.
        result_ops = dict.fromkeys((example.gives or "").split()) if example.approximate else ()
        only = tuple(map(Lacking, result_ops))
        lacking = RuntimeRelease(
            "a runtime without them", "", {}, None, "", without=lacks, only=only
        )
        return Request(Wanted(lacking))
    if (adapter.start, adapter.to) == LEAVE:
        return Request(domains=("ai.onnx",))
    if adapter.at_boundary:
        return {adapter.domain: adapter.to}
    start = next(iter(example.imports.values()))
    if (adapter.start, adapter.to) == FORM:  # a form is written at the end of a conversion down
        return {adapter.domain: start - 1}
    return {adapter.domain: start + 1}  # a conversion up replaces an operator at its first step


def assert_example(
    adapter: Adapter, example: Example, *, imports: Mapping[str, int] | None = None,
    evaluate: Evaluate | None = None, sets: Sequence[str] = SETS,
) -> ModelProto | None:  # fmt: skip
    """Asserts that an example converts as stated; returns the result, or None if refused.

    `imports` adds the versions of other domains.
    """
    model, target = example_model(adapter, example, imports), example_target(adapter, example)
    if example.invalid is not None:
        assert_invalid(model, target, match=example.invalid)
        return None
    if example.refuses is not None:
        assert_refused(model, target, why=example.refuses, **example.options)
        return None
    inputs = oracle.make_inputs(model, overrides=dict(example.inputs))
    _assert_fit(model, inputs)
    after = assert_model_converts(
        model, target, gives=example.gives, evaluate=evaluate,
        rtol=example.rtol, atol=example.atol, inputs=inputs,
        **example.options,
    )  # fmt: skip
    edge_cases = [name for name in sets if name != "given"]
    if not example.approximate:
        for name, difference in differences(model, after, example, edge_cases, evaluate):
            if difference:
                raise AssertionError(f"the results differ on the inputs {name!r}: {difference}")
    return after


def _assert_fit(model: ModelProto, inputs: Mapping[str, oracle.Value]) -> None:
    """Asserts that the inputs of an example have the shapes that its graph declares."""
    for info in model.graph.input:
        shape = getattr(inputs.get(info.name), "shape", None)
        if shape is None or rank_of(info.type) is None:
            continue
        declared = dims_of(info.type)
        pairs = zip(declared, shape, strict=False)
        other = len(declared) != len(shape) or any(isinstance(a, int) and a != b for a, b in pairs)
        if other:
            raise AssertionError(
                f"the input {info.name!r} has the shape {shape}, but the graph declares {declared}"
            )


def differences(
    before: ModelProto, after: ModelProto, example: Example, sets: Sequence[str] = SETS,
    evaluate: Evaluate | None = None,
) -> list[tuple[str, str]]:  # fmt: skip
    """Returns the sets of inputs that the original accepts, each with a difference or "".

    Without `evaluate`, the engines run in a child process, because onnxruntime may crash.
    """
    tolerance = example.rtol, example.atol
    if evaluate is None:
        return shared().compare(before, after, example.inputs, sets, tolerance)
    rtol, atol = tolerance
    steps = compared(before, after, example.inputs, sets, evaluate, rtol=rtol, atol=atol)
    return list({name: difference for name, difference in steps if difference is not None}.items())
