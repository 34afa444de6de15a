# SPDX-License-Identifier: Apache-2.0
"""Prepares the adapters for a new opset: lists the changes, and writes code to complete.

    python -m tools.author new_opset [--domain ai.onnx.ml] [--version 29]  list changes, with code
    python -m tools.author new_opset --accept  record the reviewed texts

The first form reads the schemas of the installed onnx and the registry of adapters. The tool prints
the operators without adapters, their changes in words, and code for each: a claim if no change
breaks a consumer, else a pair of adapters with examples to complete. `--accept` adds the digest of
each operator's documentation and function body to the record of reviewed texts; a test compares the
record with the installed onnx, so that a changed text reopens the review of the claim.
"""

from __future__ import annotations

import hashlib
import json
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

import onnx
from opshift.author import registry
from opshift.opsets import schema_changes, schemas
from opshift.opsets.schema_changes import SchemaChange
from opshift.opsets.schemas import Schema
from opshift.versions import DOMAINS

from tools.lib.program import described

TEXTS = Path(__file__).resolve().parents[2] / "tests" / "adapters" / "reviewed_texts.json"

RELEASES = "releases of onnx whose texts were read"

HEADER = '''"""{name}: SAY WHAT THE OPERATOR DOES."""

from opshift.adapter import Builder, Node, Refusal, Result, Why, adapter, boundary, example
'''

CLAIM = """
{name}_{version} = boundary({version}, "{op}:{fingerprint}"{domain})
"""

STEP = '''

@adapter("{op}", {start}, {to}{domain})
@example("SAY WHICH CASE", "{example}", gives="{op}")
def {name}_{start}_{to}(node: Node, op: Builder) -> Result:
    """SAY WHAT CHANGED: {changes}"""
    raise Refusal(Why.NOT_EXPRESSIBLE, "the verdict is not written yet")
'''

BIRTH = '''

@adapter("{op}", {start}, {to}{domain})
@example("SAY WHICH CASE", "{example}", gives="SAY WHICH OPERATORS")
def {name}_{start}_{to}(node: Node, op: Builder) -> Result:
    """The operator is new in {version}."""
    return op.expand(node)
'''


def missing(domain: str, version: int | None) -> list[Schema]:
    """Returns the operator versions without an adapter to or from them."""
    newest = version or schemas.latest(domain) or 0
    crossings = registry.default().missing(domain, 1, newest)
    wanted = {(op, max(start, to)) for _, op, start, to in crossings}
    versions = (schemas.schema(domain, op, since) for op, since in sorted(wanted))
    return [schema for schema in versions if schema is not None and version in (None, schema.since)]


def stub(schema: Schema) -> str:
    """Returns the code of adapters for an operator version, which an author completes."""
    changes, below = changes_of(schema), schema.since - 1
    first = schemas.history(schema.domain, schema.name)[0].since == schema.since
    breaks = any(change.breaks for change in changes)
    back = (schema.since, below)
    steps = (back, back[::-1]) if breaks and not first else (back,)
    form = BIRTH if first else STEP if breaks else CLAIM
    return "".join(
        form.format(
            op=schema.name, name=_snake(schema.name), version=schema.since, start=start, to=to,
            fingerprint=schemas.fingerprint(schema.domain, schema.name, schema.since),
            domain=f', domain="{schema.domain}"' if schema.domain else "", example=_example(schema),
            changes="; ".join(change.text for change in changes),
        )
        for start, to in steps
    )  # fmt: skip


def changes_of(schema: Schema) -> tuple[SchemaChange, ...]:
    """Returns the changes that an operator version introduced."""
    return schema_changes.between(schema.domain, schema.name, schema.since - 1, schema.since)


def _snake(name: str) -> str:
    return "".join(f"_{c.lower()}" if c.isupper() else c for c in name).lstrip("_")


def _example(schema: Schema) -> str:
    """Returns a graph with the required inputs, as float tensors."""
    required = [p for i, p in enumerate(schema.inputs) if i < max(schema.min_input, 1)]
    names = [f"float[N] {p.name.lower()}" for p in required]
    domain = f"{schema.domain}." if schema.domain else ""
    call = f"{domain}{schema.name}({', '.join(p.name.lower() for p in required)})"
    return f"({', '.join(names)}) => (float[N] result) {{ result = {call} }}"


def texts() -> Iterator[tuple[str, str]]:
    """Yields each operator version of the installed onnx, with a digest of its text and body."""
    for domain in DOMAINS:
        for schema in schemas.installed(domain):
            raw = schemas.raw(domain, schema.name, schema.since)
            body = [str(node) for node in raw.function_body.node] if raw.has_function else []
            text = " ".join((raw.doc or "").split()) + "".join(body)
            name = f"{domain or 'ai.onnx'}.{schema.name}:{schema.since}"
            yield name, hashlib.sha256(text.encode()).hexdigest()[:12]


def accept() -> int:
    """Adds the digests of the installed onnx to the record, and prints how many are new."""
    record = json.loads(TEXTS.read_text()) if TEXTS.exists() else {}
    releases = record.setdefault(RELEASES, [])
    releases += [onnx.__version__] if onnx.__version__ not in releases else []
    new = 0
    for name, digest in texts():
        digests = record.setdefault(name, [])
        if digest not in digests:
            digests.append(digest)
            new += 1
    lines = (f"{json.dumps(name)}: {json.dumps(record[name])}" for name in sorted(record))
    TEXTS.write_text("{\n" + ",\n".join(lines) + "\n}\n")
    print(f"recorded {new} new texts; {len(record) - 1} implementations in {TEXTS.name}")
    return 0


def main(argv: Sequence[str] | None = None) -> int:
    """Runs the tool."""
    parser = described(__doc__)
    parser.add_argument("--domain", default="", help="the domain (default: ai.onnx)")
    parser.add_argument("--version", type=int, help="one version (default: all without verdicts)")
    parser.add_argument("--accept", action="store_true", help="record the reviewed texts")
    args = parser.parse_args(argv)
    if args.accept:
        return accept()
    lacking = missing(schemas.normal(args.domain), args.version)
    if not lacking:
        print("every operator version of the installed onnx has its verdicts")
        return 0
    for schema in lacking:
        print(f"# {schema.name} {schema.since}")
        print(*(f"#   {'! ' if c.breaks else ''}{c.text}" for c in changes_of(schema)), sep="\n")
    print(HEADER.format(name=", ".join(schema.name for schema in lacking)))
    print("".join(map(stub, lacking)))
    return 0


if __name__ == "__main__":
    sys.exit(main())
