"""Compilation of a definition (template and parameters) to an immutable blueprint, and of values to manifests. Pure."""
