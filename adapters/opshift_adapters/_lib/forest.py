# SPDX-License-Identifier: Apache-2.0
"""Decision trees as a graph of splits and leaves, read from and written to both ONNX forms."""

import itertools
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from typing import Any

from opshift.adapter import Array, InvalidModel, Node, Refusal, Why, np

from opshift_adapters._lib.kinds import fits_float

MODES = tuple(f"BRANCH_{test}" for test in ("LEQ", "LT", "GTE", "GT", "EQ", "NEQ", "MEMBER"))

MOST = 100_000  # nodes of a written tree, or ten times the nodes that the ensemble has


@dataclass(frozen=True, slots=True)
class Split:
    """An inner node of a decision tree: its test, and the child for each result of the test."""

    feature: int
    mode: str
    value: Any
    true: int
    false: int
    missing: int
    members: tuple[float, ...] = ()


@dataclass(frozen=True, slots=True)
class Leaf:
    """The end of a tree: the weight that it adds to each target."""

    votes: tuple[tuple[int, Any], ...]


@dataclass(frozen=True, slots=True)
class Forest:
    """All nodes of all decision trees in one list, and the indices of the roots."""

    nodes: tuple[Split | Leaf, ...]
    roots: tuple[int, ...]

    @property
    def leaves(self) -> Iterator[Leaf]:
        return (node for node in self.nodes if isinstance(node, Leaf))

    @property
    def most_votes(self) -> int:
        return max((len(leaf.votes) for leaf in self.leaves), default=0)

    @property
    def least_votes(self) -> int:
        return min((len(leaf.votes) for leaf in self.leaves), default=0)

    @property
    def targets(self) -> set[int]:
        """Returns the targets that at least one leaf votes for."""
        return {target for leaf in self.leaves for target, _ in leaf.votes}

    @property
    def least_weight(self) -> float:
        return min((weight for leaf in self.leaves for _, weight in leaf.votes), default=0.0)

    def always_votes(self, targets: set[int]) -> bool:
        """Returns whether each of these targets gets a vote, whichever leaves are reached."""
        sure: set[int] = set()
        for root in self.roots:
            reached = [
                {target for target, _ in leaf.votes}
                for leaf in map(self.nodes.__getitem__, self.below(root))
                if isinstance(leaf, Leaf)
            ]
            sure |= set.intersection(*reached)
        return sure >= targets

    def after(self, index: int) -> tuple[int, ...]:
        """Returns the indices of the children of a node."""
        node = self.nodes[index]
        return (node.false, node.true) if isinstance(node, Split) else ()

    def below(self, root: int) -> list[int]:
        """Returns the nodes of one tree, each parent before its children."""
        members, waiting, visited = [], [root], {root}
        while waiting:
            index = waiting.pop()
            members.append(index)
            for child in self.after(index):
                if child not in visited:
                    visited.add(child)
                    waiting.append(child)
        return members


def grown(node: Node, nodes: list[Split | Leaf], roots: Iterable[int]) -> Forest:
    """Builds a forest; raises InvalidModel if a path does not end at a leaf."""
    forest = Forest(tuple(nodes), tuple(roots))
    state = dict.fromkeys(range(len(nodes)), "new")
    waiting = [*state, *forest.roots]
    while waiting:
        index = waiting[-1]
        if index not in state:
            raise InvalidModel(f"{node.op} {node.name!r} refers to a node that does not exist")
        if state[index] != "new":
            state[waiting.pop()] = "ends"
            continue
        state[index] = "open"
        ends = forest.after(index)
        if any(state.get(end) == "open" for end in ends):
            raise InvalidModel(f"{node.op} {node.name!r} has a tree with a cycle")
        waiting += ends
    return forest


def with_constant(forest: Forest, base: Array) -> Forest:
    """Adds a tree that consists of one leaf, which adds the base values."""
    leaf = Leaf(tuple(enumerate(base.tolist())))
    return Forest((*forest.nodes, leaf), (*forest.roots, len(forest.nodes)))


def counting(forest: Forest) -> Forest:
    """Returns the same trees with the weight 1 for every vote."""
    nodes = (
        Leaf(tuple((target, 1.0) for target, _ in node.votes)) if isinstance(node, Leaf) else node
        for node in forest.nodes
    )
    return replace(forest, nodes=tuple(nodes))


def numbered(forest: Forest) -> Forest:
    """Returns the same trees, in which each leaf has its own index as its weight."""
    numbers = itertools.count()
    nodes = (Leaf(((0, next(numbers)),)) if isinstance(n, Leaf) else n for n in forest.nodes)
    return replace(forest, nodes=tuple(nodes))


def in_float(values: Array) -> Array:
    """Casts the numbers to float32; refuses numbers that float32 cannot represent."""
    if not fits_float(values):
        raise Refusal(Why.NOT_EXPRESSIBLE, "double tree parameters need ai.onnx.ml 3")
    return values.astype(np.float32)


def float_splits(values: Array, modes: list[str]) -> Array:
    """Returns float thresholds that split all float inputs in the same way as these thresholds."""
    if values.dtype == np.float32:
        return values
    with np.errstate(over="ignore"):
        near = values.astype(np.float32)
    low = np.where(near > values, np.nextafter(near, np.float32(-np.inf)), near)
    high = np.where(near < values, np.nextafter(near, np.float32(np.inf)), near)
    equal = np.where(near == values, near, np.float32(np.nan))
    bounds = (low, high, high, low, equal, equal, near)
    chosen = dict(zip((*MODES[:-1], "LEAF"), bounds, strict=True))
    return np.array([chosen[mode][i] for i, mode in enumerate(modes)], dtype=np.float32)


def narrowed(forest: Forest) -> Forest:
    """Returns the forest with float32 thresholds that sort all float32 inputs as before."""
    modes = [node.mode if isinstance(node, Split) else "LEAF" for node in forest.nodes]
    values = np.array([node.value if isinstance(node, Split) else 0 for node in forest.nodes])
    in_float(np.array([weight for leaf in forest.leaves for _, weight in leaf.votes]))
    nodes = tuple(
        replace(node, value=value) if isinstance(node, Split) else node
        for node, value in zip(forest.nodes, float_splits(values, modes), strict=True)
    )
    return Forest(nodes, forest.roots)


def read_classic(node: Node, votes: str) -> Forest:
    """Reads a forest from lists of node ids; `votes` is the prefix `target` or `class`."""
    trees, ids = node.ints("nodes_treeids"), node.ints("nodes_nodeids")
    modes = node.strings("nodes_modes")
    values = either(node, "nodes_values")
    place = {key: i for i, key in enumerate(zip(trees, ids, strict=True))}
    missing = node.ints_or_none("nodes_missing_value_tracks_true") or [0] * len(ids)
    features = node.ints("nodes_featureids")
    true, false = node.ints("nodes_truenodeids"), node.ints("nodes_falsenodeids")
    rows_by_tree: dict[int, list[tuple[int, Any]]] = {}
    lists = (node.ints(f"{votes}_{name}") for name in ("treeids", "nodeids", "ids"))
    for tree, leaf, target, weight in zip(*lists, either(node, f"{votes}_weights"), strict=True):
        rows_by_tree.setdefault(place[tree, leaf], []).append((target, weight))
    nodes: list[Split | Leaf] = []
    children: set[int] = set()
    for i, mode in enumerate(modes):
        if mode == "LEAF":
            nodes.append(Leaf(tuple(rows_by_tree.get(i, ()))))
            continue
        ends = place[trees[i], true[i]], place[trees[i], false[i]]
        children.update(ends)
        nodes.append(Split(features[i], mode, values[i], *ends, missing[i]))
    roots = tuple(i for i in range(len(nodes)) if i not in children)
    if len(roots) != len(set(trees)):
        raise Refusal(Why.AMBIGUOUS, "the nodes of some tree id do not form exactly one tree")
    return grown(node, nodes, roots)


def either(node: Node, name: str) -> Array:
    """Returns an attribute: a list of floats, or the tensor `*_as_tensor` in its place."""
    if f"{name}_as_tensor" in node.attributes:
        return node.tensor(f"{name}_as_tensor").ravel()
    return np.array(node.attr(name) or [], dtype=np.float32)


def write_classic(forest: Forest) -> dict[str, Any]:
    """Writes a forest as lists of node ids; a set membership becomes one test per member."""
    of_nodes = "treeids nodeids featureids modes values truenodeids falsenodeids"
    rows: dict[str, list[Any]] = {f"nodes_{name}": [] for name in of_nodes.split()}
    rows["nodes_missing_value_tracks_true"] = []
    rows |= {f"target_{name}": [] for name in ("treeids", "nodeids", "ids", "weights")}
    for tree, root in enumerate(forest.roots):
        _write_tree(forest, tree, root, rows)
    return rows


def _write_tree(forest: Forest, tree: int, root: int, rows: dict[str, list[Any]]) -> None:
    start = len(rows["nodes_nodeids"])
    waiting: list[tuple[int, int, str, int]] = [(root, 0, "", 0)]
    while waiting:
        index, member, side, parent = waiting.pop()
        node, own = forest.nodes[index], len(rows["nodes_nodeids"]) - start
        if own > max(MOST, 10 * len(forest.nodes)):
            raise Refusal(
                Why.NOT_EXPRESSIBLE,
                "branches share nodes, and a copy for each branch would make the tree too large",
            )
        if side:
            rows[f"nodes_{side}nodeids"][start + parent] = own
        row: dict[str, Any] = {"treeids": tree, "nodeids": own, "truenodeids": 0, "falsenodeids": 0}
        if isinstance(node, Leaf):
            row |= {"featureids": 0, "modes": "LEAF", "values": 0.0, "missing_value_tracks_true": 0}
            for target, weight in node.votes:
                vote = {"treeids": tree, "nodeids": own, "ids": target, "weights": float(weight)}
                for name, entry in vote.items():
                    rows[f"target_{name}"].append(entry)
        else:
            row |= {"featureids": node.feature, "missing_value_tracks_true": node.missing}
            mode = "BRANCH_EQ" if node.mode == "BRANCH_MEMBER" else node.mode
            row |= {"modes": mode, "values": float(_tested(node, member))}
            again = member + 1 < len(node.members)
            waiting.append(
                (index, member + 1, "false", own) if again else (node.false, 0, "false", own)
            )
            waiting.append((node.true, 0, "true", own))
        for name, entry in row.items():
            rows[f"nodes_{name}"].append(entry)


def _tested(split: Split, member: int) -> Any:
    if split.mode != "BRANCH_MEMBER":
        return split.value
    return split.members[member] if split.members else np.nan


def read_ensemble(node: Node) -> Forest:
    """Reads a forest from the separate lists of splits and leaves of TreeEnsemble."""
    modes = node.tensor("nodes_modes").tolist()
    splits, weights = node.tensor("nodes_splits"), node.tensor("leaf_weights")
    missing = node.ints_or_none("nodes_missing_value_tracks_true") or [0] * len(modes)
    member = MODES.index("BRANCH_MEMBER")
    members = _members(node, modes.count(member))
    ends = {}
    for side in ("true", "false"):
        ids, leafs = node.ints(f"nodes_{side}nodeids"), node.ints(f"nodes_{side}leafs")
        ends[side] = [i + len(modes) if leaf else i for i, leaf in zip(ids, leafs, strict=True)]
    features = node.ints("nodes_featureids")
    columns = zip(features, splits, ends["true"], ends["false"], missing, modes, strict=True)
    nodes: list[Split | Leaf] = [
        Split(at, MODES[mode], value, true, false, gap, next(members) if mode == member else ())
        for at, value, true, false, gap, mode in columns
    ]
    targets = node.ints("leaf_targetids")
    nodes += [Leaf(((target, weight),)) for target, weight in zip(targets, weights, strict=True)]
    return grown(node, nodes, node.ints("tree_roots"))


def _members(node: Node, count: int) -> Iterator[tuple[float, ...]]:
    """Yields the value sets of the membership tests; in the attribute, NaN separates the sets."""
    sets: list[list[float]] = [[]]
    if "membership_values" in node.attributes:
        for value in node.tensor("membership_values").ravel().tolist():
            if np.isnan(value):
                sets.append([])
            else:
                sets[-1].append(value)
    if len(sets) < count:
        raise Refusal(Why.AMBIGUOUS, f"{count} membership tests have {len(sets)} sets of values")
    return iter([tuple(members) for members in sets])


def copies(forest: Forest, *, repeat: bool) -> Forest:
    """Copies the trees until a leaf has one vote; spare copies repeat its vote or add 0."""
    nodes: list[Split | Leaf] = []
    roots: list[int] = []
    for slot in range(max(forest.most_votes, 1)):
        base = len(nodes)
        for node in forest.nodes:
            if isinstance(node, Split):
                nodes.append(replace(node, true=node.true + base, false=node.false + base))
            else:
                spare = node.votes[0] if repeat else (0, 0.0)
                nodes.append(Leaf((node.votes[slot] if slot < len(node.votes) else spare,)))
        roots += [root + base for root in forest.roots]
    return Forest(tuple(nodes), tuple(roots))


def write_ensemble(forest: Forest, targets: int, kind: Any) -> dict[str, Any]:
    """Writes the lists of TreeEnsemble; each leaf has one vote, and each root becomes a split."""
    nodes = list(forest.nodes)
    roots = []
    for root in forest.roots:
        if isinstance(nodes[root], Leaf):
            nodes.append(Split(0, MODES[0], 0.0, root, root, 0))
            root = len(nodes) - 1
        roots.append(root)
    inner: dict[int, int] = {}
    outer: dict[int, int] = {}
    for i, node in enumerate(nodes):
        own = inner if isinstance(node, Split) else outer
        own[i] = len(own)
    splits = [node for node in nodes if isinstance(node, Split)]
    votes = [node.votes[0] for node in nodes if isinstance(node, Leaf)]

    def led(ends: list[int]) -> tuple[list[int], list[int]]:
        return [(inner | outer)[i] for i in ends], [int(i in outer) for i in ends]

    true, true_leafs = led([split.true for split in splits])
    false, false_leafs = led([split.false for split in splits])
    return {
        "n_targets": targets,
        "tree_roots": [inner[root] for root in roots],
        "nodes_featureids": [split.feature for split in splits],
        "nodes_modes": np.array([MODES.index(split.mode) for split in splits], dtype=np.uint8),
        "nodes_splits": np.array([split.value for split in splits], dtype=kind),
        "nodes_missing_value_tracks_true": [split.missing for split in splits],
        "nodes_truenodeids": true,
        "nodes_trueleafs": true_leafs,
        "nodes_falsenodeids": false,
        "nodes_falseleafs": false_leafs,
        "leaf_targetids": [target for target, _ in votes],
        "leaf_weights": np.array([weight for _, weight in votes], dtype=kind),
    }
