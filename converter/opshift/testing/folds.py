"""The `@example`s of folds, each of which is a constant, or is none."""

from __future__ import annotations

from onnx import ModelProto

from opshift import registry, schemas, versions
from opshift.declare import Array, Example, Fold
from opshift.document import Document
from opshift.facts import Facts
from opshift.testing.text import parse_model
from opshift.verify import oracle
from opshift.weights import Weights


def folds(package: str) -> list[tuple[Fold, Example]]:
    """All examples of a package's folds, for `pytest.mark.parametrize`."""
    return [
        (fold, example)
        for fold in registry.default().folds.values()
        if f"{fold.run.__module__}.".startswith(f"{package}.")
        for example in fold.examples
    ]


def folded(fold: Fold, example: Example) -> tuple[ModelProto, Array | None]:
    """The example as a model, at the newest version unless it says one, and its only constant."""
    imports = {fold.domain: schemas.latest(fold.domain) or 1, **example.imports}
    listed = ", ".join(f'"{domain}" : {version}' for domain, version in imports.items())
    ir = max(versions.ir_for(imports), 4)  # below 4 an initializer is no constant
    header = f"<ir_version: {ir}, opset_import: [{listed}]>"
    model = parse_model(f"{header} example {example.graph}")
    facts = Facts(Document(model, "opshift_"), Weights(), registry.default().folds, lambda: model)
    return model, facts.constant(facts.document.roots[0].top, model.graph.output[0].name)


def assert_fold(fold: Fold, example: Example) -> None:
    """The constant is what the model computes; with `refuses=` it is no constant."""
    model, found = folded(fold, example)
    if example.refuses is not None:
        if found is not None:
            raise AssertionError(f"it is the constant {found.tolist()}, though none was expected")
        return
    if found is None:
        raise AssertionError("it is no constant")
    inputs = oracle.make_inputs(model, overrides=dict(example.inputs))
    told = oracle.compare(oracle.evaluate(model, inputs), [found])
    if told is not None:
        raise AssertionError(f"the constant is not what the model computes: {told}")
