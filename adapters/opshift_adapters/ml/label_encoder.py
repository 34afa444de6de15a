# SPDX-License-Identifier: Apache-2.0
"""LabelEncoder: version 1 has a list of names, 2 has lists of keys and values, 4 has tensors."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from opshift.adapter import (
    KEEP,
    Array,
    Builder,
    Node,
    Refusal,
    Result,
    T,
    Value,
    Why,
    adapter,
    by_width,
    flaw,
    fragile,
    np,
)

ML = "ai.onnx.ml"
FRAGILE = fragile("DictVectorizer LabelEncoder TreeEnsemble", domain=ML)
TYPED = by_width("LabelEncoder", floats=True, domain=ML)  # keys have the type of the input
LISTS = {"strings": "O", "int64s": "int64", "floats": "float32"}
OTHERS = dict.fromkeys(
    ("default_string", "default_int64", "default_float"),
    "the default value for another type of values has no effect",
)


@flaw("LabelEncoder", domain=ML)
def no_keys(node: Node) -> str | None:
    """LabelEncoder needs at least one key."""
    lists = ("classes_strings", "keys_strings", "keys_int64s", "keys_floats")
    empty = [name for name in lists if name in node.attributes and not node.attr(name)]
    return f"{empty[0]} is empty" if empty else None


@dataclass(frozen=True, slots=True)
class KeyTable:
    """The value of each key, and the default value for all other keys."""

    keys: Array
    values: Array
    default: Any

    @property
    def has_nan(self) -> bool:
        return self.keys.dtype.kind == "f" and bool(np.isnan(self.keys).any())


def _table(node: Node) -> KeyTable:
    keys = _side(node, "keys")
    values = _side(node, "values")
    if len(keys) != len(values):
        raise Refusal(Why.AMBIGUOUS, f"LabelEncoder has {len(keys)} keys, but {len(values)} values")
    if "default_tensor" in node.attributes:
        given = _as_objects(node.tensor("default_tensor").ravel())
        if given.dtype != values.dtype or not given.size:
            raise Refusal(
                Why.AMBIGUOUS, f"default_tensor is {given.dtype}, but the values are {values.dtype}"
            )
        return KeyTable(keys, values, given[0])
    word = {"O": "string", "i": "int64", "f": "float"}[values.dtype.kind]
    default = node.str("default_string") if word == "string" else node.attr(f"default_{word}")
    return KeyTable(keys, values, default)


def _side(node: Node, side: str) -> Array:
    """Returns the keys or the values of a LabelEncoder, from the only attribute that has them."""
    written = [name for name in node.attributes if name.startswith(f"{side}_")]
    if len(written) != 1:
        raise Refusal(Why.AMBIGUOUS, f"LabelEncoder has {len(written)} lists of {side}")
    suffix = written[0].removeprefix(f"{side}_")
    if suffix == "tensor":
        return _as_objects(node.tensor(written[0]).ravel())
    listed = node.strings(written[0]) if suffix == "strings" else node.attr(written[0])
    return np.array(listed, dtype=LISTS[suffix])


def _as_objects(array: Array) -> Array:
    """Returns the array; an array of strings becomes an array of Python strings."""
    return array.astype("O") if array.dtype.kind in "OSU" else array


def _distinct(table: KeyTable, *, last_wins: bool) -> KeyTable:
    """Removes repeated keys; refuses keys with two values, which are undefined below version 4."""
    rows: dict[Any, int] = {}
    plain = table.keys.tolist()
    for i, key in enumerate(plain):
        name = "NaN" if isinstance(key, float) and key != key else key
        seen = rows.get(name)
        if seen is not None and not last_wins and table.values[seen] != table.values[i]:
            raise Refusal(
                Why.AMBIGUOUS,
                f"key {key!r} has two values, and no specification defines which value is used",
            )
        rows[name] = i
    kept = sorted(rows.values())
    return KeyTable(table.keys[kept], table.values[kept], table.default)


def _encoder(op: Builder, x: Value, table: KeyTable) -> Value:
    """Writes a LabelEncoder of version 2 or 3, whose keys and values may have different types."""
    named: dict[str, Any] = {}
    for side, array in (("keys", table.keys), ("values", table.values)):
        named[f"{side}_{_list(array)}"] = array.tolist()
    word = {"strings": "string", "int64s": "int64", "floats": "float"}[_list(table.values)]
    named[f"default_{word}"] = table.default
    made: Value = op.emit("LabelEncoder", x, domain=ML, **named)
    return made


def _list(array: Array) -> str:
    return {"O": "strings", "i": "int64s", "f": "floats"}[array.dtype.kind]


def _gathered(op: Builder, index: Value, items: Sequence[Any], dtype: Any) -> Value:
    return op.Gather(op.const(np.array(items, dtype=dtype)), index, axis=0)


def _compared(op: Builder, x: Value, table: KeyTable) -> Value:
    """Writes the lookup with operators of ai.onnx, which compare the input with every key."""
    keys = op.const(table.keys)
    wide = op.Unsqueeze(x, op.const([-1]))
    same = _equal(op, wide, keys, table)
    place = op.const(np.arange(1, len(table.keys) + 1, dtype=np.int32))
    found = op.Cast(same, to=T.INT32) * place
    index = op.ReduceMax(found, op.const([-1]), keepdims=0)
    return _gathered(op, index, [table.default, *table.values], table.values.dtype)


def _equal(op: Builder, x: Value, keys: Value, table: KeyTable) -> Value:
    if table.keys.dtype.kind != "f":
        return op.Equal(x, keys)
    number = (x > 0) | (x < 1)
    constant = op.const(~np.isnan(table.keys))
    if op.opset() >= 11:
        same = op.Equal(x, keys)
    else:
        same = ~((x < keys) | (x > keys))
        same = same & number & constant
    if not table.has_nan:
        return same
    return same | ~(number | constant)


@adapter("LabelEncoder", 1, 2, domain=ML, ignores=OTHERS)
def label_encoder_1_2(node: Node, op: Builder) -> Result:
    """ai.onnx.ml 2 replaced the list of names by keys and values of any type."""
    names = np.array(node.strings("classes_strings"), dtype="O")
    numbers = np.arange(len(names))
    if node["X"].elem_type == T.STRING:
        table = KeyTable(names, numbers, node.int("default_int64"))
    else:
        table = KeyTable(numbers, names, node.str("default_string"))
    return _encoder(op, node["X"], _distinct(table, last_wins=False))


@adapter("LabelEncoder", 2, 1, domain=ML, since=7, handles_types=True, ignores=OTHERS)
def label_encoder_2_1(node: Node, op: Builder) -> Result:
    """Below ai.onnx.ml 2, LabelEncoder has only a list of names; Gather looks up other values."""
    x, table = node["X"], _distinct(_table(node), last_wins=False)
    count = len(table.keys)
    pair = (_list(table.keys), _list(table.values))
    if pair == ("strings", "int64s") and sorted(table.values) == list(range(count)):
        names = [key for _, key in sorted(zip(table.values, table.keys, strict=True))]
        return _names(op, x, names, default_int64=table.default)
    if pair == ("int64s", "strings") and sorted(table.keys) == list(range(count)):
        names = [name for _, name in sorted(zip(table.keys, table.values, strict=True))]
        return _names(op, x, names, default_string=table.default)
    if pair[0] != "strings":
        return _compared(op, x, table)
    index = _names(op, x, table.keys.tolist(), default_int64=count)
    return _gathered(op, index, [*table.values, table.default], table.values.dtype)


def _names(op: Builder, x: Value, names: list[str], **default: Any) -> Value:
    made: Value = op.emit("LabelEncoder", x, domain=ML, classes_strings=names, **default)
    return made


@adapter("LabelEncoder", 3, 4, domain=ML)
def label_encoder_3_4(node: Node, op: Builder) -> Result:
    """From ai.onnx.ml 4 on, the last of equal keys counts; keys with two values are refused."""
    _distinct(_table(node), last_wins=False)
    return KEEP


@adapter("LabelEncoder", 4, 3, domain=ML, since=7, handles_types=True, ignores=OTHERS)
def label_encoder_4_3(node: Node, op: Builder) -> Result:
    """Below ai.onnx.ml 4, LabelEncoder has fewer types; others need Cast or comparisons of keys."""
    x, table = node["X"], _distinct(_table(node), last_wins=True)
    keys, values = table.keys, table.values
    if keys.dtype == np.float64 or table.has_nan:
        return _compared(op, x, table)
    if keys.dtype.kind == "i" and keys.dtype != np.int64:
        x, keys = op.Cast(x, to=T.INT64), keys.astype(np.int64)
    if values.dtype == np.float64:
        index = _encoder(op, x, KeyTable(keys, np.arange(len(keys)), len(keys)))
        return _gathered(op, index, [*values, table.default], np.float64)
    if values.dtype.kind == "i" and values.dtype != np.int64:
        to = T.INT32 if values.dtype == np.int32 else T.INT16
        return op.Cast(
            _encoder(op, x, KeyTable(keys, values.astype(np.int64), table.default)), to=to
        )
    return _encoder(op, x, KeyTable(keys, values, table.default))
