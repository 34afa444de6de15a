# SPDX-License-Identifier: Apache-2.0
"""Rewrites an opened model as the request asks before the first step."""

from __future__ import annotations

from opshift.convert.state import State


def rewrite_first(state: State) -> None:
    """Makes the other changes of the request, in the order in which they are possible."""
    options = state.options
    if options.shape or options.dim:
        from opshift.convert.requests.fixed_shapes import fix_shapes

        fix_shapes(state, options.shape or {}, options.dim or {})
    if options.types:
        from opshift.convert.requests.retype import retype

        retype(state, options.types, keep_io=options.keep_io_types)
