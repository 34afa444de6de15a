"""Rebuilds the operator version database from the installed onnx.

tools/ops_database.py                                add the versions that are missing
tools/ops_database.py --check                        exit 1 if the shipped data is not current
tools/ops_database.py --domain com.acme --output F   a vendor's own database
tools/ops_database.py --compile                      the Python of both .proto files (grpcio-tools)
"""

from __future__ import annotations

import argparse
import subprocess
import sys
from pathlib import Path

import onnx
from opshift.author import registry
from opshift.opsets import schemas
from opshift.opsets.opset_changelog_pb2 import Change, Domain, OpsetChangelog
from opshift.versions import DOMAINS

ROOT = Path(__file__).parents[1] / "converter"
PROTOS = ("opshift/opsets/opset_changelog.proto", "opshift/model/bytes/outline.proto")
SHIPPED = ROOT / "opshift" / "opsets" / "opset_changelog.bin"


def build(domains: tuple[str, ...]) -> OpsetChangelog:
    """What the installed onnx says about these domains, whatever the shipped data says."""
    found = OpsetChangelog()
    newest = {name: ends[1] for name, ends in onnx.defs.C.schema_version_map().items()}
    for name in domains:
        own = schemas.installed(name)
        if not own:
            continue
        domain = found.domains.add(name=name)
        for version in range(1, newest.get(name, max(one.since for one in own)) + 1):
            changes = [
                change([one for one in own if one.name == schema.name and one.since <= version])
                for schema in own
                if schema.since == version
            ]
            domain.versions.add(version=version, changes=changes)
    return found


def change(history: list[schemas.Schema]) -> Change:
    """One operator at the version that brings or changes it, which is the last of its history."""
    schema = history[-1]
    domain, op, version = schema.domain, schema.name, schema.since
    instead = registry.default().get(domain, op, version - 1, version)
    types = {p.variable: " ".join(sorted(p.types)) for p in (*schema.inputs, *schema.outputs)}
    return Change(
        op_type=op,
        deprecated=schema.deprecated,
        replaced_by=sorted(instead.emits) if instead and schema.deprecated else [],
        has_function_body=schema.has_body,
        fingerprint=schemas.fingerprint_of(history[-2:]),
        types=[f"{variable}: {listed}" for variable, listed in types.items()],
    )


def merged(old: OpsetChangelog, new: OpsetChangelog) -> OpsetChangelog:
    """The old entries as they are, and the versions that only the new ones have."""
    result = OpsetChangelog()
    result.CopyFrom(old)
    present = {domain.name: domain for domain in result.domains}
    for domain in new.domains:
        own: Domain = present.get(domain.name) or result.domains.add(name=domain.name)
        known = max((version.version for version in own.versions), default=0)
        own.versions.extend(version for version in domain.versions if version.version > known)
    return result


def main() -> int:
    """Returns an exit code."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--check", action="store_true")
    parser.add_argument("--compile", action="store_true")
    parser.add_argument("--domain", action="append")
    parser.add_argument("--output", type=Path, default=SHIPPED)
    wanted = parser.parse_args()
    if wanted.compile:
        words = ["-I", ".", "--python_out=.", "--pyi_out=.", *PROTOS]
        return subprocess.call([sys.executable, "-m", "grpc_tools.protoc", *words], cwd=ROOT)
    old = OpsetChangelog()
    if wanted.output.exists():
        old.ParseFromString(wanted.output.read_bytes())
    new = merged(old, build(tuple(wanted.domain or DOMAINS)))
    if wanted.check:
        if new != old:
            print(f"{wanted.output} is not current: run tools/ops_database.py", file=sys.stderr)
        return int(new != old)
    wanted.output.write_bytes(new.SerializeToString(deterministic=True))
    return 0


if __name__ == "__main__":
    sys.exit(main())
