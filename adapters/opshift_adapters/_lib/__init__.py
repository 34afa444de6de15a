# SPDX-License-Identifier: Apache-2.0
"""Code that several families of adapters share; this package declares no adapter."""
