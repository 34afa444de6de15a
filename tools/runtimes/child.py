"""Runs models in the runtime of this interpreter, one for each line of stdin; Python 3.6 or later.

A line is JSON with the path of a model and the folder of its inputs and expected outputs. The
answer is a line of JSON.
"""
# ruff: noqa: UP032

import json
import os
import sys

RIGHT = 1e-3  # of the largest expected magnitude


def opened(path, optimized):
    import onnxruntime

    minor = tuple(int(part) for part in onnxruntime.__version__.split(".")[:2])
    more = {"providers": ["CPUExecutionProvider"]} if minor >= (1, 3) else {}
    options = onnxruntime.SessionOptions()
    if not optimized and minor >= (1, 0):
        options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    elif not optimized:
        options.set_graph_optimization_level(0)
    return onnxruntime.InferenceSession(path, options, **more)


def fed(numpy, path):
    with numpy.load(path) as arrays:
        found = {name: arrays[name] for name in arrays.files}
    return {k: v.astype(object) if v.dtype.kind == "U" else v for k, v in found.items()}


def flat(name, value):
    """Maps and sequences under names of their own, as expected.npz has them."""
    if value is None:
        return {name + "#none": 1}
    if isinstance(value, dict):
        return {name + "#keys": list(value), name + "#values": list(value.values())}
    if isinstance(value, (list, tuple)):
        if value and isinstance(value[0], dict):
            keys = [list(one) for one in value]
            return {name + "#keys": keys, name + "#values": [list(m.values()) for m in value]}
        found = {name + "#len": len(value)}
        found.update(("{}#{}".format(name, i), one) for i, one in enumerate(value))
        return found
    return {name: value}


def error(numpy, want, got):
    """The largest error against the largest expected magnitude; None where they do not compare."""
    if want.shape != got.shape:
        return None
    if want.dtype.kind in "US" or got.dtype.kind in "USO":
        return 0.0 if (want.astype(str) == got.astype(str)).all() else None
    left, right = want.astype(numpy.float64), got.astype(numpy.float64)
    differ = ~((left == right) | (numpy.isnan(left) & numpy.isnan(right)))
    if not differ.any():
        return 0.0
    scale = max(1e-6, numpy.abs(numpy.where(numpy.isfinite(left), left, 0)).max())
    worst = float(numpy.abs(left - right)[differ].max() / scale)
    return worst if worst == worst and worst < 1e30 else None


def judged(task, optimized=True):
    """How a model fares; what is wrong is judged again without the runtime's optimizations."""
    answer = compared(task, optimized)
    if optimized and answer["outcome"] == "wrong":
        answer["unoptimized"] = judged(task, optimized=False)["outcome"]
    return answer


def compared(task, optimized):
    import numpy

    try:
        session = opened(task["model"], optimized)
    except Exception as failure:
        return {"outcome": "not loaded", "why": str(failure)[:400]}
    worst, got = 0.0, {}
    for given, wanted in (("inputs.npz", "expected.npz"), ("inputs_2.npz", "expected_2.npz")):
        if not os.path.exists(os.path.join(task["folder"], wanted)):
            continue
        try:
            results = session.run(None, fed(numpy, os.path.join(task["folder"], given)))
        except Exception as failure:
            return {"outcome": "not run", "why": str(failure)[:400]}
        for output, value in zip(session.get_outputs(), results):  # noqa: B905 - Python 3.6 knows no strict
            got.update(flat(output.name, value))
        with numpy.load(os.path.join(task["folder"], wanted)) as expected:
            for name in expected.files:
                found = name in got and error(numpy, expected[name], numpy.asarray(got[name]))
                if found is False or found is None:
                    return {"outcome": "wrong", "why": name + " is of another kind"}
                worst = max(worst, found)
    why = "" if worst <= RIGHT else "error {:.2g}".format(worst)
    return {"outcome": "wrong" if why else "right", "why": why}


def main():
    for line in iter(sys.stdin.readline, ""):
        answer = judged(json.loads(line))
        sys.stdout.write("@@" + json.dumps(answer) + "\n")
        sys.stdout.flush()


if __name__ == "__main__":
    main()
