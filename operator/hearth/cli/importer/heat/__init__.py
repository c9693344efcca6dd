"""Converts Heat templates (HOT) and their environments to Stacks."""
