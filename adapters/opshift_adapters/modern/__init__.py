# SPDX-License-Identifier: Apache-2.0
"""The formulas of `--modernize` that are not derived from an adapter (`mirrored`), and why.

attention           exporters scale the product; the adapter scales both factors by a root
softmax, log_softmax, hardmax
                    older opsets have them, so no adapter writes their formulas; the permutations
                    around them depend on the rank
quantize, dequantize
                    limits and constants depend on the type of the codes, shapes on rank and axis
gelu, hard_swish    exporters write other forms than the adapters
"""
