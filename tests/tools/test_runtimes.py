# SPDX-License-Identifier: Apache-2.0
"""Runs a sample of models in one older onnxruntime, and checks the report of the tool."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import defs
from onnxruntime import InferenceSession
from opshift.opsets import targets
from text_models import model

from tools.corpus.runtimes import __main__ as tool
from tools.corpus.runtimes import probes, runtime_table
from tools.corpus.runtimes.__main__ import convert
from tools.corpus.runtimes.install import WEB, Installed, NotHere, install
from tools.corpus.runtimes.kernel_table import CHILD, answer, listed
from tools.corpus.runtimes.runner import Runner

OLD = "1.16.3"  # the oldest that comes for Python 3.11, and merges chains of Casts
MODELS = {
    "layer": "(float[2,4] x) => (float[2,4] y) { s = Constant<value_floats = [1.0,2.0,3.0,4.0]>() y = LayerNormalization<axis = -1>(x, s) }",
    "reduce": "(float[2,4] x) => (float[2,1] y) { a = Constant<value_ints = [1]>() y = ReduceMean(x, a) }",
    "gelu": "(float[2,4] x) => (float[2,4] y) { y = Gelu(x) }",
    "loop": """(float[2,4] x) => (float[2,4] y) {
        n = Constant<value_int = 3>()
        y = Loop (n, , x) <body = b (int64 i, bool c, float[2,4] v) => (bool k, float[2,4] w) { k = Identity(c) w = Add(v, v) }>
    }""",
}


@pytest.fixture(scope="module")
def runtime(tmp_path_factory):
    try:
        return install(OLD)
    except (NotHere, OSError) as reason:
        pytest.skip(f"onnxruntime {OLD} cannot be installed here: {reason}")


def folder_of(text, place, opset=20):
    """Writes a folder with a model, its inputs and its expected outputs."""
    proto = model(text, opset, ir=9 if opset == 20 else 6)
    for node in proto.graph.node:
        node.metadata_props.add(key="pkg.stack_trace", value="line 1")
    place.mkdir()
    onnx.save(proto, place / "model.onnx")
    feed = {"x": np.arange(-4, 4, dtype=np.float32).reshape(2, 4)}
    session = InferenceSession(proto.SerializeToString(), providers=["CPUExecutionProvider"])
    np.savez(place / "inputs.npz", **feed)
    names = [value.name for value in proto.graph.output]
    np.savez(place / "expected.npz", **dict(zip(names, session.run(None, feed), strict=True)))
    return place


@pytest.mark.parametrize("name", MODELS)
def test_a_converted_model_is_right_in_an_older_onnxruntime(name, runtime, tmp_path):
    place = folder_of(MODELS[name], tmp_path / name)
    result = tmp_path / "result.onnx"
    told = convert((str(place / "model.onnx"), str(result), f"onnxruntime=={OLD}"))
    assert told["outcome"] == "converted", told
    runner = Runner(runtime, seconds=400)  # a busy machine takes a minute to import a runtime
    try:
        told = runner.judge(result, place)
        assert told["outcome"] == "right", told
        assert runner.judge(place / "model.onnx", place)["outcome"] == "not loaded"  # opset 20
        np.savez(place / "expected.npz", y=np.ones((2, 4), np.float32) * 100)
        assert runner.judge(result, place)["outcome"] == "wrong"
    finally:
        runner.close()


def test_element_types_are_changed_for_a_release(tmp_path):
    source, result = tmp_path / "model.onnx", tmp_path / "result.onnx"
    onnx.save(model("(double[2] x) => (double[2] y) { y = Neg(x) }", 13), source)
    told = convert((str(source), str(result), f"onnxruntime=={OLD}"), {"double": "float"})
    assert told["outcome"] == "converted"
    kind = onnx.load(result).graph.input[0].type.tensor_type.elem_type
    assert kind == onnx.TensorProto.FLOAT


# Models that a release reads and does not run as they are, or computes wrongly.
FUSED = {
    (
        "1.10.0",
        "a Transpose that a branch reads",
    ): "(float[2,4] x) => (float[4,2] y, float[8,2] z) <int64 n = {1}, bool t = {1}, float[4,2] o = {0,0,0,0,0,0,0,0}> { u = Transpose<perm = [1,0]>(x) z = Concat<axis = 0>(u, u) y = Loop(n, t, o) <body = f (int64 i, bool c, float[4,2] p) => (bool d, float[4,2] q) { d = Identity(c) q = Add(p, u) }> }",
    (
        "1.2.0",
        "a bias as first input before Gelu",
    ): "(float[2,4] x) => (float[2,4] y) <float[4] b = {1, -2, 3, 0.5}, float r = {1.4142135}, float o = {1}, float h = {0.5}> { m = Abs(x) s = Add(b, m) d = Div(s, r) e = Erf(d) f = Add(e, o) g = Mul(s, h) y = Mul(g, f) }",
    (
        "1.10.0",
        "Casts that cut off and wrap",
    ): "(float[2,4] x) => (bool[2,4] y, float[2,4] z) <float h = {0.3}> { a = Mul(x, h) b = Cast<to = 6>(a) y = Cast<to = 9>(b) c = Floor(x) d = Cast<to = 6>(c) e = Neg(d) f = Cast<to = 2>(e) z = Cast<to = 1>(f) }",
    (
        "1.16.3",
        "a Cast that rounds",
    ): "(float[2,4] x) => (float[2,4] y) <float h = {100000}> { a = Mul(x, h) b = Cast<to = 10>(a) y = Cast<to = 1>(b) }",
    (
        "1.24.4",
        "a Cast that cuts off before one to bool",
    ): "(float[2,4] x) => (bool[2,4] y) <float h = {0.3}> { a = Mul(x, h) b = Cast<to = 6>(a) y = Cast<to = 9>(b) }",
    (
        "1.2.0",
        "a sum before LayerNormalization",
    ): "(float[2,4] x) => (float[1,2,4] y) <float[4] b = {1, -2, 3, 0.5}, float[4] k = {1, 1.5, 0.5, 2}, float e = {0.1}, float p = {2}, float[4,4] w = {1,2,3,4,-5,6,7,-8,9,1,2,3,3,-2,1,2}> { z = Unsqueeze<axes = [0]>(x) c = MatMul(z, w) a = Add(c, b) s = Add(z, a) m = ReduceMean<axes = [-1]>(s) d = Sub(s, m) q = Pow(d, p) v = ReduceMean<axes = [-1]>(q) t = Add(v, e) r = Sqrt(t) n = Div(d, r) l = Mul(n, k) y = Add(l, b) }",
}


@pytest.mark.parametrize("case", FUSED, ids=" ".join)
def test_what_a_release_fuses_wrongly_is_written_in_another_form(case, tmp_path):
    version, _ = case
    try:
        runner = Runner(install(version), seconds=400)
    except (NotHere, OSError) as reason:
        pytest.skip(f"onnxruntime {version} cannot be installed here: {reason}")
    place = folder_of(FUSED[case], tmp_path / "m", opset=11)
    result = tmp_path / "result.onnx"
    try:
        assert runner.judge(place / "model.onnx", place)["outcome"] != "right"
        convert((str(place / "model.onnx"), str(result), f"onnxruntime=={version}"))
        told = runner.judge(result, place)
        assert told["outcome"] == "right", told
    finally:
        runner.close()


def test_a_runtime_whose_python_is_gone_is_installed_again(tmp_path, monkeypatch):
    def npm(site, what):
        site.mkdir(parents=True)
        return ""

    monkeypatch.setattr("tools.corpus.runtimes.install._npm", npm)
    first = install("1.14.0", tmp_path, WEB)
    note = tmp_path / f"{WEB}-1.14.0" / "installed.json"
    note.write_text(json.dumps({"version": "1.14.0", "python": str(tmp_path / "gone")}))
    assert install("1.14.0", tmp_path, WEB) == first
    assert json.loads(note.read_text())["python"] == first.python == sys.executable


def test_a_converted_model_is_right_in_onnxruntime_web(tmp_path):
    try:
        web = install("1.14.0", name=WEB)
    except (NotHere, OSError) as reason:
        pytest.skip(f"onnxruntime-web cannot be installed here: {reason}")
    place = folder_of(MODELS["layer"], tmp_path / "layer")
    result = tmp_path / "result.onnx"
    assert convert((str(place / "model.onnx"), str(result), web.target))["outcome"] == "converted"
    runner = Runner(web, seconds=400)
    try:
        assert runner.judge(result, place)["outcome"] == "right"
        assert runner.judge(place / "model.onnx", place)["outcome"] == "not loaded"  # opset 20
        np.savez(place / "expected.npz", y=np.ones((2, 4), np.float32) * 100)
        assert runner.judge(result, place)["outcome"] == "wrong"
    finally:
        runner.close()


def test_what_a_run_measured_is_kept_and_left_out_by_the_next(tmp_path, monkeypatch, capsys):
    corpus, record = tmp_path / "corpus", tmp_path / "all.json"
    corpus.mkdir()
    for name in ("first", "second"):
        folder_of(MODELS["layer"], corpus / name)
    asked = []

    class Answers:
        def __init__(self, runtime):
            self.close = lambda: None

        def judge(self, model, folder):
            asked.append(folder.name)
            return {"outcome": "right", "why": ""}

    monkeypatch.setattr(tool, "Runner", Answers)
    monkeypatch.setattr(
        tool, "install", lambda version, cache, name: Installed(version, "", "", name)
    )
    words = [
        "runtimes",
        "--ort",
        "1.16",
        "--corpus",
        str(corpus),
        "--workers",
        "1",
        "--json",
        str(record),
    ]
    for more in (["--only", "first"], ["--resume"]):
        monkeypatch.setattr(sys, "argv", words + more)
        assert tool.main() == 0
    assert asked == ["first", "first", "second", "second"]  # as it came, and converted
    assert sorted(json.loads(record.read_text())["1.16"]) == ["first", "second"]
    assert "| onnxruntime 1.16 | 2 | 2 | 2 |" in capsys.readouterr().out
    (corpus / "second" / "expected.npz").unlink()
    for more, names in ((["--types", "double=float"], ["first", "second"]), ([], ["first"])):
        asked.clear()
        monkeypatch.setattr(sys, "argv", words + more)
        assert tool.main() == 0
        assert sorted({*asked}) == names  # only numbers need expected.npz


def test_a_child_that_ends_is_a_crash_and_the_next_model_gets_a_new_one(tmp_path):
    path = tmp_path / "m.onnx"
    onnx.save(model("(float[2] x) => (float[2] y) { y = Relu(x) }", 13), path)

    class Ends:
        name, python, site = "onnxruntime", sys.executable, ""
        environment = {"PYTHONHOME": str(tmp_path)}

    runner = Runner(Ends())
    for _ in range(2):
        told = runner.judge(path, tmp_path)
        assert told["outcome"] == "crash"
    runner.close()


@pytest.mark.parametrize("op", ["Less", "Where", "ReduceMean", "Clip"])
def test_a_model_of_one_node_loads_where_the_release_lists_a_kernel(op, runtime):
    schema = defs.get_schema(op, 18 if op == "ReduceMean" else 13, "")
    runner = Runner(runtime, 400, CHILD)
    try:
        kernels = runner.ask({"registered": True})["registered"]
        asked = [probe for probe in probes.of(schema) if probe.opset == probe.since]
        found = {probe.types: answer(runner, probe) for probe in asked}
        known = {probe.types: listed(kernels, schema, probe) for probe in asked}
    finally:
        runner.close()
    assert True in found.values()
    assert not [types for types, one in found.items() if known[types] and one is not True]
    if not (schema.has_function or schema.has_context_dependent_function):
        more = [types for types, one in found.items() if one and not known[types]]
        assert all("float16" in types for types in more)  # it inserts casts around these nodes


@pytest.mark.parametrize("share", range(3))
def test_a_function_body_runs_at_the_opsets_of_the_table(share, runtime):
    """An operator without a kernel may run by its function body at some opsets."""
    row, runner = targets.find(f"onnxruntime=={runtime.version}"), Runner(runtime, 400, CHILD)
    ran: list[probes.Probe] = []
    try:
        kernels = runner.ask({"registered": True})["registered"]
        for schema in probes.measured():
            key, has_body = (schema.domain, schema.name), len(probes.opsets(schema)) > 1
            for probe in probes.of(schema)[share::50] if has_body else ():
                loads = answer(runner, probe) if probe.opset <= row.imports[key[0]] else None
                missing = row.no_kernels(key, probe.since, probe.opset)
                if loads is not None and not listed(kernels, schema, probe):
                    assert loads is (missing is None or probe.types not in missing.choices), probe
                    ran.append(probe)
    finally:
        runner.close()
    assert len(ran) > 10


def test_a_fault_of_the_runtime_is_told_with_its_proof():
    wrong, right = {"outcome": "wrong", "why": "error 0.05"}, {"outcome": "right", "why": ""}
    none = {"outcome": "not loaded", "why": "IR 10"}
    models = {
        "stamped_op1": {"before": none, "after": wrong, "stamped": wrong},
        "optimized_op1": {"before": none, "after": {**wrong, "unoptimized": "right"}},
        "later_op1": {
            "before": none,
            "after": {**wrong, "unoptimized": "wrong"},
            "later": {**right, "release": "1.17.3"},
        },
        "sibling_op1": {"before": wrong, "after": wrong},
        "sibling_op2": {"before": none, "after": wrong, "stamped": none},
        "elsewhere_op1": {"before": none, "after": wrong, "stamped": none},
        "ours_op1": {"before": right, "after": {"outcome": "crash", "why": "signal 11"}},
    }
    later = {"elsewhere_op1": {"before": wrong, "after": wrong}}
    found = runtime_table.Results({"1.0": models, "1.1": later})
    proofs = {name: runtime_table.fault(name, "1.0", found) for name in models}
    assert "the original nodes with the versions of the result" in proofs["stamped_op1"]
    assert proofs["later_op1"] == "the same file is right in onnxruntime 1.17.3"
    assert "without the optimizations" in proofs["optimized_op1"]
    assert "sibling_op1" in proofs["sibling_op2"]
    assert "in onnxruntime 1.1" in proofs["elsewhere_op1"]
    assert proofs["ours_op1"] == ""
    assert runtime_table.row("1.0", found).endswith("| 5 | 1 | not recorded |")


def test_the_table_counts_what_can_be_expressed():
    right, lacks = {"outcome": "right", "why": ""}, "Could not find an implementation for Clip(11)"
    models = {
        "a": {"before": right, "after": right},
        "b": {"before": right, "after": {"outcome": "wrong", "why": "error 1"}},
        "c": {"before": {"outcome": "crash", "why": ""}, "after": {"outcome": "crash", "why": ""}},
        "d": {"before": right, "after": {"outcome": "not loaded", "why": lacks}},
        "e": {
            "before": right,
            "after": {"outcome": "refused", "why": "x", "kind": "TARGET_LACKS", "op": "Gelu"},
        },
    }
    cells = runtime_table.row("1.0", runtime_table.Results({"1.0": models})).split(" | ")
    assert cells[1:5] == ["5", "4", "1", "3"]
    assert cells[5] == "33.3 %"
    assert cells[-2:] == ["1", "not recorded |"]
    lines = list(runtime_table.failures(runtime_table.Results({"1.0": models})))
    assert "* lacks Clip(11): d" in lines
    assert "* lacks Gelu: TARGET_LACKS: e" in lines
    assert "* wrong, before right (the original was neither wrong nor a crash): error 1: b" in lines


def test_an_operator_that_the_conversion_wrote_is_no_excuse():
    why = "Could not find an implementation for the node {}:Less(9)"
    assert runtime_table.lacks({"outcome": "not loaded", "why": why.format("node_3")}) == "Less(9)"
    assert (
        runtime_table.lacks({"outcome": "not loaded", "why": why.format("opshift_12_Less")}) == ""
    )


def program(*words):
    """The tool as a maintainer runs it."""
    words = [sys.executable, "-m", "tools.corpus", "runtimes", *words]
    top = Path(__file__).parents[2]
    return subprocess.run(words, cwd=top, capture_output=True, text=True, check=False)


def test_it_runs_as_a_program():
    done = program("--help")
    assert done.returncode == 0
    assert "Converts a corpus for runtimes" in done.stdout


def test_the_program_converts_a_corpus_in_other_processes(runtime, tmp_path):
    folder_of(MODELS["gelu"], tmp_path / "gelu")
    told = tmp_path / "told.json"
    done = program("--ort", OLD, "--corpus", str(tmp_path), "--workers", "1", "--json", str(told))
    assert done.returncode == 0, done.stderr
    (measured,) = json.loads(told.read_text())[OLD].values()
    assert measured["after"]["outcome"] == "right"


def test_a_row_names_the_builds_that_converted_its_models():
    right, new, old = {"outcome": "right", "why": ""}, {"build": "b2"}, {"build": "a1"}
    models = {str(i): {"before": right, "after": right, "by": new} for i in range(3)}
    found = runtime_table.Results({"1.0": {**models, "z": {**models["0"], "by": old}}})
    assert runtime_table.row("1.0", found).endswith("| b2, a1 (1) |")


def test_the_matrix_lists_each_wrong_verdict():
    right, ended = {"outcome": "right"}, {"outcome": "crash", "why": "signal 11"}
    models = {
        "a": {"before": {"answer": "yes", **right}, "after": {"answer": "yes", **ended}},
        "b": {"before": {"answer": "no", **right}, "after": {"answer": "no", **ended}},
        "c": {"before": {"answer": "not known", **right}, "after": {"outcome": "refused"}},
    }
    lines = list(runtime_table.matrix(runtime_table.Results({"1.10.0": models})))
    assert "| yes | 1 | 1 | 50.0 % |" in lines
    assert "| no | 1 | 1 | 50.0 % |" in lines
    assert lines[-2:] == [
        "* yes: onnxruntime 1.10.0, a after: crash: signal 11",
        "* no: onnxruntime 1.10.0, b before: right",
    ]
