# SPDX-License-Identifier: Apache-2.0
"""Asserts the `@example`s of the formulas that `--modernize` replaces."""

from __future__ import annotations

from opshift import versions
from opshift.author.example import Example
from opshift.author.modern_rules import Modern
from opshift.author.verdicts import Mirror
from opshift.convert.request import Request
from opshift.protos import ModelProto
from opshift.testing.known import rules_of
from opshift.testing.models import Evaluate, assert_model_converts, parsed
from opshift.verify import oracle


def modern_rules(package: str) -> list[tuple[Modern | Mirror, Example]]:
    """Returns all examples of a package's formulas, for `pytest.mark.parametrize`."""
    return [*rules_of(Modern, package), *rules_of(Mirror, package)]


def modern_model(rule: Modern | Mirror, example: Example) -> ModelProto:
    """Returns an example as a model at its opset, or at the first opset with the new operator."""
    imports = {rule.domain: rule.since, **example.imports}
    ir = example.ir_version or max(versions.ir_for(imports), 4)
    listed = ", ".join(f'"{domain}" : {version}' for domain, version in imports.items())
    header = f"<ir_version: {ir}, opset_import: [{listed}]>"
    return parsed(f"{header} example {example.graph} {example.functions}")


def assert_modern(
    rule: Modern | Mirror, example: Example, *, evaluate: Evaluate | None = None
) -> ModelProto:
    """Asserts that an example is modernized as stated and has equal results."""
    model = modern_model(rule, example)
    return assert_model_converts(
        model, Request(modernize=True), gives=example.gives, evaluate=evaluate,
        rtol=example.rtol, atol=example.atol,
        inputs=oracle.make_inputs(model, overrides=dict(example.inputs)),
        allow_approximate=example.approximate,
    )  # fmt: skip
