# SPDX-License-Identifier: Apache-2.0
"""Tests whether the runtime of this interpreter has a kernel for the node of a model.

Needs Python 3.6 or later. Each line of stdin is JSON with a model in base64. The line
`{"registered": true}` requests the kernels that the runtime lists.
"""

import base64
import json
import re
import sys

LACKS = re.compile(
    r"Could not find an implementation|NOT_IMPLEMENTED|not placed on any Execution Provider"
    r"|OpKernel was null|is not a registered|Failed to find kernel|MLDataType|_inlfunc_|bound to"
)
# Errors that occur before the runtime looks for a kernel.
BEFORE = re.compile(r"INVALID_[GP]|Load model|InferenceError|Type Error|Resolve|Node \(\w*\) Op ")


def opened(data):
    import onnxruntime

    minor = tuple(int(part) for part in onnxruntime.__version__.split(".")[:2])
    options = onnxruntime.SessionOptions()
    if minor < (1, 0):
        return onnxruntime.InferenceSession(data, options)
    options.log_severity_level = 4
    more = {"providers": ["CPUExecutionProvider"]} if minor >= (1, 3) else {}
    return onnxruntime.InferenceSession(data, options, **more)


def probed(data):
    try:
        opened(data)
    except Exception as failure:
        why = str(failure)
        if LACKS.search(why):
            return {"kernel": False, "why": why}
        if BEFORE.search(why):
            return {"kernel": None, "why": why}
        return {"kernel": True, "why": why}  # the kernel itself raised the error
    return {"kernel": True}


def registered():
    import onnxruntime.capi.onnxruntime_pybind11_state as state

    if not hasattr(state, "get_all_opkernel_def"):
        return {"registered": None}
    kernels = [
        [k.domain, k.op_name, list(k.version_range), dict(k.type_constraints)]
        for k in state.get_all_opkernel_def()
        if k.provider == "CPUExecutionProvider"
    ]
    return {"registered": kernels}


def main():
    for line in iter(sys.stdin.readline, ""):
        task = json.loads(line)
        answer = registered() if "registered" in task else probed(base64.b64decode(task["model"]))
        sys.stdout.write("@@" + json.dumps(answer) + "\n")
        sys.stdout.flush()


if __name__ == "__main__":
    main()
