# SPDX-License-Identifier: Apache-2.0
"""Writes the schemas of the contrib operators that adapters read, from onnxruntime.

    python -m tools.corpus.runtimes.vendor_database [OPERATOR ...]

`vendor_changelog.bin` has the format of `opshift ops build`. An operator gets an entry if it has an
entry already, if an adapter replaces it, or if it is an argument. If this onnxruntime lacks an
operator, the entry of the operator is kept. `vendor_ranks.toml` has the ranks of outputs. Run this
tool after a release of onnxruntime.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import onnxruntime
from onnxruntime.capi import onnxruntime_pybind11_state as state
from opshift import toml
from opshift.author import database, registry
from opshift.author.verdicts import LEAVE
from opshift.opsets import changelog, described, operator_set, schemas
from opshift.opsets.opset_changelog_pb2 import OpsetChangelog
from opshift.opsets.schemas import Attribute, Param, Schema
from opshift.protos import AttributeProto, helper

from tools.lib.program import described as parser

FILE = Path(schemas.__file__).with_name(changelog.VENDORS)
RANKS = toml.loads(Path(__file__).with_name("vendor_ranks.toml").read_text())
DOMAINS = ("com.microsoft", "com.microsoft.nchwc")
DOCUMENTS = "https://github.com/microsoft/onnxruntime/blob/v{release}/docs"
PAGE = f"{DOCUMENTS}/ContribOperators.md#{{domain}}.{{op}}"


def main() -> int:
    arguments = parser(__doc__)
    arguments.add_argument("operators", nargs="*", metavar="OPERATOR")
    chosen = frozenset(arguments.parse_args().operators) | replaced()
    old = OpsetChangelog.FromString(FILE.read_bytes()) if FILE.exists() else OpsetChangelog()
    operators = {op for entries in entries_of(old).values() for op in entries}
    FILE.write_bytes(merged(old, built(chosen | operators)).SerializeToString(deterministic=True))
    print(f"wrote {FILE}")
    return 0


def replaced() -> frozenset[str]:
    """Returns the operators of these domains that an adapter replaces by ai.onnx."""
    return frozenset(
        op for (domain, op, *boundary), _ in registry.default()
        if domain in DOMAINS and tuple(boundary) == LEAVE
    )  # fmt: skip


def entries_of(database_of: OpsetChangelog) -> dict[str, dict[str, Any]]:
    """Returns the entries of a database by domain and operator, for domains with one version."""
    return {
        domain.name: {change.op_type: change for change in domain.versions[0].changes}
        for domain in database_of.domains
    }


def built(chosen: frozenset[str]) -> OpsetChangelog:
    """Builds the database of the installed onnxruntime, by way of operator-set documents."""
    documents = []
    for domain in DOMAINS:
        operators = tuple(
            operator_set.Operator(schema, "") for schema in stated(domain) if schema.name in chosen
        )
        data = operator_set.write(operator_set.OperatorSet(domain, 1, operators))
        documents.append((f"{domain}-1{described.SUFFIX}", data))
    with described.using(documents):
        built_database = database.build(DOMAINS)
    release = onnxruntime.__version__
    for domain in built_database.domains:
        domain.documentation = PAGE.format(release=release, domain=domain.name, op="{op}")
    return built_database


def merged(old: OpsetChangelog, new: OpsetChangelog) -> OpsetChangelog:
    """Merges two databases; the new entries win."""
    before, result = entries_of(old), OpsetChangelog()
    for domain in new.domains:
        entries = {**before.get(domain.name, {}), **entries_of(new)[domain.name]}
        for op, rank in RANKS.get(domain.name, {}).items():
            entries[op].outputs[0].rank = rank
        kept = result.domains.add(name=domain.name, documentation=domain.documentation)
        kept.versions.add(version=1, changes=[entries[op] for op in sorted(entries)])
    return result


def stated(domain: str) -> Iterator[Schema]:
    """Yields the schemas of a domain in the installed onnxruntime."""
    for entry in sorted(state.get_all_operator_schema(), key=lambda schema: str(schema.name)):
        if entry.domain == domain:
            yield schema_of(entry)


def schema_of(schema: Any) -> Schema:
    """Converts a schema of onnxruntime to a schema of opshift."""
    types = {each.type_param_str: each.allowed_type_strs for each in schema.type_constraints}
    inputs, outputs = (
        tuple(_param(each, types) for each in params) for params in (schema.inputs, schema.outputs)
    )
    return Schema(
        schema.domain, schema.name, schema.since_version, schema.deprecated, inputs, outputs,
        {name: _attribute(each) for name, each in sorted(schema.attributes.items())},
        schema.min_input, schema.max_input, schema.min_output, schema.max_output, has_body=False,
        input_positions={each.name: i for i, each in enumerate(inputs)},
        output_positions={each.name: i for i, each in enumerate(outputs)},
    )  # fmt: skip


def _param(param: Any, types: dict[str, list[str]]) -> Param:
    return Param(
        param.name, frozenset(types.get(param.typeStr, [param.typeStr])), param.typeStr,
        optional=param.option.name == "Optional", variadic=param.option.name == "Variadic",
        homogeneous=param.isHomogeneous,
    )  # fmt: skip


def _attribute(attribute: Any) -> Attribute:
    default = AttributeProto.FromString(attribute._default_value)
    value = helper.get_attribute_value(default) if default.name else None
    value = value.decode() if isinstance(value, bytes) else value
    return Attribute(attribute.name, attribute.type.value, attribute.required, value)


if __name__ == "__main__":
    sys.exit(main())
