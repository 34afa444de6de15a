# SPDX-License-Identifier: Apache-2.0
"""Estimates the sizes of models from the files in their folders, without opening them."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Sequence

from opshift.zoo.stores.stores import Listed, is_url


def sizes(models: Sequence[str], listed: Listed) -> list[int]:
    """Returns the estimated size of each model with its data files."""
    folders = Counter(map(os.path.dirname, models))
    stored = listed.folders()
    whole = {
        folder: stored.get(folder, 0) if is_url(folder) else _bytes(folder) for folder in folders
    }
    return [whole[folder] // folders[folder] for folder in map(os.path.dirname, models)]


def _bytes(folder: str) -> int:
    """Returns the size of all files in a folder; broken links are skipped."""
    with os.scandir(folder or os.curdir) as entries:
        return sum(entry.stat().st_size for entry in entries if os.path.isfile(entry))
