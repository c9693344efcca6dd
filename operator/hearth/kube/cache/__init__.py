"""Caches of Kubernetes objects, updated by watches and by the operator's own writes."""
