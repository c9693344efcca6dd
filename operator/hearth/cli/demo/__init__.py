"""`hearth demo`: runs a local operator and an example Stack, and suggests commands to try."""
