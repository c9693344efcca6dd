"""The status object: phase, conditions, problems. Must not know when it is written."""
