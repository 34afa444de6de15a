# SPDX-License-Identifier: Apache-2.0
"""Runs a model in the onnxruntime of the interpreter that reads this file, Python 3.6 or later.

It knows nothing of opshift. Its folder holds job.json and the inputs of each case as in<N>.npz; it
leaves the arrays of each case as out<N>.npz and answer.json, which tells how they fit together.
"""
# ruff: noqa: UP032

import json
import os
import sys
from typing import Any


def opened(path: str) -> Any:
    import onnxruntime

    minor = tuple(int(part) for part in onnxruntime.__version__.split(".")[:2])
    more = {"providers": ["CPUExecutionProvider"]} if minor >= (1, 3) else {}
    return onnxruntime.InferenceSession(path, **more), onnxruntime.__version__


def told(value: Any, arrays: Any) -> Any:
    """A value in JSON form, with its arrays stored separately."""
    import numpy

    if value is None:
        return {"none": True}
    if isinstance(value, dict):
        return {"map": [[own(key), own(item)] for key, item in value.items()]}
    if isinstance(value, (list, tuple)):
        return {"list": [told(item, arrays) for item in value]}
    array = numpy.asarray(value)
    name = "a{}".format(len(arrays))
    arrays[name] = array.astype(str) if array.dtype.kind == "O" else array
    return {"array": name}


def own(value: Any) -> Any:
    return value.item() if hasattr(value, "item") else value


def sentence(error: Exception) -> str:
    lines = str(error).strip().splitlines()
    return "{}: {}".format(type(error).__name__, lines[0] if lines else "no message")[:500]


def answered(session: Any, folder: str, number: int) -> Any:
    import numpy

    with numpy.load(os.path.join(folder, "in{}.npz".format(number))) as loaded:
        feed = {name: loaded[name] for name in loaded.files}
    feed = {k: v.astype(object) if v.dtype.kind == "U" else v for k, v in feed.items()}
    arrays = {}  # type: Any
    found = {}  # type: Any
    for output, value in zip(session.get_outputs(), session.run(None, feed)):  # noqa: B905
        found[output.name] = told(value, arrays)
    numpy.savez(os.path.join(folder, "out{}.npz".format(number)), **arrays)
    return found


def main(folder: str) -> None:
    with open(os.path.join(folder, "job.json")) as file:
        job = json.load(file)
    try:
        session, version = opened(job["model"])
    except Exception as error:
        answer = {"error": sentence(error)}  # type: Any
    else:
        answer = {"version": version, "cases": []}
        for number in range(job["cases"]):
            try:
                answer["cases"].append({"outputs": answered(session, folder, number)})
            except Exception as error:
                answer["cases"].append({"error": sentence(error)})
    with open(os.path.join(folder, "answer.json"), "w") as file:
        json.dump(answer, file)


if __name__ == "__main__":
    main(sys.argv[1])
