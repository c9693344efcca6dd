"""The values that decisions pass on: steps, statuses, desired objects, memory. Must not decide."""
