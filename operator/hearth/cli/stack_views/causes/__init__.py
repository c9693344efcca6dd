"""Explains why a Stack is not ready: from the Stack down to the root cause, with a command for each cause."""
