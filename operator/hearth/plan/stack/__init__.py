"""Decisions that involve several resources: order, cleanup and suspension."""
