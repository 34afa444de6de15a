# SPDX-License-Identifier: Apache-2.0
"""The table of element types agrees with numpy, with onnx's schemas, and with itself."""

from __future__ import annotations

import ast
from pathlib import Path

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
NARROW = [row for row in ROWS if row.wide is not None]


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


@pytest.mark.parametrize("row", NARROW, ids=name_of)
def test_a_wider_type_is_older_and_holds_each_value_with_its_sign(row):
    with np.errstate(invalid="ignore"):  # NaNs that signal
        values = codes(row).astype(np.float64)
    known = ~np.isnan(values)
    for kind in (row.wide, row.widest):
        wide = kind.element
        assert wide.opset < row.opset
        assert wide.ir < row.ir
        back = values.astype(dtype_of(kind)).astype(np.float64)
        assert np.array_equal(back, values, equal_nan=True)
        assert np.array_equal(np.signbit(back[known]), np.signbit(values[known]))
    assert row.widest.element.wide is None


@pytest.mark.parametrize("row", WHOLE, ids=name_of)
def test_the_limits_of_integers_are_their_smallest_and_largest_value(row):
    if row.bits > 16:
        limits = np.iinfo(row.numpy)
        assert row.limits == (limits.min, limits.max)
    else:
        values = codes(row).astype(np.int64) if row.number is not T.BOOL else np.array([0, 1])
        assert row.limits == (values.min(), values.max())


def test_only_integers_have_limits():
    for row in ROWS:
        assert row.is_integer == (row in WHOLE)
        if row not in WHOLE:
            with pytest.raises(ValueError, match="is not an integer type"):
                row.limits  # noqa: B018


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
    return any(name in one.types for one in (*schema.inputs, *schema.outputs))


def test_the_table_is_the_only_one():
    """No module writes the limits of 8 or 16 bits for an element type again."""
    written = []
    for package in (opshift, opshift_adapters):
        for path in Path(package.__file__).parent.rglob("*.py"):
            for node in ast.walk(ast.parse(path.read_text("utf-8"))):
                if isinstance(node, ast.Dict) and any(map(_is_type, node.keys)):
                    texts = {ast.unparse(value) for value in node.values}
                    written += [str(path)] * bool(texts & {"(-128, 127)", "(0, 255)", "(-8, 7)"})
    assert not written


def _is_type(key):
    return isinstance(key, ast.Attribute) and ast.unparse(key.value) == "T"
