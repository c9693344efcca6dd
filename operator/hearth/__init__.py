"""Hearth, a Kubernetes operator that keeps Stacks converged.

Contains only the version, so importing it is cheap and loads no other layer.
"""

__version__ = "0.1.0"
