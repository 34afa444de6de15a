# SPDX-License-Identifier: Apache-2.0
"""The report names each node for which onnxruntime differs from the specification."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from onnx import ModelProto, parser, save
from opshift import convert_file
from opshift.verify import oracle

runtime = pytest.importorskip("onnxruntime", "1.27")

NAN = float("nan")
TREES = (
    "nodes_treeids=[0,0,0],nodes_nodeids=[0,1,2],nodes_featureids=[0,0,0],nodes_values=[0.5,0.0,0.0],"
    'nodes_modes=["BRANCH_LEQ","LEAF","LEAF"],nodes_truenodeids=[1,0,0],nodes_falsenodeids=[2,0,0],'
    "target_treeids=[0,0],target_nodeids=[1,2],target_ids=[0,0],target_weights=[0.25,3.0]"
)
CLASSES = TREES.replace("target_treeids=[0,0],target_nodeids=[1,2],target_ids=[0,0],target_weights=[0.25,3.0]", "class_treeids=[0,0,0,0],class_nodeids=[1,1,2,2],class_ids=[0,1,0,1],class_weights=[3.0,0.25,0.5,2.0]")  # fmt: skip
CLASSIFIED = '(float[2,1] x) => (string[2] y, float[2,2] z) {{ y, z = ai.onnx.ml.TreeEnsembleClassifier<classlabels_strings=["a","b"],{}{}>(x) }}'  # fmt: skip
CASES = {
    "LabelEncoder": ({"": 18, "ai.onnx.ml": 2}, {"ai.onnx.ml": 4}, "(float[2] x) => (int64[2] y) { y = ai.onnx.ml.LabelEncoder<keys_floats=[nan, 0.5], values_int64s=[3, 9]>(x) }", {"x": [NAN, 0.5]}, "matches no value"),
    "OneHot": ({"": 10}, {"": 11}, "(int64[2] i) => (float[2,3] y) <int64 d = {3}, float[2] v = {-1, 5}> { y = OneHot(i, d, v) }", {"i": [-1, 1]}, "an element from the end"),
    "Dropout": ({"": 10}, {"": 12}, "(float[2] x) => (float[2] y, bool[2] m) { y, m = Dropout(x) }", {}, "is false everywhere"),
    "TreeEnsembleRegressor": ({"": 18, "ai.onnx.ml": 3}, {"ai.onnx.ml": 5}, f'(float[2,1] x) => (float[2,1] y) {{ y = ai.onnx.ml.TreeEnsembleRegressor<n_targets=1,post_transform="LOGISTIC",{TREES}>(x) }}', {"x": [[0], [1]]}, "there is a single target"),
    "TreeEnsembleClassifier": ({"": 18, "ai.onnx.ml": 3}, {"ai.onnx.ml": 5}, CLASSIFIED.format(CLASSES, ""), {"x": [[0], [1]]}, "wins if its score is above zero"),
    "TreeEnsembleClassifier with numbers": ({"": 18, "ai.onnx.ml": 3}, {"ai.onnx.ml": 5}, CLASSIFIED.format(CLASSES, "").replace("string[2] y", "int64[2] y").replace('classlabels_strings=["a","b"]', "classlabels_int64s=[7,9]"), {"x": [[0], [1]]}, "wins if its score is above zero"),
    "TreeEnsembleClassifier with bases": ({"": 18, "ai.onnx.ml": 3}, {"ai.onnx.ml": 5}, CLASSIFIED.format(CLASSES, ",base_values=[0.5,0.125]"), {"x": [[0], [1]]}, "of two base values for two classes, only one is used"),
    "AveragePool": ({"": 19}, {"": 18}, '(float[1,1,7] x) => (float[1,1,n] y) { y = AveragePool<kernel_shape=[3], dilations=[2], strides=[2], auto_pad="SAME_LOWER">(x) }', {}, "no dilations"),
    "Clip": ({"": 12}, {"": 13}, "(float[3] x) => (float[3] y) <float l = {nan}> { y = Clip(x, l) }", {"x": [-1, 0, 1]}, "min of Clip is NaN and has no effect"),
    "Squeeze": ({"": 13}, {"": 12}, "(float[2,1] x) => (float[a,b] y) <int64[0] s = {}> { y = Squeeze(x, s) }", {}, "every axis of size 1"),
    "Resize": ({"": 18}, {"": 17}, '(float[1,1,3,4] x) => (float[1,1,3,2] y) <float[4] s = {1.0, 1.0, 1.3, 0.5}> { y = Resize<mode="linear", antialias=1>(x, , s) }', {}, "copies an axis"),
    "MaxUnpool": ({"": 9}, {"": 8}, "(float[1,1,2,2] x, int64[1,1,2,2] i) => (float[1,1,5,5] y) <int64[4] o = {1, 1, 5, 5}> { y = MaxUnpool<kernel_shape=[2, 2], strides=[2, 2]>(x, i, o) }", {"x": [[[[1, 2], [3, 4]]]], "i": [[[[5, 7], [13, 15]]]]}, "refer to output_shape"),
}  # fmt: skip


def model(name: str) -> ModelProto:
    imports, _, graph, _, _ = CASES[name]
    listed = ", ".join(f'"{domain}" : {version}' for domain, version in imports.items())
    return parser.parse_model(f"<ir_version: 8, opset_import: [{listed}]> g {graph}")


def notes(before: ModelProto, target: dict[str, int], folder: Path) -> tuple[str, ...]:
    save(before, folder / "before.onnx")
    return convert_file(folder / "before.onnx", folder / "after.onnx", target).notes


@pytest.mark.parametrize("name", CASES)
def test_the_node_is_named_in_one_line(name: str, tmp_path: Path) -> None:
    messages = notes(model(name), CASES[name][1], tmp_path)
    lines = [note for note in messages if note.startswith(f"{name.split()[0]} 'y': onnxruntime")]
    assert len(lines) == 1
    assert "computes this node differently from the specification" in lines[0]
    assert CASES[name][4] in lines[0]


@pytest.mark.parametrize("name", CASES)
def test_onnxruntime_does_differ(name: str) -> None:
    runtime.set_default_logger_severity(4)
    before = model(name)
    feeds = oracle.make_inputs(before, overrides=CASES[name][3])
    session = runtime.InferenceSession(
        before.SerializeToString(), providers=["CPUExecutionProvider"]
    )
    theirs, ours = session.run(None, feeds), oracle.evaluate(before, feeds)
    same = [one.shape == other.shape and np.array_equal(one, other, equal_nan=one.dtype.kind == "f") for one, other in zip(theirs, ours, strict=True)]  # fmt: skip
    assert not all(same)


@pytest.mark.parametrize(
    ("imports", "graph"),
    [
        (10, "(float[4,3] v) => (float[4,3] y) <int64[4] i = {0, 2, 3, 1}, int64 d = {3}, float[2] o = {-1, 5}> { h = OneHot(i, d, o) y = Add(v, h) }"),
        (10, "(float[2] x) => (float[2] y) { y, m = Dropout(x) }"),
        (12, "(float[3] x) => (float[3] y) <float l = {0}> { y = Clip(x, l) }"),
        (18, '(float[1,1,3,4] x) => (float[1,1,6,2] y) <float[4] s = {1, 1, 2, 0.5}> { y = Resize<mode="linear", antialias=1>(x, , s) }'),
        (18, '(float[1,1,3,4] x) => (float[1,1,3,2] y) <int64[4] z = {1, 1, 3, 2}> { y = Resize<mode="linear", antialias=1>(x, , , z) }'),
    ],
)  # fmt: skip
def test_nodes_that_agree_are_not_named(imports: int, graph: str, tmp_path: Path) -> None:
    proto = parser.parse_model(f'<ir_version: 7, opset_import: ["": {imports}]> g {graph}')
    assert not any("onnxruntime" in note for note in notes(proto, {"": 13}, tmp_path))


def test_a_classifier_with_votes_for_one_of_two_classes_is_not_named(tmp_path: Path) -> None:
    one = CLASSIFIED.format(CLASSES.replace("class_ids=[0,1,0,1]", "class_ids=[1,1,1,1]"), "")
    proto = parser.parse_model(f'<ir_version: 8, opset_import: ["": 18, "ai.onnx.ml": 3]> g {one}')
    assert not any("onnxruntime" in note for note in notes(proto, {"ai.onnx.ml": 5}, tmp_path))
