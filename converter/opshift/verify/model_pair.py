# SPDX-License-Identifier: Apache-2.0
"""Runs two models on equal inputs and compares their results."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Sequence
from pathlib import Path

from opshift import terms
from opshift.author import registry
from opshift.child_task import Limits
from opshift.convert.request_values import flag, path, real, whole
from opshift.errors import BadTarget, InvalidModel, MissingExtra
from opshift.model.bytes import documents
from opshift.opsets.targets import require_list
from opshift.option_texts import without_effect
from opshift.protos import ModelProto
from opshift.verify import (
    engine_choice,
    extra,
    inner_values,
    other_runtime,
)
from opshift.verify.cases import Inputs
from opshift.verify.one_step import OneStep
from opshift.verify.pair import Pair
from opshift.verify.pair_results import compared, reference_of
from opshift.verify.subject import Model, opened
from opshift.verify.tolerance import StatedTolerance
from opshift.verify.verification import Verification


def verify(
    a: Model,
    b: Model,
    inputs: Inputs | None = None,
    *,
    engine: engine_choice.EngineName = "auto",
    seed: int = 0,
    rtol: float | None = None,
    atol: float | None = None,
    ulp: int | None = None,
    limits: Limits | None = None,
    reduce: str | os.PathLike[str] | None = None,
    isolated: bool = True,
    runtime: str = "",
    values: Sequence[str] = (),
    in_double: bool | None = None,
) -> Verification:
    """Run two models on equal inputs and compare the results.

    Parameters
    ----------
    a, b : ModelProto or path
        The models.
    inputs : mapping, list of mappings, or path, optional
        The inputs by name: arrays, an .npz file, or a folder of test data. By default,
        inputs are generated from the signature.
    engine : {"auto", "onnxruntime", "opshift"}
        The engine that runs the models. "auto" prefers onnxruntime; "opshift" is the interpreter of
        this package.
    seed : int, default 0
        The seed of generated inputs.
    rtol, atol : float, optional
        The allowed relative and absolute difference of floats.
    ulp : int, optional
        The allowed difference of floats in units in the last place.
    limits : Limits, optional
        The seconds and megabytes that each run may take.
    reduce : path, optional
        A folder to which the smallest pair of submodels with different results is written.
    isolated : bool, default True
        Run the models in child processes. If false, they run in this process without limits, and
        a crash of the runtime ends this process.
    runtime : str, optional
        A Python interpreter; `b` runs in the runtime that this Python imports, such as onnxruntime,
        if opshift has a driver for the runtime.
    values : list of str, optional
        Values inside both models that are compared in addition to the outputs. For a
        value of a subgraph or function, small models of the nodes that compute it are compared.
    in_double : bool, optional
        Compare in the tolerance of the coarser element type, and state the distance of both models
        from `a` computed in double. By default this is done if an input or output has different
        element types in the models, or if they compute an output in different types.

    Returns
    -------
    Verification
        `.equal`, each comparison, and the cause of the first difference.

    Raises
    ------
    BadTarget
        An option has an invalid value, or the Python interpreter does not exist.
    InvalidModel
        A file is not an ONNX model, or the inputs do not fit the models.
    MissingExtra
        A package that an option needs is not installed.
    TypeError
        A model is neither a ModelProto nor a path.
    OSError
        A file cannot be read.

    Examples
    --------
    >>> from opshift.verify import verify
    >>> verify("model.onnx", "model.onnx", engine="opshift").equal
    True
    """
    if engine not in ("auto", *engine_choice.ENGINES):
        raise BadTarget(f"the engine must be auto, onnxruntime or opshift, not {engine!r}")
    tolerance = StatedTolerance(
        None if rtol is None else real(terms.name_of("rtol"), rtol),
        None if atol is None else real(terms.name_of("atol"), atol),
        None if ulp is None else whole(terms.name_of("ulp"), ulp),
    )
    seed = whole(terms.name_of("seed"), seed)
    limits = _limits(limits, isolated)
    runtime = path("runtime", runtime)
    require_list("values", values)
    if engine == engine_choice.RUNTIME and extra.is_missing():
        raise MissingExtra(f"{extra.MISSING}, or choose the engine opshift")
    found_runtime = other_runtime.find(runtime, limits=limits) if runtime else None
    with tempfile.TemporaryDirectory(prefix="opshift-") as name, documents.beside(a, b):
        folder, adapters = Path(name), registry.default()
        pair = Pair(
            opened(a, folder, "a", adapters), opened(b, folder, "b", adapters), engine, seed,
            tolerance, limits if isolated else None, adapters,
            found_runtime, in_double,
        )  # fmt: skip
        if not (values or has_results(pair.a.model) or has_results(pair.b.model)):
            raise InvalidModel("both models have no outputs; add an output that can be compared")
        verification = compared(pair, reference_of(pair, inputs), reduce, folder, values)
        if values:
            verification = inner_values.with_values(verification, pair, values, folder)
        if not pair.a.model.training_info:
            return verification
        return OneStep(pair, folder, verification).run()


def has_results(model: ModelProto) -> bool:
    """Returns whether a model has outputs, or a training step that changes its weights."""
    return bool(model.graph.output or model.training_info)


def _limits(limits: object, isolated: object) -> Limits:
    """Returns the limits of each run; raises BadTarget for limits that cannot be kept."""
    if not flag("isolated", isolated) and limits is not None:
        raise BadTarget(without_effect("limits", ("isolated=True",)))
    if not isinstance(limits, Limits | None):
        raise BadTarget(f"limits is {limits!r}; give Limits(seconds, megabytes)")
    bounds = limits or Limits()
    seconds = real(terms.name_of("seconds"), bounds.seconds, positive=True)
    return Limits(seconds, whole(terms.name_of("megabytes"), bounds.megabytes, 1))
