# SPDX-License-Identifier: Apache-2.0
"""Tables with the outcomes of small models in releases of runtimes."""

from __future__ import annotations

import itertools

import pytest
from onnx import helper
from opshift.errors import BadTarget
from opshift.opsets import probed, schemas
from opshift.opsets.probed import DIES, PARTLY, REFUSED, RUNS, WRONG

TEXT = """\
runtime edge
release 1.2 2026-01-02 10 models
release 1.4 2026-01-03 12 models
Celu 12 T; refused 1.2..1.4 f4
Clip 11 T; runs 1.2..1.4 f4 @input1; dies 1.4 f8
MatMul 13 T; runs 1.4 f4; partly 1.2 f4
Not 1 T; runs 1.2..1.4 *
Reshape 13 T; runs 1.2..1.4 f4 i8; wrong 1.2 b; refused 1.2..1.4 @allowzero=1
Resize 13 T1 T2; runs 1.2 f4/- f4/f4; wrong 1.2..1.4 @mode=cubic"""
TABLE = probed.read(TEXT)


def release(name: str) -> probed.ReleaseTable:
    found = TABLE.at(name)
    assert found is not None
    return found


def test_a_table_is_read_as_it_is_written():
    assert "\n".join(probed.written(TABLE)) == TEXT
    assert probed.read("# a comment\n\n" + TEXT + "\n") == TABLE


@pytest.mark.parametrize("line", ["Abs", "Abs 13 T; walks 1.2 f4", "Abs 13 T; runs 9.9 f4"])
def test_a_damaged_table_is_named(line):
    with pytest.raises(BadTarget, match="cannot be read"):
        probed.read(f"{TEXT}\n{line}")


def test_merging_keeps_each_release():
    parts = []
    for number, one in enumerate(TABLE.releases):
        outcomes = {
            key: {
                since: probed.Outcomes(
                    one.variables,
                    {k: frozenset({0}) for k, where in one.types.items() if number in where},
                    {k: frozenset({0}) for k, where in one.features.items() if number in where},
                )
                for since, one in versions.items()
            }
            for key, versions in TABLE.outcomes.items()
        }
        parts.append(probed.ProbeTable("edge", (one,), outcomes))
    for order in itertools.permutations(parts):
        assert probed.merged(order) == TABLE
    assert probed.merged([TABLE, TABLE]) == TABLE
    assert probed.merged([]) is None


@pytest.mark.parametrize(
    ("name", "stands_for"),
    [("1.2", {0}), ("1.2.7", {0}), ("1.3", {0, 1}), ("1.4", {1}), ("1", {0}), ("1.1", ()), ("2", ())],
)  # fmt: skip
def test_a_release_between_two_probed_ones_has_what_both_have(name, stands_for):
    assert TABLE.around(name) == set(stands_for)


def test_what_a_release_runs():
    old, between, new = release("1.2"), release("1.3"), release("1.4")
    for one in (old, between, new):
        assert one.unread(("", "Celu"), 12) == REFUSED
        assert one.lost(("", "Celu"))
        assert not one.unread(("", "Clip"), 11)
        assert not one.lost(("", "Clip"))
        assert not one.unread(("", "Abs"), 13)
        assert one.runs_at(("", "Not"), 1)
        assert one.runs_at(("", "Abs"), 13) is None
        assert one.failing(("", "Reshape"), 13, {"@allowzero=1"}) == ("@allowzero=1", REFUSED)
    assert new.missing(("", "Clip"), 11).outcomes == {("double",): DIES}
    assert between.missing(("", "Clip"), 11) is None
    assert old.missing(("", "Reshape"), 13).outcomes == {("bool",): WRONG}


def test_what_is_not_known_of_a_release():
    old = release("1.2")
    assert old.untried(("", "Abs"), 13, ("float",), ()) == probed.AT_ALL
    assert old.untried(("", "Clip"), 11, ("double",), ()) == "of double"
    assert old.untried(("", "Clip"), 11, ("float",), {"@input1", "@rank=3"}) == ""
    assert old.untried(("", "Clip"), 11, ("float",), {"@input2"}) == "with input 3"
    assert "failed for some forms" in old.untried(("", "MatMul"), 13, ("float",), ())
    assert old.untried(("", "Resize"), 13, ("float", ""), ()) == ""


def test_the_features_of_a_node():
    schema = schemas.schema("", "Resize", 19)
    assert schema is not None
    node = helper.make_node(
        "Resize", ["x", "", "s"], ["y"], mode="linear", antialias=0, axes=[2, 3], exclude_outside=1
    )
    assert probed.features(node, schema, 4) == {
        "@mode", "@mode=linear", "@axes", "@axes=2,3", "@exclude_outside", "@exclude_outside=1",
        "@input2", "@rank=4",
    }  # fmt: skip
    assert {RUNS, PARTLY}.isdisjoint(probed.FAILED)
