# SPDX-License-Identifier: Apache-2.0
"""Random nodes that quantize, train or draw numbers, and operators of ai.onnx.ml."""

from __future__ import annotations

import numpy as np
from onnx import helper
from random_scope import (
    FLOAT,
    INT8,
    INT32,
    INT64,
    STRING,
    UINT8,
    Scope,
    Value,
    exact,
    float_,
    known_last,
    matrix,
    plain,
    shaped,
)


def quantised(s: Scope) -> None:
    """Quantizes and dequantizes: for the whole tensor, along an axis, or with a computed scale."""
    x = s.pick(plain, exact, known_last)
    if not x or s.opset < 10:
        return
    kind, dtype = s.one_of((INT8, np.int8), (UINT8, np.uint8))
    small = s.like(x, elem_type=kind)
    if s.opset >= 11 and s.chance():
        small = s.like(x, elem_type=UINT8)
        scale, zero = Value(s.fresh(), FLOAT, (), exact=False), Value(s.fresh(), UINT8, ())
        s.add("DynamicQuantizeLinear", [x.name], small, scale, zero)
        names, how = [scale.name, zero.name], {}
    elif s.opset >= 13 and s.chance():
        last = x.shape[-1]
        scales = s.const(np.linspace(0.25, 0.5, last), np.float32)
        names, how = [scales, s.const(np.arange(last) % 3, dtype)], {"axis": x.rank - 1}
        s.add("QuantizeLinear", [x.name, *names], small, **how)
    else:
        names, how = [s.const(0.25, np.float32), s.const(3, dtype)], {}
        s.add("QuantizeLinear", [x.name, *names], small)
    s.add("DequantizeLinear", [small.name, *names], s.like(x, exact=False), **how)


def multiplied_small(s: Scope) -> None:
    x = s.pick(matrix, lambda v: v.elem_type in (UINT8, INT8))
    if not x or s.opset < 10:
        return
    dtype = np.uint8 if x.elem_type == UINT8 else np.int8
    weights = s.const(np.arange(2 * x.shape[1]).reshape(x.shape[1], 2), dtype)
    if s.chance():
        zero = [s.const(1, dtype)] if s.chance() else []
        result = s.like(x, elem_type=INT32, shape=(x.shape[0], 2))
        s.add("MatMulInteger", [x.name, weights, *zero], result)
        return
    names = [
        s.const(value, kind)
        for value, kind in ((0.5, np.float32), (3, dtype), (0.25, np.float32), (1, dtype))
    ]
    ends = [s.const(0.75, np.float32), s.const(2, dtype)]
    inputs = [x.name, *names[:2], weights, *names[2:], *ends]
    s.add("QLinearMatMul", inputs, s.like(x, shape=(x.shape[0], 2)))


def dropped(s: Scope) -> None:
    """A Dropout, with or without training, and with or without its mask."""
    x = s.pick(float_)
    if not x:
        return
    if s.opset in range(7, 12):
        s.add("Dropout", [x.name], s.like(x), ratio=0.25)
        return
    trains = s.chance()
    if s.opset < 7:
        s.add("Dropout", [x.name], s.like(x, exact=not trains), is_test=int(not trains))
        return
    ratio = s.const(0.25, np.float32) if trains or s.chance() else ""
    training = [s.const(trains, np.bool_)] if trains or s.chance() else []
    results = [s.like(x, exact=not trains)]
    if s.chance():
        results.append(Value(s.fresh(), 9, x.shape, exact=not trains))
    s.add("Dropout", [x.name, ratio, *training], *results)


def batch_normalised(s: Scope) -> None:
    """A BatchNormalization; up to opset 13, the number of its outputs decides whether it trains."""
    ranks = (4,) if s.opset < 6 else (2, 3, 4)
    x = s.pick(plain, lambda v: v.rank in ranks and isinstance(v.shape[1], int))
    if not x:
        return
    size = x.shape[1]
    names = [s.const(np.linspace(0.5, 1.5, size), np.float32, needed=False) for _ in range(4)]
    results, how = [s.like(x, exact=False)], {"epsilon": 1e-3}
    if s.chance():
        results += [Value(s.fresh(), FLOAT, (size,), exact=False) for _ in range(2)]
        if s.opset >= 14:
            how["training_mode"] = 1
        else:
            results += [Value(s.fresh(), FLOAT, (size,), exact=False) for _ in range(2)]
    if s.opset < 7:
        how["is_test"] = int(len(results) == 1)
    if s.opset < 6:
        how["consumed_inputs"] = [0, 0, 0, 1, 1]
    shown = results[:3]
    s.node("BatchNormalization", [x.name, *names], [r.name for r in results], **how)
    s.values += shown


def drawn(s: Scope) -> None:
    x = s.pick(plain, shaped)
    if x:
        op = s.one_of("RandomNormalLike", "RandomUniformLike", "Bernoulli")
        if op == "Bernoulli":
            if s.opset < 15:
                return
            share = s.like(x, exact=False)
            s.add("Sigmoid", [x.name], share)
            x = share
        s.add(op, [x.name], s.like(x, exact=False), **({} if s.chance() else {"seed": 1.0}))


def words(s: Scope) -> None:
    x = s.pick(lambda v: v.elem_type == STRING)
    if x:
        s.add("Identity", [x.name], s.like(x))


def learnt(s: Scope) -> None:
    """An operator of ai.onnx.ml on a matrix of floats."""
    x = s.pick(plain, exact, matrix)
    if not x or not s.ml:
        return
    columns = x.shape[1]
    match s.one_of("Scaler", "Normalizer", "Binarizer", "Imputer", "ArrayFeatureExtractor",
                   "LinearRegressor", "TreeEnsembleRegressor"):  # fmt: skip
        case "Scaler":
            ml(s, "Scaler", [x.name], s.like(x, exact=False),
               offset=[0.5] * columns, scale=[2.0] * columns)  # fmt: skip
        case "Normalizer":
            ml(s, "Normalizer", [x.name], s.like(x, exact=False), norm=s.one_of("L1", "L2"))
        case "Binarizer":
            ml(s, "Binarizer", [x.name], s.like(x), threshold=0.25)
        case "Imputer":
            how = {"imputed_value_floats": [1.0] * columns, "replaced_value_float": 0.5}
            ml(s, "Imputer", [x.name], s.like(x), **how)
        case "ArrayFeatureExtractor":
            places = s.const([columns - 1, 0], needed=False)
            ml(s, "ArrayFeatureExtractor", [x.name, places], s.like(x, shape=(x.shape[0], 2)))
        case "LinearRegressor":
            how = {"coefficients": [0.5] * columns, "intercepts": [0.25], "targets": 1}
            result = s.like(x, shape=(x.shape[0], 1), exact=False)
            ml(s, "LinearRegressor", [x.name], result, **how)
        case "TreeEnsembleRegressor" if s.ml < 5:
            result = s.like(x, shape=(x.shape[0], 1), exact=False)
            ml(s, "TreeEnsembleRegressor", [x.name], result, **STUMP)


STUMP = {
    "n_targets": 1,
    **{"nodes_treeids": [0] * 3, "nodes_nodeids": [0, 1, 2], "nodes_featureids": [0] * 3},
    **{"nodes_modes": ["BRANCH_LEQ", "LEAF", "LEAF"], "nodes_values": [0.25, 0.0, 0.0]},
    **{"nodes_truenodeids": [1, 0, 0], "nodes_falsenodeids": [2, 0, 0]},
    **{"target_treeids": [0, 0], "target_nodeids": [1, 2], "target_ids": [0, 0]},
    "target_weights": [1.5, -0.5],
}


def labelled(s: Scope) -> None:
    """Replaces numbers by strings: each version of LabelEncoder has other attributes for this."""
    x = s.pick(exact, lambda v: v.elem_type == INT64)
    if not x or not s.ml:
        return
    result = s.like(x, elem_type=STRING)
    if s.ml == 1:
        ml(s, "LabelEncoder", [x.name], result, classes_strings=["a", "b"], default_string="c")
    elif s.ml < 4 or s.chance():
        keys = {"keys_int64s": [0, 1], "values_strings": ["a", "b"]}
        ml(s, "LabelEncoder", [x.name], result, **keys, default_string="c")
    else:
        numbers = helper.make_tensor("keys", INT64, [2], [0, 1])
        told = helper.make_tensor("values", STRING, [2], [b"a", b"b"])
        default = helper.make_tensor("default", STRING, [1], [b"c"])
        tensors = {"keys_tensor": numbers, "values_tensor": told, "default_tensor": default}
        ml(s, "LabelEncoder", [x.name], result, **tensors)


def ml(s: Scope, op: str, inputs: list[str], result: Value, **attributes: object) -> None:
    s.add(op, inputs, result, domain="ai.onnx.ml", **attributes)


ALL = (
    *(quantised, multiplied_small, dropped, batch_normalised, drawn, words, learnt, learnt),
    labelled,
)
