"""Order of names: which name precedes which, and cycles that make an order impossible.

Pure. Must not know templates.
"""
