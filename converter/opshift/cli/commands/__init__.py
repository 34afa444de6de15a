# SPDX-License-Identifier: Apache-2.0
"""One command in each module, called `command`; none imports onnx before it runs."""
