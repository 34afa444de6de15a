# SPDX-License-Identifier: Apache-2.0
"""Converts one model, without its large weights, with the strategy that has the best result."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import TypeAlias

from opshift import collector
from opshift.author import registry
from opshift.convert.attempt import Conversion
from opshift.convert.blockers import StepRefused
from opshift.convert.legal import diagnose
from opshift.convert.request import Request
from opshift.convert.strategies import STRAIGHT, Reached, Strategies
from opshift.errors import AdapterBug, Refused
from opshift.model import weights
from opshift.model.bytes.source import Opened, opened
from opshift.model.functions import computing_nodes
from opshift.model.weights import Weights
from opshift.protos import ModelProto
from opshift.report import Report

OpenSkeleton: TypeAlias = Callable[[], tuple[ModelProto, Weights]]


def opener_of(model: ModelProto | str | os.PathLike[str] | Opened) -> OpenSkeleton:
    """Returns a function that opens the model or file anew at each call, without large weights."""
    if isinstance(model, ModelProto):
        return lambda: weights.carve_model(model)
    file = opened(model)
    return lambda: weights.carve_file(file)


@collector.paused()  # on the whole call, so that its objects are freed before collection resumes
def convert(
    open_skeleton: OpenSkeleton, options: Request, opened: Callable[[], Conversion] | None = None
) -> tuple[ModelProto, Weights, Report]:
    """Converts a model with the default strategy, or with the best strategy if there are several.

    If one strategy finds that the model is invalid, the conversion fails with `InvalidModel`.
    `opened` returns a conversion that has opened the model; the function uses only copies of this
    conversion.
    """
    strategies, adapters = Strategies(), registry.default()
    for strategy in strategies:
        as_it_came = options.only_ir or options.bump_model_version or strategy.inlined
        if opened is None or as_it_came:
            attempt = Conversion(*open_skeleton(), options, adapters, strategy)
        else:
            attempt = opened().branch(options, strategy)
        functions = len(attempt.skeleton.functions)
        try:
            with diagnose.on_the_model(attempt):
                report = attempt.run()
        except StepRefused as refused:
            strategies.refused(strategy, attempt.refused(refused.refusals), attempt.others(refused))
        except Refused as refused:
            strategies.refused(strategy, refused, attempt.others(refused))
        except AdapterBug as bug:
            strategies.failed(bug)
        else:
            skeleton = attempt.skeleton
            if strategy == STRAIGHT and not (report.approximations or attempt.has_choice):
                return skeleton, attempt.weights, report
            lost, nodes = functions - len(skeleton.functions), computing_nodes(skeleton)
            result = Reached(strategy, skeleton, attempt.weights, report, lost, nodes)
            strategies.reached(result, attempt.others())
    best = strategies.chosen()
    return best.skeleton, best.weights, best.report
