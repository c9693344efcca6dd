"""Reconcilers of idle Stacks are unloaded, and loaded again by the next event."""
