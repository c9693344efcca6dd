"""Stacks, revisions and Events as table rows."""
