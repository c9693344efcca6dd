"""From a definition (template and parameters) to an immutable blueprint, and from values to manifests. Pure."""
