# SPDX-License-Identifier: Apache-2.0
"""Converts a small model in the server that forks the child processes, to do slow first work."""

from __future__ import annotations

import contextlib
import gc

MODEL = """<ir_version: 4, opset_import: ["": 9]>
g (float[1, 3, 4, 4] x, float[2, 3, 1, 1] k, float[2] s, float[8, 2] w) => (float[1, 2] y) {
    convolved = Conv <kernel_shape = [1, 1]> (x, k)
    normal = BatchNormalization (convolved, s, s, s, s)
    positive = Relu (normal)
    pooled = MaxPool <kernel_shape = [2, 2], strides = [2, 2]> (positive)
    flat = Flatten (pooled)
    wide = Unsqueeze <axes = [0]> (flat)
    narrow = Squeeze <axes = [0]> (wide)
    kept = Dropout (narrow)
    dense = MatMul (kept, w)
    mean = ReduceMean <axes = [1]> (dense)
    centred = Sub (dense, mean)
    y = Softmax <axis = 1> (centred)
}"""

with contextlib.suppress(Exception):  # a worker will have the same error and report it
    from opshift import convert_version
    from opshift.opsets import schemas
    from opshift.protos.whole import parser

    convert_version(parser.parse_model(MODEL), schemas.latest(""))
    gc.collect()
