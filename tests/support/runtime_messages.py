# SPDX-License-Identifier: Apache-2.0
"""A model for each message of `docs/start/my-runtime-says.md`, and what its commands must change.

Run as a program, it gives each command of the page the model that causes the message:

    python tests/support/runtime_messages.py docs/start/my-runtime-says.md
"""

from __future__ import annotations

import re
import shlex
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import onnx
from click.testing import CliRunner
from onnx import ModelProto, parser
from opshift.cli.entry import main
from opshift.opsets import schemas

Check = Callable[[ModelProto], bool]


def model(body: str, opset: int, ir: int = 8, *imports: str) -> ModelProto:
    """A model of a graph in text form."""
    sets = ", ".join([f'"": {opset}', *imports])
    proto: ModelProto = parser.parse_model(f"<ir_version: {ir}, opset_import: [{sets}]> g {body}")
    return proto


def opset(proto: ModelProto, domain: str = "") -> int:
    return next(
        opset_import.version for opset_import in proto.opset_import if opset_import.domain == domain
    )


def lacks(*ops: str) -> Check:
    return lambda proto: not {*ops} & {node.op_type for node in proto.graph.node}


def at_most(ir: int = 99, version: int = 99) -> Check:
    return lambda proto: proto.ir_version <= ir and opset(proto) <= version


def implementation(op: str, good: Callable[[int], bool]) -> Check:
    """Returns whether the runtime has the operator's version in the result, or it was replaced."""

    def check(proto: ModelProto) -> bool:
        schema = schemas.schema("", op, opset(proto))
        return lacks(op)(proto) or (schema is not None and good(schema.since))

    return check


def attribute(op: str, name: str, good: Callable[[object], bool]) -> Check:
    return lambda proto: all(
        good(
            [
                onnx.helper.get_attribute_value(attribute_proto)
                for attribute_proto in node.attribute
                if attribute_proto.name == name
            ]
        )
        for node in proto.graph.node
        if node.op_type == op
    )


def kinds_lack(*kinds: int) -> Check:
    def check(proto: ModelProto) -> bool:
        values = (*proto.graph.input, *proto.graph.output)
        return not {*kinds} & {value.type.tensor_type.elem_type for value in values}

    return check


def fixed(proto: ModelProto) -> bool:
    shapes = (info.type.tensor_type.shape.dim for info in proto.graph.input)
    return all(dim.HasField("dim_value") for dims in shapes for dim in dims)


def without_import(proto: ModelProto) -> ModelProto:
    del proto.opset_import[:]
    return proto


X, IMAGE = "(float[2,3] x) => (float[2,3] y)", "(float[1,3,8,8] x) => (float[1,3,4,4] y)"
RELU = f"{X} {{ y = Relu(x) }}"
NORM = f"(float[2,3] x, float[3] s) => (float[2,3] y) {{ y = LayerNormalization(x, s) }}"  # noqa: F541
BATCH = """(float[1,3,8,8] x, float[3] s, float[3] b, float[3] m, float[3] v) => (float[1,3,8,8] y)
 { y = BatchNormalization<is_test = 1>(x, s, b, m, v) }"""
GROUPS = """(float[1,4,8] x, float[4] s, float[4] b) => (float[1,4,8] y)
 { y = GroupNormalization<num_groups = 2>(x, s, b) }"""
TYPES = """(bfloat16[2,2] x, double[1,3,8,8] i, double[2,3,3,3] w) => (bfloat16[2,2] y, double[1,2,6,6] z)
 { y = MatMul(x, x)  z = Conv(i, w) }"""
LSTM = """(float[4,1,3] x, float[1,8,3] w, float[1,8,2] r) => (float[4,1,1,2] y)
 { y = LSTM<hidden_size = 2, layout = 1>(x, w, r) }"""
POOL = "y = {}<kernel_shape = [2,2], strides = [2,2]>(x)"
MEAN = f"(float[1,3,8,8] x) => (float[1,3] y) {{ y = ReduceMean<axes = [3,2], keepdims = 0>(x) }}"  # noqa: F541
AXES = f"(float[1,3,8,8] x) => (float[1,3] y) <int64[2] axes = {{2,3}}> {{ y = ReduceMean<keepdims = 0>(x, axes) }}"  # noqa: F541
GRID = """(float[1,3,8,8] x, float[1,4,4,2] grid) => (float[1,3,4,4] y)
 { y = GridSample<mode = "linear">(x, grid) }"""
LABELS = """(int64[2] x) => (string[2] y)
 { y = ai.onnx.ml.LabelEncoder<keys_int64s = [1,2], values_strings = ["a","b"]>(x) }"""
ANY: Check = lambda made: True  # noqa: E731

# The model that causes each message, by a part of the message, and what holds for a result.
CASES: dict[str, tuple[ModelProto, Check]] = {
    "opset 21 is not supported": (model(RELU, 21, 9), at_most(99, 20)),
    "model IR version: 10, max supported IR version: 9`**\n": (model(RELU, 21, 10), at_most(9)),
    "Current official support for domain ai.onnx is till opset 20": (
        model(RELU, 21, 9), at_most(99, 20)),
    "domain ai.onnx.ml is till opset 3": (
        model(LABELS, 15, 8, '"ai.onnx.ml": 4'), lambda made: opset(made, "ai.onnx.ml") == 3),
    "BatchNormalization(6)": (model(BATCH, 6, 3), implementation("BatchNormalization", lambda n: n >= 7)),
    "AveragePool(19)": (
        model(f"{IMAGE} {{ {POOL.format('AveragePool')} }}", 19), implementation("AveragePool", lambda n: n < 19)),
    "MatMul(13)": (model(TYPES, 13), ANY),
    "No Op registered for LayerNormalization": (model(NORM, 13), ANY),
    "higher than the checker's": (model(RELU, 21, 11), at_most(10)),
    "IR version: 9, max supported IR version: 8": (model(RELU, 19, 9), at_most(8)),
    "cannot resolve operator 'MaxPool'": (
        model(f"{IMAGE} {{ {POOL.format('MaxPool')} }}", 11), at_most(99, 9)),
    "No importer registered for op: LayerNormalization": (model(NORM, 17), lacks("LayerNormalization")),
    "UNSUPPORTED_NODE": (model(NORM, 17), lacks("LayerNormalization")),
    "LearningModel::LoadFromFilePath": (model(RELU, 21, 10), ANY),
    "Unsupport onnx opset 19": (model(RELU, 19), at_most(99, 12)),
    "Unrecognized attribute: layout": (model(LSTM, 14), attribute("LSTM", "layout", lambda found: not found)),
    "a message about dynamic shapes": (model("(float[N,3] x) => (float[N,3] y) { y = Relu(x) }", 13), fixed),
    "only model with opset_version 10/11": (model(RELU, 12), lambda made: opset(made) in (10, 11)),
    "op: XXX": (model(GROUPS, 21, 10), lacks("GroupNormalization")),
    "does not support the following ONNX operations": (model(NORM, 17), lacks("LayerNormalization")),
    "handleNode": (model(AXES, 18), attribute("ReduceMean", "axes", lambda found: found == [[2, 3]])),
    "parseReduce": (model(MEAN, 11), attribute("ReduceMean", "axes", lambda found: found == [[2, 3]])),
    "failed to legalize operation": (
        model(f"{IMAGE} {{ {POOL.format('AveragePool')} }}", 9), lambda made: opset(made) > 9),
    "for GridSample": (model(GRID, 20, 9), at_most(99, 16)),
    "invalid version (must be between": (model(RELU, 21, 10), ANY),
    "aten::tril": (model(f"{X} {{ y = Trilu(x) }}", 14), lacks("Trilu")),
    "requested opset_version 17": (model(RELU, 18), at_most(99, 17)),
    "operation_type='NonZero'": (
        model("(float[2,3] x) => (int64[2,n] y) { y = NonZero(x) }", 9), implementation("NonZero", lambda n: n >= 13)),
    "must specify opset_import": (without_import(model(RELU, 13)), ANY),
}  # fmt: skip
# What else must hold for the result of one command.
ALSO: dict[str, Check] = {
    "--types bfloat16=float": kinds_lack(onnx.TensorProto.BFLOAT16),
    "--types double=float": lambda proto: "double" not in onnx.printer.to_text(proto.graph).split("Conv")[1],
    "--for winml:win11": at_most(9),
}  # fmt: skip
NO = {"check": 1}  # the exit code of a command that reports the cause


def sections(page: str) -> Iterator[tuple[str, list[str]]]:
    """Each message of the page with its commands."""
    parts = re.split(r"^(?=\*\*)", page, flags=re.M)[1:]
    for part in parts:
        blocks = re.findall(r"^```sh\n(.*?)^```$", part, re.M | re.S)
        yield (
            part.partition("\n")[0] + "\n",
            [line for block in blocks for line in block.splitlines()],
        )


def problems(page: str) -> Iterator[str]:
    """Returns the faults of the page: a message without a model, or a command without effect."""
    unused = set(CASES)
    for message, commands in sections(page):
        keys = [key for key in CASES if key in message]
        if len(keys) != 1:
            yield f"{message.strip()}: {len(keys)} models"
            continue
        unused -= {*keys}
        for command in commands:
            yield from broken(command, *CASES[keys[0]])
    yield from (f"no message has {key!r}" for key in unused)


def broken(command: str, source: ModelProto, check: Check) -> Iterator[str]:
    """Runs one command with the model, and returns the fault of its result."""
    onnx.save(source, "model.onnx")
    Path("out.onnx").unlink(missing_ok=True)
    _, *words = shlex.split(command)
    done = CliRunner().invoke(main, words)
    if done.exit_code != NO.get(words[0], 0):
        yield f"{command}: exit code {done.exit_code}\n{done.output}"
    elif words[0] == "convert":
        also = next((one for part, one in ALSO.items() if part in command), ANY)
        result = onnx.load("out.onnx")
        if not (check(result) and also(result)):
            yield f"{command}: the cause is still there\n{onnx.printer.to_text(result)}"


if __name__ == "__main__":
    found = list(problems(Path(sys.argv[1]).read_text(encoding="utf-8")))
    print("\n".join(found))
    sys.exit(bool(found))
