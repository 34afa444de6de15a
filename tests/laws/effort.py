# SPDX-License-Identifier: Apache-2.0
"""How many graphs are tried: few and always the same, or `OPSHIFT_PROPERTIES=2000` new ones.

The new ones of a day are the same all day, unless `OPSHIFT_SEED=7` names others.
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
"""Uses that are made up of each operator, however many its family has."""
SEED = int(os.environ.get("OPSHIFT_SEED") or f"{datetime.now(timezone.utc):%Y%m%d}")


def seeded(law: Law) -> Law:
    """The law with the seed of the day; with few graphs, which are always the same, as it is."""
    return seed(SEED)(law) if wanted else law
