"""Stores fed by watches and by the operator's own writes, with indexes. Must not know what objects mean."""
