# SPDX-License-Identifier: Apache-2.0
"""A valid model stays valid if a subgraph declares a wrong length."""

import itertools
import random
from collections.abc import Iterable

import onnx
import pytest
from onnx import helper
from onnx.parser import parse_model
from opshift import convert
from opshift.author import registry
from opshift.convert.legal import nested_lengths
from opshift.verify import verify

pytestmark = pytest.mark.usefixtures("models_run_here")

# `d` is 0, which inference finds only after a conversion has made it a constant.
RANK = """s = Shape (x) rank = Shape (s) three = Constant <value_ints = [3]> ()
  d = Sub (rank, three) zero = Constant <value_ints = [0]> () more = Greater (d, zero) c = Squeeze (more)"""
DEAD = """If (c) <then_branch = a () => (int64[A] t) {
    one = Constant <value_ints = [1]> () d1 = Reshape (d, one) empty = Expand (one, d1)
    e = Concat <axis = 0> (empty, s) scalar = Reshape (one, empty) t = Add (e, scalar) },
  else_branch = b () => (int64[3] u) { u = Identity (s) }>"""
HEADER = '<ir_version: 8, opset_import: ["" : 17, "own" : 1]> g (float[2,3,4] x) => (int64[B] y)'
PLACES = {
    "graph": f"{HEADER} {{ {RANK} y = {DEAD} }}",
    "branch": f"""{HEADER} {{ {RANK} yes = Constant <value = bool {{1}}> () y = If (yes) <
        then_branch = p () => (int64[C] v) {{ v = {DEAD} }},
        else_branch = q () => (int64[3] w) {{ w = Identity (s) }}> }}""",
    "loop": f"""{HEADER} {{ {RANK} n = Constant <value = int64 {{2}}> () yes = Constant <value = bool {{1}}> ()
        y = Loop (n, yes, s) <body = p (int64 i, bool k, int64[3] v0) => (bool k1, int64[3] v1) {{
        k1 = Identity (k) w = {DEAD} v1 = Add (w, v0) }}> }}""",
    "function": f"""{HEADER} {{ y = own.f (x) }}
        <domain: "own", opset_import: ["" : 17]> f (x) => (y) {{ {RANK} y = {DEAD} }}""",
}  # fmt: skip


WRONG = {"t": [4], "e": [4], "scalar": [1]}  # 3, 3 and a scalar are right


def with_wrong(text: str, names: Iterable[str]) -> onnx.ModelProto:
    """Returns a model with a branch that never runs and declares wrong shapes of these values."""
    model = parse_model(text)
    attributes = [a for n in nodes(model) if n.op_type == "If" for a in n.attribute]
    dead = next(attribute.g for attribute in attributes if attribute.g.name == "a")
    for name in names:
        place = dead.output[0] if name == "t" else dead.value_info.add(name=name)
        kind = helper.make_tensor_type_proto(onnx.TensorProto.INT64, WRONG[name])
        place.type.CopyFrom(kind)
    return model


def nodes(holder):
    containers = [holder.graph, *holder.functions] if hasattr(holder, "graph") else [holder]
    for node in (node for container in containers for node in container.node):
        yield node
        for attribute in node.attribute:
            yield from nodes(attribute.g)


NAMES = [combination for n in (1, 2, 3) for combination in itertools.combinations(WRONG, n)]
# Every fifth case has each pair of values, because 5 divides no number of choices.
CASES = [*itertools.product(PLACES, NAMES, [11, 10, 8], ["default", "full"])][::5]


@pytest.mark.parametrize(("place", "names", "target", "check"), CASES)
def test_a_wrong_shape_in_a_dead_branch_is_no_fault_of_the_model(place, names, target, check):
    model = with_wrong(PLACES[place], names)
    onnx.checker.check_model(model, full_check=True)
    result = convert(model, target, check=check)
    onnx.checker.check_model(result.model, full_check=True)
    assert verify(model, result.model).equal
    notes = [note for note in result.report.notes if "inference contradicts" in note]
    assert all(repr(name) not in note for note in notes for name in WRONG.keys() - {*names})


def test_only_the_contradicted_shapes_are_removed():
    """Correct lengths and all ranks stay."""
    rng = random.Random(39)
    for _ in range(200):
        graph = ["t0 = Identity (x)"]
        names, wrong = ["t0"], set[str]()
        for i in range(1, rng.randint(2, 9)):
            graph.append(f"t{i} = Relu (t{i - 1})")
            names.append(f"t{i}")
        model = parse_model(
            f"""<ir_version: 8, opset_import: ["" : 17]> g (bool c, float[2] x) => (float[N] y) {{
            y = If (c) <then_branch = a () => (float[2] z) {{ {" ".join(graph)} z = Relu ({names[-1]}) }},
            else_branch = b () => (float[M] u) {{ u = Identity (x) }}> }}"""
        )
        inner = model.graph.node[0].attribute[0].g
        for name in names:
            kind = rng.choice(["right", "wrong", "none"])
            wrong |= {name} if kind == "wrong" else set()
            if kind != "none":
                dims = [2 if kind == "right" else 3]
                inner.value_info.append(helper.make_tensor_value_info(name, 1, dims))
        before = {v.name: len(v.type.tensor_type.shape.dim) for v in inner.value_info}
        told = nested_lengths.drop_contradicted(model, registry.default())
        assert sorted(told) == sorted(f"{name!r} in graph 'a'" for name in wrong)
        assert before == {v.name: len(v.type.tensor_type.shape.dim) for v in inner.value_info}
        onnx.checker.check_model(model, full_check=True)


def test_shapes_stay_if_the_model_is_wrong_without_them_too():
    """The model is also invalid without the wrong shapes, so their removal would not help."""
    text = """<ir_version: 8, opset_import: ["" : 17]> g (float[2,3] x, bool c) => (float[2,3] y) {
        z = Cast<to=1>(x) w = MatMul(z, z)
        y = If(c) <then_branch = a () => (float[2,3] t) { t = Neg(x) },
            else_branch = b () => (float[2,3] u) { u = Relu(x) }> }"""
    model = parse_model(text)
    before = model.SerializeToString(deterministic=True)
    assert nested_lengths.drop_contradicted(model, registry.default()) == []
    assert model.SerializeToString(deterministic=True) == before


def with_wrong_in_a_row(count: int) -> onnx.ModelProto:
    """Returns a model with several branches that never run, each with a wrong length."""
    names = [f"y{i}" for i in range(count)]
    dead = "\n".join(
        f"{name} = {DEAD.replace('int64[A] t', 'int64[4] t')}".replace("b ()", f"b{i} ()")
        for i, name in enumerate(names)
    )
    return parse_model(f"{HEADER} {{ {RANK} {dead} y = Concat <axis = 0> ({', '.join(names)}) }}")


def test_each_node_is_searched_alone(monkeypatch):
    """The number of checks of the whole model is equal for 4 and for 16 wrong shapes."""
    seen: list[list[int]] = []
    lenient = nested_lengths.checker.lenient

    def spy(view, adapters, *, full):
        whole = onnx.ModelProto.FromString(view) if isinstance(view, bytes) else view
        seen[-1].append(len(whole.graph.node))
        return lenient(view, adapters, full=full)

    monkeypatch.setattr(nested_lengths.checker, "lenient", spy)
    for count in (4, 16):
        seen.append([])
        result = convert(with_wrong_in_a_row(count), 8)
        assert any("inference contradicts" in note for note in result.report.notes)
    few, many = ([size for size in sizes if size > 4] for sizes in seen)
    assert len(few) == len(many)


def test_a_shape_that_the_source_contradicts_too_stays():
    """The declared result of this Loop is wrong in the source, so the shapes of its body stay."""
    text = """<ir_version: 8, opset_import: ["" : 13]> g (int64 n, bool c, float[2] x) => (float[2] y) {
        y = Loop (n, c) <body = b (int64 i, bool k) => (bool k1, float[2] v) {
            k1 = Identity (k) v = Relu (x) }> }"""
    model = parse_model(text)
    with pytest.raises(onnx.shape_inference.InferenceError):
        onnx.checker.check_model(model, full_check=True)
    result = convert(model, 5)
    assert not any("inference contradicts" in note for note in result.report.notes)
