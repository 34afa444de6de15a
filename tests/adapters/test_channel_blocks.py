# SPDX-License-Identifier: Apache-2.0
"""Operators of the blocked layout (NCHWc) convert if the model proves the block width."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from onnx import ModelProto, helper, load, numpy_helper
from opshift import Refused, Why, convert_version
from text_models import model
from vendor_judge import NCHWC, run_as_written

PLAIN = ["ai.onnx"]
IMPORTS = f', "{NCHWC}" : 1'


def in_blocks(filter: np.ndarray, width: int, *, inner: bool) -> np.ndarray:
    """Reorders a filter into the blocked layout, as onnxruntime does."""
    outputs, inputs = filter.shape[:2]
    out = -(-outputs // width) * width
    into = -(-inputs // width) * width if inner else inputs
    wide = np.zeros((out, into, *filter.shape[2:]), np.float32)
    wide[:outputs, :inputs] = filter
    found = []
    for o in range(0, out, width):
        for i in range(0, into, width if inner else 1):
            for y, x in np.ndindex(filter.shape[2:]):
                for k in range(width if inner else 1):
                    found += [wide[o + j, i + k, y, x] for j in range(width)]
    return np.array(found, np.float32).reshape(wide.shape)


def with_weights(text: str, weights: dict[str, np.ndarray], opset: int = 17) -> ModelProto:
    proto = model(text, opset, 8, IMPORTS)
    proto.graph.initializer.extend(
        numpy_helper.from_array(array.astype(np.float32), name) for name, array in weights.items()
    )
    return proto


@pytest.mark.parametrize("width", [8, 16])
@pytest.mark.parametrize("outputs", [20, 24, 36])
@pytest.mark.parametrize("inputs", [3, 20])
def test_a_filter_is_put_back_from_blocks_of_any_width(
    width: int, outputs: int, inputs: int
) -> None:
    """The test writes the blocked model itself, because no processor has both widths."""
    rng = np.random.default_rng([width, outputs, inputs])
    first = rng.normal(size=(outputs, inputs, 3, 2))
    second = rng.normal(size=(outputs, 1, 3, 3))
    bias = rng.normal(size=outputs)
    inner = inputs >= width
    wide = -(-outputs // width) * width
    blocked = with_weights(
        f"(float[2,{inputs},6,5] x) => (float[2,{outputs},a,b] y) {{"
        + (f"i = {NCHWC}.ReorderInput(x)" if inner else "i = Identity(x)")
        + f" r = {NCHWC}.Conv<pads=[1,0,1,1]>(i, w, c) s = Sigmoid(r)"
        f' t = {NCHWC}.Conv<group={wide}, pads=[1,1,1,1], activation="Relu">(s, v, , r)'
        f" y = {NCHWC}.ReorderOutput<channels={outputs}>(t) }}",
        {
            "w": in_blocks(first, width, inner=inner),
            "v": in_blocks(second, width, inner=False),
            "c": np.pad(bias, (0, wide - outputs)),
        },
    )
    source = with_weights(
        f"(float[2,{inputs},6,5] x) => (float[2,{outputs},a,b] y) {{"
        " r = Conv<pads=[1,0,1,1]>(x, w, c) s = Sigmoid(r)"
        f" d = Conv<group={outputs}, pads=[1,1,1,1]>(s, v) t = Add(d, r) y = Relu(t) }}",
        {"w": first, "v": second, "c": bias},
    )
    after = convert_version(blocked, domains=PLAIN)
    feeds = {"x": rng.normal(size=(2, inputs, 6, 5)).astype(np.float32)}
    (found,), (wanted,) = run_as_written(after, feeds), run_as_written(source, feeds)
    np.testing.assert_allclose(found, wanted, rtol=1e-5, atol=1e-5)


NETS = {
    "many outputs": "r = Conv<pads=[1,1,1,1]>(x, w20, b20) y = Relu(r)",
    "a depthwise filter": "r = Conv(x, w20) y = Conv<group=20, strides=[2,1]>(r, v20)",
    "a sum": "r = Conv(x, w20) s = Conv<pads=[1,1,1,1]>(r, w20to20, b20) t = Add(s, r) y = Relu(t)",
    "pools": "r = Conv(x, w20) s = MaxPool<kernel_shape=[3,2], dilations=[1,2], strides=[2,2], pads=[1,0,1,1]>(r)"
    " y = AveragePool<kernel_shape=[2,2], pads=[1,0,0,1], count_include_pad=1>(s)",
    "whole images": "r = Conv(x, w20) s = GlobalAveragePool(r) t = GlobalMaxPool(r) y = Add(s, t)",
    "a gate": "r = Conv(x, w20) s = Sigmoid(r) t = Mul(r, s) y = Conv<pads=[1,1,1,1]>(t, w20to20)",
    "groups": "r = Conv(x, w48) s = Conv<group=3>(r, g48) y = Conv(s, w48to20)",
    "side by side": "r = Conv(x, w48) s = Conv<pads=[1,1,1,1]>(r, w48to48) c = Concat<axis=1>(r, s)"
    " m = MaxPool<kernel_shape=[2,2]>(c) y = Conv<kernel_shape=[1,1]>(m, w96to20)",
    "larger": "r = Conv(x, w20) s = Resize<mode='linear', coordinate_transformation_mode='half_pixel'>(r, , k)"
    " y = Relu(s)",
    "channels last": "r = Conv(x, w20) t = Transpose<perm=[0,2,3,1]>(r) e = Exp(t)"
    " u = Transpose<perm=[0,3,1,2]>(e) y = Conv(u, w20to20)",
}


def weights_of(rng: np.random.Generator) -> dict[str, np.ndarray]:
    shapes = {
        "w20": (20, 3, 2, 3), "b20": (20,), "v20": (20, 1, 3, 3), "w20to20": (20, 20, 3, 3),
        "w48": (48, 3, 1, 1), "g48": (48, 16, 2, 2), "w48to48": (48, 48, 3, 3),
        "w48to20": (20, 48, 1, 1), "w96to20": (20, 96, 1, 1),
    }  # fmt: skip
    found = {name: rng.normal(size=shape) for name, shape in shapes.items()}
    return {**found, "k": np.array([1, 1, 2, 3])}


@pytest.mark.parametrize("target", [11, 17])
@pytest.mark.parametrize("net", NETS.values(), ids=NETS)
def test_what_the_optimizer_wrote_computes_the_same_again(
    net: str, target: int, tmp_path: Path
) -> None:
    runtime = pytest.importorskip("onnxruntime")
    rng = np.random.default_rng(0)
    net = net.replace("'", '"')
    text = f"(float[2,3,9,10] x) => (float[2,c,a,b] y) {{ {net} }}"
    before = with_weights(text, {k: v for k, v in weights_of(rng).items() if k in net})
    options, made = runtime.SessionOptions(), str(tmp_path / "made.onnx")
    options.log_severity_level = 4
    options.optimized_model_filepath = made
    runtime.InferenceSession(
        before.SerializeToString(), options, providers=["CPUExecutionProvider"]
    )
    optimized = load(made)
    if not any(node.domain == NCHWC for node in optimized.graph.node):
        pytest.skip("this processor has no blocks of channels")
    after = convert_version(optimized, target, domains=PLAIN)
    assert not [node.op_type for node in after.graph.node if node.domain]
    feeds = {"x": rng.normal(size=(2, 3, 9, 10)).astype(np.float32)}
    (wanted,) = run_as_written(optimized, feeds)
    (found,) = run_as_written(after, feeds)
    np.testing.assert_allclose(found, wanted, rtol=1e-4, atol=1e-4 * np.abs(wanted).max())


FROM_THREE = "r = com.microsoft.nchwc.Conv(x, w) "
PROOFS = {
    "24 outputs": (8, (24, 3), FROM_THREE + "y = com.microsoft.nchwc.ReorderOutput<channels=20>(r)"),
    "12 outputs removed": (16, (32, 3), FROM_THREE + "y = com.microsoft.nchwc.ReorderOutput<channels=20>(r)"),
    "11 inputs in no blocks": (16, (16, 11), FROM_THREE + "y = com.microsoft.nchwc.ReorderOutput<channels=16>(r)"),
    "8 inputs in no blocks": (16, (16, 8), FROM_THREE + "y = com.microsoft.nchwc.ReorderOutput<channels=16>(r)"),
    "8 inputs in a block": (8, (16, 8), "i = com.microsoft.nchwc.ReorderInput(x) r = com.microsoft.nchwc.Conv(i, w) y = com.microsoft.nchwc.ReorderOutput<channels=16>(r)"),
    "48 inputs for 36": (16, (16, 48), "i = com.microsoft.nchwc.ReorderInput(x) r = com.microsoft.nchwc.Conv(i, w) y = com.microsoft.nchwc.ReorderOutput<channels=16>(r)"),
    "behind a pool": (16, (32, 3), FROM_THREE + "p = com.microsoft.nchwc.MaxPool<kernel_shape=[1,1]>(r) y = com.microsoft.nchwc.ReorderOutput<channels=20>(p)"),
}  # fmt: skip
INPUTS = {"48 inputs for 36": 36}


@pytest.mark.parametrize("case", PROOFS)
def test_sizes_prove_the_width(case: str) -> None:
    """The filter of the result was reordered with the width that the sizes prove."""
    width, (outputs, inputs), text = PROOFS[case]
    own = INPUTS.get(case, inputs)
    rng = np.random.default_rng(0)
    source = rng.normal(size=(outputs, inputs, 1, 1)).astype(np.float32)
    filter = in_blocks(source, width, inner="ReorderInput" in text)
    proto = with_weights(
        f"(float[1,{own},2,2] x) => (float[1,c,2,2] y) {{ {text} }}", {"w": filter}
    )
    after = convert_version(proto, domains=PLAIN)
    (written,) = (tensor for tensor in after.graph.initializer if len(tensor.dims) == 4)
    np.testing.assert_array_equal(numpy_helper.to_array(written), source)


REFUSED = {
    "every size fits both": ((32, 3), FROM_THREE + "y = com.microsoft.nchwc.ReorderOutput<channels=32>(r)", "fits both"),
    "no width fits": ((40, 3), FROM_THREE + "y = com.microsoft.nchwc.ReorderOutput<channels=20>(r)", "no width"),
    "a bias for each channel": ((24, 3), FROM_THREE + "s = Add(r, t) y = com.microsoft.nchwc.ReorderOutput<channels=24>(s)", "read as if"),
    "an output in blocks": ((24, 3), FROM_THREE + "y = Relu(r)", "output 'y'"),
    "a function of the model": ((24, 3), FROM_THREE + "s = own.Relu(r) y = com.microsoft.nchwc.ReorderOutput<channels=24>(s)", "read as if"),
    "an activation of its own": ((24, 3), FROM_THREE.replace("(x", '<activation="Wavy">(x') + "y = com.microsoft.nchwc.ReorderOutput<channels=24>(r)", "'Wavy'"),
}  # fmt: skip


@pytest.mark.parametrize("case", REFUSED)
def test_a_width_that_is_not_proved_is_refused_for_each_node(case: str) -> None:
    (outputs, inputs), text, reason = REFUSED[case]
    weights = {"w": np.ones((outputs, inputs, 1, 1)), "t": np.ones((1, outputs, 1, 1))}
    proto = with_weights(f"(float[1,{inputs},2,2] x) => (float[1,c,2,2] y) {{ {text} }}", weights)
    if "own." in text:
        proto.opset_import.append(helper.make_opsetid("own", 1))
        function = proto.functions.add(name="Relu", domain="own", input=["a"], output=["b"])
        function.opset_import.append(helper.make_opsetid("", 17))
        function.node.append(helper.make_node("Cos", ["a"], ["b"]))
    with pytest.raises(Refused) as refused:
        convert_version(proto, domains=["ai.onnx", "own"])
    nodes = [node for node in proto.graph.node if node.domain == NCHWC]
    assert len(refused.value.refusals) == len(nodes)
    assert all(reason in str(refusal) for refusal in refused.value.refusals)


def test_a_filter_that_a_caller_may_replace_is_refused() -> None:
    text, weights = (
        FROM_THREE + "y = com.microsoft.nchwc.ReorderOutput<channels=24>(r)",
        np.ones((24, 3, 1, 1)),
    )
    proto = with_weights(
        f"(float[1,3,2,2] x, float[24,3,1,1] w) => (float[1,c,2,2] y) {{ {text} }}", {"w": weights}
    )
    with pytest.raises(Refused) as refused:
        convert_version(proto, domains=PLAIN)
    assert {refusal.why for refusal in refused.value.refusals} == {Why.NEEDS_CONSTANT}


def test_a_subgraph_that_reads_blocks_is_seen() -> None:
    """The branch of the If reads a blocked value of the enclosing graph."""
    then = "then_branch = g () => (float[1,24,2,2] p) { p = Softmax(r) }"
    other = "else_branch = g () => (float[1,24,2,2] q) { q = Relu(r) }"
    text = f"(float[1,3,2,2] x, bool k) => (float[1,24,2,2] y) {{ {FROM_THREE} z = com.microsoft.nchwc.ReorderOutput<channels=24>(r) u = If<{then}, {other}>(k) y = Add(u, z) }}"
    proto = with_weights(text, {"w": np.ones((24, 3, 1, 1))})
    with pytest.raises(Refused, match="read as if"):
        convert_version(proto, domains=PLAIN)
