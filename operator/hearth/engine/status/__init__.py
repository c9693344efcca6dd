"""Writes Stack statuses and Events at a limited rate."""
