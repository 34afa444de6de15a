# SPDX-License-Identifier: Apache-2.0
"""Defines the reasons for a refusal: each with one sentence, its meaning, and what to do."""

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

The operator of the other version takes this value as an attribute, or its nodes depend on it. But
the model computes the value, or a caller can replace it: an initializer that is also a graph input,
or a value that training changes, is not a constant.

## What to do

If the value depends on the size of an input, fix it with <<shape=INPUT=1,3,224,224>>. Otherwise
make the named value an initializer that is not a graph input, or fold constants before the
conversion (for example with onnxsim).
"""

    NEEDS_TYPE = """\
An element type must be known.

## What it means

The converted nodes depend on the element type of a value. The model does not state this type,
and type inference does not find it. A typical cause is an operator of an unknown domain before the
value.

## What to do

Add the element type of the named value to `value_info`, or export the model with types.
"""

    NEEDS_RANK = """\
A rank must be known.

## What it means

The converted nodes depend on the number of dimensions of a value, for example if a negative axis
becomes a positive axis. The model does not state this number, and shape inference does not
find it.

## What to do

Export the model with shapes, or add the named value with its rank to `value_info` and run onnx's
shape inference.
"""

    NEEDS_SHAPE = """\
A shape must be known.

## What it means

The operator of the other version needs the sizes of a value as numbers. The model states
symbolic sizes or none, and shape inference finds no numbers.

## What to do

Fix the shapes of the inputs with <<shape=INPUT=1,3,224,224>>, export the model with
fixed shapes, or add the named value with its shape to `value_info`.
"""

    NEEDS_STATIC_ATTR = """\
An attribute of a function must be known inside its body.

## What it means

A node inside a function takes an attribute from the call of the function. The converted nodes
depend on this attribute, and inlining the function did not determine its value.

## What to do

Inline the functions of the model (for example with onnx.inliner), then convert it.
"""

    NOT_EXPRESSIBLE = """\
The target version has no operators with the same result.

## What it means

The node computes something that no operator of the target version computes, and no combination of
operators either.

## What to do

Choose the nearest version that the message names, or replace the node before the conversion.
"""

    TYPE_NOT_AVAILABLE = """\
An element type does not exist at the target version.

## What it means

The operator of the target version does not accept this element type, and no computation in another
type gives exactly the same result. If a change of types avoids this, the message names the change,
for example <<types=bfloat16=float>>.

## What to do

Choose the nearest version.
"""

    APPROXIMATE_ONLY = """\
Only an approximate conversion exists.

## What it means

The results of the converted model would differ by more than the rounding of the same arithmetic.
opshift approximates only with permission, and the report lists each approximated node.

## What to do

Allow approximations with <<allow_approximate>>, and compare both models (`opshift verify`, or
`opshift.verify` in Python).
"""

    AMBIGUOUS = """\
The specification does not define which result is right.

## What it means

The specification of the older version allows several results, and runtimes differ. A conversion
would be a guess.

## What to do

Choose the nearest version, or replace the node by nodes whose meaning is defined.
"""

    NO_ADAPTER = """\
No adapter describes this change.

## What it means

The operator changed between the two versions, and no installed package describes how to convert it.
The adapters for the operators of ONNX are installed with opshift. If many operators of ONNX have
this code, the installation is incomplete. If only one operator has the code, opshift has a bug. For
an operator of another domain, the package of that domain is missing.

## What to do

Run `opshift adapters` to see the adapters. If there are none, install opshift again. For another
domain, install the package that describes it, or write an adapter for the operator.
"""

    UNREVIEWED = """\
The installed onnx describes the operator differently than when its adapter was reviewed.

## What it means

A reviewer claimed that the operator keeps its meaning, but for other schemas than the installed
ones. opshift does not apply the claim to schemas that were not reviewed.

## What to do

Install the onnx release for which this opshift was released, or a newer opshift.
"""

    IR_TOO_LOW = """\
The content of the model needs a newer IR version.

## What it means

The requested IR version has no field for some content of the model, such as an element type, a
function or training information.

## What to do

Choose the IR version that the message names, or remove the content with
<<drop_metadata>> or <<drop_training>> if the message names it.
"""

    TARGET_LACKS = """\
The target runtime does not implement an operator with this type and these attributes.

## What it means

The runtime reads the versions of the model, but it has no implementation for this operator, element
type or attribute, and it also lacks the operators of every known replacement.

## What to do

Run `opshift targets NAME` to see what the runtime lacks. Then choose a newer release of this
runtime, or replace the node.
"""

    UNKNOWN_DOMAIN = """\
The versions of a domain are unknown.

## What it means

The model uses operators of a domain that no installed package describes, and an option demands that
such operators are refused.

## What to do

Install the package that describes the domain, or keep its operators as they are with
<<unknown_domains=keep>>.
"""

    DOMAIN_LEFT = """\
The result must not use this operator's domain, and no adapter writes it in ai.onnx.

## What it means

An option names the domains that the result may use. The operator belongs to another domain, and no
adapter replaces it by operators of ONNX.

## What to do

Add its domain to <<domains=DOMAIN>>, replace the node, or write an adapter with `leaving` from
`opshift.adapter`.
"""

    UNSUPPORTED_FIELD = """\
The adapter of an operator does not support an attribute or input of the node.

## What it means

The installed description of the operator does not have this attribute, input or type, or no adapter
reads it. Its meaning is unknown. The name may be misspelled, or belong to a newer release of a
runtime.

## What to do

Correct or remove the attribute or input if the runtime does not have it either. Otherwise keep the
domain of the operator in the result, or install a newer release of the package with its adapter.
"""

    @property
    def sentence(self) -> str:
        """The reason as a sentence."""
        return of_reason(self.name, self.value).sentence

    @property
    def cure(self) -> str:
        """The action that opshift suggests to the user."""
        return of_reason(self.name, self.value).cure

    def __repr__(self) -> str:
        return str(self)
