# SPDX-License-Identifier: Apache-2.0
"""Differences between onnxruntime and the specification; conversions follow the specification."""

from opshift.adapter import Node, differs, np

from opshift_adapters._lib.kinds import UNSIGNED
from opshift_adapters._lib.windows import knows

ML = "ai.onnx.ml"


@differs("LabelEncoder", domain=ML)
def keys_that_match_nothing(node: Node) -> str | None:
    """Reports keys of LabelEncoder that are NaN or equal."""
    named = next((name for name in node.attributes if name.startswith("keys_")), None)
    if named is None or node.schema is None:
        return None
    keys = node.tensor(named).ravel().tolist() if named == "keys_tensor" else node.attr(named)
    if node.schema.since < 4 and any(key != key for key in keys):
        return "a NaN key of LabelEncoder matches no value"
    if node.schema.since >= 4 and len(set(keys)) < len(keys):
        return "the first of several equal keys in LabelEncoder counts, not the last"
    return None


@differs("OneHot")
def indices_from_the_end(node: Node) -> str | None:
    """Reports negative indices of OneHot below opset 11."""
    indices = node["indices"]
    constant = indices.const_or_none()
    if node.schema is None or node.schema.since >= 11 or indices.elem_type_or_none in UNSIGNED:
        return None
    if constant is not None and not (constant < 0).any():
        return None
    return "a negative index of OneHot sets an element from the end, but should set none"


@differs("Dropout")
def mask_of_nothing(node: Node) -> str | None:
    """Reports that the mask output of Dropout from opset 7 to 11 is used."""
    mask = node.output("mask")
    since = node.schema.since if node.schema is not None else 0
    if mask is None or not mask.used or not 7 <= since < 12:
        return None
    return "the mask of Dropout is false everywhere, but should be true, because nothing is dropped"


@differs("TreeEnsembleRegressor", domain=ML)
def transform_of_one_target(node: Node) -> str | None:
    """Reports LOGISTIC in a TreeEnsembleRegressor with a single target."""
    if node.attr("n_targets") == 1 and node.str("post_transform") == "LOGISTIC":
        return "post_transform is ignored if there is a single target"
    return None


@differs("TreeEnsembleClassifier", domain=ML)
def votes_for_both_classes(node: Node) -> str | None:
    """Reports a TreeEnsembleClassifier of two classes that both have votes or base values."""
    labels = node.attr("classlabels_strings") or node.attr("classlabels_int64s")
    if labels is None or len(labels) != 2:
        return None
    bases = {"base_values", "base_values_as_tensor"} & node.attributes.keys()
    if any(
        np.size(node.attr(name) if name == "base_values" else node.tensor(name)) == 2
        for name in bases
    ):
        return "of two base values for two classes, only one is used"
    if len(set(node.ints("class_ids"))) < 2:
        return None
    return "of two classes with votes, the second wins if its score is above zero"


@differs("TreeEnsemble", domain=ML)
def exchanged_transforms(node: Node) -> str | None:
    """Reports TreeEnsembles with the transform SOFTMAX or LOGISTIC, whose codes are swapped."""
    texts = {1: "SOFTMAX is computed as LOGISTIC", 2: "LOGISTIC is computed as SOFTMAX"}
    return texts.get(node.int("post_transform"))


@differs("AveragePool MaxPool LpPool")
def padding_without_dilations(node: Node) -> str | None:
    """Reports a pooling with `auto_pad` SAME_UPPER or SAME_LOWER and with dilations."""
    dilations = node.ints_or_none("dilations") if knows(node, "dilations") else None
    if not node.str("auto_pad").startswith("SAME") or not dilations or set(dilations) == {1}:
        return None
    return "the padding of auto_pad is computed as if there were no dilations"


@differs("Clip")
def bounds_that_are_nan(node: Node) -> str | None:
    """Reports bounds of Clip that are NaN."""
    for name in ("min", "max"):
        if knows(node, name):
            bound = np.array(node.attr(name) if node.has(name) else 0.0)
        else:
            value = node.input(name)
            constant = value and value.const_or_none()
            bound = np.array(0.0) if constant is None else constant
        if bound.dtype.kind == "f" and np.isnan(bound).any():
            return f"{name} of Clip is NaN and has no effect"
    return None


@differs("Squeeze")
def axes_of_none(node: Node) -> str | None:
    """Reports a Squeeze with an empty list as the input `axes`."""
    positions = node.schema.input_positions if node.schema is not None else {}
    axes = node.input("axes") if "axes" in positions else None
    constant = axes and axes.const_or_none()
    if constant is None or constant.size:
        return None
    return "an empty list of axes in Squeeze removes every axis of size 1"


@differs("MaxUnpool")
def places_in_a_larger_shape(node: Node) -> str | None:
    """Reports a MaxUnpool with the input `output_shape`."""
    if node.input("output_shape") is None:
        return None
    return "the indices of MaxUnpool refer to output_shape, not to the shape of the unpooled X"


@differs("Resize")
def a_size_that_stays_under_a_filter(node: Node) -> str | None:
    """Reports a Resize with `antialias` in which an axis may keep its size at a scale above 1."""
    if not knows(node, "antialias") or not node.int("antialias"):
        return None
    scales = node.input("scales")
    if scales is None and node.str("keep_aspect_ratio_policy") == "stretch":
        return None
    known_scales = scales and scales.const_or_none()
    if known_scales is not None and not ((known_scales > 1) & (known_scales < 2)).any():
        return None  # only scales from 1 to 2 can keep a size
    return "Resize copies an axis that keeps its size, although its scale is not 1"
