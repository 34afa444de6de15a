# SPDX-License-Identifier: Apache-2.0
"""Law: no conversion creates two neighbouring Casts that a runtime would merge wrongly.

onnxruntime 1.6 to 1.16 merge two Casts if only Casts read the value between them.
"""

from __future__ import annotations

import itertools
import random
from collections.abc import Iterator

import numpy as np
import onnx
import pytest
from onnx import ModelProto, TensorProto
from onnx.inliner import inline_local_functions
from opshift import convert_version
from opshift.opsets import schemas
from text_models import model

from tools.conformance.node_tests import function
from tools.corpus.runtimes.install import NotHere, install
from tools.corpus.runtimes.runner import Runner
from tools.lib import written_forms

ort = pytest.importorskip("onnxruntime")

MERGES = "1.16.3"
LARGEST = 6
# The opset of a chain, the lowest that its type reaches, and operators that lacked the type.
KINDS = {
    "bfloat16": (22, 13, "Sin", "Cos", "Elu", "HardSwish", "Softplus", "Selu", "Softsign", "Neg"),
    "float16": (14, 11, "CumSum", "Abs", "Relu", "Identity"),
    "float8e4m3fn": (24, 19, "Transpose", "Flatten", "Identity"),
    "int8": (14, 10, "Add", "Sub", "Mul", "Div", "Relu", "Neg"),
    "uint16": (14, 10, "Add", "Sub", "Mul", "Identity"),
}
CASES = [(kind, seed) for kind, (opset, *_) in KINDS.items() for seed in range(12)]
CALLS = {
    "CumSum": "CumSum({0}, axis)", "Add": "Add({0}, {0})", "Sub": "Sub({0}, two)",
    "Mul": "Mul({0}, {0})", "Div": "Div({0}, two)",
}  # fmt: skip

pytestmark = pytest.mark.skipif(
    (schemas.latest("") or 0) < 24, reason="the installed onnx lacks opset 24"
)


def random_chain(kind: str, seed: int) -> tuple[ModelProto, int]:
    """Operators of one type, with Casts of the model between them, and a target."""
    draw = random.Random(f"{kind} {seed}")
    opset, lowest, *known = KINDS[kind]
    shape = draw.choice(("[3,4]", "[n,m]"))
    lines, given, first = [], ["x"], draw.choice((kind, "float"))
    now = first
    for at in range(draw.randint(3, LARGEST)):
        if now != kind or draw.random() < 0.3:
            now = kind if now != kind else "float"
            to = TensorProto.DataType.Value(now.upper())
            lines.append(f"v{at} = Cast<to = {to}>({given[-1]})")
        else:
            op = draw.choice(known)
            lines.append(f"v{at} = {CALLS.get(op, op + '({0})').format(given[-1])}")
        given.append(f"v{at}")
    seen = draw.sample(given[1:-1], k=draw.random() < 0.3)  # what others read is not merged
    lines += [f"y{i} = Identity({name})" for i, name in enumerate((*seen, given[-1]))]
    outputs = ", ".join(f"y{i}" for i in range(len(seen) + 1))
    constants = f"<int64 axis = {{0}}, {kind} two = {{2}}>"
    text = f"({first}{shape} x) => ({outputs}) {constants} {{ {' '.join(lines)} }}"
    return model(text, opset, 10), draw.randint(lowest, opset - 1)


def pairs(proto: ModelProto) -> Iterator[tuple[str, str]]:
    """Returns the names of the outputs of two consecutive Casts."""
    casts = {n.output[0]: n.input[0] for n in written_forms.nodes(proto) if n.op_type == "Cast"}
    return ((first, last) for last, first in casts.items() if first in casts)


@pytest.mark.parametrize(("kind", "seed"), CASES)
def test_no_casts_meet_and_those_of_the_model_stay(kind, seed):
    before, to = random_chain(kind, seed)
    after = convert_version(before, to)
    assert written_forms.objections(before, after) == []
    kept = {node.output[0] for node in after.graph.node if node.op_type == "Cast"}
    assert {pair for pair in pairs(before) if kept.issuperset(pair)} <= set(pairs(after))


@pytest.mark.parametrize(("kind", "seed"), CASES[::5])
def test_no_casts_meet_in_a_function(kind, seed):
    chain, to = random_chain(kind, seed)
    before = function(chain)
    flat = [inline_local_functions(one) for one in (before, convert_version(before, to))]
    assert written_forms.objections(*flat) == []


@pytest.fixture(scope="module")
def runner():
    try:
        made = Runner(install(MERGES), seconds=400)
    except (NotHere, OSError) as reason:
        pytest.skip(f"onnxruntime {MERGES} cannot be installed here: {reason}")
    yield made
    made.close()


def test_a_release_that_merges_casts_gives_the_numbers_of_one_that_does_not(runner, tmp_path):
    if tuple(map(int, ort.__version__.split(".")[:2])) < (1, 17):
        pytest.skip("the installed onnxruntime merges Casts, too")
    ops = ("HardSigmoid<alpha = 0.3, beta = 0.2>", "ThresholdedRelu<alpha = 0.1>", "HardSwish")
    x = np.linspace(-2, 3, 96, dtype=np.float32)
    told = []
    for seed in range(6):
        draw = random.Random(seed)
        names = ["b", *(f"v{at}" for at in range(draw.randint(2, 5)))]
        lines = [f"{b} = {draw.choice(ops)}({a})" for a, b in itertools.pairwise(names)]
        text = f"b = Cast<to = 16>(x) {' '.join(lines)} y = Cast<to = 1>({names[-1]})"
        before = model(f"(float[96] x) => (float[96] y) {{ {text} }}", 22, 10)
        after = convert_version(before, draw.randint(15, 19), ir_version=8)
        place = tmp_path / str(seed)
        place.mkdir()
        onnx.save(after, place / "model.onnx")
        session = ort.InferenceSession(
            after.SerializeToString(), providers=["CPUExecutionProvider"]
        )
        np.savez(place / "inputs.npz", x=x)
        np.savez(place / "expected.npz", y=session.run(None, {"x": x})[0])
        told.append(runner.judge(place / "model.onnx", place)["outcome"])
    assert told == ["right"] * 6
