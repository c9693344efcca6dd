"""Adapters for a Kubernetes API server, and the only package of the operator that sends requests to one."""
