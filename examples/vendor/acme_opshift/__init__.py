# SPDX-License-Identifier: Apache-2.0
"""What opshift needs to know about the domain com.acme."""
