# SPDX-License-Identifier: Apache-2.0
"""The reasons for a refusal: each in one sentence, what it means, and what to do about it."""

from __future__ import annotations

import enum

from opshift.codes.page_text import of_reason


class Why(enum.Enum):
    """The closed list of reasons for a refusal, so that a run over many models can count them.

    The text of a reason is the page of its code, which `opshift explain` prints.
    """

    NEEDS_CONSTANT = """\
A value must be known before the model runs.

## What it means

The older or newer form of the operator holds this value as an attribute, or its form depends on the
value. The model computes the value, or it lets a caller replace it: an initializer that is also a
graph input, or a value that training changes, is not a constant.

## What to do

Make the named value an initializer that is not a graph input, or fold constants before the
conversion (for example with onnxsim).
"""

    NEEDS_TYPE = """\
An element type must be known.

## What it means

The form of the operator depends on the element type of a value, and neither the model nor type
inference gives it. This happens behind operators of unknown domains.

## What to do

Add the element type of the named value to `value_info`, or export the model with types.
"""

    NEEDS_RANK = """\
A rank must be known.

## What it means

The form of the operator depends on the number of dimensions of a value, for example where a
negative axis becomes a positive one. Neither the model nor shape inference gives it.

## What to do

Export the model with shapes, or add the named value with its rank to `value_info` and run onnx's
shape inference.
"""

    NEEDS_SHAPE = """\
A shape must be known.

## What it means

The other form of the operator needs the sizes of a value as numbers. The model gives a symbol or
nothing, and shape inference finds no number.

## What to do

Export the model with fixed shapes, or add the named value with its shape to `value_info`.
"""

    NEEDS_STATIC_ATTR = """\
An attribute of a function must be known inside its body.

## What it means

A node inside a function takes an attribute from the call. The form of the node depends on it, and
writing the function out at its calls did not give a value.

## What to do

Inline the functions of the model (for example with onnx.inliner), then convert it.
"""

    NOT_EXPRESSIBLE = """\
The target version has no equal form.

## What it means

The node uses something that the operators of the target version cannot compute, not even together.

## What to do

Choose the nearest version that the message names, or replace the node before the conversion.
"""

    TYPE_NOT_AVAILABLE = """\
An element type does not exist at the target version.

## What it means

The operator of the target version does not accept this element type, and no exact form in another
type exists. If a change of types avoids this, the message names it, for example
<<types=bfloat16=float>>.

## What to do

Choose the nearest version.
"""

    APPROXIMATE_ONLY = """\
Only an approximate form exists.

## What it means

The result would differ by more than the rounding of the same arithmetic. opshift never does this
without permission. With permission, the report lists each such node.

## What to do

Allow it with <<allow_approximate>>, and compare both models (`opshift verify`, or `opshift.verify`
in Python).
"""

    AMBIGUOUS = """\
The specification does not say which result is right.

## What it means

The text of the older version allows several results, and runtimes differ. A conversion would have
to guess.

## What to do

Choose the nearest version, or write the node in a form whose meaning is clear.
"""

    NO_ADAPTER = """\
No adapter describes this change.

## What it means

The operator changed between the two versions, and no installed package describes how to convert it.
The adapters for the operators of ONNX are installed with opshift. If many operators of ONNX have
this code, the installation is incomplete. If one operator has it, this is a defect of opshift. For
an operator of another domain, the package of that domain is missing.

## What to do

Run `opshift adapters` to see the adapters. If there are none, install opshift again. For another
domain, install the package that describes it, or write an adapter for the operator.
"""

    UNREVIEWED = """\
The installed onnx describes the operator differently than when its adapter was reviewed.

## What it means

The claim that nothing changes was made for other schemas. opshift does not trust it for these.

## What to do

Install the onnx release that this opshift was released for, or a newer opshift.
"""

    IR_TOO_LOW = """\
The content of the model needs a newer IR version.

## What it means

The wanted IR version has no place for something that the model holds, such as an element type, a
function or training information.

## What to do

Choose the IR version that the message names, or remove the content with
<<drop_metadata>> or <<drop_training>> if the message names it.
"""

    TARGET_LACKS = """\
The target runtime lacks an operator or a form of it.

## What it means

The versions fit, but the runtime that the request names has no implementation for this operator, or
not for this type or attribute, and no equal form exists that it has.

## What to do

Run `opshift targets NAME` to see what the runtime lacks, and choose a newer release of it or
replace the node.
"""

    UNKNOWN_DOMAIN = """\
The versions of a domain are unknown.

## What it means

The model uses operators of a domain that no installed package describes, and the request demands
that such operators are refused.

## What to do

Install the package that describes the domain, or keep its operators as they are with
<<unknown_domains=keep>>.
"""

    DOMAIN_LEFT = """\
The result must not use this operator's domain, and no adapter writes it in ai.onnx.

## What it means

The request names the domains that the result may use. The operator belongs to another domain, and
opshift does not know a form of it in the operators of ONNX.

## What to do

Add its domain to <<domains=DOMAIN>>, replace the node, or write an adapter with `leaving` from
`opshift.adapter`.
"""

    @property
    def sentence(self) -> str:
        """The reason in a sentence."""
        return of_reason(self.name, self.value).sentence

    @property
    def cure(self) -> str:
        """The suggested action."""
        return of_reason(self.name, self.value).cure

    def __repr__(self) -> str:
        return str(self)
