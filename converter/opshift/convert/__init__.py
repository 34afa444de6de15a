# SPDX-License-Identifier: Apache-2.0
"""The conversion of one model. The package itself can be called: `opshift.convert(model, 13)`."""

from __future__ import annotations

from opshift.lazy import make_callable

make_callable(__name__, "api", "convert_with_report")
