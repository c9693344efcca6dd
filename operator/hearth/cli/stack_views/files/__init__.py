"""Stacks in files: validation and rendered manifests."""
