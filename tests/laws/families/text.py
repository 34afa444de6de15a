# SPDX-License-Identifier: Apache-2.0
"""Words."""

from __future__ import annotations

import numpy as np

from families.making import Family, Making, rows

WORDS = np.array(["", "a", "b c", "Ab", "monday", "a,b", "tuesday"], dtype=object)


def words(m: Making, shape: tuple[int, ...]) -> np.ndarray:
    return np.asarray(WORDS[m.rng.integers(0, len(WORDS), shape)], dtype=object)


def concat(m: Making) -> None:
    shape = m.shape(0, 2)
    m.node([m.feed(words(m, shape)), m.feed(words(m, m.stretched(shape)))])


def split(m: Making) -> None:
    m.node(
        [m.feed(words(m, m.shape(1, 2, zero=False)))],
        2,
        delimiter=m.one(None, "", ",", " "),
        maxsplit=m.one(None, 1),
    )


def match(m: Making) -> None:
    m.node([m.feed(words(m, m.shape(0, 2)))], pattern=m.one("a", "[a-z]*", "day$", ".*day"))


def normalizer(m: Making) -> None:
    size = m.int(1, 4)
    shape = (1, size) if m.flag() else (size,)
    m.node(
        [m.feed(words(m, shape))],
        case_change_action=m.one(None, "NONE", "LOWER", "UPPER"),
        is_case_sensitive=m.maybe(m.int(0, 1)),
        stopwords=m.one(None, ["a", "monday"]),
    )


def grams(m: Making) -> None:
    x = m.rng.integers(0, 5, m.one((6,), (2, 6))).astype(m.one(np.int32, np.int64))
    least = m.int(1, 2)
    m.node(
        [m.feed(x)], mode=m.one("TF", "IDF", "TFIDF"), min_gram_length=least, max_gram_length=2, max_skip_count=m.int(0, 2),
        ngram_counts=[0, 3], ngram_indexes=[0, 1, 2, 3, 4], pool_int64s=[1, 2, 3, 1, 2, 3, 4], weights=m.one(None, [0.5, 1.0, 2.0, 1.5, 0.25]),
    )  # fmt: skip


TEXT: Family = {
    **rows("StringConcat", concat),
    **rows("StringSplit", split),
    **rows("RegexFullMatch", match),
    **rows("StringNormalizer", normalizer),
    **rows("TfIdfVectorizer", grams),
}
