# SPDX-License-Identifier: Apache-2.0
"""The rules on device configurations, and on the nodes that they place."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Collection, Iterator
from typing import Any

from opshift.convert.legal.findings import Checked, NamedText, several
from opshift.model.document import Document
from opshift.model.scope import Scope
from opshift.model.walk import named
from opshift.opsets.types import Dims, dims_of, rank_of
from opshift.protos import NodeProto
from opshift.text import counted


def configurations(document: Document) -> Iterator[NamedText]:
    """Checks that device configurations have unique names and the right number of devices."""
    configurations_of_model = list(getattr(document.model, "configuration", ()))
    for name, count in Counter(entry.name for entry in configurations_of_model).items():
        if not name:
            yield "", f"{counted(count, 'configuration')} without a name; name it"
        elif count > 1:
            yield name, f"{count} configurations are called {name!r}; give each its own name"
    for entry in configurations_of_model:
        if entry.num_devices < 1:
            text = f"configuration {entry.name!r} has {entry.num_devices} devices"
            yield entry.name, f"{text}; correct num_devices"
        elif entry.device and len(entry.device) != entry.num_devices:
            text = f"configuration {entry.name!r} has {counted(entry.num_devices, 'device')} but"
            yield entry.name, f"{text} names {len(entry.device)}; name all devices or none"


def of_nothing(document: Document) -> Iterator[NamedText]:
    configurations_by_name = {
        entry.name: entry for entry in getattr(document.model, "configuration", ())
    }
    for _, node in _nodes(document):
        called = named(node)
        for entry in node.device_configurations:
            configuration = configurations_by_name.get(entry.configuration_id)
            if configuration is None:
                text = (
                    f"{called} refers to the device configuration {entry.configuration_id!r}, which"
                )
                advice = "add it or remove the reference"
                yield entry.configuration_id, f"{text} the model does not define; {advice}"
            else:
                yield from _device_numbers(called, entry, configuration)
            yield from _shardings(called, entry, {*node.input, *node.output})


def _nodes(document: Document) -> Iterator[tuple[Scope, NodeProto]]:
    """Yields each node with a device configuration, and its graph."""
    for scope in document.scopes():
        for node in scope.proto.node:
            if getattr(node, "device_configurations", ()):
                yield scope, node


def _device_numbers(called: str, placed: Any, configuration: Any) -> Iterator[NamedText]:
    """Yields device numbers in a sharding that the configuration does not define."""
    count = configuration.num_devices
    for spec in placed.sharding_spec:
        groups = {entry.key: entry.value for entry in spec.index_to_device_group_map}
        listed = {*(entry for entry in spec.device if entry not in groups)}.union(*groups.values())
        for device in sorted(entry for entry in listed if not 0 <= entry < count):
            yield (
                spec.tensor_name,
                f"{called} shards {spec.tensor_name!r} over device {device}, but configuration"
                f" {configuration.name!r} has {count} devices, numbered from 0; correct the number",
            )


def _shardings(called: str, configuration: Any, values: Collection[str]) -> Iterator[NamedText]:
    for spec in configuration.sharding_spec:
        if spec.tensor_name not in values:
            text = f"{called} shards {spec.tensor_name!r}, but neither reads nor writes this value;"
            yield spec.tensor_name, f"{text} remove the sharding"


def shardings(document: Document) -> Iterator[NamedText]:
    """Checks that shardings have their required fields, and name each axis and device once."""
    for _, node in _nodes(document):
        placed = node.device_configurations
        for name, count in several(entry.configuration_id for entry in placed):
            text = f"{named(node)} has {count} entries for the device configuration"
            yield name, f"{text} {name!r}; keep one"
        for spec in (spec for entry in placed for spec in entry.sharding_spec):
            called = f"the sharding of {spec.tensor_name!r} in {named(node)}"
            for fault in _faults(spec):
                yield spec.tensor_name, f"{called} {fault}"


def _faults(spec: Any) -> Iterator[str]:
    """Yields the faults of the sharding of one value."""
    for key, count in several(entry.key for entry in spec.index_to_device_group_map):
        yield f"has {count} groups of devices {key}; keep one"
    if not all(dim.HasField("axis") for dim in spec.sharded_dim):
        yield "has no axis; state it"
    for axis, count in several(dim.axis for dim in spec.sharded_dim):
        yield f"names axis {axis} {count} times; keep one"
    if any(part.num_shards < 1 for dim in spec.sharded_dim for part in dim.simple_sharding):
        yield "has no number of shards; set num_shards to 1 or more"


def axes(checked: Checked) -> Iterator[NamedText]:
    """Checks that values are sharded along existing axes of the stated sizes."""
    assert checked.facts is not None, "the rule needs the ranks of values"
    for scope, node in _nodes(checked.document):
        for spec in (spec for entry in node.device_configurations for spec in entry.sharding_spec):
            kind = checked.facts.type(scope, spec.tensor_name)
            if kind is not None and rank_of(kind) is not None:
                yield from _axes(named(node), spec, dims_of(kind))


def _axes(called: str, spec: Any, dims: Dims) -> Iterator[NamedText]:
    rank = len(dims)
    for sharded in spec.sharded_dim:
        stated = [part.dim_value for part in sharded.simple_sharding if part.HasField("dim_value")]
        if not -rank <= sharded.axis < rank:
            text = f"{called} shards {spec.tensor_name!r} along axis {sharded.axis}, but the value"
            yield spec.tensor_name, f"{text} has rank {rank}; correct the axis"
        elif len(stated) == len(sharded.simple_sharding) > 0:
            size = dims[sharded.axis]
            if isinstance(size, int) and size != math.prod(stated):
                yield (
                    spec.tensor_name,
                    f"{called} shards axis {sharded.axis} of {spec.tensor_name!r} as size"
                    f" {math.prod(stated)}, but its size is {size}; correct dim_value",
                )
