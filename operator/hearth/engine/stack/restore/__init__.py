"""Replacement of claims that are no resources of a template, in a restore."""
