"""Every @example of every adapter is checked, stepped, checked and compared numerically."""

import pytest

import examples

CASES = examples.cases()


@pytest.mark.parametrize("case", CASES, ids=[case.id for case in CASES])
def test_example(case: examples.Case) -> None:
    examples.run(case)
