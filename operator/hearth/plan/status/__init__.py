"""The status object: phase, conditions, problems. Must not know when the operator writes it."""
