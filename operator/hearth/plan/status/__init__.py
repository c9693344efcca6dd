"""Builds the status of a Stack: phase, conditions and problems."""
