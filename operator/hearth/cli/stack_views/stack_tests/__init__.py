"""Tests of Stacks in files: their format, what they expect, and their results. Pure."""
