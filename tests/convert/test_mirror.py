# SPDX-License-Identifier: Apache-2.0
"""The formulas that `--modernize` derives from adapters."""

from __future__ import annotations

import pytest
from opshift import AdapterBug
from opshift.author import registry
from opshift.author.formula import Axes, Free, Number, Term, operators, parts
from opshift.author.verdicts import mirrors_of
from opshift.convert.mirror import formulas
from opshift.opsets import schemas

ADAPTERS = registry.default()


def derived(op: str, start: int) -> tuple[Term, ...]:
    if start > (schemas.latest("") or 0):
        pytest.skip("the installed onnx is older")
    adapter = ADAPTERS.get("", op, start, start - 1)
    assert adapter is not None
    return formulas(mirrors_of(adapter)[0], ADAPTERS)


def within(term: Term) -> list[Term]:
    """A formula and all its parts."""
    return [term, *(inner for part in parts(term) for inner in within(part))]


def test_numbers_from_attributes_stay_open_and_others_are_fixed() -> None:
    (celu,) = derived("Celu", 12)
    assert {one.value for one in within(celu) if isinstance(one, Number)} == {"alpha"}
    assert {one.name for one in within(celu) if isinstance(one, Free)} == {"X"}


def test_each_combination_of_optional_inputs_and_choices_has_a_formula() -> None:
    assert {frozenset({"Erf"}), frozenset({"Tanh"})} == set(map(operators, derived("Gelu", 20)))
    inputs = [
        {one.name for one in within(term) if isinstance(one, Free)}
        for term in derived("LayerNormalization", 17)
    ]
    assert {"X", "Scale"} in inputs
    assert {"X", "Scale", "B"} in inputs


def test_axes_from_an_attribute_stay_open() -> None:
    applied = [one for one in within(derived("RMSNormalization", 23)[0]) if hasattr(one, "op")]
    (mean,) = {id(one): one.attributes for one in applied if one.op == "ReduceMean"}.values()
    assert mean == {"axes": Axes("axis", last=True)}


@pytest.mark.parametrize("op", ["GroupNormalization", "Shrink"])
def test_nodes_that_depend_on_more_than_a_formula_holds_give_none(op: str) -> None:
    assert derived(op, {"GroupNormalization": 21, "Shrink": 9}[op]) == ()


def test_an_adapter_that_takes_no_operator_away_has_no_mirror() -> None:
    upwards = ADAPTERS.get("", "Reshape", 4, 5)
    assert upwards is not None
    with pytest.raises(AdapterBug, match="does not replace an operator at a lower version"):
        mirrors_of(upwards)
