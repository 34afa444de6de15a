# SPDX-License-Identifier: Apache-2.0
"""Runs models in the runtime of this interpreter (Python 3.6 or later), one per line of stdin.

The argument is the path of opshift/verify/guest.py, which has the functions that load models. Each
line is JSON: the name of the runtime, the path of a model, the names of its inputs and outputs, and
the folder of inputs and expected outputs. The answer is a line of JSON.
"""
# ruff: noqa: UP032

import base64
import importlib.util
import json
import os
import subprocess
import sys

RIGHT = 1e-3  # the allowed error as a share of the largest expected magnitude


NODES = []  # the single process that runs onnxruntime-web


def of_web(task, optimized):
    import numpy

    if not NODES:
        script = os.path.join(os.path.dirname(os.path.abspath(__file__)), "web_child.cjs")
        NODES.append(subprocess.Popen(
            ["node", script, task["site"]], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
        ))  # fmt: skip
    (node,) = NODES
    with numpy.load(os.path.join(task["folder"], "inputs.npz")) as inputs:
        first = ask_node(node, task, {name: inputs[name] for name in task["inputs"]})
    if "unloaded" in first:
        raise ValueError(first["unloaded"])

    def run(feed):
        reply = ask_node(node, task, feed)
        if "failed" in reply:
            raise ValueError(reply["failed"])
        return {name: from_node(numpy, encoded) for name, encoded in reply["outputs"].items()}

    return run


def ask_node(node, task, feed):
    inputs = [
        {
            "name": name, "dims": list(value.shape),
            "type": "string" if value.dtype.kind in "UO" else value.dtype.name,
            "data": [str(element) for element in value.ravel()] if value.dtype.kind in "UO"
            else base64.b64encode(value.tobytes()).decode(),
        } for name, value in feed.items()
    ]  # fmt: skip
    node.stdin.write((json.dumps({"model": task["model"], "inputs": inputs}) + "\n").encode())
    node.stdin.flush()
    for line in iter(node.stdout.readline, b""):
        if line.startswith(b"@@"):
            return json.loads(line[2:].decode())
    NODES.clear()
    os._exit(node.wait() or 1)  # if node ends, the runtime has crashed


def from_node(numpy, encoded):
    if encoded["type"] == "string":
        return numpy.array(encoded["data"], dtype=object).reshape(encoded["dims"])
    data = numpy.frombuffer(base64.b64decode(encoded["data"]), encoded["type"])
    return data.reshape(encoded["dims"])


def loads(path):
    """Returns the functions that load a model in each runtime, from guest.py and this file."""
    spec = importlib.util.spec_from_file_location("guest", path)
    guest = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(guest)
    functions = {name: load for name, (_, load) in guest.RUNTIMES.items()}
    return dict(functions, **{"onnxruntime-web": of_web})


LOADS = {}


def fed(numpy, path):
    with numpy.load(path) as arrays:
        feeds = {name: arrays[name] for name in arrays.files}
    return {k: v.astype(object) if v.dtype.kind == "U" else v for k, v in feeds.items()}


def flat(name, value):
    """Splits maps and sequences into arrays with the names of expected.npz."""
    if value is None:
        return {name + "#none": 1}
    if isinstance(value, dict):
        return {name + "#keys": list(value), name + "#values": list(value.values())}
    if isinstance(value, (list, tuple)):
        if value and isinstance(value[0], dict):
            keys = [list(pair) for pair in value]
            return {name + "#keys": keys, name + "#values": [list(m.values()) for m in value]}
        parts = {name + "#len": len(value)}
        parts.update(("{}#{}".format(name, i), element) for i, element in enumerate(value))
        return parts
    return {name: value}


def error(numpy, want, got):
    """Returns the largest error relative to the largest expected value; None if not comparable."""
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
    """Returns the outcome of a model; a wrong result is judged again without optimizations."""
    answer = compared(task, optimized)
    if optimized and answer["outcome"] == "wrong" and task["runtime"] == "onnxruntime":
        answer["unoptimized"] = judged(task, optimized=False)["outcome"]
    return answer


def compared(task, optimized):
    import numpy

    try:
        run = LOADS[task["runtime"]](dict(task, path=task["model"]), optimized)
    except Exception as failure:
        return {"outcome": "not loaded", "why": str(failure)[:400]}
    worst, got = 0.0, {}
    for inputs, wanted in (("inputs.npz", "expected.npz"), ("inputs_2.npz", "expected_2.npz")):
        if not os.path.exists(os.path.join(task["folder"], wanted)):
            continue
        try:
            results = run(fed(numpy, os.path.join(task["folder"], inputs)))
        except Exception as failure:
            return {"outcome": "not run", "why": str(failure)[:400]}
        for name, value in results.items():
            got.update(flat(name, value))
        with numpy.load(os.path.join(task["folder"], wanted)) as expected:
            for name in expected.files:
                largest = name in got and error(numpy, expected[name], numpy.asarray(got[name]))
                if largest is False or largest is None:
                    return {"outcome": "wrong", "why": name + " has another type or shape"}
                worst = max(worst, largest)
    why = "" if worst <= RIGHT else "error {:.2g}".format(worst)
    return {"outcome": "wrong" if why else "right", "why": why}


def main():
    LOADS.update(loads(sys.argv[1]))
    for line in iter(sys.stdin.readline, ""):
        answer = judged(json.loads(line))
        sys.stdout.write("@@" + json.dumps(answer) + "\n")
        sys.stdout.flush()


if __name__ == "__main__":
    main()
