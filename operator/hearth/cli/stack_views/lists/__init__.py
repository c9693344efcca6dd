"""Stacks, revisions and Events as rows."""
