"""From a skeleton to a file, and where external data goes."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from itertools import chain
from math import prod

from onnx import ModelProto, TensorProto

from opshift.errors import InvalidModel
from opshift.model import walk
from opshift.model.arrays import from_array
from opshift.model.bytes import wire
from opshift.model.bytes.files import Late, Moved, Region, Staging, inside, locate, location_of
from opshift.model.weights.copy import copy_of
from opshift.model.weights.store import EXTERNAL_KEY, InFile, Weights, marker_of

POLICIES = ("keep", "copy", "link", "inline", "one-file")
"""What happens to external data. Readers may refuse a file of several links, as onnx 1.23 does."""

LIMIT = wire.LIMIT

_PAGE, _SMALL = 4096, 64
_PLACE = ("location", "offset", "length", wire.MARK)


def splice(
    skeleton: ModelProto,
    weights: Weights,
    dst: str | os.PathLike[str],
    *,
    external: str = "keep",
    synced: bool = True,
) -> list[str]:
    """Write the skeleton and its payloads to a file, which appears whole or not at all.

    The answer is the files that the result consists of, itself first. Their bytes are on the disk
    then, and their names if `synced`.
    """
    if external not in POLICIES:
        raise ValueError(f"external must be one of {', '.join(POLICIES)}, not {external!r}")
    name = os.fspath(dst)
    data = skeleton.SerializeToString(deterministic=True)
    outside = _located(skeleton, weights) if EXTERNAL_KEY in data else []
    if external == "inline" and outside:
        skeleton = copy_of(skeleton)
        weights = _inline(walk.tensors(skeleton), weights)
        data = skeleton.SerializeToString(deterministic=True)
    pieces = _woven(data, weights)
    if wire.total(pieces) > LIMIT:
        if external == "inline":
            raise InvalidModel(f"{name}: it would exceed 2 GiB with its weights; choose one-file")
        external = "one-file"
    with Staging() as staging:
        if external == "one-file":
            pieces = _one_file(copy_of(skeleton), weights, name, staging)
            if wire.total(pieces) > LIMIT:
                raise InvalidModel(f"{name}: it would exceed 2 GiB even without its weights")
        elif external != "inline":
            _bring(outside, weights, name, external, staging)
        staging.write(name, pieces)
        beside = _beside(name, external, outside, staging)
        staging.commit(synced=synced)
    return [name, *beside]


def _beside(
    dst: str, external: str, outside: list[tuple[TensorProto, Region]], staging: Staging
) -> list[str]:
    """The files that hold the external data of a result."""
    if external == "one-file":
        return [path for path in staging.paths if path != dst]
    if external == "inline":
        return []
    return sorted({inside(os.path.dirname(dst), location_of(t), t.name) for t, _ in outside})


def data_files(skeleton: ModelProto, weights: Weights) -> list[str]:
    """The files that hold a model's external data, each once."""
    if EXTERNAL_KEY not in skeleton.SerializeToString():
        return []
    return sorted({str(region.file) for _, region in _located(skeleton, weights)})


def _woven(data: bytes, weights: Weights) -> list[memoryview | bytes | Moved]:
    return wire.weave(data, lambda mark: weights.marked(mark).encoded())


def _located(model: ModelProto, weights: Weights) -> list[tuple[TensorProto, Region]]:
    """All external tensors and where their bytes are."""
    return [
        (tensor, locate(tensor, weights.base_dir))
        for tensor in walk.tensors(model)
        if tensor.data_location == TensorProto.EXTERNAL
    ]


def _bring(
    outside: list[tuple[TensorProto, Region]],
    weights: Weights,
    dst: str,
    policy: str,
    staging: Staging,
) -> None:
    """Make the data files reachable from the folder of the new file."""
    folder = os.path.dirname(dst) or os.curdir
    if not outside or os.path.samefile(folder, weights.base_dir or os.curdir):
        return
    for location, (tensor, region) in {location_of(t): (t, r) for t, r in outside}.items():
        if policy == "keep":
            raise InvalidModel(
                f"tensor {tensor.name!r}: its data file {location!r} would not be found from "
                f"{dst!r}; choose copy, link, inline or one-file"
            )
        path = inside(folder, location, tensor.name)
        if path == os.path.realpath(dst):
            raise InvalidModel(f"tensor {tensor.name!r}: its data file would overwrite {dst!r}")
        staging.place(str(region.file), path, link=policy == "link")


def _inline(tensors: Iterable[TensorProto], weights: Weights) -> Weights:
    """Turn external tensors into carved ones, whose payload is in their data file."""
    sources = list(weights.sources)
    for tensor in tensors:
        if tensor.data_location == TensorProto.EXTERNAL:
            region = locate(tensor, weights.base_dir)
            _forget_place(tensor)
            tensor.ClearField("data_location")
            tensor.external_data.add(key=wire.MARK, value=str(len(sources)))
            sources.append(InFile(wire.RAW, (wire.header(wire.RAW, len(region)), region)))
    return Weights(tuple(sources), weights.base_dir)


def _one_file(
    model: ModelProto, weights: Weights, dst: str, staging: Staging
) -> list[memoryview | bytes | Moved]:
    """Stage a file of all large payloads, and answer the bytes of the model that refers to it."""
    end, places, pieces = 0, dict[object, int](), list[bytes | Moved]()
    reached = list(_reached(model))
    for tensor in filter(Weights.is_stub, reached):
        raw = _raw(tensor, weights)
        key = raw if isinstance(raw, Region) else marker_of(tensor)
        if key not in places:
            gap = -end % (_PAGE if len(raw) >= _PAGE else _SMALL)
            pieces += [bytes(gap), raw]
            places[key] = end + gap
            end += gap + len(raw)
        refer(tensor, os.path.basename(dst) + ".data", places[key], len(raw))
    known = set(map(id, reached))
    weights = _inline((t for t in walk.tensors(model) if id(t) not in known), weights)
    if pieces:
        staging.write(dst + ".data", pieces)
    return _woven(model.SerializeToString(deterministic=True), weights)


def _reached(model: ModelProto) -> Iterator[TensorProto]:
    """The tensors that readers look at when they load external data."""
    nodes = chain(model.graph.node, *(function.node for function in model.functions))
    held = walk.items_in_attributes(attribute for node in nodes for attribute in node.attribute)
    for item in chain(model.graph.initializer, held):
        if isinstance(item, TensorProto):
            yield item


def _raw(tensor: TensorProto, weights: Weights) -> Region | Late:
    """What the tensor's raw_data would be."""
    if (source := weights.source(tensor)) is None:
        return locate(tensor, weights.base_dir)
    if (raw := source.raw()) is not None:
        return raw
    stub = TensorProto()
    stub.CopyFrom(tensor)  # the tensor itself will soon say something else
    size = wire.raw_size(stub.data_type, prod(stub.dims))
    return Late(size, lambda: from_array(weights.load(stub)).raw_data)


def refer(tensor: TensorProto, location: str, offset: int, length: int) -> None:
    _forget_place(tensor)
    tensor.data_location = TensorProto.EXTERNAL
    for key, value in zip(_PLACE, (location, offset, length), strict=False):
        tensor.external_data.add(key=key, value=str(value))


def _forget_place(tensor: TensorProto) -> None:
    kept = [entry for entry in tensor.external_data if entry.key not in _PLACE]
    tensor.ClearField("external_data")
    tensor.external_data.extend(kept)
