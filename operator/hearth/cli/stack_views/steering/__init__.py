"""The writes of verbs, and the goals to wait for."""
