# SPDX-License-Identifier: Apache-2.0
"""Takes large payloads out of a model before a conversion, and puts them back afterwards.

A *skeleton* is a model in which every large tensor is a *stub*: the same TensorProto with an
`external_data` entry, `opshift.carved`, in place of its payload. Tensors with external data have no
payload in the model and stay as they are.
"""

from opshift.model.weights.carve import bytes_of, carve_file, carve_model, fetch, fill, fill_nested
from opshift.model.weights.checkable import checkable, with_payloads
from opshift.model.weights.copy import THRESHOLD
from opshift.model.weights.inplace import transplant
from opshift.model.weights.output import POLICIES, data_files, flaws, put, splice, splice_to_run
from opshift.model.weights.payloads import EXTERNAL_FIELD, InFile, InModel, Source, Weights

__all__ = [
    "EXTERNAL_FIELD",
    "POLICIES",
    "THRESHOLD",
    "InFile",
    "InModel",
    "Source",
    "Weights",
    "bytes_of",
    "carve_file",
    "carve_model",
    "checkable",
    "data_files",
    "fetch",
    "fill",
    "fill_nested",
    "flaws",
    "put",
    "splice",
    "splice_to_run",
    "transplant",
    "with_payloads",
]
