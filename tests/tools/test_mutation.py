# SPDX-License-Identifier: Apache-2.0
"""The examples detect mutants of adapters; the tool removes its temporary files."""

from __future__ import annotations

from pathlib import Path

import opshift_adapters
import pytest
from opshift import testing
from opshift.opsets import schemas
from opshift.testing.surveys import reasons

from tools.author import mutants, mutation

MODULE = "opshift_adapters.normalize.softmax"
if not Path(opshift_adapters.__path__[0]).is_relative_to(Path(__file__).parents[2]):
    pytest.skip("adapters that are installed elsewhere are not changed", allow_module_level=True)


@pytest.fixture(scope="module")
def every() -> list[mutants.Mutant]:
    testing.examples(MODULE)  # reads the module
    module = next(m for m in mutants.modules(mutation.PACKAGE) if m.__name__ == MODULE)
    return list(mutants.mutants(module))


def test_a_sample_of_one_module_is_killed(every: list[mutants.Mutant]) -> None:
    if (schemas.latest("") or 0) < 24:
        pytest.skip("the installed onnx is older than some examples")
    verdicts = mutation.run(16, 0, MODULE.__eq__, MODULE)
    killed, meant, _ = mutation.share(verdicts)
    assert len(verdicts) == 16
    assert killed >= meant - 2, [
        verdict.mutant.title for verdict in verdicts if verdict.outcome == "survived"
    ]


def test_a_mutant_is_gone_when_it_has_been_tried(every: list[mutants.Mutant]) -> None:
    one = every[0]
    function = mutants.found(__import__("sys").modules[one.module], one.function)
    assert function is not None
    before = function.__code__
    with mutation.installed(one):
        assert function.__code__ is not before
    assert function.__code__ is before


def test_names_of_mutants_are_unique(every: list[mutants.Mutant]) -> None:
    names = [one.title for one in every]
    assert len(set(names)) == len(names) > 30
    assert {name.split(": ")[0].split(" ", 2)[2] for name in names} >= {
        "constant off by one", "comparison reversed", "guard dropped", "guard negated",
    }  # fmt: skip


def test_functions_that_an_import_made_are_changed_too() -> None:
    testing.examples(MODULE)
    name = "opshift_adapters.facts.folding_arithmetic"
    module = next(m for m in mutants.modules(mutation.PACKAGE) if m.__name__ == name)
    inside = [mutant for mutant in mutants.mutants(module) if mutant.function == "reduction"]
    negated = next(one for one in inside if "guard negated: if axes is None" in one.name)
    assert mutation.facts_killer(negated)


def test_every_equivalent_mutant_is_a_mutant() -> None:
    testing.examples(mutation.PACKAGE)  # reads all modules
    known = reasons(mutation.EQUIVALENT)
    read = {name.partition(" ")[0] for name in known}
    found = {
        mutant.title
        for module in mutants.modules(mutation.PACKAGE)
        if module.__name__.removeprefix(f"{mutation.PACKAGE}.") in read
        for mutant in mutants.mutants(module)
    }
    assert sorted(set(known) - found) == []
