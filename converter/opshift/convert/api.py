"""Conversions as users call them, of models and of files; the weights are put back at the end."""

from __future__ import annotations

import contextlib
import dataclasses
import gc
import os
import sys
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

from onnx import ModelProto

from opshift.convert.attempt import Conversion
from opshift.convert.ir import needs, restamp
from opshift.convert.legal import diagnose
from opshift.convert.request import Options, Target
from opshift.convert.step import StepRefused
from opshift.errors import BadDestination, BadTarget
from opshift.model import weights
from opshift.model.bytes import place
from opshift.model.bytes.source import Opened
from opshift.model.scope import FunctionId
from opshift.model.weights import Weights
from opshift.opsets import targets
from opshift.opsets.targets import Wanted
from opshift.report import Report

if TYPE_CHECKING:
    import onnx_ir

Source: TypeAlias = "ModelProto | str | os.PathLike[str] | onnx_ir.Model"
Carve: TypeAlias = Callable[[], tuple[ModelProto, Weights]]


@diagnose.unreadable_text()
def convert_version(
    model: Source,
    target: Target | str | None = None,
    *,
    ir_version: str | int = "auto",
    inplace: bool = False,
    allow_approximate: bool = False,
    check: bool = True,
    drop_metadata: bool = False,
    drop_training: bool = False,
    strict_ir: bool = False,
    at_least: Mapping[str, int] | int | None = None,
    prune_imports: bool | None = None,
    unknown_domains: str = "keep",
    bump_model_version: bool = False,
    minimal: bool = False,
) -> Any:
    """The model at `target`: an int for the default domain, versions by domain, or a runtime.

    Without a target only the IR version changes. A ModelProto or an onnx_ir.Model comes back as
    what it was; a path as a loaded ModelProto.
    """
    options = Options(
        targets.wanted(target, at_least), ir_version, allow_approximate, check, drop_metadata,
        drop_training, prune_imports, unknown_domains, bump_model_version, minimal, strict_ir,
    )  # fmt: skip
    if isinstance(model, (str, os.PathLike)):
        return _convert_proto(_load(model), options, str(Path(model).parent), inplace=True)
    if isinstance(model, ModelProto):
        return _convert_proto(model, options, "", inplace=inplace)
    return _convert_onnx_ir(model, options)


def convert_file(
    src: str | os.PathLike[str],
    dst: str | os.PathLike[str],
    target: Target | str | None = None,
    *,
    ir_version: str | int = "auto",
    allow_approximate: bool = False,
    check: bool = True,
    drop_metadata: bool = False,
    drop_training: bool = False,
    strict_ir: bool = False,
    at_least: Mapping[str, int] | int | None = None,
    prune_imports: bool | None = None,
    unknown_domains: str = "keep",
    bump_model_version: bool = False,
    minimal: bool = False,
    external: str = "keep",
    in_place: bool = False,
) -> Report:
    """Converts a file into another, or with `in_place` into itself; the kernel moves its weights.

    A file that the source needs is never written to otherwise.
    """
    options = Options(
        targets.wanted(target, at_least), ir_version, allow_approximate, check, drop_metadata,
        drop_training, prune_imports, unknown_domains, bump_model_version, minimal, strict_ir,
    )  # fmt: skip
    return convert_path(src, dst, options, external, in_place=in_place)


@diagnose.unreadable_text()
def convert_path(
    src: str | os.PathLike[str],
    dst: str | os.PathLike[str],
    options: Options,
    external: str,
    *,
    in_place: bool = False,
) -> Report:
    """Converts a file into another, or into itself."""
    if in_place and not os.path.samefile(src, place.to_replace(os.fspath(dst))):
        raise BadDestination(f"{os.fspath(dst)}: in place means the source, which is another file")
    file = Opened(os.fspath(src))
    if (stamp := restamp.look(file, options, dst, external)) is not None:
        stamp.write(dst, in_place=in_place)
        return stamp.report
    skeleton, store, report = convert(carve_of(file), options)
    weights.put(skeleton, store, dst, report.changed, external=external, in_place=in_place)
    return report


def carve_of(model: ModelProto | str | os.PathLike[str] | Opened) -> Carve:
    """The way to a skeleton of a model or a file, as often as it is asked for."""
    if isinstance(model, ModelProto):
        return lambda: weights.carve_model(model)
    file = model if isinstance(model, Opened) else Opened(os.fspath(model))
    return lambda: weights.carve_file(file)


def _load(path: str | os.PathLike[str]) -> ModelProto:
    """The whole model in a file, with all its external data."""
    model, store = weights.carve_file(path)
    weights.fill(model, store)
    weights.fetch(model, store)
    store.check_unchanged()
    return model


def _convert_proto(
    model: ModelProto, options: Options, base_dir: str, *, inplace: bool
) -> ModelProto:
    skeleton, store, report = convert(lambda: weights.carve_model(model, base_dir), options)
    if inplace:
        if report.changed:
            weights.transplant(skeleton, store, model)
        return model
    if store.sources:
        weights.fill(skeleton, store)
    return skeleton


def _convert_onnx_ir(model: Any, options: Options) -> Any:
    onnx_ir = sys.modules.get("onnx_ir")  # whoever has such a model has imported it
    if onnx_ir is None or not isinstance(model, onnx_ir.Model):
        raise TypeError(
            f"model is a ModelProto, a path or an onnx_ir.Model, not {type(model).__name__}"
        )
    proto = onnx_ir.to_proto(model)
    return onnx_ir.from_proto(_convert_proto(proto, options, "", inplace=True))


@contextlib.contextmanager
def _collector_paused() -> Iterator[None]:
    """A conversion makes many objects and few cycles: to look for those is a sixth of its time."""
    running = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if running:
            gc.enable()


@_collector_paused()  # around the whole call: what it made is gone when collecting begins again
def convert(carve: Carve, options: Options) -> tuple[ModelProto, Weights, Report]:
    """Converts a skeleton; functions are written out only when an adapter needs it."""
    needs.check_wanted(options.ir_version)
    if options.unknown_domains not in ("keep", "refuse"):
        raise BadTarget(f"unknown_domains is 'keep' or 'refuse', not {options.unknown_domains!r}")
    if options.minimal and options.target not in (None, {}):
        raise BadTarget("minimal is a target of its own; leave the other one out")
    if options.prune_imports is None:
        named = isinstance(options.target, Wanted) and options.target.ceiling is not None
        options = dataclasses.replace(options, prune_imports=named)
    inlined: list[FunctionId] = []
    while True:
        skeleton, store = carve()
        attempt = Conversion(skeleton, store, options, tuple(inlined))
        try:
            with diagnose.on_the_model(attempt):
                return skeleton, store, attempt.run()
        except StepRefused as refused:
            more = refused.functions - set(inlined)
            if not more:
                raise attempt.refused(refused.refusals) from None
            inlined += sorted(more)


__all__ = ["Options", "Target", "convert", "convert_file", "convert_version"]
