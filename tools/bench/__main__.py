# SPDX-License-Identifier: Apache-2.0
"""Runs a tool of `tools.bench` by name."""

import compileall
import os
from pathlib import Path

import opshift
import opshift_adapters

from tools.lib.program import run

# Compiles the packages first, because an installed opshift is compiled too.
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
for package in (opshift, opshift_adapters):
    compileall.compile_dir(Path(str(package.__file__)).parent, quiet=1)

run("tools.bench", "matrix run")
