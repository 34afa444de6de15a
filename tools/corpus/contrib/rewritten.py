# SPDX-License-Identifier: Apache-2.0
"""What becomes of one rewritten model: plain ONNX that computes the same, or named blockers."""

from __future__ import annotations

import contextlib
import os
import tempfile
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from .make import MAKERS

ROUNDING = 1e-6  # how far weights and inputs are moved
EXACT, HALVES, PERMITTED = 1e-4, 1e-2, 1e-2  # differences allowed, of the largest number
NOISY = 0.1  # results that rounding moves farther than this tell nothing
PLAIN = ("ai.onnx", "ai.onnx.ml")
SAME, ALLOWED, REFUSED, WRONG, FAILED = "same", "with permission", "refused", "wrong", "failed"


@dataclass(frozen=True, slots=True)
class OpsetEnding:
    """How a conversion to one opset ended."""

    target: str
    status: str
    told: str = ""
    blockers: tuple[str, ...] = ()


@dataclass(slots=True)
class RewriteVerdict:
    """One model, rewritten in one way; `operators` are those of other domains."""

    model: str
    maker: str
    operators: dict[str, int] = field(default_factory=dict)
    endings: list[OpsetEnding] = field(default_factory=list)
    unfit: str = ""  # why nothing could be made of the model, or compared


def judge(folder: str, maker: str, targets: Sequence[str]) -> RewriteVerdict:
    """Rewrite, convert back at each opset, and compare on onnxruntime without optimisation."""
    import onnx

    folder = os.path.abspath(folder)
    verdict, here = RewriteVerdict(Path(folder).name, maker), os.getcwd()
    with tempfile.TemporaryDirectory() as scratch, contextlib.ExitStack() as back:
        back.callback(os.chdir, here)
        os.chdir(scratch)  # onnxruntime's tools write files into the working folder
        made = str(Path(scratch, "made.onnx"))
        feeds = _feeds(Path(folder))
        try:
            MAKERS[maker](str(Path(folder, "model.onnx")), feeds, made)
            model = onnx.load(made)
            verdict.operators = dict(_foreign(model))
            if not verdict.operators:
                return verdict
            wanted = _outputs(model, feeds, "DISABLE_ALL")
            noise = _noise(model, feeds, wanted)
            verdict.unfit = _infinite_scale(model) or _too_noisy(wanted, noise)
            if verdict.unfit:
                return verdict
        except Exception as error:
            verdict.unfit = f"{type(error).__name__}: {str(error).splitlines()[0][:160]}"
            return verdict
        verdict.endings = [_ending(model, feeds, wanted, noise, target) for target in targets]
    return verdict


def _infinite_scale(model: Any) -> str:
    """Whether codes stand for no numbers: what a kernel makes of NaN as a code is undefined."""
    from onnx import numpy_helper

    scales = (one for one in model.graph.initializer if one.name.endswith("_scale"))
    finite = (np.isfinite(numpy_helper.to_array(one).astype(np.float64)).all() for one in scales)
    return "" if all(finite) else "a scale is not finite"


def _too_noisy(wanted: list[Any], noise: list[float]) -> str:
    """Why the results of a model cannot be compared; empty if they can."""
    for at, (one, own) in enumerate(zip(wanted, noise, strict=True)):
        if not own <= NOISY * _largest(np.asarray(one)):
            return f"onnxruntime's own results differ: output {at} by {own:.3g}"
    return ""


def _largest(x: Any) -> float:
    """The largest finite number of a result."""
    if x.dtype.kind not in "fiu":
        return 0.0
    return float(np.abs(x[np.isfinite(x)].astype(np.float64)).max(initial=0.0))


def _has_halves(model: Any) -> bool:
    """Whether the model computes in float16 somewhere."""
    import onnx
    from opshift.model.walk import nodes

    half = onnx.TensorProto.FLOAT16
    casts = (a.i for n in nodes(model) if n.op_type == "Cast" for a in n.attribute)
    return half in casts or any(one.data_type == half for one in model.graph.initializer)


def _feeds(folder: Path) -> dict[str, Any]:
    with np.load(folder / "inputs.npz", allow_pickle=True) as held:
        return dict(held)


def _foreign(model: Any) -> Counter[str]:
    """The operators of other domains, in all graphs, calls of the model's functions left out."""
    from opshift.model.walk import nodes

    own = {(one.domain, one.name) for one in model.functions}
    named = (n for n in nodes(model) if (n.domain, n.op_type) not in own)
    found = Counter(f"{n.domain}.{n.op_type}" for n in named if n.domain)
    return Counter({op: n for op, n in found.items() if op.rpartition(".")[0] not in PLAIN})


def _outputs(model: Any, feeds: dict[str, Any], level: str = "DISABLE_ALL") -> list[Any]:
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    options.graph_optimization_level = getattr(onnxruntime.GraphOptimizationLevel, f"ORT_{level}")
    session = onnxruntime.InferenceSession(
        model.SerializeToString(), options, providers=["CPUExecutionProvider"]
    )
    names = {one.name for one in session.get_inputs()}
    return session.run(None, {name: value for name, value in feeds.items() if name in names})


def _noise(model: Any, feeds: dict[str, Any], wanted: list[Any]) -> list[float]:
    """How far onnxruntime is from its own result, optimised or with weights and inputs rounded.

    Codes amplify rounding: a number between two codes becomes the one or the other.
    """
    import onnx
    from onnx import numpy_helper

    rng = np.random.default_rng(0)

    def moved(x: Any) -> Any:
        return (x * (1 + ROUNDING * rng.uniform(-1, 1, x.shape))).astype(x.dtype)

    found = [_outputs(model, feeds, "ENABLE_ALL")]
    for _ in range(3):
        other = onnx.ModelProto()
        other.CopyFrom(model)
        for held in other.graph.initializer:
            if held.data_type == onnx.TensorProto.FLOAT and len(held.dims) > 1:
                array = moved(numpy_helper.to_array(held))
                held.CopyFrom(numpy_helper.from_array(array, held.name))
        fed = {name: moved(x) if x.dtype.kind == "f" else x for name, x in feeds.items()}
        found.append(_outputs(other, fed))
    pairs = zip(wanted, *found, strict=True)
    return [max(map(_apart, all_of, [one] * len(all_of))) for one, *all_of in pairs]


def _apart(one: Any, other: Any) -> float:
    """The largest difference of two results."""
    a, b = np.asarray(one), np.asarray(other)
    if a.shape != b.shape or a.dtype.kind not in "fiu":
        return 0.0
    with np.errstate(invalid="ignore"):
        return float(np.nanmax(np.abs(a.astype(np.float64) - b.astype(np.float64)), initial=0.0))


def _ending(
    model: Any, feeds: dict[str, Any], wanted: list[Any], noise: list[float], target: str
) -> OpsetEnding:
    from opshift import OpshiftError, Refused, Why, convert_version

    versions = {one.domain: one.version for one in model.opset_import}
    own = versions.get("", versions.get("ai.onnx", 0))
    to = None if target == "own" else int(target)
    status, allow, slack = SAME, False, HALVES if _has_halves(model) else 0.0
    while True:
        try:
            after = convert_version(model, to, domains=PLAIN, allow_approximate=allow)
            break
        except Refused as refused:
            if not allow and {one.why for one in refused.refusals} == {Why.APPROXIMATE_ONLY}:
                status, allow = ALLOWED, True
                continue
            ops = sorted({f"{one.domain}.{one.op}".lstrip(".") for one in refused.refusals})
            return OpsetEnding(target, REFUSED, str(refused.refusals[0]), tuple(ops))
        except OpshiftError as error:
            return OpsetEnding(target, FAILED, f"{type(error).__name__}: {str(error)[:300]}")
    if _foreign(after):
        return OpsetEnding(target, WRONG, f"left: {', '.join(_foreign(after))}")
    try:
        got = _outputs(after, feeds)
    except Exception as error:
        return OpsetEnding(target, FAILED, f"from {own}: {str(error).splitlines()[0][:300]}")
    told = _difference(got, wanted, noise, max(slack, PERMITTED if allow else 0.0))
    return OpsetEnding(target, WRONG if told else status, told)


def _difference(got: list[Any], wanted: list[Any], noise: list[float], slack: float) -> str:
    for at, (one, other, own) in enumerate(zip(got, wanted, noise, strict=True)):
        told = _unlike(np.asarray(one), np.asarray(other), own, slack)
        if told:
            return f"output {at}: {told}"
    return ""


def _unlike(one: Any, other: Any, noise: float, slack: float) -> str:
    if one.shape != other.shape or one.dtype != other.dtype:
        return f"{one.dtype}{list(one.shape)}, not {other.dtype}{list(other.shape)}"
    if other.dtype.kind in "iu":  # a code of a quantised model may be the next one
        apart = np.abs(one.astype(np.int64) - other.astype(np.int64)).max(initial=0)
        allowed = max(2 * noise, 1 if slack else 0)
        return f"integers differ by {apart}, not {allowed:g}" if apart > allowed else ""
    if other.dtype.kind != "f":
        differ = int((one != other).sum())
        return f"{differ} of {other.size} elements differ" if differ else ""
    relative = max(slack, EXACT)
    with np.errstate(invalid="ignore"):
        apart = np.abs(one - other)
        close = apart <= relative * (np.abs(other) + _largest(other)) + 2 * noise + 1e-7
    close |= (one == other) | (np.isnan(one) & np.isnan(other))
    return "" if close.all() else f"max error {np.nanmax(apart):.3g}"
