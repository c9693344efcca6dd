"""Tests of Stacks in files: their format, the comparison with expectations, and the reports."""
