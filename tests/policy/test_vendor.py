"""The worked example of a vendor's package, run as one that is installed."""

from __future__ import annotations

import os
import subprocess
import sys
import tomllib
from pathlib import Path

VENDOR = Path(__file__).parents[2] / "examples" / "vendor"


def test_the_vendor_example(tmp_path):
    project = tomllib.loads((VENDOR / "pyproject.toml").read_text())["project"]
    installed = tmp_path / "acme_opshift-1.0.0.dist-info"
    installed.mkdir()
    name = f"Metadata-Version: 2.1\nName: {project['name']}\nVersion: {project['version']}\n"
    (installed / "METADATA").write_text(name)
    groups = [
        f"[{group}]\n" + "\n".join(f"{key} = {value}" for key, value in points.items())
        for group, points in project["entry-points"].items()
    ]
    (installed / "entry_points.txt").write_text("\n".join(groups))
    path = [str(tmp_path), str(VENDOR), *filter(None, sys.path)]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(path)}
    words = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", str(VENDOR)]
    done = subprocess.run(
        words, env=environment, cwd=VENDOR, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    page = [sys.executable, "-m", "opshift", "adapters", "FastConv", "--domain", "com.acme"]
    done = subprocess.run(page, env=environment, capture_output=True, text=True, check=False)
    assert "one of several choices" in done.stdout, done.stderr
