"""Adapter to a Kubernetes API server: the only package that sends HTTP requests."""
