"""Compilation of what changed since the last blueprint. Its result is that of a compilation from nothing."""
