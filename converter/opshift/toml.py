# SPDX-License-Identifier: Apache-2.0
"""The reader of TOML: part of Python from 3.11 on, the package `tomli` before."""

from __future__ import annotations

import sys

if sys.version_info >= (3, 11):
    from tomllib import TOMLDecodeError, loads
else:
    from tomli import TOMLDecodeError, loads

__all__ = ["TOMLDecodeError", "loads"]
