"""How large and how fast converted models are."""
