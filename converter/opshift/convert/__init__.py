# SPDX-License-Identifier: Apache-2.0
"""Converts one model. This package can be called like the function `opshift.convert(model, 13)`."""

from __future__ import annotations

from opshift.lazy import make_callable

make_callable(__name__, "api", "convert_with_report")
