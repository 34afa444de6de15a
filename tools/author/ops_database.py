# SPDX-License-Identifier: Apache-2.0
"""Rebuilds the operator version database from the installed onnx.

python -m tools.author ops_database                                add the versions that are missing
python -m tools.author ops_database --check  exit 1 if the shipped data is not current
python -m tools.author ops_database --compile  the Python of both .proto files (grpcio-tools)

`opshift ops build` writes the database of a vendor's domain.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from opshift.author.database import build, merged
from opshift.opsets.opset_changelog_pb2 import OpsetChangelog
from opshift.versions import DOMAINS

from tools.lib.program import described

ROOT = Path(__file__).parents[2] / "converter"
PROTOS = ("opshift/opsets/opset_changelog.proto", "opshift/model/bytes/outline.proto")
SHIPPED = ROOT / "opshift" / "opsets" / "opset_changelog.bin"


def main() -> int:
    """Returns an exit code."""
    parser = described(__doc__)
    parser.add_argument("--check", action="store_true")
    parser.add_argument("--compile", action="store_true")
    wanted = parser.parse_args()
    if wanted.compile:
        words = ["-I", ".", "--python_out=.", "--pyi_out=.", *PROTOS]
        return subprocess.call([sys.executable, "-m", "grpc_tools.protoc", *words], cwd=ROOT)
    old = OpsetChangelog()
    old.ParseFromString(SHIPPED.read_bytes())
    new = merged(old, build(DOMAINS))
    if wanted.check:
        if new != old:
            print(f"{SHIPPED} is not current: run ops_database", file=sys.stderr)
        return int(new != old)
    SHIPPED.write_bytes(new.SerializeToString(deterministic=True))
    return 0


if __name__ == "__main__":
    sys.exit(main())
