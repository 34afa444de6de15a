"""Operators that choose, place or rank elements."""
