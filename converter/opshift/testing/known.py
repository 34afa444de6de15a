# SPDX-License-Identifier: Apache-2.0
"""Asserts that declared folds, ranks, shapes and bounds give what their `@example`s state."""

from __future__ import annotations

import tempfile
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

import numpy as np

from opshift import versions
from opshift.author import registry
from opshift.author.bounds import Bounds
from opshift.author.corrected import is_wrong
from opshift.author.example import Example
from opshift.author.facts import Facts
from opshift.author.modern_rules import Modern
from opshift.author.registry import Registry
from opshift.author.traits import Fold, OutputBounds, OutputRanks, OutputShapes
from opshift.author.verdicts import Mirror
from opshift.model.arrays import Array
from opshift.model.document import Document
from opshift.model.weights import Weights
from opshift.opsets import schemas
from opshift.opsets.types import rank_of
from opshift.protos import ModelProto, helper
from opshift.testing.case_files import examples_of
from opshift.testing.input_sets import SIZES, input_sets
from opshift.testing.model_text import parse_model
from opshift.verify import engine_runs, oracle

_Kind = TypeVar("_Kind", Fold, Mirror, Modern, OutputBounds, OutputRanks, OutputShapes)


def rules_of(kind: type[_Kind], package: str) -> list[tuple[_Kind, Example]]:
    """Returns all examples of one kind of function, for `pytest.mark.parametrize`."""
    return [
        (rule, example)
        for rule in registry.default().each(kind)
        if f"{rule.run.__module__}.".startswith(f"{package}.")
        for example in examples_of(rule)
    ]


folds = partial(rules_of, Fold)
rank_rules = partial(rules_of, OutputRanks)
shape_rules = partial(rules_of, OutputShapes)
bound_rules = partial(rules_of, OutputBounds)


def bounded(rule: OutputBounds, example: Example) -> tuple[ModelProto, Bounds | None]:
    """Returns an example as a model, and the bounds of its last output."""
    model, facts = _known("", example, registry.default())
    return model, facts.bounds(facts.document.main, model.graph.output[-1].name)


def assert_bounds(rule: OutputBounds, example: Example) -> None:
    """Asserts that results lie in the bounds, or that there are no bounds if `refuses` is set."""
    model, bounds = bounded(rule, example)
    if example.refuses is not None:
        if bounds is not None:
            raise AssertionError(f"the bounds are {bounds}, but none were expected")
        return
    if bounds is None:
        raise AssertionError("the bounds are unknown")
    for name, inputs in input_sets(model, example.inputs, ("given", *SIZES)):
        try:
            value = oracle.evaluate(model, inputs)[-1]
        except oracle.OracleError:
            if name == "given":
                raise
            continue  # the operator does not allow these sizes
        _assert_between(bounds, value)


def _assert_between(bounds: Bounds, value: Array) -> None:
    if bounds.each and bounds.low.shape != value.shape:
        raise AssertionError(f"the bounds are for {bounds.low.shape}, not for {value.shape}")
    if not (np.all(bounds.low <= value) and np.all(value <= bounds.high)):
        raise AssertionError(f"{value.tolist()} is not between the bounds {bounds}")


def folded(fold: Fold, example: Example) -> tuple[ModelProto, Array | None]:
    """Returns an example as a model, and the constant that it computes."""
    model, facts = _known(fold.domain, example, registry.default())
    return model, facts.constant(facts.document.main, model.graph.output[0].name)


def ranked(rule: OutputRanks, example: Example) -> tuple[ModelProto, list[int | None]]:
    """Returns an example as a model without output shapes, and the inferred ranks."""
    model, facts = _known(rule.domain, example, registry.default())
    names = [value.name for value in model.graph.output]
    return model, [rank_of(facts.type(facts.document.main, name)) for name in names]


def _known(domain: str, example: Example, adapters: Registry) -> tuple[ModelProto, Facts]:
    """Returns a model at the newest version, or at the version of the example, and its facts."""
    imports = {domain: schemas.latest(domain) or 1, **example.imports}
    listed = ", ".join(f'"{domain}" : {version}' for domain, version in imports.items())
    ir = max(versions.ir_for(imports), 4)  # below IR 4 an initializer is not a constant
    header = f"<ir_version: {ir}, opset_import: [{listed}]>"
    model = parse_model(f"{header} example {example.graph}")
    for value in model.graph.output:
        value.type.tensor_type.ClearField("shape")
    return model, _facts(model, adapters)


def _facts(model: ModelProto, adapters: Registry) -> Facts:
    return Facts(Document(model, "opshift_"), Weights(), adapters, lambda: model)


def assert_fold(fold: Fold, example: Example) -> None:
    """Asserts that the constant equals the result; with `refuses=`, that there is no constant.

    The folding function must not return a constant if any input that it needs is unknown.
    """
    model, constant = folded(fold, example)
    if example.refuses is not None:
        if constant is not None:
            raise AssertionError(f"the constant is {constant.tolist()}, but none was expected")
        return
    if constant is None:
        raise AssertionError("the function returned no constant")
    inputs = oracle.make_inputs(model, overrides=dict(example.inputs))
    difference = oracle.compare(oracle.evaluate(model, inputs), [constant])
    if difference is not None:
        raise AssertionError(
            f"the constant differs from the value that the model computes: {difference}"
        )
    for name in _needed(fold, model):
        if _is_constant_without(model, name, registry.default()):
            raise AssertionError(
                f"the fold returns a constant without the value of {name!r}; name this input in"
                " sizes= if only its shape is needed"
            )


def _needed(fold: Fold, model: ModelProto) -> set[str]:
    """Returns the initializers whose values the function needs to compute a constant."""
    initializers = {tensor.name for tensor in model.graph.initializer}
    nodes = [node for node in model.graph.node if node.op_type in fold.ops]
    needed = [name for node in nodes for i, name in enumerate(node.input) if name and fold.needs(i)]
    return initializers.intersection(needed)


def _is_constant_without(model: ModelProto, name: str, adapters: Registry) -> bool:
    """Returns whether the result is still constant if this initializer becomes an input."""
    other = ModelProto()
    other.CopyFrom(model)
    (tensor,) = (initializer for initializer in other.graph.initializer if initializer.name == name)
    kind = helper.make_tensor_type_proto(tensor.data_type, tensor.dims)
    other.graph.input.add(name=name, type=kind)
    other.graph.initializer.remove(tensor)
    facts = _facts(other, adapters)
    return facts.constant(facts.document.main, other.graph.output[0].name) is not None


def assert_ranks(rule: OutputRanks, example: Example) -> None:
    """Asserts that the inferred ranks are right; with `refuses=`, that no rank is inferred."""
    model, inferred = ranked(rule, example)
    if example.refuses is not None:
        if any(rank is not None for rank in inferred):
            raise AssertionError(f"the inferred ranks are {inferred}, but no rank was expected")
        return
    inputs = oracle.make_inputs(model, overrides=dict(example.inputs))
    computed = [value.ndim for value in oracle.evaluate(model, inputs)]
    if inferred != computed:
        raise AssertionError(f"the result has the ranks {computed}, not {inferred}")


def assert_shapes(rule: OutputShapes, example: Example) -> None:
    """Asserts that the inferred sizes equal the sizes of the result."""
    model, facts = _known(rule.domain, example, registry.default())
    names = [value.name for value in model.graph.output]
    inferred = [facts.type(facts.document.main, name) for name in names]
    inputs = oracle.make_inputs(model, overrides=dict(example.inputs))
    run = oracle.evaluate if rule.domain in versions.DOMAINS else _by_onnxruntime
    for name, kind, value in zip(names, inferred, run(model, inputs), strict=True):
        if is_wrong(kind, value.shape):
            raise AssertionError(
                f"{name} has the shape {list(value.shape)}, not the inferred shape"
            )


def _by_onnxruntime(model: ModelProto, inputs: dict[str, Any]) -> list[Any]:
    """Computes a model in onnxruntime, because our evaluator lacks operators of vendors."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "model.onnx")
        path.write_bytes(model.SerializeToString())
        ((values, error),) = engine_runs.onnxruntime(str(path), [inputs], 0)
    if error:
        raise oracle.OracleError(error)
    return list(values.values())
