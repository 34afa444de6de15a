# SPDX-License-Identifier: Apache-2.0
"""Implements operators of ai.onnx.ml: encoders, maps and trees."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from opshift.verify.oracle import engines
from opshift.verify.oracle.kernel_registry import kernel
from opshift.verify.oracle.strict_schema import Call
from opshift.verify.oracle.values import OracleError, Value

ML = "ai.onnx.ml"


def _looked_up(
    x: np.ndarray, table: dict[Any, Any], default: Any, dtype: np.dtype | type
) -> np.ndarray:
    items = [table.get(_key(item), default) for item in x.reshape(-1).tolist()]
    return np.array(items, dtype=dtype).reshape(x.shape)


def _key(item: Any) -> Any:
    return "NaN" if isinstance(item, float) and item != item else item


@kernel("LabelEncoder", until=1, domain=ML)
def label_encoder_first(call: Call, x: np.ndarray) -> np.ndarray:
    """onnx.reference lacks LabelEncoder-1, which maps strings to indices and back."""
    names = call["classes_strings"] or []
    if x.dtype == np.int64:
        return _looked_up(x, dict(enumerate(names)), call["default_string"], object)
    if len(set(names)) != len(names):
        raise OracleError("LabelEncoder-1: a class is named twice")
    return _looked_up(x, {n: i for i, n in enumerate(names)}, call["default_int64"], np.int64)


@kernel("LabelEncoder", since=2, domain=ML)
def label_encoder(call: Call, x: np.ndarray) -> np.ndarray:
    """In LabelEncoder, the last of equal keys counts, and NaN equals NaN."""
    suffixes = {"strings": object, "int64s": np.int64, "floats": np.float32, "tensor": None}
    keys, values = (
        [s for s in suffixes if call[f"{side}_{s}"] is not None] for side in ("keys", "values")
    )
    if len(keys) != 1 or len(values) != 1:
        raise OracleError("LabelEncoder needs keys of one type and values of one type")
    key_items = call[f"keys_{keys[0]}"]
    value_items = call[f"values_{values[0]}"]
    expected = key_items.dtype if keys[0] == "tensor" else np.dtype(suffixes[keys[0]])
    if expected != x.dtype:
        raise OracleError(f"LabelEncoder: keys are {expected}, the input is {x.dtype}")
    key_items, value_items = (
        np.asarray(side).reshape(-1).tolist() for side in (key_items, value_items)
    )
    if len(key_items) != len(value_items):
        raise OracleError(f"LabelEncoder: {len(key_items)} keys, {len(value_items)} values")
    dtype = call["values_tensor"].dtype if values[0] == "tensor" else suffixes[values[0]]
    if call["default_tensor"] is not None:
        default = call["default_tensor"].reshape(-1)[0]
    elif values[0] == "tensor":
        raise OracleError("LabelEncoder: values_tensor without default_tensor")
    else:
        default = call[f"default_{values[0].rstrip('s')}"]
    keyed = np.array(key_items, dtype=x.dtype).tolist()
    return _looked_up(
        x, {_key(k): v for k, v in zip(keyed, value_items, strict=True)}, default, dtype
    )


@kernel("CategoryMapper", domain=ML)
def category_mapper(call: Call, x: np.ndarray) -> np.ndarray:
    """onnx's reference does not implement CategoryMapper."""
    pairs = list(zip(call["cats_strings"], call["cats_int64s"], strict=True))
    if x.dtype == np.int64:
        return _looked_up(x, {i: s for s, i in pairs}, call["default_string"], object)
    return _looked_up(x, dict(pairs), call["default_int64"], np.int64)


@kernel("ZipMap", domain=ML)
def zip_map(call: Call, x: np.ndarray) -> list[dict[Any, float]]:
    """onnx's reference does not implement ZipMap."""
    keys = call["classlabels_strings"] or call["classlabels_int64s"]
    return [dict(zip(keys, row, strict=True)) for row in x.reshape(-1, x.shape[-1])]


@kernel("CastMap", domain=ML)
def cast_map(call: Call, values: dict[int, Any]) -> np.ndarray:
    """onnx's reference does not implement CastMap."""
    target = {"TO_FLOAT": np.float32, "TO_INT64": np.int64, "TO_STRING": object}[call["cast_to"]]
    if call["map_form"] == "SPARSE":
        row = [values.get(key, "0" if target is object else 0) for key in range(call["max_map"])]
    else:
        row = [values[key] for key in sorted(values)]
    if target is object:
        row = [str(item) for item in row]
    return np.array([row]).astype(target)


_BRANCH = {
    "BRANCH_LEQ": np.less_equal,
    "BRANCH_LT": np.less,
    "BRANCH_GTE": np.greater_equal,
    "BRANCH_GT": np.greater,
    "BRANCH_EQ": np.equal,
    "BRANCH_NEQ": np.not_equal,
}
_CODES = list(_BRANCH)


def _either(call: Call, name: str) -> Any:
    tensor = call[f"{name}_as_tensor"]
    return tensor if tensor is not None else np.array(call[name] or [], dtype=np.float32)


def _combined(votes: list[list[tuple[int, Any]]], count: int, how: str, dtype: Any) -> np.ndarray:
    """Combines the votes of all trees for every row, by the aggregate function."""
    result = np.zeros((len(votes), count), dtype=dtype)
    for row, cast in enumerate(votes):
        for target in range(count):
            mine = [weight for place, weight in cast if place == target]
            if how in ("MIN", "MAX"):
                result[row, target] = (min if how == "MIN" else max)(mine) if mine else 0
            else:
                for weight in mine:
                    result[row, target] += weight
    return result


def post_transform(y: np.ndarray, how: str) -> np.ndarray:
    """Applies a post transform to each row of scores."""
    if how == "NONE":
        return y
    if how == "LOGISTIC":
        return (1 / (1 + np.exp(-y))).astype(y.dtype)
    if how in ("SOFTMAX", "SOFTMAX_ZERO"):
        powers = np.exp(y - y.max(axis=1, keepdims=True))
        if how == "SOFTMAX_ZERO":
            powers = np.where(y == 0, 0, powers)
        return (powers / powers.sum(axis=1, keepdims=True)).astype(y.dtype)
    raise OracleError(f"no engine can compute the post transform {how}")


@kernel("TreeEnsembleRegressor", domain=ML)
def tree_regressor(call: Call, x: np.ndarray) -> np.ndarray:
    """onnx.reference for TreeEnsembleRegressor has no post transform; onnxruntime may skip it."""
    data = x if x.dtype == np.float64 else x.astype(np.float32)
    how = call["aggregate_function"]
    y = _combined(_votes(call, data, "target"), call["n_targets"], how, data.dtype)
    if how == "AVERAGE":
        y = y / np.array(len(set(call["nodes_treeids"])), dtype=y.dtype)
    base = _either(call, "base_values")
    if len(base):
        y = y + base.astype(y.dtype)
    return post_transform(y, call["post_transform"]).astype(np.float32)


@kernel("TreeEnsembleClassifier", domain=ML)
def tree_classifier(call: Call, x: np.ndarray) -> tuple[Value, ...]:
    """TreeEnsembleClassifier runs in onnxruntime, except for two separately scored classes."""
    labels = call["classlabels_strings"] or call["classlabels_int64s"]
    base = _either(call, "base_values")
    if len(labels) != 2 or not (len(set(call["class_ids"])) == 2 or len(base) == 2):
        return engines.runtime(call, x)
    data = x if x.dtype == np.float64 else x.astype(np.float32)
    votes = _votes(call, data, "class")
    scores = _combined(votes, 2, "SUM", data.dtype)
    voted = np.array([[any(t == c for t, _ in row) for c in range(2)] for row in votes])
    if len(base):
        scores = scores + base.astype(scores.dtype)
        voted[:] = True
    best = np.where(voted, scores, -np.inf).argmax(axis=1)
    kind: Any = object if call["classlabels_strings"] else np.int64
    z = post_transform(scores, call["post_transform"])
    return np.array(labels, kind)[best], z.astype(np.float32)


def _votes(call: Call, data: np.ndarray, votes: str) -> list[list[tuple[int, Any]]]:
    """Returns the votes at the leaves that each row reaches: (class or target, weight)."""
    values, weights = _either(call, "nodes_values"), _either(call, f"{votes}_weights")
    trees, ids = call["nodes_treeids"], call["nodes_nodeids"]
    place = {key: index for index, key in enumerate(zip(trees, ids, strict=True))}
    leaf_votes: dict[tuple[int, int], list[tuple[int, Any]]] = {}
    ends = (call[f"{votes}_{name}"] for name in ("treeids", "nodeids", "ids"))
    for tree, node, target, weight in zip(*ends, weights, strict=True):
        leaf_votes.setdefault((tree, node), []).append((target, weight))
    missing = call["nodes_missing_value_tracks_true"] or [0] * len(trees)
    roots: dict[int, int] = {}
    for index, tree in enumerate(trees):
        roots.setdefault(tree, index)

    def leaf(row: np.ndarray, tree: int) -> int:
        index = roots[tree]
        for _ in ids:
            if call["nodes_modes"][index] == "LEAF":
                return int(ids[index])
            item = row[call["nodes_featureids"][index]]
            test = _BRANCH[call["nodes_modes"][index]](item, values[index])
            is_true = bool(test) or (bool(np.isnan(item)) and bool(missing[index]))
            side = "nodes_truenodeids" if is_true else "nodes_falsenodeids"
            index = place[tree, call[side][index]]
        raise OracleError(f"tree {tree} has a cycle")

    return [
        [vote for tree in roots for vote in leaf_votes.get((tree, leaf(row, tree)), [])]
        for row in data.reshape(-1, data.shape[-1])
    ]


@kernel("TreeEnsemble", domain=ML)
def tree_ensemble(call: Call, x: np.ndarray) -> np.ndarray:
    """onnx.reference ignores post_transform of TreeEnsemble; onnxruntime swaps two codes."""
    members = _member_sets(call)
    missing = call["nodes_missing_value_tracks_true"] or [0] * len(call["nodes_featureids"])

    def leaf(row: np.ndarray, index: int) -> int:
        if (
            call["nodes_trueleafs"][index]
            and call["nodes_falseleafs"][index]
            and call["nodes_truenodeids"][index] == call["nodes_falsenodeids"][index]
        ):
            return int(call["nodes_truenodeids"][index])
        for _ in call["nodes_splits"]:
            item, mode = row[call["nodes_featureids"][index]], int(call["nodes_modes"][index])
            if mode == len(_CODES):
                test = item.item() in members[index]
            else:
                test = bool(_BRANCH[_CODES[mode]](item, call["nodes_splits"][index]))
            side = "true" if test or (np.isnan(item) and missing[index]) else "false"
            index, ends = call[f"nodes_{side}nodeids"][index], call[f"nodes_{side}leafs"][index]
            if ends:
                return int(index)
        raise OracleError("TreeEnsemble: a tree has a cycle")

    votes = []
    for row in x:
        leaves = [leaf(row, root) for root in call["tree_roots"]]
        votes.append([(call["leaf_targetids"][n], call["leaf_weights"][n]) for n in leaves])
    how = ("AVERAGE", "SUM", "MIN", "MAX")[call["aggregate_function"]]
    y = _combined(votes, call["n_targets"], how, x.dtype)
    if how == "AVERAGE":
        y = (y / np.array(len(call["tree_roots"]), dtype=y.dtype)).astype(x.dtype)
    names = ("NONE", "SOFTMAX", "LOGISTIC", "SOFTMAX_ZERO", "PROBIT")
    return post_transform(y, names[call["post_transform"]])


def _member_sets(call: Call) -> dict[int, set[float]]:
    """Returns the set of values of every BRANCH_MEMBER node; NaN separates the sets."""
    groups: list[set[float]] = [set()]
    values: Sequence[float] = [] if call["membership_values"] is None else call["membership_values"]
    for value in values:
        if np.isnan(value):
            groups.append(set())
        else:
            groups[-1].add(float(value))
    nodes = [i for i, mode in enumerate(call["nodes_modes"]) if mode == len(_CODES)]
    if len(groups) - 1 != len(nodes):
        raise OracleError(f"TreeEnsemble: {len(groups) - 1} membership sets for {len(nodes)} nodes")
    return dict(zip(nodes, groups, strict=False))
