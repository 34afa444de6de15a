# SPDX-License-Identifier: Apache-2.0
"""Content that an IR version brought: each kind is a row of `features`, which the others follow."""
