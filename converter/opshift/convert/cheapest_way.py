# SPDX-License-Identifier: Apache-2.0
"""Converts one skeleton by its cheapest way."""

from __future__ import annotations

import contextlib
import gc
import os
from collections.abc import Callable, Iterator
from typing import TypeAlias

from opshift.author import registry
from opshift.author.registry import Registry
from opshift.convert.attempt import Conversion
from opshift.convert.blockers import StepRefused
from opshift.convert.legal import diagnose
from opshift.convert.request import Request
from opshift.convert.ways import STRAIGHT, Reached, Way, Ways
from opshift.errors import AdapterBug, Refused
from opshift.model import weights
from opshift.model.bytes.source import Opened, opened
from opshift.model.functions import computing_nodes
from opshift.model.weights import Weights
from opshift.protos import ModelProto
from opshift.report import Report

OpenSkeleton: TypeAlias = Callable[[], tuple[ModelProto, Weights]]


def opener_of(model: ModelProto | str | os.PathLike[str] | Opened) -> OpenSkeleton:
    """A function that returns a new skeleton of a model or file at each call."""
    if isinstance(model, ModelProto):
        return lambda: weights.carve_model(model)
    file = opened(model)
    return lambda: weights.carve_file(file)


@contextlib.contextmanager
def _collector_paused() -> Iterator[None]:
    """Pauses the garbage collector, which would take a sixth of the time of a conversion."""
    running = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if running:
            gc.enable()


@_collector_paused()  # around the whole call: its objects are gone when collecting begins again
def convert(
    open_skeleton: OpenSkeleton, options: Request, opened: Callable[[], Conversion] | None = None
) -> tuple[ModelProto, Weights, Report]:
    """Converts a skeleton by the straight way, or by the cheapest way if there is a choice.

    If one path finds the model invalid, it is invalid. A straight way that writes only a header
    does not look. If the model is `opened` for several conversions, it stays as it is.
    """
    ways, adapters = Ways(), registry.default()
    for way in ways:
        attempt = _attempt(open_skeleton, options, way, adapters, opened)
        functions = len(attempt.skeleton.functions)
        try:
            with diagnose.on_the_model(attempt):
                report = attempt.run()
        except StepRefused as refused:
            ways.refused(way, attempt.refused(refused.refusals), attempt.others(refused))
        except Refused as refused:
            ways.refused(way, refused, attempt.others(refused))
        except AdapterBug as bug:
            ways.failed(bug)
        else:
            skeleton = attempt.skeleton
            if way == STRAIGHT and not (report.approximations or attempt.has_choice):
                return skeleton, attempt.weights, report
            lost, nodes = functions - len(skeleton.functions), computing_nodes(skeleton)
            found = Reached(way, skeleton, attempt.weights, report, lost, nodes)
            ways.reached(found, attempt.others())
    best = ways.chosen()
    return best.skeleton, best.weights, best.report


def _attempt(
    open_skeleton: OpenSkeleton,
    options: Request,
    way: Way,
    adapters: Registry,
    opened: Callable[[], Conversion] | None,
) -> Conversion:
    """The conversion along one path, from the opened model if that is enough."""
    as_it_came = options.only_ir or options.bump_model_version or way.inlined
    if opened is None or as_it_came:
        return Conversion(*open_skeleton(), options, adapters, way)
    return opened().branch(options, way)
