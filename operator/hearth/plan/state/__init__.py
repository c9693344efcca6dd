"""Values that the planners share: steps, statuses, desired objects and in-memory state."""
