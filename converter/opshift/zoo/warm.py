"""Does once, in the server that workers start from, what each of them would do first."""

from __future__ import annotations

import contextlib
import gc

MODEL = '<ir_version: 8, opset_import: ["": 11]> g (float[2] x) => (float[2] y) { y = Softmax(x) }'

with contextlib.suppress(Exception):  # a worker will meet the same error and say it
    from onnx import parser

    from opshift import convert_version, schemas

    convert_version(parser.parse_model(MODEL), schemas.latest(""))
    gc.collect()
