"""Parses and evaluates `spec.environment`: breakpoints and restricted actions."""
