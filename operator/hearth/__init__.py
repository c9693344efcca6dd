"""Hearth: a Kubernetes operator that keeps Stacks converged.

This module holds only the version, so that importing it costs nothing and pulls in no layer.
"""

__version__ = "0.1.0"
