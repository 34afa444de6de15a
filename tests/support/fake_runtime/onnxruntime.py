# SPDX-License-Identifier: Apache-2.0
"""A stub of onnxruntime; the variable FAKE_RUNTIME lists the operators that it does not run.

It is JSON: an operator, or "opset N", and one of refuses, fails, small, wrong, dies and sleeps.
`small` fails if the last axis is short. `log` is a file to which each loaded model adds
a line. The reference of onnx computes what it runs.
"""

import json
import os
import time

import onnx
from onnx.reference import ReferenceEvaluator

__version__ = "1.15.1"
RULES = json.loads(os.environ.get("FAKE_RUNTIME", "{}"))


class SessionOptions:
    pass


class GraphOptimizationLevel:
    ORT_DISABLE_ALL = 0


class InferenceSession:
    def __init__(self, path, options, providers):
        model = onnx.load(path)
        opset = next(opset.version for opset in model.opset_import if not opset.domain)
        met = {f"opset {opset}", *(node.op_type for node in model.graph.node)}
        self.rules = {rule for name, rule in RULES.items() if name in met}
        if "log" in RULES:
            with open(RULES["log"], "a") as log:
                log.write(f"{' '.join(sorted(met))}\n")
        if "dies" in self.rules:
            os.kill(os.getpid(), 11)
        if "sleeps" in self.rules:
            time.sleep(60)
        if "refuses" in self.rules:
            raise RuntimeError("this operator is not implemented")
        self.model = ReferenceEvaluator(model)
        self.outputs = list(model.graph.output)

    def get_outputs(self):
        return self.outputs

    def run(self, names, feed):
        if "fails" in self.rules:
            raise ValueError("this shape is not supported")
        if "small" in self.rules and any(value.shape[-1] < 32 for value in feed.values()):
            raise ValueError("the window is larger than the image")
        results = self.model.run(names, feed)
        return [value + 1 for value in results] if "wrong" in self.rules else results
