"""The structure of a template: every mistake with its path. Must not evaluate expressions."""
