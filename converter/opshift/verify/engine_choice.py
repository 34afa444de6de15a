# SPDX-License-Identifier: Apache-2.0
"""Chooses the engine that runs a model: onnxruntime or our own evaluator, with the reason."""

from __future__ import annotations

import functools
from typing import Literal, TypeAlias

from opshift.author.present_types import element_types
from opshift.model import imports
from opshift.opsets import targets
from opshift.protos import ModelProto
from opshift.protos.library import defs
from opshift.verify import extra
from opshift.verify.oracle import OracleError, trust
from opshift.verify.oracle.strict_schema import schema_of

EngineName: TypeAlias = Literal["auto", "onnxruntime", "opshift"]
RUNTIME, OURS = "onnxruntime", "opshift"
ENGINES = (RUNTIME, OURS)
LOWEST_OF_RUNTIME = 7
CARRIED = frozenset(
    (
        *("float", "double", "float16", "bool", "string", "seq", "map"),
        *("int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64"),
    )
)


@functools.cache
def highest_of_runtime() -> int:
    """Returns the newest opset that the installed onnxruntime can run."""
    import onnxruntime

    return targets.find(f"{RUNTIME}=={onnxruntime.__version__}").imports[""]


def choose(models: tuple[ModelProto, ModelProto], engine: str) -> tuple[tuple[str, str], ...]:
    """Returns the engine and the reason for each model; the same engine for both if possible."""
    if engine != "auto":
        return ((engine, "chosen by the caller"),) * 2
    for name in ENGINES:
        if not any(objection(model, name) for model in models):
            objection_to_runtime = objection(models[0], RUNTIME) or objection(models[1], RUNTIME)
            return (
                (name, "it supports both models" if name == RUNTIME else objection_to_runtime),
            ) * 2
    return tuple(_first(model) for model in models)


def _first(model: ModelProto) -> tuple[str, str]:
    against = {name: objection(model, name) for name in ENGINES}
    for name, alternative in (ENGINES, ENGINES[::-1]):
        if not against[name]:
            return name, against[alternative] or "it supports the model"
    return RUNTIME, f"no engine supports the model: {against[RUNTIME]}; {against[OURS]}"


def objection(model: ModelProto, engine: str) -> str:
    """Returns the reason why an engine is not used for a model; empty if it can be used."""
    return _against_runtime(model) if engine == RUNTIME else _against_ours(model)


def _against_runtime(model: ModelProto) -> str:
    if extra.is_missing():
        return extra.MISSING
    version = imports.versions(model).get("", LOWEST_OF_RUNTIME)
    if version < LOWEST_OF_RUNTIME:
        return f"onnxruntime does not support opset {version} officially"
    for info in (*model.graph.input, *model.graph.output):
        for name in sorted(element_types(info.type) - CARRIED):
            return f"onnxruntime cannot pass values of type {name} in Python"
    return ""


def _against_ours(model: ModelProto) -> str:
    for node, versions in imports.operators(model):
        domain = "" if node.domain == "ai.onnx" else node.domain
        try:
            since = schema_of(node.op_type, versions.get(domain, 0), domain).since_version
        except (OracleError, defs.SchemaError):
            return f"opshift has no description of {domain or 'ai.onnx'} {node.op_type}"
        if trust.judged(domain, node.op_type, since) is None:
            return f"opshift cannot compute {node.op_type}"
    return ""
