# SPDX-License-Identifier: Apache-2.0
"""The digest of a recipe: equal for equal options in each process, and different otherwise."""

from __future__ import annotations

import os
import subprocess
import sys
from dataclasses import replace

from opshift.convert.request import Request
from opshift.opsets import targets
from opshift.opsets.wanted import Wanted
from opshift.zoo.recipe import Recipe

PRINT = """
from opshift.convert.request import Request
from opshift.opsets.wanted import Wanted
from opshift.zoo.recipe import Recipe
for name in {names}:
    print(Recipe(Request(Wanted.of(name, {{}}, {{}}), assume=["no-zero-dims"])).digest)
"""


def digest(target):
    return Recipe(Request(target)).digest


def test_each_known_runtime_has_a_digest_of_its_own():
    releases = targets.table()
    found = {release.shown: digest(Wanted(release, {})) for release in releases}
    assert len(set(found.values())) == len(found) > 50
    assert any(release.probed is not None for release in releases)


def test_other_options_have_another_digest():
    recipes = [Recipe(Request(9)), Recipe(Request(10)), Recipe(Request({"": 9, "ai.onnx.ml": 2}))]
    recipes += [
        Recipe(Request(9, types={"double": "float"})),
        Recipe(Request(9), external="inline"),
    ]
    recipes += [replace(recipes[0], fingerprint="another build")]
    assert len({recipe.digest for recipe in recipes}) == len(recipes)
    assert replace(recipes[0], runtimes=("onnxruntime==1.10",)).digest == recipes[0].digest


def test_another_outcome_of_a_probe_gives_another_digest():
    row = targets.find("openvino==2024.6")
    outcomes = dict(row.probed.table.outcomes)
    del outcomes["", "Abs"]
    table = replace(row.probed.table, outcomes=outcomes)
    other = replace(row, probed=replace(row.probed, table=table))
    assert digest(Wanted(row, {})) != digest(Wanted(other, {}))


def test_questions_about_a_runtime_do_not_change_the_digest():
    row = targets.find("onnxruntime==1.10")
    before = digest(Wanted(row, {}))
    row.lacking(("", "Erf"))
    assert digest(Wanted(row, {})) == before


def test_a_digest_is_the_same_in_each_process():
    names = ["openvino==2024.6", "onnxruntime==1.10", "tvm==0.27", "tensorrt==8.4"]
    found = [
        subprocess.run(
            [sys.executable, "-c", PRINT.format(names=names)],
            env={**os.environ, "PYTHONHASHSEED": seed}, check=True, capture_output=True, text=True,
        ).stdout
        for seed in ("1", "2")
    ]  # fmt: skip
    assert found[0] == found[1]
    assert len(set(found[0].split())) == len(names)
