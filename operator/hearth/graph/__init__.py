"""Topological order and cycles of named nodes. Pure."""
