"""Every @example of every adapter is checked, stepped, checked and compared numerically."""

import pytest

import examples

CASES = examples.cases()


@pytest.mark.parametrize("case", CASES, ids=[case.id for case in CASES])
def test_example(case: examples.Case) -> None:
    if examples.too_new(case):
        pytest.skip("the installed onnx is older than the example")
    examples.run(case)
