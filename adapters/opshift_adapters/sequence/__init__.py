"""Sequences, optional values and control flow."""
