"""Health and suspend rules by kind, with their data files.

A result depends only on one object and its kind's schema.
"""
