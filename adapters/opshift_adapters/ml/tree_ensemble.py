# SPDX-License-Identifier: Apache-2.0
"""Tree ensembles of ai.onnx.ml, which became one operator, TreeEnsemble, in version 5."""

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
    boundary,
    flaw,
    np,
)

from opshift_adapters._lib.forest import (
    MODES,
    Forest,
    copies,
    counting,
    either,
    float_splits,
    in_float,
    narrowed,
    numbered,
    read_classic,
    read_ensemble,
    with_constant,
    write_classic,
    write_ensemble,
)
from opshift_adapters._lib.kinds import fits_float

ML = "ai.onnx.ml"
WAYS = ("AVERAGE", "SUM", "MIN", "MAX")
BOTH = "TreeEnsembleClassifier TreeEnsembleRegressor"
NODE_LISTS = "treeids nodeids featureids modes values truenodeids falsenodeids"
VOTE_LISTS = "treeids nodeids ids weights"
PAIRS = {"nodes_values", "nodes_hitrates", "base_values", "target_weights", "class_weights"}


@flaw(BOTH, domain=ML)
def lists_that_do_not_fit(node: Node) -> str | None:
    """Lists of tree nodes and votes need equal lengths, and must refer to existing tree nodes."""
    votes = "target" if node.op == "TreeEnsembleRegressor" else "class"
    for kind, needed in (("nodes", NODE_LISTS), (votes, VOTE_LISTS)):
        sizes = {name: _count(node, f"{kind}_{name}") for name in needed.split()}
        optional = f"{kind}_missing_value_tracks_true"
        if kind == "nodes" and node.has(optional):
            sizes[optional.removeprefix("nodes_")] = _count(node, optional)
        if len(set(sizes.values())) > 1:
            return f"the lists have unequal lengths: {kind} " + ", ".join(
                f"{n} {k}" for n, k in sizes.items()
            )
    modes, trees = node.strings("nodes_modes"), node.ints("nodes_treeids")
    if unknown := {*modes} - {*MODES[:-1], "LEAF"}:
        return f"nodes_modes has the unknown mode {min(unknown)!r}"
    named = {*zip(node.ints(f"{votes}_treeids"), node.ints(f"{votes}_nodeids"), strict=True)}
    for side in ("true", "false"):
        ends = zip(trees, node.ints(f"nodes_{side}nodeids"), modes, strict=True)
        named |= {(tree, end) for tree, end, mode in ends if mode != "LEAF"}
    lost = named - {*zip(trees, node.ints("nodes_nodeids"), strict=True)}
    if not lost:
        return None
    return f"the node refers to node {min(lost)[1]} of tree {min(lost)[0]}, which is missing"


@flaw("TreeEnsembleClassifier", domain=ML)
def no_labels(node: Node) -> str | None:
    """A TreeEnsembleClassifier needs class labels; catboost may write two empty lists."""
    if node.attr("classlabels_int64s") or node.attr("classlabels_strings"):
        return None
    return "the classifier has no class labels"


def _count(node: Node, name: str) -> int:
    if node.attributes.get(f"{name}_as_tensor") is not None:
        return node.tensor(f"{name}_as_tensor").size
    return len(node.attr(name) or ())


@flaw("TreeEnsemble", domain=ML)
def codes_of_nothing(node: Node) -> str | None:
    """Modes, transforms, aggregations and targets of a TreeEnsemble must have defined codes."""
    codes = {"post_transform": len(TRANSFORMS), "aggregate_function": len(WAYS)}
    wrong = [
        f"{name} {node.int(name)}"
        for name, count in codes.items()
        if not 0 <= node.int(name) < count
    ]
    wrong += [
        f"mode {mode}"
        for mode in node.tensor("nodes_modes").reshape(-1).tolist()
        if mode >= len(MODES)
    ]
    targets = node.attr("n_targets")
    wrong += [
        f"target {n}" for n in node.ints("leaf_targetids") if targets is not None and n >= targets
    ]
    return f"{wrong[0]} is not defined" if wrong else None


TENSORS_3_UP = boundary(
    3, "TreeEnsembleClassifier:878395 TreeEnsembleRegressor:2f9dd9", domain=ML, directions="up"
)


@adapter(BOTH, 3, 2, domain=ML)
def trees_3_2(node: Node, op: Builder) -> Result:
    """Below ai.onnx.ml 3, tree ensembles have lists of floats instead of tensors of doubles."""
    changed: dict[str, Any] = {}
    for name in sorted(PAIRS):
        long = f"{name}_as_tensor"
        if long not in node.attributes:
            continue
        values = node.tensor(long).ravel()
        if name == "nodes_values":
            doubles = node["X"].elem_type == T.DOUBLE
            values = (
                in_float(values) if doubles else float_splits(values, node.strings("nodes_modes"))
            )
        elif name != "nodes_hitrates":
            values = in_float(values)
        changed |= {long: None, name: values.astype(np.float32).tolist()}
    return op.same(node, **changed) if changed else KEEP


HINTS = dict.fromkeys(
    ("nodes_hitrates", "nodes_hitrates_as_tensor"),
    "the number of visits of a node is only a hint about speed",
)


@adapter("TreeEnsembleRegressor", 4, 5, domain=ML, since=7, ignores=HINTS)
def regressor_4_5(node: Node, op: Builder) -> Result:
    """TreeEnsembleRegressor becomes TreeEnsemble of ai.onnx.ml 5, with one vote for each leaf."""
    forest = read_classic(node, "target")
    how = node.str("aggregate_function")
    if how in ("MIN", "MAX") and forest.least_votes < 1:
        raise Refusal(Why.NOT_EXPRESSIBLE, f"TreeEnsemble lacks {how} of leaves without votes")
    y = _transformed(node, op, forest, node.int("n_targets"), how)
    return op.Cast(y, to=T.FLOAT) if _in_double(node) else y


TRANSFORMS = ("NONE", "SOFTMAX", "LOGISTIC", "SOFTMAX_ZERO", "PROBIT")


def _scores(
    node: Node, op: Builder, forest: Forest, targets: int, how: str = "SUM", post: str = "NONE"
) -> Value:
    """Returns the aggregated votes plus base values; TreeEnsemble applies the transform `post`."""
    x, base = node["X"], _base(node)
    trees, kind = len(forest.roots), np.float64 if _in_double(node) else np.float32
    if not _in_double(node):
        forest = narrowed(forest)
    wide = T.DOUBLE if _in_double(node) else T.FLOAT
    if x.elem_type != wide:
        x = op.Cast(x, to=wide)
    averaged = how == "AVERAGE" and forest.most_votes > 1
    if post != "NONE" and base is not None and how == "SUM":
        forest, base = with_constant(forest, base), None
    if post != "NONE" and (base is not None or averaged):
        raise Refusal(
            Why.NOT_EXPRESSIBLE,
            f"TreeEnsemble cannot apply {post}, because its sums are not the final scores",
        )
    code = WAYS.index("SUM" if averaged else how)
    named: dict[str, Any] = {"aggregate_function": code, "post_transform": TRANSFORMS.index(post)}
    named |= write_ensemble(copies(forest, repeat=how in ("MIN", "MAX")), targets, kind)
    y: Value = op.emit("TreeEnsemble", x, domain=ML, **named)
    if averaged:
        y = y / op.const(np.array(trees, dtype=kind))
    return y if base is None else y + op.const(base.astype(kind))


def _in_double(node: Node) -> bool:
    """Returns whether sums are in double, because float cannot represent inputs or weights."""
    if node["X"].elem_type == T.DOUBLE:
        return True
    lists = ("target_weights", "class_weights", "base_values")
    doubles = [node.tensor(f"{n}_as_tensor") for n in lists if f"{n}_as_tensor" in node.attributes]
    return not all(fits_float(values) for values in doubles)


def _base(node: Node) -> Array | None:
    base = either(node, "base_values")
    return base if base.size else None


def _transformed(
    node: Node,
    op: Builder,
    forest: Forest,
    targets: int,
    how: str = "SUM",
    scores: Value | None = None,
) -> Value:
    """Returns the transformed scores; TreeEnsemble computes SOFTMAX_ZERO and PROBIT itself."""
    post = node.str("post_transform")
    if post in TRANSFORMS[3:]:
        return _scores(node, op, forest, targets, how, post)
    y = _scores(node, op, forest, targets, how) if scores is None else scores
    # The other two are written as nodes, because a runtime confuses their codes in TreeEnsemble.
    if post == "LOGISTIC":
        return op.Sigmoid(y)
    return op.Softmax(y, axis=1) if post == "SOFTMAX" else y


@adapter("TreeEnsembleClassifier", 4, 5, domain=ML, since=9, ignores=HINTS)
def classifier_4_5(node: Node, op: Builder) -> Result:
    """TreeEnsembleClassifier becomes TreeEnsemble of ai.onnx.ml 5, ArgMax, and Gather of labels."""
    words = node.attr("classlabels_strings")
    labels = (
        np.array(node.strings("classlabels_strings"), "O")
        if words
        else np.array(node.ints("classlabels_int64s"), np.int64)
    )
    count, forest = len(labels), read_classic(node, "class")
    base = _base(node)
    if count == 1:
        raise Refusal(Why.AMBIGUOUS, "no specification defines the label of a single class")
    if count == 2 and len(forest.targets) == 1 and (base is None or base.size == 1):
        which, z = _one_sum(node, op, forest, base)
    elif base is not None and base.size != count:
        raise Refusal(Why.AMBIGUOUS, f"there are {base.size} base values for {count} classes")
    else:
        scores = _scores(node, op, forest, count)
        which = op.ArgMax(_of_voted(node, op, forest, scores, count), axis=1, keepdims=0)
        z = _transformed(node, op, forest, count, scores=scores)
    label = op.Gather(op.const(labels), which, axis=0)
    return label, op.Cast(z, to=T.FLOAT) if _in_double(node) else z


def _of_voted(node: Node, op: Builder, forest: Forest, scores: Value, count: int) -> Value:
    """Returns the scores, with minus infinity for classes without votes, which must not win."""
    if _base(node) is not None or forest.always_votes(set(range(count))) or forest.least_weight > 0:
        return scores
    votes = _scores(node, op, counting(forest), count)
    never = op.const(-np.inf, like=scores)
    return op.Where(votes > op.const(0.0, like=scores), scores, never)


def _one_sum(node: Node, op: Builder, forest: Forest, base: Array | None) -> tuple[Value, Value]:
    """Returns the winning class and the scores of both classes if only one class gets votes."""
    post, shares = node.str("post_transform"), forest.least_weight >= 0
    (voted,) = forest.targets
    sure = forest.always_votes({voted})
    if post == "PROBIT" or (base is not None and (voted or not sure)):
        raise Refusal(
            Why.AMBIGUOUS, "no specification defines the scores of two classes from these votes"
        )
    if voted:
        scores = _scores(node, op, forest, 2)
        z = _transformed(node, op, forest, 2, scores=scores)
        second = op.Gather(scores, op.const([1]), axis=1)
        if not sure:
            votes = op.Gather(_scores(node, op, counting(forest), 2), op.const([1]), axis=1)
            alone = [0.5, 0.5] if post == "LOGISTIC" else [float(shares), 0.0]
            z = op.Where(votes > op.const(0.0, like=z), z, op.const([alone], like=z))
    else:
        second = _scores(node, op, forest, 1)
        rest = 1.0 - second if shares and post != "LOGISTIC" else -second
        z = op.Concat(rest, second, axis=1)
        z = op.Sigmoid(z) if post == "LOGISTIC" else z
    wins = second > op.const(0.5 if shares else 0.0, like=second)
    return op.Cast(op.Reshape(wins, op.const([-1])), to=T.INT64), z


# ai.onnx.ml 5 deprecated both operators; a model with them at version 5 may still convert down.
DEPRECATED_5_DOWN = boundary(
    5, "TreeEnsembleClassifier:dca779 TreeEnsembleRegressor:fbe62a", domain=ML, directions="down"
)


@adapter("TreeEnsemble", 5, 4, domain=ML, since=7, handles_types=True, ignores=HINTS)
def tree_ensemble_5_4(node: Node, op: Builder) -> Result:
    """Below ai.onnx.ml 5, TreeEnsemble is written as TreeEnsembleRegressor."""
    forest, post = read_ensemble(node), TRANSFORMS[node.int("post_transform")]
    how = WAYS[node.int("aggregate_function")]
    x = node["X"]
    half = x.elem_type == T.FLOAT16
    if x.elem_type == T.DOUBLE:
        y = _of_doubles(node, op, forest, how, post)
    else:
        transform = post if post in TRANSFORMS[3:] else "NONE"
        named: dict[str, Any] = {"aggregate_function": how, "post_transform": transform}
        named |= {"n_targets": node.int("n_targets"), **write_classic(forest)}
        x = op.Cast(x, to=T.FLOAT) if half else x
        y = op.emit("TreeEnsembleRegressor", x, domain=ML, **named)
    if post == "LOGISTIC":
        y = op.Sigmoid(y)
    elif post == "SOFTMAX":
        y = op.Softmax(y, axis=1)
    return op.Cast(y, to=T.FLOAT16) if half else y


def _of_doubles(node: Node, op: Builder, forest: Forest, how: str, post: str) -> Value:
    """Sums votes in double by Gather; TreeEnsembleRegressor only finds the leaf of each tree."""
    targets = node.int("n_targets")
    if post in TRANSFORMS[3:] or (how in ("MIN", "MAX") and targets > 1):
        raise Refusal(Why.NOT_EXPRESSIBLE, "TreeEnsembleRegressor has no double output")
    leaves = list(forest.leaves)
    table = np.zeros((len(leaves), targets))
    for number, leaf in enumerate(leaves):
        for target, weight in leaf.votes:
            table[number, target] = weight
    named = write_classic(numbered(forest))
    named["target_ids"] = named["target_treeids"]
    named["nodes_values_as_tensor"] = np.array(named.pop("nodes_values"))
    reached = op.emit(
        "TreeEnsembleRegressor", node["X"], domain=ML, n_targets=len(forest.roots), **named
    )
    votes = op.Gather(op.const(table, T.DOUBLE), op.Cast(reached, to=T.INT64), axis=0)
    if how in ("MIN", "MAX"):
        reduce = op.ReduceMin if how == "MIN" else op.ReduceMax
        return reduce(votes, op.const([1]), keepdims=0)
    total = op.ReduceSum(votes, op.const([1]), keepdims=0)
    return total / op.const(len(forest.roots), T.DOUBLE) if how == "AVERAGE" else total
