# SPDX-License-Identifier: Apache-2.0
"""Exports networks in an interpreter that has torch: `torch_child.py FOLDER [NAME ...]`.

Each export becomes a folder with model.onnx, inputs.npz and the expected.npz that torch computes.
`exports.json` tells what torch wrote for each network and wish, or why it wrote nothing.
"""

from __future__ import annotations

import json
import logging
import sys
import warnings
from pathlib import Path
from typing import Any

import numpy
import onnx
import torch
import torch_modules

# What is asked of torch; a name is the beginning of the names of the folders.
WISHES: dict[str, dict[str, Any]] = {
    "torch_dynamo": {"dynamo": True},
    "torch_dynamo13": {"dynamo": True, "opset_version": 13},
    "torch_script": {"dynamo": False},
    "torch_script13": {"dynamo": False, "opset_version": 13},
}


def main() -> None:
    warnings.simplefilter("ignore")
    logging.disable(logging.CRITICAL)
    into, names = Path(sys.argv[1]), sys.argv[2:] or list(torch_modules.MODULES)
    told = {
        f"{wish}_{name}": export(name, options, into / f"{wish}_{name}")
        for name in names
        for wish, options in WISHES.items()
    }
    (into / "exports.json").write_text(json.dumps(told, indent=1))


def export(name: str, options: dict[str, Any], folder: Path) -> dict[str, Any]:
    """Writes the folder of one export; the opset that torch wrote, or why there is none."""
    module, inputs, dynamic = torch_modules.made(name)
    more = {"dynamic_shapes": dynamic} if dynamic and options["dynamo"] else {}
    if dynamic and not options["dynamo"]:
        more = {"input_names": ["x"], "dynamic_axes": {"x": {0: "batch"}}}
    with torch.no_grad():
        wanted = module(*inputs)
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / "model.onnx"
    try:
        torch.onnx.export(
            module, inputs, str(path), external_data=False, verbose=False, **options, **more
        )
    except Exception as failure:  # whatever torch raises is what torch says
        return {"failed": " ".join(str(failure).split())[:200] or type(failure).__name__}
    model = onnx.load(path)
    given = [one.name for one in model.graph.input]
    numpy.savez(folder / "inputs.npz", **dict(zip(given, arrays(inputs), strict=True)))
    found = [one.name for one in model.graph.output]
    numpy.savez(folder / "expected.npz", **dict(zip(found, arrays(wanted), strict=True)))
    versions = {one.domain: one.version for one in model.opset_import}
    return {"opset": versions[""], "ir": model.ir_version}


def arrays(values: Any) -> list[Any]:
    """The tensors of a value, which may hold others, in the order in which they are outputs."""
    if isinstance(values, torch.Tensor):
        return [values.detach().numpy()]
    return [array for value in values for array in arrays(value)]


if __name__ == "__main__":
    main()
