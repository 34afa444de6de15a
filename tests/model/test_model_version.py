# SPDX-License-Identifier: Apache-2.0
"""Versions of models: their encoding, and the new version after a change of the signature."""

from __future__ import annotations

import itertools
import json

import numpy as np
import onnx
import pytest
from click.testing import CliRunner
from hypothesis import given
from hypothesis import strategies as st
from onnx import numpy_helper
from opshift import BadTarget, convert_version, diff
from opshift.cli.entry import main
from opshift.model.model_version import Level, ModelVersion, VersionFormat
from opshift.model.signature import Signature, ValueSignature, compare
from opshift.opsets.elements import ELEMENTS
from text_models import model

ROWS = sorted(ELEMENTS.values())


@pytest.mark.parametrize(
    ("number", "text", "form"),
    [
        (0x0001000200000159, "1.2.345", VersionFormat.SEMVER),
        (0x01020159, "16908633", VersionFormat.NUMBER),
        ((1 << 32) - 1, "4294967295", VersionFormat.NUMBER),
        (7, "7", VersionFormat.NUMBER),
        (20260521, "20260521", VersionFormat.NUMBER),
        (-1, "-1", VersionFormat.NUMBER),
        (1 << 32, "0.1.0", VersionFormat.SEMVER),
        (1_796_000_000, "1796000000", VersionFormat.NUMBER),
    ],
)
def test_the_rule_that_tells_them_apart(number, text, form):
    found = ModelVersion.unpack(number)
    assert (str(found), found.form, found.pack()) == (text, form, number)


def test_a_text_of_digits_is_a_plain_number():
    assert ModelVersion.parse("7") == ModelVersion(patch=7, form=VersionFormat.NUMBER)
    assert str(ModelVersion.parse("7").bump(Level.MAJOR)) == "8"


@given(st.integers(-(2**63), 2**63 - 1))
def test_every_number_survives(number):
    assert ModelVersion.unpack(number).pack() == number


@given(st.integers(0, 2**15 - 1), st.integers(0, 2**16 - 1), st.integers(0, 2**32 - 1))
def test_every_semver_survives(major, minor, patch):
    version = ModelVersion.parse(f"{major}.{minor}.{patch}")
    if major or minor:
        assert ModelVersion.unpack(version.pack()) == version
    elif patch:
        with pytest.raises(BadTarget, match="would be read back as"):
            version.pack()


@given(st.integers(1, 2**63 - 2), st.sampled_from(Level))
def test_a_bump_grows(number, level):
    before = ModelVersion.unpack(number)
    assert (before.bump(level) > before) is (level is not Level.NONE)


@pytest.mark.parametrize(
    "text", ["1.2", "v1.2.3", "", "1.2.3-", "1.2.3+", "1.2.3-01", "1.02.3", "-1.0.0", "1.2.3-a..b"]
)
def test_what_is_no_version(text):
    with pytest.raises(BadTarget, match="is not a version of a model; give"):
        ModelVersion.parse(text)


# The order of precedence that SemVer 2.0.0 gives as its example, and builds, which have none.
ORDERED = [
    "1.0.0-alpha", "1.0.0-alpha.1", "1.0.0-alpha.beta", "1.0.0-beta", "1.0.0-beta.2",
    "1.0.0-beta.11", "1.0.0-rc.1", "1.0.0", "1.0.1-0", "1.1.0", "2.0.0",
]  # fmt: skip


def test_pre_releases_come_before_their_version():
    versions = [ModelVersion.parse(text) for text in ORDERED]
    assert sorted(versions) == versions
    assert [str(version) for version in versions] == ORDERED
    for one, other in itertools.pairwise(versions):
        assert one < other
        assert other > one


def test_a_build_has_no_precedence():
    one, other = (ModelVersion.parse(f"1.2.3-rc.1+{build}") for build in ("b7", "b8"))
    assert one == other
    assert not one < other
    assert str(one) == "1.2.3-rc.1+b7"


def test_a_model_stores_neither_pre_release_nor_build():
    full = ModelVersion.parse("1.2.3-rc.1+b7")
    assert full.pack() == ModelVersion(1, 2, 3).pack()
    assert ModelVersion.unpack(full.pack()) == full.stored == ModelVersion(1, 2, 3)
    assert full < full.stored
    assert str(full.bump(Level.MINOR)) == "1.3.0"
    assert str(ModelVersion.parse("1.2.3-rc.1").bump(Level.PATCH)) == "1.2.4"
    assert str(ModelVersion.parse("1.2.3+b7").bump(Level.PATCH)) == "1.2.4"


def test_what_does_not_fit():
    with pytest.raises(BadTarget, match="does not fit"):
        ModelVersion(2**15, 0, 0).pack()
    with pytest.raises(BadTarget, match="64 bits"):
        ModelVersion.unpack(2**63)
    with pytest.raises(BadTarget, match="64 bits"):
        ModelVersion.unpack(-(2**63) - 1)


X = ValueSignature("x", "tensor(float)", (2, 3), False, "")


def level(before, after, what="input"):
    pair = [Signature(v, ()) if what == "input" else Signature((), v) for v in (before, after)]
    return max((change.level for change in compare(*pair)), default=Level.NONE)


def value(type_="tensor(float)", shape=(2, 3), default=False, name="x", note=""):
    return ValueSignature(name, type_, shape, default, note)


@pytest.mark.parametrize(
    ("before", "after", "for_inputs", "for_outputs"),
    [
        ((X,), (X,), "NONE", "NONE"),
        ((X,), (), "MAJOR", "MAJOR"),
        ((), (X,), "MAJOR", "MINOR"),
        ((), (value(default=True),), "MINOR", "MINOR"),
        ((X,), (value("tensor(double)"),), "MINOR", "MINOR"),
        ((X,), (value("tensor(string)"),), "MAJOR", "MAJOR"),
        ((X,), (value("tensor(float16)"),), "MAJOR", "MAJOR"),
        ((X,), (value(shape=(None, 3)),), "MINOR", "MAJOR"),
        ((value(shape=(None, 3)),), (X,), "MAJOR", "MINOR"),
        ((X,), (value(shape=None),), "MINOR", "MAJOR"),
        ((X,), (value(shape=(2, 3, 1)),), "MAJOR", "MAJOR"),
        ((X,), (value(note="rgb"),), "PATCH", "PATCH"),
        ((value(default=True),), (X,), "MAJOR", "MAJOR"),
        ((X, value(name="z")), (value(name="z"), X), "MAJOR", "MAJOR"),
    ],
)
def test_the_rules(before, after, for_inputs, for_outputs):
    assert level(before, after).name == for_inputs
    assert level(before, after, "output").name == for_outputs


VALUES = st.lists(
    st.builds(
        ValueSignature,
        st.sampled_from("abc"),
        st.sampled_from(["tensor(float)", "tensor(double)", "tensor(string)"]),
        st.sampled_from([None, (1,), (None,), (1, 2)]),
        st.booleans(),
        st.just(""),
        st.sampled_from([(), ("IMAGE", "DATA_BATCH"), ("", "DATA_BATCH")]),
    ),
    unique_by=lambda v: v.name,
    max_size=3,
).map(tuple)
SIGNATURES = st.builds(Signature, VALUES, VALUES)


@given(SIGNATURES, SIGNATURES)
def test_nothing_changes_unnoticed_and_removal_is_major(before, after):
    changes = list(compare(before, after))
    assert bool(changes) == (before != after)
    for change in changes:
        named = "denotation" in change.reason or "widened" in change.reason
        assert bool(change.task) == (change.level is Level.MAJOR) or named, change
    lost = {v.name for v in before.inputs} - {v.name for v in after.inputs}
    if lost:
        assert max(change.level for change in changes) is Level.MAJOR


DIMENSIONS = st.lists(st.one_of(st.none(), st.integers(1, 3)), max_size=2).map(tuple)
SHAPES = st.one_of(st.none(), DIMENSIONS)


def fits(shape, taken):
    """Returns whether a tensor of this shape is a legal input for the declared shape."""
    if taken is None:
        return True
    return len(shape) == len(taken) and all(
        t in (None, s) for s, t in zip(shape, taken, strict=True)
    )


EVERY_SHAPE = [(), *((a,) for a in (1, 2, 3)), *((a, b) for a in (1, 2, 3) for b in (1, 2, 3))]


@given(SHAPES, SHAPES)
def test_an_input_is_major_exactly_when_something_no_longer_fits(old, new):
    """The new model must accept every input that callers of the old one may pass."""
    breaks = any(fits(s, old) and not fits(s, new) for s in EVERY_SHAPE)
    unknown = new is not None and old is None  # ranks above those tried
    found = level((value(shape=old),), (value(shape=new),))
    assert (found is Level.MAJOR) == (breaks or unknown)
    assert (found is Level.NONE) == (old == new)


@given(SHAPES, SHAPES)
def test_what_an_input_gains_an_output_loses(old, new):
    pair = (value(shape=old),), (value(shape=new),)
    assert level(*pair) == level(*reversed(pair), "output")


@given(
    st.sampled_from(ROWS),
    st.sampled_from(ROWS),
)
def test_a_type_is_widened_in_one_direction_and_through_any_other(narrow, wide):
    found = level((value(f"tensor({narrow.name})"),), (value(f"tensor({wide.name})"),))
    assert (found is Level.MINOR) == (wide.holds(narrow) and narrow is not wide)
    if found is Level.MINOR:
        assert not narrow.holds(wide)
        assert all(row.holds(narrow) for row in ROWS if row.holds(wide))


@given(SIGNATURES, SIGNATURES, SIGNATURES)
def test_a_detour_is_never_a_smaller_change(first, second, third):
    def between(a, b):
        return max((change.level for change in compare(a, b)), default=Level.NONE)

    if between(first, third) is Level.MAJOR:
        assert Level.MAJOR in (between(first, second), between(second, third))


ADD = "(float[2] x) => (float[2] y) { y = Add(x, w) }"


def weighted(value=1.0, size=2, **named):
    proto = model(ADD.replace("[2]", f"[{size}]"), **named)
    proto.model_version = ModelVersion(1, 2, 3).pack()
    weight = numpy_helper.from_array(np.full(size, value, np.float32), "w")
    proto.graph.initializer.append(weight)
    return proto


@pytest.mark.parametrize("size", [2, 5000])
def test_other_weights_are_a_patch(size):
    assert diff(weighted(1, size), weighted(1, size)).level is Level.NONE
    assert diff(weighted(1, size), weighted(2, size)).level is Level.PATCH


def test_the_command(tmp_path):
    onnx.save(weighted(), tmp_path / "a.onnx")
    onnx.save(weighted(size=3), tmp_path / "b.onnx")
    text = CliRunner().invoke(main, ["diff", f"{tmp_path}/a.onnx", f"{tmp_path}/b.onnx"]).stdout
    assert "MAJOR: the shape of input 'x' changed: tensor(float)[2] -> tensor(float)[3]" in text
    assert text.splitlines()[-1] == (
        "Advice: set the model version to 2.0.0. It was 1.2.3 in the first model and is 1.2.3 in"
        " the second. Code that uses the model must give tensor(float)[3] for input 'x', not"
        " tensor(float)[2]; gets tensor(float)[3] for output 'y', not tensor(float)[2]."
    )
    words = ["diff", f"{tmp_path}/a.onnx", f"{tmp_path}/a.onnx", "--output-format", "json"]
    assert json.loads(CliRunner().invoke(main, words).stdout)["level"] == "NONE"


def test_a_conversion_bumps_on_request():
    assert convert_version(weighted(), 13).model_version == weighted().model_version
    after = convert_version(weighted(), 13, bump_model_version=True)
    assert str(ModelVersion.unpack(after.model_version)) == "1.2.4"
    same = convert_version(weighted(), 12, bump_model_version=True)
    assert same.model_version == weighted().model_version
    assert convert_version(model(ADD), 13, bump_model_version=True, check=False).model_version == 1
