# SPDX-License-Identifier: Apache-2.0
"""Questions about a model without a conversion: its content, its versions and its runtimes."""
