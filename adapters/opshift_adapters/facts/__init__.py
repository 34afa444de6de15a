"""Known facts about operators at any version."""
