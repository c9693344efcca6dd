"""Values that planning passes on: steps, statuses, desired objects, in-memory state. Must not decide."""
