# SPDX-License-Identifier: Apache-2.0
"""Ways to rewrite a model with onnxruntime's optimizer, quantizer and transformer tools.

Each function takes the path of a model, its inputs and the path of the result.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

Feeds = Mapping[str, Any]
Maker = Callable[[str, Feeds, str], None]


def plain(src: str, feeds: Feeds, dst: str) -> None:
    """The model as it is."""
    Path(dst).write_bytes(Path(src).read_bytes())


def _optimised(level: str) -> Maker:
    def make(src: str, feeds: Feeds, dst: str) -> None:
        import onnxruntime

        options = onnxruntime.SessionOptions()
        options.log_severity_level = 4
        options.graph_optimization_level = getattr(
            onnxruntime.GraphOptimizationLevel, f"ORT_ENABLE_{level}"
        )
        options.optimized_model_filepath = dst
        onnxruntime.InferenceSession(src, options, providers=["CPUExecutionProvider"])

    return make


def dynamic(src: str, feeds: Feeds, dst: str) -> None:
    """quantize_dynamic, then level extended, which fuses its integer products."""
    from onnxruntime.quantization import quantize_dynamic

    logging.disable(logging.WARNING)
    kinds = ["MatMul", "Gemm", "LSTM", "Attention"]
    quantize_dynamic(src, dst + ".int", op_types_to_quantize=kinds)
    _optimised("EXTENDED")(dst + ".int", feeds, dst)


def _static(form: str) -> Maker:
    def make(src: str, feeds: Feeds, dst: str) -> None:
        from onnxruntime import quantization

        class CalibrationInputs(quantization.CalibrationDataReader):
            """The inputs of the model, once."""

            def __init__(self) -> None:
                self.left = [dict(feeds)]

            def get_next(self) -> Any:
                return self.left.pop() if self.left else None

        logging.disable(logging.WARNING)
        kind = getattr(quantization.QuantFormat, form)
        quantization.quantize_static(src, dst + ".int", CalibrationInputs(), quant_format=kind)
        _optimised("EXTENDED")(dst + ".int", feeds, dst)

    return make


def transformers(src: str, feeds: Feeds, dst: str) -> None:
    """The optimizer of transformer models, with every fusion that it has for BERT."""
    from onnxruntime.transformers import optimizer

    logging.disable(logging.WARNING)
    kind = "gpt2" if "gpt2" in src else "swin" if "swin" in src else "bert"
    optimizer.optimize_model(src, model_type=kind, opt_level=0).save_model_to_file(dst)


def float16(src: str, feeds: Feeds, dst: str) -> None:
    """The same optimizer, then its converter to float16."""
    from onnxruntime.transformers import optimizer

    logging.disable(logging.WARNING)
    found = optimizer.optimize_model(src, model_type="bert", opt_level=0)
    found.convert_float_to_float16(keep_io_types=True)
    found.save_model_to_file(dst)


MAKERS: dict[str, Maker] = {
    "as it is": plain,
    "basic": _optimised("BASIC"),
    "extended": _optimised("EXTENDED"),
    "all": _optimised("ALL"),
    "dynamic": dynamic,
    "static QDQ": _static("QDQ"),
    "static QOperator": _static("QOperator"),
    "transformers": transformers,
    "float16": float16,
}
