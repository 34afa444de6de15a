# SPDX-License-Identifier: Apache-2.0
"""The table of element types agrees with numpy, with onnx's schemas, and with itself."""

from __future__ import annotations

import ast
import itertools
import re
from pathlib import Path

import ml_dtypes
import numpy as np
import onnx
import opshift
import opshift_adapters
import pytest
from onnx import numpy_helper
from opshift.model.arrays import dtype_of
from opshift.opsets import late_changes
from opshift.opsets.elements import ELEMENTS, T

ROWS = [row for row in ELEMENTS.values() if row.number in onnx.TensorProto.DataType.values()]
WHOLE = [row for row in ROWS if row.number is T.BOOL or "int" in row.name]
LATE = {(op, since) for _, op, since in late_changes.table()}  # changed after they were published
REPLACED = [row for row in ROWS if row.replacement is not None]
HELD = [row for row in ROWS if row.numpy or row.ml_dtypes]
SMALL = [row for row in HELD if row.bits <= 16]
FRACTIONS = [row for row in HELD if row.fraction is not None]


def name_of(row):
    return row.name


def codes(row):
    """Every value of a type of up to 16 bits, as onnx reads its codes."""
    count = 2**row.bits
    if row.bits < 8:
        packed = np.arange(256, dtype=np.uint8).tobytes()
        count = 256 * 8 // row.bits
    else:
        packed = np.arange(count, dtype=f"<u{row.bits // 8}").tobytes()
    tensor = onnx.TensorProto(data_type=row.number, dims=[count], raw_data=packed)
    return numpy_helper.to_array(tensor)


def test_every_element_type_of_the_installed_onnx_has_a_row():
    others = {onnx.TensorProto.UNDEFINED, onnx.TensorProto.STRING}
    assert {*onnx.TensorProto.DataType.values()} - others <= ELEMENTS.keys()


@pytest.mark.parametrize("row", REPLACED, ids=name_of)
def test_a_replacement_is_older_and_holds_each_value(row):
    for kind in (row.replacement, row.oldest_replacement):
        assert kind.element.opset < row.opset
        assert kind.element.ir < row.ir
        assert kind.element.holds(row)
    assert row.oldest_replacement.element.replacement is None


@pytest.mark.parametrize("row", SMALL, ids=name_of)
def test_a_type_holds_another_if_each_value_survives_with_its_sign(row):
    with np.errstate(invalid="ignore"):  # NaNs that signal
        values = codes(row).astype(np.float64)
    values = np.array([0.0, 1.0]) if row.number is T.BOOL else values[~np.isnan(values)]
    for other in HELD:
        with np.errstate(all="ignore"):
            back = values.astype(dtype_of(other.number)).astype(np.float64)
        signs = row.is_integer or np.array_equal(np.signbit(back), np.signbit(values))
        assert other.holds(row) == (np.array_equal(back, values) and signs), other.name


@pytest.mark.parametrize("row", FRACTIONS, ids=name_of)
def test_the_precision_and_range_are_those_of_the_type_in_numpy(row):
    limits, fraction = ml_dtypes.finfo(dtype_of(row.number)), row.fraction
    assert fraction.largest == float(limits.max)
    assert fraction.smallest_normal == float(limits.smallest_normal)
    assert 2.0**fraction.least == float(limits.smallest_subnormal)
    assert fraction.below_one == float(limits.epsneg)
    assert 2 ** (fraction.above_all - 1) <= int(fraction.largest) < 2**fraction.above_all


@pytest.mark.parametrize("row", [row for row in FRACTIONS if row.bits <= 16], ids=name_of)
def test_the_number_above_a_number_is_the_next_one_even_above_the_largest(row):
    with np.errstate(invalid="ignore"):  # NaNs that signal
        values = codes(row).astype(np.float64)
    normal = values[np.isfinite(values) & (values >= row.fraction.smallest_normal)]
    for value, following in itertools.pairwise(np.unique(normal)):
        assert row.fraction.above(value) == row.fraction.above((value + following) / 2) == following
    largest = row.fraction.largest
    assert largest < row.fraction.above(largest) <= 2.0**row.fraction.above_all


def test_only_8_bit_floats_with_zeros_are_float8():
    float8 = {row.name for row in ROWS if row.is_float8}
    assert float8 == {row.name for row in ROWS if re.fullmatch("float8e[45].*", row.name)}
    assert {name for name in T.__members__ if T[name].is_float8} == {
        name.upper() for name in float8
    }
    assert not T.STRING.is_float8


def test_only_known_numbers_are_element_types():
    assert all(map(T.has, ELEMENTS))
    assert not T.has(99)


def test_a_complex_type_holds_only_complex_types():
    single, double, real = (ELEMENTS[kind] for kind in (T.COMPLEX64, T.COMPLEX128, T.FLOAT))
    assert (single.is_complex, double.is_complex, real.is_complex) == (True, True, False)
    assert double.holds(single)
    assert not single.holds(double)
    assert not double.holds(real)
    assert not ELEMENTS[T.DOUBLE].holds(single)


def test_a_type_without_zero_starts_at_1():
    assert ELEMENTS[T.FLOAT8E8M0].limits == (1, 2)
    assert ELEMENTS[T.FLOAT].finite == (-ELEMENTS[T.FLOAT].fraction.largest, np.finfo("f4").max)
    assert ELEMENTS[T.INT8].finite == (-128, 127)


@pytest.mark.parametrize("row", WHOLE, ids=name_of)
def test_the_limits_of_integers_are_their_smallest_and_largest_value(row):
    if row.bits > 16:
        limits = np.iinfo(row.numpy)
        assert row.limits == (limits.min, limits.max)
    else:
        values = codes(row).astype(np.int64) if row.number is not T.BOOL else np.array([0, 1])
        assert row.limits == (values.min(), values.max())


def test_only_integers_have_no_fraction():
    for row in ROWS:
        assert row.is_integer == (row in WHOLE)
        if row.is_integer:
            with pytest.raises(TypeError, match="is not a floating-point type"):
                row.number.fraction  # noqa: B018


@pytest.mark.parametrize("row", [row for row in FRACTIONS if row.bits <= 16], ids=name_of)
def test_integers_up_to_the_limits_have_no_gap(row):
    low, high = row.limits
    with np.errstate(invalid="ignore"):  # NaNs that signal
        held = set(codes(row).astype(np.float64).tolist())
    assert held.issuperset(range(low, high + 1))
    assert not held.issuperset((low - 1, high + 1))


@pytest.mark.parametrize("row", ROWS, ids=name_of)
def test_the_opset_is_the_first_in_which_an_operator_accepts_the_type(row):
    born = min(
        (schema.since_version for schema in onnx.defs.get_all_schemas_with_history()
         if not schema.domain and (schema.name, schema.since_version) not in LATE
         and _accepts(schema, f"tensor({row.name})")),
        default=None,
    )  # fmt: skip
    if born is None:
        pytest.skip(f"the installed onnx has no operator of {row.name}")
    assert row.opset == born


def _accepts(schema, name):
    return any(name in value.types for value in (*schema.inputs, *schema.outputs))


JUDGES = ("verify", "testing")  # rooms that draw and compare arrays of numpy


def test_the_table_is_the_only_one():
    """No other module defines or reads limits of element types."""
    written = []
    for package in (opshift, opshift_adapters):
        folder = Path(package.__file__).parent
        for path in folder.rglob("*.py"):
            text = path.read_text("utf-8")
            if path.relative_to(folder).parts[0] not in JUDGES:
                written += [str(path)] * bool(re.search(r"\b[fi]info\b", text))
            for node in ast.walk(ast.parse(text)):
                if isinstance(node, ast.Dict) and any(map(_is_type, node.keys)):
                    texts = {ast.unparse(value) for value in node.values}
                    written += [str(path)] * bool(texts & {"(-128, 127)", "(0, 255)", "(-8, 7)"})
    assert not written


def _is_type(key):
    return isinstance(key, ast.Attribute) and ast.unparse(key.value) == "T"
