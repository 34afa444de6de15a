# SPDX-License-Identifier: Apache-2.0
"""Whether the installed onnx is the newest one, for which tables and pages are written."""

from __future__ import annotations

from opshift import versions
from opshift.opsets import schemas

IS_OLDER = (schemas.latest("") or 0) < versions.RELEASES[-1].onnx
