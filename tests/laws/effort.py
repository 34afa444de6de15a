# SPDX-License-Identifier: Apache-2.0
"""How many graphs are tried: few and always the same, or `OPSHIFT_PROPERTIES=2000` new ones."""

from __future__ import annotations

import os

from hypothesis import HealthCheck, settings

COMMON = {
    "deadline": None,
    "suppress_health_check": [HealthCheck.too_slow, HealthCheck.data_too_large],
    "print_blob": True,
}
settings.register_profile("few", max_examples=25, derandomize=True, database=None, **COMMON)
wanted = os.environ.get("OPSHIFT_PROPERTIES")
if wanted:
    settings.register_profile("many", max_examples=int(wanted), **COMMON)
settings.load_profile("many" if wanted else "few")
