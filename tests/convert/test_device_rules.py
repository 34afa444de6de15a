# SPDX-License-Identifier: Apache-2.0
"""The rules about configurations of devices, and about the nodes that they place."""

from __future__ import annotations

import onnx
import pytest
from checked import assert_finds, checked
from onnx import ModelProto
from opshift.convert.legal import device_rules
from text_models import model

pytestmark = pytest.mark.skipif(
    not hasattr(onnx, "DeviceConfigurationProto"), reason="onnx 1.17 has no devices"
)


def configured(count: int = 2, *devices: str, name: str = "c") -> ModelProto:
    proto = model("(float[2,3] x) => (float[2,3] y) { y = Neg(x) }", 13, ir=11)
    proto.configuration.add(name=name, num_devices=count, device=devices)
    return proto


def placed(proto: ModelProto, tensor: str = "x", configuration: str = "c"):
    one = proto.graph.node[0].device_configurations.add(configuration_id=configuration)
    return one.sharding_spec.add(tensor_name=tensor)


def names_of(rule, proto: ModelProto) -> list[list[str]]:
    found = rule(checked(proto).document)
    return [[names] if isinstance(names, str) else sorted(names) for names, _ in found]


@pytest.mark.parametrize(
    ("count", "devices", "patterns"),
    [
        (1, [], []), (2, ["a", "b"], []), (0, [], ["'c' has 0 devices"]),
        (-1, ["a"], ["'c' has -1 devices"]), (1, ["a", "b"], ["1 device but names 2"]),
        (2, ["a"], ["2 devices but names 1"]),
    ],
)  # fmt: skip
def test_a_configuration_has_as_many_devices_as_it_names(count, devices, patterns):
    proto = configured(count, *devices)
    assert_finds(device_rules.configurations, checked(proto).document, *patterns)
    assert names_of(device_rules.configurations, proto) == [["c"]] * len(patterns)


def test_configurations_have_names_of_their_own():
    proto = configured()
    for name in ("d", "d", "", ""):
        proto.configuration.add(name=name, num_devices=1)
    patterns = ["2 configurations are called 'd'", "2 configurations without a name"]
    assert_finds(device_rules.configurations, checked(proto).document, *patterns)
    assert names_of(device_rules.configurations, proto) == [["d"], [""]]
    assert_finds(
        device_rules.configurations,
        checked(configured(name="")).document,
        "1 configuration without",
    )


def test_a_node_is_placed_by_a_configuration_of_the_model():
    proto = configured()
    placed(proto)
    assert_finds(device_rules.of_nothing, checked(proto).document)
    placed(proto, configuration="d")
    assert_finds(
        device_rules.of_nothing,
        checked(proto).document,
        "Neg 'y' refers to the device configuration 'd'",
    )
    assert names_of(device_rules.of_nothing, proto) == [["d"]]


@pytest.mark.parametrize("tensor", ["x", "y", "z"])
def test_a_node_shards_values_that_it_reads_or_writes(tensor):
    proto = configured()
    placed(proto, tensor)
    patterns = ["shards 'z', but neither"] if tensor == "z" else []
    assert_finds(device_rules.of_nothing, checked(proto).document, *patterns)


@pytest.mark.parametrize(
    ("devices", "groups", "wrong"),
    [
        ([0, 1], {}, []), ([0, 2], {}, [2]), ([-1], {}, [-1]), ([7, -3], {}, [-3, 7]),
        ([-1, 0], {-1: [0, 1]}, []), ([-1], {-1: [1, 2]}, [2]), ([-1, -2], {-1: [0]}, [-2]),
    ],
)  # fmt: skip
def test_the_devices_of_a_sharding_are_those_of_the_configuration(devices, groups, wrong):
    """A device may be the key of a group of devices."""
    proto = configured()
    spec = placed(proto)
    spec.device.extend(devices)
    for key, value in groups.items():
        spec.index_to_device_group_map.add(key=key, value=value)
    patterns = [f"over device {one}, .*'c' has 2 devices" for one in wrong]
    assert_finds(device_rules.of_nothing, checked(proto).document, *patterns)


@pytest.mark.parametrize(
    ("axis", "is_right"), [(0, True), (1, True), (2, False), (-2, True), (-3, False)]
)
def test_a_value_is_sharded_along_an_axis_that_it_has(axis, is_right):
    proto = configured()
    placed(proto).sharded_dim.add(axis=axis)
    placed(proto, "unknown").sharded_dim.add(axis=axis)
    patterns = [] if is_right else [f"'x' along axis {axis}, .* rank 2"]
    assert_finds(device_rules.axes, checked(proto), *patterns)


def test_a_sharding_has_its_fields_once():
    proto = configured()
    spec = placed(proto)
    spec.sharded_dim.add(axis=0).simple_sharding.add(num_shards=2)
    assert_finds(device_rules.shardings, checked(proto).document)
    spec.sharded_dim[0].simple_sharding[0].ClearField("num_shards")
    spec.sharded_dim.add(axis=0)
    spec.sharded_dim.add()
    for _ in range(2):
        spec.index_to_device_group_map.add(key=4)
    proto.graph.node[0].device_configurations.add(configuration_id="c")
    assert_finds(
        device_rules.shardings,
        checked(proto).document,
        "Neg 'y' has 2 entries for the device configuration 'c'; keep one",
        "the sharding of 'x' in Neg 'y' has 2 groups of devices 4; keep one",
        "has no axis; state it",
        "names axis 0 3 times; keep one",
        "has no number of shards; set num_shards to 1 or more",
    )


@pytest.mark.parametrize(
    ("sizes", "pattern"),
    [
        ([3], None), ([], None), ([None], None), ([None, 7], None),
        ([2], "axis 1 of 'x' as size 2, but its size is 3"), ([2, 3], "as size 6, but"),
    ],
)  # fmt: skip
def test_a_value_is_sharded_as_its_size(sizes, pattern):
    proto = configured()
    sharded = placed(proto).sharded_dim.add(axis=1)
    for size in sizes:
        sharded.simple_sharding.add(num_shards=1, dim_value=size)
    assert_finds(device_rules.axes, checked(proto), *[pattern] * (pattern is not None))
