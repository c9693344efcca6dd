"""Parses the structure of a template and reports each error with its path. Expressions are not evaluated."""
