"""Owners of objects and of fields; keyed hashes and signatures. Must not know the reaction to a lost field."""
