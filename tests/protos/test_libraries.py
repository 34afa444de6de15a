# SPDX-License-Identifier: Apache-2.0
"""The imports of onnx give one set of message classes and one C library, in any order."""

from __future__ import annotations

import ast
import os
import subprocess
import sys
from pathlib import Path

import onnx
import opshift
import pytest
from onnx import AttributeProto, helper
from opshift import protos
from opshift.protos import helper as own

PACKAGE = Path(opshift.__file__).parent
SAME = """
import onnx.onnx_cpp2py_export.checker
assert onnx.ModelProto is protos.ModelProto
assert onnx.onnx_ml_pb2.ModelProto is protos.ModelProto
assert onnx.IR_VERSION == protos.IR_VERSION
assert onnx.checker.ValidationError is checker.ValidationError
assert onnx.onnx_cpp2py_export.checker is library.checker
assert onnx.shape_inference.InferenceError is inference.InferenceError
assert onnx.defs.SchemaError is library.defs.SchemaError
assert onnx.defs.get_schema("Relu", 13).since_version == 13
model = onnx.parser.parse_model('<ir_version: 8, opset_import: ["": 13]> g (float[2] x) => (float[2] y) { y = Relu(x) }')
assert isinstance(model, protos.ModelProto)
checker.check_model(model, full_check=True)
onnx.checker.check_model(protos.ModelProto.FromString(model.SerializeToString()))
import onnx.reference
"""
OURS = "from opshift import protos\nfrom opshift.protos import library, onnx_checker as checker, shape_inference as inference\n"
MESSAGES = "from opshift import protos\n"
LIBRARY = "from opshift.protos import library\n"
THREAD = """
import threading
stop = threading.Event()
other = threading.Thread(target=stop.wait, daemon=True)
other.start()
"""


def run(program):
    done = subprocess.run(
        [sys.executable, "-c", program],
        capture_output=True,
        text=True,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
        check=False,
    )
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize(
    "first",
    [
        OURS,
        MESSAGES + "import onnx\n" + OURS,
        LIBRARY + "import onnx\n" + OURS,
        "import onnx\n" + OURS,
        "import onnx.helper\n" + OURS,
        OURS + "import onnx.numpy_helper\n",
        "from onnx import onnx_ml_pb2\n" + OURS,
        "from opshift.protos import whole\n" + OURS,
    ],
)
def test_messages_and_library_are_the_same_in_any_order(first):
    run(first + SAME)


def test_the_package_is_not_imported_for_messages_checks_inference_and_schemas():
    run(
        OURS
        + """
import sys
model = protos.ModelProto(ir_version=8)
model.opset_import.add(version=13)
model.graph.name = "g"
model.graph.node.add(op_type="Relu", input=["x"], output=["y"])
for name, values in (("x", model.graph.input), ("y", model.graph.output)):
    values.add(name=name).type.CopyFrom(own.make_tensor_type_proto(1, [2, "n"]))
checker.check_model(model, full_check=True)
inference.infer_shapes(model)
library.defs.get_schema("Relu", 13, "")
assert not {"onnx", "numpy"} & set(sys.modules)
""".replace("own.", "protos.helper.").replace("import sys", "import sys, opshift.protos.helper")
    )


def test_where_another_thread_runs_the_package_is_imported_whole():
    run(THREAD + OURS + "import sys\nassert 'onnx.helper' in sys.modules\n" + SAME + "stop.set()")


def test_a_failed_import_of_the_package_can_be_repeated():
    run(
        OURS
        + """
import sys
sys.modules["onnx.serialization"] = None
try:
    import onnx
except ImportError:
    pass
else:
    raise AssertionError
del sys.modules["onnx.serialization"]
"""
        + SAME
    )


def importers(path):
    for node in ast.walk(ast.parse(path.read_text("utf-8"))):
        names = (
            [alias.name for alias in node.names]
            if isinstance(node, ast.Import)
            else [node.module or ""]
            if isinstance(node, ast.ImportFrom)
            else []
        )
        if any(name.split(".")[0] == "onnx" for name in names):
            yield path


def test_nobody_else_imports_onnx():
    found = {importer for path in PACKAGE.rglob("*.py") for importer in importers(path)}
    found.remove(PACKAGE / "verify" / "guest.py")  # it runs in the Pythons of other runtimes
    assert {path.relative_to(PACKAGE).parts[0] for path in found} == {"protos"}


ATTRIBUTES = [
    AttributeProto(name="x"),
    helper.make_attribute("x", 1),
    helper.make_attribute("x", 1.5),
    helper.make_attribute("x", "word"),
    helper.make_attribute("x", [1, 2]),
    helper.make_attribute("x", [1.5]),
    helper.make_attribute("x", ["a", b"b"]),
    helper.make_attribute("x", helper.make_tensor("t", 1, [1], [1.0])),
    helper.make_attribute("x", [helper.make_tensor("t", 1, [1], [1.0])]),
    helper.make_attribute("x", onnx.GraphProto(name="g")),
    helper.make_attribute("x", [onnx.GraphProto(name="g")]),
    helper.make_attribute("x", helper.make_tensor_type_proto(1, [1])),
    helper.make_attribute("x", [helper.make_tensor_type_proto(1, [1])]),
    helper.make_attribute("x", onnx.SparseTensorProto(dims=[1])),
    helper.make_attribute("x", [onnx.SparseTensorProto(dims=[1])]),
]


@pytest.mark.parametrize("attribute", ATTRIBUTES, ids=lambda a: str(a.type))
def test_the_value_of_an_attribute_is_what_onnx_says(attribute):
    assert own.get_attribute_value(attribute) == helper.get_attribute_value(attribute)


def test_every_kind_of_attribute_has_been_compared():
    assert {attribute.type for attribute in ATTRIBUTES} == set(
        AttributeProto.AttributeType.values()
    )


@pytest.mark.parametrize("attribute", [
    AttributeProto(name="x", type=AttributeProto.INT, ref_attr_name="y"),
])  # fmt: skip
def test_a_reference_has_no_value(attribute):
    with pytest.raises(ValueError, match="'x'"):
        own.get_attribute_value(attribute)


@pytest.mark.parametrize("shape", [None, [], [2], [2, "n", None], ["n"]])
def test_the_type_of_a_tensor_is_what_onnx_makes(shape):
    ours, theirs = own.make_tensor_type_proto(1, shape), helper.make_tensor_type_proto(1, shape)
    assert ours == theirs
    assert ours.tensor_type.HasField("shape") == theirs.tensor_type.HasField("shape")


def test_every_message_is_the_one_of_onnx():
    assert all(getattr(protos, name) == getattr(onnx, name) for name in protos.__all__)
