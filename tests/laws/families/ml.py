# SPDX-License-Identifier: Apache-2.0
"""ai.onnx.ml: encoders, trees, linear and support vector machines."""

from __future__ import annotations

from typing import Any

import numpy as np
from onnx import numpy_helper

from families.making import ML, Family, Making, rows
from families.text import words

MODES = ("BRANCH_LEQ", "BRANCH_LT", "BRANCH_GTE", "BRANCH_GT", "BRANCH_EQ", "BRANCH_NEQ")


def label(m: Making) -> None:
    if m.opset < 2:
        classes = ["a", "b c", "Ab"][: m.int(1, 3)]
        x = words(m, m.shape(1, 2)) if m.flag() else m.rng.integers(-1, 4, m.shape(1, 2))
        m.node(
            [m.feed(x)],
            classes_strings=classes,
            default_string=m.maybe("none"),
            default_int64=m.maybe(-7),
        )
        return
    count = m.int(1, 3)
    if m.opset >= 4 and m.flag():
        kind, value = (
            m.one(np.int16, np.int32, np.float64, np.int64, np.float32),
            m.one(np.int16, np.int32, np.float64, np.int64),
        )
        keys = np.arange(count).astype(kind)
        values = m.rng.integers(-5, 5, count).astype(value)
        x = m.rng.integers(0, 4, m.shape(1, 2)).astype(kind)
        default = numpy_helper.from_array(np.array([7]).astype(value))
        m.node(
            [m.feed(x)],
            keys_tensor=numpy_helper.from_array(keys),
            values_tensor=numpy_helper.from_array(values),
            default_tensor=default,
        )
        return
    source, goal = m.one("string", "int64", "float"), m.one("string", "int64", "float")
    lists: dict[str, list[Any]] = {
        "string": ["a", "b c", "Ab"],
        "int64": [0, 2, 5],
        "float": [0.0, 1.5, -2.0],
    }
    made = {"string": ["x", "y", ""], "int64": [4, 0, -9], "float": [0.5, 7.0, 0.0]}
    if source == "string":
        x = words(m, m.shape(1, 2))
    elif source == "int64":
        x = m.rng.integers(-1, 6, m.shape(1, 2))
    else:
        x = np.array([0.0, 1.5, -2.0, np.nan], np.float32)[m.rng.integers(0, 4, m.shape(1, 2))]
    defaults = {"string": "none", "int64": -7, "float": 0.25}
    m.node(
        [m.feed(x)],
        **{
            f"keys_{source}s": lists[source][:count],
            f"values_{goal}s": made[goal][:count],
            f"default_{goal}": m.maybe(defaults[goal]),
        },
    )


class Forest:
    """Random trees in the row form of versions 1 and 3."""

    def __init__(self, m: Making, features: int) -> None:
        self.rows: dict[str, list[Any]] = {
            k: []
            for k in (
                "treeids",
                "nodeids",
                "featureids",
                "values",
                "modes",
                "truenodeids",
                "falsenodeids",
                "missing_value_tracks_true",
            )
        }
        self.leaves: list[tuple[int, int]] = []
        for tree in range(m.int(1, 3)):
            self.tree, self.next = tree, 0
            self.grow(m, features, m.int(0, 2))

    def grow(self, m: Making, features: int, depth: int) -> int:
        number, self.next = self.next, self.next + 1
        place = len(self.rows["modes"])
        leaf = depth == 0
        row = {
            "treeids": self.tree,
            "nodeids": number,
            "featureids": 0 if leaf else m.int(0, features - 1),
            "values": 0.0 if leaf else m.number(-2, 2),
            "modes": "LEAF" if leaf else m.one(*MODES),
            "truenodeids": 0,
            "falsenodeids": 0,
            "missing_value_tracks_true": 0 if leaf else m.int(0, 1),
        }
        for k, v in row.items():
            self.rows[k].append(v)
        if leaf:
            self.leaves.append((self.tree, number))
        else:
            self.rows["truenodeids"][place] = self.grow(m, features, depth - 1)
            self.rows["falsenodeids"][place] = self.grow(m, features, m.int(0, depth - 1))
        return number

    def attributes(self) -> dict[str, Any]:
        return {f"nodes_{k}": v for k, v in self.rows.items()}


def regressor(m: Making) -> None:
    features, targets = m.int(1, 3), m.int(1, 2)
    forest = Forest(m, features)
    votes = [(leaf, m.int(0, targets - 1)) for leaf in forest.leaves for _ in range(m.one(1, 1, 2))]
    written = {
        "target_treeids": [leaf[0] for leaf, _ in votes], "target_nodeids": [leaf[1] for leaf, _ in votes],
        "target_ids": [t for _, t in votes], "target_weights": [m.number(-2, 2) for _ in votes],
    }  # fmt: skip
    x = m.array(m.elem(0, ("float", "double", "int64", "int32")), (m.int(1, 3), features))
    m.node(
        [m.feed(x)],
        n_targets=targets,
        aggregate_function=m.one(None, "SUM", "AVERAGE", "MIN", "MAX"),
        base_values=m.one(None, [0.5] * targets),
        post_transform=m.one(None, "NONE"),
        **written,
        **forest.attributes(),
    )


def classifier(m: Making) -> None:
    features, classes = m.int(1, 3), m.one(3, 3, 4, 4, 2)
    forest = Forest(m, features)
    votes = [(leaf, c) for leaf in forest.leaves for c in range(classes)]
    written = {
        "class_treeids": [leaf[0] for leaf, _ in votes], "class_nodeids": [leaf[1] for leaf, _ in votes],
        "class_ids": [c for _, c in votes], "class_weights": [m.number(0, 2) for _ in votes],
    }  # fmt: skip
    labels = (
        {"classlabels_int64s": [3, 1, 7, 9][:classes]}
        if m.flag()
        else {"classlabels_strings": list("cabd")[:classes]}
    )
    x = m.array(m.elem(0, ("float", "double", "int64", "int32")), (m.int(1, 3), features))
    m.node(
        [m.feed(x)],
        2,
        base_values=m.one(None, [0.5] * classes),
        post_transform=m.one(None, "NONE", "SOFTMAX", "LOGISTIC"),
        **labels,
        **written,
        **forest.attributes(),
    )


def ensemble(m: Making) -> None:
    elem = m.one("float", "float", "double")
    dtype = np.float32 if elem == "float" else np.float64
    features, targets, trees = m.int(1, 3), m.int(1, 2), m.int(1, 2)
    nodes, leaves = 2 * trees, 3 * trees
    splits = np.array([m.number(-2, 2) for _ in range(nodes)], dtype)
    weights = np.array([m.number(-2, 2) for _ in range(leaves)], dtype)
    modes = np.array([m.int(0, 5) for _ in range(nodes)], np.uint8)
    true, false, t_leaf, f_leaf = [], [], [], []
    for t in range(trees):
        true += [2 * t + 1, 3 * t]
        false += [3 * t + 2, 3 * t + 1]
        t_leaf += [0, 1]
        f_leaf += [1, 1]
    m.node(
        [m.feed(m.array(elem, (m.int(1, 3), features)))], n_targets=targets, aggregate_function=m.one(None, 0, 1, 2, 3), post_transform=m.one(None, 0),
        tree_roots=[2 * t for t in range(trees)], nodes_splits=numpy_helper.from_array(splits), nodes_modes=numpy_helper.from_array(modes),
        nodes_featureids=[m.int(0, features - 1) for _ in range(nodes)], nodes_truenodeids=true, nodes_falsenodeids=false, nodes_trueleafs=t_leaf,
        nodes_falseleafs=f_leaf, nodes_missing_value_tracks_true=[m.int(0, 1) for _ in range(nodes)], leaf_weights=numpy_helper.from_array(weights),
        leaf_targetids=[m.int(0, targets - 1) for _ in range(leaves)],
    )  # fmt: skip


def scaler(m: Making) -> None:
    x = m.array(m.elem(0, ("float", "double", "int64", "int32")), (2, 3))
    m.node([m.feed(x)], offset=[0.5, 1.0, 0.0], scale=[2.0, 0.5, 1.0])


def binarizer(m: Making) -> None:
    m.node([m.data("float", m.shape(1, 2))], threshold=m.maybe(0.5))


def linear(m: Making) -> None:
    m.node([m.data("float", (2, 3))], coefficients=[0.5, 1.0, -1.0], intercepts=m.one(None, [0.25]))


def feature(m: Making) -> None:
    m.node([m.data("float", (3, 4)), m.ints([0, 2])])


ML_FAMILY: Family = {
    **rows("LabelEncoder", label, ML),
    **rows("TreeEnsembleRegressor", regressor, ML),
    **rows("TreeEnsembleClassifier", classifier, ML),
    **rows("TreeEnsemble", ensemble, ML),
    **rows("Scaler", scaler, ML),
    **rows("Binarizer", binarizer, ML),
    **rows("LinearRegressor", linear, ML),
    **rows("ArrayFeatureExtractor", feature, ML),
}
