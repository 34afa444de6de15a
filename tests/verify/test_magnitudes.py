# SPDX-License-Identifier: Apache-2.0
"""How large values become: node by node as in a runtime, with one weight in memory at a time."""

from __future__ import annotations

import gc
import weakref

import numpy as np
import onnx
import pytest
from onnx import numpy_helper
from opshift import convert
from opshift.convert.requests import overflow, type_choice
from opshift.model.arrays import to_array
from opshift.model.weights import Weights
from opshift.testing.model_text import parse_model
from opshift.verify import oracle
from opshift.verify.magnitudes import magnitudes

NETWORK = (
    '<ir_version: IR, opset_import: ["" : 18]> g (float[2,8] x, bool c) => (float[2,8] y)'
    " { a = MatMul(x, w0) b = Tanh(a) d = MatMul(b, w1) e = Mul(d, k)"
    " y = If (c) <then_branch = t () => (float[2,8] p) { p = MatMul(e, w2) },"
    " else_branch = f () => (float[2,8] q) { q = MatMul(d, w2) }> }"
)


def network(ir: int = 8) -> onnx.ModelProto:
    """A network with three weights; below IR 4 they are inputs, too."""
    found = parse_model(NETWORK.replace("IR", str(ir)))
    random = np.random.default_rng(0)
    for name in ("w0", "w1", "w2"):
        weight = numpy_helper.from_array(random.normal(size=(8, 8)).astype("f4"), name)
        found.graph.initializer.append(weight)
    found.graph.initializer.append(numpy_helper.from_array(np.array(300, "f4"), "k"))
    if ir < 4:
        found.graph.input.extend(
            onnx.helper.make_tensor_value_info(one.name, one.data_type, one.dims)
            for one in found.graph.initializer
        )
    return found


@pytest.fixture
def older_objects_stay():
    """The collector looks only at objects that the test makes; those of a suite take seconds."""
    gc.freeze()
    yield
    gc.unfreeze()


@pytest.mark.usefixtures("older_objects_stay")
@pytest.mark.parametrize("ir", [3, 8])
def test_one_weight_is_in_memory_at_a_time_and_values_end_with_their_last_reader(ir):
    model, alive = network(ir), {"weights": [], "values": []}
    most = dict.fromkeys(alive, 0)

    def counted(kind, value):
        gc.collect()
        alive[kind].append(weakref.ref(value))
        most[kind] = max(most[kind], sum(one() is not None for one in alive[kind]))
        return value

    def load(tensor):
        value = to_array(tensor).copy()
        return counted("weights", value) if value.size > 1 else value

    x = np.ones((2, 8), "f4")
    found = oracle.evaluate(
        model, {"x": x, "c": np.array(True)},
        load=load, seen=lambda _, value: counted("values", value),
    )  # fmt: skip
    assert len(alive["weights"]) == 3
    assert most["weights"] == 1
    assert most["values"] <= 4  # two that the branch reads, its result, and the same as the output
    np.testing.assert_array_equal(
        found[0], oracle.evaluate(model, {"x": x, "c": np.array(True)})[0]
    )


@pytest.mark.parametrize("external", [False, True])
def test_node_by_node_and_in_a_runtime_values_become_equally_large(tmp_path, external):
    source = parse_model(
        NETWORK.replace("IR", "8").replace(", bool c", "").split(" y = If")[0]
        + " y = MatMul(e, w2) }"
    )
    source.graph.initializer.extend(network().graph.initializer)
    path = str(tmp_path / "model.onnx")
    onnx.save(source, path, save_as_external_data=external, size_threshold=0)
    names = ["a", "b", "d", "e", "y"]
    (first, failed), (second, other) = (
        magnitudes(path, str(tmp_path), names, False, large, "") for large in (False, True)
    )
    assert (failed, other) == ("", "")
    assert set(names) <= first.keys() & second.keys()
    for name in names:
        np.testing.assert_allclose(second[name], first[name], rtol=1e-4)


def test_a_large_model_keeps_the_same_values_wide(tmp_path, monkeypatch):
    source = network()
    source.graph.initializer[-1].CopyFrom(numpy_helper.from_array(np.array(1e5, "f4") / 2, "k"))
    onnx.save(source, tmp_path / "model.onnx")
    found = []
    for limit in (overflow.LARGE, 0):
        monkeypatch.setattr(overflow, "LARGE", limit)
        found.append(convert(tmp_path / "model.onnx", types={"float": "float16"}))
        overflow._last.clear()
    assert found[0].report.notes
    assert "Cast" in {node.op_type for node in found[0].model.graph.node}
    assert found[0].model == found[1].model


def test_a_large_model_runs_where_it_is_without_a_copy(tmp_path, monkeypatch):
    onnx.save(
        network(), tmp_path / "model.onnx", save_as_external_data=True, location="data",
        size_threshold=0,
    )  # fmt: skip
    monkeypatch.setattr(overflow, "LARGE", 0)
    monkeypatch.setattr(overflow.weights, "splice", lambda *args, **more: pytest.fail("a copy"))
    before = sorted(tmp_path.iterdir())
    found = convert(tmp_path / "model.onnx", types={"float": "float16"})
    overflow._last.clear()
    assert not [one for one in found.report.notes if "no value was tested" in one]
    assert sorted(tmp_path.iterdir()) == before


def test_a_large_model_that_was_changed_before_is_copied(tmp_path, monkeypatch):
    onnx.save(network(), tmp_path / "model.onnx")
    monkeypatch.setattr(overflow, "LARGE", 0)
    copies = []
    splice = overflow.weights.splice
    monkeypatch.setattr(
        overflow.weights,
        "splice",
        lambda *args, **more: copies.append(args) or splice(*args, **more),
    )
    convert(tmp_path / "model.onnx", types={"float": "float16"}, shape={"x": (2, 8)})
    overflow._last.clear()
    assert not copies  # the shape is that of the model
    text = NETWORK.replace("IR", "8").replace("float[2,8] x", "float[N,8] x")
    source = parse_model(text)
    source.graph.initializer.extend(network().graph.initializer)
    onnx.save(source, tmp_path / "free.onnx")
    convert(tmp_path / "free.onnx", types={"float": "float16"}, shape={"x": (2, 8)})
    overflow._last.clear()
    assert len(copies) == 1


@pytest.mark.parametrize("seed", range(30))
def test_the_limits_of_a_weight_are_those_of_its_finite_numbers(seed):
    random = np.random.default_rng(seed)
    numbers = random.normal(size=50) * 10.0 ** random.integers(-40, 38, 50)
    some = random.random((4, 50)) < random.choice([0, 0.1, 0.9], (4, 1))
    for chosen, special in zip(some, (0.0, -0.0, np.inf, np.nan), strict=True):
        numbers[chosen] = special
    weight = numpy_helper.from_array(numbers.astype("f4"), "w")
    sizes = [abs(one) for one in to_array(weight).tolist() if np.isfinite(one) and one]
    assert type_choice.limits_of(Weights(), weight) == (
        min(sizes, default=np.inf), max(sizes, default=0.0)
    )  # fmt: skip


def test_a_large_model_that_no_interpreter_computes_is_not_run(tmp_path, monkeypatch):
    text = (
        '<ir_version: 8, opset_import: ["" : 18, "com.microsoft" : 1]> g'
        " (float[2,8] x) => (float[2,8] y)"
        " { a = MatMul(x, w0) b = com.microsoft.BiasGelu(a, v) y = MatMul(b, w1) }"
    )
    source = parse_model(text)
    source.graph.initializer.extend(network().graph.initializer)
    source.graph.initializer.append(numpy_helper.from_array(np.ones(8, "f4"), "v"))
    onnx.save(source, tmp_path / "model.onnx")
    for limit in (overflow.LARGE, 0):
        monkeypatch.setattr(overflow, "LARGE", limit)
        found = convert(tmp_path / "model.onnx", types={"float": "float16"})
        told = [one for one in found.report.notes if "no value was tested" in one]
        overflow._last.clear()
        assert bool(told) == (not limit)
    assert "too large to run as a whole, and opshift has no description of com.microsoft" in told[0]
