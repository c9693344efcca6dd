"""Health and suspend rules for each kind, and their data files.

The health of an object depends only on that object and the schema of its kind.
"""
