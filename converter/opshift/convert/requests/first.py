# SPDX-License-Identifier: Apache-2.0
"""Makes the changes of a request that come before the first step."""

from __future__ import annotations

from opshift.convert.state import State


def rewrite_first(state: State) -> None:
    """Fixes sizes, then changes element types, as the request asks."""
    options = state.options
    if options.shape or options.dim:
        from opshift.convert.requests.fixed_shapes import fix_shapes

        fix_shapes(state, options.shape or {}, options.dim or {})
    if options.types:
        from opshift.convert.requests.retype import retype

        retype(state, options.types, keep_io=options.keep_io_types)
