# SPDX-License-Identifier: Apache-2.0
"""One run of the fuzzer: a model that has been tampered with, and a call that is made with it."""

from __future__ import annotations

import base64
import dataclasses
import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from typing import Any

import onnx
from onnx import ModelProto, TensorProto

from tools.fuzz import mutate, mutate_bytes

NAMED = ("onnxruntime==1.10", "onnx==1.12", "tensorrt==8.4", "nobody", "13", "")
DOMAINS = ("", "ai.onnx", "ai.onnx.ml", "ai.onnx.training", "acme")
POLICIES = ("keep", "copy", "inline", "one-file")
DATA = "w.bin"


@dataclass(frozen=True, slots=True)
class FuzzCall:
    """What is called; `place` is how the model is given, or where its result goes."""

    function: str
    place: str
    target: Any
    options: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Case:
    """A model's bytes, the data files beside it, and the call."""

    model: bytes
    files: dict[str, bytes]
    call: FuzzCall

    def save(self, path: Path, found: str = "") -> None:
        """Write the case so that it can be run again."""
        files = {name: _letters(data) for name, data in self.files.items()}
        call = dataclasses.asdict(self.call)
        raw = {"found": found, "call": call, "files": files, "model": _letters(self.model)}
        path.write_text(json.dumps(raw, indent=1) + "\n")

    @staticmethod
    def load(path: Path) -> Case:
        """Read a case that was saved."""
        raw = json.loads(path.read_text())
        files = {name: base64.b64decode(data) for name, data in raw["files"].items()}
        return Case(base64.b64decode(raw["model"]), files, FuzzCall(**raw["call"]))


def _letters(data: bytes) -> str:
    return base64.b64encode(data).decode("ascii")


def mutator(seed: int) -> str:
    """Every third run knows nothing of what a file means."""
    return "bytes" if seed % 3 == 0 else "structure"


def make(pool: Sequence[bytes], seed: int) -> Case:
    """The case of a seed."""
    rng = Random(seed)
    text, donor = rng.choice(pool), rng.choice(pool)
    files: dict[str, bytes] = {}
    if rng.random() < 0.3:
        text, files = with_data_file(text)
    if mutator(seed) == "bytes":
        text = mutate_bytes.mutated(rng, text, donor)
    else:
        model, other = ModelProto.FromString(text), ModelProto.FromString(donor)
        text = mutate.mutated(rng, model, other).SerializeToString(deterministic=True)
    if files and rng.random() < 0.2:
        files = {DATA: files[DATA][: rng.randint(0, len(files[DATA]))]}
    call = draw_call(rng)
    if mutator(seed) == "bytes" and call.place in ("object", "inplace"):
        call = dataclasses.replace(call, place="path")
    return Case(text, files, call)


def with_data_file(text: bytes) -> tuple[bytes, dict[str, bytes]]:
    """The same model with the bytes of its initializers in a file."""
    model, data = ModelProto.FromString(text), b""
    for tensor in model.graph.initializer:
        if tensor.raw_data:
            entries = {"location": DATA, "offset": len(data), "length": len(tensor.raw_data)}
            data += tensor.raw_data
            tensor.ClearField("raw_data")
            tensor.data_location = TensorProto.EXTERNAL
            for key, value in entries.items():
                tensor.external_data.add(key=key, value=str(value))
    return model.SerializeToString(deterministic=True), {DATA: data} if data else {}


def draw_call(rng: Random) -> FuzzCall:
    """Any of the three entry points, mostly with a target that can be meant."""
    function = rng.choice(("convert_version",) * 3 + ("convert_file",) * 2 + ("plan",))
    target = _target(rng)
    if function == "plan":
        options = {"allow_approximate": True} if rng.random() < 0.3 else {}
        return FuzzCall(
            function, rng.choice(("object", "path")), 13 if target is None else target, options
        )
    options = _options(rng)
    if rng.random() < 0.05:
        target, options["minimal"] = None, True
    if function == "convert_file":
        place = rng.choice(("beside", "elsewhere", "in place"))
        options["external"] = rng.choice(POLICIES)
        return FuzzCall(function, place, target, options)
    return FuzzCall(function, rng.choice(("object", "inplace", "path")), target, options)


def _target(rng: Random) -> Any:
    newest = onnx.defs.onnx_opset_version()
    if rng.random() < 0.75:
        return rng.randint(1, newest)
    match rng.randrange(4):
        case 0:
            return {rng.choice(DOMAINS): rng.randint(1, newest), "": rng.randint(1, newest)}
        case 1:
            return {rng.choice(DOMAINS): rng.randint(0, 6)}
        case 2:
            return rng.choice(NAMED)
    return rng.choice((None, 0, -1, newest + 1, 10**30))


def _options(rng: Random) -> dict[str, Any]:
    """Some of the options, seldom many."""
    choices: dict[str, Any] = {
        "ir_version": rng.choice(("auto", "keep", "nonsense", *range(2, 15))),
        "allow_approximate": True,
        "drop_metadata": True,
        "prune_imports": True,
        "unknown_domains": rng.choice(("keep", "refuse")),
        "bump_model_version": True,
    }
    return {name: value for name, value in choices.items() if rng.random() < 0.12}
