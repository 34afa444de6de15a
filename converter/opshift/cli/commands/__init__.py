# SPDX-License-Identifier: Apache-2.0
"""The subcommands of opshift: each module defines `command` and imports onnx only when it runs."""
