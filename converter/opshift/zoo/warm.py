"""Imports once, in the server that workers start from, what each of them would import."""

from __future__ import annotations

import contextlib

with contextlib.suppress(Exception):  # a worker will meet the same error and say it
    from opshift import registry

    registry.default()
