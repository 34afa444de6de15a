# SPDX-License-Identifier: Apache-2.0
"""Code that several families share; no verdict is declared here."""
