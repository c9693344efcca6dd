"""A Stack with its objects, and its tree."""
