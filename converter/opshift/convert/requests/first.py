# SPDX-License-Identifier: Apache-2.0
"""Changes fixed sizes and element types, if requested, before the first step."""

from __future__ import annotations

from opshift.convert.state import State


def rewrite_first(state: State) -> None:
    """Fixes sizes and then changes element types, if the caller requests it."""
    options = state.options
    if options.shape or options.dim:
        from opshift.convert.requests.fixed_shapes import fix_shapes

        fix_shapes(state, options.shape or {}, options.dim or {})
    if options.types:
        from opshift.convert.requests.retype import retype

        retype(state, options.types, keep_io=options.keep_io_types)
