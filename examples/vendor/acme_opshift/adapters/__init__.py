# SPDX-License-Identifier: Apache-2.0
"""One file per operator family of com.acme."""
