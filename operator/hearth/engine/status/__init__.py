"""Writes the statuses and Events of Stacks, at a bounded rate. Must not decide what they say."""
