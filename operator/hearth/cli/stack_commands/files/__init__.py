"""Commands that work on files."""
