# SPDX-License-Identifier: Apache-2.0
"""The pytest plugin: its fixtures, and its test of a package, run by another pytest."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest
from opshift.opsets import schemas

pytest_plugins = ["pytester"]
ROOT = Path(__file__).parents[2]
SOFTMAX = '<ir_version: 8, opset_import: ["" : 12]> g (float[2,3] x) => (float[2,3] y) { y = Softmax<axis=0>(x) }'
STRINGS = '<ir_version: 8, opset_import: ["" : 12]> g (string[2] x) => (string[2] y) { y = StringNormalizer(x) }'
TWICE = """
from opshift.adapter import KEEP, adapter

@adapter("Softmax", 12, 13)
def again(node, op):
    "A verdict that is taken."
    return KEEP
"""


def test_nothing_is_imported_for_those_who_do_not_use_it(pytester):
    pytester.makepyfile(
        """
        import sys

        def test_modules():
            assert "opshift.testing.plugin" in sys.modules
            assert not {"onnx", "numpy", "opshift.testing.example_models"} & sys.modules.keys()
        """
    )
    pytester.runpytest_subprocess().assert_outcomes(passed=1)


@pytest.mark.usefixtures("warm_children")
def test_the_assertions_are_fixtures_that_compute_as_the_project_says(pytester):
    pytester.makeconftest(
        """
        import numpy, pytest
        from opshift.verify import oracle

        @pytest.fixture(scope="session")
        def opshift_evaluate():
            def evaluate(model, inputs):
                if model.graph.name == "odd":
                    return [numpy.float32(model.opset_import[0].version)]
                return oracle.evaluate(model, inputs)
            return evaluate
        """
    )
    pytester.makepyfile(
        f"""
        import pytest
        from opshift import Why
        from opshift.testing import examples, folds

        MODEL, STRINGS = {SOFTMAX!r}, {STRINGS!r}

        def test_up(assert_op_upgrades):
            assert_op_upgrades("Softmax", 1, gives="Flatten Softmax Shape Reshape")

        def test_down(assert_op_downgrades):
            assert_op_downgrades("Softmax", 9)

        def test_model(assert_model_converts):
            assert_model_converts(MODEL, 13)

        def test_refused(assert_refused):
            assert_refused(STRINGS, 9, why=Why.NOT_EXPRESSIBLE)

        def test_invalid(assert_invalid):
            assert_invalid(MODEL.replace("Softmax", "Sotfmax"), 13, match="Sotfmax")

        def test_fold(assert_fold):
            assert_fold(*folds("opshift_adapters")[0])

        def test_wrong(assert_model_converts):
            assert_model_converts(MODEL.replace("> g", "> odd"), 13)

        @pytest.mark.parametrize(("adapter", "example"), examples("opshift_adapters.normalize.softmax")[:2])
        def test_example(assert_example, adapter, example):
            assert_example(adapter, example)
        """
    )
    run_of_pytest = pytester.runpytest_subprocess("-rf")
    run_of_pytest.assert_outcomes(passed=8, failed=1)
    run_of_pytest.stdout.fnmatch_lines(["*the results differ: output 0*12.0 expected, 13.0 given*"])


@pytest.mark.usefixtures("warm_children")
def test_a_package_that_is_named_is_tested(pytester):
    """The package of this repository passes the checks that vendors use."""
    whole = ("--opshift-adapters", "opshift_adapters")
    family = ("--opshift-adapters", "opshift_adapters.normalize.softmax")
    folder, gaps = ROOT / "tools" / "author", ROOT / "tests" / "adapters" / "gaps.toml"
    pytester.makeini(f"[pytest]\nopshift_reasons = {folder}/edges.toml {gaps}")
    if (schemas.latest("") or 0) >= 27:  # an older checker takes fewer variants, which are gaps
        pytester.runpytest_subprocess(*whole, "-k", "opshift-adapters").assert_outcomes(
            passed=1, deselected=2
        )
    pytester.runpytest_subprocess(*family, "-k", "opshift-examples").assert_outcomes(
        passed=1, deselected=2
    )
    pytester.runpytest_subprocess(*family, "-k", "nothing").assert_outcomes(deselected=3)
    run_of_pytest = pytester.runpytest_subprocess("--opshift-adapters", "opshift_adapt")
    run_of_pytest.assert_outcomes(failed=1, passed=2)
    run_of_pytest.stdout.fnmatch_lines(["no adapters of 'opshift_adapt' are installed"])


@pytest.mark.usefixtures("warm_children")
def test_a_package_with_a_second_verdict_fails(pytester, monkeypatch):
    pytester.makepyfile(again=TWICE)
    dist = pytester.mkdir("again-1.dist-info")
    (dist / "METADATA").write_text("Metadata-Version: 2.1\nName: again\nVersion: 1\n")
    (dist / "entry_points.txt").write_text("[opshift.adapters]\nagain = again\n")
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([str(pytester.path), *filter(None, sys.path)]))
    run_of_pytest = pytester.runpytest_subprocess(
        "--opshift-adapters", "again", "-k", "opshift-adapters"
    )
    run_of_pytest.assert_outcomes(failed=1, deselected=2)
    run_of_pytest.stdout.fnmatch_lines(
        ["Softmax 12->13 is declared twice: again.again and opshift_*"]
    )


VENDOR = """
from opshift.adapter import example, leaving

@leaving("Gated", domain="com.gate", emits="Relu Mul")
@example("both", "(float[N] x, float[N] g) => (float[N] y) { y = com.gate.Gated(x, g) }", inputs={"x": [1.0, -2.0], "g": [3.0, 0.5]},)
def gated(node, op):
    "It is written out."
    return FORMULA
"""


@pytest.mark.usefixtures("warm_children")
@pytest.mark.parametrize(
    ("formula", "outcome"),
    [
        ("op.Mul(op.Relu(node.inputs[0]), node.inputs[1])", {"passed": 2}),
        ("op.Relu(op.Mul(node.inputs[0], node.inputs[1]))", {"passed": 1, "failed": 1}),
    ],
)
def test_a_formula_that_is_right_on_one_set_of_inputs_fails_on_others(
    pytester, monkeypatch, formula, outcome
):
    pytester.makepyfile(gates=VENDOR.replace("FORMULA", formula))
    pytester.makeconftest(
        """
        import numpy, pytest
        from opshift.verify import oracle

        @pytest.fixture(scope="session")
        def opshift_evaluate():
            def evaluate(model, inputs):
                if model.graph.node[0].op_type == "Gated":
                    return [numpy.maximum(inputs["x"], 0) * inputs["g"]]
                return oracle.evaluate(model, inputs)
            return evaluate
        """
    )
    pytester.makepyfile("def test_first(opshift_evaluate): pass")
    dist = pytester.mkdir("gates-1.dist-info")
    (dist / "METADATA").write_text("Metadata-Version: 2.1\nName: gates\nVersion: 1\n")
    (dist / "entry_points.txt").write_text("[opshift.adapters]\ngates = gates\n")
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([str(pytester.path), *filter(None, sys.path)]))
    whole = ("--opshift-adapters", "gates", "-k", "first or opshift-examples")
    run_of_pytest = pytester.runpytest_subprocess(*whole)
    run_of_pytest.assert_outcomes(**outcome, deselected=2)
    if "failed" in outcome:
        run_of_pytest.stdout.fnmatch_lines(["gated Gated both [[]negative[]]: y: *"])


@pytest.mark.parametrize("name", ["conftest.py", "test_harness.py"])
def test_the_guide_shows_the_example_as_it_is(name):
    page = (ROOT / "docs" / "howto" / "test-operators.md").read_text()
    text = (ROOT / "examples" / "vendor" / "tests" / name).read_text()
    assert text.partition("\n")[2] in page  # the first line names the licence
