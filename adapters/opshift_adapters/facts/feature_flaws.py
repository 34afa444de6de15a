# SPDX-License-Identifier: Apache-2.0
"""Invalid nodes of ai.onnx.ml whose attributes do not fit the number of input features."""

from opshift.adapter import Node, flaw, np

from opshift_adapters._lib.known_sizes import dims_of

ML = "ai.onnx.ml"


def _features(node: Node) -> int | None:
    """Returns the number of features, which is the number of columns of X."""
    dims = dims_of(node, "X")
    size = dims[1] if dims is not None and len(dims) == 2 else None
    return size if isinstance(size, int) else None


@flaw("Scaler", domain=ML)
def numbers_for_other_features(node: Node) -> str | None:
    """`offset` and `scale` of Scaler need one number for each feature, or one number in total."""
    count = _features(node)
    for name in ("offset", "scale"):
        given = len(node.floats(name)) if name in node.attributes else 1
        if count is not None and given not in (1, count):
            return f"{name} has {given} numbers for {count} features"
    return None


@flaw("LinearClassifier LinearRegressor", domain=ML)
def coefficients_for_fewer_features(node: Node) -> str | None:
    """LinearClassifier and LinearRegressor need a coefficient for each feature and result."""
    count, given = _features(node), len(node.floats("coefficients"))
    results = len(node.attr("intercepts") or [0])
    if count is None or given >= count * results:
        return None
    return f"the node has only {given} coefficients for {count} features and {results} results"


@flaw("SVMClassifier SVMRegressor", domain=ML)
def vectors_of_other_features(node: Node) -> str | None:
    """Each support vector of an SVM needs one number for each feature."""
    classes = "vectors_per_class"
    vectors = node.int("n_supports") if node.op == "SVMRegressor" else sum(node.attr(classes) or ())
    count, numbers = _features(node), len(node.attr("support_vectors") or ())
    if count is None or vectors <= 0 or numbers == vectors * count:
        return None
    return f"the {vectors} support vectors have {numbers} numbers in total for {count} features"


@flaw("TreeEnsemble TreeEnsembleClassifier TreeEnsembleRegressor", domain=ML)
def splits_by_lacking_features(node: Node) -> str | None:
    """A split of a decision tree must refer to a feature of the input."""
    count, asked = _features(node), np.array(node.attr("nodes_featureids") or [0])
    if node.op != "TreeEnsemble" and "nodes_modes" in node.attributes:
        splits = np.array([mode != "LEAF" for mode in node.strings("nodes_modes")])
        asked = asked[splits] if splits.size == asked.size else asked
    if count is None or not asked.size or int(asked.max()) < count:
        return None
    return f"a tree refers to feature {int(asked.max())}, but the input has {count} features"


@flaw("ArrayFeatureExtractor", domain=ML)
def columns_outside(node: Node) -> str | None:
    """Constant indices of ArrayFeatureExtractor must be columns of the input."""
    dims, known = dims_of(node, "X"), node["Y"].const_or_none()
    size = dims[-1] if dims else None
    if not isinstance(size, int) or known is None or not np.any((known < 0) | (known >= size)):
        return None
    return f"the index {int(known.max())} is outside of the {size} columns of the input"
