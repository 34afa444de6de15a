# SPDX-License-Identifier: Apache-2.0
"""The number of random graphs: a few fixed ones, or new ones with `OPSHIFT_PROPERTIES=2000`.

New graphs change every day; `OPSHIFT_SEED=7` chooses others.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from datetime import datetime, timezone
from typing import TypeVar

from hypothesis import HealthCheck, seed, settings

Law = TypeVar("Law", bound=Callable[..., None])

COMMON = {
    "deadline": None,
    "suppress_health_check": [HealthCheck.too_slow, HealthCheck.data_too_large],
    "print_blob": True,
}
settings.register_profile("few", max_examples=15, derandomize=True, database=None, **COMMON)
wanted = os.environ.get("OPSHIFT_PROPERTIES")
if wanted:
    settings.register_profile("many", max_examples=int(wanted), **COMMON)
settings.load_profile("many" if wanted else "few")

PER_OPERATOR = int(wanted) if wanted else 2
"""The number of random uses of each operator."""
SEED = int(os.environ.get("OPSHIFT_SEED") or f"{datetime.now(timezone.utc):%Y%m%d}")


def seeded(law: Law) -> Law:
    """Seeds the law with the day; the few fixed graphs do not change."""
    return seed(SEED)(law) if wanted else law
