"""Runs converted models in the runtimes that they were converted for."""
