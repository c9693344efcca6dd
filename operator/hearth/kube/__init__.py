"""The adapter to a real Kubernetes API server: the only package that speaks HTTP."""
