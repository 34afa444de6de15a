# SPDX-License-Identifier: Apache-2.0
"""Runs a tool of this program."""

import compileall
import os
from pathlib import Path

import opshift
import opshift_adapters

from tools.lib.program import run

# What is measured is compiled already, as it is where opshift is installed.
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
for package in (opshift, opshift_adapters):
    compileall.compile_dir(Path(str(package.__file__)).parent, quiet=1)

run("tools.bench", "matrix run")
