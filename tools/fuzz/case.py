# SPDX-License-Identifier: Apache-2.0
"""Generates a fuzzer case: a changed model, and a call with this model."""

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
FAMILIES = ("onnxruntime==1.10", "onnx==1.12", "tensorrt", "nobody")
DOMAINS = ("", "ai.onnx", "ai.onnx.ml", "ai.onnx.training", "acme")
POLICIES = ("keep", "copy", "inline", "one-file")
DATA = "w.bin"
OTHER = "other.onnx"  # the second model of a comparison
LOOKS = ("check", "diff", "lowest", "accepts", "targets", "info", "modernize")
CONVERSIONS = ("convert_version", "convert_file", "plan")
VERBS = (*CONVERSIONS, *LOOKS)
WEIGHTS = {"convert_version": 7, "convert_file": 5, "plan": 3}  # all others have weight 1


@dataclass(frozen=True, slots=True)
class FuzzCall:
    """A call of the API; `place` says how the model is passed, or where the result goes."""

    function: str
    place: str
    target: Any
    options: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Case:
    """The bytes of a model, its data files, and the call."""

    model: bytes
    files: dict[str, bytes]
    call: FuzzCall

    def save(self, path: Path, found: str = "") -> None:
        """Writes the case to a file, so that it can be run again."""
        files = {name: _letters(data) for name, data in self.files.items()}
        call = dataclasses.asdict(self.call)
        raw = {"found": found, "call": call, "files": files, "model": _letters(self.model)}
        path.write_text(json.dumps(raw, indent=1) + "\n")

    @staticmethod
    def load(path: Path) -> Case:
        """Reads a case from a file."""
        raw = json.loads(path.read_text())
        files = {name: base64.b64decode(data) for name, data in raw["files"].items()}
        return Case(base64.b64decode(raw["model"]), files, FuzzCall(**raw["call"]))


def _letters(data: bytes) -> str:
    return base64.b64encode(data).decode("ascii")


def mutator(seed: int) -> str:
    """Chooses the mutator: every third run changes bytes instead of messages."""
    return "bytes" if seed % 3 == 0 else "structure"


def make(pool: Sequence[bytes], seed: int, verbs: Sequence[str] = VERBS) -> Case:
    """Generates the case of a seed, which calls one of these functions."""
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
    call = draw_call(rng, verbs)
    if mutator(seed) == "bytes" and call.place in ("object", "inplace"):
        call = dataclasses.replace(call, place="path")
    if call.function == "diff":
        files = {**files, OTHER: _second(rng, text, donor)}
    return Case(text, files, call)


def _second(rng: Random, text: bytes, donor: bytes) -> bytes:
    """Returns the same model, a model with changed bytes, or another model."""
    match rng.randrange(3):
        case 0:
            return text
        case 1:
            return mutate_bytes.mutated(rng, text, donor)
    return donor


def with_data_file(text: bytes) -> tuple[bytes, dict[str, bytes]]:
    """Moves the bytes of the initializers to a data file."""
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


def draw_call(rng: Random, verbs: Sequence[str]) -> FuzzCall:
    """Draws a call of one of these functions, mostly with a valid target."""
    function = rng.choices(verbs, [WEIGHTS.get(verb, 1) for verb in verbs])[0]
    if function in LOOKS:
        return _look(rng, function)
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


def _look(rng: Random, function: str) -> FuzzCall:
    """Draws a call that reads a model, or a conversion that modernizes it."""
    place = "path" if function == "info" else rng.choice(("object", "path"))
    if function == "accepts":
        return FuzzCall(function, place, rng.choice(NAMED))
    if function == "targets":
        return FuzzCall(function, place, rng.choice(FAMILIES))
    if function == "modernize":
        return FuzzCall(function, place, _target(rng), {"modernize": True})
    return FuzzCall(function, place, None)


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
    """Draws a few of the options."""
    choices: dict[str, Any] = {
        "ir_version": rng.choice(("auto", "keep", "nonsense", *range(2, 15))),
        "allow_approximate": True,
        "drop_metadata": True,
        "prune_imports": True,
        "unknown_domains": rng.choice(("keep", "refuse")),
        "bump_model_version": True,
    }
    return {name: value for name, value in choices.items() if rng.random() < 0.12}
