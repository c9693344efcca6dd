"""Compiles a definition (template and parameters) to an immutable blueprint, and evaluates its manifests. Pure."""
