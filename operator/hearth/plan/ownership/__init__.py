"""Ownership of objects and fields, keyed hashes and signatures."""
