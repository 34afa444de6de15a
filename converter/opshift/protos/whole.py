# SPDX-License-Identifier: Apache-2.0
"""Provides the whole package onnx, for code that uses numpy or needs the rest of onnx."""

from __future__ import annotations

import onnx as onnx
from onnx import defs as defs
from onnx import helper as helper
from onnx import numpy_helper as numpy_helper
from onnx import parser as parser
from onnx import serialization as serialization
from onnx import shape_inference as shape_inference
from onnx.serialization import ProtoSerializer as ProtoSerializer
