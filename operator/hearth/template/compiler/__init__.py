"""Compiles a template to an immutable blueprint. Of the cluster, it knows only kinds and schemas."""
