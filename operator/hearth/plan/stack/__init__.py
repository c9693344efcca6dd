"""Decisions across resources: order, cleanup, suspension. Must not know how a single resource is assessed."""
