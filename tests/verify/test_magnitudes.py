# SPDX-License-Identifier: Apache-2.0
"""Finds the largest values node by node, with one weight in memory at a time."""

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
from opshift.verify import engine_choice, locate, oracle
from opshift.verify import magnitudes as module
from opshift.verify.magnitudes import magnitudes
from text_models import model as model_of

pytestmark = pytest.mark.usefixtures("warm_children")

NETWORK = (
    '<ir_version: IR, opset_import: ["" : 18]> g (float[2,8] x, bool c) => (float[2,8] y)'
    " { a = MatMul(x, w0) b = Tanh(a) d = MatMul(b, w1) e = Mul(d, k)"
    " y = If (c) <then_branch = t () => (float[2,8] p) { p = MatMul(e, w2) },"
    " else_branch = f () => (float[2,8] q) { q = MatMul(d, w2) }> }"
)


def network(ir: int = 8) -> onnx.ModelProto:
    """A network with three weights; below IR 4 they are inputs, too."""
    proto = parse_model(NETWORK.replace("IR", str(ir)))
    random = np.random.default_rng(0)
    for name in ("w0", "w1", "w2"):
        weight = numpy_helper.from_array(random.normal(size=(8, 8)).astype("f4"), name)
        proto.graph.initializer.append(weight)
    proto.graph.initializer.append(numpy_helper.from_array(np.array(300, "f4"), "k"))
    if ir < 4:
        proto.graph.input.extend(
            onnx.helper.make_tensor_value_info(tensor.name, tensor.data_type, tensor.dims)
            for tensor in proto.graph.initializer
        )
    return proto


@pytest.fixture
def older_objects_stay():
    """Makes the garbage collector ignore older objects, which would take seconds."""
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
    values = oracle.evaluate(
        model, {"x": x, "c": np.array(True)},
        load=load, seen=lambda _, value: counted("values", value),
    )  # fmt: skip
    assert len(alive["weights"]) == 3
    assert most["weights"] == 1
    assert most["values"] <= 4  # two that the branch reads, its result, and the same as the output
    np.testing.assert_array_equal(
        values[0], oracle.evaluate(model, {"x": x, "c": np.array(True)})[0]
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
    result = convert(tmp_path / "model.onnx", types={"float": "float16"})
    overflow._last.clear()
    assert not [note for note in result.report.notes if "no value was tested" in note]
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
        result = convert(tmp_path / "model.onnx", types={"float": "float16"})
        notes = [note for note in result.report.notes if "no value was tested" in note]
        overflow._last.clear()
        assert bool(notes) == (not limit)
    assert (
        "too large to run as a whole, and opshift has no description of com.microsoft" in notes[0]
    )


@pytest.fixture
def largest(tmp_path):
    """Returns the largest magnitudes of a model on the given inputs, or the reason for none."""

    def run(text, inputs, names=(), *, inside=False, large=False, opset=18):
        path, fed = tmp_path / "model.onnx", tmp_path / "inputs.npz"
        onnx.save(model_of(text, opset, more=', "own" : 1'), path)
        np.savez(fed, **inputs)
        return magnitudes(str(path), str(tmp_path), names, inside, large, str(fed))

    return run


CHAIN = "(float[n] x) => (float[n] y) { a = Neg(x) b = Add(a, a) d = Add(b, b) y = Add(d, d) }"
X = {"x": np.array([-0.25, 0.125], "f4")}
ALL = {"x": 0.25, "a": 0.25, "b": 0.5, "d": 1.0, "y": 2.0}


@pytest.mark.parametrize("together", [1, 2, 256])
def test_a_runtime_computes_the_wanted_values_and_the_inputs(largest, monkeypatch, together):
    monkeypatch.setattr(locate, "TOGETHER", together)
    assert largest(CHAIN, X) == ({"x": 0.25}, "")
    assert largest(CHAIN, X, ["b"]) == ({"x": 0.25, "b": 0.5}, "")
    assert largest(CHAIN, X, ["a", "b", "d", "y"]) == (ALL, "")


@pytest.mark.parametrize(
    ("octets", "sizes"), [(1 << 28, [2, 8, 32, 58]), (80, [2, 8, 10, 10, 10, 10]), (0, [2, 2, 2])]
)
def test_the_runs_of_many_small_values_become_larger(largest, monkeypatch, octets, sizes):
    """Each run loads the whole model, so the number of runs must not grow with the values."""
    names, seen, save = [f"v{i:03}" for i in range(1, 101)], [], module.save

    def counted(proto, path):
        seen.append(len(proto.graph.output))
        save(proto, path)

    monkeypatch.setattr(locate, "TOGETHER", 2)
    monkeypatch.setattr(module, "MOST_OCTETS", octets)
    monkeypatch.setattr(module, "save", counted)
    nodes = " ".join(f"v{i + 1:03} = Neg(v{i:03})" for i in range(100))
    text = f"(float[n] v000) => (float[n] y) {{ {nodes} y = Neg(v100) }}"
    found, reason = largest(text, {"v000": X["x"]}, names)
    assert (found, reason) == (dict.fromkeys(["v000", *names], 0.25), "")
    assert seen[: len(sizes)] == sizes


def test_node_by_node_every_value_is_found(largest):
    assert largest(CHAIN, X, ["b"], large=True) == (ALL, "")
    assert largest(CHAIN, X, ["b"], inside=True) == (ALL, "")


@pytest.mark.parametrize("large", [False, True])
@pytest.mark.parametrize(
    ("numbers", "expected"),
    [
        ([-3, 2], 3.0),
        ([-0.5, 0.25], 0.5),
        ([np.inf, -np.inf, np.nan, -2], 2.0),
        ([np.inf, np.nan], 0.0),
        ([], 0.0),
    ],
)
def test_only_finite_numbers_count(largest, numbers, expected, large):
    found, _ = largest(CHAIN, {"x": np.array(numbers, "f4")}, ["a"], large=large)
    assert (found["x"], found["a"]) == (expected, expected)


@pytest.mark.parametrize("large", [False, True])
def test_only_floats_count_also_in_sequences(largest, large):
    text = """(float[2] x, int64[1] k, bool c) => (float[2] y) {
        y = Add(x, x) s = SequenceConstruct(x, y) i = Add(k, k) n = Not(c) t = SequenceEmpty() }"""
    inputs = {"x": np.array([1, -2], "f4"), "k": np.array([7]), "c": np.array(True)}
    found, reason = largest(text, inputs, ["s", "i", "n", "y", "t"], large=large)
    assert (found, reason) == ({"x": 2.0, "y": 4.0, "s": 4.0}, "")


def test_values_of_one_name_in_several_graphs_and_runs_count_as_one(largest):
    text = """(float[2] x) => (float[2] y) <int64 n = {3}, bool t = {1}> {
        y = Loop (n, t, x) <body = l (int64 i, bool k, float[2] v) => (bool q, float[2] w) {
            q = Identity(k) w = Mul(v, v) }> }"""
    found, _ = largest(text, {"x": np.array([-3, 2], "f4")}, inside=True)
    assert found == {"x": 3.0, "w": 3.0**8, "y": 3.0**8}
    found, _ = largest(text, {"x": np.array([0.5, 0.25], "f4")}, inside=True)
    assert found == {"x": 0.5, "w": 0.25, "y": 0.5**8}


def test_values_that_a_runtime_does_not_give_leave_the_others(largest):
    """A name inside of a subgraph cannot become an output of the model."""
    for place in range(4):
        names = ["a", "b", "d"]
        names.insert(place, "hidden")
        assert largest(CHAIN, X, names) == ({name: ALL[name] for name in "xabd"}, "")


@pytest.mark.parametrize(
    ("text", "kind", "opset"),
    [
        (CHAIN.replace("Add(a, a)", "Cosh(a)").replace("float", "double"), "f8", 18),
        (CHAIN, "f4", 6),
    ],
)
def test_a_model_that_the_runtime_cannot_run_is_computed_node_by_node(largest, text, kind, opset):
    found, reason = largest(text, {"x": X["x"].astype(kind)}, ["b"], opset=opset)
    assert (found.keys(), reason) == (ALL.keys(), "")


@pytest.mark.parametrize("how", [{}, {"inside": True}, {"large": True}])
def test_a_run_that_fails_gives_no_magnitudes(largest, how):
    text = "(float[n] x) => (float[4] y) <int64[1] s = {4}> { a = Neg(x) y = Reshape(a, s) }"
    found, reason = largest(text, X, ["a"], **how)
    assert found == {}
    assert reason


def test_an_operator_without_a_description_is_the_reason(largest):
    text = "(float[n] x) => (float[n] y) { a = Neg(x) y = own.Run(a) }"
    why = engine_choice.objection(model_of(text, 18, more=', "own" : 1'), engine_choice.OURS)
    assert largest(text, X, ["a"], inside=True) == ({}, why)
    found, reason = largest(text, X, ["a"], large=True)
    assert found == {}
    assert reason.endswith(f", and {why}")
