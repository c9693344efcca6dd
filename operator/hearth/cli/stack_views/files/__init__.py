"""Stacks in files: their mistakes, and the manifests that they give. Pure."""
