"""Compilation of a template to an immutable blueprint. Must not know the cluster beyond kinds and schemas."""
