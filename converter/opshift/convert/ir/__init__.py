# SPDX-License-Identifier: Apache-2.0
"""Content that an IR version added: each kind is a row of `features`."""
