# SPDX-License-Identifier: Apache-2.0
"""TfIdfVectorizer: counts of n-grams in each row."""

import functools
from itertools import pairwise

from opshift.adapter import (
    Array,
    Builder,
    InvalidModel,
    Node,
    Refusal,
    Result,
    T,
    Value,
    Why,
    adapter,
    np,
)

from opshift_adapters._lib.blocks import END, part, shape_of
from opshift_adapters._lib.kinds import as_type

MOST = 10_000  # n-grams that are compared with each position of a row, at most


@adapter("TfIdfVectorizer", 9, 8)
def tf_idf_vectorizer_9_8(node: Node, op: Builder) -> Result:
    """Below opset 9, TfIdfVectorizer is written as Equal with each n-gram, and sums."""
    if node.attr("pool_strings") is not None:
        raise Refusal(Why.NOT_EXPRESSIBLE, "TfIdfVectorizer of strings is impossible below opset 9")
    grams, goals = _grams(node)
    x, size = node["X"], max(node.ints("ngram_indexes")) + 1
    if x.rank not in (1, 2):
        raise InvalidModel(
            f"{node.op} {node.name!r}: its input has rank {x.rank}, but must have rank 1 or 2"
        )
    rows = op.Unsqueeze(x, axes=[0]) if x.rank == 1 else x
    counts = op.MatMul(
        _counts(node, op, as_type(op, rows, T.INT64), grams), op.const(goals, T.FLOAT)
    )
    y = _weighted(node, op, counts, size)
    return op.Squeeze(y, axes=[0]) if x.rank == 1 else y


def _grams(node: Node) -> tuple[list[Array], Array]:
    """Returns the n-grams by length, and a matrix with a 1 at the output index of each n-gram."""
    pool, starts, places = (
        np.array(node.ints(name)) for name in ("pool_int64s", "ngram_counts", "ngram_indexes")
    )
    least, most = node.int("min_gram_length"), node.int("max_gram_length")
    grams, first = [], 0
    goals = []
    for length, (start, end) in enumerate(pairwise([*starts.tolist(), pool.size]), 1):
        if not 0 <= start <= end or (end - start) % length:
            raise InvalidModel(
                f"{node.op} {node.name!r}: its pool has an incomplete n-gram of {length} numbers"
            )
        listed = pool[start:end].reshape(-1, length)
        if least <= length <= most and len(listed):
            grams.append(listed)
            goals.append(np.arange(first, first + len(listed)))
        first += len(listed)
    if first != places.size or (places < 0).any():
        raise InvalidModel(
            f"{node.op} {node.name!r}: it has {first} n-grams, but {places.size} ngram_indexes"
        )
    if first > MOST:
        raise Refusal(
            Why.NOT_EXPRESSIBLE, f"TfIdfVectorizer has {first} n-grams, too many to compare all"
        )
    matrix = np.eye(places.max() + 1)[places]
    if not grams:  # no n-gram has a counted length
        return [np.zeros((1, 1), np.int64)], np.zeros((1, matrix.shape[1]))
    return grams, matrix[np.concatenate(goals)]


def _counts(node: Node, op: Builder, x: Value, grams: list[Array]) -> Value:
    """Returns how often each n-gram occurs in each row of `x`.

    Each row is padded at its end with a number that no n-gram contains, so that the longest n-gram
    can be compared at each element, and at least once in an empty row.
    """
    steps = max(node.int("max_skip_count"), 0) + 1
    reach = 1 + (grams[-1].shape[1] - 1) * steps
    used = {number for listed in grams for number in listed.flat}
    other = next(number for number in range(len(used) + 1) if number not in used)
    sizes = op.Concat(part(op, shape_of(op, x), 0, 1), op.const([reach]), axis=0)
    wide = op.Concat(x, op.Expand(op.const([[other]]), sizes), axis=1)

    @functools.cache
    def moved(by: int) -> Value:
        end = by + 1 - reach
        return op.Unsqueeze(op.Slice(wide, starts=[by], ends=[end or END], axes=[1]), axes=[2])

    found = []
    for listed in grams:
        length = listed.shape[1]
        hits = []
        for step in range(1, 2 if length == 1 else steps + 1):
            columns = enumerate(listed.T)
            alike = [
                op.Equal(moved(at * step), op.const(one[np.newaxis, np.newaxis]))
                for at, one in columns
            ]
            hits.append(op.Cast(functools.reduce(op.And, alike), to=T.FLOAT))
        sums = [op.ReduceSum(hit, axes=[1], keepdims=0) for hit in hits]
        found.append(functools.reduce(op.Add, sums))
    return op.Concat(*found, axis=1) if len(found) > 1 else found[0]


def _weighted(node: Node, op: Builder, counts: Value, size: int) -> Value:
    """Returns the counts (1 for a positive count in mode IDF) times the weight of each n-gram."""
    mode, listed = node.str("mode"), node.attr("weights")
    given, places = np.array(listed or [], np.float32), np.array(node.ints("ngram_indexes"))
    if mode not in ("TF", "IDF", "TFIDF"):
        raise InvalidModel(f"{node.op} {node.name!r} has the mode {mode!r}, which is not defined")
    if given.size not in (0, places.size):
        raise InvalidModel(
            f"{node.op} {node.name!r} has {given.size} weights for {places.size} n-grams"
        )
    if mode == "TF" or not given.size:
        return op.Cast(counts > 0, to=T.FLOAT) if mode == "IDF" else counts
    if len(set(places.tolist())) < places.size:
        raise Refusal(Why.AMBIGUOUS, "several n-grams with weights have equal ngram_indexes")
    weights = np.zeros(size, np.float32)
    weights[places] = given
    scale = op.const(weights, T.FLOAT)
    return (
        counts * scale if mode == "TFIDF" else op.Where(counts > 0, scale, op.const(0.0, T.FLOAT))
    )
