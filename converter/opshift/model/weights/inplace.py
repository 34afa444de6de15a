# SPDX-License-Identifier: Apache-2.0
"""Writes a result into the source ModelProto, without moving its payloads."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from google.protobuf.message import Message

from opshift.model.walk import nested_tensors
from opshift.model.weights.copy import copy_header, is_large, merge
from opshift.model.weights.payloads import InModel, Weights, header_of, replace_header
from opshift.protos import ModelProto, TensorProto


def transplant(skeleton: ModelProto, weights: Weights, target: ModelProto) -> None:
    """Makes the source model equal to the skeleton, without moving its payloads."""
    _replace_fields(skeleton, target, keep="graph")
    target.graph.SetInParent()
    _replace_fields(skeleton.graph, target.graph, keep="initializer")
    carved = _reconcile(skeleton.graph.initializer, weights, target.graph.initializer)
    if carved != len(weights.sources):
        for tensor in nested_tensors(target):
            weights.fill(tensor)


def _replace_fields(source: Message, target: Message, keep: str) -> None:
    for field in target.DESCRIPTOR.fields:
        if field.name != keep:
            target.ClearField(field.name)
    for field, value in source.ListFields():
        if field.name != keep:
            merge(target, field.name, value)


def _reconcile(expected: Any, weights: Weights, present: Any) -> int:
    """Makes the list `present` equal to the list `expected`, without copying equal payloads."""
    old = list(present)
    place = {id(tensor): i for i, tensor in enumerate(old)}
    by_name = {tensor.name: i for i, tensor in enumerate(old) if not is_large(tensor)}
    used: dict[int, int] = {}
    fresh: list[int] = []
    carved = 0
    for position, tensor in enumerate(expected):
        source = weights.source(tensor)
        carved += source is not None
        index = place.get(id(source.tensor)) if isinstance(source, InModel) else None
        if source is None:
            index = by_name.get(tensor.name)
        if index is None or index in used:
            fresh.append(position)
            continue
        used[index] = position
        _update(old[index], tensor, carved=source is not None)
    delete_others(present, used)
    for position in fresh:
        weights.fill(_added(present, expected[position]))
    order = [used[i] for i in sorted(used)] + fresh
    if order != sorted(order):
        positions = iter(order)
        present.sort(key=lambda _: next(positions))
    return carved


def _update(tensor: TensorProto, expected: TensorProto, carved: bool) -> None:
    if carved:
        header, current = header_of(expected), TensorProto()
        copy_header(tensor, current)
        if header != current:
            replace_header(tensor, header)
    elif tensor != expected:
        tensor.CopyFrom(expected)


def _added(container: Any, tensor: TensorProto) -> TensorProto:
    added: TensorProto = container.add()
    added.CopyFrom(tensor)
    return added


def delete_others(container: Any, positions: Iterable[int]) -> None:
    """Deletes all elements except those at the given indices, one slice for each gap."""
    end = len(container)
    for index in sorted(positions, reverse=True):
        if index + 1 < end:
            del container[index + 1 : end]
        end = index
    del container[:end]
